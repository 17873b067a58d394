# %% [markdown]
# # Lesson 01: scaled dot-product attention
#
# A Transformer reads a sentence by letting every word take information from every other word. The operation that does
# this is **attention**.
#
# By the end you will have written it yourself, as three small functions, and be able to explain
#
# - how a word chooses which other words to attend to,
# - why the formula contains a square root, and what goes wrong without it,
# - how to stop a word from attending to some positions, and what happens if none are left.
#
# **Time:** about two and a half hours. **In the paper:** sections 3.2, 3.2.1, 3.2.3 and 4 of Vaswani et al. 2017,
# [Attention Is All You Need](https://arxiv.org/abs/1706.03762).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    attention_heatmap,
    attention_over_sentence,
    attention_steps,
    mask_effect,
    score_spread,
    show_offline,
    softmax_saturation,
    softmax_temperature,
)
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(
    built=finished_exercises(),
    current=["attention_scores", "attention_weights", "scaled_dot_product_attention"],
)

# %% [markdown]
# You build the highlighted boxes in this lesson.

# %% given="setup"
import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from course_lib.checks import check

# %% [markdown]
# ## 1. Why attention?
#
# ### What people did before
#
# Before 2017, most neural translators were **recurrent networks**. They read a sentence one word at a time and updated
# a vector, the *state*, which in the end had to represent the whole sentence
# ([Sutskever et al. 2014](https://arxiv.org/abs/1409.3215)). That has two drawbacks:
#
# - **One vector must hold everything.** The longer the sentence, the more is lost.
# - **It can't be parallelised.** Step 20 needs the result of step 19, so most of a GPU's cores wait.
#
# Bahdanau, Cho and Bengio ([2014](https://arxiv.org/abs/1409.0473)) solved the first problem. They kept the state of
# *every* word of the source, the sentence to be translated. For each word of the translation, a small network gave
# every state a score, and the scores were turned into weights. The weighted mean of the states was the **context
# vector**. This was attention, on top of a recurrent network.
#
# **Convolutions** solved the second problem. Networks such as ByteNet and ConvS2S compute all positions at once. But a
# layer connects only a few positions, so distant words meet only after several layers.
#
# The paper asks: what if attention is *all* there is? Then any two words are one step apart, and all positions are
# computed in parallel. Three rows of its table 1 compare layers for a sentence of $n$ words with $d$ features each.
# (Inside a network, a word is a vector, and its **features** are the numbers in it; lesson 05 shows where they come
# from. *Self-attention* is attention within one sentence; $k$ is the width of a convolution.)
#
# | layer | operations | steps that must run in sequence | longest path between two words |
# |---|---|---|---|
# | self-attention | $n^2 \cdot d$ | 1 | 1 |
# | recurrent | $n \cdot d^2$ | $n$ | $n$ |
# | convolution | $k \cdot n \cdot d^2$ | 1 | about $\log_k n$, if each layer skips more words than the one below it (*dilated* convolutions) |
#
# The path matters because whatever a network learns about two words has to travel along it. The next cell evaluates the
# formulas for the number of operations, without constant factors, for the paper's $d = 512$ and for $k = 3$:

# %% tags=["see"]
FEATURES, WIDTH = 512, 3
for n in (25, 512, 5_000):
    operations = {
        "self-attention": n**2 * FEATURES,
        "recurrent": n * FEATURES**2,
        "convolution": WIDTH * n * FEATURES**2,
    }
    shown = "   ".join(f"{layer} {number / 1e6:9,.1f}" for layer, number in operations.items())
    print(f"{n:5,} words:  {shown}   million operations")

# %% [markdown]
# By these formulas, self-attention is also the cheapest for sentences. (They leave out constant factors, and the linear
# layers around attention; lesson 02 counts everything.) But its cost grows with the square of the length, which still
# limits Transformers on long texts.
#
# ### A soft dictionary
#
# A Python dictionary returns the *value* whose *key* equals your *query*: a key matches completely or not at all. In
# attention, query and keys are vectors, and each key matches to some degree. The result is a **mean of all values,
# weighted by how well their keys match the query**.
#
# Why soft? Because then a small change in the query makes a small change in the result. So there is a gradient, and the
# network can *learn* what to ask for.
#
# | symbol | in code | what it is |
# |---|---|---|
# | $Q$ | `query` | what each position asks for: one row for each query |
# | $K$ | `key` | what each position is found by: one row for each key |
# | $V$ | `value` | what each position provides when it is found: one row for each key |
# | $d_k$ | `query.shape[-1]` | the number of features of a query, and of a key |
# | $d_v$ | `value.shape[-1]` | the number of features of a value, and of a result |
#
# Equation 1 of the paper is the whole operation:
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# You build it from the inside out: the fraction (**scores**), the softmax (**weights**), the product with $V$. (The
# *softmax* turns a row of scores into positive weights that sum to one. Its formula follows in section 2.)

