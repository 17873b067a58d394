# %% [markdown]
# # Lesson 03: the parts around attention
#
# Attention moves information between words. But every word must also *process* what it has gathered, and the whole
# stack must remain trainable. Three small parts do this.
#
# By the end you will have written all three, and be able to explain
#
# - what **layer normalisation** computes, including the details that people get wrong,
# - what the **feed-forward network** is for, and what it costs,
# - what the **residual connection** does that normalisation can't, and vice versa,
# - what *post-norm* and *pre-norm* mean, and which of the two the paper uses.
#
# **Time:** about two and a half hours. **In [the paper](https://arxiv.org/abs/1706.03762):** sections 3.1, 3.3 and 5.4.
# The normalisation is from Ba, Kiros and Hinton 2016, [Layer Normalization](https://arxiv.org/abs/1607.06450), and the
# residual connection from He et al. 2016, [Deep Residual Learning](https://arxiv.org/abs/1512.03385).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    layer_costs,
    named_lines,
    normalisation_effect,
    show_offline,
)
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(built=finished_exercises(), current=["LayerNorm", "FeedForward", "SublayerConnection"])

# %% [markdown]
# Each multi-head attention and each feed-forward network is called a **sublayer**. Each of the five sublayers in the
# picture is followed by a box labelled "Add & norm".

# %% given="setup"
import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.checks import check
from course_lib.transformer import MultiHeadAttention

# %% [markdown]
# ## 1. Layer normalisation: every word at the same volume
#
# In a choir with microphones, one singer can be so loud that you hear nobody else. Word vectors are like that: after a
# few sublayers some may be ten times as large as others. **Layer normalisation** takes each vector by itself, shifts it
# so that its features have mean 0, and scales it so that they have variance 1. Then it multiplies each feature by a
# learned scale and adds a learned shift:
#
# $$\mathrm{LayerNorm}(x)_i = g_i \, \frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}} + b_i
# \qquad\text{with}\qquad
# \mu = \frac{1}{D} \sum_{j=1}^{D} x_j, \qquad \sigma^2 = \frac{1}{D} \sum_{j=1}^{D} (x_j - \mu)^2$$
#
# | symbol | in code | what it is |
# |---|---|---|
# | $x_i$ | an entry of `x`, on its last axis | feature number $i$ of the word's vector |
# | $D$ | `d_model` | how many features a word has |
# | $\mu$, $\sigma^2$ | | mean and variance over the features of **this one word** |
# | $\epsilon$ | `eps` | a tiny number, to avoid a division by zero |
# | $g$ | `scale` | a learned factor for each feature; initially 1 |
# | $b$ | `shift` | a learned offset for each feature; initially 0 |

# %% predict="predict_normalised"
# A word's vector has four features: 0, 0, 0 and 4. What does layer normalisation turn the 4 into?
# (The layer is new, with scale 1 and shift 0. You can ignore eps, because it is so small.)

# %% check="predict_normalised"

# %% [markdown]
# With 400 instead of 4, the answer would be the same: the volume is gone. What remains is which features stand out, and
# how far they are from the others.
#
# ### Worked example: two words, three features
#
# The second word is the first one, ten times as loud and shifted by 5.

# %% tags=["see"]
for word in ([1.0, 2.0, 3.0], [15.0, 25.0, 35.0]):
    average = sum(word) / 3
    centred = [feature - average for feature in word]
    squares = [round(feature**2, 2) for feature in centred]
    variance_of_word = sum(squares) / 3
    print("features", word, " mean", average)
    print("   centred", centred, " their squares", squares, f" variance {variance_of_word:.3f}")
    print("   normalised", [round(feature / variance_of_word**0.5, 3) for feature in centred])

