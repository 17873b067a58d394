# %% [markdown]
# # Lesson 01: scaled dot-product attention
#
# A Transformer reads a sentence by letting every word look at every other word and take from it what it needs.
# That looking is **attention**. It is one line of mathematics, and everything else in this course is built around it.
#
# At the end of this lesson you have written it yourself, in three small functions, and you can say
#
# - how a word decides where to look,
# - why a square root stands in the formula, and what goes wrong without it,
# - how to forbid a word to look somewhere, and what happens to a word that may look nowhere.
#
# **Time:** about two and a half hours. **In the paper:** sections 3.2, 3.2.1 and 3.2.3 of
# Vaswani et al. 2017, [Attention Is All You Need](https://arxiv.org/abs/1706.03762).
#
# **How a lesson works.** You *predict* a number before you see it, *build* a function, *see* what it does in a picture
# that you can change, and *explain* it in your own words. After each thing that you build stands a check. When
# something is wrong it tries to tell you which mistake it is; above it wait three hints, from gentle to plain.
# Nobody counts how often you run a check or open a hint.

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    attention_heatmap,
    attention_over_sentence,
    mask_effect,
    score_spread,
    show_offline,
    softmax_saturation,
    softmax_temperature,
)

show_offline()
architecture_map(built=[], current=["attention_scores", "attention_weights", "scaled_dot_product_attention"])

# %% [markdown]
# This is the whole machine, the paper's figure 1 with its inside showing. What is highlighted is what you build now.
# By lesson 12 all of it is filled in, and it is yours.
#
# Run the next cell once. It imports what your code may use.

# %% given="setup"
import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from course_lib.checks import check

# %% [markdown]
# ## 1. Looking things up, softly
#
# Think of a dictionary in Python. You come with a *query*, it is compared with every *key*, and where one is equal
# you get its *value*. All or nothing.
#
# Attention is the same, but soft. Query and keys are vectors, and they need not be equal: each key fits the query
# more or less well. So you get a bit of every value, much of those whose keys fit well, little of the others. In
# other words: a **mean of the values, weighted by how well their keys fit the query**.
#
# Why soft? Because then a small change of a query makes a small change of the result, so there is a gradient, so the
# network can *learn* what to look for.
#
# The names in the paper, which are the names in the code:
#
# | symbol | in code | what it is |
# |---|---|---|
# | $Q$ | `query` | what each position is looking for: one row a query |
# | $K$ | `key` | what each position offers to be found by: one row a key |
# | $V$ | `value` | what each position hands over when it is found: one row a value, as many as keys |
# | $d_k$ | `query.shape[-1]` | the number of features of a query, and of a key |
#
# And the whole thing, equation 1 of the paper:
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# You will build it from the inside out: first the fraction (**scores**), then the softmax (**weights**), then the
# product with $V$ (the **mean**).

# %% [markdown]
# ## 2. Scores: how well does a key fit a query?
#
# Two vectors that point the same way have a large dot product, two that have nothing to do with each other have one
# near zero. So the dot product of a query and a key is the **score** of that pair.
#
# In the table of scores, row $i$ belongs to query $i$ and column $j$ to key $j$:
#
# $$\mathrm{scores}_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_k}}$$
#
# where $q_i$ is the $i$-th row of $Q$ and $k_j$ the $j$-th row of $K$.
#
# The dot product is clear. But why divide, and why by a *root*? Before you read on, make a prediction. A wrong
# prediction is worth more than no prediction: you will remember the answer.

# %% predict="predict_spread"
# A query and a key have 64 features each, all of them independent random numbers with mean 0 and
# standard deviation 1. Over many such pairs: what is the standard deviation of their dot product?

# %% check="predict_spread"

# %% [markdown]
# ### Build it
#
# Your function gets tensors with **any number of axes in front**: a single matrix now, a batch of sentences with
# several heads in the next lesson. Only the last two axes matter here. `"... Q d"` in the signature says just that:
# whatever stands in front, then the number of queries, then the number of features.

# %% build="attention_scores"
### BEGIN SOLUTION course_lib.transformer.attention:attention_scores

# %% [markdown] hints="attention_scores"

# %% check="attention_scores"

# %% [markdown]
# ### See it: the spread of dot products
#
# Now test your prediction. The next cell draws 2,000 random pairs for several $d_k$, takes your scores, and
# multiplies them by $\sqrt{d_k}$ again, which gives back the plain dot products.
#
# **Change something:** other values of $d_k$; or leave the `* math.sqrt(d_k)` out, and see what your scores look like.

