# %% [markdown]
# # Lesson 05: words and their places
#
# "Dog bites man" and "man bites dog" are the same to attention: lesson 01 ended with that. A mean does not care in which
# order you add things up, and nothing that you have built since then cares either. So the model has to be *told* where
# each word stands.
#
# The paper does it in a surprising way. It makes a vector for each place, out of sines and cosines, and simply **adds**
# it to the vector of the word that stands there. In this lesson you make both vectors, and the sum.
#
# At the end of it you can say
#
# - why a Transformer without positions is blind to the order of words,
# - what the sinusoids are, and how to read them like the hands of a clock,
# - why a step of three places is the *same rotation* everywhere in a sentence, and what that is good for,
# - why the words are multiplied by the root of $d_\mathrm{model}$ before places are added.
#
# **Time:** about two hours. **In the paper:** sections 3.4, 3.5 and 5.4, and row (E) of table 3, of
# Vaswani et al. 2017, [Attention Is All You Need](https://arxiv.org/abs/1706.03762).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    attention_heatmap,
    clock_hands,
    exercises_through,
    named_lines,
    number_field,
    position_waves,
    show_offline,
)

show_offline()
architecture_map(
    built=exercises_through(4),
    current=["sinusoids", "TokenEmbedding", "PositionalEncoding"],
)

# %% [markdown]
# Today's parts stand at the very bottom, under both stacks: they are where a sentence comes in.
#
# Run the next cell once. It imports what your code may use, and from lessons 01 and 02 the attention.

# %% given="setup"
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.checks import check
from course_lib.transformer import MultiHeadAttention, scaled_dot_product_attention

# %% [markdown]
# ## 1. Without places, a sentence is a bag of words
#
# In self-attention, a word makes its query from its own vector, compares it with the keys of all words, and takes the
# mean of their values. Now let the words change places, and ask what becomes of one of them.

# %% predict="predict_orders"
# The three words "dog", "bites" and "man" can be put in six orders. Each order goes through one layer of
# multi-head self-attention (no mask, no dropout). Look at the vector that comes out for the word "dog".
# How many different vectors do you get from the six orders?

# %% check="predict_orders"

# %% [markdown]
# ### See it: six orders of three words
#
# **Change something:** take the vector of another word. Take more words: does it get better?

# %% tags=["see"]
from collections.abc import Callable
from itertools import permutations

torch.manual_seed(0)
sentence = ["dog", "bites", "man"]
vector_of = dict(zip(sentence, torch.randn(len(sentence), 32), strict=True))
attention = MultiHeadAttention(32, heads=4).eval()


def in_every_order(word: str, place: Callable[[Tensor], Tensor]) -> Tensor:
    outputs = []
    for order in permutations(sentence):
        x = place(torch.stack([vector_of[other] for other in order]).unsqueeze(0))
        outputs.append(attention(x, x, x)[0, order.index(word)])
    return torch.stack(outputs).detach()


def how_many_differ(outputs: Tensor) -> int:
    distances = distances_in(outputs)
    return sum(bool((distances[number, :number] > 1e-4).all()) for number in range(len(outputs)))


def distances_in(outputs: Tensor) -> Tensor:
    # The shortcut that cdist takes for many vectors rounds more.
    return torch.cdist(outputs, outputs, compute_mode="donot_use_mm_for_euclid_dist")


outputs = in_every_order("dog", place=lambda x: x)
print("largest distance between two outputs:", distances_in(outputs).max().item())
print("different outputs:", how_many_differ(outputs))