# %% [markdown]
# ### Three details that people get wrong
#
# **Which axis.** Mean and variance are taken over the last axis, the features of one word: not over the words of a
# sentence, nor over the sentences of a batch.
#
# **Which variance.** $\sigma^2$ divides by $D$. PyTorch's `var` and `std` divide by $D - 1$ by default, for *estimates*
# from samples. Here, the $D$ features are all there are. (With 512 features the difference is so small that this
# mistake survives in published code.)
#
# **Where epsilon is.** It is added to the variance, under the square root. Then the derivative of the square root stays
# finite even if all features of a vector are equal. With epsilon outside the square root, the forward pass is safe, but
# the gradient is not.
#
# ### Build it
#
# You write two methods of an `nn.Module`.
#
# - `__init__` starts with `super().__init__()` and creates what the layer stores. A tensor wrapped in
#   **`nn.Parameter`** and assigned to an attribute is *learned*: the optimiser updates it, and it is saved with the
#   model. For a plain tensor, neither is true.
# - `forward` runs when you call the module: `norm(x)`.
#
# Your layer gets tensors with **any number of leading axes**. Keep the names `scale` and `shift`: the check uses
# them to load weights. (`torch.nn.LayerNorm` and the function behind it are the whole exercise, so they are not
# allowed. Nor are group and batch normalisation, which can be made to compute the same function.)

# %% build="LayerNorm"
### BEGIN SOLUTION course_lib.transformer.sublayers:LayerNorm

# %% [markdown]
# A scratch cell: the worked example. What does a large `eps` do to each of the two words?

# %% tags=["see"]
print(LayerNorm(3)(torch.tensor([[1.0, 2.0, 3.0], [15.0, 25.0, 35.0]])))

# %% [markdown] hints="LayerNorm"

# %% check="LayerNorm"

# %% [markdown]
# ### See it: before and after
#
# Here are five words with 24 features each: one is loud, one is quiet, two are shifted. Beside each row are the mean
# and the standard deviation of its features.
#
# **Change something:** multiply `x` by 100. Undo that, and create the layer with `eps=10.0`: which words change most,
# and why? Remove `eps` again, and insert `norm.scale.data.fill_(2.0)` before the last line.

# %% tags=["see"]
torch.manual_seed(1)
words = ["the", "small", "dog", "plays", "outside"]
spreads = torch.tensor([0.3, 1.0, 2.5, 1.0, 1.8]).unsqueeze(-1)
means = torch.tensor([0.0, 0.0, 0.0, 4.0, -2.0]).unsqueeze(-1)
x = means + spreads * torch.randn(5, 24)

norm = LayerNorm(24)
normalisation_effect(x, norm(x), words)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# If `x` is multiplied by 100, the numbers on the right stay the same. (The ticks look squeezed only because both
# pictures share an axis.) With `eps=10.0` all words shrink, and the quiet "the" most (its
# standard deviation is 0.08), because its variance is tiny compared with 10. With a scale of 2, every standard
# deviation is 2.
#
# </details>
#
# ### Explain it
#
# Networks for images usually use a different kind: **batch normalisation**. It takes the mean and variance of
# each *feature* over all examples of a batch. When the network is used, averages that were collected during training
# replace them.
#
# Why doesn't that suit a translator? Think of sentences of different lengths in one batch, and of a single sentence
# that is translated word by word. And why is none of this a problem for layer normalisation? Answer in three or four
# sentences.

# %% [markdown] explain="explain_over_features"
# Sentences have different lengths, so a batch contains padding, and the statistics of a batch would depend on how much
# padding it contains and on which other sentences are in it: the same sentence would give different results in
# different batches. When the model translates, there may be only one sentence, and while it is written there is only
# one new word at a time, so there is no batch to take a mean over; stored averages would have to replace it, and the
# model would no longer compute what it computed during training. Layer normalisation needs only the word's own
# features, so its result is the same during training and when translating, in any batch and at any length.
#
# ### BEGIN MARK SCHEME
# - 1 point: with batch statistics, a sentence's result depends on the other sentences, their lengths or their padding.
# - 1 point: when translating, there may be a single sentence or word, so batch statistics are missing or differ from
#   training.
# - 1 point: layer normalisation uses only the features of the position itself, so none of this matters to it.
# ### END MARK SCHEME

