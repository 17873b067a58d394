# %% [markdown]
# # Lesson 12: data parallelism by hand
#
# The paper's base model was trained on eight GPUs for twelve hours. One GPU would have needed four days, a long time to
# find out that a learning rate was wrong. Nearly every large model is trained with **data parallelism**, which you
# build here.
#
# The idea: **every processor has the whole model and works on its own share of the sentences; then all of them add up
# their gradients and make the same update.** But a mistake rarely raises an error: the run hangs, or trains a
# slightly different model. So the checks run your code on several simulated processors at once, and compare the results
# with those of a single one.
#
# By the end you will be able to
#
# - share an update among any number of processors and get the same model,
# - say what a collective is, why a program with collectives hangs, and how to find out where,
# - overlap communication with the backward pass, and judge whether it pays,
# - split the optimiser's state among the processors, and say how much memory that saves.
#
# **Time:** about four hours; take a break before section 5. **In [the paper](https://arxiv.org/abs/1706.03762):**
# sections 5.1 and 5.2. The methods are from Li et al. 2020, [PyTorch Distributed](https://arxiv.org/abs/2006.15704),
# and Rajbhandari et al. 2020, [ZeRO](https://arxiv.org/abs/1910.02054).

# %% tags=["see"]
from course_lib.charts import architecture_map, communication_timeline, named_bars, show_offline
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(
    built=finished_exercises(),
    current=[
        "shard",
        "global_token_mean",
        "broadcast_parameters",
        "all_reduce_gradients",
        "GradientBuckets",
        "ShardedOptimizer",
    ],
)

# %% [markdown]
# Run the next cell.

# %% given="setup"
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import pandas as pd
import torch
import torch.distributed as dist
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from course_lib.checks import check
from course_lib.simulated_ranks import DeadlockError, on_ranks

Item = TypeVar("Item")

# %% [markdown]
# ## 1. Which rank works on what?
#
# Here are some terms, which are the same in every library:
#
# | word | in code | what it is |
# |---|---|---|
# | rank | `rank` | one of the processes that train together, and its number: 0, 1, ... |
# | world size | `world_size` | how many ranks there are |
# | process group | made by `dist.init_process_group` | the ranks that communicate; `dist` is short for `torch.distributed` |
# | collective | `dist.all_reduce(...)`, ... | a call that **all** ranks make, in the same order |
#
# Every rank runs the same program. Only `rank` differs. On a cluster the ranks are processes. In this notebook
# `on_ranks(2, program)` runs `program(0)` and `program(1)` side by side, as two ranks of one process group
# (simulated by threads), and returns a list with the result of each. Their collectives behave like those of real ranks.
#
# Three rules hold for the whole lesson. **Each batch belongs to one rank**: a batch on two ranks would count twice.
# **No batch is left out.** And **the result must not depend on the number of ranks**: eight GPUs have to make the
# update that one would have made, only sooner.
#
# The ranks share the batches of **one update**, and all of them wait for the slowest. So deal these batches like cards:
# the first to rank 0, the next to rank 1, round and round. Then any two ranks differ by at most one batch.
# (If batches are sorted by length, as in an evaluation, no rank gets all the long sentences.)
#
# ### Worked example: seven batches
#
# Below each batch is the rank that gets it.

# %% tags=["see"]
batches, ranks = ["a", "b", "c", "d", "e", "f", "g"], 3
print("batch:", *batches)
print("rank: ", *[number % ranks for number in range(len(batches))])
hands, turn = [[] for _ in range(ranks)], 0
for batch in batches:
    hands[turn].append(batch)
    turn = (turn + 1) % ranks
for rank, hand in enumerate(hands):
    print(f"rank {rank} gets", hand)

# %% predict="predict_batches"
# Ten batches, numbered from 0, are dealt like cards to four ranks. How many does rank 2 get?

# %% check="predict_batches"

# %% [markdown]
# ### Build it
#
# Some ranks may get one batch more than others, and some none at all. (PyTorch's own `DistributedSampler` repeats some
# examples by default, so that all ranks have the same number, which makes the score of an evaluation slightly wrong.)
# Return a sequence with a length, and leave the given list as it is.

# %% build="shard"
### BEGIN SOLUTION course_lib.transformer.data_parallel:shard

# %% [markdown]
# A scratch cell, with the batches of the worked example:

# %% tags=["see"]
[shard(batches, rank, 3) for rank in range(3)]

# %% [markdown] hints="shard"

# %% check="shard"

# %% [markdown]
# Now deal ten examples to four ranks, with your function and with PyTorch's sampler. Which two does PyTorch repeat?

