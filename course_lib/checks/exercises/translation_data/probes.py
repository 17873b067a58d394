"""Lesson 10: numbers for words, merges for subwords, batches with little padding, and their tensors."""

import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.comparison import describe
from course_lib.checks.engine.exercise import Exercise, Misconception, Prediction, WrongNumber, alone
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Raised, Reply, Value
from course_lib.checks.exercises.fixtures.sentences import batching, on_lists
from course_lib.transformer.batching import collate, token_batches
from course_lib.transformer.byte_pairs import learn_merges
from course_lib.transformer.vocabulary import build_vocabulary

PAPER = "section 5.1 of the paper"
MERGES = "Sennrich et al. 2016 (arXiv 1508.07909), section 3.2, which section 5.1 of the paper cites"
BATCHES = "section 5.1: sentence pairs were batched together by approximate sequence length"

Patch = list[tuple[str, str]]


def _told(
    reply: Reply, kind: str, is_so: Callable[[Value], bool], tell: Callable[[Any], dict[str, Any]]
) -> Any:
    """Tell the facts of what `on_lists` gives: of which kind it is, then what `tell` says of it."""
    if isinstance(reply, Raised):
        return reply
    result = reply.value["the result"]
    facts = {"what comes back": kind, "what it was given": reply.value["what it was given"]}
    if not is_so(result):
        other = "a dict of other things" if isinstance(result, dict) else describe(result)
        other = "a list of other things" if isinstance(result, tuple) else other
        return facts | {"what comes back": other, "facts": {}}
    return facts | {"facts": tell(result)}


# --- build_vocabulary ---------------------------------------------------------------------------------------

SPECIALS = ("<pad>", "<start>", "<end>", "<unknown>")


def _vocabulary(
    candidate: Candidate, sentences: Sequence[str], min_count: int, specials: tuple[str, ...] = SPECIALS
) -> Any:
    words = tuple(tuple(sentence.split()) for sentence in sentences)
    reply = candidate.make(on_lists(candidate)).call(words, min_count, specials)
    return _told(reply, "a dict of words and their numbers", _are_numbers, _order_and_numbers)


def _are_numbers(vocabulary: Value) -> bool:
    return isinstance(vocabulary, dict) and all(type(number) is int for number in vocabulary.values())


def _order_and_numbers(vocabulary: dict[str, int]) -> dict[str, Any]:
    order = sorted(vocabulary, key=lambda word: (vocabulary[word], word))
    numbers = {f"the number of {word!r}": number for word, number in vocabulary.items()}
    return {"the words, in the order of their numbers,": " ".join(order), "the numbers": numbers}


@probe("three short sentences: the specials come first, then the words, the frequent before the rare")
def _vocabulary_by_hand(candidate: Candidate, draw: Draw) -> Any:
    sentences = ("kind sieht hund", "hund sieht hund", "ein kind sieht ein kind", "hund")
    return _vocabulary(candidate, sentences, 1)


@probe("with a min_count of 2, words that stand there twice get numbers, and others none")
def _vocabulary_of_frequent_words(candidate: Candidate, draw: Draw) -> Any:
    return _vocabulary(candidate, ("ein hund", "ein hund sieht ein kind", "kind und katze"), 2)


@probe("words that are equally frequent stand in the order of their spelling")
def _vocabulary_with_ties(candidate: Candidate, draw: Draw) -> Any:
    return _vocabulary(candidate, ("zug rad bus rad", "auto zug bus", "esel auto kind"), 1)


@probe("a word counts as often as it stands there, also several times in one sentence")
def _vocabulary_counts_occurrences(candidate: Candidate, draw: Draw) -> Any:
    return _vocabulary(candidate, ("und und und und", "ein hund", "ein kind", "ein hund"), 3, ("<unknown>",))


@probe("«Der» and «der» are two words")
def _vocabulary_keeps_capitals(candidate: Candidate, draw: Draw) -> Any:
    return _vocabulary(candidate, ("Der hund der bellt der", "Der kleine hund hund hund"), 2)


@probe("a text in which a special is spelled out: it keeps its one number")
def _vocabulary_with_special_in_text(candidate: Candidate, draw: Draw) -> Any:
    return _vocabulary(candidate, ("ein <pad> ein <pad> ein <pad> <pad>", "hund und hund"), 1)


@probe("other specials, in an order that is nobody's alphabet")
def _vocabulary_with_other_specials(candidate: Candidate, draw: Draw) -> Any:
    return _vocabulary(candidate, ("ein hund", "ein kind"), 1, ("[unk]", "[eos]", "[bos]"))


@probe("capitals, umlauts, commas and digits are spelled as they are; one sentence is empty; six specials")
def _vocabulary_as_spelled(candidate: Candidate, draw: Draw) -> Any:
    specials = (*SPECIALS, "<de>", "<en>")
    return _vocabulary(candidate, ("Zug apfel , über", "", "äpfel Apfel zug . 42 ½"), 1, specials)


@probe("no sentences: only the specials are there")
def _vocabulary_of_nothing(candidate: Candidate, draw: Draw) -> Any:
    return _vocabulary(candidate, (), 1)


@probe("sentences that nobody chose, and a min_count of 3")
def _vocabulary_of_drawn_sentences(candidate: Candidate, draw: Draw) -> Any:
    words = [
        "am",
        "auf",
        "bus",
        "das",
        "ein",
        "hund",
        "kind",
        "mit",
        "oder",
        "rad",
        "sieht",
        "und",
        "wald",
        "zug",
    ]
    chosen = (draw.normal(12, 6).abs() * len(words) / 2).long().clamp(max=len(words) - 1).tolist()
    return _vocabulary(candidate, [" ".join(words[place] for place in row) for row in chosen], 3)


