# %% [markdown]
# # Lesson 11: decoding
#
# A trained model doesn't translate. It answers one question: *given this source and this prefix, how likely is each
# word to come next?* Turning these answers into a translation is a **search**, and greedy decoding (lesson 06) is the
# simplest one.
#
# The paper's results use a better search, **beam search**, and a trick that costs nothing: instead of the final weights
# alone, it uses the **average** of the last few *checkpoints*, copies of the weights that were saved during training.
# You build both.
#
# By the end you will be able to
#
# - read a translation word by word: what the model considers, and which source words it attends to,
# - implement beam search for a whole batch of sentences,
# - explain how the length penalty and the width of the beam change a translation, and choose both,
# - average checkpoints, whatever types of numbers they hold.
#
# **Time:** about two and a half hours. **In [the paper](https://arxiv.org/abs/1706.03762):** section 6.1, which takes
# the length penalty from Wu et al. 2016, [Google's Neural Machine Translation
# System](https://arxiv.org/abs/1609.08144).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    beam_tree,
    layers_and_heads,
    named_lines,
    show_offline,
    word_by_word,
)
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(built=finished_exercises(), current=["length_penalty", "beam_search", "average_checkpoints"])

# %% given="setup"
import copy
import math
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
    scaled_dot_product_attention,
    shift_target,
    train_step,
)
from course_lib.transformer.batching import collate, token_batches
from course_lib.transformer.vocabulary import build_vocabulary
from course_lib.translation.data.corpora import load_captions

# %% [markdown]
# ## 1. A trained translator, word by word
#
# The next cell trains a small translator on the course's 6,000 captions. Its tokens are whole words, and it is a
# Transformer with one layer and 64 features, trained for 360 updates. The cell takes about ten seconds on an idle
# laptop, and keeps a copy of the weights every 20 updates: a **checkpoint**.

# %% tags=["see"]
torch.set_num_threads(1)  # a model this small trains faster with a single thread

PAD, START, END = 0, 1, 2
SIZES = {"layers": 1, "d_model": 64, "heads": 4, "d_ff": 128, "dropout": 0.0, "norm_first": True}


def words_of(text):
    return text.lower().replace(".", " .").replace(",", " ,").split()


def pairs_of(text):
    return [(words_of(left), words_of(right)) for left, right in zip(text.german, text.english, strict=True)]


captions = load_captions()
pairs = {name: pairs_of(getattr(captions, name)) for name in ("train", "validation", "test")}
specials = ["<pad>", "<start>", "<end>"]
german = build_vocabulary((source for source, _ in pairs["train"]), 1, specials)
english = build_vocabulary((target for _, target in pairs["train"]), 1, specials)
spelled = list(english)


def batch_of(chosen):
    ids = [([german[word] for word in reads], [english[word] for word in writes]) for reads, writes in chosen]
    return collate(ids, PAD, START, END, max_length=32)


lengths = [len(target) + 2 for _, target in pairs["train"]]
batches = [batch_of([pairs["train"][index] for index in batch]) for batch in token_batches(lengths, 900)]

torch.manual_seed(0)
translator = Transformer(len(german), len(english), TransformerConfig(**SIZES))
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
# Does it translate? These captions are from the test split: the model knows their words, but has never seen the
# sentences.
#
# **Change something:** translate other captions, such as `[5:10]`.

# %% tags=["see"]
MAX_LENGTH = 28


def text_of(row):
    return " ".join(spelled[index] for index in row.tolist()[1:] if index != END)


some = pairs["test"][:5]
source, _ = batch_of(some)
found = greedy_decode(translator, source, padding_mask(source, PAD), MAX_LENGTH, START, END)
for (read, right), row in zip(some, found, strict=True):
    print("reads:    ", " ".join(read))
    print("writes:   ", text_of(row))
    print("reference:", " ".join(right), "\n")

# %% [markdown]
# <details><summary>What changes?</summary>
#
# In our run, two of these five translations equal their references. The others read like captions, but are wrong: one
# loses the tennis ball, and one is *a broken table is hanging a broken lamp over the table*.
#
# </details>
#
# ### See it: what a trained model considers
#
# Let's follow one caption slowly: *In einem kleinen Restaurant hängt eine hungrige Frau ein Bild auf*, "a hungry woman
# is hanging up a picture in a small restaurant". The German sentence puts the place first, and splits the verb in two:
# *hängt … auf*.
#
# Each row below is a step of the decoder. It shows the four likeliest next words with their probabilities, with a frame
# around the word that was written, and on the right the source word to which cross-attention gave the most weight (the
# mean over the four heads).
#
# Ask at each row:
#
# 1. **Where does it look?** The translation begins with the *sixth* German word. How does the model get there? Which
#    words does it look at for *hanging*, and for *up*?
# 2. **How sure is it?** Find the step with the lowest probability in the frame. Which other words compete there?
# 3. **Does it ever give a word much more than 0.9?** It was trained with a smoothing of 0.1 (lesson 08).
#
# **Change something:** change `number` to look at another caption. For the half-trained model, load `checkpoints[120]`
# instead of `checkpoints[360]`.