# %% tags=["see"]
for rank in range(4):
    theirs = torch.utils.data.DistributedSampler(range(10), 4, rank, shuffle=False)
    print(f"rank {rank}: yours {list(shard(list(range(10)), rank, 4))}, PyTorch's {list(theirs)}")

# %% [markdown]
# ## 2. The loss of all ranks
#
# In lesson 09 a mean of means was wrong. Here the pieces are on different machines, and the mistake is easier to
# make: many programs log the mean of each rank, and average these. Rank $r$ has a loss *sum* $S_r$ over its $N_r$
# real tokens. With $R$ ranks, the mean loss that we want is
#
# $$L = \frac{\sum_r S_r}{\sum_r N_r} \qquad\text{and not}\qquad \frac{1}{R} \sum_r \frac{S_r}{N_r}$$
#
# The collective for this is **all-reduce**: every rank contributes a tensor, which is overwritten by the sum over all
# ranks.
#
# ### Worked example: many tokens and few
#
# Rank 0 has 30 tokens that cost 60 nats (the unit of $-\ln p$), and rank 1 has 10 tokens that cost 60
# nats.

# %% tags=["see"]
sums, counts = [60.0, 60.0], [30, 10]
print("the mean of each rank:   ", [total / count for total, count in zip(sums, counts, strict=True)])
print("mean of means:           ", sum(total / count for total, count in zip(sums, counts, strict=True)) / 2)
print("mean over all tokens:    ", sum(sums) / sum(counts))

# %% [markdown]
# And here is the all-reduce of sums and token counts. Each rank calls it, and each gets the result:


# %% tags=["see"]
def summed(rank):
    total = torch.tensor([[60.0, 30.0], [60.0, 10.0]][rank])  # nats, tokens
    dist.all_reduce(total)  # in place
    return total


on_ranks(2, summed)

# %% predict="predict_global_mean"
# There are three ranks. The first has 100 real tokens that cost 300 nats together, the second has 300 tokens
# that cost 600 nats, and the third has no batch. What is the mean loss per token over all ranks?

# %% check="predict_global_mean"

# %% [markdown]
# ### Build it
#
# An all-reduce costs about as much for two numbers as for one, so put the sum and the count into **one tensor**.
# Consider these cases:
#
# - **There may be no process group.** On a laptop there is a single process, and `dist.is_initialized()` is False.
# - **A rank may have no batch**: a sum of 0 over 0 tokens. Dividing before adding gives NaN.
# - **All-reduce works in place.** The caller still needs the tensors that it passed.
# - **Sums get large.** Add in float64, which rounds far less, and return the dtype of the loss sum.
# - **The result is for logging.** Detach it, so that it doesn't keep a graph in memory.

# %% build="global_token_mean"
### BEGIN SOLUTION course_lib.transformer.data_parallel:global_token_mean

# %% [markdown]
# A scratch cell: the worked example on two ranks, and on one rank without a process group.

# %% tags=["see"]
both = on_ranks(2, lambda rank: global_token_mean(torch.tensor(60.0), [30, 10][rank]))
print("two ranks:", both)
print("alone:    ", global_token_mean(torch.tensor(60.0), 30))

# %% [markdown] hints="global_token_mean"

# %% check="global_token_mean"

# %% [markdown]
# ### From a mean to a gradient
#
# The gradient, too, has to be that of $L$. If each rank divides its loss sum by the number of tokens of **all** ranks,
# the **sum** of the gradients is right. You build this sum below. PyTorch's `DistributedDataParallel` (DDP) takes the
# *mean* over the ranks instead: it divides the sum by the world size, because its users usually take the mean over
# their own batch. (That is correct only if all batches have the same number of tokens.)

# %% predict="predict_scale"
# There are four ranks. Each divides its loss sum by the number of tokens of all four. DistributedDataParallel
# takes the mean of the four gradients. By what does each rank have to multiply its loss, so that the gradient is
# that of the global mean?

# %% check="predict_scale"

# %% [markdown]
# ### See it: the same gradient for every split
#
# Here 24 tokens go through a linear layer. They are split among ranks in four ways, and each rank holds a slice. The
# table shows for each split how far the sum of the gradients is from the gradient of the whole, and how far off the
# mean of the gradients is if each rank takes the mean loss over its own tokens.
#
# **Change something:** use slices of equal size. Then both ways of combining the gradients are right, which is why
# taking the mean of means is so rarely noticed as a mistake.

# %% tags=["see"]
torch.manual_seed(0)
layer = nn.Linear(8, 5).double()
features, labels = torch.randn(24, 8, dtype=torch.float64), torch.randint(5, (24,))


