"""Probes of lesson 10: vocabularies, byte-pair encoding, batches by token count, and their tensors."""

from collections.abc import Callable, Sequence

from torch import Tensor

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.comparison import describe
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.engine.probe import Draw, Observed
from course_lib.checks.engine.reply import Raised, Reply, Returned, Text, Value
from course_lib.checks.exercises.fixtures.refusals import NOT_REFUSED, REFUSED, refusal
from course_lib.checks.exercises.fixtures.sentences import UNCHANGED, batching, on_lists
from course_lib.transformer.batching import collate, token_batches
from course_lib.transformer.byte_pairs import learn_merges
from course_lib.transformer.vocabulary import build_vocabulary


def _facts(
    reply: Reply, kind: str, is_so: Callable[[Value], bool], facts_of: Callable[[Value], dict[str, Value]]
) -> Observed:
    """Return facts about a result of `on_lists`: its type and content, and whether arguments were modified.

    If `is_so` accepts the result, the type is reported as `kind`, and `facts_of` describes the content.
    Otherwise only the actual type is reported. An exception, raised or returned, is passed through.
    """
    if isinstance(reply, Raised) or not isinstance(reply.value, dict):
        return reply
    result = reply.value["the result"]
    facts = {"the result": kind, UNCHANGED: reply.value[UNCHANGED]}
    if not is_so(result):
        other = describe(result)
        if isinstance(result, dict):
            other = "a dict with other keys or values" if kind.startswith("a dict") else "a dict"
        elif isinstance(result, tuple):
            items = f"a list or tuple of {len(result)}"
            other = "a list with other items" if kind.startswith("a list") else items
        return facts | {"the result": other, "facts": {}}
    return facts | {"facts": facts_of(result)}


# --- build_vocabulary ---------------------------------------------------------------------------------------

BUILD_VOCABULARY = ExerciseCheck(build_vocabulary)
probe = BUILD_VOCABULARY.probe

SPECIALS = ("<pad>", "<start>", "<end>", "<unknown>")


def _vocabulary(
    candidate: Candidate, sentences: Sequence[str], min_count: int, specials: tuple[str, ...] = SPECIALS
) -> Observed:
    words = tuple(tuple(sentence.split()) for sentence in sentences)
    reply = candidate.fixture(on_lists(candidate)).call(words, min_count, specials)
    return _facts(reply, "a dict from words to integers", _are_numbers, _order_and_numbers)


def _are_numbers(vocabulary: Value) -> bool:
    return isinstance(vocabulary, dict) and all(type(number) is int for number in vocabulary.values())


def _order_and_numbers(vocabulary: dict[str, int]) -> dict[str, Value]:
    order = sorted(vocabulary, key=lambda word: (vocabulary[word], word))
    numbers = {f"the id of {word!r}": number for word, number in vocabulary.items()}
    return {"the words, in the order of their ids,": Text(" ".join(order)), "the ids": numbers}


case = BUILD_VOCABULARY.cases(_vocabulary)
case(
    "the special tokens come first, then the words, with frequent ones before rare ones",
    ("kind sieht hund", "hund sieht hund", "ein kind sieht ein kind", "hund"),
    1,
)
case(
    "with a min_count of 2, only words that occur at least twice get ids",
    ("ein hund", "ein hund sieht ein kind", "kind und katze"),
    2,
)
case(
    "equally frequent words are sorted by spelling", ("zug rad bus rad", "auto zug bus", "esel auto kind"), 1
)
case(
    "every occurrence of a word counts, including several in one sentence",
    ("und und und und", "ein hund", "ein kind", "ein hund"),
    3,
    ("<unknown>",),
)
case("'Der' and 'der' are two different words", ("Der hund der bellt der", "Der kleine hund hund hund"), 2)
case(
    "a special token that occurs in the text keeps its id",
    ("ein <pad> ein <pad> ein <pad> <pad>", "hund und hund"),
    1,
)
case(
    "other special tokens keep their order, which is not alphabetical",
    ("ein hund", "ein kind"),
    1,
    ("[unk]", "[eos]", "[bos]"),
)
case("without any sentences, only the special tokens have ids", (), 1)
case(
    "words keep their capitals, umlauts, commas and digits, and a sentence may be empty",
    ("Zug apfel , über", "", "äpfel Apfel zug . 42 ½"),
    1,
    (*SPECIALS, "<de>", "<en>"),
)


@probe("the ids are correct for random sentences and a min_count of 3")
def _vocabulary_of_drawn_sentences(candidate: Candidate, draw: Draw) -> Observed:
    text = "am auf bus das ein hund kind mit oder rad sieht und wald zug"
    words = text.split()
    chosen = (draw.normal(12, 6).abs() * len(words) / 2).long().clamp(max=len(words) - 1).tolist()
    return _vocabulary(candidate, [" ".join(words[index] for index in row) for row in chosen], 3)


# --- learn_merges -------------------------------------------------------------------------------------------