_SORT = "frequent.sort(key=lambda word: (-counts[word], word))"
_NUMBER = "return {word: number for number, word in enumerate([*specials, *frequent])}"
_COUNT = "Counter(word for sentence in sentences for word in sentence)"
_FREQUENT = "[word for word, count in counts.items() if count >= min_count and word not in specials]"


def _numbered(instead: str) -> Patch:
    return alone(build_vocabulary, (_NUMBER, instead))


BUILD_VOCABULARY = Exercise(
    reference=build_vocabulary,
    probes=(
        _vocabulary_by_hand,
        _vocabulary_of_frequent_words,
        _vocabulary_with_ties,
        _vocabulary_counts_occurrences,
        _vocabulary_keeps_capitals,
        _vocabulary_with_special_in_text,
        _vocabulary_with_other_specials,
        _vocabulary_of_nothing,
        _vocabulary_as_spelled,
        _vocabulary_of_drawn_sentences,
    ),
    misconceptions=(
        Misconception(
            name="more_than_min_count",
            says="a word has to occur more than min_count times, where at least min_count times is enough",
            hint="`min_count` is the least count that is enough: compare with >=.",
            paper=PAPER,
            patch=[("count >= min_count", "count > min_count")],
        ),
        Misconception(
            name="min_count_ignored",
            says="rare words get numbers too",
            hint="A word seen once or twice has no chance to get a good vector. Leave out those below "
            "min_count.",
            paper=PAPER,
            patch=[("count >= min_count and ", "")],
        ),
        Misconception(
            name="ties_left_as_found",
            says="equally frequent words stand in the order in which they were found",
            hint="Then the numbers depend on the order of the sentences. Sort by two things: the count, "
            "falling, and then the word itself. `Counter.most_common` alone does only the first.",
            paper=PAPER,
            patch=[(_SORT, "frequent.sort(key=lambda word: -counts[word])")],
        ),
        Misconception(
            name="ties_backwards",
            says="equally frequent words stand in reverse order of their spelling",
            hint="`reverse=True` turns both around, the count and the spelling. Sort by minus the count "
            "instead, then only that is turned.",
            paper=PAPER,
            patch=[(_SORT, "frequent.sort(key=lambda word: (counts[word], word), reverse=True)")],
        ),
        Misconception(
            name="by_spelling_alone",
            says="the words stand in the order of their spelling, whatever their counts",
            hint="The count comes first, falling. The spelling only decides between equally frequent words.",
            paper=PAPER,
            patch=[(_SORT, "frequent.sort()")],
        ),
        Misconception(
            name="rare_first",
            says="the rare words come before the frequent ones",
            hint="Python sorts upwards. Sort by minus the count, and the most frequent word comes first.",
            paper=PAPER,
            patch=[(_SORT, "frequent.sort(key=lambda word: (counts[word], word))")],
        ),
        Misconception(
            name="not_sorted",
            says="the words stand in the order in which they were found, whatever their counts",
            hint="Sort them by falling count, and equally frequent ones by spelling.",
            paper=PAPER,
            patch=[(_SORT, "pass")],
        ),
        Misconception(
            name="specials_last",
            says="the specials stand behind the words, where they should stand before them",
            hint="Specials come first, so that their numbers are the same whatever the text: padding is 0 "
            "today and after the next million sentences.",
            paper=PAPER,
            patch=_numbered("return {word: number for number, word in enumerate([*frequent, *specials])}"),
        ),
        Misconception(
            name="specials_forgotten",
            says="the specials got no numbers",
            hint="No sentence of the text holds padding, start or end, but every batch does.",
            paper=PAPER,
            patch=_numbered("return {word: number for number, word in enumerate(frequent)}"),
        ),
        Misconception(
            name="specials_sorted",
            says="the specials have been sorted",
            hint="They come in the order in which they are given: whoever calls you relies on it that the "
            "first gets number 0, the second number 1.",
            paper=PAPER,
            patch=_numbered(
                "return {word: number for number, word in enumerate([*sorted(specials), *frequent])}"
            ),
        ),
        Misconception(
            name="numbers_shared",
            says="the words are numbered from 0 again, so that words and specials share numbers",
            hint="Go on counting behind the specials: the first word gets the number len(specials).",
            paper=PAPER,
            patch=_numbered(
                "return {w: n for n, w in enumerate(specials)} | {w: n for n, w in enumerate(frequent)}"
            ),
        ),
        Misconception(
            name="counted_from_one",
            says="the numbers begin at 1",
            hint="The number is the row of an embedding table, and rows are counted from 0.",
            paper=PAPER,
            patch=_numbered(
                "return {word: number for number, word in enumerate([*specials, *frequent], start=1)}"
            ),
        ),
        Misconception(
            name="special_counted_as_word",
            says="a special that also stands in the text gets a second number, and loses its first",
            hint="In a dict the later entry wins. So leave out of the words what is a special already.",
            paper=PAPER,
            patch=[(" and word not in specials", "")],
        ),
        Misconception(
            name="sentences_counted",
            says="it is counted in how many sentences a word stands, not how often",
            hint="A word counts each time, also where it stands twice in a sentence. A `set` throws that "
            "away.",
            paper=PAPER,
            patch=[(_COUNT, _COUNT.replace("in sentence)", "in dict.fromkeys(sentence))"))],
        ),
        Misconception(
            name="letters_counted",
            says="letters have been counted, not words",
            hint="A sentence is a list of words already. Two loops are enough: over sentences, over their "
            "words.",
            paper=PAPER,
            patch=alone(
                build_vocabulary,
                (_COUNT, "Counter(letter for sentence in sentences for word in sentence for letter in word)"),
            ),
        ),
        Misconception(
            name="lowercased",
            says="capitals have been made small",
            hint="The words are counted as they come. German tells «die Weise» from «weise» by its "
            "capital, and a translation is to be written with capitals.",
            paper=PAPER,
            patch=alone(
                build_vocabulary, (_COUNT, _COUNT.replace("Counter(word for", "Counter(word.lower() for"))
            ),
        ),
        Misconception(
            name="counts_given_back",
            says="each word has its count, where it should have its number",
            hint="The count only says in which order. The number is the place in that order.",
            paper=PAPER,
            patch=_numbered(
                "return {w: n for n, w in enumerate(specials)} | {w: counts[w] for w in frequent}"
            ),
        ),
        Misconception(
            name="the_wrong_way_round",
            says="the dict leads from numbers to words, where it should lead from words to numbers",
            hint="It is asked with a word: `vocabulary['hund']` is a number.",
            paper=PAPER,
            patch=_numbered("return dict(enumerate([*specials, *frequent]))"),
        ),
    ),
)