# %% [markdown]
# ## 2. The feed-forward network: each word by itself
#
# Once the attention weights are known, attention only *mixes*: what a word gets is a mean of values. So every layer ends
# with a small network that works on **each word alone**, with the same parameters for every word (section 3.3, equation
# 2):
#
# $$\mathrm{FFN}(x) = \max(0,\; x W_1 + b_1)\, W_2 + b_2$$
#
# | symbol | in code | what it is |
# |---|---|---|
# | $x$ | `x` | the vector of one word, `d_model` numbers |
# | $W_1$, $b_1$ | `inner` | a linear layer from `d_model` to `d_ff`: 512 to 2048 in the paper |
# | $\max(0, \cdot)$ | | the **ReLU**: what is negative becomes 0 |
# | $W_2$, $b_2$ | `outer` | a linear layer back, from `d_ff` to `d_model` |
#
# One way to read it: each of the `d_ff` hidden features asks a question about the word ("is this an animal, in the
# plural?"). The ReLU lets through only the questions whose answer is yes, and each of these adds its own vector to the
# output.

# %% predict="predict_network_share"
# In the paper d_model is 512 and d_ff is 2048. Multi-head attention has four linear layers, each from
# 512 to 512 features with bias; the feed-forward network has the two above. Of all the parameters that
# the two sublayers have together, what share is in the feed-forward network? (A number from 0 to 1.)

# %% check="predict_network_share"

# %% [markdown]
# ### Worked example: one word, two features, three questions
#
# The network has three hidden features: "is feature 0 positive?", "is feature 0 negative?", and "is feature 1 larger
# than feature 0?".

# %% tags=["see"]
questions = {"feature 0 > 0": [1.0, 0.0], "feature 0 < 0": [-1.0, 0.0], "feature 1 > feature 0": [-1.0, 1.0]}
answers = {"feature 0 > 0": [1.0, 0.0], "feature 0 < 0": [1.0, 0.0], "feature 1 > feature 0": [0.0, 10.0]}
for word in ([-3.0, 1.0], [2.0, 1.0]):
    total = [0.0, 0.0]
    print("the word", word)
    for question, row in questions.items():
        asked = row[0] * word[0] + row[1] * word[1]
        passed = max(0.0, asked)
        total = [sum_ + passed * part for sum_, part in zip(total, answers[question], strict=True)]
        print(
            f"   {question:22} {asked:5.1f}, after the ReLU {passed:4.1f}, adds {[passed * part for part in answers[question]]}"
        )
    print("   result", total)

# %% [markdown]
# The first two questions together compute the absolute value of feature 0. No linear layer can do that.
#
# ### Build it
#
# You need two `nn.Linear` layers, called `inner` and `outer`, and between them a ReLU and then **dropout**. (Like the
# dropout in lesson 01, it isn't in the paper's section 5.4.) Create the dropout as `nn.Dropout(dropout)` in
# `__init__`, so that `train()` and `eval()` turn it on and off.

# %% build="FeedForward"
### BEGIN SOLUTION course_lib.transformer.sublayers:FeedForward

# %% [markdown]
# A scratch cell: your network with the weights of the worked example.

# %% tags=["see"]
example = FeedForward(2, 3, dropout=0.0)
with torch.no_grad():
    example.inner.weight.copy_(torch.tensor(list(questions.values())))
    example.outer.weight.copy_(torch.tensor(list(answers.values())).T)
    example.inner.bias.zero_()
    example.outer.bias.zero_()
    print(example(torch.tensor([[-3.0, 1.0], [2.0, 1.0]])))

# %% [markdown] hints="FeedForward"

# %% check="FeedForward"

# %% [markdown]
# ### See it: what functions can it compute?
#
# If `d_model` is 1, we can draw the network as a curve. Here it learns to follow a wave, with 2, 4 and 32 hidden
# features, and once with 32 features but **without the ReLU**.
#
# **Change something:** use another curve, such as `x.abs()` or `(x > 0).float()`. Give the network 3 hidden features.
# Where are the bends, and how many are there?

# %% tags=["see"]
import pandas as pd

threads = torch.get_num_threads()
torch.set_num_threads(1)  # for tensors this small, one core is faster than two
x = torch.linspace(-2, 2, 81).unsqueeze(-1)
wave = torch.sin(2.5 * x)


