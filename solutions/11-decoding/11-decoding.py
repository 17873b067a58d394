# %% [markdown]
# # Lesson 11: decoding
#
# A trained model does not translate. It answers one question: *given this source and this beginning, how likely is each
# word to come next?* To make a translation of such answers is a search, and greedy decoding, which you built in lesson
# 06, is the shortest-sighted of all searches.
#
# The paper's numbers come from a better one, **beam search**, and from one more trick that costs nothing: not the last
# model, but the **average of the last few**. In this lesson you build both, and try them on a translator that you train
# on the way, in some ten seconds.
#
# At the end of it you can
#
# - say why the likeliest next word may lead to an unlikely sentence,
# - keep several beginnings alive at the same time, for a whole batch of sentences,
# - say why likely translations are short ones, and what the length penalty does about it,
# - say why a likelier translation need not be a better one,
# - average checkpoints without losing a counter, a dtype or a checkpoint.
#
# **Time:** about two and a half hours. **In the paper:** section 6.1 of
# Vaswani et al. 2017, [Attention Is All You Need](https://arxiv.org/abs/1706.03762), which takes the length penalty
# from Wu et al. 2016, [Google's Neural Machine Translation System](https://arxiv.org/abs/1609.08144).

# %% tags=["see"]
from course_lib.charts import architecture_map, beam_tree, exercises_through, named_lines, show_offline

show_offline()
architecture_map(
    built=exercises_through(10), current=["length_penalty", "beam_search", "average_checkpoints"]
)

# %% [markdown]
# What you build now stands at the right, beside `greedy_decode`: what makes sentences of a model, and one model of
# several.
#
# Run the next cell once. The parts of lessons 01 to 10 are there, as the course's own versions.

# %% given="setup"
import copy
from collections.abc import Iterable, Mapping

import pandas as pd
import torch
from jaxtyping import Bool, Int
from sacrebleu import corpus_bleu
from torch import Tensor
from torch.optim import Adam
from torch.optim.lr_scheduler import LambdaLR

from course_lib.checks import check
from course_lib.transformer import (
    LabelSmoothingLoss,
    Transformer,
    TransformerConfig,
    causal_mask,
    decoder_mask,
    evaluating,
    greedy_decode,
    padding_mask,
    shift_target,
    train_step,
)
from course_lib.transformer.batching import collate, token_batches
from course_lib.translation.data.corpora import load_captions
from course_lib.transformer.vocabulary import build_vocabulary

# %% [markdown]
# ## 1. Why greedy decoding goes wrong
#
# What is the best translation $y$ of a source $x$? A natural answer: the one that the model finds likeliest. The model
# gives the probability of a sentence word by word, each given all that stands before it:
#
# $$P(y \mid x) = \prod_{t=1}^{n} P(y_t \mid y_1, \dots, y_{t-1}, x)
# \qquad \ln P(y \mid x) = \sum_{t=1}^{n} \ln P(y_t \mid y_1, \dots, y_{t-1}, x)$$
#
# where $y_t$ is the $t$-th word after the start symbol, and $n$ the number of these words, **the end symbol counted**: it
# has to be written like any other. The right-hand form is the one to compute with. A product of fifty small numbers gets
# too small for a computer, a sum of fifty logarithms does not.
#
# Greedy decoding takes the best factor at each step. But the best first factor may lead to a place from which all ways
# are bad. Here is a model that writes two words:
#
# | first word | probability | second word, and its probability after the first |
# |---|---|---|
# | **a** | 0.6 | **dog** 0.4, **cat** 0.35, **man** 0.25 |
# | **the** | 0.4 | **dog** 0.9, **cat** 0.06, **man** 0.04 |

# %% predict="predict_beam_of_two"
# A search keeps both first words, and then the best sentences of two words. What is the probability
# of the best sentence that it finds?

# %% check="predict_beam_of_two"

