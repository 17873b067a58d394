# %% [markdown]
# # Lesson 04: masks
#
# Attention lets every word look at every word. There are two kinds of places where a word must *not* look.
#
# The first is **padding**: filler at the end of short sentences, so that a batch is a rectangle. It means nothing, and
# a word that looks at it takes in nothing but noise. The second is **the future**: a model that learns to predict the
# next word must not see the next word. To forget the first costs quality. To forget the second costs everything: the
# model learns to copy, looks brilliant in training, and cannot write a single sentence.
#
# At the end of this lesson you have written all the masks of the Transformer, and you can say
#
# - what a **padding mask** hides, and why it hides columns and leaves the rows alone,
# - what a **causal mask** is for, and why it makes training so fast,
# - what the decoder reads and what it is to predict, and why the two are **one place apart**,
# - how to **find a leak** in any model, without reading its code.
#
# **Time:** about two hours. **In the paper:** sections 3.1 (last paragraph) and 3.2.3 (third point) of
# Vaswani et al. 2017, [Attention Is All You Need](https://arxiv.org/abs/1706.03762).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    attention_heatmap,
    exercises_through,
    leak_probe,
    mask_panels,
    named_lines,
    show_offline,
)

show_offline()
architecture_map(
    built=exercises_through(3), current=["padding_mask", "causal_mask", "decoder_mask", "shift_target"]
)

# %% [markdown]
# The masks stand at the side of the picture, and they go into all three attentions: the encoder's, the decoder's own,
# and the one by which the decoder reads the source sentence.
#
# Run the next cell once. It imports what your code may use, and the parts of lessons 01 to 03.

# %% given="setup"
import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from course_lib.checks import check
from course_lib.transformer import (
    FeedForward,
    MultiHeadAttention,
    SublayerConnection,
    attention_scores,
    attention_weights,
)

# %% [markdown]
# ## 1. The padding mask: filler means nothing
#
# Until now you have worked with vectors. Now you work with **tokens**: whole numbers that stand for words. A
# vocabulary says which number is which word. Three numbers stand for no word at all:
#
# | symbol | here | what it is |
# |---|---|---|
# | `<pad>` | 0 | filler behind a short sentence |
# | `<start>` | 1 | what a sentence begins with |
# | `<end>` | 2 | what a sentence ends with |
#
# A batch is one tensor of tokens, (B, L), with $B$ sentences and $L$ places. Sentences differ in length and a tensor is
# a rectangle, so all are filled up to the longest.

# %% tags=["see"]
vocabulary = "<pad> <start> <end> a dog girl sleeps runs on the red sofa".split()
number = {word: place for place, word in enumerate(vocabulary)}
sentences = ["<start> a dog sleeps on the sofa <end>", "<start> a girl runs <end> <pad> <pad> <pad>"]
words = [sentence.split() for sentence in sentences]
tokens = torch.tensor([[number[word] for word in sentence] for sentence in words])
print(tokens)

# %% [markdown]
# ### See it: what happens without a mask
#
# Here is the second sentence. Its words get random vectors, padding one as well, and attention does what you taught it
# in lesson 01: on the left without a mask, on the right with the mask that you are about to build. An orange cell with
# a "!" is weight that goes to padding.
#
# **Change something:** another sentence (`words[0]`); more padding. How much of its weight does a word lose to padding?

# %% tags=["see"]
torch.manual_seed(3)
vectors = torch.randn(len(vocabulary), 16)
sentence = words[1]
x = vectors[[number[word] for word in sentence]]
is_word = torch.tensor([word != "<pad>" for word in sentence])
scores = attention_scores(x, x) / 2  # halved: softer weights are easier to see

attention_heatmap(
    torch.stack([attention_weights(scores), attention_weights(scores, is_word)]),
    sentence,
    sentence,
    mask=is_word,
    panels=["no mask", "with a mask"],
    title="Without a mask, padding takes weight from the words",
)