LEARN_MERGES = ExerciseCheck(learn_merges)
probe = LEARN_MERGES.probe


def _merges(candidate: Candidate, words: dict[str, int], count: int) -> Observed:
    reply = candidate.fixture(on_lists(candidate)).call(words, count)
    return _facts(reply, "a list of pairs of strings", _are_merges, _number_and_merges)


def _are_merges(merges: Value) -> bool:
    return isinstance(merges, tuple) and all(
        isinstance(merge, tuple) and len(merge) == 2 and all(isinstance(symbol, str) for symbol in merge)
        for merge in merges
    )


def _number_and_merges(merges: tuple[tuple[str, str], ...]) -> dict[str, Value]:
    named = {f"merge {number}": Text(" + ".join(merge)) for number, merge in enumerate(merges, start=1)}
    return {"the number of merges": len(merges), "the merges": named}


case = LEARN_MERGES.cases(_merges)
case(
    "the first three merges of four short words are correct", {"hund": 5, "hunde": 3, "bunt": 4, "rund": 2}, 3
)
case("of equally frequent pairs, the smallest is merged", {"uns": 2, "rad": 2, "am": 2, "tee": 2}, 6)
case(
    "of equally frequent pairs, the one with the smaller first symbol is merged: 'a' + 'z' before 'ab' + 'c'",
    {"ab": 9, "abc": 2, "az": 2},
    3,
)
case(
    "a pair that occurs twice in a word counts twice and is merged twice",
    {"ananas": 2, "strandsand": 2, "nana": 3, "sand": 2},
    5,
)
case(
    "equal letters are merged from left to right without overlap: 'aaa' becomes 'aa' + 'a'",
    {"aaa": 5, "aaaa": 2},
    3,
)
case("'ei' + 's' and 'i' + 's' are different pairs", {"ei": 8, "eis": 4, "is": 6}, 4)
case("capital and small letters are different characters", {"Rad": 3, "rad": 2, "Rat": 4}, 3)
case(
    "umlauts, dots and brackets are ordinary characters",
    {"u.s": 6, "u.": 3, "uxs": 1, "f(": 4, "für": 5, "fü": 2},
    5,
)
case(
    "a pair that occurs only once is merged too, and merging ends when no pair is left",
    {"rad": 1, "o": 7},
    10,
)
case("a count of 0 gives no merges", {"hund": 5}, 0)


@probe("the first twenty merges of compounds with random counts are correct")
def _merges_of_drawn_counts(candidate: Candidate, draw: Draw) -> Observed:
    text = "rad fahrrad fahrer radfahrer helm fahrradhelm regen regenhut hut strohhut"
    words = text.split()
    counts = draw.integers(1, 30, len(words)).tolist()
    return _merges(candidate, dict(zip(words, counts, strict=True)), 20)


# --- token_batches ------------------------------------------------------------------------------------------

TOKEN_BATCHES = ExerciseCheck(token_batches)
probe = TOKEN_BATCHES.probe


def _plan(candidate: Candidate, lengths: Sequence[int], max_tokens: int, packed: bool = False) -> Reply:
    sorted_plan = _size_of_plan(token_batches(lengths, max_tokens), lengths) if packed else None
    return candidate.fixture(batching(candidate, packed=sorted_plan)).call(tuple(lengths), max_tokens)


def _size_of_plan(plan: Sequence[Sequence[int]], lengths: Sequence[int]) -> tuple[int, int]:
    """Return the number of positions of a plan, including padding, and the number of its batches."""
    return sum(max(lengths[index] for index in batch) * len(batch) for batch in plan), len(plan)


case = TOKEN_BATCHES.cases(_plan)
case("each index is in one batch, and no batch is over the budget of 10", (5, 2, 9, 2, 4), 10)
case("a sentence that needs the whole budget gets its own batch", (7, 12, 3, 4, 3, 6, 2, 1), 12)
case("a single sentence makes a single batch", (3,), 12)
case(
    "sentences of equal length fill the budget exactly, and the last batch holds the rest",
    (4,) * 51,
    16,
    packed=True,
)
case(
    "a single long sentence does not make the batches of 100 short ones smaller",
    (*[5] * 60, 70, *[5] * 40),
    350,
    packed=True,
)


@probe("1,000 captions of 3 to 40 tokens have little padding with a budget of 200")
def _plan_of_captions(candidate: Candidate, draw: Draw) -> Observed:
    lengths = (15 + 8 * draw.normal(1000)).clamp(3, 40).long().tolist()
    return _plan(candidate, lengths, 200, packed=True)


@probe("120 sentences of 2 to 60 tokens have little padding with a budget of 333")
def _plan_of_even_lengths(candidate: Candidate, draw: Draw) -> Observed:
    return _plan(candidate, draw.integers(2, 61, 120).tolist(), 333, packed=True)


case(
    "a sentence over the budget raises a ValueError with its index and length, or is alone in a batch",
    (*[40] * 12, 57, 40, 61),
    40,
)
case("no batch is empty, even if all sentences are over the budget", (12, 15, 11), 10)
case("without sentences, there are no batches", (), 10)