# %% [markdown]
# Greedy decoding takes **a**, since 0.6 is more than 0.4, and ends at "a dog" with a probability of $0.6 \cdot 0.4 =
# 0.24$. That the other way would have been better shows only one step later, and greedy decoding never looks back.
#
# So try all sentences? With a vocabulary of $V$ words there are $V^n$ of length $n$. Nobody can do that. **Beam search**
# is the compromise: keep a few beginnings, the likeliest ones so far, and let each of them go on.
#
# ## 2. The length penalty
#
# Before we search, we have to say what for. "The likeliest translation" has a catch. Each further word multiplies the
# probability by a number below one, so **every word makes a sentence less likely**. A translation that simply stops
# early may be likelier than a complete one.
#
# So translations of different lengths are compared by a score in which a longer one may cost more. Wu et al. divide the
# log-probability by a penalty that grows with the length:
#
# $$\mathrm{score}(y) = \frac{\ln P(y \mid x)}{\mathrm{lp}(n)} \qquad
# \mathrm{lp}(n) = \left(\frac{5 + n}{6}\right)^{\alpha}$$
#
# | symbol | in code | what it is |
# |---|---|---|
# | $n$ | `length` | words after the start symbol, the end symbol counted |
# | $\alpha$ | `alpha` | how strongly length is made up for: 0 not at all; 0.6 in the paper |
# | $\mathrm{lp}$ | `length_penalty` | the divisor; 1 for a sentence of a single word, whatever $\alpha$ is |
#
# Two things that are easily mixed up. Log-probabilities are **negative**, and dividing by more brings them nearer to
# zero: the "penalty" helps long sentences. And the **best score is the largest**, the one nearest to zero.

# %% predict="predict_score"
# A translation has a log-probability of -12 and 49 words, the end symbol counted. Alpha is 0.5.
# What is its score?

# %% check="predict_score"

# %% [markdown]
# ### Build it
#
# One line. The length may be a plain number or a tensor of many lengths.

# %% build="length_penalty"
### BEGIN SOLUTION course_lib.transformer.decoding:length_penalty

# %% [markdown] hints="length_penalty"

# %% check="length_penalty"

# %% [markdown]
# ### See it: what a word may cost
#
# A translation of ten words has a log-probability of -5. A longer one wins if its score is better. How low may its
# log-probability be? The lines show the break-even point.
#
# **Change something:** an alpha of 2. Which alpha lets every word of a sentence cost about the same, however long it is?

# %% tags=["see"]
rows = []
for alpha in [0.0, 0.6, 1.0, 1.5]:
    for length in range(5, 31):
        break_even = -5 * length_penalty(length, alpha) / length_penalty(10, alpha)
        rows.append((f"alpha {alpha}", length, break_even))

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="words, the end counted",
    up="log-probability at break-even",
    title="As good as ten words with a log-probability of -5",
)

# %% [markdown]
# With an alpha of 0 the line is flat: a longer sentence has to be just as likely, although it has more words to pay for.
# With 1 it is straight, and each further word may cost the same. The paper's 0.6 lies between.
#
# ## 3. Beam search
#
# Keep $k$ beginnings of each sentence, the **beams**. In each step:
#
# 1. Ask the model for the next word of every beam: $k$ times $V$ candidates for each sentence.
# 2. The total of a candidate is that of its beam plus the log-probability of the new word.
# 3. Of all candidates **of that sentence**, keep the $k$ with the highest totals. A good beam may have several
#    successors, a bad one none.
#
# At the end, the best *score* wins.

# %% predict="predict_candidates"
# A beam of 4 and a vocabulary of 8,000 words. How many candidates does a sentence have in each step
# after the first?

# %% check="predict_candidates"

