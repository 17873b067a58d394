# %% [markdown]
# # Lesson 05: words and their positions
#
# "Dog bites man" and "man bites dog" consist of the same words. How does a Transformer know where each word is?
#
# The paper's answer is surprising. It makes a vector for each position, out of sines and cosines, and simply **adds**
# it to the vector of the word. You build all three parts: the vectors of the positions, the vectors of the words, and
# their sum.
#
# By the end you will be able to explain
#
# - what a Transformer knows about the order of words if nobody tells it,
# - what the sinusoids are, and how to read them like the hands of a clock,
# - why a step of three positions is the *same rotation* everywhere in a sentence, and what this is good for,
# - why the word vectors are multiplied by the square root of $d_\mathrm{model}$ before positions are added.
#
# **Time:** about two hours. **In [the paper](https://arxiv.org/abs/1706.03762):** sections 3.4, 3.5 and 5.4, and row
# (E) of table 3.

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    attention_heatmap,
    clock_hands,
    named_lines,
    number_field,
    position_waves,
    show_offline,
)
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(
    built=finished_exercises(),
    current=["sinusoids", "TokenEmbedding", "PositionalEncoding"],
)

# %% [markdown]
# This lesson's parts are at the bottom of both stacks, where a sentence comes in. From there, positions travel with the
# words in the residual stream (lesson 03).

# %% given="setup"
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.checks import check
from course_lib.transformer import MultiHeadAttention, scaled_dot_product_attention

# %% [markdown]
# ## 1. Does the order of words matter?
#
# What happens to the result of self-attention for one word if the order of the words changes?

# %% predict="predict_orders"
# The three words "dog", "bites" and "man" have six possible orders. Each order goes through one layer of
# multi-head self-attention (no mask, no dropout). Look at the output vector for the word "dog".
# How many different vectors do you get from the six orders?

# %% check="predict_orders"

# %% [markdown]
# ### See it: six orders of three words
#
# **Change something:** use the output for another word. Then use four, five or six words: are there more different
# outputs now? (Not more than seven: eight words have 40,320 orders, and comparing all their outputs takes gigabytes.)
# Then undo that, because section 5 uses the three words again.

# %% tags=["see"]
from collections.abc import Callable
from itertools import permutations

torch.manual_seed(0)
sentence = ["dog", "bites", "man"]
vector_of = dict(zip(sentence, torch.randn(len(sentence), 32), strict=True))
attention = MultiHeadAttention(32, heads=4).eval()


def in_every_order(word: str, add_positions: Callable[[Tensor], Tensor]) -> Tensor:
    outputs = []
    for order in permutations(sentence):
        x = add_positions(torch.stack([vector_of[other] for other in order]).unsqueeze(0))
        outputs.append(attention(x, x, x)[0, order.index(word)])
    return torch.stack(outputs).detach()


def how_many_differ(outputs: Tensor) -> int:
    distances = distances_in(outputs)
    return sum(bool((distances[number, :number] > 1e-4).all()) for number in range(len(outputs)))


def distances_in(outputs: Tensor) -> Tensor:
    # The faster method of cdist is less exact.
    return torch.cdist(outputs, outputs, compute_mode="donot_use_mm_for_euclid_dist")


outputs = in_every_order("dog", add_positions=lambda x: x)
print("largest distance between two outputs:", distances_in(outputs).max().item())
print("different outputs:", how_many_differ(outputs))

