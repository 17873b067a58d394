# %% [markdown]
# # Lesson 09: training
#
# You have the model (lessons 01 to 06), the learning rate (lesson 07) and the loss (lesson 08). What is missing is
# the function that combines them into **one update**. Call it a few hundred times, and a network of random numbers
# has learned something.
#
# The function has fewer than twenty lines, and nearly every one can be misplaced, by a line or by one level of
# indentation, without any error. The model then trains worse, or learns something unintended.
#
# By the end you will be able to
#
# - implement one update, and say what goes wrong if its steps are in a different order,
# - split a batch into pieces that fit into memory without changing the update (**gradient accumulation**),
# - judge a training curve: where it should begin, and how low it can get,
# - explain teacher forcing, and how decoding differs from it.
#
# **Time:** about two hours. **In [the paper](https://arxiv.org/abs/1706.03762):** sections 3.1, 5, 5.1, 5.2 and 5.4.

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    attention_heatmap,
    live_progress,
    named_lines,
    show_offline,
    token_counts,
)
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(built=finished_exercises(), current=["train_step"])

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
# We need a small task that still uses every part of the model. In the **copy task** the model reads a sequence of
# letters and writes the same sequence. Cross-attention is the only way from the source into the decoder, so the model
# must find out where each letter is, which one comes next, and when to stop.
#
# The vocabulary has 13 words: padding, start, end, and ten letters. Sequences have 5 to 9 random letters. Each side
# of a batch is a matrix of ids. Every sequence is put between the start and the end token, and shorter rows are
# padded.

# %% tags=["see"]
PAD, START, END = 0, 1, 2
LETTERS = "abcdefghij"
WORDS = 3 + len(LETTERS)


def drawn(count: int, shortest: int = 5, longest: int = 9) -> list[str]:
    """Sequences of random letters."""
    lengths = torch.randint(shortest, longest + 1, (count,)).tolist()
    return ["".join(LETTERS[index] for index in torch.randint(10, (length,)).tolist()) for length in lengths]


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
# | 1 | **Training mode**, so that dropout is active. Code that measured a validation loss may have left the model in evaluation mode. | 03 |
# | 2 | **Clear the old gradients.** PyTorch *adds* each new gradient to the existing one. | |
# | 3 | **Shift the target**: the decoder's input, and the labels. | 04 |
# | 4 | **Masks**: padding of the source; padding and the future of the target. | 04 |
# | 5 | **Forward pass**: encode, decode, and compute the logits with the generator. | 06 |
# | 6 | **Loss**, a mean over the **real tokens**: the labels that aren't padding. | 08 |
# | 7 | **Backward pass**: the gradient of the loss with respect to every weight. | |
# | 8 | **The optimiser's step** moves the weights. | |
# | 9 | **The scheduler's step** sets the learning rate for the next update. | 07 |
#
# What happens if a line is missing or misplaced? None of these four mistakes raises an error:
#
# - Without 1, the model may train without dropout.
# - Without 2, every update uses the sum of all gradients so far. With 2 between 7 and 8, no weight ever moves.
# - With 9 before 8, every update uses the learning rate of the next one.
# - Without the shift in 3, the decoder is asked for the word that it has just read. The loss falls fast, and the model
#   has learned nothing.

# %% [markdown]
# ## 2. Gradient accumulation
#
# Much of the memory that training needs is for the **activations**, the results that the forward pass stores for the
# backward pass. They grow with the batch. If they don't fit, split the batch into **micro-batches**, do steps 3 to 7
# for each of them, and then make *one* update. Because PyTorch adds gradients up, the gradient of the whole batch is
# complete after the last piece. Only one piece has to fit into memory at a time, provided that its backward pass comes
# before the forward pass of the next piece.
#
# ### See it: gradients add up
#
# There is one weight, $w$, and the batch has three pieces, each with a loss of $3w$. The gradient of $3w$ is 3,
# whatever $w$ is.
#
# **Change something:** insert `descent.zero_grad()` as the first line of the loop, to clear the gradient before each
# piece. What is left of the three pieces?

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
# <details><summary>What changes?</summary>
#
# Only the last piece is left: the gradient is 3 after each piece, and the final weight is 0.7 instead of 0.1.
#
# </details>
#
# But the loss is a *mean*. What has to be added up so that the sum is the mean over the whole batch?