# --- collate ------------------------------------------------------------------------------------------------

COLLATE = ExerciseCheck(collate)
probe = COLLATE.probe

PAD, START, END = 0, 1, 2
Pairs = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def _batch(
    candidate: Candidate, pairs: Pairs, max_length: int, ids: tuple[int, int, int] = (PAD, START, END)
) -> Observed:
    reply = candidate.fixture(on_lists(candidate)).call(pairs, *ids, max_length)
    return _facts(reply, "a pair of tensors", _are_sides, lambda sides: dict(zip(_SIDES, sides, strict=True)))


_SIDES = ("the source", "the target")


def _are_sides(sides: Value) -> bool:
    return isinstance(sides, tuple) and len(sides) == 2 and all(isinstance(side, Tensor) for side in sides)


def _ids(*lengths: int) -> tuple[tuple[int, ...], ...]:
    """Return sentences of these lengths, in which each id occurs once."""
    return tuple(tuple(range(10 * (row + 1), 10 * (row + 1) + length)) for row, length in enumerate(lengths))


def _pairs(sources: Sequence[int], targets: Sequence[int]) -> Pairs:
    both = _ids(*sources, *targets)
    return tuple(zip(both[: len(sources)], both[len(sources) :], strict=True))


case = COLLATE.cases(_batch)
case(
    "start and end enclose each sentence, and source and target are padded separately",
    _pairs((2, 4), (1, 2)),
    10,
)
case("the longest sentence sets the width of its side, wherever it is", _pairs((1, 3, 2), (4, 2, 6)), 12)
case("padding, start and end may have any ids", _pairs((3, 1), (2, 5)), 10, ids=(7, 3, 5))
case(
    "a max_length of 6 cuts sentences of 5, 6 and 9 words, but not those of 3 and 4",
    _pairs((3, 4, 5, 6, 9), (9, 2, 4, 5, 1)),
    6,
)
case("a single pair of one word each makes a batch", _pairs((1,), (1,)), 8)
case(
    "equal sentences and equal pairs each get their own row",
    (((10, 11), (20,)), ((10, 11), (21, 22, 23)), ((12,), (20,)), ((10, 11), (20,))),
    10,
)
case("the id of the start token may be 0", _pairs((3, 1), (2, 4)), 10, ids=(4, 0, 6))
case("the id of the end token may be 0", _pairs((3, 1), (2, 4)), 10, ids=(6, 5, 0))


@probe("a max_length of 2 leaves only the start and the end")
def _batch_of_least_room(candidate: Candidate, draw: Draw) -> Observed:
    pairs = _pairs((1, 3), (4, 2))
    answer = _refusal(candidate, pairs, 2)
    if isinstance(answer, Returned) and answer.value not in (NOT_REFUSED, REFUSED):
        return answer
    if isinstance(answer, Returned) and answer.value == REFUSED:
        return Raised("ValueError", "a max_length of 2 is rejected")
    return _batch(candidate, pairs, 2)


@probe("a max_length below 2 raises a ValueError that contains its value")
def _batch_without_room(candidate: Candidate, draw: Draw) -> Observed:
    pairs = _pairs((1, 3), (4, 2))
    return {
        f"the response for a max_length of {room}": _refusal(candidate, pairs, room, room)
        for room in (1, 0, -7)
    }


def _refusal(candidate: Candidate, pairs: Pairs, max_length: int, *wanted: int) -> Reply:
    asked = candidate.fixture(refusal(candidate.fixture(on_lists(candidate)), *wanted))
    return asked.call(pairs, PAD, START, END, max_length)


case(
    "empty sentences, and words with the id of the start token, are handled like any others",
    (((), (START, 30)), ((20, 21, END), ())),
    10,
)


@probe("the batch is correct for pairs of random lengths")
def _batch_of_drawn_lengths(candidate: Candidate, draw: Draw) -> Observed:
    sources, targets = draw.integers(1, 9, 2, 4).tolist()
    return _batch(candidate, _pairs(sources, targets), 8)


# --- predictions --------------------------------------------------------------------------------------------

PREDICT_PAIR = PredictionCheck(
    answer=12.0,
    tolerance=0.005,
    hint="List the pairs of each word, and count each pair as often as the word occurs.",
    reason="u and n are neighbours in hund, hunde and bunt: 5 + 3 + 4 = 12.",
)

PREDICT_SIZE = PredictionCheck(
    answer=8060.0,
    tolerance=0.0001,
    hint="Count the symbols that exist before the first merge, and those that each merge adds.",
    reason="60 characters, and each of 8,000 merges adds one symbol.",
)

PREDICT_PADDING = PredictionCheck(
    answer=0.6,
    tolerance=0.005,
    hint="The batch has as many positions as its longest sentence has tokens, times the number of sentences.",
    reason="The batch has 4 · 60 = 240 positions, but only 96 tokens: 144 of 240 are padding.",
)