# %% [markdown]
# There is only one output vector, apart from rounding. The dog doesn't know whether it bites or is bitten.
#
# <details><summary>What changes?</summary>
#
# Every word still has only one output, in sentences of up to seven words. The printed distance stays near 1e-7, which
# is rounding.
#
# </details>
#
# The rest of the model doesn't help: normalisation and the feed-forward network work on each word alone. (In the
# decoder, the causal mask distinguishes words by how many others they see. The encoder has nothing like it.)
#
# ## 2. A pattern for every position
#
# What should the vector of a position be like?
#
# - **Each position has its own vector.** Otherwise, two positions could not be told apart.
# - **No number gets large**, however long the sentence. Otherwise, positions would drown out the words.
# - **One step means the same everywhere.** The step from position 3 to 4 should be the same change as the step from 103
#   to 104.
# - **It works for any length**, without knowing how long the sentence is.
#
# **A clock** has all four properties. A single hand soon points the same way again: the hour hand can't tell noon from
# midnight. But with several hands, each slower than the one before, the clock looks different at every moment. No hand
# ever leaves its circle. In ten minutes, a hand always turns by the same angle, whatever the time of day. And a clock
# doesn't have to know how long it will run.
#
# The direction of a hand takes two numbers: how far to the right its tip is, and how far up. If the angle is measured
# clockwise from twelve, they are its **sine** and its **cosine**. So $d_\mathrm{model}$ numbers are enough for
# $d_\mathrm{model}/2$ hands. This is the paper's **positional encoding**, $PE$ (section 3.5):
#
# $$PE_{(pos,\,2i)} = \sin\!\left(\frac{pos}{10000^{2i/d_\mathrm{model}}}\right) \qquad
# PE_{(pos,\,2i+1)} = \cos\!\left(\frac{pos}{10000^{2i/d_\mathrm{model}}}\right)$$
#
# | symbol | in code | what it is |
# |---|---|---|
# | $pos$ | a row of the table | the position: 0 for the first word, then 1, 2, and so on |
# | $d_\mathrm{model}$ | `d_model` | the number of features of a word, and of a position |
# | $i$ | | the index of the hand: 0, 1, 2, up to $d_\mathrm{model}/2 - 1$ (each hand is a pair of columns) |
# | $2i$ and $2i+1$ | columns of the table | the sine and the cosine of hand $i$ |
# | $1 / 10000^{2i/d_\mathrm{model}}$ | | the **frequency**: how far (in radians) the hand turns from one position to the next |
#
# The exponent runs from 0 to almost 1. So hand 0 turns by 1 radian per position, and for 512 features the last hand
# turns by about a ten-thousandth of that.

# %% predict="predict_wave"
# d_model is 8. Column 4 is a wave along the positions. How many positions long is one full wave? (You may
# calculate in the cell: math.pi is available.)

# %% check="predict_wave"

# %% [markdown]
# ### Worked example: four features, two hands
#
# The first hand turns by $1/10000^{0/4} = 1$ radian per position, the second by $1/10000^{2/4} = 0.01$. The last line is
# for three features: one hand, and a sine without its cosine.

# %% tags=["see"]
for pos in range(3):
    fast, slow = pos * 1.0, pos * 0.01
    print(
        f"position {pos}: angles {fast:.0f} and {slow:.2f} ->"
        f"  sine {math.sin(fast):5.2f}  cosine {math.cos(fast):5.2f}  sine {math.sin(slow):5.2f}  cosine {math.cos(slow):5.2f}"
    )

three = [math.sin(1), math.cos(1), math.sin(1 / 10000 ** (2 / 3))]
print("three features, position 1:", [round(feature, 4) for feature in three])

# %% [markdown]
# With three features, the exponent of the last sine is 2/3, because $2i$ is always divided by $d_\mathrm{model}$.
#
# ### Build it
#
# One function makes the table: a row for each position, a column for each feature.
#
# - **Sines and cosines alternate.** (Some code has all sines first. A model can learn with either order, but weights
#   trained for one are useless for the other.)
# - **Odd `d_model`.** There is one more sine than there are cosines: the table ends with a sine. Much published code
#   crashes here.
# - **The result is float32.** But it is better to compute the angles in float64, because a float32 has only about seven
#   digits: at position 4,999 the error of the sine would be as large as 0.0004. (The check accepts both.)
#
# A loop would be correct, but slow. Try to make all angles at once: a column of positions divided by a row of powers.

# %% build="sinusoids"
### BEGIN SOLUTION course_lib.transformer.positions:sinusoids

# %% [markdown]
# A scratch cell: the worked example. How far do you have to go until the slow hand has turned once?

# %% tags=["see"]
print(sinusoids(3, 4))

