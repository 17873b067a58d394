# %% [markdown]
# # Lesson 02: multi-head attention
#
# Lesson 01 ended with two complaints. A word looked most of all at itself, since it asked with the same vector by
# which it is found. And whatever it looked at, it came back with one mean: one point of view. The paper cures both at
# once. **Projections** let a word ask with one vector and be found by another, and several **heads** do so side by
# side, each in its own way.
#
# At the end of this lesson you have built the paper's `MultiHeadAttention`, and you can say
#
# - how a projection decides what a word looks for,
# - how one tensor is cut into heads and put together again, and why a reshape alone does it wrong,
# - why eight heads have exactly as many parameters as one, and what they can do that one cannot.
#
# **Time:** about two and a half hours. **In the paper:** sections 3.2.2, 3.2.3 and 6.2 (rows A of table 3) of
# Vaswani et al. 2017, [Attention Is All You Need](https://arxiv.org/abs/1706.03762).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    attention_heatmap,
    cost_of_heads,
    exercises_through,
    features_in_heads,
    named_lines,
    show_offline,
)

show_offline()
architecture_map(
    built=exercises_through(1),
    current=["split_heads", "merge_heads", "MultiHeadAttention"],
)

# %% [markdown]
# The core is filled in: that was lesson 01. Now you build what stands around it. It is used in three places of the
# model, and these three differ only in what goes in.
#
# Run the next cell once. It imports what your code may use. From here on the earlier lessons' functions come from the
# course's reference, so a slip in lesson 01 does not follow you here.

# %% given="setup"
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.checks import check
from course_lib.transformer.attention import AttentionFunction, scaled_dot_product_attention

# %% [markdown]
# ## 1. Projections: ask with one vector, be found by another
#
# A **projection** is a matrix that makes a new vector from an old one. Each word has one vector $x$, and three
# projections make a query, a key and a value of it:
#
# $$q = x\,W^Q, \qquad k = x\,W^K, \qquad v = x\,W^V$$
#
# where $W^Q$, $W^K$ and $W^V$ are matrices of numbers that the network learns. What a word asks for ($q$), what it is
# found by ($k$) and what it hands over ($v$) can now be three different things.
#
# What can such a matrix express? Let us write some by hand. We describe each word by 16 features that we can read:
# the first five say what kind of word it is, the other eleven say in which place it stands. (A real network gets
# neither from us. It learns the kinds, and lesson 05 gives it the places.)

# %% tags=["see"]
sentence = "a small dog plays with a red ball on the beach".split()
kinds = ["article", "adjective", "noun", "verb", "preposition"]
kind_of = {
    **dict.fromkeys(["a", "the"], "article"),
    **dict.fromkeys(["small", "red"], "adjective"),
    **dict.fromkeys(["dog", "ball", "beach"], "noun"),
    **dict.fromkeys(["plays"], "verb"),
    **dict.fromkeys(["with", "on"], "preposition"),
}
KIND = {kind: number for number, kind in enumerate(kinds)}
PLACE = [len(kinds) + place for place in range(len(sentence))]

x = torch.zeros(len(sentence), 16)
for place, word in enumerate(sentence):
    x[place, KIND[kind_of[word]]] = 1
    x[place, PLACE[place]] = 1

print("dog:", x[2].int().tolist())

# %% [markdown]
# For the keys we take $W^K = I$, the identity: each word is found by the features that it has. All the art is in
# $W^Q$. Read its entry in row `have` and column `want` as: *a word that has this feature looks for words that have
# that one, so strongly*.
#
# ### See it: what a projection lets a word look for
#
# Three matrices $W^Q$. The first looks for what the word itself is, as in lesson 01. The second is a **head that
# looks at the previous word**: place 5 asks for place 4. In the third, nouns look for adjectives and adjectives for
# nouns.
#
# **Change something:** let every word look two places back. Let nouns prefer the adjective just before them: add the
# wishes of two matrices, as in `describing + 0.5 * previous`.

# %% tags=["see"]
same = 20 * torch.eye(16)

previous = torch.zeros(16, 16)
for place in range(1, len(sentence)):
    previous[PLACE[place], PLACE[place - 1]] = 20

describing = torch.zeros(16, 16)
describing[KIND["noun"], KIND["adjective"]] = 20
describing[KIND["adjective"], KIND["noun"]] = 20