def gradient(loss):
    return torch.autograd.grad(loss, layer.weight)[0]


def loss_sum(tokens):
    return nn.functional.cross_entropy(layer(features[tokens]), labels[tokens], reduction="sum")


whole = gradient(loss_sum(slice(0, 24)) / 24)
rows = []
for cuts in [[0, 24], [0, 18, 24], [0, 2, 5, 24], [0, 1, 3, 10, 24]]:
    slices = [slice(first, last) for first, last in pairwise(cuts)]
    by_tokens = sum(gradient(loss_sum(one) / 24) for one in slices)
    by_means = sum(gradient(loss_sum(one) / (one.stop - one.start)) for one in slices) / len(slices)
    rows.append(
        {
            "tokens of each rank": ", ".join(str(one.stop - one.start) for one in slices),
            "off by": f"{(by_tokens - whole).norm() / whole.norm():.0e}",
            "off by, mean of means": f"{(by_means - whole).norm() / whole.norm():.0%}",
        }
    )
pd.DataFrame(rows).set_index("tokens of each rank")

# %% [markdown]
# ## 3. The same start
#
# If all ranks make the same updates, their models stay equal, *provided that they were equal at the start*. But each
# rank draws its own random weights, so one rank sends its weights to the others. The collective is **broadcast**:
# `dist.broadcast(tensor, source)` copies the tensor of rank `source` over that of every other rank. All ranks call
# it, the source to send, the others to receive.
#
# ### Worked example: two ranks with different models
#
# Rank 0 is the source.


# %% tags=["see"]
def received(rank):
    weights = torch.tensor([[0.5, -1.0, 2.0], [0.25, 0.75, -0.5]][rank])
    before = weights.tolist()
    dist.broadcast(weights, 0)  # rank 0 sends, rank 1 receives
    return f"rank {rank}: {before} before, {weights.tolist()} afterwards"


on_ranks(2, received)

# %% [markdown]
# What belongs to a model? Its parameters, frozen ones included; and its **buffers**, tensors that are used in the
# computation but not trained: the means of a BatchNorm, its counter of batches, a table of positions. (A state dict isn't
# enough. It leaves out buffers with `persistent=False`, such as the table of lesson 05.) A parameter that two modules
# share, like the tied embeddings of lesson 06, is sent once.
#
# ### Build it

# %% build="broadcast_parameters"
### BEGIN SOLUTION course_lib.transformer.replicas:broadcast_parameters

# %% [markdown]
# A scratch cell. Each rank first fills its weights and buffers with its rank plus 5. What does rank 1 have afterwards?


# %% tags=["see"]
def with_the_same_start(rank):
    norm = nn.BatchNorm1d(2)
    with torch.no_grad():
        for tensor in (*norm.parameters(), *norm.buffers()):
            tensor.fill_(rank + 5)
    broadcast_parameters(norm)
    return {name: tensor.tolist() for name, tensor in norm.state_dict().items()}


for rank, state in enumerate(on_ranks(2, with_the_same_start)):
    print(f"rank {rank}:", state)

# %% [markdown] hints="broadcast_parameters"

# %% check="broadcast_parameters"

# %% [markdown]
# ## 4. The same gradients
#
# After its backward pass, each rank has the gradients of its own sentences only. So before the update, every gradient
# is replaced by the sum over all ranks. Otherwise the models would drift apart.
#
# ### Worked example: an unused weight
#
# The sentences of rank 1 did not use the second weight, so its gradient there is None.

# %% tags=["see"]
gradients = {0: [1.0, 2.0, 3.0], 1: [10.0, None, 30.0]}
print("before:            ", gradients)
filled = {rank: [0.0 if one is None else one for one in row] for rank, row in gradients.items()}
print("zeros where None:  ", filled)
total = [sum(pair) for pair in zip(filled[0], filled[1], strict=True)]
print("after, on each:    ", total)

# %% [markdown]
# Why the zeros? Collectives are matched **by their order alone**: the first all-reduce of rank 0 meets the first of
# rank 1, the second meets the second, and so on. A rank that leaves one out is out of step from then on.

# %% predict="predict_missing_gradient"
# Now the same two ranks call all_reduce only for gradients that are not None, in order: rank 0 three times, rank 1
# twice. What does rank 0 have as the gradient of its second weight after its second all-reduce?

# %% check="predict_missing_gradient"

# %% [markdown]
# Try it. `on_ranks` notices that a rank would wait forever, and raises a DeadlockError, where real ranks would hang.


# %% tags=["see"]
def without_zeros(rank):
    for number, gradient in enumerate(gradients[rank]):
        if gradient is not None:
            total = torch.tensor([gradient])
            dist.all_reduce(total)
            sums_seen.append(f"rank {rank}: gradient {number} becomes {total.item():g}")