# %% predict="predict_batch_loss"
# A batch comes in two micro-batches. The first has 30 real tokens, and their mean loss is 2. The second has
# 10 real tokens, and their mean loss is 4. What is the mean loss over all real tokens of the batch?

# %% check="predict_batch_loss"

# %% [markdown]
# In symbols: micro-batch $m$ has $N_m$ real tokens, and token $i$ costs $\ell_i$. The loss of lesson 08 returns the
# mean of one micro-batch, $L_m$. With $N$ the number of real tokens in the whole batch, and $L$ the mean over the
# batch,
#
# $$L_m = \frac{1}{N_m} \sum_{i \in m} \ell_i \qquad\qquad L = \frac{1}{N} \sum_i \ell_i = \sum_m \frac{N_m}{N}\, L_m$$
#
# So each $L_m$ is weighted by its **share** of the real tokens, $N_m / N$. The gradient of a sum is the sum of the
# gradients, so the same shares apply to the gradients, written with $\nabla$:
#
# $$\nabla L = \sum_m \frac{N_m}{N}\, \nabla L_m$$
#
# ### Worked example: four tokens in two pieces
#
# A model has a single weight $w = 2$, and token $i$ costs $w \cdot x_i$, where $x_i$ is a fixed number. The first piece
# has three tokens, the second has one. The gradient of a piece's mean is the mean of its $x_i$.

# %% tags=["see"]
w = torch.tensor(2.0, requires_grad=True)
first, second = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([6.0])
print("mean cost of the first piece: ", (w * first).mean().item())
print("mean cost of the second piece:", (w * second).mean().item())

(w * torch.cat([first, second])).mean().backward()
print("\nthe whole batch at once: gradient", w.grad.item())

share = len(first) / (len(first) + len(second))
w.grad = None
(share * (w * first).mean()).backward()
print(f"\nafter the first piece, weighted by {share}: ", w.grad.item())
((1 - share) * (w * second).mean()).backward()
print(f"after the second piece, weighted by {1 - share}:", w.grad.item())

w.grad = None
for one in [first, second]:
    (1 / 2 * (w * one).mean()).backward()
print("\nif each piece gets a half, a mean of means:", w.grad.item())

# %% [markdown]
# Change the sizes of the pieces in the cell above: when is the mean of means right? The scratch cell below applies the
# share *after* the backward pass. What gradient do you expect?

# %% tags=["see"]
w.grad = None
late = (w * first).mean()
late.backward()
late = late * share
print(w.grad)

# %% [markdown]
# Multiplying the loss *after* its backward pass has no effect: the gradient has already been computed. So apply the
# share before it. To know the share, count the real tokens of all pieces first. (There is another way: multiply each
# mean by its number of tokens, and divide the sum of the gradients by $N$ at the end.)
#
# The start token is in the target, but it isn't a label, so don't count it.
#
# ### Build it
#
# Besides what the docstring says:
#
# - Micro-batches may differ in size. `micro_batches` may be a generator, which can be read only once.
# - The padding id is `loss.pad_id`. Don't assume that it is 0.
# - Return the loss of the whole batch as a **plain number**. (A tensor may keep the whole graph of its computation
#   alive; a list of a thousand such losses is a common way to run out of memory.)

# %% build="train_step"
### BEGIN SOLUTION course_lib.transformer.training:train_step

# %% [markdown]
# A scratch cell: the first three sequences, in one piece and in two. Each time, an identical model without dropout
# makes one update, so the two losses should be equal (except for rounding).

