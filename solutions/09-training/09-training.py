# %% [markdown]
# # Lesson 09: training
#
# The model is there (lessons 01 to 06), the size of each step (lesson 07) and what to aim at (lesson 08). What is left
# is one function that puts them together: it takes a batch and makes **one update**. Call it some hundred times, and a
# network of random numbers has learned something.
#
# The function has about ten lines, and nearly every one of them can be put one place too far up, down or to the right
# without any error. The model then trains, only worse, or something else than you think. That is what this lesson is
# about. And at its end you watch a model learn, from the first guess to the last mistake.
#
# At the end of this lesson you can
#
# - say what happens in one update, in which order, and what goes wrong in any other,
# - cut a batch into pieces that fit into your memory, without changing the update,
# - read a training curve: where it has to begin, how low it can get, and why it ends above that,
# - say why training may show the decoder the right words, and what is different when it has to use its own.
#
# **Time:** about two hours. **In the paper:** sections 3.1, 5, 5.1 and 5.4 of Vaswani et al. 2017, [Attention Is All
# You Need](https://arxiv.org/abs/1706.03762).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    attention_heatmap,
    exercises_through,
    learning_curve,
    live_progress,
    named_lines,
    show_offline,
    token_counts,
)

show_offline()
architecture_map(built=exercises_through(8), current=["train_step"])

# %% [markdown]
# Run the next cell once. The parts of lessons 01 to 08 are there, as the course's own versions. (Your own come at the
# end.)

# %% given="setup"
import math
from collections.abc import Iterable

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils import parameters_to_vector
from torch.nn.utils.rnn import pad_sequence
from torch.optim import SGD, Adam, Optimizer
from torch.optim.lr_scheduler import LRScheduler

from course_lib.checks import check
from course_lib.transformer import (
    LabelSmoothingLoss,
    Transformer,
    TransformerConfig,
    decoder_mask,
    evaluating,
    greedy_decode,
    make_scheduler,
    padding_mask,
    scaled_dot_product_attention,
    shift_target,
    smooth_targets,
)

# %% [markdown]
# ## 1. The task, and a batch
#
# We need something to learn that is small and still needs all parts of the model. The **copy task**: read a sequence of
# letters, write the same sequence. It looks trivial, but the model knows nothing of copying. The only way from the
# source into the decoder is cross-attention, so it has to find out where each letter stands, which one comes next, and
# when to stop.
#
# The vocabulary has 13 words: padding, start, end, and ten letters. Sequences have 5 to 9 letters, drawn at random. A
# batch looks just like one of sentences (in lesson 10 you write `collate`, which makes them): each side is a matrix of
# ids, every row stands between start and end, and the shorter rows are filled up with padding.

# %% tags=["see"]
PAD, START, END = 0, 1, 2
LETTERS = "abcdefghij"
WORDS = 3 + len(LETTERS)


def drawn(count: int, shortest: int = 5, longest: int = 9) -> list[str]:
    """Sequences of random letters."""
    lengths = torch.randint(shortest, longest + 1, (count,)).tolist()
    return ["".join(LETTERS[place] for place in torch.randint(10, (length,)).tolist()) for length in lengths]


def collated(sequences: list[str]) -> tuple[Tensor, Tensor]:
    """A batch of the copy task: the source, and a target that is the same."""
    rows = [torch.tensor([START, *(3 + LETTERS.index(letter) for letter in one), END]) for one in sequences]
    tokens = pad_sequence(rows, batch_first=True, padding_value=PAD)
    return tokens, tokens


torch.manual_seed(0)
few = drawn(3)
print(few)
print(collated(few)[0])