sums_seen: list[str] = []
try:
    on_ranks(2, without_zeros)
except DeadlockError as error:
    print(*sorted(sums_seen), error, sep="\n")

# %% [markdown]
# Rank 1 has added its third gradient to the second one of rank 0. It never calls a third all-reduce, so rank 0 waits
# forever in its own. That is what a hanging run usually is: ranks that disagree about which collective comes next.
#
# ### Build it

# %% build="all_reduce_gradients"
### BEGIN SOLUTION course_lib.transformer.replicas:all_reduce_gradients

# %% [markdown]
# A scratch cell: the gradients of the worked example.


# %% tags=["see"]
def with_your_sum(rank):
    weights = nn.ParameterList([torch.zeros(1) for _ in range(3)])
    for weight, gradient in zip(weights, gradients[rank], strict=True):
        weight.grad = None if gradient is None else torch.tensor([gradient])
    all_reduce_gradients(weights)
    return [weight.grad for weight in weights]


on_ranks(2, with_your_sum)

# %% [markdown] hints="all_reduce_gradients"

# %% check="all_reduce_gradients"

# %% [markdown]
# ### See it: one update, however many ranks
#
# Here are three of the four functions at work (the fourth, `global_token_mean`, is only for logging). There are seven
# batches of different sizes, each rank has its own random start, and the ranks make one update. The table compares the
# weights after this update with those after an update on one rank.
#
# **Change something:** leave out `broadcast_parameters`, or `all_reduce_gradients`. Divide by `features.shape[0]`, the
# size of one batch, instead of `tokens`: why doesn't the table show this mistake?

# %% tags=["see"]
torch.manual_seed(1)
sizes_of_batches = [2, 9, 4, 1, 6, 3, 8]
data = [(torch.randn(size, 8), torch.randint(5, (size,))) for size in sizes_of_batches]
tokens = sum(sizes_of_batches)


def one_update(rank, ranks):
    generator = torch.Generator().manual_seed(rank)
    model = nn.Linear(8, 5)
    for weight in model.parameters():
        nn.init.normal_(weight, generator=generator)
    broadcast_parameters(model)
    for features, labels in shard(data, rank, ranks):
        (nn.functional.cross_entropy(model(features), labels, reduction="sum") / tokens).backward()
    all_reduce_gradients(model)
    torch.optim.SGD(model.parameters(), lr=0.5).step()
    return model.weight.detach()


alone = one_update(0, 1)
pd.DataFrame(
    [
        {
            "ranks": ranks,
            "the ranks differ by": f"{max((one - weights[0]).abs().max() for one in weights):.0e}",
            "off from one rank by": f"{(weights[0] - alone).abs().max():.0e}",
        }
        for ranks in [1, 2, 3, 8]
        for weights in [on_ranks(ranks, lambda rank, ranks=ranks: one_update(rank, ranks))]
    ]
).set_index("ranks")

# %% [markdown]
# All ranks have exactly the same weights, and apart from rounding they are those of a single rank. With eight ranks, the
# last has no batch at all, and contributes zeros.
#
# <details><summary>What changes?</summary>
#
# Without `broadcast_parameters`, the weights of the ranks differ by about 3; without `all_reduce_gradients`, by about
# 0.1. With the wrong divisor, only the rounding differs: the update on one rank, with which the table compares, makes
# the same mistake.
#
# </details>

# %% [markdown]
# ### Explain it
#
# With these four functions, one rank, eight ranks, or eight ranks with three micro-batches each can compute the *same*
# gradient. What has to be the same on all ranks, or must not depend on how many there are, so that the models are still
# equal after a thousand updates? Name at least three things, say for each what would go wrong, and explain one of these
# consequences in more detail.