# %% [markdown]
# ### Five things to get right
#
# **The first step.** At the beginning there is one sentence, the start symbol, not $k$ copies of it. If all copies may
# go on, they all pick the same best word, and stay alike for ever: an expensive greedy search. So give the first copy a
# total of 0 and all the others minus infinity.
#
# **Where a candidate comes from.** Lay the $k \cdot V$ candidates of a sentence in one row. Candidate number $i$ goes on
# from beam $i \,//\, V$ with word $i \bmod V$.
#
# **All that belongs to a beam moves with it.** The new beam 0 may be the old beam 2. Its words, its length, and whether
# it has ended, all have to be fetched from there, or you put words behind the wrong beginning.
#
# **What has ended.** A beam that has written the end symbol is a finished translation. It stays in the running beside
# those that go on: from now on it writes nothing but end symbols, at no cost, and its length grows no more.
#
# **A batch.** $B$ sentences with $k$ beams each are $B \cdot k$ rows for the decoder. All beams of sentence 0 come first,
# then all of sentence 1. Encode once and repeat the *memory* and its *mask* in that order: that is
# `repeat_interleave`, and not `repeat`. Sentences never compete with each other.
#
# As with greedy decoding: rows begin with `start_id`, hold nothing but `end_id` behind their end, and have at most
# `max_length` tokens, the start counted. No dropout, no gradients, and the model gets its mode back: `evaluating`.
#
# **When to stop** is up to you. The simplest rule: when all beams have ended, or at `max_length`. Others stop sooner, when no
# open beam is likely to win any more.
#
# ### Build it
#
# This is the longest function of the course, some twenty lines. Write it for one sentence and two beams on paper first.

# %% build="beam_search"
### BEGIN SOLUTION course_lib.transformer.decoding:beam_search

# %% [markdown] hints="beam_search"

# %% check="beam_search"

# %% [markdown]
# ### A translator to try it on
#
# All that you know from lessons 01 to 10 in one cell: the 6,000 captions that come with the course, a vocabulary for
# each side, batches of like length, a Transformer of one layer with 64 features, label smoothing, and 360 updates. It
# takes some ten seconds. From update 20 on, every 20th model is kept: a **checkpoint**.

# %% tags=["see"]
PAD, START, END = 0, 1, 2


def words_of(text):
    return text.lower().replace(".", " .").replace(",", " ,").split()


def pairs_of(text):
    return [(words_of(left), words_of(right)) for left, right in zip(text.german, text.english, strict=True)]


captions = load_captions()
pairs = {name: pairs_of(getattr(captions, name)) for name in ("train", "validation", "test")}
specials = ["<pad>", "<s>", "</s>"]
german = build_vocabulary((source for source, _ in pairs["train"]), 1, specials)
english = build_vocabulary((target for _, target in pairs["train"]), 1, specials)
spelled = list(english)


def batch_of(chosen):
    ids = [([german[word] for word in reads], [english[word] for word in writes]) for reads, writes in chosen]
    return collate(ids, PAD, START, END, max_length=32)


lengths = [len(target) + 2 for _, target in pairs["train"]]
batches = [batch_of([pairs["train"][index] for index in batch]) for batch in token_batches(lengths, 900)]

torch.manual_seed(0)
translator = Transformer(
    len(german),
    len(english),
    TransformerConfig(layers=1, d_model=64, heads=4, d_ff=128, dropout=0.0, norm_first=True),
)
loss = LabelSmoothingLoss(len(english), PAD)
adam = Adam(translator.parameters(), lr=0.006, betas=(0.9, 0.98), eps=1e-9)
scheduler = LambdaLR(adam, lambda done: min(1.0, (done + 1) / 50))
checkpoints = {}
for update in range(1, 361):
    batch = batches[int(torch.randint(len(batches), ()))]
    value = train_step(translator, loss, [batch], adam, scheduler)
    if update % 20 == 0:
        checkpoints[update] = copy.deepcopy(translator.state_dict())
    if update % 60 == 0:
        print(f"update {update}: loss {value:.2f}")

# %% [markdown]
# Does it translate? These captions are from the test split. Their words are known, but some of them never stood together
# in a sentence of the training split.
#
# **Change something:** the numbers of the captions, the beam, alpha.

# %% tags=["see"]
MAX_LENGTH = 28


def model_after(update):
    model = copy.deepcopy(translator)
    model.load_state_dict(checkpoints[update])
    return model


def text_of(row):
    return " ".join(spelled[index] for index in row.tolist()[1:] if index != END)


source, _ = batch_of(pairs["test"][:5])
found = beam_search(translator, source, padding_mask(source, PAD), 4, MAX_LENGTH, START, END, alpha=0.6)
for (read, right), row in zip(pairs["test"], found, strict=False):
    print("reads: ", " ".join(read))
    print("writes:", text_of(row))
    print("right: ", " ".join(right), "\n")

