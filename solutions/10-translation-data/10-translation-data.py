# %% [markdown]
# # Lesson 10: from text to batches
#
# The model can be trained, but it reads tensors of integers, and what you have is text:
#
# > Weil es schneit, trägt der Mann einen neuen Mantel.
# >
# > Because it is snowing, the man is wearing a new coat.
#
# You build the steps that turn such text into tensors. They decide which words the model can write, and how much of
# your GPU's work is wasted.
#
# By the end you will be able to
#
# - build a vocabulary, and say what happens to a word that isn't in it,
# - learn subwords by byte-pair encoding, and compare them with words and with characters,
# - group sentences into batches with almost no padding,
# - build the two tensors that the Transformer reads, with start and end in the right positions.
#
# **Time:** about two and a half hours. **In [the paper](https://arxiv.org/abs/1706.03762):** section 5.1.

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    batch_tables,
    length_histograms,
    merge_steps,
    named_bars,
    named_lines,
    sentence_pieces,
    show_offline,
)
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(
    built=finished_exercises(), current=["build_vocabulary", "learn_merges", "token_batches", "collate"]
)

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
from course_lib.errors import BadInputError
from course_lib.transformer import shift_target
from course_lib.translation.configs.schema import DataConfig
from course_lib.translation.data.corpora import Corpus, load_corpus

# %% [markdown]
# ## 1. The text
#
# A **parallel corpus** is the same text in two languages, sentence by sentence. This course includes one: 6,000
# captions in German and English for training, 300 for validation and 300 for testing. A program generated them from a
# grammar and a small dictionary.
#
# If you have [Multi30k](https://github.com/multi30k/dataset), whose captions were written by people, set the
# environment variable `COURSE_DATA` to the folder with its files before you start JupyterLab. Everything below works
# with either corpus.


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
# At the next space? Then `Mantel.` with its full stop is a different word from `Mantel`. A **tokenizer** has better
# rules, different ones for each language: it splits off punctuation, but not that of abbreviations such as `z. B.`
# (German for *e.g.*), and splits `isn't` into `is` and `n't`. The library [spaCy](https://spacy.io) has such rules for
# German and English; `spacy.blank("de")` is the tokenizer alone, without a model to download.
#
# Its output is a list of **tokens**, the pieces of text that get ids. For now a token is a word or a punctuation
# mark.

# %% tags=["see"]
german_tokenizer, english_tokenizer = spacy.blank("de"), spacy.blank("en")


def words_of(sentences: Sequence[str], tokenizer: spacy.Language) -> list[list[str]]:
    return [[token.text for token in tokenizer(sentence)] for sentence in sentences]


german_words = words_of(german, german_tokenizer)
english_words = words_of(english, english_tokenizer)
print(words_of(["Ein Fahrradhelm kostet z. B. 30 Euro, oder?"], german_tokenizer)[0])
print(words_of(["It isn't a bicycle helmet, or is it?"], english_tokenizer)[0])

# %% [markdown]
# ## 2. An id for each word
#
# The first layer of the model is a table with one row for each word (lesson 05), and a word's id is the number of its
# row. The **vocabulary** is the dict from words to ids. Four of its entries aren't words of the text but **special
# tokens**:
#
# | token | purpose |
# |---|---|
# | `<pad>` | fills short sentences up to the length of the batch; the padding mask hides it (lesson 04) |
# | `<start>` | the first thing that the decoder reads, before it has written anything |
# | `<end>` | the last thing that the decoder writes: the sentence is complete |
# | `<unknown>` | stands for every word that has no id of its own |
#
# They come **first**, so that their ids don't depend on the text: padding is always 0. Then come the words by
# descending count, with equally frequent ones in the order of Python's `sorted`. A trained model knows its words by id
# alone, so the ids must be the same every time.
#
# If a word is rare, its row of the table has almost nothing to learn from, so words that occur fewer than `min_count`
# times get no id.
#
# **One rule is easily broken:** the vocabulary is built from the **training** sentences alone. The model must know
# nothing about the validation and test sentences, not even which words they contain.
#
# ### Worked example: count, select, order, number
#
# `min_count` is 2, and there are two special tokens:

# %% tags=["see"]
sentences = [["a", "red", "hat"], ["a", "hat", "!"], ["a", "shoe", "!"]]
counted = {}
for sentence in sentences:
    for word in sentence:
        counted[word] = counted.get(word, 0) + 1
print("counts:", counted)
ordered = []
for times in (3, 2):
    equal = [word for word in counted if counted[word] == times]
    print(f"{times} times: {equal}, by spelling: {sorted(equal)}")
    ordered += sorted(equal)
print("ids:   ", dict(zip(["<pad>", "<unknown>", *ordered], range(5), strict=True)))

# %% [markdown]
# A scratch cell: how does Python order a capital letter, a small letter, an umlaut and a full stop?

# %% tags=["see"]
sorted(["b", "B", "a", "ä", "z", ".", "10", "9"])

# %% [markdown]
# ### Build it
#
# A sentence is a list of words here. If a special token also occurs in the text, it keeps its id and gets no second one.

# %% build="build_vocabulary"
### BEGIN SOLUTION course_lib.transformer.vocabulary:build_vocabulary

# %% [markdown]
# A scratch cell: the sentences of the worked example. You should get its ids. What does a `min_count` of 1 add?

# %% tags=["see"]
sentences = [["a", "red", "hat"], ["a", "hat", "!"], ["a", "shoe", "!"]]
print(build_vocabulary(sentences, min_count=2, specials=["<pad>", "<unknown>"]))

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
# How many words of *new* sentences, those of the validation split, are unknown? Each dot is a vocabulary. The values of
# `min_count` are 1, 2, 5, 10, 20 and 50.
#
# **Change something:** use only the first 500 sentences, `german_words[:500]` and `english_words[:500]`.

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
    up="unknown words, in %",
    title="The smaller the vocabulary, the more words are unknown",
    dots=True,
)

# %% [markdown]
# The captions of the course come from a small dictionary, so their lines end at zero. The first 6,000 German captions
# of Multi30k contain 6,927 different words, and 4,197 of them occur once. Even with all of them in the vocabulary,
# **7.3%** of the words of its validation sentences are unknown: almost one in each sentence. In English it is 3.6%.
#
# Why is German harder?
#
# - **Compounds.** German writes *bicycle helmet* as one word, *Fahrradhelm*, and makes up new ones freely:
#   *Kinderfahrrad* (children's bicycle), *Schneehut* (snow hat). No list contains them all.
# - **Endings.** English has *new*; German has *neu, neue, neuen, neuer, neues, neuem*. For a vocabulary these are six
#   unrelated words.
#
# More text helps, but slowly: with all 29,000 captions, 3.2% of the German words are still unknown.
#
# <details><summary>What changes?</summary>
#
# With the captions of the course, even the largest vocabulary now leaves 2.1% of the German words unknown, and 0.6% of
# the English ones. A `min_count` of 5 leaves 18% of the German words unknown instead of 0.5%, because few words occur
# five times in 500 sentences.
#
# </details>

# %% [markdown]
# ## 3. Subwords
#
# Could we give each **character** an id instead? Then almost nothing is unknown. But look at the cost:

# %% tags=["see"]
sentence = "Weil es schneit, trägt der Mann einen neuen Mantel."
print(f"{len(sentence)} characters, {len(words_of([sentence], german_tokenizer)[0])} tokens")
characters = sum(len(word) for words in german_words for word in words)
print(f"in the whole corpus: {characters / sum(map(len, german_words)):.1f} characters for each German word")