# %% tags=["see"]
seen = []


def recording(query, key, value, mask=None, dropout=None):
    """Attend as usual, and record the weights."""
    result, weights = scaled_dot_product_attention(query, key, value, mask, dropout)
    seen.append(weights[0].detach())
    return result, weights


number = 20
read, right = pairs["test"][number]
watched = Transformer(len(german), len(english), TransformerConfig(**SIZES, attention=recording))
watched.load_state_dict(checkpoints[360])
source, _ = batch_of([(read, right)])
written = greedy_decode(watched, source, padding_mask(source, PAD), MAX_LENGTH, START, END)
seen.clear()
with evaluating(watched):
    logits = watched(source, padding_mask(source, PAD), written[:, :-1], causal_mask(written.shape[1] - 1))
of_encoder, of_decoder, crossing = seen

best = logits[0].softmax(dim=-1).topk(4)
source_words = ["<start>", *read, "<end>"]
target_words = [spelled[index] for index in written[0, 1:].tolist()]
looked = crossing.mean(dim=0).max(dim=-1)
word_by_word(
    [
        {spelled[index]: chance for index, chance in zip(indices, chances, strict=True)}
        for indices, chances in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ],
    target_words,
    [
        (source_words[index], weight)
        for index, weight in zip(looked.indices.tolist(), looked.values.tolist(), strict=True)
    ],
)

# %% [markdown]
# Most content words look at their counterparts, wherever these are, some with nearly all their weight. Words such as
# *is* have no counterpart here. But attention weights must sum to 1, so theirs are spread out, or go to the start or
# the end token. Nor does every word need its counterpart: *up* barely looks at *auf*, because after *hanging* it is
# easy to predict without the source. And even a word that the model is sure of stays near 0.9, the target that
# smoothing gave it.
#
# <details><summary>What changes?</summary>
#
# The half-trained model is sure of frequent words such as *a* and *is*, but of few others. In our run, its best guess
# after *is* gets a probability of only 0.13, and it writes *a woman is lying on a big garden chair*.
#
# </details>
#
# ### See it: all heads of the cross-attention
#
# The mean hides what each head does, so here is the same caption head by head. The rows are the English words that
# the model is about to write, the columns are the German ones. Click a head in the overview below the picture: the
# darker it is, the more it concentrates on single words.
#
# Do the heads look at the same words? Where the two languages order their words differently,
# do the dark cells leave the diagonal?
#
# **Change something:** draw `of_encoder` in place of `crossing`, with `source_words` on both sides: which German words
# look at each other? For the decoder's own words, use `of_decoder` and `["<start>", *target_words[:-1]]`.

# %% tags=["see"]
layers_and_heads(
    crossing.unsqueeze(0),
    target_words,
    source_words,
    title="Cross-attention: which German words does each English word attend to?",
)

# %% [markdown]
# Nobody told the model which German word belongs to which English one; knowing it makes the next word easier to
# predict. Before attention, a recurrent network had to squeeze a whole sentence into one vector, and long sentences
# suffered. Bahdanau et al. ([2014](https://arxiv.org/abs/1409.0473)) let their decoder look back at every source word,
# and published pictures like this one. The Transformer kept that idea without the recurrence.
#
# But attention weights only show where information *may* come from, not that the model used it.
#
# <details><summary>What changes?</summary>
#
# The encoder spreads its weight widely: a row's largest weight is about 0.25 on average, compared with 0.7 in
# cross-attention. Even *hängt* and *auf*, parts of one verb, barely look at each other. In the decoder's picture, the
# causal mask leaves later words empty.
#
# </details>
#
# ## 2. Where greedy decoding goes wrong
#
# What is the best translation $y$ of a source $x$? A natural answer: the one that the model finds most probable. The
# model gives the probability of a sentence word by word, each given the prefix before it:
#
# $$P(y \mid x) = \prod_{t=1}^{n} P(y_t \mid y_1, \dots, y_{t-1}, x)
# \qquad \ln P(y \mid x) = \sum_{t=1}^{n} \ln P(y_t \mid y_1, \dots, y_{t-1}, x)$$
#
# where $y_t$ is the $t$-th word after the start token, and $n$ is the number of these words, **including the end
# token**, which the model has to write like any other. Programs use the form on the right: a product of many small
# numbers underflows to zero; the sum of their logarithms doesn't.
#
# Greedy decoding picks the best factor at each step, which may lead to a prefix that has no good continuation. Here
# is a model that writes two words:
#
# | first word | probability | second word, and its probability after the first |
# |---|---|---|
# | **a** | 0.6 | **dog** 0.4, **cat** 0.35, **man** 0.25 |
# | **the** | 0.4 | **dog** 0.9, **cat** 0.06, **man** 0.04 |

# %% predict="predict_beam_of_two"
# A search keeps both first words, and extends each by every second word in the table. What is the probability
# of the best two-word sentence that it finds?

# %% check="predict_beam_of_two"