# %% [markdown]
# ### See it: the beam as a tree
#
# What happens inside? We watch the decoder. Whatever search you wrote, each beginning that it keeps has to go through
# the decoder's embedding, so a hook there sees them all. How likely each of them is, we ask the model afterwards.
#
# The cell takes the model after 200 updates, which still hesitates a lot, and looks for a caption, not too long, that beam
# search gets right and greedy decoding does not. (That is picked for the picture. Often both are right, or both wrong.
# Each machine rounds a little differently and finds its own; the cell says so if it finds none.) What ends in the very
# last step never goes through the decoder again, so of that the picture shows the winner alone.
#
# In which steps does the winner lie behind? Where does greedy decoding leave its way?
#
# **Change something:** a beam of 2, or of 6. The model after 360 updates: how does the tree of a model look that is
# sure of itself? Take the `break` out, and you get the last of the captions.


# %% tags=["see"]
def log_probability(asked, source, ids):
    """The log-probability of each row of ids. What stands behind the end does not count."""
    with evaluating(asked):
        logits = asked(source, padding_mask(source, PAD), ids[:, :-1], causal_mask(ids.shape[1] - 1))
    of_words = logits.log_softmax(dim=-1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    return of_words.masked_fill(ids[:, :-1] == END, 0.0).sum(dim=1)


def watched_search(model, source, beam, alpha):
    """Search, and note every beginning that goes through the decoder."""
    seen = set()
    hook = model.target_embedding.register_forward_pre_hook(
        lambda module, given: seen.update(tuple(row) for row in given[0].tolist())
    )
    ids = beam_search(model, source, padding_mask(source, PAD), beam, MAX_LENGTH, START, END, alpha)
    hook.remove()
    return ids, seen


def to_the_end(ids):
    """Leave out what stands behind the first end symbol."""
    return tuple(ids[: ids.index(END) + 1]) if END in ids else tuple(ids)


model, beam, alpha = model_after(200), 4, 0.6
for read, right in pairs["test"][:100]:
    source, _ = batch_of([(read, right)])
    greedy = greedy_decode(model, source, padding_mask(source, PAD), MAX_LENGTH, START, END)
    ids, seen = watched_search(model, source, beam, alpha)
    if text_of(ids[0]) == " ".join(right) != text_of(greedy[0]) and len(right) < 17:
        break
else:
    print("No caption ended the search, so this is the last one that was looked at.\n")

winner = to_the_end(ids[0].tolist())
kept = {to_the_end(row) for row in seen} | {winner[:count] for count in range(2, len(winner) + 1)}
totals = {
    tuple(spelled[index] for index in row[1:]): log_probability(model, source, torch.tensor([row])).item()
    for row in kept
    if len(row) > 1
}
print("reads: ", " ".join(read))
print("greedy:", text_of(greedy[0]), f"({log_probability(model, source, greedy).item():.2f})")
print("beam:  ", text_of(ids[0]), f"({log_probability(model, source, ids).item():.2f})")
print("right: ", " ".join(right))

beam_tree(
    totals,
    [spelled[index] for index in winner[1:]],
    greedy=[spelled[index] for index in to_the_end(greedy[0].tolist())[1:]],
)

# %% [markdown]
# ### See it: wider and wider
#
# If two beams are better than one, are eight better than four? We let two models translate 60 captions: one that
# has learned for 120 updates, and one that has learned for 360. For each width the table says how likely the
# translations are that the search finds, how long they are, and how good they are by **BLEU**, which compares
# them with the right ones (100 is the most; lesson 13 says more; here all is in small letters and in our own
# tokens, so these numbers compare with each other only).
#
# Guess first: which columns go up, and which go down?
#
# **Change something:** a beam of 16 (it takes some seconds). An alpha other than 0.

# %% tags=["see"]
some = pairs["test"][:60]
source, target = batch_of(some)
right = [" ".join(words) for _, words in some]
right_length = ((target != PAD).sum() - 2 * len(some)).item() / len(some)


def tried(model, beam, alpha):
    ids = beam_search(model, source, padding_mask(source, PAD), beam, MAX_LENGTH, START, END, alpha)
    bleu = corpus_bleu([text_of(row) for row in ids], [right], tokenize="none", force=True)
    return {
        "beam": beam,
        "alpha": alpha,
        "log-probability": round(log_probability(model, source, ids).mean().item(), 2),
        "words": round((ids[:, 1:] != END).sum(dim=1).float().mean().item(), 2),
        "BLEU": round(bleu.score, 1),
    }


table = pd.DataFrame(
    {"updates": update, **tried(model_after(update), beam, alpha=0.0)}
    for update in [120, 360]
    for beam in [1, 2, 4, 8]
)
print(f"the right translations have {right_length:.2f} words on average")
table

# %% [markdown]
# The search does its work: the wider the beam, the likelier the sentences. But the widest beam writes the **shortest**
# ones, and its BLEU is lower than that of a narrower one: a little width may help at first, and more of it hurts. That is
# no fault of the search. It finds more and more of what we told it to look for, and
# what we told it is not quite what we want: the likeliest sentence is a short one. In big translation models it is the
# same (Stahlberg and Byrne 2019, [arXiv 1908.10090](https://arxiv.org/abs/1908.10090): for more than half of
# the sentences their model's likeliest translation of all was the *empty* one). A narrow beam helps partly because it
# fails to find such sentences.
#
# ### See it: length penalty against output length
#
# The honest remedy is to look for something else: a score that makes up for the length.
#
# **Change something:** more values of alpha. At which alpha does each model write sentences of the right length?

# %% tags=["see"]
rows = []
for update in [120, 360]:
    model = model_after(update)
    for alpha in [0.0, 0.6, 1.0, 1.5, 2.0]:
        result = tried(model, 4, alpha)
        rows.append((f"after {update} updates", alpha, result["words"] / right_length))
        print(f"after {update} updates, alpha {alpha}: {result['words']} words, BLEU {result['BLEU']}")
rows += [("the right length", alpha, 1.0) for alpha in [0.0, 2.0]]

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="alpha",
    up="words, as a share of the right translation's",
    title="How long are the translations?",
    dashed=["the right length"],
)