# %% [markdown]
# One, but for rounding. The dog does not know whether it bites or is bitten.
#
# The rest of the model does not help: normalisation and the feed-forward network work on each word alone. (The
# decoder's causal mask does tell words apart by how many they may see. The encoder has nothing of the kind.)
#
# ## 2. A pattern for every place
#
# What should the vector of a place be like? Let us write wishes down.
#
# - **Every place has its own vector**, or two places could not be told apart.
# - **No number gets large**, however long the sentence, or the places would drown the words.
# - **One step on means the same everywhere.** From place 3 to 4 should be the same change as from place 103 to 104,
#   because "the word before" means the same everywhere.
# - **It works for any length**, without asking how long the sentence is.
#
# You know something that fulfils all four: **a clock**. One hand alone comes round again soon, so it can't tell noon
# from midnight. But take several hands, each slower than the one before, and every moment has its own picture. No hand
# ever leaves its circle. And ten minutes are the same turn of each hand, at any time of the day.
#
# A hand on a circle is two numbers: how far right its tip is, and how far up. For an angle (clockwise from twelve) these
# are its **sine** and its **cosine**. So with $d_\mathrm{model}$ numbers you can have half as many hands, and that is
# the paper's encoding (section 3.5):
#
# $$PE_{(pos,\,2i)} = \sin\!\left(\frac{pos}{10000^{2i/d_\mathrm{model}}}\right) \qquad
# PE_{(pos,\,2i+1)} = \cos\!\left(\frac{pos}{10000^{2i/d_\mathrm{model}}}\right)$$
#
# | symbol | in code | what it is |
# |---|---|---|
# | $pos$ | a row of the table | the position: 0 for the first word, then 1, 2, and so on |
# | $d_\mathrm{model}$ | `d_model` | how many numbers the vector of a word has, and so that of a place |
# | $i$ | | which pair of columns, which hand: 0, 1, 2, up to $d_\mathrm{model}/2 - 1$ |
# | $2i$ and $2i+1$ | columns of the table | the sine and the cosine of hand $i$ |
# | $1 / 10000^{2i/d_\mathrm{model}}$ | | the **frequency**: by how much (in radians) the hand turns from one position to the next |
#
# The exponent runs from 0 to almost 1. So hand 0 turns by 1 radian a position, and the last one, where there are 512
# features, by little more than a ten-thousandth of that.

# %% predict="predict_wave"
# d_model is 8. Column 4 is a wave along the positions. How many positions long is one full wave?
# (You may calculate in the cell: math.pi is there.)

# %% check="predict_wave"

# %% [markdown]
# ### Build it
#
# One function makes the table: a row for each position, a column for each feature. Some details:
#
# - **Sine and cosine take turns**: sine, cosine, sine, cosine. (Some code puts all sines first and all cosines after
#   them. A model can learn with either, but weights trained for one are worthless in the other.)
# - **Odd `d_model`.** There is one sine more than there are cosines: the table ends on a sine. Much published code
#   crashes here. Yours does not.
# - **The result is float32.** For the angles it is wise to count in float64: at position 4,999 a float32 has only
#   three or four digits left behind the point, and the sine is off by as much as 0.0004.
#
# A loop over positions and columns would be right, but slow. Try to make all angles at once: a column of positions
# divided by a row of powers.

# %% build="sinusoids"
### BEGIN SOLUTION course_lib.transformer.positions:sinusoids

# %% [markdown] hints="sinusoids"

# %% check="sinusoids"

# %% [markdown]
# ### See it: the sinusoids as waves
#
# Your table for 60 positions and 64 features. Each row of the picture is one pair of columns: the even one (sine) as a
# line, the odd one (cosine) as a dashed line.
#
# **Change something:** other pairs, between 0 and 31. Make the table 16 wide, `sinusoids(60, 16)`, and draw pairs 0 to 7:
# which wave is as before, and how fast do the others slow down now?

# %% tags=["see"]
table = sinusoids(60, 64)
position_waves(table, pairs=[0, 2, 4, 8, 16])

# %% [markdown]
# The fast waves on top tell neighbours apart, but come round again every few words. The slow ones at the bottom hardly
# move from one word to the next, but tell the beginning of a text from its end. Together they are like the digits of a
# number: the last digit changes at each step, the first hardly ever.
#
# ### See it: the sinusoids as a heat map
#
# The same table as it is, with all its columns. Read it row by row: a row is the pattern that is added to the word at
# that position.
#
# **Change something:** 2,000 positions, of which you show every fortieth: `sinusoids(2000, 64)[::40]`. Where is
# the border now between what moves and what stands still?