def fitted(network: nn.Module) -> Tensor:
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(500):
        optimizer.zero_grad()
        (network(x) - wave).square().mean().backward()
        optimizer.step()
    return network(x).detach()


torch.manual_seed(2)
curves = {"the wave": wave}
for d_ff in [2, 4, 32]:
    curves[f"d_ff = {d_ff}"] = fitted(FeedForward(1, d_ff, dropout=0.0))
curves["d_ff = 32, no ReLU"] = fitted(nn.Sequential(nn.Linear(1, 32), nn.Linear(32, 1)))
torch.set_num_threads(threads)

rows = []
for name, curve in curves.items():
    rows += [(name, *point) for point in torch.cat([x, curve], dim=1).tolist()]
named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="what goes in",
    up="what comes out",
    title="Each hidden feature allows one more bend; without ReLU there is none",
    dashed=["the wave", "d_ff = 32, no ReLU"],
)

# %% [markdown]
# Each hidden feature is a line that the ReLU bends once, where it crosses zero. The outer layer adds the bent lines,
# and with enough of them it can follow any continuous curve on an interval as closely as you like. Without the ReLU,
# the sum of straight lines is straight too: the two linear layers might as well be one.
#
# <details><summary>What changes?</summary>
#
# A good fit bends where the curve does: at 0 for `x.abs()`, and on both sides of the step for `(x > 0).float()`. Three
# hidden features allow at most three bends. You may see fewer, or a poor fit, if bends coincide or are outside the
# picture.
#
# </details>
#
# ### See it: where the parameters are, and where the work is
#
# On the left is the answer to your prediction. On the right is each part's share of an encoder layer's multiplications,
# as sentences get longer. For each word, the parts need these multiplications:
#
# - the **projections** of attention, four matrices: $4 D^2$, with $D$ for `d_model`;
# - **attention itself**, scores and mean: each word meets all $n$ words, $2 n D$;
# - the **feed-forward network**, two matrices: $2 D \cdot d_\mathrm{ff}$.
#
# **Change something:** use the sizes of a small model, `d_model, d_ff = 128, 256`. Where does attention itself overtake
# the feed-forward network now? (Set the two terms equal, and you don't need the picture.)

# %% tags=["see"]
d_model, d_ff = 512, 2048


def count(*modules: nn.Module) -> int:
    return sum(weights.numel() for module in modules for weights in module.parameters())


parameters = {
    "feed-forward network": count(FeedForward(d_model, d_ff)),
    "projections of attention": count(MultiHeadAttention(d_model, 8)),
    "layer normalisation": count(LayerNorm(d_model), LayerNorm(d_model)),
}
work = []
for length in [2**power for power in range(4, 15)]:
    work.append((length, "feed-forward network", 2 * d_model * d_ff))
    work.append((length, "projections of attention", 4 * d_model * d_model))
    work.append((length, "attention itself", 2 * length * d_model))

layer_costs(parameters, pd.DataFrame(work, columns=["length", "part", "multiplications"]))

# %% [markdown]
# Two thirds of an encoder layer's parameters are in the feed-forward network. In a text as short as a sentence,
# about two thirds of the work is done there, too. Attention itself has no parameters. In a text of `d_ff` words it
# costs as much as the feed-forward network.
#
# ## 3. The residual connection: add, don't replace
#
# The paper's encoder has 12 sublayers, its decoder 18. If each *replaced* the vector of a word with its output, the
# word would have to survive 12 retellings, and the gradient would have to pass back through all 12. With the **residual
# connection**, the output of a sublayer is **added to its input**:
#
# $$x + \mathrm{Sublayer}(x)$$
#
# So $x$ flows through the whole stack as the **residual stream**, and every sublayer reads from it and adds to it. The
# derivative of $x + \mathrm{Sublayer}(x)$ is 1 *plus* the sublayer's own, so one part of the gradient passes this sum
# unchanged.
#
# The residual connection has a price: the stream grows.

# %% predict="predict_stream"
# The features of x are independent numbers with mean 0 and standard deviation 1. Twelve sublayers, one
# after the other, add their outputs: each adds independent numbers with mean 0 and standard deviation 1.
# What is the standard deviation of the features after all twelve?