# %% tags=["see"]
for pieces in [[collated(few)], [collated(few[:1]), collated(few[1:])]]:
    torch.manual_seed(0)
    tiny = Transformer(WORDS, WORDS, TransformerConfig(layers=1, d_model=8, heads=2, d_ff=16, dropout=0.0))
    descent = SGD(tiny.parameters(), lr=1.0)
    print(train_step(tiny, LabelSmoothingLoss(WORDS, PAD), pieces, descent, make_scheduler(descent, 8, 4)))

# %% [markdown] hints="train_step"

# %% check="train_step"

# %% [markdown]
# ### See it: the same update, however the batch is split
#
# Your `train_step` gets the same batch of 16 sequences in 1, 2 and 4 pieces. Short sequences come first, so the pieces
# have different numbers of tokens. Each time a fresh, identical model makes one update, and its weights are compared
# with those after the update in one piece.
#
# **Change something:** use pieces of one sequence each.

# %% tags=["see"]
loss = LabelSmoothingLoss(WORDS, PAD, smoothing=0.1)


def updated(pieces: list[tuple[Tensor, Tensor]]) -> tuple[float, Tensor]:
    """Return the loss of one update of a fresh model, and all its weights after the update."""
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
    rows.append(
        {
            "pieces": count,
            "tokens of each": ", ".join(str(int((target[:, 1:] != PAD).sum())) for _, target in pieces),
            "loss": f"{piece_loss:.4f}",
            "weights off by": f"{(weights - whole_weights).abs().max():.0e}",
        }
    )
pd.DataFrame(rows).set_index("pieces")

# %% [markdown]
# With shares, the split makes no difference, except for rounding.
#
# ### See it: how much does a token count?
#
# What about a **mean of means**, in which each piece counts equally? A batch of eight sequences comes in two pieces.
# Each cell of the picture is a token to be predicted, and the number in it shows how much that token counts, where 1 is
# the average.
#
# **Change something:** set `shortest=7`, so that all sequences have the same length. Then set it back to 2, and use four
# pieces instead of two.

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
    [f"piece {1 + row // size}" for row in range(len(batch))],
)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# If all sequences have the same length, every number is 1 in both pictures. With four pieces, the numbers in the mean
# of means are between 0.7 and 1.8; with two, they are between 0.8 and 1.4.
#
# </details>
#
# ### Explain it
#
# A fellow student divides the loss of each micro-batch by the number of micro-batches, and says: "That is a mean, too.
# And if I shuffle, the pieces have about the same size, so who cares?" What is wrong with this? Say which tokens count
# more than others, how this affects a model that should learn long sentences, and why two runs with the same batches
# may differ on different machines.

# %% [markdown] explain="explain_mean"
# The mean of a piece divides by the number of tokens of that piece. If each piece then counts the same, a token in a
# piece with few tokens has more weight than one in a piece with many: with 10 and 30 tokens, three times as much.
# Pieces are often sorted by length to save padding (or limited by memory), so the tokens of short sentences count
# more throughout training, and long sentences are learned less well than the loss suggests. Shuffling makes the error
# smaller on average, but it is still there in each update. And the same batch, split differently on a machine with less
# memory or on more processors, gives a different gradient, so runs can't be compared or repeated. Weighting by the
# share of real tokens costs one division.
#
# ### BEGIN MARK SCHEME
# - 1 point: tokens of pieces with few real tokens count more, because each piece divides by its own number of tokens.
# - 1 point: so it isn't the mean over tokens that is minimised: long sentences count less, and are learned less well.
# - 1 point: the update depends on the split, so runs on machines with different memory or numbers of processors differ.
# ### END MARK SCHEME

# %% [markdown]
# ## 3. A model learns
#
# Two reference values help you to read a training curve. First: where should it begin?

# %% predict="predict_first_loss"
# A model that knows nothing gives each of the 13 words of the vocabulary the same probability. The labels
# are smoothed by 0.1. What is its loss? (You may use Python: math.log(x) is the natural logarithm.)