# %% [markdown]
# ### What one update does
#
# | | | from lesson |
# |---|---|---|
# | 1 | **Training mode**, so that dropout acts. Somebody may just have decoded with this model, in evaluation mode. | 03 |
# | 2 | **Clear the old gradients.** PyTorch *adds* each new gradient to what is there. | |
# | 3 | **Shift the target**: what the decoder reads, and the labels. | 04 |
# | 4 | **Masks**: padding of the source; padding and the future of the target. | 04 |
# | 5 | **Forward**: encode, decode, and the generator makes logits. | 06 |
# | 6 | **Loss**, a mean over the real tokens. | 08 |
# | 7 | **Backward**: the gradient of the loss for every weight. | |
# | 8 | **The optimiser's step** moves the weights. | |
# | 9 | **The scheduler's step** sets the rate of the next update. | 07 |
#
# Think of what happens if a line is missing or stands somewhere else. Without 1, nothing fails, and the model trains
# without dropout. Without 2, every update drags all earlier gradients along. With 2 between 7 and 8, no weight ever
# moves. With 9 before 8, every update runs at the rate of the next. Without the shift in 3, the decoder is asked for
# the word that it has just read, the loss falls fast, and the model has learned nothing.
#
# None of these raises an error. A good habit: when a loss looks too good, look for a leak first.

# %% [markdown]
# ## 2. A batch in pieces
#
# The paper's batches hold about 25,000 tokens a side (section 5.1). Most of the memory that training needs is not the
# weights but what the forward pass keeps for the backward pass, and that grows with the batch. If it does not fit, you
# cut the batch into **micro-batches** and run steps 3 to 7 for each. Since PyTorch adds gradients up, after the last
# piece the gradient of the whole batch is there. Then you make *one* update. Only one piece has to fit into memory at a
# time.
#
# ### See it: gradients add up
#
# One weight, and three pieces of a batch, one after the other. The gradient of $3w$ is 3, whatever $w$ is.
#
# **Change something:** clear the gradient inside the loop (`descent.zero_grad()`). What is left of the three pieces?

# %% tags=["see"]
weight = torch.tensor(1.0, requires_grad=True)
descent = SGD([weight], lr=0.1)
for piece in [1, 2, 3]:
    (3 * weight).backward()
    print(
        f"after piece {piece} the gradient is {weight.grad.item():g}, and the weight is still {weight.item():g}"
    )
descent.step()
print(f"after one step of the optimiser the weight is {weight.item():.1f}")

# %% [markdown]
# "Adds up", though, is a sum, and the loss is a *mean*. What has to be added up so that the sum is the mean over the
# whole batch?

# %% predict="predict_batch_loss"
# A batch comes in two micro-batches. The first has 30 real tokens, and their mean loss is 2. The second has
# 10 real tokens, and their mean loss is 4. What is the mean loss over all real tokens of the batch?

# %% check="predict_batch_loss"

# %% [markdown]
# Write it down with symbols. Micro-batch $m$ has $N_m$ real tokens, and token $i$ costs $\ell_i$. The loss of lesson 08
# gives the mean of one micro-batch, $L_m$. With $N$ the number of real tokens in the whole batch,
#
# $$L_m = \frac{1}{N_m} \sum_{i \in m} \ell_i \qquad\qquad L = \frac{1}{N} \sum_i \ell_i = \sum_m \frac{N_m}{N}\, L_m$$
#
# So each mean is weighed by its **share** of the real tokens, $N_m / N$, and the shares sum to one. A gradient is
# linear, so the same shares hold for it:
#
# $$\nabla L = \sum_m \frac{N_m}{N}\, \nabla L_m$$
#
# Two things follow for the code. The share has to be in the loss *before* it is sent back. And $N$ has to be known
# before the first piece is sent back, so the real tokens of all pieces are counted beforehand.
#
# What is a real token here? One that has to be predicted: a **label** that is not padding. The start symbol is in the
# target, but it is no label.
#
# ### Build it
#
# The function gets everything handed in: the model, the loss, the micro-batches, the optimiser and the scheduler. Some
# rules, so that it works with whatever comes:
#
# - A micro-batch is a pair `(source, target)`, as above. They may differ in size.
# - Which id is padding is in `loss.pad_id`, and holds for both sides. Do not rely on 0.
# - Use the model through `encode`, `decode` and `generator`.
# - Hand back the loss of the whole batch as a **plain number**. (A tensor may hold on to the whole graph from which it
#   was made. A list of a thousand of them is a popular way to run out of memory.)

# %% build="train_step"
### BEGIN SOLUTION course_lib.transformer.training:train_step

# %% [markdown] hints="train_step"

# %% check="train_step"