# %% tags=["see"]
number_field(table, rows="position", columns="column", title="Each row is the pattern of one position")

# %% [markdown]
# On the right hardly anything happens: within 60 positions these hands do not move. Is that a waste? For short
# sentences, yes. The paper does not say why it is 10000. With so large a number there is room for texts much longer than
# sentences.
#
# ## 3. What the pattern is good for
#
# ### See it: an offset is a rotation
#
# Now the third wish, the important one. Here are the first hands of your clock at two positions, three places apart.
# Move the slider: the hands run round. Look at the **angle between them**, the arc.
#
# **Change something:** the offset. Which offset nearly brings the first hand back to where it was?

# %% tags=["see"]
clock_hands(sinusoids(40, 16), pairs=[0, 1, 2, 3], offset=3, start=2)

# %% [markdown]
# The angle stays, wherever you start. It depends on the offset alone, and on which hand it is. In formulas, for an offset
# of $k$ places and a hand of frequency $\omega$:
#
# $$\begin{pmatrix} \sin((pos + k)\,\omega) \\ \cos((pos + k)\,\omega) \end{pmatrix} =
# \begin{pmatrix} \cos(k\omega) & \sin(k\omega) \\ -\sin(k\omega) & \cos(k\omega) \end{pmatrix}
# \begin{pmatrix} \sin(pos\,\omega) \\ \cos(pos\,\omega) \end{pmatrix}$$
#
# The matrix in the middle turns the hand by the angle $k\omega$. **There is no $pos$ in it.** So *one* matrix, the same
# for all positions, leads from each place to the place $k$ further on. This is why the authors chose sinusoids: they
# guessed that a model could easily learn to look "three words back", since a projection is just such a matrix.
#
# Don't take it on trust. Here is that matrix for all hands at once, and what it makes of every row of your table:

# %% tags=["see"]
offset, d_model = 3, 16
places = sinusoids(100, d_model).double()

turn = torch.zeros(d_model, d_model, dtype=torch.float64)
for even in range(0, d_model, 2):
    angle = offset / 10000 ** (even / d_model)
    turn[even, even], turn[even, even + 1] = math.cos(angle), math.sin(angle)
    turn[even + 1, even], turn[even + 1, even + 1] = -math.sin(angle), math.cos(angle)

predicted = places[:-offset] @ turn.T
print("largest error, over all 97 pairs of positions:", (predicted - places[offset:]).abs().max().item())

# %% [markdown]
# ### How long is the vector of a place?
#
# Attention compares vectors by dot products, so it matters how long they are: the length of a vector is the root of its
# dot product with itself, the root of the sum of its squares.

# %% predict="predict_length"
# d_model is 512, as in the paper. How long is the vector of a position (the root of the sum of the
# squares of its 512 numbers)?

# %% check="predict_length"

# %% [markdown]
# Did you have to know which position? No: all places are equally long. So what can their dot products tell? For one
# hand with frequency $\omega$, and two positions $p$ and $q$:
#
# $$\sin(p\omega)\sin(q\omega) + \cos(p\omega)\cos(q\omega) = \cos\bigl((p - q)\,\omega\bigr)$$
#
# Again only the **distance** is left.
#
# ### See it: the dot product of two places
#
# Every position with every other. If only the distance counts, each diagonal must have a single colour.
#
# **Change something:** fewer features, `sinusoids(64, 16)`. Can you still see who is near whom?

# %% tags=["see"]
places = sinusoids(64, 64)
number_field(
    places @ places.T,
    rows="position",
    columns="position",
    value="dot product",
    title="How alike are two positions?",
)

# %% [markdown]
# The same as lines: the dot product against the distance, for three widths, as a share of what it is at distance 0.
#
# **Change something:** distances up to 1,000. Does a far place ever look like a near one?