# %% [markdown]
# With an alpha of 0 both models write too little, and the one that knows less falls shorter: it is less sure of every word,
# so every word costs more, so stopping early saves more. A larger alpha brings the lengths back, and mostly BLEU with them.
# The best alpha belongs to a model and its data. The paper chose its beam of 4 and its alpha of
# 0.6 "after experimentation on the development set", and so will you: on the *validation* split, never on the one that
# you report. (Here we looked at test captions, and so may not boast of these numbers.)
#
# ### Explain it
#
# A fellow student: "I have raised the beam from 4 to 100. The log-probability of my translations went up, so the search
# works better, but BLEU went down. There must be a bug in my beam search." What do you answer? Say why the
# translations are likelier, why they are worse, and what to try.

# %% [markdown] explain="explain_width"
# There need not be a bug. A wider beam drops fewer beginnings, so it finds likelier sentences: that is what it is for. But
# each word multiplies the probability by a number below one, so the likeliest sentences tend to be too short, and a
# wider beam finds more of them. BLEU compares with a person's translation and punishes missing words. Likely (by the
# model) and good are not the same. Look at the lengths of the translations; divide by a length penalty and choose alpha,
# and the width of the beam, on the validation split.
#
# ### BEGIN MARK SCHEME
# - 1 point: a wider beam searches better, so it finds sentences with a higher log-probability.
# - 1 point: the model's likeliest sentences tend to be too short, since every word costs; so likelier isn't better.
# - 1 point: what to do: compare lengths, use a length penalty, choose alpha and beam on validation data (any two).
#
# Give the point for a right idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## 4. One model out of several
#
# Look at the loss while a model learns: it goes down, but it trembles. Each update follows one batch, and the next batch
# pulls elsewhere. The weights of the last update are as good as those of the one before, and both are a little off, in
# different directions. So take several checkpoints, and average each weight over them:
#
# $$\bar\theta = \frac{1}{m} \sum_{i=1}^{m} \theta_i$$
#
# where $\theta_i$ are all the weights of checkpoint $i$, and $m$ is the number of checkpoints. What is common to them
# stays, and what trembles averages out. The result is **one** model, of the same size and speed as the others. The paper
# averages the last 5 checkpoints of its base models, written ten minutes apart, and the last 20 of the big ones.
#
# A **state dict** maps the names of a model's entries to tensors. Most are weights. But mind four things:
#
# - **Not all entries are fractions.** Some modules count how often they were used, or keep truth values. A mean
#   of counters would be a fraction, and `load_state_dict` would get a dtype that it does not expect. Take those entries
#   **whole**: from the first checkpoint, from the last, or as the rounded mean.
# - **Buffers count as well.** A running mean is no parameter, but it belongs to the model. Go through *all* entries.
# - **Small dtypes overflow.** The largest number in float16 is 65,504. Sum in a wide dtype, then go back to
#   the one that the entry had.
# - **Checkpoints belong to someone else.** `total += entry` changes the tensor that `total` is. What you hand back
#   shares no memory with what you got, not even if there is a single checkpoint.
#
# ### Build it