# %% [markdown]
# Without a mask the same sentence gives one result by itself, and another in a batch with a long one, where it has
# more padding. With the mask the columns of padding are empty, and the words share the whole weight.
#
# Look at the *rows* of padding. They are still there, in both panels: padding looks at words. That is as it should be,
# and it is the question that readers ask most often. Three reasons:
#
# 1. **Nobody reads what padding makes.** No word looks at it (the columns are hidden), and the loss leaves it out
#    (lesson 08). It does no harm.
# 2. **A row with nothing allowed is trouble.** A softmax over nothing is 0 / 0. Your attention from lesson 01 can cope;
#    many others give NaN, which then spreads through every gradient.
# 3. **It is less to store and to say.** The mask is the same for every query, so one row is enough: (B, 1, L). The axis
#    of length one stands for all queries, by broadcasting.
#
# ### Build it
#
# From tokens and the number of padding to a mask that is `True` where one **may look**. The signature gives the shape:
# `"B 1 L"`, that is sentences, one row for all queries, keys. There is no axis for the heads: your
# `MultiHeadAttention` puts it in.
#
# Compare each token by itself. Then it does not matter where padding stands, or which number it has.

# %% build="padding_mask"
### BEGIN SOLUTION course_lib.transformer.masks:padding_mask

# %% [markdown] hints="padding_mask"

# %% check="padding_mask"

# %% [markdown]
# ### See it: alone and in company
#
# A sentence should mean the same whoever else is in the batch. Take a multi-head attention with random weights, give it
# the short sentence alone, without any padding, then give it the whole batch, without and with your mask, and compare
# what comes out for the five tokens of the sentence.
#
# **Change something:** `tokens[1, :3]` and `[:, :3]` in place of 5. Why is the difference no longer (nearly) zero, even
# with the mask? (What is hidden, and what has been cut off?)

# %% tags=["see"]
torch.manual_seed(0)
attention = MultiHeadAttention(16, 4).eval()
with torch.no_grad():
    x = vectors[tokens]
    alone = vectors[tokens[1, :5]].unsqueeze(0)
    expected = attention(alone, alone, alone)
    for name, mask in {"without mask": None, "with your mask": padding_mask(tokens, 0)}.items():
        found = attention(x, x, x, mask)[1:, :5]
        print(f"{name:15} largest difference {(found - expected).abs().max().item():.7f}")

# %% [markdown]
# ### Explain it
#
# A fellow student has read about padding masks and says: "If padding is to count for nothing, I should hide its query
# rows as well as its key columns." Say what becomes of such a row in the softmax, what good hiding it would do, and
# where padding's outputs are left out instead.

# %% [markdown] explain="explain_columns"
# A row that is hidden altogether has no key left to look at. Its softmax is a sum over nothing: with minus infinity as
# the forbidden score it is 0/0, NaN, and NaN reaches all weights through the gradient; with a very low number it is
# silently a uniform row. Hiding would do no good, because no word reads what a padding query makes: the columns of
# padding are hidden in every attention, so no other output depends on it. Where padding's outputs would count, in the
# loss, they are left out: positions whose label is padding do not enter the mean.
#
# ### BEGIN MARK SCHEME
# - 1 point: a row without any allowed key is 0/0 in the softmax (NaN), or silently uniform, unless it is treated apart.
# - 1 point: nobody looks at padding's outputs, since its key columns are hidden, so its rows do no harm.
# - 1 point: the loss leaves positions of padding out.
#
# Give the point for a right idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## 2. The causal mask: no looking ahead
#
# A decoder writes one word after the other: at each place it has the words so far and predicts the next. To *learn*
# that, it could write each training sentence word by word as well: ten words, ten runs of the model.
#
# The Transformer does it in **one run**. In training the whole right sentence is known. So give it to the decoder all
# at once, and let *every* place predict its next word at the same time: place 0 predicts word 1, place 1 predicts word
# 2, and so on. (This is called *teacher forcing*: each place goes on from the right words, whatever the model would
# have written.) One run gives as many lessons as there are words. It is the reason why Transformers train so fast.
#
# There is one catch. Place 1 is to predict word 2, and word 2 stands right there, at place 2, in the same tensor. So
# attention has to be forbidden to look at later places:
#
# $$\mathrm{mask}_{ij} = \text{True where } j \le i$$
#
# | symbol | what it is |
# |---|---|
# | $i$ | the row: the place of the **query**, which is looking |
# | $j$ | the column: the place of the **key**, which is looked at |
#
# The place itself, $j = i$, is allowed: place $i$ has read word $i$, and what it is to predict is word $i + 1$. (In the
# paper: section 3.2.3, the last of its three points. A model that goes on from its own words is called
# *auto-regressive*.)