# %% [markdown] explain="explain_same_model"
# All ranks have to begin with the same weights (the same seed, or sent once). Otherwise each rank computes its gradient
# at different weights, and the sum is the gradient of none of the models. All ranks add the same update, so the models
# stay as far apart as they were at the start, and none of them follows its own loss. Every batch has to go to exactly
# one rank, or its sentences count twice or not at all. Every rank has to divide its loss sum by the number of tokens of
# all ranks; if it divides by its own, a token on a rank with few tokens counts more. And the gradients have to be
# summed; with a mean, the gradient shrinks as ranks are added. All ranks have to call the same collectives in the same
# order, or gradients of different weights are added up, and the run may hang. The plan of the batches, and which of
# them belong to one update, has to come from the seed and the epoch alone: if each rank shuffled for itself, sentences
# would be repeated and left out, and with another world size, different batches would share an update. Dropout has to
# be drawn from the number of the update and of the batch, not from a generator that each rank advances at its own pace,
# or it differs when another rank works on the batch. The schedule and the optimiser's state have to count updates, not
# batches of one rank. Also the vocabulary and the data: if they are learned or read differently, the ids mean something
# else. (And sums of floating-point numbers depend on their order, so "the same" means up to rounding.)
#
# ### BEGIN MARK SCHEME
# - 1 point: a first thing that has to be the same on all ranks, with what goes wrong otherwise. It is one of these:
#   initial weights; the plan of batches (seed and epoch, not world size); each batch on exactly one rank; the order of
#   the collectives; the gradient, summed over all ranks; its scale (loss sums divided by the global token count, then
#   summed; or DDP's mean, with each loss multiplied by the world size); randomness of dropout; the number of updates,
#   counted by the schedule and the optimiser; data and vocabulary; the norm for clipping, which is that of the whole
#   gradient and not of each rank's.
# - 1 point: a second thing from this list, with what goes wrong.
# - 1 point: a third thing from this list, with what goes wrong.
# - 1 point: a consequence of one of them, explained further than the points above require (for example: repeated
#   sentences weigh double; with different starts, the sum of the gradients belongs to no model).
# ### END MARK SCHEME

# %% [markdown]
# ## 5. Communicate while computing
#
# `all_reduce_gradients` wastes time in two ways. During the backward pass, the network between the ranks is idle; after
# it, the GPU is. And it makes one call for each parameter tensor. A Transformer has hundreds of these, most of them
# small, and each call has a fixed cost (its *latency*), however few bytes it carries.
#
# DDP solves both problems (Li et al. 2020, section 3.2):
#
# - The backward pass computes the gradients of the **last layers first**. They can travel while those of the first
#   layers are still being computed.
# - Several gradients are concatenated into a **bucket**, and one all-reduce carries the bucket.
#
# An *asynchronous* collective makes this possible. `work = dist.all_reduce(tensor, async_op=True)` returns immediately,
# and the tensor holds the sum only after `work.wait()`. In between it is **in flight**: reading it gives old or
# half-finished numbers, and changing it corrupts the sum. Such a mistake is a *race condition*: the speed of the
# network decides whether anything goes wrong.
#
# ### Worked example: six parameters
#
# Here are six parameters, in the order of `model.parameters()`, with the sizes of their gradients. Buckets hold at most
# 100 bytes, and are filled from the last gradient to the first.

# %% tags=["see"]
sizes, limit = {"a": 60, "b": 20, "c": 40, "d": 30, "e": 120, "f": 50}, 100
example, room = [], 0
for name, size in reversed(sizes.items()):
    if not example or size > room:
        example.append([])
        room = limit
    example[-1].append(name)
    room -= size
    print(f"{name} ({size:>3} bytes) goes into bucket {len(example)}, which has {max(room, 0)} bytes left")
print("buckets, in the order in which they are sent:", example)

# %% [markdown]
# A gradient is never split here, so e gets its own bucket.

# %% predict="predict_buckets"
# Six parameters have, in the order of model.parameters(), gradients of 6, 2, 5, 4, 3 and 2 MB, all of one dtype.
# Buckets hold at most 10 MB. How large is the first bucket that is sent, in MB?

# %% check="predict_buckets"

# %% [markdown]
# A gradient has the size of its parameter, and `parameter.nbytes` is that size in bytes. Five things need care:
#
# - **The order must be the same on every rank.** Bucket 2 may be complete before bucket 1 on one rank and after it on
#   another. So bucket 2 is *launched* (its all-reduce is started) only after bucket 1.
# - **Some gradients are never computed**, because this rank's sentences did not use a parameter. Then its bucket is
#   never complete. `finish()` launches what is left, with zeros where `parameter.grad` is None. (If only an earlier
#   micro-batch used the parameter, its gradient isn't missing: it is in `parameter.grad`, and has to be sent.)
# - **Micro-batches.** Only the last one of an update should communicate. Inside `with buckets.no_sync():` gradients
#   only accumulate.
# - **Every update starts fresh.** `finish()` resets everything that you recorded during the update.
# - **Frozen parameters** (`requires_grad` is False) never get a gradient, and autograd doesn't allow a hook on them.
#   Leave them out of the buckets.
#
# How do you notice that a gradient is ready? `parameter.register_post_accumulate_grad_hook(f)` asks autograd to call
# `f(parameter)` each time it has added to `parameter.grad`:

# %% tags=["see"]
two_layers = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
names = {parameter: name for name, parameter in two_layers.named_parameters()}
for parameter in names:
    parameter.register_post_accumulate_grad_hook(lambda ready: print("ready:", names[ready]))
two_layers(torch.ones(1, 2)).sum().backward()

# %% [markdown]
# The second layer comes first. Within a layer the order is up to autograd, so don't rely on it. (To remember parameters,
# use a set or the keys of a dict, as here. `parameter in a_list` would compare their numbers.)
#
# To send several gradients in one message, make one flat tensor of them, and split it again when the sum has arrived.

# %% tags=["see"]
parts = [torch.ones(2, 2), torch.full((3,), 2.0)]
flat = torch.cat([part.flatten() for part in parts])
flat *= 10  # instead of an all-reduce
for part, summed in zip(parts, flat.split([part.numel() for part in parts]), strict=True):
    print(summed.view_as(part).tolist())

# %% [markdown]
# And how can `no_sync` be used in a `with` block? It is a method that yields once, decorated with `@contextmanager`:
# the code before the `yield` runs at the beginning of the block, and the code after it at the end. The `finally` makes
# sure that the latter runs even if the block raises an exception.


# %% tags=["see"]
@contextmanager
def announced():
    print("before")
    try:
        yield
    finally:
        print("after")


with announced():
    print("inside")

# %% [markdown]
# ### Build it
#
# The methods whose names begin with an underscore are a suggestion. Only the constructor, `finish()` and `no_sync()`
# have to do what the docstring says. But keep the buckets in `self.buckets`, a list of lists of parameters: a picture
# below reads it.

# %% build="GradientBuckets"
### BEGIN SOLUTION course_lib.transformer.gradient_buckets:GradientBuckets

# %% [markdown]
# A scratch cell: two ranks, two batches each, and one message for each bucket. Then run both backward passes without
# `no_sync`. Which gradients do you get now, and which did the messages carry?


# %% tags=["see"]
def accumulated(rank):
    layer = nn.Linear(1, 1)
    buckets = GradientBuckets(layer, bucket_bytes=100)
    with buckets.no_sync():
        layer(torch.full((1, 1), 1.0 + rank)).sum().backward()
    layer(torch.full((1, 1), 10.0 * (1 + rank))).sum().backward()
    buckets.finish()
    return {name: weight.grad.tolist() for name, weight in layer.named_parameters()}


on_ranks(2, accumulated)

# %% [markdown]
# <details><summary>Without `no_sync`, what do the messages carry?</summary>
#
# The weight's gradient is now 3 and the bias's 2, on both ranks: the sums of the *first* batches alone. A bucket is
# launched once in an update, here after the first backward pass. So the gradients of the second batch were never sent,
# and `finish()` replaced each rank's own gradient with the sum.
#
# </details>

# %% [markdown] hints="GradientBuckets"

# %% check="GradientBuckets"

# %% [markdown]
# ### See it: when do buckets pay off?
#
# Your `GradientBuckets` packs the gradients of a Transformer. The times come from a simple model of the costs: the
# backward pass takes a fixed time for each byte, and an all-reduce takes a latency plus a time for each byte. One
# all-reduce is in flight at a time. The picture compares three plans:
#
# - **all at the end**: as `all_reduce_gradients` does, one message for each parameter;
# - **each gradient at once**: a bucket for each parameter, as soon as it is ready;
# - **buckets**: as in your class.
#
# Look at the gaps in the network's row, and at where its last bar ends.
#
# **Change something:** set the latency to 0.5 ms or to 0, or the bandwidth to 100 GB/s (GPUs of one machine) or 1 GB/s
# (an ordinary network). Then try `bucket_mb = 100` and `bucket_mb = 1`. When are the buckets no better than *each
# gradient at once*?

# %% tags=["see"]
from course_lib.transformer import Transformer, TransformerConfig

latency_ms, gigabytes_per_second, bucket_mb = 0.2, 10.0, 25
model = Transformer(8000, 8000, TransformerConfig(layers=6, d_model=256, heads=4, d_ff=1024))
backward_ms_per_mb = 0.15


def timeline(plan: str, buckets: list[list[nn.Parameter]], overlap: bool) -> list[dict[str, object]]:
    """Work out when each gradient is computed and when each bucket is sent."""
    rows, ready, computed, free = [], [], 0.0, 0.0
    kind = "bucket" if plan.startswith("buckets") else "gradient"
    for number, bucket in enumerate(buckets, start=1):
        start, computed = computed, computed + sum(one.nbytes for one in bucket) / 1e6 * backward_ms_per_mb
        rows.append(
            {"plan": plan, "row": "backward", "name": f"{kind} {number}", "start": start, "end": computed}
        )
        ready.append(computed)
    for number, (bucket, at) in enumerate(zip(buckets, ready, strict=True), start=1):
        start = max(free, at if overlap else computed)
        free = start + latency_ms + sum(one.nbytes for one in bucket) / 1e6 / gigabytes_per_second
        rows.append({"plan": plan, "row": "network", "name": f"{kind} {number}", "start": start, "end": free})
    return rows


