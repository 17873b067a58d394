# %% [markdown]
# # Lesson 03: what stands around attention
#
# Attention moves information between words. That alone is no Transformer yet. Between attention and attention, every
# word also has to *think over* what it has gathered, and the whole stack has to stay learnable when it is dozens of
# steps deep. Three small parts see to that, and no method of theirs is longer than four lines.
#
# At the end of this lesson you have written all three, and you can say
#
# - what **layer normalisation** computes, to the last detail that people get wrong,
# - what the **feed-forward network** is for, and why two thirds of an encoder layer's parameters are in it,
# - what the **residual connection** does that normalisation cannot, and the other way round,
# - what *post-norm* and *pre-norm* mean, and which of the two the paper has.
#
# **Time:** about two and a half hours. **In the paper:** sections 3.1, 3.3 and 5.4 of
# Vaswani et al. 2017, [Attention Is All You Need](https://arxiv.org/abs/1706.03762). The paper takes the normalisation
# from Ba, Kiros and Hinton 2016, [Layer Normalization](https://arxiv.org/abs/1607.06450), and the residual connection
# from He et al. 2016, [Deep Residual Learning](https://arxiv.org/abs/1512.03385).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    exercises_through,
    layer_costs,
    named_lines,
    normalisation_effect,
    show_offline,
)

show_offline()
architecture_map(built=exercises_through(2), current=["LayerNorm", "FeedForward", "SublayerConnection"])

# %% [markdown]
# Look at the boxes called "Add & norm": there are five of them in the picture, one around each attention and each
# feed-forward network. That frame around something is what the paper builds its layers of. The something is called a
# **sublayer**.
#
# Run the next cell once. It imports what your code may use, and from lesson 02 the multi-head attention.

# %% given="setup"
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.checks import check
from course_lib.transformer import MultiHeadAttention

# %% [markdown]
# ## 1. Layer normalisation: every word at the same volume
#
# Think of a choir in which every singer has a microphone, and nobody has set the volumes. One is so loud that you
# hear nobody else, another is lost. Before you can work with the sound, you bring all of them to the same level.
#
# The vectors of the words in a network are like that. A sublayer adds a lot to one and little to another, and after a
# few of them some vectors are ten times as large as others. **Layer normalisation** takes each vector by itself, moves
# it so that its features have mean 0, and stretches it so that they have variance 1.
#
# For the vector $x$ of one word, with $D$ features:
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
# | $\epsilon$ | `eps` | a tiny number, so that nothing is divided by zero |
# | $g$ | `scale` | one learned factor for each feature; 1 in a new layer |
# | $b$ | `shift` | one learned number to add for each feature; 0 in a new layer |
#
# First work one out by hand.

# %% predict="predict_normalised"
# A word's vector has four features: 0, 0, 0 and 4. What does layer normalisation make of the 4?
# (The layer is new: scale 1, shift 0. And eps is so small that you can forget about it.)

# %% check="predict_normalised"

# %% [markdown]
# Did you notice? Had the last feature been 400 in place of 4, the answer would be the same. The volume is gone. What
# stays is the *shape* of the vector: which features stand out, and how far compared with the others.
#
# ### Three details that people get wrong
#
# **Which axis.** Mean and variance run over the features of one word: the last axis. Not over the words of a sentence,
# not over the sentences of a batch. What comes out for a word depends on that word alone.
#
# **Which variance.** $\sigma^2$ divides by $D$. PyTorch's `var` and `std` divide by $D - 1$ unless told otherwise,
# because statisticians *estimate* from samples. There is nothing to estimate here: the $D$ features are all there are.
# At $D = 512$ you would hardly see the difference, and that is why this mistake lives on in so much published code.
#
# **Where epsilon stands.** Under the root, beside the variance. Then the derivative of the root stays finite even for
# a vector whose features are all equal. Outside, the forward pass is safe, but the gradient is not.
#
# ### Build it
#
# A class that derives from `nn.Module` has two methods to write.
#
# - `__init__` makes what the layer keeps. Its first line is `super().__init__()`: it makes the lists in which a module
#   keeps its parameters. After that, a tensor wrapped in **`nn.Parameter`** and put into an attribute is *learned*: the
#   optimiser finds it, a checkpoint saves it. A plain tensor in an attribute is neither.
# - `forward` does the work. It runs when you call the module: `norm(x)`.
#
# Your layer gets tensors with **any number of axes in front** of the features. The names `scale` and `shift` are part
# of the task: under these names the check puts weights in, and so will others who use your layer.
#
# (`torch.nn.LayerNorm` and the function behind it are not allowed here: they are the whole exercise.)

