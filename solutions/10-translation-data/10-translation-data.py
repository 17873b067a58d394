# %% [markdown]
# # Lesson 10: from text to batches
#
# The model is built, and it can be trained. But it eats tensors of whole numbers, and what you have is text:
#
# > Weil es schneit, trägt der Mann einen neuen Mantel.
# >
# > Because it is snowing, the man is wearing a new coat.
#
# This lesson builds the way from one to the other. It looks like housekeeping, and it decides more than you
# would think: which words the model can write at all, and how much of your graphics card's work is spent on
# nothing.
#
# At the end of it you can
#
# - make a vocabulary, and say what becomes of a word that isn't in it,
# - learn subwords by byte-pair encoding, and say why German needs them even more than English,
# - put sentences into batches of which hardly anything is padding,
# - make the two tensors that the Transformer reads, with start and end where they belong.
#
# **Time:** about two hours and a half. **In the paper:** section 5.1 of Vaswani et al. 2017, [Attention Is All
# You Need](https://arxiv.org/abs/1706.03762).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    batch_tables,
    exercises_through,
    length_histograms,
    merge_steps,
    named_lines,
    padded_share,
    sentence_pieces,
    show_offline,
)

show_offline()
architecture_map(
    built=exercises_through(9), current=["build_vocabulary", "learn_merges", "token_batches", "collate"]
)

# %% [markdown]
# Run the next cell once. From lesson 04 there is `shift_target`, as the course's own version.

# %% given="setup"
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pandas as pd
import spacy
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from course_lib.checks import check
from course_lib.transformer import shift_target
from course_lib.translation.configs.schema import DataConfig
from course_lib.translation.data.corpora import Corpus, load_corpus
from course_lib.errors import BadInputError

# %% [markdown]
# ## 1. The text
#
# A **parallel corpus** is the same text in two languages, sentence by sentence. This course brings one along:
# 6,000 image captions in German and English, and some hundred more for validation and for the test. They were
# made by a program from a grammar and a small dictionary, so they are correct, but less colourful than what
# people write.
#
# If you have [Multi30k](https://github.com/multi30k/dataset), whose captions were written by people, name the
# folder with its files in the environment variable `COURSE_DATA` before you start JupyterLab. Then this lesson
# uses it. All that follows works with either, and the next cell says which it is.


# %% given="corpus"
def read_corpus() -> Corpus:
    folder = os.environ.get("COURSE_DATA")
    if folder:
        try:
            corpus = load_corpus(DataConfig(corpus="multi30k", mirror=folder))
        except BadInputError as error:
            print(f"COURSE_DATA cannot be used: {error}")
        else:
            print(f"The text is Multi30k, from {folder}.")
            return corpus
    print("The text is the corpus of captions that comes with the course.")
    return load_corpus(DataConfig(corpus="captions"))


corpus = read_corpus()
german, english = corpus.train.german[:6000], corpus.train.english[:6000]
for number in [4, 5, 7]:
    print()
    print(german[number])
    print(english[number])

# %% [markdown]
# ### Where does a word end?
#
# At the next space? Then `Mantel.` with its full stop is another word than `Mantel`, and `it's` is one word. So
# a **tokenizer** has rules: it takes punctuation off, but not that of `z. B.`, it cuts `isn't` into `is` and
# `n't`, and so on, for each language in its own way. The library [spaCy](https://spacy.io) has them for German
# and for English. `spacy.blank("de")` is the tokenizer alone: nothing is downloaded, no model is loaded.
#
# What a tokenizer gives is a list of **tokens**: the pieces of text that get numbers. For now a token is a word
# or a punctuation mark.

# %% tags=["see"]
german_tokenizer, english_tokenizer = spacy.blank("de"), spacy.blank("en")


def words_of(sentences: Sequence[str], tokenizer: spacy.Language) -> list[list[str]]:
    return [[token.text for token in tokenizer(sentence)] for sentence in sentences]


german_words = words_of(german, german_tokenizer)
english_words = words_of(english, english_tokenizer)
print(words_of(["Ein Fahrradhelm kostet z. B. 30 Euro, oder?"], german_tokenizer)[0])
print(words_of(["It isn't a bicycle helmet, or is it?"], english_tokenizer)[0])