# %% check="predict_stream"

# %% [markdown]
# ### Post-norm and pre-norm
#
# So the sums need a norm, and there are two places for it:
#
# | | formula | used by |
# |---|---|---|
# | **post-norm** | $\mathrm{norm}(x + \mathrm{dropout}(\mathrm{Sublayer}(x)))$ | the paper, sections 3.1 and 5.4 |
# | **pre-norm** | $x + \mathrm{dropout}(\mathrm{Sublayer}(\mathrm{norm}(x)))$ | most models since about 2019 |
#
# With post-norm, the stream itself is normalised after every sublayer, so $x$ passes through every norm on its way up,
# and so does the gradient on its way down. With pre-norm, only what a sublayer *reads* is normalised, so the direct
# path stays free. But with pre-norm the stream keeps growing, so the top of each stack needs **one last norm**. (You
# add it in lesson 06.) Both work. But weights trained for one are useless for the other.
#
# ### Worked example: one word through both
#
# The word has three features, and the sublayer swaps the first two. There is no dropout.


# %% tags=["see"]
def swap(features):
    return [features[1], features[0], features[2]]


def normalise(features):
    mean = sum(features) / len(features)
    spread = (sum((feature - mean) ** 2 for feature in features) / len(features)) ** 0.5
    return [round((feature - mean) / spread, 2) for feature in features]


def add(left, right):
    return [round(a + b, 2) for a, b in zip(left, right, strict=True)]


word = [4.0, 1.0, 1.0]
print("x                            ", word)
print("post-norm: the sublayer reads", word, "and returns", swap(word))
print("   the sum                   ", add(word, swap(word)))
print("   the result                ", normalise(add(word, swap(word))))
print("pre-norm:  the sublayer reads", normalise(word), "and returns", swap(normalise(word)))
print("   the sum, the result       ", add(word, swap(normalise(word))))

# %% [markdown]
# ### Build it
#
# Your module gets $x$ and the sublayer **as a function**, because with pre-norm your module computes what the sublayer
# reads. It is used like this:
#
# ```python
# x = connection(x, lambda y: attention(y, y, y, mask))
# x = another_connection(x, feed_forward)
# ```
#
# Three rules:
#
# - **Dropout is applied to the sublayer's output**, before the sum (section 5.4). $x$ itself loses nothing.
# - The sublayer is **called once**: a second call costs time and draws new random numbers.
# - $x$ is not changed in place (`+=`), because the caller may still need it.
#
# The norm is your own `LayerNorm`, stored as `norm`.

# %% build="SublayerConnection"
### BEGIN SOLUTION course_lib.transformer.sublayers:SublayerConnection

# %% [markdown]
# A scratch cell: the worked example with your module.

# %% tags=["see"]
one_word = torch.tensor([[[4.0, 1.0, 1.0]]])
for norm_first in (False, True):
    connection = SublayerConnection(3, dropout=0.0, norm_first=norm_first)
    print(f"{norm_first = !s:5}", connection(one_word, lambda y: y[..., [1, 0, 2]]))

# %% [markdown] hints="SublayerConnection"

# %% check="SublayerConnection"

# %% [markdown]
# ### See it: how the stream grows
#
# The sublayers are random rotations here: they don't change the size of a vector, so only the connection makes a
# difference.
#
# **Change something:** let the sublayers return half as much: `nn.init.orthogonal_(rotation.weight, gain=0.5)`. Which
# of the three lines change?

# %% tags=["see"]
d_model, depth = 128, 24
ways = {
    "residual without norm": lambda x, sublayer: x + sublayer(x),
    "pre-norm": SublayerConnection(d_model, dropout=0.0, norm_first=True),
    "post-norm": SublayerConnection(d_model, dropout=0.0),
}

rows = []
for name, way in ways.items():
    torch.manual_seed(0)
    x = torch.randn(200, d_model)
    rows.append((name, 0, x.std().item()))
    for step in range(1, depth + 1):
        rotation = nn.Linear(d_model, d_model, bias=False)
        nn.init.orthogonal_(rotation.weight)
        x = way(x, rotation)
        rows.append((name, step, x.std().item()))