# %% build="LayerNorm"
### BEGIN SOLUTION course_lib.transformer.sublayers:LayerNorm

# %% [markdown] hints="LayerNorm"

# %% check="LayerNorm"

# %% [markdown]
# ### See it: before and after
#
# Five words with 24 features each. Their vectors have drifted apart, as they do in a network: one is loud, one is
# quiet, one has moved to the right. Beside each row stand the mean and the standard deviation of its features.
#
# **Change something:** multiply `x` by 100. Make the layer with `eps=10.0`: who suffers most, the loud words or the
# quiet ones, and why? Put `norm.scale.data.fill_(2.0)` before the last line.

# %% tags=["see"]
torch.manual_seed(1)
words = ["the", "small", "dog", "plays", "outside"]
spreads = torch.tensor([0.3, 1.0, 2.5, 1.0, 1.8]).unsqueeze(-1)
means = torch.tensor([0.0, 0.0, 0.0, 4.0, -2.0]).unsqueeze(-1)
x = means + spreads * torch.randn(5, 24)

norm = LayerNorm(24)
normalisation_effect(x, norm(x), words)

# %% [markdown]
# ### Explain it
#
# In networks for images another normalisation is usual: **batch normalisation**. It takes mean and variance of each
# *feature* over all examples of a batch, and at test time uses averages that it has collected during training.
#
# Why is that a bad fit for a translator? Think of sentences of different lengths in one batch, and of a user who has
# one single sentence translated, word by word. And why does none of that trouble layer normalisation? Three or four
# sentences.

# %% [markdown] explain="explain_over_features"
# Sentences have different lengths, so a batch is filled up with padding, and the statistics of a batch would depend on
# how much padding is in it and on which other sentences happen to be there: the same sentence would give different
# results in different company. In use there may be only one sentence, and while it is written there is only one new
# word at a time, so there is no batch to take a mean of; stored averages would have to stand in, and training and use
# would no longer compute the same. Layer normalisation needs nothing but the word's own features, so it gives the same
# in training and in use, in any batch and at any length.
#
# ### BEGIN MARK SCHEME
# - 1 point: with batch statistics, a sentence's result depends on the other sentences, their lengths or their padding.
# - 1 point: in use there may be a single sentence or word, so batch statistics are missing or differ from training.
# - 1 point: layer normalisation uses only the features of the position itself, so none of this matters to it.
#
# Give the point for a right idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## 2. The feed-forward network: thinking it over
#
# What attention hands to a word is a mean of values: a *mixture* of what is there. It takes what others have, and
# makes nothing new of it. (Its weights come out of a softmax, but given the weights, everything is a weighted sum.)
#
# So after each attention the paper puts a small network that works on **each word alone**, with the same weights for
# every word. It widens the vector, keeps what is positive, and narrows it again (section 3.3, equation 2):
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
# plural, after a preposition?"). The ReLU lets through only the questions that are answered with yes. Each of these
# then adds its own answer to the word's vector.
#
# Attention has four matrices, the network has only two. Which of them is the larger part of a layer, and by how much?

# %% predict="predict_network_share"
# In the paper d_model is 512 and d_ff is 2048. Multi-head attention has four linear layers, each from
# 512 to 512 features with bias; the feed-forward network has the two above. Of all the parameters that
# the two sublayers have together, which share is in the feed-forward network? (A number from 0 to 1.)

# %% check="predict_network_share"

# %% [markdown]
# ### Build it
#
# Two `nn.Linear`, called `inner` and `outer`, and between them ReLU and **dropout**: in training, some of the hidden
# features are set to 0 at random and the others are enlarged to make up for it, so that no answer comes to rely on a
# single question. (The paper's section 5.4 does not name this place for dropout; nearly all code has it.) `nn.Dropout(p)` is a module that does this. It knows whether it is in training or in evaluation,
# provided that you make it in `__init__`.

# %% build="FeedForward"
### BEGIN SOLUTION course_lib.transformer.sublayers:FeedForward

# %% [markdown] hints="FeedForward"

# %% check="FeedForward"