# %% [markdown] hints="sinusoids"

# %% check="sinusoids"

# %% [markdown]
# ### See it: the sinusoids as waves
#
# Each row of the picture is one pair of columns of your table: the even one (sine) as a solid line, the odd one
# (cosine) as a dashed line.
#
# **Change something:** draw other pairs, between 0 and 31. Then make the table 16 wide, `sinusoids(60, 16)`, and draw
# pairs 0 to 7: which waves are the same as before, and how much slower is each wave than the one above it? Then undo
# that, because the next cell draws the same table.

# %% tags=["see"]
table = sinusoids(60, 64)
position_waves(table, pairs=[0, 2, 4, 8, 16])

# %% [markdown]
# The fast waves on top distinguish neighbours, but repeat after a few words. The slow ones at the bottom distinguish
# the beginning of a text from its end. Together they are like the digits of a number: the last digit changes at every
# step, the first hardly ever.
#
# <details><summary>What changes?</summary>
#
# Pair $i$ of the narrow table is pair $4i$ of the wide one, so its pairs 0, 1, 2 and 4 are the same waves as pairs 0,
# 4, 8 and 16 before. Each wave is $\sqrt{10} \approx 3.2$ times as slow as the one above it.
#
# </details>
#
# ### See it: the sinusoids as a heat map
#
# This is the same table with all its columns.
#
# **Change something:** use 2,000 positions and show every fortieth: `sinusoids(2000, 64)[::40]`. (Row 1 is then
# position 40.) Which columns change now, and which don't?

# %% tags=["see"]
number_field(table, rows="position", columns="column", title="Each row is the pattern of one position")

# %% [markdown]
# On the right, almost nothing changes: these hands are made for texts much longer than 60 words.
#
# <details><summary>What changes?</summary>
#
# The columns that hardly change now start at about column 60 instead of column 36: 2,000 positions are long enough for
# slower hands to turn visibly. (Columns 8 and 9 only seem to be slow: in 40 positions, their hand makes almost exactly
# two turns.)
#
# </details>
#
# ## 3. What the pattern is good for
#
# ### See it: an offset is a rotation
#
# The third of the four properties is the important one. Here are the first hands of your clock at two positions, three
# apart. Move the slider to choose the first of them, and watch the arc: the **angle by which each hand has turned**.
#
# **Change something:** try other offsets in the code. Which offset nearly returns the first hand to where it was?

# %% tags=["see"]
clock_hands(sinusoids(40, 16), pairs=[0, 1, 2, 3], offset=3, start=2)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# Offset 6 comes close: its arc is 344 degrees. The first hand turns by 1 radian per position, and a full turn is
# $2\pi \approx 6.28$. Offset 25 comes even closer, with 352 degrees: four turns are 25.13.
#
# </details>
#
# The angle stays the same wherever you start. This follows from the angle addition formulas,
# $\sin(a + b) = \sin a \cos b + \cos a \sin b$ and $\cos(a + b) = \cos a \cos b - \sin a \sin b$. For an offset of $k$
# positions and a hand of frequency $\omega$, they give
#
# $$\begin{pmatrix} \sin((pos + k)\,\omega) \\ \cos((pos + k)\,\omega) \end{pmatrix} =
# \begin{pmatrix} \cos(k\omega) & \sin(k\omega) \\ -\sin(k\omega) & \cos(k\omega) \end{pmatrix}
# \begin{pmatrix} \sin(pos\,\omega) \\ \cos(pos\,\omega) \end{pmatrix}$$
#
# The matrix in the middle turns the hand by the angle $k\omega$. **It doesn't contain $pos$.** So *one* matrix, the
# same for all positions, leads from each position to the one $k$ steps later. This is why the authors chose sinusoids:
# they expected that a model could easily learn to attend "three words back", because a projection is just such a
# matrix. Let $W^Q$ turn the vector of each position back by three, and let $W^K$ be the identity. Then each position
# asks with the vector of the position three steps earlier, and that earlier position has the key that matches best.
#
# Here is the matrix for all hands at once, applied to every row of your table. Then a head uses it to look back:

# %% tags=["see"]
offset, d_model = 3, 16
table = sinusoids(100, d_model).double()

turn = torch.zeros(d_model, d_model, dtype=torch.float64)
for even in range(0, d_model, 2):
    angle = offset / 10000 ** (even / d_model)
    turn[even, even], turn[even, even + 1] = math.cos(angle), math.sin(angle)
    turn[even + 1, even], turn[even + 1, even + 1] = -math.sin(angle), math.cos(angle)

predicted = table[:-offset] @ turn.T
print("largest error, over all 97 pairs of positions:", (predicted - table[offset:]).abs().max().item())

queries = table @ turn  # without .T, the matrix turns the other way
scores = queries @ table.T
print("position 50 attends most to position", scores[50].argmax().item())

# %% [markdown]
# ### How long is the vector of a position?
#
# Attention compares vectors by dot products, so their lengths matter.

# %% predict="predict_length"
# d_model is 512, as in the paper. How long is the vector of a position (the square root of the sum of
# the squares of its 512 numbers)?

# %% check="predict_length"

# %% [markdown]
# The vectors of all positions are equally long. And what do their dot products say? For one hand with frequency
# $\omega$, and two positions $p$ and $q$:
#
# $$\sin(p\omega)\sin(q\omega) + \cos(p\omega)\cos(q\omega) = \cos\bigl((p - q)\,\omega\bigr)$$
#
# Again only the **distance** remains.
#
# ### See it: the dot product of two positions
#
# The chart shows the dot product against the distance, for three values of `d_model`. Each is drawn as a fraction of
# its value at distance 0.
#
# **Change something:** draw distances up to 1,000, for one `d_model` at a time. Does a distant position ever look like a
# near one?

# %% tags=["see"]
import pandas as pd

rows = []
for d_model in [16, 64, 512]:
    table = sinusoids(101, d_model)
    products = table @ table[0]
    rows += [
        (f"d_model = {d_model}", distance, share)
        for distance, share in enumerate((products / products[0]).tolist())
    ]

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="distance between two positions",
    up="dot product, as a share",
    title="Near positions are similar, distant ones less; with few features it ripples",
)

# %% [markdown]
# The similarity falls with the distance. With 512 features, it falls at every step up to a distance of 43; with 16,
# only up to a distance of 3. So the plain dot product of two positions says how *near* they are. But it can't
# distinguish "three before" from "three after", because the cosine is the same for both. That needs projections, which
# turn query and key differently.
#
# <details><summary>What changes?</summary>
#
# With 16 features, distant positions can look near: the share is 0.69 at distance 3, but 0.80 at distance 19, and still
# 0.72 at distance 182. With 512 features they don't: the share stays below 0.44 at all distances above 100.
#
# </details>
#
# ### Explain it
#
# Two students find this too complicated. One says: "Give each word one more feature with its position: 0, 1, 2, and so
# on." The other: "Use the position divided by the length instead: it stays between 0 and 1." In three or four
# sentences, say what goes wrong with each, and what the sinusoids do better.

# %% [markdown] explain="explain_waves"
# The plain number grows without limit: at position 300 it is hundreds of times as large as the features of a word, and a
# model that was trained on short sentences has never seen such numbers. Position divided by length stays small, but then
# a step to the next word is 1/5 in one sentence and 1/50 in another, so that "the word before" is something different
# in every sentence, and in long sentences neighbours are almost indistinguishable. It also needs the length, which a
# decoder doesn't know while it writes. The sinusoids stay between -1 and 1, need no length, distinguish near and distant
# positions by fast and slow waves, and an offset is the same rotation everywhere, so that a single matrix can find "the
# word before".
#
# ### BEGIN MARK SCHEME
# - 1 point: the plain number grows without bound (it drowns out the words, or long sentences bring numbers never seen).
# - 1 point: position / length gives a step a different meaning in each sentence (or: needs a length that is unknown).
# - 1 point: sinusoids are bounded, and an offset is the same linear map (rotation) wherever it starts.
# ### END MARK SCHEME

