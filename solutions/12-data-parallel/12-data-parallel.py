# %% [markdown]
# # Lesson 12: data parallelism by hand
#
# One model, many processors. In this lesson you write what makes them one: who works on what, and what the loss of all
# of them is.
#
# At the end of it you can
#
# - share one update out over any number of processes, and get the same model,
# - say why the gradient of eight processes is that of one.
#
# **Time:** about an hour. **In the paper:** sections 5.1 and 5.2 of
# Vaswani et al. 2017, [Attention Is All You Need](https://arxiv.org/abs/1706.03762).

# %% tags=["see"]
from course_lib.charts import architecture_map, show_offline
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(built=finished_exercises(), current=["shard", "global_token_mean"])

# %% [markdown]
# Run the next cell once.

# %% given="setup"
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import pandas as pd
import torch
import torch.distributed as dist
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.checks import check

Item = TypeVar("Item")

# %% [markdown]
# ## 1. Who works on what?
#
# The paper's base model was trained on eight GPUs. The usual way is **data parallelism**: every process has the whole
# model, all of them with the same weights, and each works on other sentences. After the backward pass they add up their
# gradients, and all make the same update. So they stay the same for ever, and nobody has to send weights around.
#
# | word | in code | what it is |
# |---|---|---|
# | world size | `world_size` | how many processes there are |
# | rank | `rank` | the number of a process, from 0 to `world_size` - 1 |
# | process group | `dist` | those who talk to each other: `torch.distributed` |
# | all-reduce | `dist.all_reduce(t)` | every process puts a tensor in, and has the sum of all in its place afterwards |
#
# There are three rules, and they hold for this whole lesson. **Each batch is one process's**: if it were two's, it
# would count twice. **Each batch is somebody's**: what nobody gets, nobody learns. And **the result must not depend on
# the number of processes**: an update on eight GPUs has to be the one that you would have made alone, only sooner.
#
# How do we deal the batches? A plan is often sorted by length, as in lesson 10, and a long batch takes longer than a
# short one. All processes wait for the slowest. So deal them like cards: the first to rank 0, the next to rank 1,
# round and round.

# %% predict="predict_batches"
# Ten batches, numbered from 0, are dealt like cards to four processes. How many does process 2 get?

# %% check="predict_batches"

# %% [markdown]
# ### Build it
#
# Some processes may have one batch more than others, or one may have none at all: a sentence is neither repeated to
# fill up, nor left out. (PyTorch's own `DistributedSampler` repeats by default. In an evaluation that makes the score a
# little wrong, and nobody notices.) Hand back a sequence with a length, in the order of the plan, and leave the list
# that you were given as it is.

# %% build="shard"
### BEGIN SOLUTION course_lib.transformer.data_parallel:shard

# %% [markdown] hints="shard"

# %% check="shard"

# %% [markdown]
# ### See it: who waits for whom?
#
# The captions that come with the course, in batches of like length, as in lesson 10, for four processes. Dealt with
# your `shard`, and, for comparison, cut into four runs of neighbours. How much of the work does each process have, and how
# long do the others wait for the one that has most? (The work of a batch is taken as the number of its sentences times
# the square of its longest: what attention costs.)
#
# **Change something:** eight processes. Batches of 4,000 tokens. A shuffled plan: `random.shuffle(plan)`.

# %% tags=["see"]
from course_lib.transformer.batching import token_batches
from course_lib.translation.data.corpora import load_captions

WORLD_SIZE = 4
lengths = [len(caption.split()) + 2 for caption in load_captions().train.english]
plan = sorted(token_batches(lengths, 900), key=lambda batch: max(lengths[index] for index in batch))


def work_of(batches):
    return sum(len(batch) * max(lengths[index] for index in batch) ** 2 for batch in batches)