# %% tags=["see"]
torch.manual_seed(0)
samples = {}
for d_k in [4, 16, 64, 256]:
    pairs = attention_scores(torch.randn(2000, 1, d_k), torch.randn(2000, 1, d_k))
    samples[d_k] = pairs.flatten() * math.sqrt(d_k)

score_spread(samples)

# %% [markdown]
# Each product of two features has mean 0 and variance 1. A dot product sums $d_k$ of them, and the variances of
# independent numbers add up: variance $d_k$, standard deviation $\sqrt{d_k}$. (This is footnote 4 of the paper.)
# Dividing by that root brings the spread back to 1, whatever $d_k$ is.
#
# ### See it: what large scores do to the softmax
#
# Why mind if scores are large? Because of what comes next. The **softmax** turns a row of scores
# $s_1, \dots, s_n$ into weights that are positive and sum to one:
#
# $$w_j = \frac{e^{s_j}}{\sum_{l=1}^{n} e^{s_l}}$$
#
# Here are six scores. Move the slider, which multiplies all of them by the same factor, and watch the bars. The bar
# on the right is the size of the softmax's gradient: how much a small change of the scores can still change.

# %% tags=["see"]
softmax_temperature([1.2, 0.4, 0.1, -0.3, -0.8, 1.0], ["the", "old", "dog", "sees", "a", "cat"])

# %% [markdown]
# Small factor: everyone gets about the same. Large factor: the winner takes everything, and the gradient is gone. A
# network whose attention starts out there cannot learn where to look, because no change of the scores matters.
#
# The same for random queries and keys, with and without the division, as $d_k$ grows. Each line is the mean of many
# draws. The gradient is measured by the Frobenius norm (the root of the sum of squares) of the softmax's Jacobian,
# $\mathrm{diag}(w) - w w^\top$, with $w$ the weights of one query.
#
# **Change something:** the number of keys. Does the picture still say the same with 100 keys?

# %% tags=["see"]
import pandas as pd

keys, draws = 10, 200
rows = []
torch.manual_seed(0)
for d_k in [1, 4, 16, 64, 256, 1024]:
    divided_scores = attention_scores(torch.randn(draws, 1, d_k), torch.randn(draws, keys, d_k))
    for divided, scores in [(True, divided_scores), (False, divided_scores * math.sqrt(d_k))]:
        weights = scores.softmax(dim=-1).squeeze(1)
        jacobian = torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)
        for largest, gradient in zip(
            weights.amax(dim=-1).tolist(), jacobian.norm(dim=(-2, -1)).tolist(), strict=True
        ):
            rows.append((d_k, divided, largest, gradient))

softmax_saturation(pd.DataFrame(rows, columns=["d_k", "divided", "largest_weight", "gradient"]))

# %% [markdown]
# ### Explain it
#
# In three or four sentences, to a friend who knows what a softmax is: why does equation 1 divide by the root of
# $d_k$? Say where the root comes from, what would happen without it, and why dividing by $d_k$ itself would not be
# better.

# %% [markdown] explain="explain_scaling"
# A dot product sums $d_k$ products. For independent features of variance 1 each product has variance 1, the
# variances add up to $d_k$, and so the dot product has a standard deviation of $\sqrt{d_k}$. Without the division the
# scores of wide vectors differ by large numbers, the softmax gives nearly all weight to one key, and its gradient is
# nearly zero, so the network hardly learns where to look. Divided by $d_k$ the scores would have a standard deviation
# of $1/\sqrt{d_k}$, which goes to zero: all keys would get about the same weight, and attention could hardly choose.
#
# ### BEGIN MARK SCHEME
# - 1 point: the variance of a sum of $d_k$ independent products is $d_k$, so the standard deviation is its root.
# - 1 point: large scores saturate the softmax; its gradient vanishes, so learning stops.
# - 1 point: divided by $d_k$, scores shrink towards zero and the weights become nearly uniform.
#
# Give the point for a right idea in other words. Take none off for missing formulas.
# ### END MARK SCHEME

# %% [markdown]
# ## 3. Weights: who gets how much, and who gets nothing
#
# The softmax makes weights of scores: one row of weights for each query, each row sums to one.
#
# Often a query may not look everywhere. Short sentences in a batch are filled up with padding, which means nothing,
# and a decoder must not look at words that it has yet to write. A **mask** says which keys each query may look at.
# In this course a mask is boolean, and **`True` means "may look"**. (Lesson 04 builds the masks. Here you obey them.)
#
# Two rules:
#
# - A forbidden key gets a weight of exactly zero, and **the allowed keys share the whole weight**.
# - A query that may look at nothing gets zeros everywhere. There is nothing to take a mean of, and zeros do no harm.

