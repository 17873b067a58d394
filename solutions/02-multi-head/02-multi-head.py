# %% [markdown]
# # Lesson 02: multi-head attention
#
# Lesson 01 left two problems. A word attended mostly to itself, and it got back only a single mean. **Projections**
# solve the first: a word asks with one vector and is found by another. Several **heads** solve the second: they attend
# in parallel, each with its own projections.
#
# By the end you will have built the paper's `MultiHeadAttention`, and be able to explain
#
# - how a projection determines what a word looks for,
# - how a tensor is split into heads and merged again, and why a reshape alone gets it wrong,
# - what more heads cost, and what several heads can do that one can't.
#
# **Time:** about two and a half hours. **In [the paper](https://arxiv.org/abs/1706.03762):** sections 3.2.2, 3.2.3 and
# 6.2 (rows A of table 3).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    attention_heatmap,
    features_in_heads,
    named_bars,
    named_lines,
    show_offline,
)
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(
    built=finished_exercises(),
    current=["split_heads", "merge_heads", "MultiHeadAttention"],
)

# %% [markdown]
# From now on, the functions of earlier lessons come from the reference, so a mistake in lesson 01 doesn't follow you.

# %% given="setup"
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.checks import check
from course_lib.transformer.attention import AttentionFunction, scaled_dot_product_attention

# %% [markdown]
# ## 1. Projections: ask with one vector, be found by another
#
# A **projection** is a matrix that makes a new vector from an old one. Three projections turn the vector $x$ of a word
# into a query, a key and a value:
#
# $$q = x\,W^Q, \qquad k = x\,W^K, \qquad v = x\,W^V$$
#
# where $W^Q$, $W^K$ and $W^V$ are learned matrices. So what a word asks for ($q$), what it is found by ($k$) and what
# it provides ($v$) can be three different things.
#
# What can such a matrix express? Let's write some by hand, for words with 16 readable features: five for the
# kind of word, and eleven for its position. (A real network learns the kinds by itself, and lesson 05 adds the
# positions.)

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
POSITION = [len(kinds) + position for position in range(len(sentence))]

x = torch.zeros(len(sentence), 16)
for position, word in enumerate(sentence):
    x[position, KIND[kind_of[word]]] = 1
    x[position, POSITION[position]] = 1

print("dog:", x[2].int().tolist())

# %% [markdown]
# For the keys we use $W^K = I$, the identity: each word is found by the features that it has. So before the division by
# $\sqrt{d_k}$, the score that word $i$ gives to word $j$ is
#
# $$q_i \cdot k_j = x_i W^Q x_j^\top$$
#
# Here $x_i$ is the vector of word $i$, written as a row. All features are 0 or 1. If word $i$ has feature 2 and word
# $j$ has feature 1, the entry of $W^Q$ in row 2 and column 1 is added to the score. It says how strongly *a word with
# feature 2 looks for words with feature 1*.
#
# ### See it: what a projection lets a word look for
#
# Here are three matrices $W^Q$. With the first, a word looks for its own kind and for its own position. Only the word
# itself matches in both, so it gets nearly all the weight, as in lesson 01. With the second, it looks for the
# **previous word**: position 5 asks for position 4. With the third, nouns look for adjectives and adjectives for nouns.
# (Divided by the square root of 16, an entry of 20 adds 5 to a score, and $e^5$ is about 150: enough for the softmax to
# choose.)
#
# **Change something:** let every word look two positions back. (The loop must then begin at 2, because in Python
# index -1 is the last position.) Undo that, because section 3 uses these matrices again. Then let nouns prefer the
# adjective just before them: in `(same, previous, describing)`, write `describing + 0.5 * previous` in place of
# `describing`.

# %% tags=["see"]
same = 20 * torch.eye(16)