# %% check="predict_first_loss"

# %% [markdown]
# If a curve begins much higher, the model is confidently wrong from the start. And how low can the loss get? Down to
# the entropy of the smoothed targets (lesson 08). The picture shows both values as dashed lines. (Ours begins at about
# 3.2, because fresh random weights prefer some words to others, and is below the upper line after ten updates.)
#
# ### See it: learning, live
#
# A small model makes 400 updates with your `train_step`. Each batch holds 48 new sequences, in two micro-batches.
#
# A copy of the weights after 140 updates is stored for later.
#
# **Change something:** set `dropout=0.0`: how low does the curve get? Try a `factor` of 3. Then put a mistake into your
# `train_step` (don't clear the gradients, or leave out the causal mask), and watch the faulty model train. According to
# the next cell, can the faulty model copy? Afterwards undo your changes and run the cells from your `train_step` on
# again, because the rest of the lesson uses this model.

# %% tags=["see"]
SIZES = TransformerConfig(layers=2, d_model=32, heads=2, d_ff=64, dropout=0.05)
UPDATES, SEQUENCES = 400, 48
lowest = torch.special.entr(smooth_targets(torch.tensor([START]), WORDS, PAD, smoothing=0.1)).sum().item()
levels = {
    f"all words alike: {math.log(WORDS):.2f}": math.log(WORDS),
    f"lowest possible: {lowest:.2f}": lowest,
}
trained_on: set[str] = set()
halfway: dict[str, Tensor] = {}

torch.set_num_threads(1)  # a model this small trains faster with a single thread