# %% predict="predict_share"
# A query has four keys, and all four have the same score. The mask is [True, False, True, False].
# What weight does the first key get?

# %% check="predict_share"

# %% [markdown]
# ### Build it
#
# The mask **broadcasts** against the scores: an axis of length one in the mask holds for the whole axis of the
# scores. A mask of shape (batch, 1, keys), say, holds for every query of a sentence. You need to do nothing for
# that, as long as you use operations that broadcast.
#
# Take care with the second rule. A row in which every score is minus infinity comes out of the softmax as 0 / 0,
# which is NaN, and a NaN in one row spreads through the gradient to every weight of the network.

# %% build="attention_weights"
### BEGIN SOLUTION course_lib.transformer.attention:attention_weights

# %% [markdown] hints="attention_weights"

# %% check="attention_weights"

# %% [markdown]
# ### See it: what a mask does
#
# On the left the scores, in the middle the mask, on the right your weights with the sum of each row beside them.
# The fourth query may look at nothing.
#
# **Change something:** allow the fourth query one key. Forbid a key that has a high score, and see who inherits.

# %% tags=["see"]
torch.manual_seed(3)
scores = torch.randn(4, 6)
mask = torch.tensor(
    [
        [True, True, True, True, True, True],
        [True, True, True, False, False, False],
        [True, False, True, False, True, False],
        [False, False, False, False, False, False],
    ]
)

mask_effect(scores, mask, attention_weights(scores, mask))

# %% [markdown]
# ### Explain it
#
# A fellow student masks like this: `weights = scores.softmax(dim=-1) * mask`. Another one like this:
# `weights = (scores * mask).softmax(dim=-1)`. What is wrong with each? Say what happens to the weight of the allowed
# keys, and to that of the forbidden ones. And what is to be done instead?

# %% [markdown] explain="explain_mask"
# The first takes the softmax over all keys, so forbidden keys get their share, and then throws that share away: the
# allowed keys keep what they had, and the row sums to less than one. The second sets forbidden scores to 0, but the
# softmax takes the exponential and $e^0 = 1$, so forbidden keys still get weight, more than any allowed key with a
# score below zero. Instead, forbidden scores have to be made so low before the softmax that they get nothing; then the
# allowed keys share the whole.
#
# ### BEGIN MARK SCHEME
# - 1 point: in the first, the row of allowed weights sums to less than one (they do not share what was taken away).
# - 1 point: in the second, forbidden keys still get weight, since exp(0) = 1.
# - 1 point: says what to do instead: make forbidden scores very low before the softmax.
# ### END MARK SCHEME

# %% [markdown]
# ## 4. Attention: a mean of the values
#
# Now put the halves together. Weights times values: row $i$ of the output is the mean of the values, weighted by
# what query $i$ thinks of their keys.
#
# $$\mathrm{output}_i = \sum_j w_{ij}\, v_j$$
#
# where $w_{ij}$ is the weight that query $i$ gives to key $j$, and $v_j$ the $j$-th row of $V$.
#
# One thing is new. In training, **dropout** sets some of the weights to zero at random and enlarges the others, so
# that the network does not come to rely on a single connection. (The paper's section 5.4 names other places for
# dropout, and not this one. Nearly all code has it, PyTorch's own among it.) Your function gets it as an argument, a
# function to be called on the weights, or None. The **output** is made with the weights after
# dropout. The **weights that you hand back** are those before it: they are for looking at, and we want to see where
# attention looked, not which connections were cut by chance.

# %% build="scaled_dot_product_attention"
### BEGIN SOLUTION course_lib.transformer.attention:scaled_dot_product_attention

# %% [markdown] hints="scaled_dot_product_attention"

# %% check="scaled_dot_product_attention"

# %% [markdown]
# That is it: equation 1 of the paper, and it is yours.
#
# ### See it: attention over a real sentence
#
# What do we need to see it at work? Vectors for words that mean something. We make some from the 6,000 captions that
# come with this course, with a method older than the Transformer: count which words stand within two places of
# each other, keep the pairs that stand together more often than chance would have it (the logarithm of observed over
# expected counts, where it is positive), and squeeze the table into 32 numbers a word by a singular value
# decomposition. Words used in similar ways get similar vectors. All are brought to the same length, 5, for now: large
# enough for clear differences between scores.

# %% tags=["see"]
from collections import Counter

from course_lib.translation.data.corpora import load_captions