# %% [markdown]
# ## 4. Words as vectors
#
# The **embedding** is a table with one row for each token id, and looking a word up means taking its row. The rows
# start as random numbers and are learned like any other weight. `nn.Embedding(vocab_size, d_model)` is such a table.
#
# The paper multiplies the embeddings by $\sqrt{d_\mathrm{model}}$ (section 3.4), and gives no reason. The likely reason
# is that the vectors of a word and its position should be **of similar length**, because a vector that is many times
# longer drowns out the other. The length of a word vector depends on how the table is initialised, which the paper
# doesn't say. In this course its numbers are drawn from a normal distribution with standard deviation
# $1/\sqrt{d_\mathrm{model}}$, so a row has a length of about 1, and with the factor, about $\sqrt{d_\mathrm{model}}$.
#
# Wouldn't larger initial numbers without a factor be simpler? Yes, but lesson 06 uses the **same table** again to score
# words, by the dot product of their rows with the model's output. With rows of length $\sqrt{512} \approx 22.6$, the
# softmax would be almost certain of one word before the model has learned anything.
#
# ### Worked example: a table of three words
#
# There are four features, so the factor is 2.

# %% tags=["see"]
rows_of_table = {"<pad>": [0.3, -0.2, 0.1, 0.4], "dog": [0.5, -0.5, 0.5, 0.5], "bites": [0.1, 0.7, -0.5, 0.5]}
for token in [1, 2, 1]:  # dog bites dog
    word, row = list(rows_of_table.items())[token]
    print(f"token {token} ({word}): row {row}, times 2: {[2 * number for number in row]}")

# %% [markdown]
# ### Build it
#
# The table is an `nn.Embedding`, stored as `table`. Four details:
#
# - PyTorch initialises it with standard deviation 1, so initialise it again: `nn.init.normal_(tensor, std=...)` fills a
#   tensor with normal numbers, in place.
# - The usual initialisation of matrices (Xavier, also called Glorot) is wrong here: the larger the vocabulary, the
#   smaller the numbers that it draws, although each lookup reads only one row.
# - Multiply the vectors that were looked up. A call must not change the table itself.
# - Padding has a row like any other token, so don't pass `padding_idx`. Masks and the loss take care of padding.

# %% build="TokenEmbedding"
### BEGIN SOLUTION course_lib.transformer.positions:TokenEmbedding

# %% [markdown]
# A scratch cell: your embedding with the table of the worked example.

# %% tags=["see"]
small = TokenEmbedding(3, 4)
with torch.no_grad():
    small.table.weight.copy_(torch.tensor(list(rows_of_table.values())))
    print(small(torch.tensor([[1, 2, 1]])))

# %% [markdown] hints="TokenEmbedding"

# %% check="TokenEmbedding"

# %% [markdown]
# ### See it: how long are words, and how long are positions?
#
# **Change something:** use PyTorch's own initialisation: insert `nn.init.normal_(embedding.table.weight)` after the
# embedding is created.

# %% tags=["see"]
rows = []
torch.manual_seed(0)
for d_model in [16, 32, 64, 128, 256, 512]:
    embedding = TokenEmbedding(1000, d_model)
    tokens = torch.arange(1000)
    vectors = {
        "a word, times the square root": embedding(tokens),
        "a position": sinusoids(1000, d_model),
        "a word, without the factor": embedding.table(tokens),
    }
    rows += [(name, d_model, each.norm(dim=-1).mean().item()) for name, each in vectors.items()]

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="d_model",
    up="length of the vector",
    title="How long are words, and how long are positions?",
)

# %% [markdown]
# With the factor, words are a little longer than positions. Without it, positions are many times longer.
#
# <details><summary>What changes?</summary>
#
# Without the factor, words are now longer than positions: 22.6 and 16 at 512 features. With the factor, their length is
# over 500, and they drown out the positions.
#
# </details>
#
# How much is lost if positions drown out the words? We add a position to a word, compare the sum with the rows of all
# 1,000 words by dot products, and take the word that matches best. We do this with the factor
# $\sqrt{d_\mathrm{model}}$, with a factor of 3 in its place, and without any factor.
#
# **Change something:** try factors other than 3. How large must the factor be to recover nearly all words?