# %% predict="predict_pairs"
# A sentence of 6 tokens, none of them padding. In the causal mask, how many of the pairs of query and key
# are allowed?

# %% check="predict_pairs"

# %% [markdown]
# ### Build it
#
# The causal mask depends on nothing but the length, and is the same for all sentences: (1, L, L), where the axis of
# length one stands for the batch. (A plain table, (L, L), broadcasts in the same way. The check takes it, too.)

# %% build="causal_mask"
### BEGIN SOLUTION course_lib.transformer.masks:causal_mask

# %% [markdown] hints="causal_mask"

# %% check="causal_mask"

# %% [markdown]
# ## 3. The decoder's mask: both
#
# The decoder's own attention needs both: no padding, and no future. A pair is allowed where *both* masks allow it. As
# truth values multiply like 0 and 1, this is their **product**.

# %% predict="predict_allowed"
# One sentence of 4 tokens, filled up with one `<pad>` at its end: L is 5. In its decoder mask, 5 by 5, how
# many pairs are allowed? (Count all five rows.)

# %% check="predict_allowed"

# %% [markdown]
# ### Build it
#
# You have both halves. Mind the shapes: (B, 1, L) and (1, L, L) meet, and broadcasting makes (B, L, L) of them, each
# sentence with a mask of its own. Tokens may stand on a graphics card, and `.to(tokens.device)` brings a mask there.

# %% build="decoder_mask"
### BEGIN SOLUTION course_lib.transformer.masks:decoder_mask

# %% [markdown] hints="decoder_mask"

# %% check="decoder_mask"

# %% [markdown]
# ### See it: two masks and their product
#
# Your three masks for the short sentence.
#
# **Change something:** `which = 0`, the sentence without padding. What is the product now? And for the short one:
# `words[1][::-1]`, which puts the padding first. Which rows have nothing left to look at?

# %% tags=["see"]
which = 1
spoken = words[which]
read = torch.tensor([[number[word] for word in spoken]])

mask_panels(
    {
        "padding": padding_mask(read, 0)[0],
        "causal": causal_mask(len(spoken)),
        "padding × causal = decoder": decoder_mask(read, 0)[0],
    },
    spoken,
    title="A pair is allowed where both masks allow it",
)

# %% [markdown]
# With padding at the end, as usual, the causal mask already keeps the *words* from looking at it: padding is in their
# future. Then what is the padding mask for, in the decoder? For one thing, you do not want to depend on where somebody
# else puts the padding. For another, a mask should say what is meant.
#
# Who uses which mask:
#
# | attention | queries | keys | mask |
# |---|---|---|---|
# | in the encoder | source | source | padding of the source |
# | in the decoder, of the words written so far | target | target | padding of the target **and** causal |
# | in the decoder, to the source | target | source | padding of the **source**: the keys decide |
#
# The source may be read whole, from the first word on: nothing in it has to be predicted.
#
# ## 4. What the decoder reads, and what it predicts
#
# One piece is missing. A target sentence comes as
#
# `<start> a girl runs <end>`
#
# Out of it we need two things: what the decoder **reads**, and the **labels**, which it is to predict. Place $i$ reads
# token $i$ and predicts token $i + 1$. So the labels are the target moved by one place. The last token has no successor,
# so it is not read; the first has no predecessor, so it is not predicted. This is what the words "shifted right" under
# the decoder in the paper's figure 1 mean.
#
# Why does the sentence begin with `<start>`? Because when the model writes, something has to be read before there is a
# first word. And why `<end>`? So that it can learn when to stop.
#
# ### Build it
#
# Hand back two tensors: first what is read, then the labels. Padding is a token like any other here; the loss will
# leave it out.