captions = [
    caption.lower().replace(".", "").replace(",", "").split() for caption in load_captions().train.english
]
words = sorted({word for caption in captions for word in caption})
index = {word: number for number, word in enumerate(words)}
counts = Counter(
    (index[left], index[right])
    for caption in captions
    for place, left in enumerate(caption)
    for right in caption[max(0, place - 2) : place] + caption[place + 1 : place + 3]
)
together = torch.zeros(len(words), len(words))
for pair, count in counts.items():
    together[pair] = count

chance = together.sum(1, keepdim=True) * together.sum(0, keepdim=True) / together.sum()
association = (together / chance).log().clamp(min=0)
left, size, _ = torch.linalg.svd(association)
vectors = left[:, :32] * size[:32]
vectors = 5 * torch.nn.functional.normalize(vectors - vectors.mean(dim=0), dim=-1)
print(f"{len(captions)} captions, {len(words)} different words, {vectors.shape[1]} numbers a word")

# %% [markdown]
# Now let every word of a sentence attend to every word of it: queries, keys and values are all the same vectors.
# Click on a word to see where it looks.
#
# **Change something:** write a sentence of your own (only words of the captions are known). Divide `x` by two before
# you attend, or multiply it: what happens to the weights, and why?

# %% tags=["see"]
sentence = "a boy with a blue hat and a girl in a red dress".split()
x = vectors[[index[word] for word in sentence]]
output, weights = scaled_dot_product_attention(x, x, x)

attention_over_sentence(weights, sentence, sentence, start=1)

# %% tags=["see"]
attention_heatmap(weights, sentence, sentence)

# %% [markdown]
# Look for two things.
#
# **Words look at words like themselves.** The boy looks at the girl, blue at red, the hat at the dress. Nobody told the
# function about people, colours or clothes. It is all in the vectors, and attention brings it out.
#
# **Most of all they look at themselves**, the dark diagonal. Small wonder: query and key are the same vector, and
# what fits a vector better than itself? To look for something *else*, a word must be able to ask with another vector
# than the one by which it is found. That is what lesson 02 adds: learned projections, and several of them at once.
#
# ### See it: attention does not know the order of words
#
# Shuffle the keys, and the values with them. What happens to the output?

# %% tags=["see"]
shuffled = torch.randperm(len(sentence))
same, _ = scaled_dot_product_attention(x, x[shuffled], x[shuffled])
print("largest change of the output:", (same - output).abs().max().item())

# %% [markdown]
# Nothing, but for rounding. A mean does not care in which order you add things up: "dog bites man" and "man bites
# dog" are the same to attention. Lesson 05 gives every word its place.
#
# ## Common questions
#
# <details><summary>Are queries, keys and values three different inputs?</summary>
#
# They can be. In self-attention all three come from the same sentence, as just now. In the decoder's cross-attention
# the queries come from the sentence being written, keys and values from the one that was read. The function does not
# care.
#
# </details>
#
# <details><summary>Why dot products, and not distances or cosines?</summary>
#
# They are one matrix product, which is what processors do fastest, and they leave lengths in: a long query makes
# sharp weights, a short one makes soft ones, so the network can learn how sure to be. The paper compares them with a
# small network as the judge of fit ("additive attention", section 3.2.1): slower, and about as good where $d_k$ is
# small. Where it is large, the small network is better than dot products that nobody divides. The division by
# $\sqrt{d_k}$ is the paper's answer to that.
#
# </details>
#
# <details><summary>Why not hide the padding's rows as well as its columns?</summary>
#
# A padding query writes an output that nobody reads, so it does no harm. Hiding its row would leave it with nothing
# to look at, and that is the case in which careless code makes NaN.
#
# </details>
#
# <details><summary>How much work is it?</summary>
#
# For $n$ queries and $n$ keys, two matrix products with about $n^2 d_k$ multiplications each, and a table of $n^2$
# weights to keep. Twice the length, four times the work. That is why so much has been invented to make long texts
# cheaper, and why fused kernels, which never write the table down, matter in practice.
#
# </details>
#
# <details><summary>PyTorch has this built in. Why write it?</summary>
#
# `torch.nn.functional.scaled_dot_product_attention` does the same, faster, and the final lab uses it. But it hands
# back no weights to look at, and what it does is hidden inside it. You are here to know what is inside.
#
# </details>
#
# ## Where you are

# %% tags=["see"]
architecture_map(built=["attention_scores", "attention_weights", "scaled_dot_product_attention"])

# %% [markdown]
# The innermost block is filled in. Before you hand the lesson in, press **Validate** in the toolbar: it runs the
# notebook from top to bottom, as the grader will.
#
# Next: **lesson 02, multi-head attention**. One mean of the values is one point of view. You will take several.