# %% [markdown]
# ### See it: one update, however the batch is cut up
#
# The same batch of 16 sequences in 1, 2 and 4 pieces, with your `train_step`. Short sequences stand at the front, so
# the pieces have different numbers of tokens. Each time the same fresh model makes one update, and we compare all its
# weights with those after the update in one piece.
#
# On the right, what a **mean of means** would do, in which each piece counts the same. (For plain gradient descent that
# is easy to get: let each piece make the update alone, and take the mean of the weights that come out.)
#
# **Change something:** shuffle the sequences instead of sorting them. Is the mean of means closer now? Put in pieces of
# one sequence each.

# %% tags=["see"]
loss = LabelSmoothingLoss(WORDS, PAD, smoothing=0.1)


def updated(pieces: list[tuple[Tensor, Tensor]]) -> tuple[float, Tensor]:
    """The loss that one update of a fresh model hands back, and all weights after it."""
    torch.manual_seed(0)
    fresh = Transformer(WORDS, WORDS, TransformerConfig(layers=1, d_model=16, heads=2, d_ff=32, dropout=0.0))
    descent = SGD(fresh.double().parameters(), lr=1.0)
    value = train_step(fresh, loss, pieces, descent, make_scheduler(descent, d_model=16, warmup=4))
    return value, parameters_to_vector(fresh.parameters()).detach()


torch.manual_seed(1)
batch = sorted(drawn(16, shortest=1, longest=15), key=len)
whole_loss, whole_weights = updated([collated(batch)])
rows = []
for count in [1, 2, 4]:
    size = len(batch) // count
    pieces = [collated(batch[first : first + size]) for first in range(0, len(batch), size)]
    piece_loss, weights = updated(pieces)
    alone = [updated([piece]) for piece in pieces]
    careless_loss = sum(value for value, _ in alone) / count
    careless_weights = torch.stack([after for _, after in alone]).mean(dim=0)
    rows.append(
        {
            "pieces": count,
            "tokens of each": ", ".join(str(int((target[:, 1:] != PAD).sum())) for _, target in pieces),
            "loss": f"{piece_loss:.4f}",
            "weights off by": f"{(weights - whole_weights).abs().max():.0e}",
            "loss, mean of means": f"{careless_loss:.4f}",
            "weights off by, mean of means": f"{(careless_weights - whole_weights).abs().max():.0e}",
        }
    )
pd.DataFrame(rows).set_index("pieces")

# %% [markdown]
# With shares, 1, 2 and 4 pieces give the same loss and the same weights, but for rounding. With the mean of means each
# cut gives another loss and another model, and no run can be repeated on a machine with less memory.
#
# ### See it: how much does a token count?
#
# Why is it another one? Look at single tokens. Below, the batch of eight sequences comes in two pieces. A cell is a
# token to be predicted, and its number says how much it counts, where 1 is the average.
#
# **Change something:** `shortest=7`, so that nearly all have the same length. Four pieces instead of two.

# %% tags=["see"]
torch.manual_seed(3)
batch, count = sorted(drawn(8, shortest=2, longest=7), key=len), 2
size = len(batch) // count
real = collated(batch)[1][:, 1:] != PAD
tokens = real.sum().item()
fair, careless = torch.ones(real.shape), torch.zeros(real.shape)
for first in range(0, len(batch), size):
    careless[first : first + size] = tokens / (count * real[first : first + size].sum())

token_counts(
    {"mean over the tokens": fair, "mean of means": careless},
    real,
    [f"piece {1 + place // size}" for place in range(len(batch))],
)

# %% [markdown]
# ### Explain it
#
# A fellow student divides the loss of each micro-batch by the number of micro-batches, and says: "That is a mean, too.
# And if I shuffle, pieces are about the same size, so who cares?" What is wrong with it? Say which tokens count more
# than others, what it does to a model that is to learn long sentences, and why two runs with the same batches may
# differ.