# --- learn_merges -------------------------------------------------------------------------------------------


def _merges(candidate: Candidate, words: dict[str, int], count: int) -> Any:
    reply = candidate.make(on_lists(candidate)).call(words, count)
    return _told(reply, "a list of pairs of strings", _are_merges, _number_and_merges)


def _are_merges(merges: Value) -> bool:
    return isinstance(merges, tuple) and all(
        isinstance(merge, tuple) and len(merge) == 2 and all(isinstance(symbol, str) for symbol in merge)
        for merge in merges
    )


def _number_and_merges(merges: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    named = {f"merge {number}": " + ".join(merge) for number, merge in enumerate(merges, start=1)}
    return {"the number of merges": len(merges), "the merges": named}


@probe("four short words: the first three merges")
def _merges_by_hand(candidate: Candidate, draw: Draw) -> Any:
    return _merges(candidate, {"hund": 5, "hunde": 3, "bunt": 4, "hand": 2}, 3)


@probe("of equally frequent pairs the smallest is merged")
def _merges_with_ties(candidate: Candidate, draw: Draw) -> Any:
    return _merges(candidate, {"uns": 2, "rad": 2, "am": 2, "tee": 2}, 6)


@probe("a pair that stands twice in a word counts twice, and is merged twice")
def _merges_twice_in_a_word(candidate: Candidate, draw: Draw) -> Any:
    return _merges(candidate, {"ananas": 3, "tee": 7, "strandsand": 2}, 9)


@probe("«ei» + «s» is another pair than «i» + «s»")
def _merges_keep_symbols_whole(candidate: Candidate, draw: Draw) -> Any:
    return _merges(candidate, {"ei": 8, "eis": 4, "is": 6}, 4)


@probe("capitals are other characters than small letters")
def _merges_keep_capitals(candidate: Candidate, draw: Draw) -> Any:
    return _merges(candidate, {"Rad": 3, "rad": 2, "Rat": 4}, 3)


@probe("umlauts, dots and brackets are characters like others")
def _merges_any_characters(candidate: Candidate, draw: Draw) -> Any:
    return _merges(candidate, {"u.s": 6, "uxs": 1, "f(": 4, "für": 5}, 8)


@probe("a pair that occurs only once is merged too, and the merges end where no pair is left")
def _merges_until_none_is_left(candidate: Candidate, draw: Draw) -> Any:
    return _merges(candidate, {"rad": 1, "o": 7}, 10)


@probe("no merges are asked for, and none come")
def _merges_none(candidate: Candidate, draw: Draw) -> Any:
    return _merges(candidate, {"hund": 5}, 0)


@probe("compounds, with counts that nobody chose: twenty merges")
def _merges_of_drawn_counts(candidate: Candidate, draw: Draw) -> Any:
    words = [
        "rad",
        "fahrrad",
        "fahrer",
        "radfahrer",
        "helm",
        "fahrradhelm",
        "regen",
        "regenhut",
        "hut",
        "strohhut",
    ]
    counts = draw.integers(1, 30, len(words)).tolist()
    return _merges(candidate, dict(zip(words, counts, strict=True)), 20)


_PLAINLY = """
    spelled = {word: list(word) for word in words}
    merges = []
    while len(merges) < count:
        pairs = Counter()
        for word, symbols in spelled.items():
            for pair in pairwise(symbols):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for word, symbols in spelled.items():
            merged, place = [], 0
            while place < len(symbols):
                width = 2 if tuple(symbols[place : place + 2]) == best else 1
                merged.append("".join(symbols[place : place + width]))
                place += width
            spelled[word] = merged
    return merges
"""
"""The body of `learn_merges` as most people write it: it counts all pairs anew for each merge."""

_BEST = "best = min(pairs, key=lambda pair: (-pairs[pair], pair))"


def _plainly(*pieces: tuple[str, str]) -> Patch:
    """Put a mistake into the plain body, and that in the place of the reference's."""
    wrong = _PLAINLY
    for piece, instead in pieces:
        assert wrong.count(piece) == 1, piece
        wrong = wrong.replace(piece, instead)
    source = textwrap.dedent(inspect.getsource(learn_merges))
    head, quotes, _ = source.rpartition('"""')
    return [(source, head + quotes + wrong)]


LEARN_MERGES = Exercise(
    reference=learn_merges,
    probes=(
        _merges_by_hand,
        _merges_with_ties,
        _merges_twice_in_a_word,
        _merges_keep_symbols_whole,
        _merges_keep_capitals,
        _merges_any_characters,
        _merges_until_none_is_left,
        _merges_none,
        _merges_of_drawn_counts,
    ),
    misconceptions=(
        Misconception(
            name="words_counted_once",
            says="each word counts once, however often it occurs",
            hint="`words` says how often each word occurs. A pair in a word that occurs five times occurs "
            "five times.",
            paper=MERGES,
            patch=_plainly(("pairs[pair] += words[word]", "pairs[pair] += 1")),
        ),
        Misconception(
            name="once_in_a_word",
            says="a pair that stands twice in a word is counted once there",
            hint="In «ananas» the pair a + n stands twice. Count over all places; a `set` of the pairs "
            "forgets.",
            paper=MERGES,
            patch=_plainly(("in pairwise(symbols)", "in set(pairwise(symbols))")),
        ),
        Misconception(
            name="first_place_alone",
            says="the pair is merged only where it stands first in a word",
            hint="In «ananas» a + n stands twice, and both become «an». Go on to the end of the word.",
            paper=MERGES,
            patch=_plainly(
                ("place + 2]) == best", "place + 2]) == best and len(merged) == place"),
            ),
        ),
        Misconception(
            name="never_merged",
            says="the pairs of single characters are counted once, and the most frequent ones given back",
            hint="After each merge there are new symbols, and new pairs with them. Merge in all words, "
            "then count again.",
            paper=MERGES,
            patch=_plainly(
                (
                    "        pairs = Counter()",
                    "        if merges:\n            break\n        pairs = Counter()",
                ),
                (
                    "merges.append(best)",
                    "merges.extend(sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:count])",
                ),
            ),
        ),
        Misconception(
            name="same_pair_again",
            says="the same pair comes again and again, since the words are never changed",
            hint="After a pair has been found, it becomes one symbol in every word. Only then count again.",
            paper=MERGES,
            patch=_plainly(("spelled[word] = merged", "pass")),
        ),
        Misconception(
            name="merged_as_text",
            says="the merge runs over the borders of symbols: «ei» + «s» is merged where «i» + «s» was meant",
            hint="With the symbols joined by spaces, `replace('i s', 'is')` also finds the end of «ei s». "
            "Go through the list of symbols and compare whole ones.",
            paper=MERGES,
            patch=_plainly(
                (
                    "spelled[word] = merged",
                    'spelled[word] = " ".join(symbols).replace(" ".join(best), "".join(best)).split(" ")',
                )
            ),
        ),
        Misconception(
            name="neighbours_missed",
            says="of two places side by side where the pair stands, only one is merged",
            hint="In « a n a n » the two places share a space, and `replace` uses it up for the first. Go "
            "through the list of symbols instead.",
            paper=MERGES,
            patch=_plainly(
                (
                    "spelled[word] = merged",
                    "text, pair = f\" {' '.join(symbols)} \", f\" {' '.join(best)} \"\n"
                    "            spelled[word] = text.replace(pair, f\" {''.join(best)} \").split()",
                )
            ),
        ),
        Misconception(
            name="first_seen",
            says="of equally frequent pairs the one that was seen first is merged",
            hint="Then the merges depend on the order of the words. Take the smallest pair, as Python "
            "compares tuples: sort by minus the count and then by the pair.",
            paper=MERGES,
            patch=_plainly((_BEST, "best = max(pairs, key=pairs.get)")),
        ),
        Misconception(
            name="rarest",
            says="the rarest pair is merged, where it should be the most frequent",
            hint="`min` takes the smallest: so look for the smallest of minus the count.",
            paper=MERGES,
            patch=_plainly((_BEST, "best = min(pairs, key=lambda pair: (pairs[pair], pair))")),
        ),
        Misconception(
            name="likeliest",
            says="the counts of the pairs are divided by those of their symbols",
            hint="That is WordPiece, another method. Byte-pair encoding takes the pair with the highest "
            "count.",
            paper=MERGES,
            patch=_plainly(
                ("        pairs = Counter()", "        pairs, single = Counter(), Counter()"),
                (
                    "            for pair in pairwise(symbols)",
                    "            for symbol in symbols:\n                single[symbol] += words[word]\n"
                    "            for pair in pairwise(symbols)",
                ),
                ("(-pairs[pair], pair)", "(-pairs[pair] / (single[pair[0]] * single[pair[1]]), pair)"),
            ),
        ),
        Misconception(
            name="none_left_raises",
            says="it fails where no pair is left",
            hint="When every word is a single symbol there is nothing to merge: end early, and give back "
            "fewer.",
            paper=MERGES,
            patch=_plainly(("        if not pairs:\n            break\n", "")),
        ),
        Misconception(
            name="rare_left_out",
            says="it ends where the most frequent pair occurs only once",
            hint="Some programs do that. Here the merges go on while there is a pair, and `count` says "
            "when it is enough.",
            paper=MERGES,
            patch=[
                (
                    "merges.append(best)",
                    "if pair_counts[best] < 2:\n            break\n        merges.append(best)",
                )
            ],
        ),
        Misconception(
            name="words_changed",
            says="the words that it was given are changed",
            hint="Whoever called still needs the counts. Keep the symbols of each word in a dict of your "
            "own.",
            paper=MERGES,
            patch=_plainly(("return merges", "words.clear()\n    return merges")),
        ),
        Misconception(
            name="ties_largest",
            says="of equally frequent pairs the largest is merged",
            hint="`max` with (count, pair) takes the largest of both. Take `min` with (-count, pair).",
            paper=MERGES,
            patch=[
                (
                    "min(pair_counts, key=lambda pair: (-pair_counts[pair], pair))",
                    "max(pair_counts, key=lambda pair: (pair_counts[pair], pair))",
                )
            ],
        ),
        Misconception(
            name="end_mark",
            says="an end mark is put behind each word",
            hint="The article that the paper cites does so, to tell the end of a word from its inside. "
            "Here the symbols are the characters, and nothing else.",
            paper=MERGES,
            patch=[("list(word) for word", '[*word, "</w>"] for word')],
        ),
        Misconception(
            name="small_letters",
            says="capitals have been made small",
            hint="A word is its characters as they stand there.",
            paper=MERGES,
            patch=[("list(word) for word", "list(word.lower()) for word")],
        ),
        Misconception(
            name="one_too_many",
            says="there is one merge too many",
            hint="`count` merges: go on while there are fewer than that.",
            paper=MERGES,
            patch=[("while len(merges) < count", "while len(merges) <= count")],
        ),
        Misconception(
            name="joined",
            says="the joined symbols are given back, where it should be the pairs",
            hint="«und» may have come from u + nd or from un + d. Whoever applies the merges needs to "
            "know: give back (left, right).",
            paper=MERGES,
            patch=[("merges.append(best)", 'merges.append("".join(best))')],
        ),
    ),
)

# --- token_batches ------------------------------------------------------------------------------------------


def _plan(candidate: Candidate, lengths: Sequence[int], max_tokens: int, packed: bool = False) -> Reply:
    sorted_plan = _size_of_plan(token_batches(lengths, max_tokens), lengths) if packed else None
    return candidate.make(batching(candidate, packed=sorted_plan)).call(tuple(lengths), max_tokens)


def _size_of_plan(plan: Sequence[Sequence[int]], lengths: Sequence[int]) -> tuple[int, int]:
    """Give the places that a plan takes, padding included, and the number of its batches."""
    return sum(max(lengths[index] for index in batch) * len(batch) for batch in plan), len(plan)


@probe("five sentences and a budget of 10: each index once, and no batch over the budget")
def _plan_by_hand(candidate: Candidate, draw: Draw) -> Any:
    return _plan(candidate, (5, 2, 9, 2, 4), 10)


@probe("a sentence that needs the whole budget fits, by itself")
def _plan_of_exact_fit(candidate: Candidate, draw: Draw) -> Any:
    return _plan(candidate, (7, 12, 3, 4, 3, 6, 2, 1), 12)


@probe("a single sentence makes a single batch")
def _plan_of_one(candidate: Candidate, draw: Draw) -> Any:
    return _plan(candidate, (3,), 12)


@probe("sentences of one length: as many as the budget holds, and the rest")
def _plan_of_equal_lengths(candidate: Candidate, draw: Draw) -> Any:
    return _plan(candidate, (4,) * 11, 17)


@probe("a sentence over the budget is refused by name, or stands alone")
def _plan_of_too_long(candidate: Candidate, draw: Draw) -> Any:
    # The others fill a batch each, so that nothing but what is done with this one can be seen.
    return _plan(candidate, (*[40] * 12, 57, 40), 40)


@probe("200 captions of 3 to 40 tokens, with a budget of 200: little padding")
def _plan_of_captions(candidate: Candidate, draw: Draw) -> Any:
    lengths = (15 + 8 * draw.normal(200)).clamp(3, 40).long().tolist()
    return _plan(candidate, lengths, 200, packed=True)


@probe("120 sentences of 2 to 60 tokens, long ones as frequent as short ones, with a budget of 333")
def _plan_of_even_lengths(candidate: Candidate, draw: Draw) -> Any:
    return _plan(candidate, draw.integers(2, 61, 120).tolist(), 333, packed=True)


_ORDER = "sorted(range(len(lengths)), key=lambda index: lengths[index])"
_LOOP = f"for index in {_ORDER}:"
_FITS = "lengths[index] * (len(batch) + 1) > max_tokens"
_NEW = "batch = []\n        batch.append(index)"
_REFUSAL = """raise ValueError(
                f"sentence {index} has {lengths[index]} tokens, and a batch may have {max_tokens}: "
                "shorten it, leave it out or allow more"
            )"""

_GUARD = f"        if lengths[index] > max_tokens:\n            {_REFUSAL}\n"
_REST = "    if batch:\n        batches.append(batch)\n    return"


def _planned(*pieces: tuple[str, str]) -> Patch:
    return alone(token_batches, *pieces)


TOKEN_BATCHES = Exercise(
    reference=token_batches,
    probes=(
        _plan_by_hand,
        _plan_of_exact_fit,
        _plan_of_one,
        _plan_of_equal_lengths,
        _plan_of_too_long,
        _plan_of_captions,
        _plan_of_even_lengths,
    ),
    misconceptions=(
        Misconception(
            name="in_the_given_order",
            says="the sentences are taken in the order in which they come, so short ones are padded to "
            "long ones",
            hint="Sort the indices by length first. Then those of a batch have nearly the same length.",
            paper=BATCHES,
            patch=_planned(
                (_ORDER, "range(len(lengths))"),
                (_FITS, "max(lengths[i] for i in [*batch, index]) * (len(batch) + 1) > max_tokens"),
            ),
        ),
        Misconception(
            name="newest_taken_for_longest",
            says="the newest sentence is taken for the longest of its batch, but the sentences are not "
            "sorted",
            hint="All are padded to the longest, wherever it stands. If you go from short to long, the "
            "newest is the longest.",
            paper=BATCHES,
            patch=_planned((_ORDER, "range(len(lengths))")),
        ),
        Misconception(
            name="newest_is_shortest",
            says="the sentences go from long to short, and the newest, which is the shortest, is taken for "
            "the longest",
            hint="All are padded to the longest, which is then the first of the batch.",
            paper=BATCHES,
            patch=_planned((_ORDER, _ORDER.replace("lengths[index])", "-lengths[index])"))),
        ),
        Misconception(
            name="budget_without_padding",
            says="the budget is compared with the sum of the lengths, so padding is not counted",
            hint="A batch is a rectangle in memory: its longest sentence times the number of its sentences.",
            paper=BATCHES,
            patch=_planned((_FITS, "sum(lengths[i] for i in [*batch, index]) > max_tokens")),
        ),
        Misconception(
            name="sentences_budgeted",
            says="max_tokens is taken for a number of sentences",
            hint="It is a number of places: the longest sentence times the number of sentences.",
            paper=BATCHES,
            patch=_planned((_FITS, "len(batch) + 1 > max_tokens")),
        ),
        Misconception(
            name="one_too_many",
            says="a batch is closed one sentence too late",
            hint="Ask what the batch would take *with* the new sentence: one more than it has.",
            paper=BATCHES,
            patch=_planned(("(len(batch) + 1) > max_tokens", "len(batch) > max_tokens")),
        ),
        Misconception(
            name="longest_before",
            says="the batch is measured with its longest sentence from before the new one came",
            hint="The new sentence may be longer, and then all others are padded to it. Measure with it.",
            paper=BATCHES,
            patch=_planned((_FITS, "lengths[batch[-1]] * (len(batch) + 1) > max_tokens")),
        ),
        Misconception(
            name="first_taken_for_longest",
            says="the first sentence of a batch is taken for its longest, and it is the shortest",
            hint="From short to long, the longest of a batch is the newest.",
            paper=BATCHES,
            patch=_planned((_FITS, "lengths[batch[0]] * (len(batch) + 1) > max_tokens")),
        ),
        Misconception(
            name="places_given_back",
            says="the indices are places in the sorted list, where they should be places in the list that "
            "was given",
            hint="Sort the indices, not the lengths: `sorted(range(n), key=...)`. Else nobody knows which "
            "sentence is meant.",
            paper=BATCHES,
            patch=_planned((_LOOP, "lengths = sorted(lengths)\n    for index in range(len(lengths)):")),
        ),
        Misconception(
            name="sorted_in_place",
            says="the list of lengths is sorted in place, so that the indices mean other sentences",
            hint="`lengths.sort()` changes the caller's list, and after it nobody knows which sentence is "
            "meant. Sort the indices: `sorted(range(n), key=...)`.",
            paper=BATCHES,
            patch=_planned((_LOOP, "lengths.sort()\n    for index in range(len(lengths)):")),
        ),
        Misconception(
            name="lengths_given_back",
            says="the batches hold lengths, where they should hold indices",
            hint="A batch says *which* sentences it holds. Their lengths don't tell.",
            paper=BATCHES,
            patch=_planned((_NEW, _NEW.replace("append(index)", "append(lengths[index])"))),
        ),
        Misconception(
            name="each_alone",
            says="every sentence gets a batch for itself",
            hint="No padding, but no batch either. Close a batch only when the next sentence doesn't fit.",
            paper=BATCHES,
            patch=_planned((f"batch and {_FITS}", "batch")),
        ),
        Misconception(
            name="one_list_for_all",
            says="all batches are one and the same list",
            hint="`batches.append(batch)` keeps the list itself, not a copy, and `clear()` then empties it "
            "there too. Begin a new list: `batch = []`.",
            paper=BATCHES,
            patch=_planned((_NEW, _NEW.replace("batch = []", "batch.clear()"))),
        ),
        Misconception(
            name="misfit_lost",
            says="the sentence that does not fit any more is lost",
            hint="It closes the batch before it, and is then the first of the next one.",
            paper=BATCHES,
            patch=[(_NEW, "batch = []\n        else:\n            batch.append(index)")],
        ),
        Misconception(
            name="misfit_lost_if_too_long",
            says="the sentence that does not fit any more is lost, also one over the budget",
            hint="It closes the batch before it, and is then the first of the next one.",
            paper=BATCHES,
            patch=_planned(
                (_GUARD, ""), (_NEW, "batch = []\n        else:\n            batch.append(index)")
            ),
        ),
        Misconception(
            name="last_batch_lost",
            says="the last batch is lost",
            hint="A batch is kept when a sentence doesn't fit into it. Behind the last sentence none "
            "comes, so keep what is left after the loop.",
            paper=BATCHES,
            patch=[(_REST, "    return")],
        ),
        Misconception(
            name="last_batch_lost_with_the_longest",
            says="the last batch is lost, and with it a sentence over the budget",
            hint="A batch is kept when a sentence doesn't fit into it. Behind the last sentence none "
            "comes, so keep what is left after the loop.",
            paper=BATCHES,
            patch=_planned((_GUARD, ""), (_REST, "    return")),
        ),
        Misconception(
            name="too_long_dropped",
            says="a sentence over the budget is left out without a word",
            hint="Nobody would notice that part of the corpus is missing. Refuse it with a ValueError that "
            "says which it is, or put it into a batch for itself.",
            paper=BATCHES,
            patch=[(_REFUSAL, "continue")],
        ),
        Misconception(
            name="refused_without_name",
            says="a sentence over the budget is refused, but nobody is told which",
            hint="Say in the message which sentence it is, by its index, and how long: there are thousands.",
            paper=BATCHES,
            patch=[(_REFUSAL, 'raise ValueError("a sentence is too long")')],
        ),
        Misconception(
            name="exact_fit_refused",
            says="a sentence that is just as long as the budget is refused",
            hint="It fits: a batch has *at most* max_tokens places.",
            paper=BATCHES,
            patch=[("if lengths[index] > max_tokens", "if lengths[index] >= max_tokens")],
        ),
    ),
)

# --- collate ------------------------------------------------------------------------------------------------

PAD, START, END = 0, 1, 2
Pairs = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def _batch(
    candidate: Candidate, pairs: Pairs, max_length: int, ids: tuple[int, int, int] = (PAD, START, END)
) -> Any:
    reply = candidate.make(on_lists(candidate)).call(pairs, *ids, max_length)
    return _told(reply, "a pair of tensors", _are_sides, lambda sides: dict(zip(_SIDES, sides, strict=True)))


_SIDES = ("the source", "the target")


def _are_sides(sides: Value) -> bool:
    return isinstance(sides, tuple) and len(sides) == 2 and all(isinstance(side, Tensor) for side in sides)


def _ids(*lengths: int) -> tuple[tuple[int, ...], ...]:
    """Make sentences of these lengths, of ids that occur once."""
    return tuple(tuple(range(10 * (row + 1), 10 * (row + 1) + length)) for row, length in enumerate(lengths))


def _pairs(sources: Sequence[int], targets: Sequence[int]) -> Pairs:
    both = _ids(*sources, *targets)
    return tuple(zip(both[: len(sources)], both[len(sources) :], strict=True))


@probe("two pairs: each sentence stands between start and end, and each side has its own length")
def _batch_of_two(candidate: Candidate, draw: Draw) -> Any:
    return _batch(candidate, _pairs((2, 4), (1, 2)), 10)


@probe("three pairs with longer targets; the longest stand in the middle and at the end")
def _batch_of_longer_targets(candidate: Candidate, draw: Draw) -> Any:
    return _batch(candidate, _pairs((1, 3, 2), (4, 2, 6)), 12)


@probe("padding, start and end may have any ids")
def _batch_with_other_ids(candidate: Candidate, draw: Draw) -> Any:
    return _batch(candidate, _pairs((3, 1), (2, 5)), 10, ids=(7, 3, 5))


@probe("a max_length of 6: sentences of 3, 4, 5, 6 and 9 words, of which the last three are cut")
def _batch_that_is_cut(candidate: Candidate, draw: Draw) -> Any:
    return _batch(candidate, _pairs((3, 4, 5, 6, 9), (9, 2, 4, 5, 1)), 6)


@probe("a single pair of one word each")
def _batch_of_one(candidate: Candidate, draw: Draw) -> Any:
    return _batch(candidate, _pairs((1,), (1,)), 8)


@probe("a max_length of 2 leaves the start and the end alone")
def _batch_of_least_room(candidate: Candidate, draw: Draw) -> Any:
    return _batch(candidate, _pairs((1, 3), (4, 2)), 2)


@probe("sentences without a word, and one that begins with the start's own id")
def _batch_of_anything(candidate: Candidate, draw: Draw) -> Any:
    return _batch(candidate, (((), (START, 30)), ((20, 21, END), ())), 10)


@probe("pairs of lengths that nobody chose")
def _batch_of_drawn_lengths(candidate: Candidate, draw: Draw) -> Any:
    sources, targets = draw.integers(1, 9, 2, 4).tolist()
    return _batch(candidate, _pairs(sources, targets), 8)


_ROW = "[start_id, *ids[: max_length - 2], end_id]"
_ROWS = f"rows = [torch.tensor({_ROW}) for ids in sentences]"
_PAD = "return pad_sequence(rows, batch_first=True, padding_value=pad_id)"
_BOTH = "return side([source for source, _ in pairs]), side([target for _, target in pairs])"


def _collated(*pieces: tuple[str, str]) -> Patch:
    return alone(collate, *pieces)


def _sides(row: str, sides: str) -> Patch:
    """Let `other` frame one of the two sides in another way."""
    other = f"""sources, targets = [source for source, _ in pairs], [target for _, target in pairs]

    def other(sentences):
        rows = [torch.tensor({row}) for ids in sentences]
        {_PAD}

    return {sides}"""
    return _collated((_BOTH, other))


COLLATE = Exercise(
    reference=collate,
    probes=(
        _batch_of_two,
        _batch_of_longer_targets,
        _batch_with_other_ids,
        _batch_that_is_cut,
        _batch_of_one,
        _batch_of_least_room,
        _batch_of_anything,
        _batch_of_drawn_lengths,
    ),
    misconceptions=(
        Misconception(
            name="end_cut_off",
            says="a long sentence loses its end, because it is cut after it got its start and end",
            hint="A model that learns from it never learns to stop. Cut the words first, then put start "
            "and end around them. (Padding by a negative amount cuts in the same way.)",
            paper=PAPER,
            patch=[(_ROW, "[start_id, *ids, end_id][:max_length]")],
        ),
        Misconception(
            name="start_and_end_not_counted",
            says="start and end come on top of max_length",
            hint="`max_length` counts these two, so max_length - 2 words are left.",
            paper=PAPER,
            patch=[("ids[: max_length - 2]", "ids[:max_length]")],
        ),
        Misconception(
            name="only_one_counted",
            says="of start and end only one is counted in max_length",
            hint="There are two of them: max_length - 2 words are left.",
            paper=PAPER,
            patch=[("ids[: max_length - 2]", "ids[: max_length - 1]")],
        ),
        Misconception(
            name="never_cut",
            says="max_length is ignored",
            hint="One sentence that runs on for pages would make a batch that no memory can hold.",
            paper=PAPER,
            patch=[("ids[: max_length - 2]", "ids")],
        ),
        Misconception(
            name="beginning_cut",
            says="a long sentence loses its beginning, where it should lose its end",
            hint="A slice from the left keeps the first words: ids[: max_length - 2].",
            paper=PAPER,
            patch=[("ids[: max_length - 2]", "ids[-(max_length - 2) :]")],
        ),
        Misconception(
            name="always_max_length",
            says="every batch is as wide as max_length",
            hint="A batch of captions would be nearly all padding. Each side is padded to its own longest "
            "sentence.",
            paper=BATCHES,
            patch=_collated(
                (_ROWS, _ROWS.replace("end_id]", "end_id] + [pad_id] * (max_length - 2 - len(ids))"))
            ),
        ),
        Misconception(
            name="sides_of_one_width",
            says="both sides are padded to the longest sentence of either",
            hint="Source and target are tensors of their own, and attention doesn't need them equally long.",
            paper=PAPER,
            patch=_collated(
                (
                    _BOTH,
                    "both = side([source for source, _ in pairs] + [target for _, target in pairs])\n"
                    "    return both[: len(pairs)], both[len(pairs) :]",
                )
            ),
        ),
        Misconception(
            name="padded_on_the_left",
            says="the padding stands before the sentence, where it should stand behind it",
            hint="Positions are counted from the left: every sentence is to begin at position 0.",
            paper=PAPER,
            patch=_collated((_PAD, _PAD.replace("pad_id)", "pad_id, padding_side='left')"))),
        ),
        Misconception(
            name="padded_with_zero",
            says="it is padded with 0, whatever pad_id is",
            hint="`pad_sequence` pads with 0 unless it is told otherwise: padding_value=pad_id. Here 0 may "
            "be a word.",
            paper=PAPER,
            patch=[(", padding_value=pad_id", "")],
        ),
        Misconception(
            name="end_behind_the_padding",
            says="the end stands behind the padding, where it should stand behind the last word",
            hint="The end belongs to the sentence: put it there before you pad.",
            paper=PAPER,
            patch=_collated(
                (_ROW, "[start_id, *ids[: max_length - 2]]"),
                (
                    _PAD,
                    f"{_PAD.replace('return', 'padded =')}\n"
                    "        return torch.cat([padded, torch.full((len(rows), 1), end_id)], dim=1)",
                ),
            ),
        ),
        Misconception(
            name="axes_swapped",
            says="the positions are the rows and the sentences the columns",
            hint="A batch is (sentences, positions). `pad_sequence` does it the other way round unless it "
            "is told batch_first=True.",
            paper=PAPER,
            patch=_collated((_PAD, _PAD.replace("batch_first=True, ", ""))),
        ),
        Misconception(
            name="start_and_end_swapped",
            says="start and end have changed places",
            hint="The start comes first: it is what the decoder sees before it has written anything.",
            paper=PAPER,
            patch=_collated((_ROW, "[end_id, *ids[: max_length - 2], start_id]")),
        ),
        Misconception(
            name="no_start",
            says="the start is missing",
            hint="From the start the decoder writes its first word. Without it shift_target (lesson 04) "
            "would hide the first word of every sentence.",
            paper=PAPER,
            patch=_collated((_ROW, "[*ids[: max_length - 2], end_id]")),
        ),
        Misconception(
            name="no_end",
            says="the end is missing",
            hint="A model that has never seen an end never learns to stop.",
            paper=PAPER,
            patch=_collated((_ROW, "[start_id, *ids[: max_length - 2]]")),
        ),
        Misconception(
            name="bare_source",
            says="the source has neither start nor end",
            hint="In this course both sides get both: they share one vocabulary, and an encoder, too, can "
            "use a place that says «here it ends».",
            paper=PAPER,
            patch=_sides("ids[: max_length - 2]", "other(sources), side(targets)"),
        ),
        Misconception(
            name="source_without_start",
            says="the source has no start",
            hint="In this course both sides get both, start and end.",
            paper=PAPER,
            patch=_sides("[*ids[: max_length - 2], end_id]", "other(sources), side(targets)"),
        ),
        Misconception(
            name="target_without_end",
            says="the target has no end",
            hint="The end is the last word that the decoder has to learn to write.",
            paper=PAPER,
            patch=_sides("[start_id, *ids[: max_length - 2]]", "side(sources), other(targets)"),
        ),
        Misconception(
            name="sides_swapped",
            says="source and target have changed places",
            hint="A pair is (source, target), and so is what is given back.",
            paper=PAPER,
            patch=[
                (_BOTH, "return side([target for _, target in pairs]), side([source for source, _ in pairs])")
            ],
        ),
        Misconception(
            name="numbers_with_a_point",
            says="the ids are floating-point numbers",
            hint="Ids choose rows of a table, so they are whole numbers. `torch.Tensor(...)` and "
            "`torch.zeros(...)` make float32; `torch.tensor` of whole numbers makes int64.",
            paper=PAPER,
            patch=_collated((_ROWS, _ROWS.replace("torch.tensor(", "torch.Tensor("))),
        ),
        Misconception(
            name="ids_changed",
            says="the lists of ids that it was given are changed",
            hint="`append` and `insert` write into the caller's list: in the next epoch the sentence would "
            "have two starts. Make a new list.",
            paper=PAPER,
            patch=_collated((_PAD, f"for ids in sentences:\n            ids.append(end_id)\n        {_PAD}")),
        ),
    ),
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_PAIR = Prediction(
    name="predict_pair",
    answer=12.0,
    tolerance=0.005,
    hint="Write down the pairs of each word, and each pair as often as the word occurs.",
    misconceptions=(
        WrongNumber(
            "words_counted_once", 3.0, "In so many words it stands. But the words occur several times."
        ),
        WrongNumber(
            "letters", 14.0, "So often occurs the letter n. It is a pair that is asked for, two neighbours."
        ),
        WrongNumber("second", 10.0, "So often occurs n + d. There is a pair that occurs more often."),
        WrongNumber("hund", 8.0, "So often occurs h + u. There is a pair that occurs more often."),
    ),
)

PREDICT_SIZE = Prediction(
    name="predict_size",
    answer=8060.0,
    tolerance=0.0001,
    hint="What can be a symbol? Everything that there was before the first merge, and what each merge adds.",
    misconceptions=(
        WrongNumber(
            "merges_alone", 8000.0, "Each merge adds one symbol. But the characters are still there."
        ),
        WrongNumber(
            "both_parts", 16060.0, "A merge adds one symbol, the joined one. Its two parts were there before."
        ),
        WrongNumber(
            "parts_gone", 7940.0, "A merge takes no symbol away: u and n are still needed in other words."
        ),
    ),
)

PREDICT_PADDING = Prediction(
    name="predict_padding",
    answer=0.6,
    tolerance=0.005,
    hint="The batch has as many places as its longest sentence has tokens, times the number of sentences.",
    misconceptions=(
        WrongNumber("real_share", 0.4, "That is the share of the real tokens. The rest is padding."),
        WrongNumber(
            "percent", 60.0, "Right as a number of per cent. As a fraction of one it is a hundredth of that."
        ),
        WrongNumber(
            "against_real", 1.5, "That is padding per real token. Asked for is the part of all places."
        ),
        WrongNumber("sentences", 0.75, "Three of four sentences have padding, but not all of it is padding."),
    ),
)

CATALOGUE = (
    BUILD_VOCABULARY,
    PREDICT_PAIR,
    LEARN_MERGES,
    PREDICT_SIZE,
    PREDICT_PADDING,
    TOKEN_BATCHES,
    COLLATE,
)