def learn_to_copy(step, model, loss, adam, scheduler) -> list[float]:
    """Train a model on newly drawn sequences, and draw its loss. Return the losses."""
    losses = []

    def picture():
        rows = [(f"loss: {losses[-1]:.2f}", update, loss) for update, loss in enumerate(losses, start=1)]
        rows += [(name, update, level) for name, level in levels.items() for update in (1, UPDATES)]
        return named_lines(
            pd.DataFrame(rows, columns=["line", "x", "y"]),
            across="update of the weights",
            up="loss",
            title="A Transformer learns to copy",
            dashed=levels,
        )

    for update in live_progress(UPDATES, picture, every=25):
        sequences = drawn(SEQUENCES)
        trained_on.update(sequences)
        pieces = [collated(sequences[: SEQUENCES // 2]), collated(sequences[SEQUENCES // 2 :])]
        losses.append(step(model, loss, pieces, adam, scheduler))
        if update == 140 and not halfway:
            halfway.update({name: weight.clone() for name, weight in model.state_dict().items()})
    return losses


torch.manual_seed(0)
model = Transformer(WORDS, WORDS, SIZES)
adam = Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
scheduler = make_scheduler(adam, d_model=32, warmup=60, factor=0.4)
losses = learn_to_copy(train_step, model, loss, adam, scheduler)

# %% [markdown]
# The curve has a typical shape. In the first ten updates it drops fast: the model learns which words occur at all. Then,
# at a loss of about 2.4, it barely falls for about twenty updates. To get lower, the model has to find out *where to
# look*, and while it looks everywhere at once, each step helps only a little. From then on the loss falls steadily,
# almost to its minimum.
#
# It ends a little above the minimum, partly because of dropout: the loss is measured in training mode, with some of
# the network missing.
#
# <details><summary>What changes?</summary>
#
# Without dropout, the loss of some updates is within 0.01 of the minimum, but the curve ends a little above it. With a
# factor of 3, it stays near 2.4. If gradients aren't cleared, it rises above 3. Without the causal mask, it soon falls
# below 0.6, but no sequence is copied: during training the decoder simply reads the next letter from its input.
#
# </details>
#
# ### See it: does it really copy?
#
# Now the model writes by itself, with the `greedy_decode` of lesson 06. It gets 200 sequences that it was never trained
# on. Every letter and the end have to be right.
#
# **Change something:** use sequences of 12 letters (`drawn(300, 12, 12)`). The model has never seen more than 9. What
# goes wrong, and from which position on? (Afterwards change it back, because section 5 uses `unseen`, too.)


# %% tags=["see"]
def written(decode, model, sequences: list[str]) -> list[str]:
    """Return what a model writes for each sequence: the letters before the end token, or all if there is none."""
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
# <details><summary>What changes?</summary>
#
# No sequence is copied. The first eight letters are nearly always right, but after 9 to 11 letters the model nearly
# always stops. It has never had to write a tenth letter, and has never seen positions this late in a sequence.
#
# </details>
#
# ### See it: how does it do that?
#
# You see the cross-attention of both heads of both layers, recorded as in lesson 06. Each row is a position in the
# target, labelled with the letter that the model should *write* there. Each column is a position in the source. `<`
# is the start, and `.` the end.
#
# **Change something:** use a sequence of your own from the letters a to j, or one that repeats a letter: `"aaaaaaaa"`.
# Then use the untrained model (leave out `load_state_dict`), or the half-trained one: `twin.load_state_dict(halfway)`.

# %% tags=["see"]
seen = []


def recording(query, key, value, mask=None, dropout=None):
    """Attend as usual, and record the weights."""
    result, weights = scaled_dot_product_attention(query, key, value, mask, dropout)
    seen.append(weights.detach())
    return result, weights


sequence = "badgejihc"
twin = Transformer(WORDS, WORDS, TransformerConfig(2, 32, 2, 64, 0.05, attention=recording))
twin.load_state_dict(model.state_dict())
tokens, _ = collated([sequence])
with evaluating(twin):
    twin(tokens, padding_mask(tokens, PAD), tokens[:, :-1], decoder_mask(tokens[:, :-1], PAD))

# Each encoder layer attends once; then each decoder layer attends first to the target, then to the source.
crossing = torch.cat([seen[3][0], seen[5][0]])
attention_heatmap(
    crossing,
    [*sequence, "."],
    ["<", *sequence, "."],
    panels=["layer 1, head 1", "layer 1, head 2", "layer 2, head 1", "layer 2, head 2"],
    title="To write a letter, where does it look?",
)

# %% [markdown]
# You see a diagonal: to write the third letter, the model looks at the third letter of the source. It *learned* to ask
# for the position that comes next, and recognises each position by the sines and cosines of lesson 05. The heads
# disagree about where to look mainly in the last row, where the model should stop. In translation the line is less
# straight, because languages order their words differently.
#
# <details><summary>What changes?</summary>
#
# With `"aaaaaaaa"` the diagonal remains, because the model looks for positions, not letters. The half-trained model's
# diagonal is paler and has gaps. The untrained model has none: the largest weight in a row is about 0.2 on average.
#
# </details>
#
# ## 4. Teacher forcing
#
# During training the decoder reads the target, whatever it would have written itself. This is called **teacher
# forcing** (Williams and Zipser 1989): at each position the teacher supplies the correct prefix. During decoding the
# model reads its own words, mistakes included. If each word is right nearly every time, how often is a whole sentence
# right?

# %% predict="predict_whole"
# A model gets each single word right with a probability of 0.99, if all words before it are right. A sentence
# has 20 words. What is the probability that it writes the whole sentence without a mistake?

# %% check="predict_whole"

# %% [markdown]
# ### See it: one mistake leads to the next
#
# The model after 140 updates still makes mistakes. In 500 sequences of seven letters, how often is the letter at
# position 1, 2, 3, … wrong? One line is for the correct prefix, as during training, and the other is for the model's
# own prefix.
#
# **Change something:** use the trained model instead of the half-trained one (`model.state_dict()`). Then use an
# untrained one.

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
for name, wrong in {"correct prefix": wrong_forced, "own prefix": wrong_free}.items():
    for position, share in enumerate(wrong.double().mean(dim=0).tolist(), start=1):
        rows.append((name, position, share))
    letters, sequences = wrong.double().mean(), wrong.any(dim=1).double().mean()
    print(
        f"{name}: {letters:.1%} of all letters are wrong; {sequences:.1%} of the sequences have a wrong letter"
    )

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="position in the sequence",
    up="share of wrong letters",
    title="Does it matter whose letters the model reads?",
)

# %% [markdown]
# **At the first position, the two lines meet.** In both cases the decoder has read only the start token.
#
# **After that, the model makes more mistakes with its own prefix.** Once a letter is wrong, the decoder reads something
# that never occurred during training, and loses track of its position. This gap is called **exposure bias**.
#
# **But just as many sequences contain a mistake.** Up to its *first* mistake, the decoder reads exactly what the
# teacher would have supplied. So teacher forcing tells you how often a whole sentence is right, but hides how bad the
# others are.
#
# <details><summary>What changes?</summary>
#
# With the trained model, hardly a letter is wrong, and both lines are at about 0. With an untrained one, about nine in
# ten letters are wrong, whatever the prefix: it is right only by chance.
#
# </details>
#
# ### Explain it
#
# Why do we train with the correct words, if decoding has to do without them? Say why this is justified, what would be
# lost if the decoder had to read its own words during training, and what is different for the model when it decodes.

# %% [markdown] explain="explain_forcing"
# The model should give the probability of each next word, given the words before it. The probability of a sentence is
# the product of these, each with the *correct* prefix, so the loss measures exactly the right thing: the negative
# log-probability of the target. And because the causal mask excludes the future, all positions can be computed in
# parallel. If the decoder read its own words, it would need one pass for each word; a fresh model would train on
# nonsense prefixes, for which the target's next word isn't even the right answer; and no gradient would flow through
# the choice of a word. Decoding differs as soon as the model makes a mistake: prefixes with a mistake never occurred
# during training, so the model hasn't learned how to continue them, and one mistake makes others more likely. As long
# as it makes none, it reads the same in both cases.
#
# ### BEGIN MARK SCHEME
# - 1 point: the loss is the (log-)probability of the target, each word given the correct words before it; that is what
#   should be learned.
# - 1 point: what is gained: all positions at once (with the causal mask); or: useful prefixes from the first update on.
# - 1 point: what differs: after a mistake the model reads prefixes that training never showed, so mistakes follow mistakes.
# ### END MARK SCHEME

# %% [markdown]
# ## 5. Your own Transformer learns
#
# Now train a model from your own parts, with your schedule, your loss, and your `train_step`. The parts are read from
# the notebooks next to this one, as they were last saved. Missing parts are replaced by the reference's. This section
# isn't graded.

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
# The next cell names those of your parts that don't compute what the reference computes, and uses the reference's
# instead, so that the training succeeds.
#
# **Change something:** if one of your parts is named, replace `sound` with `parts` in the cell that builds the model,
# and see whether it still learns. Many mistakes only make a model somewhat worse.

# %% tags=["see"]
unequal = unequal_parts(parts)
for name, how in unequal.items():
    print(f"{name} differs, so the reference's is used instead: {how}")
sound = parts.only([name for name in parts.yours if name not in unequal])
print(f"{len(sound.yours)} of your parts are used below.")

# %% tags=["see"]
torch.manual_seed(0)
own_model = build_transformer(sound, WORDS, WORDS, SIZES)
own_adam = Adam(own_model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
own_scheduler = sound["make_scheduler"](own_adam, 32, 60, 0.4)
own_loss = sound["LabelSmoothingLoss"](WORDS, PAD, 0.1)
own_losses = learn_to_copy(step, own_model, own_loss, own_adam, own_scheduler)

# %% tags=["see"]
unseen = [sequence for sequence in unseen if sequence not in trained_on]  # this model saw other sequences
copies = written(sound["greedy_decode"], own_model, unseen)
right = sum(copy == sequence for copy, sequence in zip(copies, unseen, strict=True))
print(
    f"{right} of {len(unseen)} unseen sequences are copied exactly by a model with {len(sound.yours)} parts of yours."
)

# %% [markdown]
# ## 6. On real hardware
#
# Sections 5.1 and 5.2 of the paper describe its setup: eight GPUs, 0.4 seconds for each of 100,000 updates, and batches
# of about 25,000 target tokens. (The paper doesn't say whether that includes padding.) From these numbers you can
# compute the **throughput**:

# %% tags=["see"]
print(f"{25_000 / 0.4:,.0f} target tokens per second")

# %% [markdown]
# Throughput is the number to watch on your own hardware. A **profiler** such as `torch.profiler` shows where the time
# goes.
#
# Two techniques have become standard since the paper. **Mixed precision** (Micikevicius et al. 2018) computes the
# matrix products in 16 bits and keeps the weights in 32. With float16 it needs **loss scaling**: the loss is multiplied
# by a large number before the backward pass, so that small gradients don't become 0, and the gradients are divided by
# the same number before the update. (bfloat16 has the range of float32, and needs no loss scaling.) **Activation
# checkpointing** (Chen et al. 2016) stores fewer activations, and computes the others again during the backward pass.
# This saves memory, but takes more time.
#
# ## Common questions
#
# <details><summary>Doesn't dropout make the update differ between one piece and four?</summary>
#
# Yes, it does. With a different split, dropout draws its random numbers in a different order, and so drops other
# features. The comparisons above use a dropout of 0.
#
# </details>
#
# <details><summary>Is one large batch as good as many small ones?</summary>
#
# Its gradient has less noise than that of a small batch, but takes the work of several updates. Early in training, many
# noisy updates get further. Late in training, or on many processors, large batches pay off. A schedule that suits one
# batch size may not suit another.
#
# </details>
#
# <details><summary>Why doesn't PyTorch clear gradients by itself?</summary>
#
# Adding gradients up is useful, so PyTorch lets you decide when a new sum begins. Many programs clear the gradients
# right after the update; if you clear them first, you don't depend on what happened in between.
#
# </details>
#
# <details><summary>Should gradients be clipped?</summary>
#
# Many programs scale a gradient down when its norm is above some limit, so that one odd batch does no harm. This
# **gradient clipping** belongs between the last backward pass and the optimiser's step, and applies to the gradient of
# the whole batch, not to that of each piece. The paper doesn't mention it.
#
# </details>
#
# <details><summary>How do I know when to stop?</summary>
#
# Not from the training loss: it keeps falling while the model begins to memorise its sentences (**overfitting**).
# Keep some sentences out of training, measure their loss (in evaluation mode, without gradients), and stop when it no
# longer improves. This is called **early stopping**. Here almost every sequence was new, so there was nothing to
# memorise.
#
# </details>
#
# <details><summary>Can exposure bias be cured?</summary>
#
# One can mix the model's own words into training ("scheduled sampling", Bengio et al. 2015, [arXiv
# 1506.03099](https://arxiv.org/abs/1506.03099)), or train on whole sentences that the model wrote, judged by a score.
# Most systems do without these methods: they slow training down, and a good translation model makes few mistakes.
#
# </details>
#
# ## Further reading
#
# - Section 5 of the paper. Popel and Bojar 2018, [Training Tips for the Transformer
#   Model](https://arxiv.org/abs/1804.00247): batch size, learning rate and warm-up, tried out one by one.
# - Ott et al. 2018, [Scaling Neural Machine Translation](https://arxiv.org/abs/1806.00187): the same model, trained in
#   hours instead of days with large batches and half precision.
# - Micikevicius et al. 2018, [Mixed Precision Training](https://arxiv.org/abs/1710.03740).
# - Chen et al. 2016, [Training Deep Nets with Sublinear Memory Cost](https://arxiv.org/abs/1604.06174).
#
# ## Where you are
#
# Save the notebook, press **Validate**, and run the next cell.

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# Next: **lesson 10, from text to batches**. The model gets real sentences.