# %% [markdown]
# ### See it: what can it make of a number?
#
# To see what such a network can do, make it tiny: `d_model` is 1, so it is a function from one number to one number.
# Here it is trained to follow a wave, with 2, 4 and 32 hidden features, and once with 32 features but **without the
# ReLU**.
#
# **Change something:** ask for another curve, such as `x.abs()` or `(x > 0).float()`. Give it 3 hidden features. Where
# are the bends, and how many are there?

# %% tags=["see"]
import pandas as pd

torch.set_num_threads(1)  # such small tensors are done sooner by one core alone
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
# Each hidden feature is a line that the ReLU bends once, where it crosses zero. The outer layer adds the bent lines
# up. With enough of them you can follow any curve. Without the ReLU you add up straight lines, and a sum of straight
# lines is a straight line, however many they are: the two linear layers might as well be one.
#
# ### See it: where the parameters are, and where the work is
#
# Your prediction, and what becomes of it when sentences grow. On the right is the arithmetic of one encoder layer, in
# multiplications for each word:
#
# - the **projections** of attention, four matrices: $4 d^2$, with $d$ for `d_model`;
# - **attention itself**, scores and mean: each word meets all $n$ words, $2 n d$;
# - the **feed-forward network**, two matrices: $2 d \cdot d_\mathrm{ff}$.
#
# **Change something:** the sizes of a small model, `d_model, d_ff = 128, 256`. Where does attention itself overtake
# the feed-forward network now? (Set the two terms equal, and you have it without a picture.)

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
# Two thirds of an encoder layer's parameters are in the feed-forward network, and at the lengths of sentences also two thirds of the
# work. Attention itself has no parameters at all, and for a sentence it costs next to nothing. In a text with as many
# words as `d_ff` it costs as much as the network. That is why people who translate sentences worry about the network,
# and people who read whole books worry about attention.
#
# ## 3. The residual connection: add, do not replace
#
# Now put sublayers on top of each other: the paper's encoder has 12 of them, its decoder 18. If each one *replaced* the
# vector of a word by what it makes of it, then the first word of the story would have to survive 12 retellings. And the
# gradient, on its way back, would have to pass through all 12.
#
# The **residual connection** changes one thing: what a sublayer makes of $x$ is **added to $x$**.
#
# $$x + \mathrm{Sublayer}(x)$$
#
# So $x$ runs from the bottom to the top like a river. Every sublayer reads from it and pours something in. Nobody has
# to carry on what is there already; it flows by itself. And the derivative of $x + \mathrm{Sublayer}(x)$ is 1 *plus*
# something, so a gradient that arrives at the top also arrives at the bottom.
#
# The river has a price: it swells.

# %% predict="predict_stream"
# The features of x are independent numbers with mean 0 and standard deviation 1. Twelve sublayers, one
# after the other, add to x what they make of it: each adds independent numbers with mean 0 and standard
# deviation 1. What is the standard deviation of the features after all twelve?

# %% check="predict_stream"

# %% [markdown]
# ### Post-norm and pre-norm
#
# So sums need normalising. There are two places for it, and this is the point at which code and prose of many
# implementations contradict each other:
#
# | | formula | who |
# |---|---|---|
# | **post-norm** | $\mathrm{norm}(x + \mathrm{dropout}(\mathrm{Sublayer}(x)))$ | the paper, sections 3.1 and 5.4 |
# | **pre-norm** | $x + \mathrm{dropout}(\mathrm{Sublayer}(\mathrm{norm}(x)))$ | most models since about 2019; Xiong et al. 2020, [arXiv 2002.04745](https://arxiv.org/abs/2002.04745) |
#
# In post-norm the river itself passes through a norm after every sublayer. In pre-norm only what a sublayer *reads* is
# normalised; the river is never touched. It arrives swollen at the top, so a pre-norm model needs **one last norm at
# the top of each stack**, and a post-norm model must not have it. (You will set it in lesson 06.)
#
# Neither is wrong. But know which you have: weights trained for one are worthless in the other.
#
# ### Build it
#
# Your module gets $x$ and the sublayer **as a function**. It has to be a function, not a finished result, because in
# pre-norm it is your module that makes what the sublayer reads. Whoever uses it writes, for example,
#
# ```python
# x = connection(x, lambda y: attention(y, y, y, mask))
# x = another_connection(x, feed_forward)
# ```
#
# Three rules, from section 5.4 and from good sense:
#
# - **Dropout falls on what the sublayer gives**, before the sum. $x$ itself loses nothing.
# - The sublayer is **called once**: a call costs time, and draws new random numbers.
# - $x$ is not changed in place (`+=`): whoever handed it in may still need it.
#
# The norm is your own `LayerNorm`, kept under the name `norm`.