after_twelve = [size for name, step, size in rows if name == "pre-norm" and step == 12]
print(f"pre-norm, after 12 sublayers: {after_twelve[0]:.2f}")
named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="sublayers passed",
    up="standard deviation of the features",
    title="How large does the stream get?",
    log=True,
)

# %% [markdown]
# - **Residual without norm:** each sublayer reads a larger $x$, and so adds more. The variance doubles every time.
# - **Pre-norm:** each sublayer reads something of size 1 and adds something of size 1. After $l$ of them the standard
#   deviation is $\sqrt{1 + l}$, as in your prediction.
# - **Post-norm:** the standard deviation is back to 1 after every step.
#
# <details><summary>What changes?</summary>
#
# Two of the lines change, because each sublayer now adds half as much. After 24 sublayers, the residual without norm is
# at 15 instead of 4,000, and pre-norm at 2.6 instead of 5. Post-norm stays at 1.
#
# </details>
#
# ### See it: the gradient on its way down
#
# How large is the gradient of each sublayer's outer matrix? The stack consists of 24 untrained feed-forward networks,
# initialised by the rule that lesson 06 explains. Their output is used for a random classification task with 50
# classes. The left end of the picture is the bottom of the stack, **far from the loss**. (Each value is the mean of
# five runs with different random numbers.)
#
# The networks are connected in six ways: post-norm and pre-norm, each with and without the residual; the residual
# without a norm; and neither. (The second picture shows the four ways with a norm again, on a separate scale.)
#
# **Change something:** make the stack 48 deep, and draw both pictures again. Which lines change most?

# %% tags=["see"]
d_model, depth = 32, 24
norm = LayerNorm(d_model)
ways = {
    "post-norm": SublayerConnection(d_model, dropout=0.0),
    "pre-norm": SublayerConnection(d_model, dropout=0.0, norm_first=True),
    "post-norm, no residual": lambda x, sublayer: norm(sublayer(x)),
    "pre-norm, no residual": lambda x, sublayer: sublayer(norm(x)),
    "residual without norm": lambda x, sublayer: x + sublayer(x),
    "neither": lambda x, sublayer: sublayer(x),
}

rows = []
for name, way in ways.items():
    sizes = torch.zeros(depth)
    for seed in range(5):
        torch.manual_seed(seed)
        networks = [FeedForward(d_model, 64, dropout=0.0) for _ in range(depth)]
        x = torch.randn(64, d_model)
        for network in networks:
            nn.init.xavier_uniform_(network.inner.weight)
            nn.init.xavier_uniform_(network.outer.weight)
            x = way(x, network)
        top = norm(x) if name.startswith("pre-norm") else x
        scores = top @ torch.randn(d_model, 50) / d_model**0.5
        nn.functional.cross_entropy(scores, torch.randint(50, (64,))).backward()
        sizes += torch.stack([network.outer.weight.grad.norm() for network in networks]) / 5
    rows += [(name, number, size) for number, size in enumerate(sizes.tolist(), start=1)]

gradients = pd.DataFrame(rows, columns=["line", "x", "y"])
across = f"which of the {depth} networks (1: the bottom, far from the loss)"
named_lines(
    gradients,
    across=across,
    up="size of its gradient",
    title="How much of the gradient reaches the bottom?",
    log=True,
    dashed=[name for name in ways if name.endswith("no residual") or name == "neither"],
)

# %% [markdown]
# - **Neither:** the gradient shrinks on its way down, by a factor of thousands in total, so the lower networks learn
#   almost nothing. This is how deep networks used to fail: the **vanishing gradient** problem.
# - **Residual without norm:** the gradient arrives, but it is enormous, as the stream was.
# - **With a norm**, the gradient reaches the bottom in all four cases. Here they are again, enlarged:

# %% tags=["see"]
named_lines(
    gradients[~gradients["line"].isin(["residual without norm", "neither"])],
    across=across,
    up="size of its gradient",
    title="The four ways with a norm, enlarged",
    log=True,
    dashed=["post-norm, no residual", "pre-norm, no residual"],
)