# %% [markdown]
# ## 2. A number for each word
#
# The first layer of the model is a table with one row for each word (lesson 05), and a word's number says which
# row is its. The **vocabulary** is the dict that knows these numbers.
#
# Four entries of it aren't words of the text. They are the **special tokens**:
#
# | token | what it is for |
# |---|---|
# | `<pad>` | fills short sentences up to the length of the batch; all masks hide it (lesson 04) |
# | `<start>` | the first thing that the decoder reads, when it has not written anything yet |
# | `<end>` | the last thing that the decoder writes: "I am done" |
# | `<unknown>` | stands for every word that has no number of its own |
#
# They come **first**, so that their numbers don't depend on the text: padding is 0, today and after the next
# million sentences. Then come the words, the frequent before the rare. Equally frequent ones are ordered by
# spelling, as Python's `sorted` orders strings. That looks pedantic, but the numbers of a vocabulary are worth
# nothing if they are others tomorrow: a trained model knows its words by number alone.
#
# A word that occurs once in the whole text has been seen in one place, and its row of the table is adjusted
# about as often as the text is read. Such a row costs memory and means little. So there is a `min_count`: words
# that occur less often get no number, and are `<unknown>`.
#
# **One rule that is easily broken:** the vocabulary is made from the **training** sentences alone. What stands
# in the validation and the test sentences is not to be known, not even as a list of words.
#
# ### Build it
#
# A sentence is a list of words here. If one of the specials is spelled out in the text, it keeps the one number
# that it has.

# %% build="build_vocabulary"
### BEGIN SOLUTION course_lib.transformer.vocabulary:build_vocabulary

# %% [markdown] hints="build_vocabulary"

# %% check="build_vocabulary"

# %% tags=["see"]
SPECIALS = ["<pad>", "<start>", "<end>", "<unknown>"]
german_vocabulary = build_vocabulary(german_words, 1, SPECIALS)
print(f"German: {len(german_vocabulary):,} entries; the first of them: {list(german_vocabulary)[:12]}")
english_vocabulary = build_vocabulary(english_words, 1, SPECIALS)
print(f"English: {len(english_vocabulary):,} entries; the first of them: {list(english_vocabulary)[:12]}")

# %% [markdown]
# ### See it: what a small vocabulary costs
#
# How many words of *new* sentences are unknown? The cell builds vocabularies with a `min_count` of 1, 2, 5, 10,
# 20 and 50, and counts the unknown words in the validation sentences. Each point of a line is one vocabulary.
#
# **Change something:** use the first 500 sentences for the vocabularies: `german_words[:500]`,
# `english_words[:500]`. Now it matters which words the text happens to have.

# %% tags=["see"]
new_words = {
    "German": words_of(corpus.validation.german, german_tokenizer),
    "English": words_of(corpus.validation.english, english_tokenizer),
}
rows = []
for language, sentences in {"German": german_words, "English": english_words}.items():
    for min_count in [1, 2, 5, 10, 20, 50]:
        vocabulary = build_vocabulary(sentences, min_count, SPECIALS)
        new = [word for sentence in new_words[language] for word in sentence]
        unknown = sum(word not in vocabulary for word in new)
        rows.append((language, len(vocabulary), 100 * unknown / len(new)))

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="entries in the vocabulary",
    up="unknown, in %",
    title="The smaller the vocabulary, the more words are unknown",
)

# %% [markdown]
# With the captions of the course the lines end at zero, but only because these come from a small dictionary,
# all of whose words occur in training. People write otherwise. In 6,000 German captions of Multi30k there are
# 6,927 different words, and 4,197 of them occur once. Even with all of them in the vocabulary, **7.3%** of the
# words of its validation sentences are unknown: nearly one in each sentence. In English it is 3.6%. A
# translator that says `<unknown>` once a sentence is of little use.
#
# Why is German worse?
#
# - **Compounds.** German writes *bicycle helmet* as one word, *Fahrradhelm*, and makes new ones at will:
#   *Kinderfahrrad*, *Schneehut*. Every reader understands them, and no list holds them all.
# - **Endings.** English has *new*; German has *neu, neue, neuen, neuer, neues, neuem*. To a vocabulary these
#   are six words that have nothing to do with each other.
#
# More text helps only a little: however much you take, there are always words that occur once, and there always
# comes one that does not occur at all.