# %% [markdown]
# Sentences become several times as long, the cost of attention grows with the square of their length (lesson 01), and
# the model must first learn that *M-a-n-t-e-l* means something.
#
# **Subwords** are a compromise between words and characters: frequent words stay whole, and rare ones are split into
# frequent pieces. *Fahrradhelm* may become *Fahrrad* + *helm*, whose meanings help to guess the whole.
#
# The pieces come from counting, by **byte-pair encoding** (BPE). Philip Gage published it in 1994 to compress files:
# replace the most frequent pair of bytes with a byte that doesn't occur, and repeat. Sennrich et al.
# ([2016](https://arxiv.org/abs/1508.07909)) split words with it, and so does the Transformer paper for German and
# English. (For French it used *word pieces*, a similar method.) These are the steps:
#
# 1. Count how often each word occurs. Write each word as a sequence of its characters: these are the first
#    **symbols**.
# 2. Count the pairs of adjacent symbols in all words. Each pair counts as often as its word occurs.
# 3. **Merge** the most frequent pair into one symbol, wherever it occurs, and write the pair down.
# 4. Repeat steps 2 and 3 as often as you like, or until every word is a single symbol.

# %% predict="predict_pair"
# A text has four different words: hund occurs 5 times, hunde 3 times, bunt 4 times, hand 2 times.
# How often does its most frequent pair of neighbouring characters occur?

# %% check="predict_pair"

# %% [markdown]
# ### Worked example: the first merge
#
# Here are all the pairs of that text, before and after the first merge.

# %% tags=["see"]
frequencies = [5, 3, 4, 2]
before = ["h u n d", "h u n d e", "b u n t", "h a n d"]
after = ["h un d", "h un d e", "b un t", "h a n d"]
for title, rows in {"no merge yet": before, "after u + n": after}.items():
    print(title)
    tally = {}
    for row, times in zip(rows, frequencies, strict=True):
        pieces = row.split()
        print(f"   {times} times: {row}")
        for left, right in pairwise(pieces):
            tally[f"{left} + {right}"] = tally.get(f"{left} + {right}", 0) + times
    print("   pairs:", tally)

# %% [markdown]
# After the merge there is a **tie**: *h* + *un* occurs 8 times, and so does *un* + *d*. The choice must be the same on
# every machine, so we take the pair that is smallest when Python compares tuples: first by the left symbol, then by the
# right one. Here that is *h* + *un*.
#
# A scratch cell: how does Python compare pairs? Which of the three is the smallest?

# %% tags=["see"]
print(("h", "un") < ("un", "d"), min([("un", "d"), ("h", "un"), ("b", "un")]))

# %% [markdown]
# ### Build it
#
# If a word contains a pair twice, the pair counts twice, even if the two occurrences overlap, as in *aaa*. Merging,
# however, goes from left to right without overlap: *aaa* becomes *aa* and *a*.
#
# Counting all pairs again for each merge is fast enough here. (Real implementations recount only the words that a
# merge has changed.)

# %% build="learn_merges"
### BEGIN SOLUTION course_lib.transformer.byte_pairs:learn_merges

# %% [markdown]
# A scratch cell: the words of the worked example. The first two merges are *u* + *n* and *h* + *un*. How many merges
# does it take until every word is a single symbol? (Nine.)

# %% tags=["see"]
print(learn_merges({"hund": 5, "hunde": 3, "bunt": 4, "hand": 2}, 2))

# %% [markdown] hints="learn_merges"

# %% check="learn_merges"

# %% [markdown]
# That was the learning half. The other half is given. It splits any word, known or new: it writes the word as
# characters, then applies the merges **in the order in which they were learned**, wherever they fit.


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
# Drag the slider: characters grow into pieces, and frequent pieces into words.
#
# **Change something:** give `schneehut` a count of 30 instead of 1. Add a long word that you like. Why does *hut* become
# a symbol so early?

# %% tags=["see"]
counts = {"fahrrad": 8, "fahrradhelm": 5, "helm": 6, "hut": 9, "strohhut": 4, "schneehut": 1}
merges = learn_merges(counts, 20)
steps = [[spell(word, merges[:done]) for word in counts] for done in range(len(merges) + 1)]