# %% [markdown]
# Greedy decoding starts with **a**, and ends with "a dog", which has a probability of $0.6 \cdot 0.4 = 0.24$. It finds
# out one step too late that **the** was the better start.
#
# Trying all sentences is impossible: with a vocabulary of $V$ words, there are $V^n$ sentences of $n$ words. **Beam
# search** keeps a few prefixes, the most probable ones so far, and extends each of them. A prefix with its score is
# called a **hypothesis**.
#
# Speech recognisers have used beam search since the 1970s. Sutskever et al. ([2014](https://arxiv.org/abs/1409.3215))
# used it for the first large neural translators, and noticed that a beam of two already gave most of the gain.
#
# ## 3. The length penalty
#
# "The most probable translation" has a catch: each additional word multiplies the probability by a number below one,
# so a translation that stops too early may be more probable than a complete one. Therefore hypotheses are compared by
# a *score*. Wu et al. divide the log-probability by a number that grows with the length:
#
# $$\mathrm{score}(y) = \frac{\ln P(y \mid x)}{\mathrm{lp}(n)} \qquad
# \mathrm{lp}(n) = \left(\frac{5 + n}{6}\right)^{\alpha}$$
#
# | symbol | in code | what it is |
# |---|---|---|
# | $n$ | `length` | the number of words after the start token, including the end token |
# | $\alpha$ | `alpha` | how strongly length is compensated for: 0 means not at all; the paper uses 0.6 |
# | $\mathrm{lp}$ | `length_penalty` | the divisor; 1 if $n$ is 1, whatever $\alpha$ is |
#
# Log-probabilities are **negative**, so dividing by a larger number brings them closer to zero: the "penalty" *helps*
# long sentences. And the **best score is the largest**, the one closest to zero.
#
# Why this formula? Wu et al. first divided by $n$, then by a power $n^\alpha$, and found an $\alpha$ of 0.6 to 0.7
# best. The formula with the 5, which is gentler for short sentences, worked better still on their data. Wu et al. also
# add a term that rewards translations for covering the whole source; it isn't in the Transformer paper.
#
# ### Worked example: two hypotheses
#
# Hypothesis A has 4 words and a log-probability of -3. Hypothesis B has 10 words and -3.6. Which one wins, without a
# penalty and with an alpha of 0.6?

# %% tags=["see"]
for name, words, log_p in [("A", 4, -3.0), ("B", 10, -3.6)]:
    plus_five = words + 5
    sixths = plus_five / 6
    powered = math.pow(sixths, 0.6)
    print(f"{name}: {words} words + 5 = {plus_five};  {plus_five} / 6 = {sixths:.2f};", end="  ")
    print(f"to the power of 0.6: {powered:.3f};  score {log_p} / {powered:.3f} = {log_p / powered:.3f}")

# %% [markdown]
# Without a penalty A wins; with it B wins.
#
# A scratch cell: how probable must B be to win with an alpha of 0.2? Raise the -3.6 until it does.

# %% tags=["see"]
alpha = 0.2
print("A:", -3.0 / math.pow(9 / 6, alpha))
print("B:", -3.6 / math.pow(15 / 6, alpha))

# %% predict="predict_score"
# A translation has a log-probability of -12 and 49 words, including the end token. Alpha is 0.5.
# What is its score?

# %% check="predict_score"

# %% [markdown]
# ### Build it
#
# One line is enough.

# %% build="length_penalty"
### BEGIN SOLUTION course_lib.transformer.decoding:length_penalty

# %% [markdown]
# A scratch cell: the hypotheses A and B. You should get the scores of the worked example.

# %% tags=["see"]
print("A:", -3.0 / length_penalty(4, 0.6))
print("B:", -3.6 / length_penalty(10, 0.6))

# %% [markdown] hints="length_penalty"

# %% check="length_penalty"

# %% [markdown]
# ### See it: what a word may cost
#
# A translation of ten words has a log-probability of -5. How low may the log-probability of a longer one be for the
# same score? The lines show this break-even point.
#
# **Change something:** use an alpha of 2. What may each *additional* word cost then?

# %% tags=["see"]
rows = []
for alpha in [0.0, 0.6, 1.0, 1.5]:
    for length in range(5, 31):
        break_even = -5 * length_penalty(length, alpha) / length_penalty(10, alpha)
        rows.append((f"alpha {alpha}", length, break_even))

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="words, including the end token",
    up="log-probability at break-even",
    title="As good as ten words with a log-probability of -5",
)