# %% [markdown]
# ## 3. Subwords
#
# You could give up words, and number **characters**. Nothing is ever unknown then. But the sentence above has
# 51 characters where it had 11 tokens, the cost of attention grows with the square of the length (lesson 01),
# and the model has to learn first that *M-a-n-t-e-l* means something.
#
# The way between is **subwords**: frequent words stay whole, rare ones are cut into pieces that are frequent.
# *Fahrradhelm* may become *Fahrrad* + *helm*, and whoever knows the pieces can guess the whole.
#
# Which pieces? Nobody writes them down. They are counted, by **byte-pair encoding** (Sennrich et al. 2016,
# [arXiv 1508.07909](https://arxiv.org/abs/1508.07909)), which the paper used for German and English. It takes
# five lines to say:
#
# 1. Count how often each word occurs. Write each word as a row of its characters: these are the first
#   **symbols**.
# 2. Count the pairs of symbols that stand side by side in a word, each pair as often as the word occurs.
# 3. Take the most frequent pair, and **merge** it into one symbol, wherever it stands.
# 4. Note down the pair. Go back to 2.
# 5. Stop after as many merges as you like, or when every word is a single symbol.
#
# Do the first step with pencil and paper.

# %% predict="predict_pair"
# A text has four different words: hund occurs 5 times, hunde 3 times, bunt 4 times, hand 2 times.
# How often does its most frequent pair of neighbouring characters occur?

# %% check="predict_pair"

# %% [markdown]
# So *u* and *n* become *un*, and the words are now `h un d`, `h un d e`, `b un t` and `h a n d`. Now count
# again: some pairs are gone, and there are new ones, such as *h* + *un*. It occurs 8 times, and so does *un* +
# *d*.
#
# A **tie**: which one is merged? Either would do, but it must be the same one on every machine. Here it is the
# smallest pair, as Python compares tuples: first by the left symbol, then by the right. So it is *h* + *un*.
#
# ### Build it
#
# `words` says how often each word occurs. What you give back is the list of merges, each a pair (left, right),
# in the order in which they were found. If a word has the pair twice, it counts twice, and both are merged.
#
# Counting all pairs anew for each merge is right, and fast enough here. (The solution does less work: it counts
# anew only in the words that a merge has changed.)

# %% build="learn_merges"
### BEGIN SOLUTION course_lib.transformer.byte_pairs:learn_merges

# %% [markdown] hints="learn_merges"

# %% check="learn_merges"

# %% [markdown]
# That was the learning half. The other half cuts a word, known or new: write it as characters, then go through
# the merges **in the order in which they were learnt**, and do each wherever it fits. This half is given.


# %% given="spell"
def merged(symbols: Sequence[str], pair: tuple[str, str]) -> list[str]:
    joined: list[str] = []
    for symbol in symbols:
        if joined and (joined[-1], symbol) == pair:
            joined[-1] += symbol
        else:
            joined.append(symbol)
    return joined


def spell(word: str, merges: Sequence[tuple[str, str]]) -> list[str]:
    symbols = list(word)
    for pair in merges:
        symbols = merged(symbols, pair)
    return symbols


# %% [markdown]
# ### See it: merge by merge
#
# Six words and how often they occur. Drag the slider: characters grow into pieces, and frequent pieces into
# whole words.
#
# **Change something:** give `schneehut` a count of 30 instead of 1. Put in a long word that you like. Why is
# *hut* a symbol so early?

# %% tags=["see"]
counts = {"fahrrad": 8, "fahrradhelm": 5, "helm": 6, "hut": 9, "strohhut": 4, "schneehut": 1}
merges = learn_merges(counts, 20)
steps = [[spell(word, merges[:done]) for word in counts] for done in range(len(merges) + 1)]

merge_steps(list(counts), steps, merges, start=6)