merge_steps(list(counts), steps, merges, start=6)

# %% [markdown]
# Look at *schneehut*: the word occurs only once, but it ends in *hut*, which became a symbol early on thanks to other
# words.
#
# <details><summary>What changes?</summary>
#
# Three words end in *hut*, and their counts add up: 9 + 4 + 1 = 14, more than the 13 of *fahrrad* and *fahrradhelm*.
# With a count of 30, *schneehut* is a single symbol after 8 merges, but *strohhut* is still in four pieces after 20.
#
# </details>

# %% predict="predict_size"
# A text has 60 different characters, and you learn 8,000 merges from it. How many different symbols
# can there be at most in the end? (The special tokens aren't counted.)

# %% check="predict_size"

# %% [markdown]
# So **you choose the size of the vocabulary**, and a new word is never unknown if its characters are known. The paper
# used about 37,000 symbols for both languages *together*: a **shared** vocabulary. Names, numbers and words like
# *Park* are then the same symbol on both sides, and encoder and decoder can share their tables (`tie_embeddings`,
# lesson 06).
#
# Here are 1,000 merges, learned from both sides of the captions. (If your function counts all pairs each time, this
# takes a few seconds.)

# %% tags=["see"]
word_counts = Counter(word for sentence in german_words + english_words for word in sentence)
merges = learn_merges(word_counts, 1000)
print(f"{len(word_counts):,} different words in both languages. The first merges, and the last:")
print("  ".join("".join(pair) for pair in merges[:16]))
print("  ".join("".join(pair) for pair in merges[-12:]))

# %% [markdown]
# ### See it: words and subwords
#
# Two words of the German sentence below aren't in the captions, so the word vocabulary doesn't have them.
#
# **Change something:** split a sentence of your own, or an English one (use `english_tokenizer` and
# `english_vocabulary`). Can you find a word that is split into single characters?

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
# <details><summary>What changes?</summary>
#
# In the captions, *Pizza* and *Taxi* are split into single characters: each occurs fewer than 20 times, and their
# pairs of letters are rare in other words. The same happens to a new word such as *Jazz*.
#
# </details>
#
# With several thousand merges, almost all frequent words are whole. The final lab uses the library
# [tokenizers](https://github.com/huggingface/tokenizers), which learns the same kind of merges, faster, and starts with
# **bytes** instead of characters. Text in any script consists of the same 256 byte values, so `<unknown>` is never
# needed. The space before a word is part of its first piece, so that the text can be restored exactly.
#
# There is a price: a sentence has more pieces than words.

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
# **Change something:** learn 100 or 300 merges above, and run the cells from there to here. How long are the sentences
# now, and how widely do their lengths vary? (The pictures' labels will still say 1,000. Afterwards, change the number
# back to 1,000 and run the same cells again, because section 4 uses their results.)
#
# <details><summary>What changes?</summary>
#
# With 300 merges, German sentences have 24 pieces on average, and with 100 they have 31, instead of 16. Their lengths
# also vary more: the longest sentence has 52 or 66 pieces instead of 35. English is similar.
#
# </details>
#
# ### Explain it
#
# A fellow student wants to translate from German with a vocabulary of the 30,000 most frequent words. Another wants
# to use single characters. In four or five sentences: what are the drawbacks, and how do subwords deal with them?
# Give an example of a German word that the three treat differently.