# %% [markdown]
# With an alpha of 0 the line is flat: a longer sentence must be just as probable, although it has more words to pay
# for. With an alpha of 1 it is straight, so each additional word may cost the same. The paper's 0.6 is in between.
#
# <details><summary>What changes?</summary>
#
# With an alpha of 2 the line bends downwards: the eleventh word may cost 0.7, and the thirtieth 1.5. Above an alpha of
# 1, each additional word may cost more than the one before it.
#
# </details>
#
# ## 4. Beam search
#
# Keep the $k$ best hypotheses of each sentence. As in many programs, each of them is called a **beam**; they are
# numbered from 0. The number $k$ is the **width** of the search, `beam` in the code: "a beam of 4" means $k = 4$. The
# **total** of a beam is its log-probability: the sum of the log-probabilities of its words. In each step:
#
# 1. Ask the model for the next word of every beam. Each beam with each possible next word is a **candidate**.
# 2. The total of a candidate is the total of its beam plus the log-probability of the new word.
# 3. Of all candidates **of a sentence**, keep the $k$ with the highest totals. A good beam may have several
#    successors, a bad one none.
#
# At the end, the hypothesis with the best *score* wins, whether or not it has ended.
#
# ### Worked example: two beams, three words
#
# Let's search by hand. The words are `<end>`, `ha` and `ho`. Here the next word depends only on the
# last one:
#
# | after | `<end>` | `ha` | `ho` |
# |---|---|---|---|
# | `<start>` | 0.1 | 0.5 | 0.4 |
# | `ha` | 0.3 | 0.5 | 0.2 |
# | `ho` | 0.9 | 0.05 | 0.05 |
#
# Step 1 keeps `ha` (0.5) and `ho` (0.4). Here is step 2, with probabilities, which are easier to follow; your
# function adds logarithms.

# %% tags=["see"]
vocabulary = ["<end>", "ha", "ho"]
hypotheses, chances = ["ha", "ho"], torch.tensor([0.5, 0.4])
next_word = torch.tensor([[0.3, 0.5, 0.2], [0.9, 0.05, 0.05]])  # a row for each beam

candidates = chances[:, None] * next_word
print("candidates, a row for each beam:", candidates, sep="\n")
in_one_row = candidates.reshape(-1)
print("in one row:", in_one_row)
chances, where = in_one_row.sort(descending=True)
chances, where = chances[:2], where[:2]
print("the two best:", chances, "at", where)
for index in where.tolist():
    parent, word = divmod(index, len(vocabulary))
    print(f"number {index}: beam {parent} ({hypotheses[parent]}) + word {word} ({vocabulary[word]})")

# %% [markdown]
# The new beam 0 is `ho <end>`, which comes from the *old beam 1*.
#
# In step 3, `ho <end>` has ended, but stays in the competition with its 0.36. The other beam, `ha ha` (0.25), can reach
# $0.25 \cdot 0.5 = 0.125$ at most, so `ho <end>` wins. Greedy decoding would have written `ha ha ha ...` until it ran
# into the maximum length.
#
# A scratch cell: what does the search keep in step 2 if `ho` ends with a probability of only 0.5? Which are the three
# best of the six candidates?

# %% tags=["see"]
chances = torch.tensor([0.5, 0.4])
next_word = torch.tensor([[0.3, 0.5, 0.2], [0.5, 0.25, 0.25]])
(chances[:, None] * next_word).reshape(-1).sort(descending=True)

# %% [markdown]
# ### Five things to get right
#
# **The first step.** At the beginning there is one hypothesis, the start token. If $k$ copies of it were extended, they
# would all pick the same best word and stay identical: an expensive greedy search. So give the first copy a total of 0,
# and the others minus infinity. (This also works if the beam is wider than the vocabulary, which is allowed: the single
# start token then has fewer than $k$ continuations.)
#
# **Where a candidate comes from.** Put the $k \cdot V$ candidates of a sentence in one row. Candidate number $i$ extends
# beam $i \,//\, V$ with word $i \bmod V$.
#
# **Everything that belongs to a beam moves with it.** If the new beam 0 comes from the old beam 1, so do its words,
# its length and whether it has ended.
#
# **Hypotheses that have ended.** A beam that has written the end token stays in the competition. From then on it can
# only be extended by end tokens, at no cost, and its length stays the same.
#
# **A batch.** $B$ sentences with $k$ beams each are $B \cdot k$ rows for the decoder: first all beams of sentence 0,
# then all of sentence 1. Encode once, and repeat the *memory* and its *mask* in that order. `repeat_interleave` does
# that; `repeat` doesn't. (If a single mask of shape (1, 1, source length) serves all sentences, first give each
# sentence its own row with `expand`. The check doesn't test this.) Sentences never compete with each other.
#
# The result has the format of `greedy_decode`: each row begins with `start_id`, contains only `end_id` after its end,
# and has at most `max_length` tokens, including the start. There is no dropout and no gradient, and afterwards the
# model is in the same mode as before: use `evaluating`.
#
# **When to stop** is up to you. The simplest rule is to stop when all beams have ended, or at `max_length`. Some
# programs stop earlier, when no unfinished beam is likely to win. (The paper allows 50 tokens more than the source has,
# and stops early when possible: section 6.1.)

# %% predict="predict_candidates"
# A beam of 4 and a vocabulary of 8,000 words. One of the four beams has ended. How many candidates of this sentence
# have a total above minus infinity?

# %% check="predict_candidates"

# %% [markdown]
# ### Build it
#
# This is the longest function in the course. Write it on paper first, for one sentence and two beams.

# %% build="beam_search"
### BEGIN SOLUTION course_lib.transformer.decoding:beam_search

# %% [markdown]
# A scratch cell: the worked example as a model. A beam of 1 should find `ha ha ha ha ha`, and a beam of 2 `ho <end>`,
# perhaps followed by more end tokens. What does a beam of 2 find if `ho` ends with a probability of only 0.5? (Change
# the third row of `after` to 0.5, 0.25, 0.25.)