# %% tags=["see"]
torch.manual_seed(0)
embedding = TokenEmbedding(1000, 512)
tokens = torch.randint(1000, (50, 100))
vectors = embedding.table(tokens)
for name, words in [
    ("times the square root", embedding(tokens)),
    ("times 3", 3 * vectors),
    ("no factor", vectors),
]:
    scores = (words + sinusoids(100, 512)) @ embedding.table.weight.T
    found = (scores.argmax(dim=-1) == tokens).float().mean().item()
    print(f"{name}: {found:.0%} of the words are recovered from the sum")

# %% [markdown]
# The position vectors have length 16 here. Word vectors of length 3 are still recovered four times out of five, so the
# two lengths don't have to be equal: multiplying by the square root is a safe choice, not a threshold. Without a
# factor, word vectors have length 1, and the positions drown them out.
#
# <details><summary>What changes?</summary>
#
# A factor of 4 recovers 98% of the words, and a factor of 5 practically all of them. With 2 it is only a third.
#
# </details>
#
# How can you **add** two things and still know both? In 512 dimensions, two unrelated vectors are nearly at right
# angles. What follows from that is the question at the end of the lesson.
#
# ## 5. The sum
#
# The last part adds the first $L$ rows of the table of sinusoids to the word vectors $x$ of every sentence, where $L$
# is the number of words. Dropout is applied to the sum (section 5.4).
#
# ### Worked example: two words at two positions

# %% tags=["see"]
dog_bites = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
for pos, (word, vector) in enumerate(zip(["dog", "bites"], dog_bites.tolist(), strict=True)):
    wave = [round(math.sin(pos), 2), round(math.cos(pos), 2)]
    print(
        f"{word:5} {vector} + position {pos} {wave} = {[round(a + b, 2) for a, b in zip(vector, wave, strict=True)]}"
    )

# %% [markdown]
# ### Build it
#
# The table is computed **once**, in `__init__`, for `max_length` positions. How should you store it?
#
# - An `nn.Parameter` would be trained. The table must not be.
# - A plain tensor would stay behind when someone moves the model to a GPU.
# - A **buffer** belongs to the module, moves with it, and isn't trained:
#   `self.register_buffer("table", ..., persistent=False)`. After that it is `self.table`. `persistent=False` keeps it
#   out of the *state dict*, the numbers that are saved with a model: 5,000 × 512 of them would be ten megabytes in each
#   saved file, and one line of code computes them again.
#
# Two more rules:
#
# - **The result has the dtype of `x`.** A sum of float16 and float32 is float32, so convert the rows to `x.dtype`
#   first.
# - **Reject more than `max_length` words** with a `ValueError` that contains the number of words and `max_length`.
#   Otherwise torch complains about "the size of tensor a". (With a `max_length` of 1, the table would even broadcast
#   silently.)
#
# (The line `table: Tensor` in the class only tells type checkers what `self.table` is.)

# %% build="PositionalEncoding"
### BEGIN SOLUTION course_lib.transformer.positions:PositionalEncoding

# %% [markdown]
# A scratch cell: the worked example. What does your module say if the sentence is longer than `max_length`?

# %% tags=["see"]
print(PositionalEncoding(2, dropout=0.0, max_length=2)(dog_bites.unsqueeze(0)))

# %% [markdown] hints="PositionalEncoding"

# %% check="PositionalEncoding"

# %% [markdown]
# ### See it: the six orders again
#
# The words and the attention are the same as in section 1, but your positions are added first.
#
# **Change something:** ask for "bites". Use another seed in the cell of section 1, and run both cells again. Does the
# number of different outputs change?

# %% tags=["see"]
positions = PositionalEncoding(32, dropout=0.0)
outputs = in_every_order("dog", add_positions=positions)
print("largest distance between two outputs:", distances_in(outputs).max().item())
print("different outputs:", how_many_differ(outputs))