# %% [markdown] explain="explain_subwords"
# With a list of words, every word that isn't on it becomes `<unknown>`, and German keeps making new words by
# compounding and by endings: *Kinderfahrrad* is unknown although *Kinder* and *Fahrrad* aren't. Even on the list there
# are many rare words whose vectors learn almost nothing. With characters, almost nothing is unknown, but sentences are
# four to five times as long, the cost of attention grows with the square of the length, and the model has to build
# meaning from letters that have none. With subwords frequent words stay whole, and rare and new ones are made of
# frequent pieces, such as *Kinder* + *f* + *ahr* + *rad*. So nothing has to be unknown, and sentences get only a little
# longer.
#
# ### BEGIN MARK SCHEME
# - 1 point: a word list leaves words unknown (new, rare, compounds, endings), however long it is; or rare words
#   learn poor vectors.
# - 1 point: characters make sentences long and attention costly, or carry no meaning by themselves.
# - 1 point: subwords keep frequent words whole and split rare ones into known pieces; with a fitting German
#   example.
# ### END MARK SCHEME

# %% [markdown]
# ## 4. Batches
#
# A GPU is fast only if it gets a lot of work at once, so sentences are put into **batches**: matrices with one row
# for each sentence, in which short sentences are padded. Padding changes no result (lesson 04), but the model
# computes with it all the same.

# %% predict="predict_padding"
# Four sentences of 10, 12, 14 and 60 tokens are put into one batch. What fraction of the batch's
# positions is padding?

# %% check="predict_padding"

# %% [markdown]
# A single long sentence makes all others expensive. Three approaches are common:
#
# - **Fixed:** every batch is padded to one length, say 72, which is long enough for all.
# - **Plain:** sentences are taken in the order of the corpus, and each batch is padded to its longest sentence.
# - **Length buckets:** sentences of similar length are put together. The paper did this: "sentence pairs were batched
#   together by approximate sequence length".
#
# **How large is a batch?** 64 short sentences are a small job, and 64 long ones may not fit into memory. So batches are
# measured in **positions**, the size of the matrix: the length of the longest sentence times the number of sentences.
# The budget, `max_tokens`, is the largest number of positions that a batch may have, padding included.
#
# ### Worked example: one more in the batch?
#
# There are five sentences, of 3, 9, 4, 4 and 8 tokens, and the budget is 18. Sorted, with their indices in brackets,
# their lengths are 3 (0), 4 (2), 4 (3), 8 (4), 9 (1). For each sentence, we ask how large the batch would be with it.

# %% tags=["see"]
in_order, budget = [(3, 0), (4, 2), (4, 3), (8, 4), (9, 1)], 18
size = 0
for longest, index in in_order:
    size += 1
    area = longest * size
    print(f"sentence {index} joins: {size} x {longest} positions = {area}", end="")
    if area > budget:
        size = 1
        print(", too many, so it starts a new batch", end="")
    print()

# %% [markdown]
# So the batches are [0, 2, 3] and [4, 1]. The last one has $2 \cdot 9 = 18$ positions, exactly the budget, which is
# allowed.
#
# **Change something:** use a budget of 16. Which sentences are alone?
#
# <details><summary>What changes?</summary>
#
# Sentences 4 and 1 are alone: together they would need 2 · 9 = 18 positions. The batches are now [0, 2, 3], [4] and
# [1].
#
# </details>
#
# ### Build it
#
# Each batch is a list of **indices** into `lengths`, and no batch is empty. There should be about as little padding as
# with the method of the worked example, which sorts the sentences from short to long and closes a batch when the next
# sentence doesn't fit. The order of the batches doesn't matter.
#
# For a sentence that is over the budget by itself, raise a `ValueError` or put it into a batch of its own. Never drop
# it silently.

# %% build="token_batches"
### BEGIN SOLUTION course_lib.transformer.batching:token_batches

# %% [markdown]
# A scratch cell: the five sentences of the worked example. You should get its two batches, in either order. What does
# your function do with a budget of 8?

# %% tags=["see"]
print(token_batches([3, 9, 4, 4, 8], max_tokens=18))

# %% [markdown] hints="token_batches"

# %% check="token_batches"

# %% [markdown]
# ### See it: what padding costs
#
# The chart compares the three approaches for our subword sentences. The length of a pair is the length of its longer
# side, plus two for start and end. Fixed and plain batches all have the same number of sentences: about as many as would
# fit into the budget if each had the fixed length. An *epoch* is one pass through the corpus.
#
# **Change something:** use a budget of 512, or of 16,384. Why is there more padding in the buckets with the larger
# budget?