# %% build="shift_target"
### BEGIN SOLUTION course_lib.transformer.masks:shift_target

# %% [markdown] hints="shift_target"

# %% check="shift_target"

# %% [markdown]
# ### See it: one row for each place
#
# What each place reads, what it may look at (by your mask), and what it has to say.
#
# **Change something:** the longer sentence, `which = 0`. Then make the mistake that most beginners make: let the labels
# be what is read (`labels = reads`). What would the model have to learn, and could it fail to?

# %% tags=["see"]
import pandas as pd

which = 1
reads, labels = shift_target(tokens[which : which + 1])
allowed = decoder_mask(reads, 0)[0]
rows = []
for place, (token, label) in enumerate(zip(reads[0].tolist(), labels[0].tolist(), strict=True)):
    seen = " ".join(
        vocabulary[other]
        for other, may in zip(reads[0].tolist(), allowed[place].tolist(), strict=True)
        if may
    )
    rows.append((vocabulary[token], seen, vocabulary[label] if label != 0 else "(left out of the loss)"))
pd.DataFrame(rows, columns=["reads", "may look at", "is to predict"])

# %% [markdown]
# Shift and mask belong together. Each takes the answer out of sight, and either of them alone is not enough:
#
# | | causal mask | no causal mask |
# |---|---|---|
# | **labels shifted** | the answer is one place ahead, and hidden: right | the answer is one place ahead, in plain sight |
# | **labels not shifted** | the answer is what was just read | the answer is what was just read |
#
# ## 5. The leak probe
#
# How do you find out that a model sees the future? Not by its loss: a leak makes the loss *better*. Reading the code
# helps, if you notice the one wrong character. But there is a test that needs no code at all:
#
# > **Change one token. Every output that moves has seen it.**
#
# If an output *before* the changed token moves, it has seen the future. You need neither training nor data: random
# weights will do, since what flows where does not depend on what is learned.
#
# Here are two layers of your parts, with random weights. (There is no source sentence: this is the decoder without its
# middle attention. And so that it can tell one place from another, each place has a learned vector of its own; lesson
# 05 will do this properly.)

# %% tags=["see"]


class SmallDecoder(nn.Module):
    def __init__(self, vocabulary: int, length: int, d_model: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, d_model)
        self.places = nn.Embedding(length, d_model)
        self.attentions = nn.ModuleList(MultiHeadAttention(d_model, 4, dropout=0.0) for _ in range(layers))
        self.networks = nn.ModuleList(FeedForward(d_model, 2 * d_model, dropout=0.0) for _ in range(layers))
        self.frames = nn.ModuleList(SublayerConnection(d_model, dropout=0.0) for _ in range(2 * layers))
        self.generator = nn.Linear(d_model, vocabulary)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for layer, attention in enumerate(self.attentions):
            x = self.frames[2 * layer](x, lambda y, attention=attention: attention(y, y, y, mask))
            x = self.frames[2 * layer + 1](x, self.networks[layer])
        return self.generator(x)


# %% [markdown]
# Now the probe. Four masks, one of them yours. For each: run the sentence, exchange one token for another, run it again,
# and measure how far the output of every place has moved.
#
# - **yours**: the decoder mask;
# - **one place too far**: the triangle with one diagonal too many, `tril(1)` in place of `tril()`;
# - **only padding hidden**: the causal mask was forgotten;
# - **either, not both**: `|` where `&` should stand.
#
# Before you run it: at how many places *before* the change will the second mask show a leak? It looks only one place
# ahead.
#
# **Change something:** change the token at another place (`changed = 2`), or the last word. Make the model
# `layers=1` deep, then `layers=4`: how does the second row answer? Add a mask of your own.

# %% tags=["see"]
changed, exchanged_for = 5, "red"
spoken = words[0]
before = tokens[:1]
after = before.clone()
after[0, changed] = number[exchanged_for]