# %% [markdown]
# ## 2. Scores: how well does a key match a query?
#
# Vectors that point in the same direction have a large dot product; if they have nothing in common, it is near zero. So
# attention scores query $i$ and key $j$ by their dot product:
#
# $$\mathrm{scores}_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_k}}$$
#
# where $q_i$ is row $i$ of $Q$, and $k_j$ is row $j$ of $K$.
#
# First, a question about the dot product itself:

# %% predict="predict_spread"
# A query and a key have 64 features each, all of them independent random numbers with mean 0 and
# standard deviation 2. Over many such pairs, what is the standard deviation of their dot product?

# %% check="predict_spread"

# %% [markdown]
# ### Worked example: three words, two features
#
# Three words have two features, "is an animal" and "is red": a dog is an animal, a rose is red, and a fox is a bit of
# both. The dog asks with its own vector: which of the three words is like me?

# %% tags=["see"]
features = {"dog": [2.0, 0.0], "fox": [1.0, 1.0], "rose": [0.0, 2.0]}
dog = features["dog"]
for word, (animal, red) in features.items():
    product = dog[0] * animal + dog[1] * red
    print(
        f"dog · {word:5} = {dog[0]:g} × {animal:g} + {dog[1]:g} × {red:g} = {product:g}"
        f"     divided by √2: {product / 2**0.5:.2f}"
    )

# %% [markdown]
# The three quotients are the first row of the table of scores.
#
# ### Build it
#
# `"... Q d"` in the signature means **any number of leading axes** (in the next lesson, a batch of sentences with
# several heads), then the queries, then their features.
#
# In the final lab (lesson 13), your code can run on a GPU. So in all lessons, the result and the tensors that you
# create have to be on the device of the inputs. Most checks detect a tensor that would stay on the CPU, even on a
# machine without a GPU.

# %% build="attention_scores"
### BEGIN SOLUTION course_lib.transformer.attention:attention_scores

# %% [markdown]
# A scratch cell: compare your function's result with the numbers above.

# %% tags=["see"]
x = torch.tensor(list(features.values()))
print(attention_scores(x, x))

# %% [markdown] hints="attention_scores"

# %% check="attention_scores"

# %% [markdown]
# ### See it: the spread of dot products
#
# For each $d_k$, the next cell draws 2,000 random pairs, with features of standard deviation 1. It multiplies your
# scores by $\sqrt{d_k}$, which gives the plain dot products.
#
# **Change something:** to test your prediction, write `2 * torch.randn(...)` both times. Then undo that and remove
# `* math.sqrt(d_k)`: how widely do the scores themselves spread?

# %% tags=["see"]
torch.manual_seed(0)
samples = {}
for d_k in [4, 16, 64, 256]:
    pairs = attention_scores(torch.randn(2000, 1, d_k), torch.randn(2000, 1, d_k))
    samples[d_k] = pairs.flatten() * math.sqrt(d_k)

score_spread(samples)

# %% [markdown]
# The product of two such features, $q$ and $k$, has mean 0, so its variance is the mean of $q^2 k^2$. Because $q$ and
# $k$ are independent, that is the mean of $q^2$ times the mean of $k^2$, which is $1 \cdot 1 = 1$. A dot product sums
# $d_k$ of these products, and the variances of independent numbers add up. So its standard deviation is $\sqrt{d_k}$
# (footnote 4 of the paper), and dividing by that root makes the spread 1 for any $d_k$.
#
# <details><summary>What changes?</summary>
#
# With `2 * torch.randn(...)`, all spreads are four times as large, about 8, 16, 32 and 64, because both factors of each
# product are doubled. The scores themselves spread by about 1 for every $d_k$.
#
# </details>
#
# ### See it: what large scores do to the softmax
#
# Why is a large spread a problem? Because of the next step, the **softmax**. It turns a row of scores $s_1, \dots, s_n$
# into weights:
#
# $$w_j = \frac{e^{s_j}}{\sum_{l=1}^{n} e^{s_l}}$$
#
# The slider multiplies six scores by one factor. The bar on the right is the size of the softmax's gradient: how much a
# small change in the scores still changes the weights.

# %% tags=["see"]
softmax_temperature([1.2, 0.4, 0.1, -0.3, -0.8, 1.0], ["the", "old", "dog", "sees", "a", "cat"])