# %% tags=["see"]
BUDGET, FIXED = 2048, 72
lengths = [
    2 + max(len(source), len(target)) for source, target in zip(german_pieces, english_pieces, strict=True)
]
FIXED = max(FIXED, *lengths)
sentences_a_batch = round(BUDGET / FIXED)
plain = [
    range(start, min(start + sentences_a_batch, len(lengths)))
    for start in range(0, len(lengths), sentences_a_batch)
]
buckets = token_batches(lengths, BUDGET)


def area_of(batches: Sequence[Sequence[int]]) -> int:
    return sum(max(lengths[index] for index in batch) * len(batch) for batch in batches)


plans = {
    f"fixed, to {FIXED}": (FIXED * len(lengths), len(plain)),
    "plain": (area_of(plain), len(plain)),
    "length buckets": (area_of(buckets), len(buckets)),
}
rows = []
for name, (area, count) in plans.items():
    print(f"{name}: {area / area_of(buckets):.2f} times the positions of the length buckets")
    padding = area - sum(lengths)
    note = f"{padding / area:.1%} padding, {count:,} batches"
    rows += [(name, "tokens", sum(lengths), note), (name, "padding", padding, note)]

named_bars(
    pd.DataFrame(rows, columns=["bar", "kind", "size", "note"]),
    across="positions in all batches of an epoch",
    title="How much of the work is padding?",
    pale=["padding"],
)

# %% [markdown]
# With the captions of the course, padding to 72 wastes about three quarters of the computation, and plain batches waste
# more than a third. (With Multi30k, it is about two thirds and almost half.)
#
# <details><summary>What changes?</summary>
#
# With the captions, the buckets have about 0.3% padding with a budget of 512, and about 7% with 16,384. A larger batch
# holds more sentences, so their lengths differ more: with 16,384 there are only 8 batches, and one holds pairs of 30 to
# 38 tokens.
#
# </details>
#
# ### Explain it
#
# A fellow student sorts the corpus by length once, splits it into batches of 64 sentences, and trains on them in this
# order, epoch after epoch. "Almost no padding!" True. What would you change, and why? Name two things.

# %% [markdown] explain="explain_buckets"
# First, batches should be measured in positions, not in sentences: 64 sentences of 5 tokens are a tiny job that
# leaves the GPU idle; 64 sentences of 100 tokens may not fit into memory, and one update then has twenty times as many
# words. Second, the batches should come in a new random order in each epoch, and sentences of equal length should be
# reshuffled. If the batches always go from short to long, many updates in a row see only one kind of
# sentence, and the gradient of a batch says little about the corpus as a whole.
#
# ### BEGIN MARK SCHEME
# - 1 point: measure batches by tokens (longest times number), because equal numbers of sentences differ widely in
#   memory, work or words per update.
# - 1 point: shuffle the batches (and which sentences are in them) in each epoch (and keep similar lengths together).
# - 1 point: a reason for the second: runs of one length pull the model one way, or neighbours are always the same.
# ### END MARK SCHEME

# %% [markdown]
# ## 5. Two tensors
#
# The last step builds the batch. `collate` gets pairs of sentences, as lists of ids, and returns two matrices, one for
# the sources and one for the targets:
#
# - **The target gets a start and an end.** The decoder reads the target shifted (lesson 04): it reads `<start> A girl`
#   and should write `A girl <end>`. Without these tokens it couldn't learn to write the first word, or to stop.
# - **The source gets them too.** The encoder could do without them, but this way one function serves both sides, and
#   the encoder has a position that says "the sentence ends here".
# - **Truncate first, then append the end.** `max_length` limits what a batch can cost, and includes start and end. If
#   you append the end first and truncate afterwards, long sentences lose it, and teach the model nothing about where to
#   stop. (A widely copied program does this: it pads by a *negative* number of positions, which cuts the end off
#   without an error.) A `max_length` below 2 has no room for start and end, so it is an error.
# - **Pad on the right, each side to its own longest sentence.** Every sentence begins at position 0, and short
#   sentences make a narrow matrix.
#
# ### Worked example: truncate and pad
#
# There are two sources. The start token is 1, the end token 2 and padding 0, and `max_length` is 5.