# %% tags=["see"]
import pandas as pd

rows = []
for d_model in [16, 64, 512]:
    places = sinusoids(101, d_model)
    products = places @ places[0]
    rows += [
        (f"d_model = {d_model}", distance, share)
        for distance, share in enumerate((products / products[0]).tolist())
    ]

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="distance between two positions",
    up="dot product, as a share",
    title="Near places look alike, far ones less; with few features it ripples",
)

# %% [markdown]
# Neighbours are much alike, and with the distance it falls: with 512 features at every step up to distance 43, with 16
# features only up to 3. So the bare dot product of two places says already how *near* they are. But it can't tell "three
# before" from "three behind": the cosine is the same for both. For that it needs projections, which turn
# query and key differently. You will watch one being learned below.
#
# ### Explain it
#
# Two fellow students find all this too complicated. One says: "Give each word one more feature, and write its position
# into it: 0, 1, 2, and so on." The other: "Better write position divided by length, so that it stays between 0 and 1."
# Say what goes wrong with each, and what the sinusoids do better. Three or four sentences.

# %% [markdown] explain="explain_waves"
# The plain number grows without end: at position 300 it is hundreds of times as large as the features of a word, and a
# model that was trained on short sentences has never seen such numbers. Position divided by length stays small, but
# a step to the next word is then 1/5 in one sentence and 1/50 in another, so that "the word before" looks different in
# every sentence, and in long sentences neighbours can hardly be told apart. It also needs the length, which a decoder does
# not know while it writes. The sinusoids stay between -1 and 1, need no length, tell near and far places apart by fast and
# slow waves, and an offset is the same rotation everywhere, so that a single matrix can find "the word before".
#
# ### BEGIN MARK SCHEME
# - 1 point: the plain number grows without bound (it drowns the words, or long sentences bring numbers never seen).
# - 1 point: position / length makes a step mean something else in each sentence (or: needs a length that is not known).
# - 1 point: sinusoids are bounded **and** an offset is the same linear map (rotation) wherever it starts.
#
# Give the point for a right idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## 4. Words as vectors
#
# So far words came as vectors from somewhere. Now it is time to make them. A tokenizer (lesson 10) gives each word of the
# vocabulary a number, its **token**. The **embedding** is a table with one row for each token, and looking a word up
# means taking its row. At the start the rows are random. They are learned like any other weight: the gradient reaches
# the rows of those words that occur.
#
# `nn.Embedding(vocab_size, d_model)` is such a table. What remains to be done stands in one short sentence of section
# 3.4: *in the embedding layers, we multiply those weights by* $\sqrt{d_\mathrm{model}}$. Why?
#
# Because of what comes next. You know how long the vector of a place is. It will be added to the vector of a word, so
# the two should be **about equally long**, or one drowns the other. And how long the vector of a word is depends on how
# the table starts. The paper does not say. In this course its numbers start normal with standard deviation
# $1/\sqrt{d_\mathrm{model}}$, so a row is about 1 long, and the factor makes that $\sqrt{d_\mathrm{model}}$.
#
# Would it not be simpler to start with larger numbers, and leave out the factor? Lesson 06 uses the **same table** once
# more, at the other end of the model: the score of each word is the dot product of its row with what the model has in
# mind. There, rows of length 1 are what one wants: with rows of length 22 the scores would be so large that the softmax is
# sure of itself before it has learned anything. Small rows, enlarged where a sentence comes in, serve both ends.
#
# ### Build it
#
# The table is an `nn.Embedding`, kept under the name `table`. `nn.init.normal_(tensor, std=...)` fills a tensor with
# normal numbers, in place. Three things to mind:
#
# - PyTorch's own start has standard deviation 1, so give it the other one.
# - The start that is usual for matrices (Xavier, also called Glorot) is wrong here: it gets smaller with the size of the
#   vocabulary, as if all words came in at once.
# - The factor falls on what was looked up. The table itself is not changed by a call.