# %% [markdown] explain="explain_mean"
# The mean of a piece divides by the number of tokens of that piece. If each piece then counts the same, a token in a
# piece with few tokens has more weight than one in a piece with many: with 10 and 30 tokens, three times as much.
# Pieces are often sorted by length to save padding (or limited by memory), so the tokens of short sentences count more,
# all through the training, and long sentences are learned less well than the loss promises: it is not the mean loss of
# a token that is made smaller. Shuffling makes the error smaller on average, but it is still there in each update. And
# the result depends on how the batch was cut: the same batch on a machine with less memory, or on more processors,
# gives another gradient, so runs cannot be compared or repeated. Weighing by the share of real tokens costs one
# division.
#
# ### BEGIN MARK SCHEME
# - 1 point: tokens in pieces with few real tokens count more (with a reason or an example).
# - 1 point: what is minimised is no longer the mean over tokens; short sentences are favoured, long ones neglected.
# - 1 point: the update depends on the cut, so runs with other memory or other numbers of processors differ.
#
# Give the point for a right idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## 3. A model learns
#
# Now let it run. Before you do, two anchors, so that you can read the curve. How high should it begin?

# %% predict="predict_first_loss"
# A model that knows nothing gives each of the 13 words of the vocabulary the same probability. The labels
# are smoothed by 0.1. What is its loss? (In nats. You may calculate: math.log(x) is the natural logarithm.)

# %% check="predict_first_loss"

# %% [markdown]
# A curve that begins much higher says that the model starts out sure of nonsense, or that something is wrong with its
# initial weights. And how low can it get? To the entropy of the smoothed targets (lesson 08), 0.54 here. Both are drawn
# into the picture as dashed lines. (Ours begins a little above the upper one: fresh random weights don't treat all words
# quite alike. After some ten updates it is below. To begin at 10 would be another matter.)
#
# ### See it: learning, live
#
# A small model, two layers on each side and 32 features, with your `train_step` and 400 updates. Each batch holds 48
# new sequences, in two micro-batches. The bar tells how far it is, and the curve grows as it learns.
#
# After 140 updates a copy of the weights is put aside. We need a half-trained model later.
#
# **Change something:** `dropout=0.0`, and see how low the curve gets. A `factor` of 3. Then put a mistake into your
# `train_step` (leave out the clearing, or the causal mask), and watch how a model trains that is wrong *without an
# error*.

# %% tags=["see"]
SIZES = TransformerConfig(layers=2, d_model=32, heads=2, d_ff=64, dropout=0.05)
UPDATES, SEQUENCES = 400, 48
lowest = torch.special.entr(smooth_targets(torch.tensor([START]), WORDS, PAD, smoothing=0.1)).sum().item()
levels = {"all words alike": torch.tensor(WORDS).log().item(), "lowest possible": lowest}
trained_on: set[str] = set()
halfway: dict[str, Tensor] = {}

torch.set_num_threads(1)  # for a model this small, sharing the work takes longer than doing it