weights = torch.stack(
    [scaled_dot_product_attention(x @ wants, x, x)[1] for wants in (same, previous, describing)]
)
attention_heatmap(
    weights,
    sentence,
    sentence,
    panels=["the same", "the previous word", "nouns and adjectives"],
    title="What does each word look for?",
)

# %% [markdown]
# Look for three things.
#
# **The diagonal is gone** in the second and third panel. A word can look at others, because it asks with another
# vector than the one by which it is found.
#
# **It can look back without being looked at.** In the second panel "dog" looks at "small", and "small" does not look
# back. With equal queries and keys the two *scores* would be the same: "dog" would fit "small" exactly as well as "small"
# fits "dog".
#
# **Who finds nothing looks everywhere.** The first word has no previous one, and in the third panel "plays" looks for
# nothing. All scores are 0 there, so the weights are equal. A softmax must spend its whole weight somewhere.
#
# ## 2. Heads: several looks at once
#
# "Ball" may want to know its adjective, and also the word before it, and also who plays. Each of these is a matrix
# $W^Q$ like those above. Could one matrix do it all, by adding the wishes up? It would look at all these words. But
# what comes back is **one mean**, in which nobody can tell any more who said what. So the paper lets several heads
# look, each with its own projections, and puts what they bring back side by side:
#
# $$\mathrm{MultiHead}(Q, K, V) = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W^O$$
#
# $$\mathrm{head}_i = \mathrm{Attention}(Q W_i^Q,\; K W_i^K,\; V W_i^V)$$
#
# | symbol | in code | what it is |
# |---|---|---|
# | $h$ | `heads`, H | the number of heads; 8 in the paper |
# | $d_{model}$ | `d_model`, D | the number of features of a word; 512 in the paper |
# | $d_k$ and $d_v$ | D/H | the number of features that one head works with; $d_{model} / h$, so 64 in the paper |
# | $W_i^Q$, $W_i^K$, $W_i^V$ | parts of three layers | the projections of head $i$, each of shape ($d_{model}$, $d_k$) |
# | $\mathrm{Concat}$ | `merge_heads` | puts the heads' results side by side: $h \cdot d_v = d_{model}$ features again |
# | $W^O$ | `output_projection` | mixes what the heads found, of shape ($d_{model}$, $d_{model}$) |
#
# Written like this, there are 24 small matrices for 8 heads, and a loop. Nobody computes it so. Put the eight matrices
# $W_1^Q, \dots, W_8^Q$ side by side and you have **one** matrix of shape ($d_{model}$, $d_{model}$). One
# product makes the queries of all heads at once: the first 64 features are head 0's, the next 64 head 1's, and so on.
# (Code counts heads from 0.)
#
# What is left is to *cut* those features into heads, and later to put them together again. Those are your first two
# functions. They compute nothing, they only move numbers. They are easy to get wrong all the same, because there are
# so many ways to get the right *shape* with the wrong numbers in it.

# %% predict="predict_feature"
# x has shape (2, 10, 512), and split_heads(x, 8) has shape (2, 8, 10, 64). Take feature 5 of head 3.
# Which of the 512 features of x is that? Heads and features are counted from 0.

# %% check="predict_feature"

# %% [markdown]
# ### Build it: split and merge
#
# `split_heads` takes (B, L, D), which is batch, length, features, and gives (B, H, L, D/H). Why the heads in second
# place? Because attention works on the **last two axes**, (words, features), and takes whatever stands in front as a
# batch. So all heads of all sentences attend in one product, and none sees another. That is what the `...` in
# lesson 01 was for.
#
# Where the features cannot be shared out equally, say 10 features among 4 heads, raise a `ValueError` that names both
# numbers. Whoever reads it at midnight in the log of a cluster will be grateful.

# %% build="split_heads"
### BEGIN SOLUTION course_lib.transformer.multi_head:split_heads

# %% [markdown] hints="split_heads"

# %% check="split_heads"

# %% [markdown]
# And the way back, from (B, H, L, D/H) to (B, L, D). It takes what `split_heads` gives, and just as well heads that
# come from somewhere else.

# %% build="merge_heads"
### BEGIN SOLUTION course_lib.transformer.multi_head:merge_heads

# %% [markdown] hints="merge_heads"

# %% check="merge_heads"

# %% [markdown]
# ### See it: where do the numbers go?
#
# Four words with six features each, cut into three heads: once by your function, and once by a bare `reshape` to the
# same shape. Every number says from which word and which feature it comes.
#
# **Change something:** other numbers of heads and features (`d_model` must be divisible by `heads`). Is there a number
# of heads for which the bare reshape does no harm?