single = [[one] for one in reversed(list(model.parameters()))]
packed = GradientBuckets(model, bucket_mb * 1_000_000)
plans = [
    *timeline("all at the end", single, overlap=False),
    *timeline("each gradient at once", single, overlap=True),
    *timeline(f"buckets of {bucket_mb} MB", packed.buckets, overlap=True),
]
communication_timeline(pd.DataFrame(plans))

# %% [markdown]
# <details><summary>What changes?</summary>
#
# Only with a latency of 0 are the buckets no better: each gradient at once needs 11.1 ms, and the buckets 12.3 ms,
# because they wait until they are full. The larger the latency, the more they gain. With the latency of 0.2 ms, the
# exchange ends after 12.5 ms with buckets of 25 MB, 17.4 ms with buckets of 100 MB, and 22.1 ms with buckets of 1 MB.
# Why?
#
# </details>

# %% [markdown]
# ### Explain it
#
# One extreme is a bucket for each gradient, the other is a single bucket for all of them. What does each extreme
# cost, and why? On what does the best size depend? Use the picture: change a number, and say what you see.

# %% [markdown] explain="explain_buckets_size"
# With a bucket for each gradient, every message pays the latency: 256 gradients here, which at 0.2 ms each take 51
# ms, five times as long as the backward pass. With one bucket (`bucket_mb = 100`) the latency is paid once, but the
# bucket is complete only when the backward pass ends, so nothing overlaps: 17.4 ms instead of 12.5 ms with 25 MB.
# With 5 MB it is 11.3 ms, and with 1 MB 22 ms again. The best size depends on the latency and the bandwidth of the
# network, and on how long the backward pass is: at 100 GB/s nearly everything is hidden, and at 1 GB/s the network is
# so slow that the backward pass hides little. The last bucket can never be hidden, because it holds the gradients
# that are computed last.
#
# ### BEGIN MARK SCHEME
# - 1 point: many small messages pay the latency many times.
# - 1 point: one large bucket can't overlap with the backward pass, because it is complete only at its end.
# - 1 point: the best size depends on latency, bandwidth and the time of the backward pass, supported by a change in the
#   picture and its effect.
# ### END MARK SCHEME

# %% [markdown]
# ## 6. Split the optimiser's state
#
# Every rank makes the same update, so every rank keeps a copy of the same optimiser state: for Adam, a mean of the
# gradients and a mean of their squares. Together they take twice as much memory as the weights.
#
# ZeRO (Rajbhandari et al. 2020, section 5.1, stage 1) divides this state among the ranks. Each rank **owns** some of
# the parameters: it keeps the state for those only, updates them, and sends them to the others.
#
# ### Worked example: whose parameter is it?
#
# Each parameter goes to the rank that has the fewest numbers so far.

# %% tags=["see"]
numbers, loads = {"embedding": 80, "weight": 64, "bias": 8, "scale": 8}, [0, 0]
for name, size in numbers.items():
    owner = loads.index(min(loads))
    loads[owner] += size
    print(f"{name:<9} ({size} numbers) belongs to rank {owner}; the shares are now {loads}")

# %% [markdown]
# And here is one step of plain gradient descent, with a learning rate of 1. Rank 0 owns the first weight, and rank 1
# the other two. The gradients have already been summed.

# %% tags=["see"]
weight, grad = [5.0, 6.0, 7.0], [1.0, 2.0, 3.0]
owners = [0, 1, 1]
for rank in (0, 1):
    updated = [w - g if owner == rank else w for w, g, owner in zip(weight, grad, owners, strict=True)]
    print(f"rank {rank} after its own step:      ", updated)
print("after a broadcast of each weight:", [w - g for w, g in zip(weight, grad, strict=True)], "on both")

# %% predict="predict_state"
# A model has 60 million parameters. Adam keeps two float32 numbers (4 bytes each) for each of them. How many megabytes
# (millions of bytes) of state does each of 4 ranks keep, if the state is divided evenly?

# %% check="predict_state"

# %% [markdown]
# ### Build it
#
# All ranks have to agree on the owners without asking each other: compute them from the sizes alone. If there is a
# process group, `dist.get_rank()` and `dist.get_world_size()` return this rank's number and the number of ranks.
# Otherwise they are 0 and 1. If there are more ranks than parameters, some own nothing, and torch's optimisers reject
# an empty list.