def learn_to_copy(step, model, loss, adam, scheduler) -> list[float]:
    """Train a model on new sequences all the time, and show how it goes."""
    losses = []

    def picture():
        return learning_curve(losses, UPDATES, levels=levels, title="A Transformer learns to copy")

    for update in live_progress(UPDATES, picture, every=25):
        sequences = drawn(SEQUENCES)
        trained_on.update(sequences)
        pieces = [collated(sequences[: SEQUENCES // 2]), collated(sequences[SEQUENCES // 2 :])]
        losses.append(step(model, loss, pieces, adam, scheduler))
        if update == 140:
            halfway.update({name: weight.clone() for name, weight in model.state_dict().items()})
    return losses


torch.manual_seed(0)
model = Transformer(WORDS, WORDS, SIZES)
adam = Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
scheduler = make_scheduler(adam, d_model=32, warmup=60, factor=0.4)
losses = learn_to_copy(train_step, model, loss, adam, scheduler)

# %% [markdown]
# The curve has a shape that you will meet again. In the first few updates it drops fast: the model learns which words
# occur at all, and gives the others nothing. Then it takes longer: it has to find out *where to look*, and as long as
# it looks everywhere a bit, each step helps only a little. In the end it knows, and the loss goes down to near its
# floor.
#
# It ends a little above the floor. One reason is dropout: the loss is measured in training mode, with some of the
# network missing. So the loss that a training run shows is not that of the finished model.
#
# ### See it: does it really copy?
#
# A loss is not what we want. We want sequences copied. So now the model has to write by itself, with `greedy_decode` of
# lesson 06: 200 sequences that it has never been trained on, and a copy counts only if *every* letter is right and the
# end is in its place.
#
# **Change something:** sequences of 12 letters (`drawn(300, 12, 12)`). It has never seen any longer than 9. What does
# it do, and at which place does it break?


# %% tags=["see"]
def written(decode, model, sequences: list[str]) -> list[str]:
    """What a model writes when it reads these sequences: the letters up to the end, or all without one."""
    source = collated(sequences)[0]
    ids = decode(model, source, padding_mask(source, PAD), source.shape[1] + 2, START, END).tolist()
    signs = dict(enumerate(("_", "<", ".", *LETTERS)))
    return ["".join(signs[token] for token in row[1:]).partition(".")[0] for row in ids]


torch.manual_seed(2)
unseen = [sequence for sequence in drawn(300) if sequence not in trained_on][:200]
copies = written(greedy_decode, model, unseen)
right = sum(copy == sequence for copy, sequence in zip(copies, unseen, strict=True))
print(f"{right} of {len(unseen)} unseen sequences are copied exactly.\n")
wrong_ones_first = sorted(zip(unseen, copies, strict=True), key=lambda pair: pair[0] == pair[1])
for sequence, copy in wrong_ones_first[:5]:
    print(f"{sequence:<10} -> {copy:<10} {'' if copy == sequence else '<- wrong'}")

# %% [markdown]
# ### See it: how does it do that?
#
# Look inside. The model is built once more with an attention function that writes its weights down (as in lesson 06),
# and gets the trained weights. You see the decoder's cross-attention, both heads of both layers. Each row is a place in
# the target, named by the letter that the model is *to write* there. Each column is a letter of the source. `<` is the
# start, and `.` the end.
#
# **Change something:** a sequence of your own, also one with the same letter many times: `"aaaaaaaa"`. The untrained
# model (leave out `load_state_dict`), or the half-trained one: `twin.load_state_dict(halfway)`.

# %% tags=["see"]
seen = []


def recording(query, key, value, mask=None, dropout=None):
    """Attend as usual, and write the weights down."""
    result, weights = scaled_dot_product_attention(query, key, value, mask, dropout)
    seen.append(weights.detach())
    return result, weights


sequence = "badgejihc"
twin = Transformer(WORDS, WORDS, TransformerConfig(2, 32, 2, 64, 0.05, attention=recording))
twin.load_state_dict(model.state_dict())
tokens, _ = collated([sequence])
with evaluating(twin):
    twin(tokens, padding_mask(tokens, PAD), tokens[:, :-1], decoder_mask(tokens[:, :-1], PAD))

# Each layer of the encoder attends once; then each layer of the decoder to the target, and to the source.
crossing = torch.cat([seen[3][0], seen[5][0]])
attention_heatmap(
    crossing,
    [*sequence, "."],
    ["<", *sequence, "."],
    panels=["layer 1, head 1", "layer 1, head 2", "layer 2, head 1", "layer 2, head 2"],
    title="To write a letter, where does it look?",
)

# %% [markdown]
# A diagonal. To write the third letter it looks at the third letter of the source. To know that it has to stop, it
# looks at the source's end, one head more clearly than the others. Nobody told it to. Nothing in the model moves along
# the source step by step. It has *learned* to ask for the place that comes next, and each place is found by what lesson
# 05 has added to it, a few sines and cosines.
#
# In translation you will see the same picture, only less straight: words change their order between languages.
#
# ## 4. Right words, and own words
#
# In training the decoder reads the target, whatever it would have written itself. This is called **teacher forcing**:
# at each place the teacher tells the right words so far. In decoding nobody does. The model reads its own words,
# mistakes included.
#
# How good does it have to be?

# %% predict="predict_whole"
# A model gets each single word right with a probability of 0.99, if all words before it are right. A sentence
# has 20 words. What is the probability that it writes the whole sentence without a mistake?

# %% check="predict_whole"

# %% [markdown]
# ### See it: one mistake leads to the next
#
# Here is the model after 140 updates, which you put aside. It makes mistakes, and that is what we need. For 500
# sequences of seven letters: how often is the letter at place 1, 2, 3, … wrong? Once with the right letters before it,
# as in training. Once with its own.
#
# **Change something:** the trained model in place of the half-trained one (`model.state_dict()`). An untrained one.

# %% tags=["see"]
half = Transformer(WORDS, WORDS, SIZES)
half.load_state_dict(halfway)
torch.manual_seed(4)
asked = drawn(500, shortest=7, longest=7)
tokens, _ = collated(asked)
reads, labels = tokens[:, :-1], tokens[:, 1:-1]

with evaluating(half):
    logits = half(tokens, padding_mask(tokens, PAD), reads, decoder_mask(reads, PAD))
wrong_forced = logits.argmax(dim=-1)[:, :-1] != labels
own = greedy_decode(half, tokens, padding_mask(tokens, PAD), tokens.shape[1], START, END)
own = torch.nn.functional.pad(own, (0, tokens.shape[1] - own.shape[1]), value=END)
wrong_free = own[:, 1:-1] != labels

rows = []
for name, wrong in {"right letters before": wrong_forced, "own letters before": wrong_free}.items():
    for place, share in enumerate(wrong.double().mean(dim=0).tolist(), start=1):
        rows.append((name, place, share))
    letters, sequences = wrong.double().mean(), wrong.any(dim=1).double().mean()
    print(
        f"{name}: {letters:.1%} of all letters are wrong; {sequences:.1%} of the sequences have a wrong letter"
    )

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="place in the sequence",
    up="share of wrong letters",
    title="Does it matter whose words the model reads?",
)

# %% [markdown]
# Three things to see.
#
# **At the first place both are the same.** Both have read the start symbol and nothing else.
#
# **After that, own words are worse.** Once a letter is wrong, the decoder reads something that never occurred in
# training, and the next letter is more likely to be wrong as well: it loses its place. This gap is called **exposure
# bias**.
#
# **But as many sequences have a mistake in both.** Up to its *first* mistake, the decoder with its own words reads just
# what the teacher would have told it. So teacher forcing tells truthfully how often a sentence comes out all right.
# What it hides is how bad the others are.
#
# ### Explain it
#
# Why do we train with the right words, if decoding has to do without them? Say what makes it allowed, what would be
# lost if the decoder had to read its own words in training, and what is different, for the model, when it decodes.

# %% [markdown] explain="explain_forcing"
# The model is to give the probability of each next word, given the words before it. The probability of a sentence is
# the product of these, each with the *right* beginning, so it is just this that the loss has to measure: it is the
# log-probability of the target. And since the causal mask hides the future, all places can be computed in one run, side
# by side. If the decoder read its own words, one run for each word would be needed, a fresh model would train on
# nonsense beginnings, for which the target's next word is not even the right answer, and no gradient goes through the
# choice of a word. What differs in decoding: beginnings with a mistake in them never occurred in training, so the model
# has not learned how to go on from them, and one mistake makes others more likely. As long as it makes none, it reads
# the same in both.
#
# ### BEGIN MARK SCHEME
# - 1 point: the loss is the (log-)probability of the target, each word given the right words before it; that is what is
#   to be learned.
# - 1 point: what is gained: all places at once (with the causal mask), useful beginnings from the first update on.
# - 1 point: what differs: after a mistake the model reads beginnings that training never showed, so mistakes follow
#   mistakes.
#
# Give the point for a right idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## 5. Your own Transformer learns
#
# In lesson 06 you built a Transformer of your own parts, and it wrote nonsense. Now it learns: the model of lessons 01
# to 06, your schedule, your loss, and the `train_step` that you have just written. They are read from the notebooks
# beside this one, as they were last saved. Where a part is missing or unfinished, the reference's takes its place.
# Nothing here counts for your grade.

# %% tags=["see"]
from course_lib import transformer as reference
from course_lib.student.parts import build_transformer, load_parts, unequal_parts

parts = load_parts("..", through=8)
try:
    updated([collated(drawn(2))])
    step, whose = train_step, "yours, from this notebook"
except NotImplementedError:
    step, whose = reference.train_step, "the reference's, since yours is not written yet"
print(
    f"{len(parts.yours)} of {len(list(parts))} parts of lessons 01 to 08 are yours. train_step is {whose}.\n"
)
print(parts.table())

# %% [markdown]
# Parts that do not compute what the reference computes are named here and left out, so that the training below goes
# through.
#
# **Change something:** is one of yours named? Put `parts` in the place of `sound` in the second cell, and see whether
# the model learns all the same. Many a mistake costs a model some of its quality, and no more.

# %% tags=["see"]
unequal = unequal_parts(parts)
for name, how in unequal.items():
    print(f"{name} makes a difference, and is left out: {how}")
sound = parts.only([name for name in parts.yours if name not in unequal])
print(f"{len(sound.yours)} of your parts are in the model below, in its schedule and in its loss.")

# %% tags=["see"]
torch.manual_seed(0)
own_model = build_transformer(sound, WORDS, WORDS, SIZES)
own_adam = Adam(own_model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
own_scheduler = sound["make_scheduler"](own_adam, 32, 60, 0.4)
own_loss = sound["LabelSmoothingLoss"](WORDS, PAD, 0.1)
own_losses = learn_to_copy(step, own_model, own_loss, own_adam, own_scheduler)

# %% tags=["see"]
unseen = [sequence for sequence in unseen if sequence not in trained_on]
copies = written(sound["greedy_decode"], own_model, unseen)
right = sum(copy == sequence for copy, sequence in zip(copies, unseen, strict=True))
print(
    f"{right} of {len(unseen)} unseen sequences are copied exactly by a model with {len(sound.yours)} parts of yours."
)

# %% [markdown]
# Every number in it is multiplied, masked, normalised, added, shifted and weighed by the code that the table calls
# yours. In the final lab the same parts go to a cluster and learn German: `--parts lessons/`.
#
# ## Common questions
#
# <details><summary>Does dropout not make the update differ between one piece and four?</summary>
#
# Yes: each piece draws other random numbers. What is the same for every cut is the mean that is taken; the pictures
# above have a dropout of 0, so that only that is compared. With dropout the updates are as alike as two draws of it can
# be.
#
# </details>
#
# <details><summary>Is one large batch as good as many small ones?</summary>
#
# It is one update, with less noise in its gradient, for the same work that could have made several updates. Early in
# training many noisy updates get further; late, and with many processors side by side, large batches pay. The paper's
# 25,000 tokens are a compromise, and a schedule that fits one size does not fit another.
#
# </details>
#
# <details><summary>Why are gradients not cleared by PyTorch itself?</summary>
#
# Because adding up is useful, as you have seen. So PyTorch leaves it to you to say when a new sum begins. Many programs
# clear right after the update. That works as long as nobody else touches gradients in between; clearing first, you need
# not trust anybody.
#
# </details>
#
# <details><summary>Should gradients be clipped?</summary>
#
# Many programs scale a gradient down when its norm is above some limit, so that one odd batch does no harm. It would
# stand between the backward pass and the optimiser's step, and on the whole batch's gradient, not on that of each
# piece. The paper does without.
#
# </details>
#
# <details><summary>How do I know when to stop?</summary>
#
# Not by the training loss: it goes on falling while the model begins to learn its sentences by heart. Keep some
# sentences that are never trained on, measure their loss (in evaluation mode, without gradients), and stop when it does
# not get better any more. Here new sequences were drawn all the time, so there was nothing to learn by heart.
#
# </details>
#
# <details><summary>Can exposure bias be cured?</summary>
#
# One can mix own words into training ("scheduled sampling", Bengio et al. 2015, [arXiv
# 1506.03099](https://arxiv.org/abs/1506.03099)), or train on whole sentences that the model wrote, judged by a score.
# For translation with a good model the gain is small: it is right so often that it rarely sees its own mistakes. Most
# systems do without, and beam search (lesson 11) helps, too.
#
# </details>
#
# ## Where you are

# %% tags=["see"]
architecture_map(built=exercises_through(9))

# %% [markdown]
# A model, a schedule, a loss and the step that drives them: that is a complete Transformer in training. Before you hand
# the lesson in, press **Validate** in the toolbar: it runs the notebook from top to bottom, as the grader will.
#
# Next: **lesson 10, data for translation**. Random letters were a fine teacher. Sentences are a better one.