# %% build="TokenEmbedding"
### BEGIN SOLUTION course_lib.transformer.positions:TokenEmbedding

# %% [markdown] hints="TokenEmbedding"

# %% check="TokenEmbedding"

# %% [markdown]
# ### See it: how long are words, and how long are places?
#
# **Change something:** PyTorch's own start, `nn.init.normal_(embedding.table.weight)`, in a line of its own after the
# embedding is made.

# %% tags=["see"]
rows = []
torch.manual_seed(0)
for d_model in [16, 32, 64, 128, 256, 512]:
    embedding = TokenEmbedding(1000, d_model)
    tokens = torch.arange(1000)
    vectors = {
        "a word, times the root": embedding(tokens),
        "a place": sinusoids(1000, d_model),
        "a word, without the factor": embedding.table(tokens),
    }
    rows += [(name, d_model, each.norm(dim=-1).mean().item()) for name, each in vectors.items()]

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="d_model",
    up="length of the vector",
    title="With the factor, words are a little longer than places; without it they drown",
)

# %% [markdown]
# How bad is drowning? Let us try to hear the word. We add the place to the word, compare the sum with the rows of all 1,000
# words by dot products, and take the word that fits best.
#
# **Change something:** a factor of 3, or of 8, in place of the root.

# %% tags=["see"]
torch.manual_seed(0)
embedding = TokenEmbedding(1000, 512)
tokens = torch.randint(1000, (50, 100))
for name, words in [("with the root", embedding(tokens)), ("without it", embedding.table(tokens))]:
    scores = (words + sinusoids(100, 512)) @ embedding.table.weight.T
    found = (scores.argmax(dim=-1) == tokens).float().mean().item()
    print(f"{name}: {found:.0%} of the words are found again in the sum")

# %% [markdown]
# That also answers a question which you may have had all along: how can one **add** two things and still know both? In
# 512 dimensions there is room. Two vectors that know nothing of each other are nearly at right angles, so a projection
# can look at one and hardly see the other, as long as neither is much louder.
#
# ## 5. The sum
#
# The last part puts it together: $x$ comes in, the vectors of the words. The first $L$ rows of the table are added, the
# same in every sentence of the batch, and dropout falls on the sum (section 5.4).
#
# The table is made **once**, in `__init__`, for `max_length` positions. How do you keep it?
#
# - As an `nn.Parameter` it would be trained. It is not to be.
# - As a plain tensor it would stay behind when somebody moves the model to a GPU.
# - As a **buffer** it belongs to the module, goes along, and is not trained:
#   `self.register_buffer("table", ..., persistent=False)`, and after that it is there as `self.table`.
#   `persistent=False` keeps it out of the state dict: why save 5,000 x 512 numbers, ten megabytes, in each checkpoint, when
#   a line of code makes them again? And a saved table fixes `max_length` for ever.
#
# ### Build it
#
# Two rules besides:
#
# - **The result has the dtype of `x`.** A sum of float16 and float32 comes out in float32, so bring the rows to
#   `x.dtype` first. (In this course that holds for every part: dtypes are the caller's choice.)
# - **More than `max_length` words** are refused with a ValueError that says both numbers. Without it torch complains
#   about "the size of tensor a", from which nobody learns what is wrong. (And a table of a single row would not complain
#   at all. It would broadcast.)
#
# (The line `table: Tensor` in the class only tells type checkers what `self.table` is.)

# %% build="PositionalEncoding"
### BEGIN SOLUTION course_lib.transformer.positions:PositionalEncoding

# %% [markdown] hints="PositionalEncoding"

# %% check="PositionalEncoding"

# %% [markdown]
# ### See it: the six orders again
#
# The same three words, the same attention as at the start. This time your positions are added first.
#
# **Change something:** ask for "bites". Why do you not have to fear that the answer depends on the seed?

# %% tags=["see"]
positions = PositionalEncoding(32, dropout=0.0)
outputs = in_every_order("dog", place=positions)
print("largest distance between two outputs:", distances_in(outputs).max().item())
print("different outputs:", how_many_differ(outputs))