length = before.shape[1]
candidates = {
    "yours": decoder_mask(before, 0),
    "one place too far": padding_mask(before, 0) & torch.ones(length, length, dtype=torch.bool).tril(1),
    "only padding hidden": padding_mask(before, 0),
    "either, not both": padding_mask(before, 0) | causal_mask(length),
}

torch.manual_seed(0)
model = SmallDecoder(len(vocabulary), length, layers=2).eval()
moved = {}
with torch.no_grad():
    for name, mask in candidates.items():
        moved[name] = (model(after, mask) - model(before, mask)).norm(dim=-1)[0]

leak_probe(moved, spoken, changed)

# %% [markdown]
# Under your mask, everything before the change stays the same *to the last bit*. A weight that is exactly zero lets
# exactly nothing through.
#
# The second row is the instructive one. The mask looks one place too far, but **two** outputs have moved. In the first
# layer the place before the change has seen it. In the second layer the place before *that* has looked at the first one,
# which knows by now. Each layer carries the leak one place further. In a model of six layers, six places.
#
# The last two rows are alike, and that is no accident: where there is no padding, the padding mask allows everything, and
# then "either" means "everything".
#
# ## 6. What a leak does to learning
#
# So a leak is bad in principle. What does it look like in practice? Let us train on something that **cannot be
# learned**: noise. Every token is one of ten, drawn at random. Nobody can predict the next one, and an honest model is
# right one time in ten.

# %% predict="predict_guessed"
# A model with the mask that looks one place too far is trained on such noise, and then tested on NEW noise,
# with the same mask. Which share of the next tokens will it get right? (From 0 to 1. Leave out the last
# place, whose next token is not in what it reads.)

# %% check="predict_guessed"

# %% [markdown]
# ### See it: learning what cannot be learned
#
# Two small models with one layer each, one with your mask and one with the leak, trained on fresh noise in every step.
# Now and then each is tested on new noise, under its own mask. The third line is the leaking model again, the same
# weights, but tested **as it will be used**: when it writes, there is no future to look at.
#
# **Change something:** only ten steps of training. Or replace the leak by `tril(-1)`, which hides too much in place of
# too little: what can such a model still learn, and how would you notice *that* mistake?

# %% tags=["see"]
torch.set_num_threads(1)  # such small tensors are done sooner by one core alone
length, kinds, steps = 12, 10, 160
right_mask = causal_mask(length)
masks = {"yours": right_mask, "leaking": torch.ones(1, length, length, dtype=torch.bool).tril(1)}
noise = torch.Generator().manual_seed(1)
new_noise = torch.randint(kinds, (200, length + 1), generator=noise)


def share_right(model: nn.Module, mask: Tensor) -> float:
    reads, labels = shift_target(new_noise)
    with torch.no_grad():
        right = model(reads, mask).argmax(dim=-1) == labels
    return right[:, :-1].float().mean().item()