# %% build="average_checkpoints"
### BEGIN SOLUTION course_lib.transformer.averaging:average_checkpoints

# %% [markdown] hints="average_checkpoints"

# %% check="average_checkpoints"

# %% [markdown]
# ### See it: the loss of averaged checkpoints
#
# The loss on 150 validation captions, without smoothing: for each checkpoint that we kept, and for the average of it and
# the four before it.
#
# Is the average always better? When does it begin to help, and why not earlier?
#
# **Change something:** average the last 2, or the last 10. A smaller learning rate in the training cell (0.001): does
# averaging help as much when there is less trembling?

# %% tags=["see"]
sharp = LabelSmoothingLoss(len(english), PAD, smoothing=0.0)
valid_source, valid_target = batch_of(pairs["validation"][:150])


def validation_loss(state):
    judged = copy.deepcopy(translator)
    judged.load_state_dict(state)
    decoder_input, labels = shift_target(valid_target)
    with evaluating(judged):
        logits = judged(
            valid_source, padding_mask(valid_source, PAD), decoder_input, decoder_mask(decoder_input, PAD)
        )
        return sharp(logits, labels).item()


count = 5
updates = list(checkpoints)
rows = []
for place in range(count - 1, len(updates)):
    last = [checkpoints[update] for update in updates[place - count + 1 : place + 1]]
    rows.append(("a single checkpoint", updates[place], validation_loss(last[-1])))
    rows.append((f"the average of {count}", updates[place], validation_loss(average_checkpoints(last))))

print(f"at the end: one alone {rows[-2][2]:.3f}, the average {rows[-1][2]:.3f}")
named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="update of the newest checkpoint",
    up="validation loss",
    title="Does averaging help?",
    log=True,
)

# %% [markdown]
# Early in training the average is **worse**: the models still move fast in one direction, and an average of five lags
# behind the newest. Later they circle around a good place, each a little off, and the average lies nearer to its middle
# than any of them. So average *late* checkpoints.
#
# And does it translate better?

# %% tags=["see"]
averaged = copy.deepcopy(translator)
averaged.load_state_dict(average_checkpoints([checkpoints[update] for update in updates[-5:]]))
pd.DataFrame(
    [
        {"model": "the last checkpoint", **tried(model_after(360), 4, alpha=0.6)},
        {"model": "the average of five", **tried(averaged, 4, alpha=0.6)},
    ]
)

# %% [markdown]
# Sixty captions are few, so BLEU is a coarse measure here; the loss is the finer one.
#
# ### See it: when averaging destroys
#
# Here is a second model that computes **exactly** what the translator computes. Only its inner features are numbered
# backwards: those inside the feed-forward networks (the rows of `inner` and, to match, the columns of `outer`), and those
# inside the attention (the rows of the query, key and value projections, and the columns of the output projection). Each
# feature does what it did before, under another number.
#
# What is the loss of the renumbered model? And of the average of the two?
#
# **Change something:** before you run it, write your guess down. Then renumber only the feed-forward networks: take the
# projections out of the two lists.