# %% [markdown]
# With a small factor, all keys get about the same weight. With a large one (here, 20 or more), the softmax *saturates*: a
# single key gets nearly everything, and the gradient is almost zero. A network whose attention starts like that learns
# almost nothing about what to attend to.
#
# The next picture shows the same for random queries and keys as $d_k$ grows, with and without the division. The size of
# the gradient is the square root of the sum of the squares of all derivatives of the weights with respect to the
# scores. (This is the Frobenius norm of the Jacobian $\mathrm{diag}(w) - w w^\top$, where $w$ is the vector of
# weights.)
#
# **Change something:** try other values of $d_k$, such as 2, 8 and 4096.

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
# In three or four sentences: why does equation 1 divide by the square root of $d_k$? Say where the square root comes
# from, what would happen without it, and why dividing by $d_k$ itself would not be better.

# %% [markdown] explain="explain_scaling"
# A dot product sums $d_k$ products. For independent features of variance 1, each product has variance 1, the variances
# add up to $d_k$, and the dot product has standard deviation $\sqrt{d_k}$. Without the division, the scores of wide
# vectors differ by large amounts, the softmax gives nearly all the weight to one key, and its gradient is nearly zero,
# so the network barely learns what to attend to. Divided by $d_k$, the scores would have a standard deviation of
# $1/\sqrt{d_k}$, which goes to zero: all keys would get about the same weight, and attention could barely choose.
#
# ### BEGIN MARK SCHEME
# - 1 point: the variance of a sum of $d_k$ independent products is $d_k$, so the standard deviation is its square root.
# - 1 point: large scores saturate the softmax; its gradient vanishes, so learning stops.
# - 1 point: divided by $d_k$, scores shrink towards zero and the weights become nearly uniform.
#
# Formulas are not required.
# ### END MARK SCHEME

# %% [markdown]
# ## 3. Weights: a softmax with a mask
#
# Often some keys must be hidden from a query: **padding**, the filler after short sentences in a batch, and words that
# a decoder has yet to write. A **mask** says which keys each query may attend to. In this course masks are boolean, and
# **`True` means "may attend"**. (You build them in lesson 04.)
#
# There are two rules:
#
# - A masked key gets a weight of exactly zero, and **the allowed keys share the whole weight**.
# - A query that may attend to nothing gets zeros everywhere.

# %% predict="predict_share"
# A query has four keys, and all four have the same score. The mask is [True, False, True, False].
# What weight does the first key get? (Write it as a fraction, from 0 to 1.)

# %% check="predict_share"

# %% [markdown]
# ### Worked example: the dog's weights
#
# Here are the dog's three scores again, first without a mask, then with one that hides the fox.

# %% tags=["see"]
scores_of_dog = {"dog": 4 / 2**0.5, "fox": 2 / 2**0.5, "rose": 0.0}
for allowed in (["dog", "fox", "rose"], ["dog", "rose"]):
    powers = {word: math.exp(scores_of_dog[word]) for word in allowed}
    total = sum(powers.values())
    print("allowed:", ", ".join(allowed))
    for word, power in powers.items():
        print(
            f"  {word:5} e^{scores_of_dog[word]:.2f} = {power:5.2f}     {power:5.2f} / {total:.2f} = {power / total:.3f}"
        )
print("allowed: nothing\n  the sum is 0, so there is nothing to divide by")

# %% [markdown]
# The fox's weight went to the others, in proportion to their own weights.
#
# ### Build it
#
# The mask **broadcasts** against the scores: one of shape (batch, 1, keys), for example, applies to every query of a
# sentence.
#
# Mind the second rule. The softmax of a row in which every score is minus infinity is 0 / 0, which is NaN, and one NaN
# spreads through the gradient to every parameter of the network. Scores may also be very high or very low: in float16,
# $e^{12}$ is already infinite. `torch.softmax` can handle such scores, but a softmax written straight from the formula
# can't.

# %% build="attention_weights"
### BEGIN SOLUTION course_lib.transformer.attention:attention_weights

# %% [markdown]
# A scratch cell: the dog's row, with three masks.

# %% tags=["see"]
row = torch.tensor([[4 / 2**0.5, 2 / 2**0.5, 0.0]])
for allowed in ([True, True, True], [True, False, True], [False, False, False]):
    print(allowed, attention_weights(row, torch.tensor([allowed])))

# %% [markdown] hints="attention_weights"

# %% check="attention_weights"