# %% [markdown]
# Six orders, six different dogs.
#
# ### See it: learning to look one place back
#
# In lesson 02 you saw a head that looks at the previous word. We had to write its matrix by hand, with a feature for each
# place. Can a head *learn* it, from nothing but sinusoids?
#
# The task: sentences of ten letters, drawn at random. For each letter say which one came before it. The model is a single
# head of attention and a linear layer on top. It trains for 150 steps, once with your positions and once without.
#
# **Change something:** let it find the letter *two* places back: `back = 2`. Or the one that comes *after*: `back = -1`.
# (Then the edge of the sentence is on the other side.)

# %% tags=["see"]
letters, length, back = "abcdefghij", 10, 1
torch.set_num_threads(1)  # such small tensors are done sooner by one core alone


class OneHead(nn.Module):
    def __init__(self, place: nn.Module) -> None:
        super().__init__()
        self.words, self.place = TokenEmbedding(len(letters), 32), place
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.answer = nn.Linear(32, len(letters))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        x = self.place(self.words(tokens))
        output, weights = scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))
        return self.answer(output), weights


def asked_and_wanted(model: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
    # Places whose letter would lie outside the sentence are left out.
    first, last = max(back, 0), tokens.shape[1] + min(back, 0)
    return model(tokens)[0][:, first:last], tokens[:, first - back : last - back]


models, rows = {}, []
for name, place in [("with positions", PositionalEncoding(32, dropout=0.0)), ("without", nn.Identity())]:
    torch.manual_seed(0)
    models[name] = OneHead(place)
    optimizer = torch.optim.Adam(models[name].parameters(), lr=5e-3)
    for step in range(1, 151):
        answers, wanted = asked_and_wanted(models[name], torch.randint(len(letters), (64, length)))
        loss = nn.functional.cross_entropy(answers.flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right = (answers.argmax(dim=-1) == wanted).float().mean().item()
        rows.append((name, step, right))

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="steps of training",
    up="share of right answers",
    title="Which letter came before? With positions it is soon learned, without them never",
)

# %% [markdown]
# Without positions the head can only see which letters occur in the sentence, and guess among them: that is the
# level below a third. With them it is right every time. Here is where it looks:

# %% tags=["see"]
torch.manual_seed(1)
tokens = torch.randint(len(letters), (1, length))
_, weights = models["with positions"](tokens)
spelled = [letters[token] for token in tokens[0].tolist()]
attention_heatmap(weights[0], spelled, spelled, title="The head has learned to look one place back")

# %% [markdown]
# In every row but the first, the darkest cell stands just left of the diagonal. Its neighbours get a little too: near
# places look alike. (The first letter has nobody before it. It was never asked, so its row means nothing.)
#
# ### See it: longer than anything it has seen
#
# The authors hoped that sinusoids would also let a model deal with sentences longer than those it was trained on (end of
# section 3.5). Ours has seen ten letters at a time. Let us try more.
#
# **Change something:** train it with `length = 20` in the cell that trains. How far does it get then?

# %% tags=["see"]
rows = []
torch.manual_seed(0)
for name, model in models.items():
    for longer in range(5, 41):
        with torch.no_grad():
            answers, wanted = asked_and_wanted(model, torch.randint(len(letters), (200, longer)))
        rows.append((name, longer, (answers.argmax(dim=-1) == wanted).float().mean().item()))

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="letters in the sentence",
    up="share of right answers",
    title="Trained on ten letters, it gets worse and worse on longer sentences",
)

# %% [markdown]
# It goes down, and fast. The sinusoids themselves go on for ever, and the rotation is still the same. But nothing has forced
# the head to learn *the rotation*: it learned something that works for the ten places which it saw. That sinusoids reach
# further than what was trained was a hope of the paper, and others found as little of it as you (Press, Smith and Lewis
# 2022, [arXiv 2108.12409](https://arxiv.org/abs/2108.12409)). Remember that when a translator meets its first very long
# sentence.
#
# ### Explain it
#
# A friend looks at your `PositionalEncoding` and says: "You add the place to the word. If I add 3 and 4, I get 7, and
# nobody knows any more what I had. So the model cannot know word and place." Answer, with what you have seen. And what
# has the root of $d_\mathrm{model}$ to do with it?