# %% [markdown]
# Compare post-norm and pre-norm on the right, near the loss. Post-norm's gradients are about as large there as
# elsewhere; pre-norm's are about a third of that. Pre-norm has one more norm at the very end: it divides the large sum
# of all outputs, and so it divides every gradient by the same number. Further down, pre-norm's gradients are larger
# than at the top, because what a lower network adds also reaches the loss through the networks above it.
#
# <details><summary>What changes?</summary>
#
# The two ways without a norm change most. At the bottom, the gradient of "neither" falls from about 4e-5 to 2e-9, and
# that of "residual without norm" grows from about 100 to 8,000. With a norm, it changes by less than a factor of 3.
#
# </details>
#
# Xiong et al. ([2020](https://arxiv.org/abs/2002.04745)) argue that large gradients near the output make the first
# steps of training unstable, so post-norm needs a *warm-up*: a learning rate that starts near zero and grows. Lesson 07
# tests this.
#
# But with a norm and without a residual, the gradients don't fade either! So is the residual unnecessary?
#
# ### See it: which stacks can learn to pass words through unchanged?
#
# The vectors of 50 words go through the stack, and at the top a linear layer has to name each word. The stack only has
# to pass the vectors on. We train for sixty steps.
#
# **Change something:** set `depth = 4`. A stack of four networks learns without the residual, too, and even faster.
# At what depth does the residual become necessary?

# %% tags=["see"]
depth = 24
vocabulary = torch.randn(50, d_model, generator=torch.Generator().manual_seed(0))


def learned(residual: bool, norm_first: bool, steps: int = 60) -> list[float]:
    torch.manual_seed(0)
    networks = [FeedForward(d_model, 64, dropout=0.0) for _ in range(depth)]
    connections = [SublayerConnection(d_model, dropout=0.0, norm_first=norm_first) for _ in networks]
    top, answer = LayerNorm(d_model), nn.Linear(d_model, 50)
    trained = nn.ModuleList([*networks, *connections, top, answer])
    optimizer = torch.optim.Adam(trained.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        x = vocabulary
        for network, connection in zip(networks, connections, strict=True):
            if residual:
                x = connection(x, network)
            else:
                x = network(connection.norm(x)) if norm_first else connection.norm(network(x))
        if step == 0:
            alike = nn.functional.cosine_similarity(x.unsqueeze(0), x.unsqueeze(1), dim=-1)
            others = alike[~torch.eye(50, dtype=torch.bool)].mean().item()
            print(f"{residual=!s:5}  {norm_first=!s:5}  mean cosine of two words at the top: {others:.2f}")
        loss = nn.functional.cross_entropy(answer(top(x) if norm_first else x), torch.arange(50))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


rows = []
for name, residual, norm_first in [
    ("post-norm", True, False),
    ("pre-norm", True, True),
    ("post-norm, no residual", False, False),
    ("pre-norm, no residual", False, True),
]:
    rows += [(name, step, loss) for step, loss in enumerate(learned(residual, norm_first), start=1)]

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="steps of training",
    up="loss",
    title="Does the stack learn to pass the words on?",
    dashed=["post-norm, no residual", "pre-norm, no residual"],
)

# %% [markdown]
# The loss is the mean of $-\ln p$ over all words, where $p$ is the probability given to the correct word. (This is the
# *cross-entropy* of lesson 08.) Guessing gives each of the 50 words $p = 1/50$, and so a loss of $\ln 50 \approx 3.91$.
#
# Without the residual, the loss goes up and down near that number: after sixty steps, it is still close to guessing.
# (How close depends on the random numbers.) Look at the printed lines: before the first step, 24 random networks have
# made **all words alike**: on average, the cosine of the angle between two words' vectors is nearly 1, and 1 means that
# they point the same way. A gradient of a good size arrives, but
# it is nearly the same for every word.
#
# With the residual, each word is still present at the top. And to pass it through unchanged, a sublayer only has to
# learn to add nothing.
#
# <details><summary>What changes?</summary>
#
# There is no sharp threshold. With up to about 10 networks, the stack learns nearly as well without the residual. With
# 16, its loss is still above 1.5 after sixty steps, and with 20 above 3. With the residual, it is near 0.5 in both
# cases.
#
# </details>
#
# ### Explain it
#
# One student says: "The norm alone keeps the gradients from fading. So we don't need the residual." Another says: "The
# residual alone lets every gradient pass. So we don't need the norm." Answer both, using what you have seen.