previous = torch.zeros(16, 16)
for position in range(1, len(sentence)):
    previous[POSITION[position], POSITION[position - 1]] = 20

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
# **The diagonal is gone** in the second and third panels.
#
# **Attention isn't always mutual.** In the second panel "dog" attends to "small", but "small" doesn't attend to "dog".
# If queries and keys were equal, the *scores* in the two directions would be the same.
#
# **A word with no match attends to everything equally.** The first word has no previous one, and in the third panel
# "plays" looks for nothing. Their scores are all 0, and a softmax always distributes a total weight of 1.
#
# <details><summary>What changes?</summary>
#
# Two positions back, "dog" attends to the first "a", and now two words have no match. With the last change, "dog" gives
# "small" 0.92 and "red" only 0.08, instead of half each. Words without a match in the third panel now prefer the
# previous word.
#
# </details>
#
# ## 2. Heads: several attentions at once
#
# "Ball" may need its adjective, its article, and also the dog that plays with it. That takes three matrices $W^Q$. With
# their sum as a single matrix, "ball" would attend to all these words, but get **one mean** of them, and nobody could
# tell which word contributed what. So the paper uses several heads and concatenates their results:
#
# $$\mathrm{MultiHead}(Q, K, V) = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W^O$$
#
# $$\mathrm{head}_i = \mathrm{Attention}(Q W_i^Q,\; K W_i^K,\; V W_i^V)$$
#
# | symbol | in code | what it is |
# |---|---|---|
# | $h$ | `heads`, H | the number of heads; 8 in the paper |
# | $d_\mathrm{model}$ | `d_model`, D | the number of features of a word; 512 in the paper |
# | $d_k$ and $d_v$ | D/H | the number of features of one head: $d_\mathrm{model} / h$, so 64 in the paper |
# | $W_i^Q$, $W_i^K$, $W_i^V$ | parts of three layers | the projections of head $i$, each of shape ($d_\mathrm{model}$, $d_k$) |
# | $\mathrm{Concat}$ | `merge_heads` | concatenates the heads' results: $h \cdot d_v = d_\mathrm{model}$ features again |
# | $W^O$ | `output_projection` | a matrix of shape ($d_\mathrm{model}$, $d_\mathrm{model}$) that mixes the results of the heads |
#
# In practice the eight matrices $W_1^Q, \dots, W_8^Q$ are placed side by side in **one** matrix of shape
# ($d_\mathrm{model}$, $d_\mathrm{model}$). One product makes the queries of all heads: the first 64 features belong
# to head 0, the next 64 to head 1, and so on. (Code counts heads from 0.)
#
# So the features only have to be *split* into heads, and later merged again, by your first two functions. There are
# many ways to get the right *shape* with the wrong numbers in it.

# %% predict="predict_feature"
# x has shape (2, 10, 512), and split_heads(x, 8) has shape (2, 8, 10, 64). Take feature 5 of head 3.
# Which of the 512 features of x is that? Heads and features are counted from 0.

# %% check="predict_feature"

# %% [markdown]
# ### Worked example: two words, four features, two heads
#
# To see where a number goes, give each one a name: 12 is feature 2 of word 1.

# %% tags=["see"]
sentence_of_two = [[0, 1, 2, 3], [10, 11, 12, 13]]  # two words with four features each
print("head 0 gets the first two features of both words: ", [word[:2] for word in sentence_of_two])
print("head 1 gets the last two features of both words:  ", [word[2:] for word in sentence_of_two])
print(
    "a reshape to the same shape gives head 0 instead: ",
    torch.tensor(sentence_of_two).reshape(2, 2, 2)[0].tolist(),
)

# %% [markdown]
# The reshape keeps the numbers in their order in memory, so it gives head 0 the whole first word and head 1 the second,
# without any error.
#
# ### Build it: split and merge
#
# `split_heads` turns (B, L, D), which is batch, length, features, into (B, H, L, D/H). The head axis is second because
# attention works on the **last two axes** and treats all others as a batch. So one product computes the scores of all
# heads and all sentences, independently of each other.
#
# If the features can't be divided equally, say 10 features among 4 heads, raise a `ValueError` whose message contains
# both numbers. (In the signature, `{heads}` stands for the value of the argument, and `d` for D/H.)

# %% build="split_heads"
### BEGIN SOLUTION course_lib.transformer.multi_head:split_heads

# %% [markdown]
# A scratch cell: the two heads of the worked example. Which error do you get with three heads?