# %% tags=["see"]
words = ["a", "dog", "saw", "me"]
d_model, heads = 6, 3

numbers = torch.arange(float(len(words) * d_model)).reshape(1, len(words), d_model)
features_in_heads(
    {
        "x, one sentence": numbers,
        f"split_heads(x, {heads})": split_heads(numbers, heads)[0],
        f"x.reshape(1, {heads}, {len(words)}, {d_model // heads})": numbers.reshape(
            heads, len(words), d_model // heads
        ),
    },
    words,
)

# %% [markdown]
# A reshape keeps all numbers in the order in which they lie in memory, and only cuts that long row anew. So it gives
# the *first words* to the first head, where it should give the *first features of every word*. The shape is right and
# no error is raised. A network built on it would even learn something, with the wrong words. Only a test with numbers
# that you can tell apart finds it.
#
# ## 3. Multi-head attention
#
# Now the module. `forward` gets `query`, `key` and `value` as three tensors, since in the decoder the queries come
# from one sentence and the keys and values from another. It does five things in a row:
#
# 1. **project** query, key and value, each with its own layer,
# 2. **split** all three into heads,
# 3. **attend** in every head,
# 4. **merge** the heads,
# 5. **project** once more.
#
# Four linear layers, all from `d_model` to `d_model`. The checks put weights into them, so their names are fixed:
#
# | attribute | what it is |
# |---|---|
# | `query_projection` | `nn.Linear`, makes the queries of all heads at once |
# | `key_projection` | `nn.Linear`, the same for the keys |
# | `value_projection` | `nn.Linear`, the same for the values |
# | `output_projection` | `nn.Linear`, the $W^O$ of the formula |
#
# All four have a bias, which is what `nn.Linear` does unless told otherwise. Each starts with random numbers of **its
# own**: make four layers, not one layer and three copies of it. Whatever else you keep on the module is up to you.
#
# How many numbers is that to learn? Predict it before you build it.

# %% predict="predict_parameters"
# How many parameters (numbers that are learned) has MultiHeadAttention(512, 8)? Count the biases too.

# %% check="predict_parameters"

# %% [markdown]
# ### The attention function is an argument
#
# `MultiHeadAttention` does not call `scaled_dot_product_attention` by name. It calls whatever function it was given
# as `attention`, and that is `scaled_dot_product_attention` if nobody says otherwise. Why so roundabout?
#
# - **To look inside.** `forward` hands back the output only, because that is what the next part of the network needs.
#   When we want to see the weights, we pass a function that records them. Nothing has to be stored on the module,
#   where it would fill the memory and get in the way of copying.
# - **To be fast.** The final lab passes PyTorch's fused kernel, which never writes the table of weights down. Not a
#   line of your module changes.
#
# The bargain is: it takes `(query, key, value, mask, dropout)`, all cut into heads, and gives `(output, weights)`.
#
# ### Three small things that often go wrong
#
# **The mask.** Masks mostly come with three axes, (B, Q, K): for each sentence, which query may look at which key. The
# scores now have four, (B, H, Q, K). Axes are matched from the end, so the mask's B would meet H. Give such a mask an
# axis of length one in the right place, and it holds for every head. A mask of two axes (Q, K), or of all four, is
# right as it is.
#
# **Dropout.** Make one `nn.Dropout(dropout)`, and hand it to the attention function. It falls on the weights and on
# nothing else here. An `nn.Dropout` drops in training mode, and after `module.eval()` it lets everything through. In
# one widely copied implementation the rate never arrives, so `dropout=0` still drops a tenth of the weights.
#
# **Sizes.** Take each tensor's sizes from that tensor. It is tempting to read the batch size from the query and leave
# the rest of a reshape to -1. Then four sentences of three keys are silently folded into two sentences of six. A key
# batch that does not fit the query batch has to end in an error.
#
# ### Build it
#
# You write both methods. In `__init__`, the call of `super().__init__()` comes first, as in every PyTorch module.

# %% build="MultiHeadAttention"
### BEGIN SOLUTION course_lib.transformer.multi_head:MultiHeadAttention

# %% [markdown] hints="MultiHeadAttention"

# %% check="MultiHeadAttention"