# %% [markdown] explain="explain_both"
# To the first: a gradient of a good size is not enough. Without the residual each sublayer replaces the vectors, and a
# stack of new networks makes all words alike, so the top knows nothing about the input any more and the gradient is
# about the same for every word; the loss stayed near that of guessing. With the residual, x still reaches the top
# (unchanged with pre-norm, rescaled at each step with post-norm), and each sublayer only has to learn what to add. To
# the second: with the residual alone, every sublayer reads the growing sum and adds in proportion, so the size is
# multiplied at every step, and numbers and gradients grow exponentially with depth. The norm keeps what a sublayer
# reads (pre-norm) or what the connection returns (post-norm) at size one.
#
# ### BEGIN MARK SCHEME
# - 1 point: without the residual the stack loses the input (words become alike), so it can't learn although the
#   gradient's size is fine.
# - 1 point: with it, x still reaches the top; or: each sublayer only has to learn what to add.
# - 1 point: the residual without the norm grows exponentially with depth, in the forward pass or in the gradient, and
#   the norm prevents that.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>Don't the learned scale and shift undo the normalisation?</summary>
#
# Only in part: they are the same for all words, so they can't give a single word its own volume back. They exist
# because a variance of 1 may not be the best for what comes next.
#
# </details>
#
# <details><summary>How exactly do layer and batch normalisation differ?</summary>
#
# Batch normalisation averages over the examples, for each feature; layer normalisation over the features, for each
# position. Both then have a learned scale and shift for each feature. Batch normalisation usually comes before the
# non-linearity, layer normalisation before or after a sublayer. Batch normalisation was proposed to reduce *internal
# covariate shift*, the change of a layer's inputs while the layers below it learn ([Ioffe and Szegedy
# 2015](https://arxiv.org/abs/1502.03167)). Later experiments suggest that it helps because it makes the loss smoother
# ([Santurkar et al. 2018](https://arxiv.org/abs/1805.11604)).
#
# </details>
#
# <details><summary>Why is d_ff four times d_model?</summary>
#
# The paper gives no reason. Its table 3, rows (C), tries other sizes: wider is better, and costs more.
#
# </details>
#
# <details><summary>The paper mentions convolutions with kernel size 1. Where are they?</summary>
#
# Here: a convolution with kernel size 1 applies the same linear layer at every position, as `nn.Linear` does.
#
# </details>
#
# <details><summary>Which is better, post-norm or pre-norm?</summary>
#
# Pre-norm is easier to train: it tolerates a missing warm-up, and very deep stacks work. The default here is the
# paper's post-norm. In the final lab you can compare both.
#
# </details>
#
# <details><summary>Why is eps 1e-6 here, and 1e-5 in PyTorch?</summary>
#
# By convention; the papers give no number. The value barely matters as long as it is far below the usual variance, but
# a model must be used with the eps that it was trained with.
#
# </details>
#
# ## Further reading
#
# **Since 2017**, the norm and the feed-forward network have changed in most language models:
#
# - Xiong et al. 2020, [On Layer Normalization in the Transformer Architecture](https://arxiv.org/abs/2002.04745): why
#   pre-norm trains without a warm-up.
# - Zhang and Sennrich 2019, [RMSNorm](https://arxiv.org/abs/1910.07467): normalisation without the mean and the shift.
#   Divide by the root mean square of the features, then scale.
# - Shazeer 2020, [GLU Variants](https://arxiv.org/abs/2002.05202): feed-forward networks with a gate in place of the
#   ReLU, such as SwiGLU.
# - Shazeer et al. 2017, [Mixture-of-Experts](https://arxiv.org/abs/1701.06538): many feed-forward networks, of which
#   each word uses only a few.
#
# ## Where you are
#
# Save the notebook, press **Validate**, and run the next cell.

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# Next: **lesson 04, masks**.