# %% [markdown]
# ### See it: what a mask does
#
# The picture shows the scores, the mask, and your weights with the sum of each row. Hover over a cell to read its
# number.
#
# **Change something:** allow one key for the last query. Mask a key with a high score: which keys get its weight?

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
# <details><summary>What changes?</summary>
#
# The last query gives its only key a weight of 1. If you mask another key, its weight goes to the allowed keys of its
# row, in proportion to their own: in the first row, if you mask key 4 (counted from 0, with a weight of 0.30), the
# others become about 1.4 times as large.
#
# </details>
#
# ### Explain it
#
# One student masks like this: `weights = scores.softmax(dim=-1) * mask`. Another writes
# `weights = (scores * mask).softmax(dim=-1)`. What is wrong with each? Say what happens to the weights of the allowed
# keys and of the masked keys, and what the students should do instead.

# %% [markdown] explain="explain_mask"
# The first one takes the softmax over all keys, so masked keys get a share, and then throws that share away: the
# allowed keys keep the weights that they had, and the row sums to less than one. The second one sets masked scores to 0,
# but the softmax takes the exponential, and $e^0 = 1$, so masked keys still get weight, even more than an allowed key
# with a negative score. Instead, one should make the masked scores so low before the softmax that their weights are
# zero. Then the allowed keys share the whole weight.
#
# ### BEGIN MARK SCHEME
# - 1 point: in the first, the row of allowed weights sums to less than one (they do not share what was removed).
# - 1 point: in the second, masked keys still get weight, since exp(0) = 1.
# - 1 point: says what to do instead: make masked scores very low before the softmax.
# ### END MARK SCHEME

# %% [markdown]
# ## 4. Attention: a weighted mean of the values
#
# Now combine the two functions. Row $i$ of the output is the mean of the values, with the weights of query $i$:
#
# $$\mathrm{output}_i = \sum_j w_{ij}\, v_j$$
#
# where $w_{ij}$ is the weight that query $i$ gives to key $j$, and $v_j$ is row $j$ of $V$.
#
# ### Worked example: all the steps
#
# The picture shows the whole calculation for our three words. The values are the same vectors as the keys. The slider
# sets how many steps are shown, and the list selects the query.
#
# **Change something:** multiply `x` by 3. What happens to the weights, and why? Then give the values fewer features
# than the keys: write `x[:, :1]` in place of the third `x`.

# %% tags=["see"]
words = list(features)
x = torch.tensor(list(features.values()))
attention_steps(x, x, x, words, words)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# Query and key are both tripled, so all scores are 9 times as large. The dog's weight for itself rises from 0.77 to
# nearly 1. (The fox's weights stay at 1/3: its three scores are equal.) Narrower values don't change the weights, but
# each result has only one feature.
#
# </details>
#
# ### Build it
#
# One thing is new. During training, **dropout** sets some of the weights to zero at random and increases the others to
# compensate, so that the network doesn't rely on a single connection. (The paper's section 5.4 doesn't mention this
# use. Section 6.3 does, in passing, and nearly all implementations have it.) Your function gets it as an argument: a
# function to call on the weights, or None.
#
# The **output** uses the weights after dropout. The **returned weights** are those before dropout, because we want to
# see what the model attends to.

# %% build="scaled_dot_product_attention"
### BEGIN SOLUTION course_lib.transformer.attention:scaled_dot_product_attention

# %% [markdown]
# A scratch cell: compare each row of the output with the last row of the picture, for the same query. Then try a
# `mask`, and a dropout that doubles everything, `dropout=lambda weights: 2 * weights`. Each time, does the output
# change, do the returned weights, or both?

# %% tags=["see"]
output, weights = scaled_dot_product_attention(x, x, x)
print("output:", output, "weights:", weights, sep="\n")

# %% [markdown] hints="scaled_dot_product_attention"

# %% check="scaled_dot_product_attention"

# %% [markdown]
# ### See it: attention in a real sentence
#
# To watch attention at work, we need vectors that carry some meaning. We compute them from this course's 6,000 training
# captions:
#
# 1. Count how often two words occur within two positions of each other.
# 2. Divide each count by the count that chance alone would give, and take the logarithm. Keep only the positive
#    results: pairs that occur together more often than by chance.
# 3. Compress this table to 32 numbers for each word (by a singular value decomposition, which you don't need to know).
#
# Words that are used in similar ways get similar vectors. The mean of all vectors is subtracted from each, and each is
# then scaled to length 5, so that the scores differ clearly.

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
    for position, left in enumerate(caption)
    for right in caption[max(0, position - 2) : position] + caption[position + 1 : position + 3]
)
together = torch.zeros(len(words), len(words))
for pair, count in counts.items():
    together[pair] = count