# %% [markdown]
# Now each of the six orders gives a different output for "dog".
#
# <details><summary>What changes?</summary>
#
# There are still six different outputs. In each order, the words are at different positions, so attention mixes
# different vectors. Only the largest distance changes.
#
# </details>
#
# ### See it: learning to attend to the previous position
#
# In lesson 02, every position had its own feature, and we wrote by hand the matrix of a head that attends to the
# previous word. Can a head *learn* such a matrix from sinusoids alone?
#
# The task is to say, for each of ten random letters, which letter came before it. The model is a single head of
# attention and a linear layer on top. It trains for 150 steps, once with your positions and once without.
#
# **Change something:** let it find the letter *two* positions back: `back = 2`. Or the one *after*: `back = -1`. Then
# set it back to 1 and run this cell again, because the sections below are about the previous letter.

# %% tags=["see"]
letters = "abcdefghij"
length = 10
back = 1
threads = torch.get_num_threads()
torch.set_num_threads(1)  # for tensors this small, one core is faster than two


class OneHead(nn.Module):
    def __init__(self, positions: nn.Module) -> None:
        super().__init__()
        self.words, self.positions = TokenEmbedding(len(letters), 32), positions
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.answer = nn.Linear(32, len(letters))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        x = self.positions(self.words(tokens))
        output, weights = scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))
        return self.answer(output), weights


def logits_and_labels(model: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
    # Positions whose letter would be outside the sentence are left out.
    first, last = max(back, 0), tokens.shape[1] + min(back, 0)
    return model(tokens)[0][:, first:last], tokens[:, first - back : last - back]


models, rows = {}, []
for name, added in [("with positions", PositionalEncoding(32, dropout=0.0)), ("without", nn.Identity())]:
    torch.manual_seed(0)
    models[name] = OneHead(added)
    optimizer = torch.optim.Adam(models[name].parameters(), lr=5e-3)
    for step in range(1, 151):
        logits, labels = logits_and_labels(models[name], torch.randint(len(letters), (64, length)))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right = (logits.argmax(dim=-1) == labels).float().mean().item()
        rows.append((name, step, right))
torch.set_num_threads(threads)

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="steps of training",
    up="share of correct answers",
    title="Which letter came before? Learned with positions, and never without",
)

# %% [markdown]
# Without positions the head only knows which letters occur in the sentence, and is right only about three times in ten.
# With positions it is right every time. This is what it attends to:

# %% tags=["see"]
torch.manual_seed(1)
tokens = torch.randint(len(letters), (1, length))
_, weights = models["with positions"](tokens)
spelled = [letters[token] for token in tokens[0].tolist()]
attention_heatmap(weights[0], spelled, spelled, title="What has the head learned to attend to?")

# %% [markdown]
# The previous letter: in every row but the first, the darkest cell is just left of the diagonal. Its neighbours get
# some of the weight, too, because near positions are similar. (The first letter has no letter before it. The head was
# never trained on an answer for it, so its row means nothing.)
#
# <details><summary>What changes?</summary>
#
# Both are learned equally well: after 150 steps, practically all answers are right. In the heat map, the darkest cells
# are now two to the left of the diagonal, or one to the right.
#
# </details>
#
# ### See it: longer than anything it has seen
#
# The authors hoped that sinusoids would also work for sentences longer than those seen during training (end of
# section 3.5). Our head has seen ten letters at a time.
#
# **Change something:** set `length = 20` in the training cell, run that cell, and then run the cell below again. How
# far does the head get now?

# %% tags=["see"]
rows = []
torch.manual_seed(0)
for name, model in models.items():
    for longer in range(5, 41):
        with torch.no_grad():
            logits, labels = logits_and_labels(model, torch.randint(len(letters), (200, longer)))
        rows.append((name, longer, (logits.argmax(dim=-1) == labels).float().mean().item()))

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="letters in the sentence",
    up="share of correct answers",
    title="How long may a sentence be?",
)