# %% [markdown]
# Look at *schneehut*. It occurs once, but its end is *hut*, which other words have made a symbol long ago. The
# word is rare; its pieces aren't.
#
# Before you let it loose on the whole text: how large does the vocabulary become?

# %% predict="predict_size"
# A text has 60 different characters, and you learn 8,000 merges from it. How many different symbols
# can there be in the end? (The special tokens aren't counted.)

# %% check="predict_size"

# %% [markdown]
# So **you choose the size of the vocabulary**, and nothing is unknown as long as its characters are known. The
# paper took about 37,000 symbols, for both languages *together*: a **shared** vocabulary. Names, numbers and
# words like *Park* are then the same symbol on both sides, and the tables of encoder and decoder can be one
# (`tie_embeddings`, lesson 06).
#
# Here are 1,000 merges, learnt from both sides of the captions together. (If your function counts all pairs
# anew each time, it takes some seconds.)

# %% tags=["see"]
word_counts = Counter(word for sentence in german_words + english_words for word in sentence)
merges = learn_merges(word_counts, 1000)
print(f"{len(word_counts):,} different words in both languages. The first merges, and the last:")
print("  ".join("".join(pair) for pair in merges[:16]))
print("  ".join("".join(pair) for pair in merges[-12:]))

# %% [markdown]
# ### See it: words beside subwords
#
# One German sentence, cut in four ways: into spaCy's words, and into subwords after 100 and after 1,000 merges,
# and into characters. Some of its words are none of the captions', so the word vocabulary doesn't have them.
#
# **Change something:** a sentence of your own, or an English one (take `english_tokenizer` and
# `english_vocabulary`). Can you find a word that falls into single characters?

# %% tags=["see"]
sentence = "Ein Kind mit Schneehut sucht sein Kinderfahrrad."

words = words_of([sentence], german_tokenizer)[0]
sentence_pieces(
    {
        "words": [[word] for word in words],
        "1,000 merges": [spell(word, merges) for word in words],
        "100 merges": [spell(word, merges[:100]) for word in words],
        "characters": [list(word) for word in words],
    },
    unknown=[word for word in words if word not in german_vocabulary],
)

# %% [markdown]
# With some thousand merges, as in the lab, nearly all frequent words are whole. The lab uses the library
# [tokenizers](https://github.com/huggingface/tokenizers), which learns the same kind of merges, faster, and
# begins with **bytes** instead of characters. There are 256 of them, every text in every script is made of
# them, and so `<unknown>` is never needed. It also keeps the space in front of a word as part of its first
# piece, so that the text can be put together again letter by letter.
#
# Nothing is free: the pieces are more than the words, so sentences get longer.

# %% tags=["see"]
spelled = {word: spell(word, merges) for word in word_counts}


def pieces_of(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[piece for word in sentence for piece in spelled[word]] for sentence in sentences]


german_pieces, english_pieces = pieces_of(german_words), pieces_of(english_words)

length_histograms(
    {
        "German, words": [len(sentence) for sentence in german_words],
        "German, 1,000 merges": [len(sentence) for sentence in german_pieces],
        "English, words": [len(sentence) for sentence in english_words],
        "English, 1,000 merges": [len(sentence) for sentence in english_pieces],
    }
)

# %% [markdown]
# **Change something:** above, learn 100 merges, or 300, and run the cells again. How long do the sentences
# become? And how much do they differ in length? That is what the next section is about.
#
# ### Explain it
#
# A fellow student wants to translate from German with a vocabulary of the 30,000 most frequent words. Another
# one wants to take single characters. In four or five sentences: what speaks against each, and what do subwords
# do about it? Give an example of a German word on which they differ.