# %% [markdown]
# That is the part that gave the paper its name, and it is yours.
#
# ### See it: heads side by side
#
# The module has made its layers, filled with random numbers. We now write the matrices of section 1 into it by hand,
# one for each of three heads, and let your module run on the sentence. To see the weights, we hand in a function that
# records them.
#
# One thing to know: `nn.Linear` keeps its matrix lying on its side, (features out, features in). So the rows 0 to 15 of
# `query_projection.weight` make the queries of head 0, and what we write there is our matrix transposed.
#
# **Change something:** a fourth head, with a wish of your own (`d_model` becomes 64). What does a head show if you do
# not overwrite its random numbers?

# %% tags=["see"]
recorded = []


def recording(query, key, value, mask=None, dropout=None):
    output, weights = scaled_dot_product_attention(query, key, value, mask, dropout)
    recorded.append(weights.detach())
    return output, weights


def weights_of_heads(layer, x):
    """Give the weights of all heads for one sentence, (H, L, L)."""
    recorded.clear()
    with torch.no_grad():
        layer.eval()(x.unsqueeze(0), x.unsqueeze(0), x.unsqueeze(0))
    return torch.cat([weights.flatten(0, -3) for weights in recorded])


by_hand = {"the previous word": previous, "the next word": previous.T, "nouns and adjectives": describing}
width = 16
layer = MultiHeadAttention(d_model=width * len(by_hand), heads=len(by_hand), attention=recording)

with torch.no_grad():
    for projection in (layer.query_projection, layer.key_projection):
        projection.weight.zero_()
        projection.bias.zero_()
    for head, wants in enumerate(by_hand.values()):
        rows = slice(width * head, width * (head + 1))
        layer.query_projection.weight[rows, :16] = wants.T
        layer.key_projection.weight[rows, :16] = torch.eye(16)

padded = nn.functional.pad(x, (0, layer.query_projection.in_features - x.shape[1]))
attention_heatmap(
    weights_of_heads(layer, padded),
    sentence,
    sentence,
    panels=list(by_hand),
    title="One layer, one sentence, several heads",
)

# %% [markdown]
# Three different looks in one pass, and each head has its own mean to bring back. `layer.eval()` in `weights_of_heads`
# matters: it switches dropout off. Otherwise what you see would not be what the network uses when it translates.
#
# ## 4. What do several heads cost?

# %% predict="predict_weights"
# A sentence of 100 words attends to itself in MultiHeadAttention(512, 8).
# How many attention weights are computed, all in all?

# %% check="predict_weights"

# %% [markdown]
# ### See it: the price of 1, 2, 4 and 8 heads
#
# Nothing here is taken from a formula. The parameters are counted in your module, the multiplications while it runs
# (PyTorch counts a multiplication and an addition as two operations, hence the half), and the weights from what the
# recording function saw.
#
# **Change something:** the length of the sentence. At 1,000 words, how do the multiplications compare?

# %% tags=["see"]
import pandas as pd
from torch.utils.flop_counter import FlopCounterMode

length, d_model = 100, 512
rows = []
for heads in [1, 2, 4, 8]:
    layer = MultiHeadAttention(d_model, heads, attention=recording)
    with FlopCounterMode(display=False) as counter:
        weights = weights_of_heads(layer, torch.randn(length, d_model))
    rows.append(
        {
            "heads": heads,
            "parameters": sum(parameter.numel() for parameter in layer.parameters()),
            "multiplications": counter.get_total_flops() // 2,
            "weights": weights.numel(),
        }
    )

cost_of_heads(pd.DataFrame(rows))

# %% [markdown]
# **The same parameters.** Four layers of $512 \times 512$ weights and 512 biases, however the result is cut
# afterwards. Nobody adds anything for a head: the heads *share* the features.
#
# **The same multiplications.** A head has an $h$-th of the features, so its scores cost an $h$-th, and there are $h$ of
# them.
#
# **More weights.** Only the tables grow: every head makes its own, of $100 \times 100$. A softmax over them is cheap
# beside the products, but they have to be stored and moved. That is what fused kernels save.
#
# So the price of more heads is another one: each head has fewer features to tell words apart by.
#
# ## 5. What can several heads do that one cannot?
#
# Let us put it to the test, with a task that needs two looks at once: **tell me the word before you and the word after
# you**. Each word has 16 random features, and 16 more that say its place. What should come out is 32 numbers: the 16
# random ones of the previous word, then the 16 of the next one.
#
# One head may look at both neighbours, half and half, and bring back their mean. But from $(a + b) / 2$ nobody can
# tell $a$ from $b$. Or it looks at one of them alone, and knows nothing of the other. However it divides its look, the
# mean squared error stays at **one half** of what it was with no knowledge at all, which is 1 here.
#
# ### See it: one head against several
#
# The task is so small that we can train live, in some seconds: your module, with 1, 2, 4 and 8 heads, on the same
# sentences and with the same number of parameters.
#
# **Change something:** 16 heads, which leaves each head two features. Or take the places away, with a 0 in place of
# the 4 in the first line: what can the heads still learn?