# %% build="SublayerConnection"
### BEGIN SOLUTION course_lib.transformer.sublayers:SublayerConnection

# %% [markdown] hints="SublayerConnection"

# %% check="SublayerConnection"

# %% [markdown]
# ### See it: how the river swells
#
# Back to your prediction. As stand-ins for sublayers take random rotations: a rotation gives back exactly as much as
# goes in, so nothing but the connection makes a difference.
#
# **Change something:** only the first 3 of the 24 steps. Sublayers that give half as much:
# `nn.init.orthogonal_(rotation.weight, gain=0.5)`.

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
    title="Without a norm the sum doubles its variance each time; pre-norm lets it grow slowly",
    log=True,
)

# %% [markdown]
# - **Residual without norm:** each sublayer reads a larger $x$, and so adds more. The variance doubles every time:
#   growth without end.
# - **Pre-norm:** each sublayer reads something of size 1 and adds something of size 1. After $l$ of them the standard
#   deviation is $\sqrt{1 + l}$, your prediction.
# - **Post-norm:** back to 1 after every step.
#
# ### See it: the gradient on its way down
#
# Now the way back. 24 of your feed-forward networks on top of each other, freshly made, with the starting weights that
# lesson 06 will use (Xavier). At the top stands a random question with 50 possible answers. For each of the 24: how
# large is the gradient of its outer matrix? The left end is the bottom of the stack, **far from the loss**. (The mean
# of five draws.)
#
# Six ways to put them together: post-norm and pre-norm, each with and without the residual, and for comparison the
# residual without any norm, and neither.
#
# **Change something:** leave the last two ways out, and see the others more closely. Make the stack 48 deep.

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
    rows += [(name, place, size) for place, size in enumerate(sizes.tolist(), start=1)]

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="which of the 24 networks (1: the bottom, far from the loss)",
    up="size of its gradient",
    title="Plain stacks fade, bare sums explode; with a norm the gradient arrives",
    log=True,
    dashed=["post-norm, no residual", "pre-norm, no residual", "neither"],
)

# %% [markdown]
# - **Neither:** the further down, the smaller, by a factor of thousands. The lower networks get no word of what is
#   wanted. This is how deep networks used to fail.
# - **Residual without norm:** it arrives, but it is enormous, as the river was.
# - **With a norm**, the gradient reaches the bottom in all four ways. Compare the two solid lines at the top of the
#   stack, on the right: post-norm's gradients stay as large there as anywhere, pre-norm's get smaller, since each
#   network adds its bit to a larger and larger sum. Xiong et al. hold this against post-norm: large gradients near the
#   output make the first steps of training dangerous, and it needs a *warm-up*. Lesson 07 tries that out.
#
# But wait. The two dashed lines with a norm and no residual do not fade either! Is the residual superfluous, once there is a norm?
#
# ### See it: who can learn to do nothing?
#
# The easiest task that there is: 50 words, each with a vector of its own, go through the stack, and at the top a linear
# layer has to say which word it was. The stack need only let the vectors pass. Sixty steps of training.
#
# **Change something:** 4 networks in place of 24 (`depth = 4`). How deep can the stack be without the residual?

# %% tags=["see"]
vocabulary = torch.randn(50, d_model, generator=torch.Generator().manual_seed(0))


def learned(residual: bool, norm_first: bool, steps: int = 60) -> list[float]:
    torch.manual_seed(0)
    networks = [FeedForward(d_model, 64, dropout=0.0) for _ in range(depth)]
    frames = [SublayerConnection(d_model, dropout=0.0, norm_first=norm_first) for _ in networks]
    top, answer = LayerNorm(d_model), nn.Linear(d_model, 50)
    trained = nn.ModuleList([*networks, *frames, top, answer])
    optimizer = torch.optim.Adam(trained.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        x = vocabulary
        for network, frame in zip(networks, frames, strict=True):
            if residual:
                x = frame(x, network)
            else:
                x = network(frame.norm(x)) if norm_first else frame.norm(network(x))
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
    title="With the residual the stack learns; without it, hardly anything",
    dashed=["post-norm, no residual", "pre-norm, no residual"],
)