# %% [markdown] explain="explain_subwords"
# With a list of words, every word that isn't on it becomes `<unknown>`, and German makes new words all the time
# by compounding and by endings: *Kinderfahrrad* is unknown though *Kinder* and *Fahrrad* aren't. Even on the
# list there are many rare words whose vectors hardly learn anything. With characters nothing is unknown, but
# sentences are four to five times as long, attention costs the square of that, and the model has to put meaning
# together from letters that have none. Subwords are between the two: frequent words stay whole, rare and new
# ones are made of frequent pieces, *Kinder* + *fahr* + *rad*, so nothing has to be unknown, and sentences grow
# only a little.
#
# ### BEGIN MARK SCHEME
# - 1 point: a word list leaves words unknown (new, rare, compounds, endings), however long it is; or rare words
#   learn poor vectors.
# - 1 point: characters make sentences long and attention costly, or carry no meaning by themselves.
# - 1 point: subwords keep frequent words whole and cut rare ones into known pieces; with a fitting German
#   example.
#
# Give the point for a right idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## 4. Batches
#
# A graphics card wants much work at a time, so sentences are put into **batches**. A batch is a matrix, one row
# a sentence, and rows of a matrix are equally long. Short sentences are filled up with `<pad>`. The masks see
# to it that padding changes no result (lesson 04), but it is calculated all the same: embedded, projected,
# multiplied.

# %% predict="predict_padding"
# Four sentences of 10, 12, 14 and 60 tokens are put into one batch. Which fraction of the batch's
# places is padding?

# %% check="predict_padding"

# %% [markdown]
# One long sentence makes all others expensive. Three habits go around:
#
# - **Fixed:** every batch is padded to one length, say 72, which is long enough for all.
# - **Plain:** sentences are taken as they come, and each batch is padded to its own longest.
# - **Length buckets:** sentences of like length are put together. That is what the paper did: "sentence pairs
#   were batched together by approximate sequence length".
#
# **How large is a batch?** If you count sentences, then 64 short ones are a small job, and 64 long ones don't
# fit into memory. So batches are measured by their **places**: the length of the longest sentence times the
# number of sentences, since that is the size of the matrix. `max_tokens` is the budget of places, and a batch
# may have many short sentences or a few long ones. (The paper's batches held about 25,000 tokens a side.)
#
# ### Build it
#
# `lengths` says how long each sentence is; you give back a list of batches, each a list of **indices** into
# `lengths`. Each index is in exactly one batch, none is empty, and none is over the budget. Padding should be
# about as little as if you went through the sentences from short to long and closed a batch whenever the next
# one would not fit any more. In which order the batches stand doesn't matter.
#
# What about a sentence that is longer than the budget all by itself? Either refuse it, with a `ValueError` that
# says **which** sentence it is (its index or its length), or give it a batch for itself. Never drop it in
# silence.

# %% build="token_batches"
### BEGIN SOLUTION course_lib.transformer.batching:token_batches

# %% [markdown] hints="token_batches"

# %% check="token_batches"

# %% [markdown]
# ### See it: what padding costs
#
# The three habits, on the lengths of our subword sentences. The longer side of a pair counts, and start and end
# are two more tokens. Fixed and plain batches hold as many sentences as fit into the budget at the fixed length;
# buckets use the budget itself.
#
# **Change something:** a budget of 512, or of 16,384. Why is there more padding in the buckets of the larger
# one?

# %% tags=["see"]
BUDGET, FIXED = 2048, 72
lengths = [
    2 + max(len(source), len(target)) for source, target in zip(german_pieces, english_pieces, strict=True)
]
FIXED = max(FIXED, *lengths)
sentences_a_batch = round(BUDGET / FIXED)
places_in_order = [
    range(start, min(start + sentences_a_batch, len(lengths)))
    for start in range(0, len(lengths), sentences_a_batch)
]
plans = {
    f"fixed, to {FIXED}": (FIXED * len(lengths), len(places_in_order)),
    "plain": (
        sum(max(lengths[index] for index in batch) * len(batch) for batch in places_in_order),
        len(places_in_order),
    ),
}
buckets = token_batches(lengths, BUDGET)
plans["length buckets"] = (
    sum(max(lengths[index] for index in batch) * len(batch) for batch in buckets),
    len(buckets),
)

padded_share(
    pd.DataFrame(
        [(name, sum(lengths), places - sum(lengths), count) for name, (places, count) in plans.items()],
        columns=["plan", "real", "padding", "batches"],
    )
)