# %% tags=["see"]
room = 5 - 2
print("room for words:", room)
long, short = [7, 8, 9, 5], [6]
long, short = long[:room], short[:room]
print("truncated:     ", long, short)
long, short = [1, *long, 2], [1, *short, 2]
print("start and end: ", long, short)
short = short + [0] * (len(long) - len(short))
print("padded:        ", long, short)
print(torch.tensor([long, short]))

# %% [markdown]
# A scratch cell: what does `pad_sequence` do to tensors of different lengths? Try it without `batch_first`.

# %% tags=["see"]
pad_sequence([torch.tensor([1, 7, 2]), torch.tensor([1, 2])], batch_first=True, padding_value=-1)

# %% [markdown]
# ### Build it

# %% build="collate"
### BEGIN SOLUTION course_lib.transformer.batching:collate

# %% [markdown]
# A scratch cell: the two sources of the worked example, each with a target. How wide should the matrix of the targets
# be?

# %% tags=["see"]
two_pairs = [([7, 8, 9, 5], [6]), ([6], [7, 8])]
print(*collate(two_pairs, pad_id=0, start_id=1, end_id=2, max_length=5), sep="\n")

# %% [markdown] hints="collate"

# %% check="collate"

# %% [markdown]
# ### See it: a batch, and what the decoder gets
#
# The tables show four pairs of captions and, below them, the output of `shift_target`.
#
# **Change something:** use a `max_length` of 8: which sentences are truncated, and do they still end with `<end>`? Then
# go back to 20, and take pairs whose lengths differ more, `[0:6000:1500]`: how does the amount of padding, shown in
# grey, change?

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
# Compare the last two tables column by column: the label is the word after those that the decoder has read. In a
# short row the decoder's input still contains `<end>`, where the label is padding; the loss ignores that position
# (lesson 08).
#
# <details><summary>What changes?</summary>
#
# With the captions, all sentences except the first German one are truncated. That one has exactly 8 tokens with start and
# end. Every row still ends with `<end>`, because `collate` truncates first. With `[0:6000:1500]`, the source has 16
# grey cells instead of 9.
#
# </details>
#
# ### See it: two batches from above
#
# Each row is a German sentence, and each small cell is a position.
#
# **Change something:** draw another bucket, such as `buckets[0][:20]` or `buckets[-1][:20]`. (Why is there any grey in a
# bucket? A pair is in it because of its *longer* sentence, and here you see the German one.)


# %% tags=["see"]
def cells(indices: Sequence[int]) -> list[list[str]]:
    rows = [["<start>", *german_pieces[index], "<end>"] for index in indices]
    widest = max(len(row) for row in rows)
    return [row + ["<pad>"] * (widest - len(row)) for row in rows]