# %% [markdown] explain="explain_sum"
# A word and a place are not single numbers but vectors of hundreds of numbers. In so many dimensions the vectors of words
# and places are nearly at right angles to each other, so a projection (a dot product) can pick out the one and hardly
# sees the other; the model learns such projections, and it can also move the words to directions in which places do
# not get in their way. We saw it: compared with the table, all words could be found again in the sum, and a head learned to
# look at the place before and still hand over the letter that stood there. It works as long as both are about equally long.
# Without the factor a word is 1 long and a place 16 (at $d_\mathrm{model}$ = 512), and only a few percent of the words were
# found again; the root brings the words to about 22.6.
#
# ### BEGIN MARK SCHEME
# - 1 point: they are vectors in many dimensions, nearly at right angles (or: in different directions).
# - 1 point: a (learned) projection or dot product can read the one and ignore the other; or names the experiment.
# - 1 point: the factor makes words about as long as places; without it, places drown the words.
#
# Give the point for a right idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>Why 10000?</summary>
#
# The paper gives no reason. It has to be large enough that the slowest hand does not come round within any text that one
# expects: at $d_\mathrm{model}$ = 512 it takes 60,611 positions. Larger, and more of the hands would stand still.
#
# </details>
#
# <details><summary>Why both a sine and a cosine of each angle?</summary>
#
# A sine alone has the same value twice in each turn: you could not tell whether the hand goes up or down. With both you
# know the angle. And only with both is an offset a rotation: from the sine alone you can't compute the next sine.
#
# </details>
#
# <details><summary>Would it not be cleaner to put the place beside the word, as additional features?</summary>
#
# It works too. But a linear layer on top of $[word, place]$ computes $word \cdot A + place \cdot B$, and on top of the
# sum it computes $(word + place) \cdot A$. With enough dimensions the model can arrange for the second to do what the
# first does, and the sum costs no additional width in any of the layers above.
#
# </details>
#
# <details><summary>Could the positions be learned, like the words?</summary>
#
# Yes. The paper tried that, with nearly identical results (table 3, row E). Models such as BERT and GPT-2 learn
# them. But a learned table has no row for a place that never occurred in training, and sinusoids exist for every
# place.
#
# </details>
#
# <details><summary>Where in the model is this used?</summary>
#
# Once at the bottom of the encoder and once at the bottom of the decoder. After that, places travel upwards with the
# words, in the residual stream of lesson 03. There is nothing to train in it, so both sides can use the same module.
#
# </details>
#
# <details><summary>Does padding get positions too?</summary>
#
# Yes, and it does no harm: nobody may look at padding (lesson 04), so nobody sees where it stands. Padding at the *end* of
# a sentence also does not move the real words.
#
# </details>
#
# <details><summary>I have read of rotary embeddings (RoPE). Is that the same?</summary>
#
# It is the idea of section 3 taken further (Su et al. 2021, [arXiv 2104.09864](https://arxiv.org/abs/2104.09864)). In place
# of *adding* a pattern to the words at the bottom, each layer *turns* its queries and keys by the angles of their places.
# The dot product of a query and a key then depends on their distance only, by construction. Most large language models
# of today do it so.
#
# </details>
#
# ## Where you are

# %% tags=["see"]
architecture_map(built=exercises_through(5))

# %% [markdown]
# Sentences can come in. You have attention with its heads, what stands around it, the masks, and now words and their
# places: all the parts there are. Before you hand the lesson in, press **Validate** in the toolbar: it runs the
# notebook from top to bottom, as the grader will.
#
# Next: **lesson 06, the Transformer**. You put it all together.