# %% tags=["see"]
places = 4 * nn.functional.one_hot(torch.arange(len(sentence)), 16).float()


def with_places(words):
    return torch.cat([words, places.expand(*words.shape[:-1], 16)], dim=-1)


def train(heads, steps=200):
    """Teach a module to name both neighbours; give it and its losses."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(d_model=32, heads=heads, dropout=0.0)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        words = torch.randn(64, len(sentence), 16)
        x = with_places(words)
        neighbours = torch.cat([words[:, :-2], words[:, 2:]], dim=-1)
        loss = (layer(x, x, x)[:, 1:-1] - neighbours).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append({"x": step, "y": loss.item(), "line": f"{heads} heads" if heads > 1 else "1 head"})
    return layer, losses


threads = torch.get_num_threads()
torch.set_num_threads(1)  # for matrices this small, a second core would only have to be waited for
trained, curves = {}, []
for heads in [1, 2, 4, 8]:
    trained[heads], losses = train(heads)
    curves += losses
torch.set_num_threads(threads)

limit = "the best that one mean can do"
curves += [{"x": step, "y": 0.5, "line": limit} for step in (0, 200)]
named_lines(
    pd.DataFrame(curves),
    across="step",
    up="mean squared error",
    title="Naming both neighbours: one head against several",
    log=True,
    dashed=[limit],
)

# %% [markdown]
# One head goes down to the line and no further, with as many parameters as the others. Two heads learn the task. Where
# do they look? We put the learned weights into a module with the recording function, and give it our sentence, with
# random features for every word.

# %% tags=["see"]
looks = []
for heads in [1, 2]:
    layer = MultiHeadAttention(d_model=32, heads=heads, attention=recording)
    layer.load_state_dict(trained[heads].state_dict())
    torch.manual_seed(1)
    looks.append(weights_of_heads(layer, with_places(torch.randn(len(sentence), 16))))

attention_heatmap(
    torch.cat(looks),
    sentence,
    sentence,
    panels=["1 head", "2 heads: head 0", "2 heads: head 1"],
    title="Where did they learn to look?",
)

# %% [markdown]
# The single head spreads its look over both neighbours. Of the two heads, each has one that it looks at most. (It may
# look at the other one a little: two *different* mixtures are enough for the output projection to work out who is
# who.)
#
# Nobody told them to share the work. They found it out, because it makes the loss smaller. Which of them looks back and
# which ahead is chance: it depends on the random numbers they started with. Had the two heads started *equal*, their
# parts of the output projection among them, they would have had the same gradients all along and stayed equal. So it
# matters that everything starts with numbers of its own.
#
# With four and eight heads it works too, a little later: the narrower the heads, the harder it is to tell eleven
# places apart. The paper saw the same on a larger scale (section 6.2 and table 3, rows A): one head was 0.9 BLEU worse
# than the best number of heads, and with too many the quality fell again.
#
# ### Explain it
#
# `MultiHeadAttention(512, 1)` and `MultiHeadAttention(512, 8)` have the same number of parameters and need the same
# number of multiplications. Why, and what can the second do that the first cannot? And what does a head give up when
# there are more of them?

# %% [markdown] explain="explain_heads"
# Both have the same four layers from 512 to 512 features. The number of heads only says how the projected features
# are cut up: 8 heads of 64 features cost as much as one of 512, in parameters and in products. But each head has its
# own softmax, so it looks somewhere else and brings back a mean of its own, and the means stand side by side. A single
# head that looks at two words brings back their mean, in which nobody can tell which word said what. What is given up
# is width: a head of 64 features has less room to tell words apart, and with too many heads that hurts.
#
# ### BEGIN MARK SCHEME
# - 1 point: the heads share the features of the same layers (width d_model / h), so parameters and products stay.
# - 1 point: each head has its own weights and brings back its own mean; one head would blur what it sees into one mean.
# - 1 point: more heads are narrower, so each can tell less apart (or: more tables of weights to store).
#
# Give the point for a right idea in other words, also where it is told by the example of the two neighbours.
# ### END MARK SCHEME

# %% [markdown]
# ### Explain it
#
# To save parameters, a fellow student uses one layer for queries and keys: `self.key_projection =
# self.query_projection`. Think of the score that word $i$ gives to word $j$, and of the one that $j$ gives to $i$. What
# can such a head no longer say by one rule that holds at all places? Take "look one place back" as an example.

# %% [markdown] explain="explain_shared"
# With one layer the query and the key of a word are the same vector, so the score of the pair $(i, j)$ is
# $q_i \cdot q_j$, the same as that of $(j, i)$: looking becomes mutual. A word also fits itself at least as well as
# others of the same length, so the diagonal is strong again, as in lesson 01. A head that looks one place back must
# give "dog" a high score for "small" and "small" a low one for "dog". By a rule that holds at all places, equal scores
# both ways cannot do that: the word after gets the same score as the word before, and the head looks at both. (What
# is left is to give each pair of places a score of its own, each lower than the one before along the sentence. The
# softmax of each row then prefers the earlier neighbour. But that is learned place by place, and ends where the
# training sentences end.)
#
# ### BEGIN MARK SCHEME
# - 1 point: queries and keys are equal, so the score of (i, j) equals that of (j, i).
# - 1 point: one rule for all places cannot tell back from ahead. (Also for showing that scores which fall along the
#   sentence can, place by place.)
# - 1 point: each word fits itself well again (the diagonal), or: what a word asks for is what it is found by.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>What is the output projection good for?</summary>
#
# Side by side, the heads are strangers: features 0 to 63 come from head 0, the next from head 1. $W^O$ mixes them, so
# that any feature of the output can depend on any head. It also decides in which of the word's features the finding is
# written. That matters in lesson 03, where the output is added to the input.
#
# </details>
#
# <details><summary>Does every head learn something that we can name?</summary>
#
# No. Some do: people have found heads that look at the previous word, at the verb's object, at the end of the
# sentence. Many look at nothing that we have a word for, and often several can be taken out of a trained model with
# little harm. Beautiful pictures of heads are chosen pictures.
#
# </details>
#
# <details><summary>The paper's formula has no biases. Why do we have them?</summary>
#
# PyTorch's own module has them, and so has most code that came after the paper. They are 2,048 of about a million
# numbers, and nobody has found that they matter much. But weights can only be exchanged between modules that agree on
# it, so here it is fixed.
#
# </details>
#
# <details><summary>Why did view fail where reshape worked?</summary>
#
# Swapping axes moves no numbers: it only changes how they are counted. `view` never moves any either, so it gives up
# where the numbers that should stand together do not lie together. `reshape` and `flatten` copy when they must.
#
# </details>
#
# <details><summary>Why is one half the best that one mean can do?</summary>
#
# Say the head gives the previous word $a$ the weight $p$ and the next word $b$ the weight $q$, and brings back
# $m = p\,a + q\,b$. All features are independent, with variance 1. The best guess at $a$ from $m$ by a linear layer
# is $\frac{p}{p^2 + q^2}\,m$, and its mean squared error is $1 - \frac{p^2}{p^2 + q^2}$. For $b$ it is
# $1 - \frac{q^2}{p^2 + q^2}$. The two errors sum to 1, whatever $p$ and $q$ are, so their mean is one half.
#
# </details>
#
# <details><summary>Must the heads be of equal width, and fill d_model exactly?</summary>
#
# No. The formula allows any $d_k$ and $d_v$, since $W^O$ brings the result back to $d_{model}$. Equal shares are
# convenient: one tensor holds all heads, and the number of heads can be changed without changing the size of the model.
#
# </details>
#
# <details><summary>PyTorch has nn.MultiheadAttention. Is it the same?</summary>
#
# The same mathematics. It keeps the three input projections in one tall matrix, expects the length before the batch
# unless told otherwise, and in its boolean masks **True means "may not look"**, the opposite of ours. This course's own
# tests compare the reference with it.
#
# </details>
#
# ## Where you are

# %% tags=["see"]
architecture_map(built=exercises_through(2))

# %% [markdown]
# All three boxes of attention are filled in, in the encoder and in the decoder. You can now say what goes through them
# and in which shape. Before you hand the lesson in, press **Validate** in the toolbar: it runs the notebook from top to
# bottom, as the grader will.
#
# Next: **lesson 03, what stands around a sublayer**. Attention six layers deep does not learn by itself. Normalisation and
# residual connections make it able to.