# %% tags=["see"]
class Laughing(torch.nn.Module):
    """A model in which the next word depends on the last one only."""

    # The words are <end>, ha and ho; id 3 is <start>.
    after = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.5, 0.2], [0.9, 0.05, 0.05], [0.1, 0.5, 0.4]])

    def encode(self, source, source_mask):
        return source.unsqueeze(-1)

    def decode(self, memory, source_mask, target, target_mask):
        return target.unsqueeze(-1)

    def generator(self, hidden):
        return self.after[hidden.squeeze(-1)].log()


one_word, not_padding = torch.tensor([[1]]), torch.tensor([[[True]]])
for beam in [1, 2]:
    ids = beam_search(Laughing(), one_word, not_padding, beam, max_length=6, start_id=3, end_id=0, alpha=0.0)
    print(f"a beam of {beam}:", *[vocabulary[index] for index in ids[0, 1:].tolist()])

# %% [markdown] hints="beam_search"

# %% check="beam_search"

# %% [markdown]
# ### See it: the beam as a tree
#
# Each prefix that your search keeps goes through the decoder's embedding. A hook (lesson 06) on the embedding records
# them all, and afterwards we ask the model how probable each one is.
#
# The cell takes the model after 200 updates, which is still unsure of many words. It looks for a short caption whose
# translation by beam search equals the reference, while greedy decoding's differs. (Computers round differently, so
# yours may find another caption, or report that it found none.) Hypotheses that end in the last step don't go through
# the decoder again, so the hook doesn't record them; of these, the cell adds only the winner to the picture.
#
# Each row is a step, with the most probable prefix on the left. In which steps is the winner's box not the leftmost
# one? Where does greedy decoding take another path?
#
# **Change something:** use a beam of 2, or of 6. Then use the model after 360 updates: what does the tree of a
# confident model look like?


# %% tags=["see"]
def model_after(update):
    model = copy.deepcopy(translator)
    model.load_state_dict(checkpoints[update])
    return model


def log_probability(trained, source, ids):
    """Return the log-probability of each row of ids, up to its end token."""
    with evaluating(trained):
        logits = trained(source, padding_mask(source, PAD), ids[:, :-1], causal_mask(ids.shape[1] - 1))
    of_words = logits.log_softmax(dim=-1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    return of_words.masked_fill(ids[:, :-1] == END, 0.0).sum(dim=1)


def watched_search(model, source, beam, alpha):
    """Search, and record every prefix that goes through the decoder."""
    seen = set()
    hook = model.target_embedding.register_forward_pre_hook(
        lambda module, given: seen.update(tuple(row) for row in given[0].tolist())
    )
    ids = beam_search(model, source, padding_mask(source, PAD), beam, MAX_LENGTH, START, END, alpha)
    hook.remove()
    return ids, seen


def to_the_end(ids):
    """Return the ids up to the first end token."""
    return tuple(ids[: ids.index(END) + 1]) if END in ids else tuple(ids)


model, beam, alpha = model_after(200), 4, 0.6
for read, right in pairs["test"][:100]:
    source, _ = batch_of([(read, right)])
    greedy = greedy_decode(model, source, padding_mask(source, PAD), MAX_LENGTH, START, END)
    ids, seen = watched_search(model, source, beam, alpha)
    if text_of(ids[0]) == " ".join(right) != text_of(greedy[0]) and len(right) < 17:
        break
else:
    print("No caption fits, so this is the last one that was tried.\n")

winner = to_the_end(ids[0].tolist())
kept = seen | {winner[:count] for count in range(2, len(winner) + 1)}
totals = {
    tuple(spelled[index] for index in row[1:]): log_probability(model, source, torch.tensor([row])).item()
    for row in kept
    if len(row) > 1
}
print("reads:    ", " ".join(read))
print("greedy:   ", text_of(greedy[0]), f"({log_probability(model, source, greedy).item():.2f})")
print("beam:     ", text_of(ids[0]), f"({log_probability(model, source, ids).item():.2f})")
print("reference:", " ".join(right))

beam_tree(
    totals,
    [spelled[index] for index in winner[1:]],
    greedy=[spelled[index] for index in to_the_end(greedy[0].tolist())[1:]],
)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# Each row has at most 2 or 6 boxes, and the cell may find another caption. In our run with 360 updates and a beam of 4,
# the model hesitates mainly between *workers* and *worker*, and between *bench* and *wet bench*: the last prefixes in
# the tree are the combinations of these choices.
#
# </details>
#
# ### See it: wider beams
#
# If two beams are better than one, are eight better than four? The models after 120 and after 360 updates translate
# the same 60 captions; a beam of 1 is greedy decoding. For each width the table shows how probable the translations
# are on average, how long they are, and how good they are by **BLEU**, a score up to 100 that compares them with
# reference translations. (The final lab explains it. Here everything is in lower case and split into our own tokens,
# so compare these numbers only with each other.)
#
# Guess before you run it: which columns go up as the beam gets wider, and which go down?
#
# **Change something:** add a beam of 16, which takes longer. Then use an alpha other than 0.

# %% tags=["see"]
some = pairs["test"][:60]
source, target = batch_of(some)
references = [" ".join(words) for _, words in some]
reference_length = ((target != PAD).sum() - 2 * len(some)).item() / len(some)


def tried(model, beam, alpha):
    ids = beam_search(model, source, padding_mask(source, PAD), beam, MAX_LENGTH, START, END, alpha)
    bleu = corpus_bleu([text_of(row) for row in ids], [references], tokenize="none", force=True)
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
print(f"the reference translations have {reference_length:.2f} words on average")
table

# %% [markdown]
# The wider the beam, the more probable the sentences, as you would expect. But beyond some width they also get
# **shorter**, and BLEU falls. With the model that was trained longer, plain greedy decoding even has the highest BLEU
# of its four rows.
#
# <details><summary>What changes?</summary>
#
# In our run, a beam of 16 continues the trend for the half-trained model (10.2 words, 24 BLEU), and hardly changes
# anything for the other one. With an alpha of 1, the translations are longer, and wide beams lose hardly any BLEU.
#
# </details>
#
# This isn't a fault of the search: the most probable sentence tends to be a short one. Two things make that worse here.
# These captions could often end early and still be good English, as in "a farmer is pointing at a beautiful tree ~~that
# is on the hill~~". And a model trained with smoothing learns to give no word much more than 0.9, so every word costs
# something:

# %% tags=["see"]
surest = 1 - 0.1 + 0.1 / len(english)
print(f"a model that is sure of a word gives it about {surest:.4f}, which costs {-math.log(surest):.3f} nats")
print(f"{reference_length:.1f} such words and the end: {-math.log(surest) * (reference_length + 1):.2f}")

# %% [markdown]
# Large models have the same problem, one of the six challenges of neural translation listed by Koehn and Knowles
# ([2017](https://arxiv.org/abs/1706.03872)). Stahlberg and Byrne ([2019](https://arxiv.org/abs/1908.10090)) searched
# exhaustively, and found that for more than half of their sentences the most probable translation of all was the
# *empty* one. A narrow beam helps partly because it never finds such translations.
#
# ### See it: length penalty against output length
#
# **Change something:** add more values of alpha. At which alpha does each model write sentences of the right length?

# %% tags=["see"]
alphas = [0.0, 0.6, 1.0, 1.5, 2.0]
rows = []
for update in [120, 360]:
    model = model_after(update)
    for alpha in alphas:
        result = tried(model, 4, alpha)
        rows.append((f"after {update} updates", alpha, result["words"] / reference_length))
        print(f"after {update} updates, alpha {alpha}: {result['words']} words, BLEU {result['BLEU']}")
rows += [("reference", alpha, 1.0) for alpha in alphas]

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="alpha",
    up="length compared with the references",
    title="How long are the translations?",
    dashed=["reference"],
)