batch_tables(
    {
        "in the order of the corpus": cells(range(20)),
        "from a length bucket": cells(buckets[len(buckets) // 2][:20]),
    }
)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# With the captions, and batches sorted from short to long, `buckets[0]` has pairs of 8 to 11 tokens, and `buckets[-1]`
# pairs of 35 to 38. In both, about a tenth of the cells are grey; in the order of the corpus, almost half.
#
# </details>
#
# ### PyTorch's own loader
#
# Most programs leave the loop over batches to PyTorch's `DataLoader`. Your two functions fit into it: the list of
# batches is its `batch_sampler`, and `collate` is its `collate_fn`. With `num_workers` it prepares batches in other
# processes while the GPU computes, which pays off when preparing them is slow, as with images. The lab's sentences are
# already ids, and building a batch takes much less time than an update, so one background thread is enough.

# %% tags=["see"]
from torch.utils.data import DataLoader

all_pairs = [
    (ids_of(source), ids_of(target)) for source, target in zip(german_words, english_words, strict=True)
]
loader = DataLoader(
    all_pairs,
    batch_sampler=token_batches([2 + max(map(len, pair)) for pair in all_pairs], BUDGET),
    collate_fn=lambda batch: collate(batch, pad_id=0, start_id=1, end_id=2, max_length=64),
)
for index, (source, target) in enumerate(loader):
    if index % 14 == 0:
        print(f"batch {index}: source {tuple(source.shape)}, target {tuple(target.shape)}")

# %% [markdown]
# ## Common questions
#
# <details><summary>Why is there an unknown token at all, if subwords need none?</summary>
#
# Subwords that start from characters, like ours, can still meet an unknown character: an emoji, or a Chinese character
# in a German text. Only those that start from bytes, like the lab's, never need the unknown token.
#
# </details>
#
# <details><summary>Do the merges follow grammar? "Fahrrad + helm" looks like it.</summary>
#
# No, they follow counts. Often the two agree, because meaningful pieces are frequent. But you will also see pieces
# like *ahr*, in *Jahr* as well as in *fahren*, or *ing*, in *singing* as well as in *king*. The model copes with
# that.
#
# </details>
#
# <details><summary>How many merges are best?</summary>
#
# It depends on how much text there is. Many merges make short sentences of rare symbols; few merges make long sentences
# of frequent symbols. For the 29,000 captions of Multi30k a few thousand are common; the paper used about 37,000
# symbols for its 4.5 million pairs. The only way to find out is to try several.
#
# </details>
#
# <details><summary>Why not split at the syllables, or use a dictionary of word parts?</summary>
#
# People have tried both, and for some languages it helps. But it takes work for each language, and fails with names,
# numbers and typing errors. Counting needs no such work, and splits anything.
#
# </details>
#
# <details><summary>How does the lab order its batches?</summary>
#
# Before each epoch, its function `epoch_plan` shuffles the pairs of equal length among themselves, builds batches by
# the same rule as yours, and shuffles the batches.
#
# </details>
#
# <details><summary>Why does the end of a word not matter here? "hund" in "hundert" is the same symbol.</summary>
#
# In Sennrich's version each word gets an end mark, so that *hund* at its end differs from *hund* inside it. The lab's
# library marks the *beginning* instead, by the space. Here we do neither, for simplicity; from these pieces alone you
# couldn't tell where the spaces were.
#
# </details>
#
# <details><summary>Can padding be avoided altogether?</summary>
#
# Yes: put the sentences one after another in one long row, and let each attend only to itself. That needs an attention
# function that knows the boundaries, and buckets leave so little padding that it is rarely worth the effort for
# translation.
#
# </details>
#
# ## Further reading
#
# - Section 5.1 of the paper; Sennrich, Haddow and Birch 2016, [Neural Machine Translation of Rare Words with Subword
#   Units](https://arxiv.org/abs/1508.07909), section 3.2: the algorithm that you have built.
# - [Ding, Renduchintala and Duh 2019](https://arxiv.org/abs/1905.10453): how the number of merges matters.
# - [Kudo 2018](https://arxiv.org/abs/1804.10959) and Provilkov et al. 2020,
#   [BPE-Dropout](https://arxiv.org/abs/1910.13267): splitting the same word in different ways during training.
# - Kudo and Richardson 2018, [SentencePiece](https://arxiv.org/abs/1808.06226): no tokenizer before the subwords.
# - Most of today's language models use byte-level merges, as the lab does, with vocabularies of roughly 50,000 to
#   260,000 symbols.
#
# ## Where you are
#
# Save the notebook, press **Validate**, and run the next cell.

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# Next: **lesson 11, decoding**. How do you get good translations out of a trained model?