# %% [markdown]
# The quality falls quickly. The rotation is the same everywhere, but nothing forced the head to learn *the rotation*:
# it learned something that works for the ten positions that it saw. Others have found the same (Press, Smith and Lewis
# 2022, [arXiv 2108.12409](https://arxiv.org/abs/2108.12409)).
#
# <details><summary>What changes?</summary>
#
# With `length = 20`, the head is right up to about 20 letters. At 40 letters it is right about 70% of the time,
# compared with less than half before. It is still good only at the lengths that it was trained on.
#
# </details>
#
# ### Explain it
#
# A friend says: "You add the position to the word. If I add 3 and 4, I get 7, and nobody knows what I had. So the model
# can't know both." Answer, using what you have seen. And what does the factor $\sqrt{d_\mathrm{model}}$ have to do with
# it?

# %% [markdown] explain="explain_sum"
# A word and a position are not single numbers but vectors of hundreds of numbers. In so many dimensions the vectors of
# words and positions are nearly at right angles, so a projection (a dot product) can read one and barely sees the
# other; the model learns such projections, and it can also move the words to directions in which positions don't
# interfere. We saw it: all words could be recovered from the sum, and a head learned to attend to the position before
# and still return the letter that was there. It works unless one of the two is many times longer. Without the factor, a
# word has length 1 and a position length 16 (at $d_\mathrm{model}$ = 512), and only a few percent of the words were
# recovered; the factor gives the words a length of about 22.6.
#
# ### BEGIN MARK SCHEME
# - 1 point: they are vectors in many dimensions, nearly at right angles (or: in different directions).
# - 1 point: a (learned) projection or dot product can read one and ignore the other; or: in the experiment, words were
#   recovered from the sum.
# - 1 point: the factor makes words about as long as positions; or: without it, positions drown out the words.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>Why 10000?</summary>
#
# The paper gives no reason. The slowest hand should not complete a turn within any expected text; for
# $d_\mathrm{model}$ = 512, a turn takes 60,611 positions. With a larger number, more of the hands would barely move.
#
# </details>
#
# <details><summary>Why both a sine and a cosine of each angle?</summary>
#
# A sine alone takes each value twice per turn: you could not tell whether the hand points up or down. Also, moving by
# an offset rotates the pair of a sine and a cosine; from the sine alone, you can't compute the next sine.
#
# </details>
#
# <details><summary>Wouldn't it be cleaner to append the position as additional features?</summary>
#
# That works too, but it makes the layers above wider. A linear layer on $[\mathit{word}, \mathit{position}]$ computes
# $\mathit{word} \cdot A + \mathit{position} \cdot B$, with a matrix $A$ for the words and a matrix $B$ for the
# positions. On the sum, it computes $(\mathit{word} + \mathit{position}) \cdot A$. With enough dimensions the model can
# learn the same function.
#
# </details>
#
# <details><summary>Could the positions be learned, like the words?</summary>
#
# Yes. The paper tried that, with nearly identical results (table 3, row E). BERT and GPT-2 learn them. But a learned
# table has no trained row for a position that never occurred during training.
#
# </details>
#
# <details><summary>Does padding get positions too?</summary>
#
# Yes, and it does no harm, because no word attends to padding (lesson 04). And padding at the *end* of a sentence
# doesn't change the positions of the words.
#
# </details>
#
# ## Further reading
#
# **Since 2017**, positions have moved from the bottom of the model into the attention:
#
# - Shaw et al. 2018, [Relative Position Representations](https://arxiv.org/abs/1803.02155): a learned vector for each
#   *distance*, used in the scores.
# - Su et al. 2021, [RoPE](https://arxiv.org/abs/2104.09864): each layer *turns* its queries and keys by the angles of
#   their positions. By the rotation of section 3, their dot product then depends on the two positions only through
#   their difference. Most current language models use it.
# - Press et al. 2022, [ALiBi](https://arxiv.org/abs/2108.12409): subtract a multiple of the distance from each score.
#
# ## Where you are
#
# Save the notebook, press **Validate**, and run the next cell.

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# You now have all the parts.
#
# Next: **lesson 06, the Transformer**.