chance = together.sum(1, keepdim=True) * together.sum(0, keepdim=True) / together.sum()
association = (together / chance).log().clamp(min=0)
left, size, _ = torch.linalg.svd(association)
vectors = left[:, :32] * size[:32]
vectors = 5 * torch.nn.functional.normalize(vectors - vectors.mean(dim=0), dim=-1)
print(f"{len(captions)} captions, {len(words)} different words, {vectors.shape[1]} numbers for each word")

# %% [markdown]
# Now every word of a sentence attends to all words of the same sentence, which is *self-attention*. Here queries, keys
# and values are even the same vectors.
#
# In the picture, "boy" is selected in the upper row. It gives more than half of its weight to itself (the thickest
# line), most of the rest to "girl", and nearly nothing to "a" or "with". Now click "blue", then "hat", and before each
# click guess where the lines will lead.
#
# **Change something:** write your own sentence in lower case, with words from the captions. (A `KeyError` names a word
# that doesn't occur in them.) Then divide or multiply `x` by two before the call: what happens to the weights, and why?
# Undo your changes before you run the next cell.

# %% tags=["see"]
sentence = "a boy with a blue hat and a girl in a red dress".split()
x = vectors[[index[word] for word in sentence]]
output, weights = scaled_dot_product_attention(x, x, x)

attention_over_sentence(weights, sentence, sentence, start=1)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# With halved vectors, all scores are a quarter as large, and the weights become more equal: "boy" gives itself 0.18
# instead of 0.55. With doubled vectors, the scores are four times as large: 0.85 for itself, 0.15 for "girl", almost
# nothing for the rest.
#
# </details>

# %% tags=["see"]
attention_heatmap(weights, sentence, sentence)

# %% [markdown]
# **Words attend to similar words**: "blue" to "red", "hat" to "dress". The function knows nothing about people,
# colours or clothes. That knowledge is in the vectors.
#
# **Most of all they attend to themselves**: see the diagonal. (The four occurrences of "a" have equal vectors, so they
# share the weight.) Query and key are the same vector here, and no other vector of the same length matches it as well.
# To find something *else*, a word must be able to ask with a different vector from the one it is found by.
# Lesson 02 adds this.
#
# ### See it: attention ignores the order of words
#
# Shuffle the keys, and the values with them. What happens to the output?

# %% tags=["see"]
shuffled = torch.randperm(len(sentence))
same, _ = scaled_dot_product_attention(x, x[shuffled], x[shuffled])
print("largest change of the output:", (same - output).abs().max().item())

# %% [markdown]
# Nothing, apart from rounding: a sum doesn't depend on the order of its terms. So attention alone can't tell "dog bites
# man" from "man bites dog". Lesson 05 solves this.
#
# ## Common questions
#
# <details><summary>Why dot products, and not a distance or a small network?</summary>
#
# All dot products together are one matrix product, which is what processors do fastest. Bahdanau's scores come from a
# small network ("additive attention"). According to the paper's section 3.2.1, both kinds of score work about equally
# well if $d_k$ is small. If $d_k$ is large, additive attention is better than *undivided* dot products. That is why
# equation 1 divides by $\sqrt{d_k}$.
#
# </details>
#
# <details><summary>Why is there no non-linearity in attention?</summary>
#
# There is one, the softmax. But for given weights the output is a mean, which is linear in the values. The feed-forward
# network of lesson 03 adds what is missing.
#
# </details>
#
# <details><summary>PyTorch has this built in. Why write it?</summary>
#
# To see how it works. `torch.nn.functional.scaled_dot_product_attention` computes the same output faster, and the final
# lab uses it, but it doesn't return the weights.
#
# </details>
#
# ## Further reading
#
# - Bahdanau, Cho and Bengio 2014, [Neural Machine Translation by Jointly Learning to Align and
#   Translate](https://arxiv.org/abs/1409.0473): the first attention, and its context vector.
# - Luong, Pham and Manning 2015, [Effective Approaches to Attention-based Neural Machine
#   Translation](https://arxiv.org/abs/1508.04025): dot products as scores.
# - **Since 2017:** Dao et al. 2022, [FlashAttention](https://arxiv.org/abs/2205.14135), computes exactly your function
#   block by block, without ever storing the table of weights. Its authors trained GPT-2 three times faster with it.
#
# ## Where you are
#
# Save the notebook before you run the next cell, because the map reads the saved notebooks.

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# Press **Validate** before you hand in the lesson.
#
# Next: **lesson 02, multi-head attention**.