# %% [markdown]
# Guessing costs $\ln 50 \approx 3.9$, and after sixty steps the stacks without the residual have hardly come away from
# that. Read the printed lines: before the first step, 24 random networks on top of each other have made **all words
# alike** (the mean cosine of two words' vectors is nearly 1). A gradient arrives, it even has a good size, but it says
# nearly the same for every word.
#
# With the residual each word is still there at the top, with something added. And to learn "do nothing", a sublayer
# only has to learn to add nothing.
#
# ### Explain it
#
# A fellow student says: "The picture of the gradients shows that the norm alone keeps them from fading. So one can leave
# the residual out." Another says: "The residual alone lets every gradient pass. So one can leave the norm out." Answer
# both, with what you have seen.

# %% [markdown] explain="explain_both"
# To the first: that a gradient has a good size is not enough. Without the residual each sublayer replaces the vectors,
# and a stack of fresh networks makes all words alike, so what arrives at the top says nothing about the input any more
# and the gradient is about the same for every word; the loss stayed near that of guessing. With the residual x reaches
# the top as it is, plus what the sublayers add, and each only has to learn a change. To the second: with the residual
# alone every sublayer reads the growing sum and adds in proportion, so the size is multiplied at every step, numbers and
# gradients grow exponentially with depth. The norm keeps what a sublayer reads (pre-norm) or what it hands on
# (post-norm) at size one.
#
# ### BEGIN MARK SCHEME
# - 1 point: without the residual the stack loses the input (words become alike), so it cannot learn although the
#   gradient's size is fine.
# - 1 point: with it, x runs past the sublayers to the top, and each has only to learn what to add.
# - 1 point: the residual without the norm grows exponentially with depth, in the forward pass or in the gradient, and
#   the norm stops that.
#
# Give the point for a right idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>Does the learned scale not undo the normalisation?</summary>
#
# Only in part. Scale and shift are the same for all words: they can make feature 7 large everywhere. They cannot give a
# single word its own volume back. That is gone.
#
# </details>
#
# <details><summary>Does layer normalisation behave differently in training and in evaluation?</summary>
#
# No. It keeps no averages and needs no batch. Of your three parts, only those with dropout have two modes.
#
# </details>
#
# <details><summary>Why is d_ff four times d_model?</summary>
#
# Because the authors found that it works. Table 3 of the paper, rows (C), tries other sizes: wider is better, and costs
# more. Four has stayed the habit.
#
# </details>
#
# <details><summary>The paper speaks of convolutions with kernel size 1. Where are they?</summary>
#
# Right here. A convolution with kernel size 1 applies the same linear layer at every place and looks at no neighbour,
# which is what `nn.Linear` does on the last axis of a tensor.
#
# </details>
#
# <details><summary>Which is better, post-norm or pre-norm?</summary>
#
# Pre-norm trains more easily: it forgives a missing warm-up, and very deep stacks work. Post-norm, when it trains, often
# ends a little better. The paper has post-norm with 6 layers and a warm-up, so that is the default here, and the final
# lab lets you choose.
#
# </details>
#
# <details><summary>Why is eps 1e-6 here, and 1e-5 in PyTorch?</summary>
#
# Habit on both sides; the papers name no number. It hardly matters as long as it is far below the usual variance. It
# does matter that a model is used with the eps with which it was trained.
#
# </details>
#
# <details><summary>I have seen RMSNorm in newer models. What is that?</summary>
#
# Layer normalisation without taking the mean away and without the shift: divide by the root of the mean square, then
# scale (Zhang and Sennrich 2019). A little cheaper, about as good.
#
# </details>
#
# <details><summary>PyTorch has nn.LayerNorm. Why write it?</summary>
#
# For the same reason as attention: you now know which axis, which variance, and where eps stands, and you would notice
# if a framework did it differently. PyTorch's is one fused kernel, which reads $x$ once, and so is faster.
#
# </details>
#
# ## Where you are

# %% tags=["see"]
architecture_map(built=exercises_through(3))

# %% [markdown]
# Attention, and all that stands around it. Before you hand the lesson in, press **Validate** in the toolbar: it runs
# the notebook from top to bottom, as the grader will.
#
# Next: **lesson 04, masks**. Who may look at whom, and how a careless mask lets a model see the answer.