# %% tags=["see"]
state = checkpoints[360]
ROWS = ("inner.weight", "inner.bias", "query_projection.weight", "query_projection.bias")
ROWS += ("key_projection.weight", "key_projection.bias", "value_projection.weight", "value_projection.bias")
COLUMNS = ("outer.weight", "output_projection.weight")
renumbered = {
    name: entry.flip(0) if name.endswith(ROWS) else entry.flip(1) if name.endswith(COLUMNS) else entry
    for name, entry in state.items()
}
print(f"the translator:          {validation_loss(state):.3f}")
print(f"the same, renumbered:    {validation_loss(renumbered):.3f}")
print(f"the average of the two:  {validation_loss(average_checkpoints([state, renumbered])):.3f}")

# %% [markdown]
# ### Explain it
#
# Two models with the same loss were averaged just now, and the average was worse than either. The average of five
# checkpoints was better than each of them. What makes the difference? And what would you expect from averaging two
# translators that were trained from different seeds?

# %% [markdown] explain="explain_average"
# Averaging mixes entry 7 of one model with entry 7 of the other. That makes sense only if entry 7 does the same work in
# both. Checkpoints of one run come from the same start and have moved little since, so their entries correspond, and the
# differences are mostly the trembling of single batches, which cancels out. In the renumbered model the same features have other
# numbers, so weights of different features are mixed, and what comes out is neither. Two runs from different seeds
# number their features differently (they may also have found different ones), so I expect the average to be bad.
# (To combine them one would average their predictions, not their weights: an ensemble, which costs two runs.)
#
# ### BEGIN MARK SCHEME
# - 1 point: averaging is entry by entry, so the same entry has to play the same part in both models.
# - 1 point: late checkpoints of one run lie close together; their differences are noise that cancels out.
# - 1 point: different seeds number (or find) features differently, so their average is bad.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>Does beam search find the likeliest sentence?</summary>
#
# Not surely. A beginning that is dropped may have been that of the best sentence. Only a beam that drops nothing finds
# it for certain. For a single step left, or a beam as wide as all beginnings, it does.
#
# </details>
#
# <details><summary>My search sets finished sentences aside and fills their places. Is that wrong?</summary>
#
# No, that is the other common way. Here a finished sentence keeps its place in the beam; there it goes into a list of its
# own, and the beam stays full. The second looks at a few more beginnings. The check accepts both.
#
# </details>
#
# <details><summary>Why not simply divide by the length?</summary>
#
# Many programs do (with a power of alpha). The 5 softens the formula for short sentences, where one word more or
# less would change the quotient a lot.
#
# </details>
#
# <details><summary>Why is the penalty used at the end and not in each step?</summary>
#
# Among beams that go on it would change nothing: they have the same length. One that has ended does compete with longer
# ones in each step, and some programs compare the scores there already. In ours the plain total decides who stays, and the
# score decides who wins.
#
# </details>
#
# <details><summary>Chatbots do not use beam search. Why?</summary>
#
# A translation has few good answers, and the likeliest is a good guess. A story has a million, and the likeliest is
# dull and repeats itself. There one *samples*: draws the next word by its probability, often from the best few only.
#
# </details>
#
# <details><summary>How slow is it?</summary>
#
# A beam of 4 makes the decoder's batch four times as large, and the encoder runs once as before. On a GPU that is often
# not fully used, four beams cost less than four times the time. What really wastes time here is that each step computes
# the whole beginning anew; a key-value cache avoids that.
#
# </details>
#
# <details><summary>Is averaging checkpoints the same as an ensemble?</summary>
#
# No. An ensemble averages the *predictions* of several models and has to run all of them. Averaged checkpoints are one
# model.
#
# </details>
#
# ## Where you are

# %% tags=["see"]
architecture_map(built=exercises_through(11))

# %% [markdown]
# From the root of $d_k$ to a translator that searches: all but two boxes are filled in. Before you hand the lesson in,
# press **Validate** in the toolbar: it runs the notebook from top to bottom, as the grader will.
#
# Next: **lesson 12, data parallelism by hand**: many processors, one model.