# %% [markdown]
# The same work for the model, and with the first habit two thirds or more of the arithmetic is thrown away. No
# cleverness inside the attention wins as much as sorting a list.
#
# **One more thing.** If batches came sorted from short to long, each epoch would begin with the shortest
# sentences and end with the longest, and hundreds of updates in a row would all pull towards one kind of
# sentence. So the *batches* are shuffled before each epoch, and among sentences of one length it is drawn anew
# who meets whom. The lab's `epoch_plan` does that, with batches cut by the
# same rule as yours.
#
# ### Explain it
#
# Your colleague sorts the corpus by length once, cuts it into batches of 64 sentences, and trains on them in
# this order, epoch after epoch. "Hardly any padding!" True. What would you change, and why? Name two things.

# %% [markdown] explain="explain_buckets"
# First, batches should be measured by places, not by sentences: 64 sentences of 5 tokens are a tiny job that
# leaves the graphics card idle, and 64 sentences of 100 tokens may not fit into memory, besides holding twenty
# times as many words for one update. With a budget of longest times number all batches cost about the same.
# Second, the batches should come in a new random order in each epoch, and sentences of like length should be
# mixed anew: sorted from short to long, many updates in a row see one kind of sentence only, and the gradient
# of a batch says little about the corpus as a whole.
#
# ### BEGIN MARK SCHEME
# - 1 point: measure batches by tokens (longest times number), since equal numbers of sentences differ widely in
#   memory, work or words an update.
# - 1 point: shuffle the batches (and who is in them) in each epoch.
# - 1 point: says why: long runs of one length pull the model one way, or always the same neighbours.
# ### END MARK SCHEME

# %% [markdown]
# ## 5. Two tensors
#
# The last step makes the batch: `collate`, "put in order". It gets pairs of sentences, as lists of ids, and
# makes two matrices, one for the sources and one for the targets. Here is where each token goes, and why:
#
# - **The target gets a start and an end.** From lesson 04 you know that the decoder reads the target shifted:
#   it sees `<start> A girl` and is to say `A girl <end>`. Without a start it could not learn to write the first
#   word, and without an end not to stop.
# - **The source gets them too.** The encoder has no shift, so it doesn't need them in the same way. But both
#   sides use one vocabulary and one function, and the encoder, too, can use a place that says "here it ends".
# - **Cut first, then put the end on.** `max_length` bounds what a batch can cost, and counts start and end,
#   too. If you put the end on first and then cut, long sentences lose it: a model trained on those never learns
#   to stop. (It happens in a widely copied program. There it is padding by a *negative* number of places that
#   cuts the end away, and no error is raised.)
# - **Pad at the right, each side to its own longest.** Every sentence then begins at position 0, and a batch of
#   short sentences is a narrow matrix.
#
# ### Build it

# %% build="collate"
### BEGIN SOLUTION course_lib.transformer.batching:collate

# %% [markdown] hints="collate"

# %% check="collate"

# %% [markdown]
# ### See it: a batch, and what the decoder makes of it
#
# Four pairs of captions, as ids and back again. Below the two tensors stands what `shift_target` makes of the
# second: what the decoder reads, and the labels that it is to write, position by position.
#
# **Change something:** a `max_length` of 8: which sentences are cut, and do they still end with `<end>`? Then
# take pairs of very different lengths, `[0:6000:1500]`: what happens to the grey?

# %% tags=["see"]
both_vocabulary = build_vocabulary(german_words + english_words, 1, SPECIALS)
word_of = {number: word for word, number in both_vocabulary.items()}


def ids_of(sentence: Sequence[str]) -> list[int]:
    return [both_vocabulary.get(word, both_vocabulary["<unknown>"]) for word in sentence]


def read(matrix: Tensor) -> list[list[str]]:
    return [[word_of[number] for number in row] for row in matrix.tolist()]


chosen = sorted(range(len(german_words)), key=lambda index: len(german_words[index]))[0:2400:600]
pairs = [(ids_of(german_words[index]), ids_of(english_words[index])) for index in chosen]
source, target = collate(pairs, pad_id=0, start_id=1, end_id=2, max_length=20)
decoder_input, labels = shift_target(target)