# %% tags=["see"]
print(split_heads(torch.tensor([sentence_of_two]), 2))

# %% [markdown] hints="split_heads"

# %% check="split_heads"

# %% [markdown]
# Now write the inverse, from (B, H, L, D/H) to (B, L, D). Its input will be the output of attention, which is laid out
# differently in memory from the result of `split_heads`. Your function must work for both.

# %% build="merge_heads"
### BEGIN SOLUTION course_lib.transformer.multi_head:merge_heads

# %% [markdown]
# A scratch cell: the worked example, split and merged again by your functions.

# %% tags=["see"]
numbers = torch.tensor([sentence_of_two])
split = split_heads(numbers, 2)
print("split: ", split.tolist())
print("merged:", merge_heads(split).tolist())

# %% [markdown] hints="merge_heads"

# %% check="merge_heads"

# %% [markdown]
# ### See it: where do the numbers go?
#
# Four words with six features each are split into three heads, by your function and by a reshape to the same shape.
# Each cell says which word and feature it comes from.
#
# **Change something:** try other numbers of features, `D`, and of heads, `H` (`D` must be divisible by `H`). Is there a
# number of heads for which the reshape does no harm?

# %% tags=["see"]
words = ["a", "dog", "saw", "me"]
D, H = 6, 3

numbers = torch.arange(float(len(words) * D)).reshape(1, len(words), D)
features_in_heads(
    {
        "x, one sentence": numbers,
        f"split_heads(x, {H})": split_heads(numbers, H)[0],
        f"x.reshape(1, {H}, {len(words)}, {D // H})": numbers.reshape(H, len(words), D // H),
    },
    words,
)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# The reshape does no harm only with one head, where both results are `x` itself. With more, each head gets consecutive
# numbers, such as a whole word, instead of a part of every word.
#
# </details>
#
# ## 3. Multi-head attention
#
# The module's `forward` takes `query`, `key` and `value` as three tensors, because in the decoder's *cross-attention*
# the queries come from the sentence that is being written, and keys and values from the one that was read.
# `forward` has five steps:
#
# 1. **project** query, key and value, each with its own layer,
# 2. **split** all three into heads,
# 3. **attend** in every head,
# 4. **merge** the heads,
# 5. **project** again.
#
# ### Worked example: two heads of one feature
#
# Three words have two features each, so each of the two heads works with one. All four projections are the identity.

# %% tags=["see"]
three_words = torch.tensor([[3.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
results = []
for head in range(2):
    feature = three_words[:, head : head + 1]  # split: one feature for each head
    result, head_weights = scaled_dot_product_attention(feature, feature, feature)  # attend
    results.append(result[:, 0].tolist())
    print(f"head {head}: features {feature[:, 0].tolist()}")
    print(f"        weights of word 0: {[round(w, 3) for w in head_weights[0].tolist()]}")
    print(f"        results: {[round(value, 2) for value in results[-1]]}")
print("merged:", [[round(a, 2), round(b, 2)] for a, b in zip(*results, strict=True)])

# %% [markdown]
# In head 0, word 0 attends almost only to itself, because its feature 0 is the largest. In head 1 its feature is 0, so
# all its scores are 0 and its weights are equal. Each head divides its scores by the square root of **its own** width,
# here $\sqrt{1}$, and not by the square root of `d_model`, here $\sqrt{2}$.
#
# ### What the module holds
#
# The checks load weights into four linear layers, so their names are fixed:
#
# | attribute | what it is |
# |---|---|
# | `query_projection` | `nn.Linear`, makes the queries of all heads at once |
# | `key_projection` | `nn.Linear`, the same for the keys |
# | `value_projection` | `nn.Linear`, the same for the values |
# | `output_projection` | `nn.Linear`, the $W^O$ of the formula |
#
# The queries and keys determine which words a head reads. The value projection determines what the head takes from
# them, and the output projection determines in which features of the word the result is stored.
#
# All four layers map `d_model` features to `d_model`, with a bias, which is the default of `nn.Linear`. Each starts with
# random numbers of **its own**: create four layers, not one layer and three copies. You may store other settings on the
# module, but no tensor that `forward` has computed, such as the weights. Such a tensor would keep in memory everything
# that it was computed from, and the module could no longer be copied.

# %% predict="predict_parameters"
# Exactly how many parameters (numbers that are learned) does MultiHeadAttention(512, 8) have? Count the
# biases too.

# %% check="predict_parameters"

# %% [markdown]
# ### The attention function is an argument
#
# `MultiHeadAttention` doesn't call `scaled_dot_product_attention` by name. It calls the function that it was given as
# `attention`, and `scaled_dot_product_attention` is only the default. There are two reasons:
#
# - **To look inside**, we pass a function that records the weights.
# - **To be fast**, the final lab passes PyTorch's *fused kernel*, a single program for all steps of attention, which
#   never stores the table of weights.
#
# The function takes `(query, key, value, mask, dropout)`, the first three split into heads, and returns
# `(output, weights)`.
#
# ### Three details that often go wrong
#
# **The mask.** Most masks have three axes, (B, Q, K), where Q is the number of queries and K the number of keys. But
# the scores have four, (B, H, Q, K). Axes are aligned from the end, so the mask's B would meet H. Insert an axis of
# length one in the correct position, and the mask applies to every head. A mask with two axes, (Q, K), or with all four
# is used as it is.
#
# **Dropout.** Create one `nn.Dropout(dropout)`, pass it to the attention function, and use it for nothing else.
#
# **Batch sizes.** Query, key and value must have the same batch size. Compare the three first, and raise a `ValueError`
# if they differ, because torch may not complain: it broadcasts a batch of one.
#
# ### Build it
#
# You write both methods. In short:
#
# 1. `__init__` calls `super().__init__()` first, as in every PyTorch module.
# 2. It creates the four layers and one `nn.Dropout`, and stores `heads` and `attention`.
# 3. `forward` raises a `ValueError` if the three batch sizes differ.
# 4. A mask of three axes gets a head axis.
# 5. Project, split, attend (with the mask and the dropout), merge, project.
# 6. Return only the output, and store no tensor.

# %% build="MultiHeadAttention"
### BEGIN SOLUTION course_lib.transformer.multi_head:MultiHeadAttention

# %% [markdown]
# A scratch cell: your module should give the merged result of the worked example.

# %% tags=["see"]
tiny = MultiHeadAttention(d_model=2, heads=2, dropout=0.0)
with torch.no_grad():
    for projection in (
        tiny.query_projection,
        tiny.key_projection,
        tiny.value_projection,
        tiny.output_projection,
    ):
        projection.weight.copy_(torch.eye(2))
        projection.bias.zero_()
    print(tiny(three_words.unsqueeze(0), three_words.unsqueeze(0), three_words.unsqueeze(0)))

# %% [markdown] hints="MultiHeadAttention"

# %% check="MultiHeadAttention"

# %% [markdown]
# ### See it: heads side by side
#
# We write three matrices like those of section 1 into a module, one for each head, and record the weights while it
# reads the sentence.
#
# `nn.Linear` stores its matrix transposed, as (features out, features in). So rows 0 to 15 of `query_projection.weight`
# make the queries of head 0.
#
# **Change something:** add a fourth head with a matrix of your own (`d_model` becomes 64). What does a head show if its
# matrix contains only zeros?

# %% tags=["see"]
recorded = []


def recording(query, key, value, mask=None, dropout=None):
    output, weights = scaled_dot_product_attention(query, key, value, mask, dropout)
    recorded.append(weights.detach())
    return output, weights


def weights_of_heads(layer, x):
    """Return the weights of all heads for one sentence, (H, L, L)."""
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

# The module expects d_model features, so append zeros to the 16.
wide = nn.functional.pad(x, (0, layer.query_projection.in_features - x.shape[1]))
attention_heatmap(
    weights_of_heads(layer, wide),
    sentence,
    sentence,
    panels=list(by_hand),
    title="One layer, one sentence, several heads",
)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# With a matrix of zeros, all scores are 0, so every word gives each of the 11 words the same weight, 0.09.
#
# </details>
#
# `layer.eval()` in `weights_of_heads` turns dropout off, as when the network translates. In this picture it makes no
# difference, because we record the weights before dropout. In a stack of layers it would: dropout in one layer changes
# what the next one reads.
#
# ## 4. What do several heads cost?

# %% predict="predict_weights"
# A sentence of 100 words attends to itself in MultiHeadAttention(512, 8).
# How many attention weights are computed in total?

# %% check="predict_weights"

# %% [markdown]
# ### See it: the price of 1, 2, 4 and 8 heads
#
# These numbers are counted in your module while it runs. (PyTorch counts a multiplication and an addition as two
# operations, hence the `// 2` in the code.)
#
# **Change something:** set `length` to 1000. By what factor does each of the three numbers grow?

# %% tags=["see"]
import pandas as pd
from torch.utils.flop_counter import FlopCounterMode

length, d_model = 100, 512
rows = []
for heads in [1, 2, 4, 8]:
    layer = MultiHeadAttention(d_model, heads, attention=recording)
    with FlopCounterMode(display=False) as counter:
        weights = weights_of_heads(layer, torch.randn(length, d_model))
    counts = {
        "parameters": sum(parameter.numel() for parameter in layer.parameters()),
        "multiplications": counter.get_total_flops() // 2,
        "attention weights": weights.numel(),
    }
    name = f"{heads} head{'s' if heads > 1 else ''}"
    rows += [{"panel": panel, "bar": name, "size": count} for panel, count in counts.items()]

named_bars(pd.DataFrame(rows), title="What do more heads cost?")

# %% [markdown]
# **The same parameters.** There are four layers, each with a $512 \times 512$ matrix and 512 biases, for any number of
# heads: the heads *share* the features.
#
# **The same number of multiplications.** There are $h$ heads, but each has only $1/h$ of the features, so computing its
# scores costs only $1/h$ as much. For sentences, most of the work is in the four layers anyway. For $n$ words, and with
# $d$ for `d_model`, they need $4\,n\,d^2$ multiplications, compared with $2\,n^2 d$ for the scores and the weighted
# means. (At $n = 2d$ the two are equal.)
#
# **More attention weights.** Every head makes its own table of $100 \times 100$.
#
# Parameters and multiplications stay the same, and the additional tables are cheap for short sentences. The main price
# of more heads is that each has fewer features to distinguish words by.
#
# <details><summary>What changes?</summary>
#
# The parameters stay the same, the multiplications grow by a factor of 18, and the attention weights by a factor of
# 100. The multiplications of the four layers grow by a factor of 10, and those of attention itself by 100.
#
# </details>
#
# ## 5. What can several heads do that one can't?
#
# This task needs two attentions at once: **name the word before you and the word after you**. Each word has 16 random
# features, and 16 more that say its position. The result should be the 16 random features of the previous word, then
# those of the next one.
#
# A single head may attend to both neighbours, $a$ and $b$, and return their mean, but from $(a + b) / 2$ nobody can
# recover $a$ and $b$. Or it attends to one of them, and knows nothing about the other. In both cases, as long as the
# weights depend only on the positions, the mean squared error can't fall below **one half**; the common questions show
# why. (Always answering zero gives an error of 1.)
#
# ### See it: one head against several
#
# We train your module with 1, 2, 4 and 8 heads, on the same sentences and with the same number of parameters.
#
# **Change something:** add 16 to the list `[1, 2, 4, 8]`, which leaves each of the 16 heads two features. Or remove the
# positions: write 0 in place of the 4 in the first line. (Then no word knows which words are its neighbours. All that
# is left is to guess the mean of the other words, which is a little better than always answering zero.)

# %% tags=["see"]
position_features = 4 * nn.functional.one_hot(torch.arange(len(sentence)), 16).float()


def with_positions(words):
    return torch.cat([words, position_features.expand(*words.shape[:-1], 16)], dim=-1)


def train(heads, steps=200):
    """Train a module to name both neighbours; return it and its losses."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(d_model=32, heads=heads, dropout=0.0)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        words = torch.randn(64, len(sentence), 16)
        x = with_positions(words)
        neighbours = torch.cat([words[:, :-2], words[:, 2:]], dim=-1)
        loss = (layer(x, x, x)[:, 1:-1] - neighbours).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append({"x": step, "y": loss.item(), "line": f"{heads} heads" if heads > 1 else "1 head"})
    return layer, losses


threads = torch.get_num_threads()
torch.set_num_threads(1)  # for matrices this small, one core is faster than two
trained, curves = {}, []
for heads in [1, 2, 4, 8]:
    trained[heads], losses = train(heads)
    curves += losses
torch.set_num_threads(threads)

limit = "the best that fixed weights can do"
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
# With one head, the error falls to the line and barely below it. Two heads learn the task. What do they attend to? We
# record the weights of the trained modules for our sentence, with random features for every word.

# %% tags=["see"]
maps = []
for heads in [1, 2]:
    layer = MultiHeadAttention(d_model=32, heads=heads, attention=recording)
    layer.load_state_dict(trained[heads].state_dict())
    torch.manual_seed(1)
    maps.append(weights_of_heads(layer, with_positions(torch.randn(len(sentence), 16))))

attention_heatmap(
    torch.cat(maps),
    sentence,
    sentence,
    panels=["1 head", "2 heads: head 0", "2 heads: head 1"],
    title="What did they learn to attend to?",
)

# %% [markdown]
# The single head spreads its weight over both neighbours. Each of the two heads prefers one of them. (It may attend to
# the other one a little: from two *different* mixtures the output projection can recover both words.) The rows of the
# first and the last word mean nothing: these words have only one neighbour, and were left out of the loss.
#
# Nobody told the heads to share the work. They do so because it makes the loss smaller; which one looks back depends on
# their random start. If both had started *equal*, including their parts of the output projection, their gradients would
# have been equal too, and they would have stayed equal.
#
# Four and eight heads learn the task too, but no better than two. On a larger scale, the paper (section 6.2; table 3,
# row base and rows A) reports these BLEU scores on its development set: 24.9 for one head, 25.8 for 8 and 16 heads, and
# 25.4 for 32. Both too few and too many heads cost quality. (BLEU measures the quality of translations; higher is
# better.)
#
# <details><summary>What changes?</summary>
#
# Sixteen heads learn the task too, but more slowly: after 100 steps their error is still near 0.2, and that of two
# heads is below 0.01. Without positions, all lines stop near 0.9, for any number of heads.
#
# </details>
#
# ### Explain it
#
# A colleague doesn't want her heads to share 512 features. In her module, each of the 8 heads has 512 features of its
# own: the query, key and value projections map 512 features to 4,096, and the output projection maps 4,096 back to 512.
# Compared with the paper's 8 heads of 64, by what factors do the numbers of parameters, multiplications and attention
# weights change? What can both modules do that a single head of 512 features can't? And what does she get for the
# additional cost?

# %% [markdown] explain="explain_heads"
# Each of her heads is eight times as wide, so her four matrices have eight times as many numbers (apart from the
# biases), and all products, in the layers as well as in the attention, need eight times as many multiplications. The
# attention weights stay the same: eight tables, whose size depends only on the number of words. In both modules each
# head has its own softmax, so each can attend to different words and return its own mean, and the means are
# concatenated. A single head that attends to two words returns their mean, from which nobody can tell which word
# contributed what. What she gets is width: a head of 512 features has more room to distinguish words than one of 64.
#
# ### BEGIN MARK SCHEME
# - 1 point: parameters and multiplications grow by a factor of (about) 8, and the attention weights stay the same.
# - 1 point: each head has its own weights and returns its own mean; one head would blur what it sees into one mean.
# - 1 point: her heads are wider, so each can distinguish more (or: narrow heads distinguish less).
#
# The example of the two neighbours is enough if it shows the idea.
# ### END MARK SCHEME

# %% [markdown]
# ### Explain it
#
# To save parameters, a student uses one layer for queries and keys: `self.key_projection = self.query_projection`.
# Compare the score that word $i$ gives to word $j$ with the one that $j$ gives to $i$. How well does a word match
# itself? Now take a head that should attend to the previous word, by the same rule at every position. It needs a high
# score for "one before" and a low one for "one after". Why can't a head of this student's module have both?

# %% [markdown] explain="explain_shared"
# With one layer, the query and the key of a word are the same vector, so the score of the pair $(i, j)$ is
# $q_i \cdot q_j$, the same as that of $(j, i)$: the scores are symmetric. A vector also matches itself at least as well
# as other vectors of the same length, so the diagonal is strong again, as in lesson 01. A head that attends to the
# previous position must give "dog" a high score for "small", and "small" a low one for "dog". One rule for all
# positions can't do that if both scores are equal: the next word gets the same score as the previous one, and the head
# attends to both. (A symmetric table of scores can still favour the previous word if the scores of neighbouring pairs
# decrease along the sentence, because each row then scores its earlier neighbour higher than its later one. But that
# has to be learned for each position separately, and it doesn't extend beyond the longest training sentence.)
#
# ### BEGIN MARK SCHEME
# - 1 point: queries and keys are equal, so the score of (i, j) equals that of (j, i).
# - 1 point: by one rule for all positions, the next word gets the same score as the previous one, so the head can't
#   prefer either; or: scores that fall along the sentence make it possible, position by position.
# - 1 point: a word matches itself at least as well as any vector of the same length (the diagonal is strong again).
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>What does the output projection do?</summary>
#
# It mixes the heads, so that any feature of the output can depend on any of them. In which features the result is
# stored matters in lesson 03, where the output is added to the input.
#
# </details>
#
# <details><summary>Does every head learn something that we can name?</summary>
#
# Some do: there are heads that attend to the previous word, to the object of a verb, or to separators and full stops
# ([Clark et al. 2019](https://arxiv.org/abs/1906.04341)). Many can't be described, and often several can be removed
# from a trained model with little harm ([Michel et al. 2019](https://arxiv.org/abs/1905.10650)).
#
# </details>
#
# <details><summary>The paper's formula has no biases. Why do we have them?</summary>
#
# PyTorch's own module has them, and so do most implementations of the paper's model. The biases are only 2,048 of about
# a million numbers, but two modules can exchange weights only if both have biases or neither does.
#
# </details>
#
# <details><summary>Why did view fail where reshape worked?</summary>
#
# Swapping axes moves no numbers in memory. `view` never moves any either, so it fails if numbers that should be
# neighbours aren't neighbours in memory. `reshape` and `flatten` copy if they have to.
#
# </details>
#
# <details><summary>Why is one half the best that fixed weights can do?</summary>
#
# Suppose that the weights don't depend on the words, and let the head give the previous word $a$ the weight $p$ and the
# next word $b$ the weight $q$, and return $m = p\,a + q\,b$. All features are independent, with variance 1. The best
# guess at $a$ from $m$ by a linear layer is $\frac{p}{p^2 + q^2}\,m$, and its mean squared error is
# $1 - \frac{p^2}{p^2 + q^2}$. For $b$ it is $1 - \frac{q^2}{p^2 + q^2}$. The two errors sum to 1 for any fixed $p$ and
# $q$, so their mean is one half. (Weights that depend on the words can do slightly better: after 3,000 steps,
# the error of a single head is 0.47.)
#
# </details>
#
# <details><summary>PyTorch has nn.MultiheadAttention. Is it the same?</summary>
#
# It computes the same function. But it stores the three input projections in one matrix, expects the length before the
# batch by default, and in its boolean masks **True means "must not attend"**.
#
# </details>
#
# ## Further reading
#
# **Since 2017**, the main change has been that heads share keys and values, because a model that writes has to keep
# those of all earlier words in memory.
#
# - Shazeer 2019, [Fast Transformer Decoding](https://arxiv.org/abs/1911.02150): *multi-query attention*, in which all
#   heads share one set of keys and values.
# - Ainslie et al. 2023, [GQA](https://arxiv.org/abs/2305.13245): *grouped-query attention*, in which the heads of a
#   group share one set. Many current language models use it.
#
# ## Where you are
#
# Save the notebook, press **Validate**, and run the next cell.

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# Next: **lesson 03, the parts around attention**. They process what attention gathers, and keep a deep stack trainable.