chunk = -(-len(plan) // WORLD_SIZE)
ways = {
    "dealt like cards": [work_of(shard(plan, rank, WORLD_SIZE)) for rank in range(WORLD_SIZE)],
    "cut into runs": [work_of(plan[rank * chunk : (rank + 1) * chunk]) for rank in range(WORLD_SIZE)],
}
pd.DataFrame(
    {
        "way": way,
        **{f"process {rank}": f"{work / sum(works):.1%}" for rank, work in enumerate(works)},
        "time lost by waiting": f"{1 - sum(works) / (WORLD_SIZE * max(works)):.1%}",
    }
    for way, works in ways.items()
).set_index("way")

# %% [markdown]
# Cut into runs, the last process gets all the long sentences. Dealt like cards, nobody waits for long.
#
# ## 2. What is the loss of all of them?
#
# In lesson 09 one process cut its batch into pieces, and a mean of means was wrong. Here the pieces lie on different
# machines, and the same mistake is made more often, since the libraries make it for you if you let them. Each process
# $r$ has a loss *sum* $S_r$ over its $N_r$ real tokens. What we want is
#
# $$L = \frac{\sum_r S_r}{\sum_r N_r} \qquad\text{and not}\qquad \frac{1}{R} \sum_r \frac{S_r}{N_r}$$
#
# where $R$ is the world size.

# %% predict="predict_global_mean"
# Three processes. The first has 300 real tokens that cost 600 nats together, the second 100 tokens that cost
# 300 nats, the third 100 tokens that cost 400 nats. What is the mean loss of a token over all processes?

# %% check="predict_global_mean"

# %% [markdown]
# ### Build it
#
# Sums and counts have to meet, so two numbers travel. An all-reduce costs about as much for two numbers as for one, so
# put them into **one tensor**. Some things to think of:
#
# - **There may be no process group.** On a laptop you are alone, and nothing has been set up. `dist.is_initialized()`
#   says so, and then your own numbers are all there is.
# - **A process may have no batch**: a sum of 0 over 0 tokens. Whoever divides too early gets NaN from it.
# - **All-reduce works in place.** The caller still needs the numbers that you were given.
# - **Sums get large.** Add up in float64, and hand back the dtype of the loss sum.
# - **It is for reading, not for training.** No graph should hang on what you hand back.
#
# The check runs your function in several processes at a time, which talk to each other through a process group of its
# own. It notices when one of them would wait for the others for ever.

# %% build="global_token_mean"
### BEGIN SOLUTION course_lib.transformer.data_parallel:global_token_mean

# %% [markdown] hints="global_token_mean"

# %% check="global_token_mean"

# %% [markdown]
# ### From a mean to a gradient
#
# The gradient has to be that of $L$ as well. PyTorch's `DistributedDataParallel` adds up the gradients for you, while
# the backward pass is still running, and then divides by the world size: it gives the **mean** over the processes. So each
# process divides its own loss sum by the number of tokens of *all* processes, and multiplies by something, so that
# that mean becomes the right sum.

# %% predict="predict_scale"
# Four processes. Each divides its loss sum by the tokens of all four together. DistributedDataParallel takes
# the mean of the four gradients. By what does each process have to multiply its loss, so that the gradient is that of
# the global mean?

# %% check="predict_scale"

# %% [markdown]
# ### See it: the same gradient for every split
#
# A linear layer, 24 tokens with their losses, and three ways to share them out. Each "process" is a slice of the tokens
# here; the slices have different sizes, as batches of sentences do. For each split: the gradient as above, and what
# comes out if each process takes the mean of its own tokens.
#
# **Change something:** slices of equal size. Then both are right, which is why the mistake is so rarely found.

# %% tags=["see"]
torch.manual_seed(0)
layer = torch.nn.Linear(8, 5).double()
features, labels = torch.randn(24, 8, dtype=torch.float64), torch.randint(5, (24,))


def gradient(loss):
    return torch.autograd.grad(loss, layer.weight)[0]


def loss_sum(tokens):
    return torch.nn.functional.cross_entropy(layer(features[tokens]), labels[tokens], reduction="sum")


whole = gradient(loss_sum(slice(0, 24)) / 24)
rows = []
for cuts in [[0, 24], [0, 18, 24], [0, 2, 5, 24], [0, 1, 3, 10, 24]]:
    slices = [slice(first, last) for first, last in pairwise(cuts)]
    count = len(slices)
    by_tokens = sum(gradient(count * loss_sum(one) / 24) for one in slices) / count
    by_means = sum(gradient(loss_sum(one) / (one.stop - one.start)) for one in slices) / count
    rows.append(
        {
            "tokens of each process": ", ".join(str(one.stop - one.start) for one in slices),
            "off by": f"{(by_tokens - whole).norm() / whole.norm():.0e}",
            "off by, mean of means": f"{(by_means - whole).norm() / whole.norm():.0%}",
        }
    )
pd.DataFrame(rows).set_index("tokens of each process")

# %% [markdown]
# ### Explain it
#
# The lab promises that one process, eight processes, or eight processes with three micro-batches each make the *same*
# update. You have seen why the gradient is the same. What else has to be the same in all processes, or must not depend
# on how many there are, so that the models are still the same after a thousand updates? Name at least three things, and
# say for each what would go wrong.

# %% [markdown] explain="explain_same_model"
# All processes have to begin with the same weights (same seed, or sent around once), or they add up gradients of
# different models. The plan of the batches, and which of them belong to one update, has to come from the seed and the epoch
# alone: if each process shuffled for itself, sentences would be repeated and left out, and with another world size other
# batches would meet in an update. Dropout has to be drawn from the number of the update and of the batch and not from a
# generator that each process uses up at its own pace, or a batch is dropped otherwise when another process works on it.
# The schedule and the optimiser's state have to count updates, not batches of the own process. Also the vocabulary and
# the data: learnt or read differently, the ids mean something else. (And sums of floating numbers depend on their
# order, so "the same" means up to rounding.)
#
# ### BEGIN MARK SCHEME
# - 1 point for each of three of these, with what goes wrong: initial weights; the plan of batches (seed and epoch, not
#   world size); randomness of dropout; schedule and optimiser count updates; same data and vocabulary; the global token
#   count as the divisor; the clipping of the whole gradient, not of each process's.
# - 1 more point for a consequence that is thought through (for example: repeated sentences weigh double; the processes'
#   weights drift apart and the mean of their gradients is no model's).
# ### END MARK SCHEME

# %% [markdown]
# ## Where you are

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# Before you hand the lesson in, press **Validate** in the toolbar.
#
# Next: **lesson 13, the final lab**. Many processors, one model, real sentences, and your own code in it, if you like.