batch_tables(
    {
        "source": read(source),
        "target": read(target),
        "decoder input": read(decoder_input),
        "labels": read(labels),
    }
)

# %% [markdown]
# Read the last two tables column by column: at each position the decoder has seen the words up to there, and
# the label is the next one. In a short row the decoder's input still holds `<end>`, where the label is padding;
# the loss leaves that position out (lesson 08).
#
# ### See it: a whole batch from above
#
# Twenty sentences as they come, beside one of your buckets, cut down to twenty. Each small cell is a place.
#
# **Change something:** another bucket: `buckets[0]`, `buckets[-1]`. (Why is there any grey in a bucket? A pair
# is in it for its *longer* sentence, and here you see the German one.)


# %% tags=["see"]
def cells(indices: Sequence[int]) -> list[list[str]]:
    rows = [["<start>", *german_pieces[index], "<end>"] for index in indices]
    widest = max(len(row) for row in rows)
    return [row + ["<pad>"] * (widest - len(row)) for row in rows]


batch_tables(
    {"as they come": cells(range(20)), "from a length bucket": cells(buckets[len(buckets) // 2][:20])}
)

# %% [markdown]
# ## Common questions
#
# <details><summary>Why is there an unknown token at all, if subwords need none?</summary>
#
# Characters can be unknown, too: an emoji, a Chinese character in a German text. With words or characters as
# the smallest pieces you need it. With bytes, as in the lab, it is never used.
#
# </details>
#
# <details><summary>Do the merges follow grammar? "Fahrrad + helm" looks as if.</summary>
#
# No, they follow counts. Often these agree, since what means something occurs often. But you will also see
# pieces like *ahr* or *ing*, in *Jahr* as well as in *fahren*, in *singing* as well as in *king*. The model
# gets along with that: it sees the pieces together, in their order.
#
# </details>
#
# <details><summary>How many merges are best?</summary>
#
# It depends on how much text there is. Many merges make short sentences and rare symbols, few merges long
# sentences and frequent symbols. For 29,000 captions some thousands are usual, for the paper's 4.5 million
# pairs it was about 37,000 for both languages. You find out by training.
#
# </details>
#
# <details><summary>Why not cut at the syllables, or use a dictionary of word parts?</summary>
#
# People have, and for some languages it helps. But it has to be written anew for each language, and it fails at
# names, numbers and typing errors. Counting works for all of them alike.
#
# </details>
#
# <details><summary>Why does the end of a word not matter here? "hund" in "hundert" is the same symbol.</summary>
#
# In the article cited, each word gets an end mark, so that *hund* at the end of a word is another symbol than
# *hund* inside. The lab's library marks the *beginning* instead, by the space in front. Here neither is done,
# which is enough to learn how it works; but from these pieces alone you could not tell where to put the spaces
# again.
#
# </details>
#
# <details><summary>Can padding be avoided altogether?</summary>
#
# Yes: put sentences one behind the other in one long row, and let each look only at itself. That needs an
# attention which knows the borders. With buckets so little padding is left that it seldom pays.
#
# </details>
#
# <details><summary>Doesn't sorting by length put similar sentences together?</summary>
#
# Somewhat: short captions are alike. That is one more reason to shuffle inside a length and to shuffle the
# batches. In the lab each update sees several batches, which mixes lengths again.
#
# </details>
#
# ## Where you are

# %% tags=["see"]
architecture_map(built=exercises_through(10))

# %% [markdown]
# From a file of text to the two tensors, everything is yours now, and from the tensors to the loss it was
# already. What is left is to get good translations out of a trained model: that is lesson 11. Before you hand
# the lesson in, press **Validate** in the toolbar: it runs the notebook from top to bottom, as the grader will.
#
# **Read on:** section 5.1 of the paper; Sennrich, Haddow and Birch 2016, *Neural Machine Translation of Rare
# Words with Subword Units* ([arXiv 1508.07909](https://arxiv.org/abs/1508.07909)), whose section 3.2 you have
# built; and, for how the choice of merges matters, Ding, Renduchintala and Duh 2019 ([arXiv
# 1905.10453](https://arxiv.org/abs/1905.10453)).