# %% build="ShardedOptimizer"
### BEGIN SOLUTION course_lib.transformer.sharded_optimizer:ShardedOptimizer

# %% [markdown]
# A scratch cell: one step with Adam on two ranks. The gradients have already been summed.


# %% tags=["see"]
def one_step(rank):
    parameters = [nn.Parameter(torch.full((size,), 5.0)) for size in (4, 3, 1)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer = ShardedOptimizer(parameters, lambda share: Adam(share, lr=0.1))
    optimizer.step()
    numbers = sum(state["exp_avg"].numel() for state in optimizer.state_dict()["state"].values())
    return torch.cat([parameter.detach() for parameter in parameters]), numbers


for rank, (values, numbers) in enumerate(on_ranks(2, one_step)):
    print(f"rank {rank}: {values}, and state for {numbers} of the 8 numbers")

# %% [markdown] hints="ShardedOptimizer"

# %% check="ShardedOptimizer"

# %% [markdown]
# ### See it: what does a rank need?
#
# The picture shows the memory of one rank in float32, for the 63 million parameters of the base model (lesson 06). The
# activations aren't included; how much memory they need depends on the batch. With many ranks, your `ShardedOptimizer`
# saves nearly half.
#
# **Change something:** draw the paper's big model, with 213 million parameters, or a model with 7 billion. How many
# ranks does the larger one need before weights, gradients and state fit on GPUs of 80 GB? (Add numbers to the list of
# ranks.)

# %% tags=["see"]
millions = 63
rows = [
    {"bar": f"{ranks} rank{'s' if ranks > 1 else ''}", "kind": kind, "size": millions * 1_000_000 * size}
    for ranks in [1, 2, 4, 8]
    for kind, size in {"weights": 4, "gradients": 4, "state of Adam": 8 / ranks}.items()
]
named_bars(
    pd.DataFrame(rows),
    across="bytes on each rank",
    unit="B",
    title="How much memory does training take on each rank?",
)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# With 213 million parameters, a single rank needs 3.4 GB, and each of eight needs 1.9 GB. With 7 billion, three ranks
# are enough: each holds 56 GB of weights and gradients, and a third of 56 GB of state, which is 75 GB together.
#
# </details>
#
# ## Common questions
#
# <details><summary>My run hangs. How do I find out where?</summary>
#
# `py-spy dump --pid PID` prints the Python stack of a running process, so you see where each rank is.
# `TORCH_DISTRIBUTED_DEBUG=DETAIL` makes PyTorch compare the collectives of all ranks and name the first that differs.
# Typical causes: an `if rank == 0:` around a collective, a rank with fewer batches, an exception on one rank only.
#
# </details>
#
# <details><summary>What if the model doesn't fit on one GPU?</summary>
#
# ZeRO's stages 2 and 3 shard the gradients and the weights as well; in PyTorch, this is FSDP. Tensor parallelism cuts
# single matrices into pieces, and pipeline parallelism puts layers on different GPUs. Large models combine all of these
# methods.
#
# </details>
#
# <details><summary>How does an all-reduce work inside?</summary>
#
# Often as a ring: each rank passes pieces to its neighbour, which adds its own. After $R - 1$ steps each piece is
# complete on one rank, and after $R - 1$ more steps all ranks have all pieces. Each rank sends about twice the size
# of the tensor, however many ranks there are.
#
# </details>
#
# ## Further reading
#
# - Li et al. 2020, [PyTorch Distributed: Experiences on Accelerating Data Parallel
#   Training](https://arxiv.org/abs/2006.15704): buckets, hooks and measurements.
# - Rajbhandari et al. 2020, [ZeRO](https://arxiv.org/abs/1910.02054): the three stages.
# - Zhao et al. 2023, [PyTorch FSDP](https://arxiv.org/abs/2304.11277): stage 3 in PyTorch.
# - Goyal et al. 2017, [Accurate, Large Minibatch SGD](https://arxiv.org/abs/1706.02677): how the learning rate should
#   follow the size of the batch.
#
# ## Where you are
#
# Save the notebook, press **Validate**, and run the next cell.

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# Next: **lesson 13, the final lab**. Many processors, one translator, and your own code in it, if you like. Its
# training program can use your `shard` and your `global_token_mean`. PyTorch's DDP does the work of
# `broadcast_parameters`, `all_reduce_gradients` and `GradientBuckets`, and every rank keeps the whole state of the
# optimiser instead of using `ShardedOptimizer`.