# %% [markdown]
# With an alpha of 0 both models write too little, the less trained one even less: it is less sure of every word, so
# each additional word costs more log-probability. A larger alpha brings the length back, and with it the BLEU that the
# beam had lost.
#
# <details><summary>What changes?</summary>
#
# In our run, the half-trained model reaches the length of the references at an alpha of about 2, and the other one at
# about 2.5. With an alpha of 4 both write too many words, and BLEU falls again.
#
# </details>
#
# Compare the best of these numbers with greedy decoding in the table above. For the well-trained model a beam with the
# right alpha is about as good as greedy decoding. (On sixty captions, a difference of one point says little.) This
# model is rarely in doubt, because the captions come from a small grammar, so there is little for a search to repair.
# The half-trained model is in doubt at every step, and the beam helps. It also helps with real text, where many words
# could come next.
#
# The paper chose its beam of 4 and its alpha of 0.6 "after experimentation on the development set". Do the same:
# choose such **hyperparameters** (settings that training doesn't learn) on the *validation* split, never on the split
# whose score you report. (Here we looked at test captions, so we couldn't report these numbers.)
#
# ### Explain it
#
# A fellow student says: "I raised the beam from 4 to 100. The log-probability of my translations went up, so the
# search works better, but BLEU went down. There must be a bug in my beam search." What do you answer? Say why the
# translations are more probable, why they are worse, and what to try.

# %% [markdown] explain="explain_width"
# It isn't necessarily a bug. A wider beam drops fewer prefixes, so it finds more probable sentences: that is its purpose.
# But each word multiplies the probability by a number below one, so the most probable sentences tend to be too short,
# and a wider beam finds more of them. BLEU compares them with human translations and punishes missing words. Compare
# the lengths of the translations, divide by a length penalty, and choose alpha and the width of the beam on the
# validation split.
#
# ### BEGIN MARK SCHEME
# - 1 point: a wider beam searches better, so it finds sentences with a higher log-probability.
# - 1 point: more probable isn't better: every word lowers the probability, so the most probable sentences are too short.
# - 1 point: what to do, half a point for each of two: compare lengths; use a length penalty; choose alpha and beam on
#   validation data.
# ### END MARK SCHEME