rows = []
for name, mask in masks.items():
    torch.manual_seed(0)
    model = SmallDecoder(kinds, length, layers=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps + 1):
        if step % 10 == 0:
            rows.append((f"{name}, as trained", step, share_right(model, mask)))
            if name == "leaking":
                rows.append(("leaking, in use", step, share_right(model, right_mask)))
        reads, labels = shift_target(torch.randint(kinds, (32, length + 1), generator=noise))
        loss = nn.functional.cross_entropy(model(reads, mask).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

table = pd.DataFrame(rows, columns=["line", "x", "y"])
print(table.groupby("line", sort=False)["y"].last().round(3).to_string(header=False))
named_lines(
    table,
    across="steps of training",
    up="share of next tokens that are right",
    title="With a leak even noise is 'learned', and nothing of it is left in use",
    dashed=["leaking, in use"],
)

# %% [markdown]
# The leaking model "predicts" noise: it looks the answer up. In use it is back to guessing. Notice that it was tested
# on *new* noise: a test set does not catch a leak, since the test leaks as well. Two things do:
#
# - the **leak probe**, in a moment and before any training;
# - results that are **too good to be true**. A loss far below everybody else's is no reason to be glad. Train on noise:
#   whatever learns that is looking.
#
# The probe finds leaks of the mask. Labels that nobody has shifted pass it, since there the input itself is the answer;
# noise finds these too.
#
# ### Explain it
#
# Somebody in your group trains a translator. After one hour the loss on the validation set is 0.03, where everybody
# else's is above 1. But when it translates, it writes the same few words again and again. What do you suspect? Why
# did the validation set give no warning? And what do you run to find out for sure?

# %% [markdown] explain="explain_leak"
# The decoder sees the words that it is to predict: the causal mask is missing or reaches too far, or the labels are not
# shifted. In validation the whole right target is given to the decoder, with the same mask as in training, so it can
# look up the answers there as well; a sentence it has never seen makes no difference. When it translates, the words to
# come do not exist, and it has never learned to predict anything. To find out about the mask: the leak probe. Change one
# token of the target and compare the outputs at all places before it; each that moves has seen the future. It does not
# notice labels that are not shifted: for these, compare what the decoder reads with its labels. Training on random
# targets finds both: an honest model cannot get below the loss of guessing.
#
# ### BEGIN MARK SCHEME
# - 1 point: the decoder sees what it is to predict (mask missing or off by one, or labels not shifted).
# - 1 point: validation feeds the right target under the same mask, so it leaks as well; only writing shows it.
# - 1 point: a test that decides what was suspected: for the mask, change a token and see whether earlier outputs move;
#   for the labels, compare them with what is read; for either, train on noise.
#
# Give the point for a right idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>Why not hide the rows of padding as well?</summary>
#
# Because it does no good and can do harm: see the three reasons in section 1. Nobody reads what padding makes, and a
# row without any key is 0 / 0 in a softmax.
#
# </details>
#
# <details><summary>In PyTorch I have seen masks in which True means "leave out". Which is right?</summary>
#
# Both occur, in the same library. `nn.MultiheadAttention` leaves out where its `key_padding_mask` is True;
# `scaled_dot_product_attention` lets take part where its boolean `attn_mask` is True, as this course does. And a mask of
# numbers is *added* to the scores. Read the documentation each time, and run a leak probe afterwards.
#
# </details>
#
# <details><summary>When the model writes, the future does not exist. Is the causal mask needed then?</summary>
#
# For the newest word it makes no difference: nothing comes after it. But the earlier words must be computed as they were
# in training, without the later ones, and so the mask stays. (Lesson 11 computes them only once, and keeps them.)
#
# </details>
#
# <details><summary>Half of the table is masked. Is half of the work wasted?</summary>
#
# With plain matrix products, yes: all scores are computed, and half of them thrown away. Fused kernels know the causal
# mask as a flag (`is_causal=True`) and leave out whole blocks above the diagonal. That is one reason for the final lab to
# use one.
#
# </details>
#
# <details><summary>Why does the encoder need no causal mask?</summary>
#
# It predicts nothing. The source sentence is there from the start, and to understand a word it helps to know what comes
# after it.
#
# </details>
#
# <details><summary>Is a leak not also possible through layer normalisation or dropout?</summary>
#
# Through a normalisation over the *words* of a sentence, or over a batch: yes. Yours works on each word alone
# (lesson 03), and so nothing can leak there. The leak probe would show it, whichever way it takes.
#
# </details>
#
# <details><summary>Is teacher forcing not cheating?</summary>
#
# The model goes on from right words in training and from its own words in use, where one mistake may lead to the next.
# This gap is real, and has a name: exposure bias. In practice it does little harm to translation, and what it gives, all
# places trained in one run, is worth far more.
#
# </details>
#
# ## Where you are

# %% tags=["see"]
architecture_map(built=exercises_through(4))

# %% [markdown]
# All masks are filled in. Before you hand the lesson in, press **Validate** in the toolbar: it runs the notebook from
# top to bottom, as the grader will.
#
# Next: **lesson 05, positional encoding**. Attention does not know the order of words. You will tell it.