# %% [markdown]
# ## 5. One model out of several
#
# During training the loss goes down, but it also jitters: each update follows one batch, and the next batch pulls
# somewhere else. So the weights are a little off, each time in a different direction. The remedy is to average each
# weight over several checkpoints:
#
# $$\bar\theta = \frac{1}{m} \sum_{i=1}^{m} \theta_i$$
#
# where $m$ is the number of checkpoints, $\theta_i$ are all the weights of checkpoint $i$, and $\bar\theta$ are the
# averaged weights. The jitter averages out, and the result is **one** model, as large and as fast as each of them. The
# paper averages the last 5 checkpoints of its base models, written ten minutes apart, and the last 20 of its big ones.
#
# The idea is old (Polyak and Juditsky 1992). It came back as *stochastic weight averaging* (Izmailov et al. 2018),
# and as the moving average of weights in many image generators.
#
# ### Worked example: two checkpoints
#
# A **state dict** maps names to tensors. Here are two small ones.

# %% tags=["see"]
first = {"weight": torch.tensor([1.0, 4.0]), "steps": torch.tensor(10)}
second = {"weight": torch.tensor([3.0, 8.0]), "steps": torch.tensor(21)}
added = first["weight"] + second["weight"]
print("sum of the weights:", added)
print("divided by two:    ", added / 2)
print("the counters:      ", first["steps"].dtype, "and", second["steps"].dtype)
print("their plain mean:  ", (first["steps"] + second["steps"]) / 2, "is no longer an integer")

# %% [markdown]
# There are two traps:

# %% tags=["see"]
half = torch.tensor(60_000.0, dtype=torch.float16)
print("60,000 + 60,000 in float16:", half + half)
print("the same in float64:       ", half.double() + half.double())

total = first["weight"]
total += second["weight"]
print("first['weight'] is now", first["weight"], "although nobody meant to change it")

# %% [markdown]
# Watch out for four things; the last two are the traps that you have just seen:
#
# - **Not all entries are floats.** Some modules keep counters or booleans. Don't average these: take them from the last
#   checkpoint. (The check also accepts the first one's, or the rounded mean.)
# - **Buffers count as well.** A running mean isn't a parameter, but belongs to the model.
# - **Small dtypes overflow.** The largest number in float16 is 65,504. Add in a wide dtype, then convert to the
#   entry's own.
# - **The checkpoints aren't yours to change.** The result must not share memory with them, even if there is only one.
#
# A scratch cell: what does `torch.finfo` say about `torch.bfloat16`? What happens to 256 + 1 in that dtype?

# %% tags=["see"]
print(torch.finfo(torch.float16).max, torch.finfo(torch.bfloat16).max)
print(torch.tensor(256.0, dtype=torch.bfloat16) + 1)

# %% [markdown]
# ### Build it

# %% build="average_checkpoints"
### BEGIN SOLUTION course_lib.transformer.averaging:average_checkpoints

# %% [markdown]
# A scratch cell: the worked example. (The second trap has changed `first`, so here it is again.) The weights should
# be 2 and 6, and the counter 21 (or another value that the check accepts). Is `first` still the same afterwards?

# %% tags=["see"]
first = {"weight": torch.tensor([1.0, 4.0]), "steps": torch.tensor(10)}
print(average_checkpoints([first, second]))
print(first)

# %% [markdown] hints="average_checkpoints"

# %% check="average_checkpoints"

# %% [markdown]
# ### See it: the loss of averaged checkpoints
#
# The picture shows the loss on 150 validation captions, without smoothing: for each checkpoint from the fifth on, and
# for the average of it and the four before it.
#
# Is the average always better? If not, when, and why?
#
# **Change something:** set `count` to 2 or to 10. Then train again with a rate that falls to 0: in the training cell,
# replace `min(1.0, (done + 1) / 50)` with `min(1.0, (done + 1) / 50, (361 - done) / 180)`. Does averaging help as much
# when there is less jitter? (Afterwards undo this and train again, because the rest of the lesson uses that model.)

# %% tags=["see"]
unsmoothed = LabelSmoothingLoss(len(english), PAD, smoothing=0.0)
valid_source, valid_target = batch_of(pairs["validation"][:150])


def validation_loss(state):
    judged = copy.deepcopy(translator)
    judged.load_state_dict(state)
    decoder_input, labels = shift_target(valid_target)
    with evaluating(judged):
        logits = judged(
            valid_source, padding_mask(valid_source, PAD), decoder_input, decoder_mask(decoder_input, PAD)
        )
        return unsmoothed(logits, labels).item()


count = 5
updates = list(checkpoints)
rows = []
for newest in range(count - 1, len(updates)):
    last = [checkpoints[update] for update in updates[newest - count + 1 : newest + 1]]
    rows.append(("a single checkpoint", updates[newest], validation_loss(last[-1])))
    rows.append((f"the average of {count}", updates[newest], validation_loss(average_checkpoints(last))))

print(f"at the end: a single checkpoint {rows[-2][2]:.3f}, the average {rows[-1][2]:.3f}")
named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="update of the newest checkpoint",
    up="validation loss",
    title="Does averaging help?",
    log=True,
)

# %% [markdown]
# Early in training the average is **worse**: the weights are still moving fast in one direction, and the average lags
# behind. Later they wander around a good point, and the average is closer to it than any of them. So average *late*
# checkpoints.
#
# <details><summary>What changes?</summary>
#
# In our run, the last average of 2 has a loss of 0.27, that of 5 has 0.25, and that of 10 has 0.31, because it reaches
# back too far. With the falling rate, averaging no longer helps: 0.31 with 5 checkpoints, and 0.30 with the last alone.
#
# </details>
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
# ### See it: when averaging does harm
#
# A second model computes **exactly** what the translator computes. The only difference is that the features inside its
# feed-forward networks and inside its attention are numbered backwards. To do this, the cell reverses the rows of the
# weights that compute these features, and the columns of the weights that read them.
#
# Write down your guess first: what is the loss of the average of the two models?
#
# **Change something:** renumber the feed-forward networks only: remove the projections from the two tuples.

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
# <details><summary>What changes?</summary>
#
# In our run, the average has a loss of about 0.38 instead of 1.95. Both models now have the same weights in their
# attention layers, so averaging changes only the feed-forward networks.
#
# </details>
#
# ### Explain it
#
# Two models with the same loss were averaged just now, and the average was much worse than either. The average of
# five checkpoints was better. What makes the difference? And what would you expect from averaging two translators
# that were trained from different seeds?

# %% [markdown] explain="explain_average"
# Averaging combines entry 7 of one model with entry 7 of the other. That makes sense only if entry 7 does the same
# job in both. Checkpoints of one run have the same start and have moved little since, so their entries correspond,
# and the differences between them are mostly the noise of single batches, which cancels out. In the renumbered model
# the same features have other numbers, so the weights of different features are mixed. Two runs from different seeds
# number their features differently (and may have found different ones), so I expect their average to be bad. (To
# combine them, one would average their predictions: an ensemble, which has to run both.)
#
# ### BEGIN MARK SCHEME
# - 1 point: averaging is entry by entry, so the same entry must have the same role in both models.
# - 1 point: late checkpoints of one run are close together; their differences are noise that cancels out.
# - 1 point: the average of different seeds is bad, because they number (or find) features differently; or because they
#   are different minima, with a high loss in between.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>Does beam search find the most probable sentence?</summary>
#
# Not necessarily: a prefix that is dropped may have been that of the best sentence. Only a search that drops nothing
# is certain to find it.
#
# </details>
#
# <details><summary>My search sets finished sentences aside and refills the beam. Is that wrong?</summary>
#
# No, that is the other common way. In the search above, a finished hypothesis stays in the beam. In yours, it goes into
# a separate list, and the beam stays full of unfinished ones, so your search explores a few more prefixes. The check
# accepts both.
#
# </details>
#
# <details><summary>Why is the penalty used at the end and not in each step?</summary>
#
# Among unfinished beams it would change nothing, because they all have the same length. A finished one does compete
# with longer ones in each step, and some programs compare scores there. In ours the plain total decides which
# hypotheses stay, and the score decides which one wins.
#
# </details>
#
# <details><summary>Chatbots don't use beam search. Why not?</summary>
#
# A sentence has few good translations, and the most probable one is a good guess. A story has countless ones, and the
# most probable is dull and repeats itself. So one *samples* instead: the next word is drawn according to its
# probability, often only from the likeliest few.
#
# </details>
#
# <details><summary>How slow is it?</summary>
#
# A beam of 4 makes the decoder's batch four times as large, which takes less than four times as long on a GPU that
# isn't fully used. The encoder runs once, as before. The real waste is that each step computes the whole prefix again
# (lesson 06).
#
# </details>
#
# <details><summary>Is averaging checkpoints the same as an ensemble?</summary>
#
# No. An ensemble averages the *predictions* of several models and has to run all of them.
#
# </details>
#
# ## Further reading
#
# - Section 6.1 of the paper, and section 7 of [Wu et al. 2016](https://arxiv.org/abs/1609.08144) for the length penalty
#   and the coverage term.
# - Freitag and Al-Onaizan 2017, [Beam Search Strategies for Neural Machine
#   Translation](https://arxiv.org/abs/1702.01806): pruning, for faster search.
# - Stahlberg and Byrne 2019, [On NMT Search Errors and Model Errors: Cat Got Your
#   Tongue?](https://arxiv.org/abs/1908.10090).
# - Holtzman et al. 2020, [The Curious Case of Neural Text Degeneration](https://arxiv.org/abs/1904.09751): why
#   open-ended text is sampled, and nucleus sampling.
# - Leviathan et al. 2023, [Fast Inference from Transformers via Speculative
#   Decoding](https://arxiv.org/abs/2211.17192): a small model proposes, the large one checks.
# - Izmailov et al. 2018, [Averaging Weights Leads to Wider Optima and Better
#   Generalization](https://arxiv.org/abs/1803.05407).
#
# ## Where you are
#
# Save the notebook, press **Validate**, and run the next cell.

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# Next: **lesson 12, data parallelism by hand**: many processes, one model.
