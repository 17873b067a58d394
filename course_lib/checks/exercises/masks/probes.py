"""Probes of lesson 04: the padding mask, the causal mask, the decoder mask, and the shifted target."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.engine.probe import Draw, Observed
from course_lib.checks.engine.reply import Reply, Returned
from course_lib.checks.exercises.fixtures.results import (
    after_another_call,
    after_new_contents,
    of_a_long_sentence,
    with_batch_axis,
)
from course_lib.checks.exercises.shared_requests import called_on_a_gpu
from course_lib.transformer.masks import causal_mask, decoder_mask, padding_mask, shift_target


def _sentences(draw: Draw, *lengths: int, width: int, pad_id: int) -> Tensor:
    """Return sentences of these lengths, all padded at the end to the same width."""
    tokens = draw.integers(10, 99, len(lengths), width)
    for sentence, length in enumerate(lengths):
        tokens[sentence, length:] = pad_id
    return tokens


def _masked(candidate: Candidate, draw: Draw, *lengths: int, width: int, pad_id: int = 0) -> Reply:
    """Call a mask function with random sentences, which are padded with `pad_id`."""
    return candidate.call(_sentences(draw, *lengths, width=width, pad_id=pad_id), pad_id)


def _padded_in_front(candidate: Candidate, draw: Draw) -> Reply:
    """Call a mask function with two sentences, the first of which begins with padding."""
    return candidate.call(_sentences(draw, 2, 4, width=4, pad_id=0).flip(-1), 0)


def _on_a_gpu(candidate: Candidate, draw: Draw) -> Reply:
    """Call a mask function as if the tokens were on a GPU."""
    return called_on_a_gpu(candidate, _sentences(draw, 5, 3, width=5, pad_id=0), 0)


def _after_another(candidate: Candidate, draw: Draw) -> Reply:
    """Call a mask function with two pad_ids in turn. Overwrite the first result before the second call."""
    first = _sentences(draw, 2, 5, width=5, pad_id=0), 0
    again = candidate.fixture(after_another_call(candidate))
    return again.call(first, _sentences(draw, 4, 3, width=5, pad_id=1), 1)


def _with_new_contents(candidate: Candidate, draw: Draw) -> Reply:
    """Call a mask function twice with the same tensor of tokens, whose contents change between the calls."""
    first, second = (_sentences(draw, *lengths, width=5, pad_id=0) for lengths in ((2, 5), (4, 3)))
    return candidate.fixture(after_new_contents(candidate)).call((first, 0), second, 0)


def _add_shared_probes(exercise: ExerciseCheck, prefix: str) -> None:
    """Add two probes that call the function twice, and one with tokens on another device.

    Their names begin with `prefix`.
    """
    exercise.random_cases(_with_new_contents, __name__)(
        f"{prefix}_of_new_contents", "if the numbers in a tensor of tokens change, so does its mask"
    )
    description = "a second call with a different pad_id has its own mask, even if the first was overwritten"
    exercise.random_cases(_after_another, __name__)(f"{prefix}_again", description)
    exercise.random_cases(_on_a_gpu, __name__)(
        f"{prefix}_elsewhere", "the mask is on the device of the tokens"
    )


def _add_small_batches(case: Callable[..., None], prefix: str) -> None:
    """Add probes with one and with several sentences, using `case`. Their names begin with `prefix`."""
    case(f"{prefix}_of_two", "two sentences, the second with padding at its end", 5, 3, width=5)
    square = "equal batch size and length: no axis is mistaken for the other"
    case(f"{prefix}_of_a_square", square, 3, 1, 2, width=3)
    case(f"{prefix}_of_one", "a single sentence that needs no padding", 4, width=4)
    case(f"{prefix}_of_two_full", "two sentences that need no padding", 4, 4, width=4)


# --- padding_mask -------------------------------------------------------------------------------------------

PADDING_MASK = ExerciseCheck(padding_mask)
probe = PADDING_MASK.probe
case = PADDING_MASK.random_cases(_masked, __name__)
_add_small_batches(case, "_padding")


@probe("pad_id can differ from 0, and 0 can be a real token")
def _padding_of_another_number(candidate: Candidate, draw: Draw) -> Reply:
    tokens = _sentences(draw, 4, 2, width=4, pad_id=3)
    tokens[0, 1] = 0
    return candidate.call(tokens, 3)


@probe("real token ids can be smaller or larger than pad_id")
def _padding_among_the_numbers(candidate: Candidate, draw: Draw) -> Reply:
    tokens = _sentences(draw, 3, 5, width=5, pad_id=50)
    tokens[0, :3], tokens[1] = torch.tensor([49, 51, 2]), torch.tensor([98, 1, 49, 51, 7])
    return candidate.call(tokens, 50)


case("_padding_of_a_large_number", "pad_id may be a large number", 3, 4, width=4, pad_id=40_000)
PADDING_MASK.random_cases(_padded_in_front, __name__)(
    "_padding_in_front", "padding is masked at every position, including the beginning"
)
case("_padding_alone", "in a sentence that is all padding, every key is masked", 0, 2, width=2)
_add_shared_probes(PADDING_MASK, "_padding")


# --- causal_mask --------------------------------------------------------------------------------------------

CAUSAL_MASK = ExerciseCheck(causal_mask)
probe = CAUSAL_MASK.probe


def _of_length(candidate: Candidate, length: int) -> Reply:
    """Call the student's function. Convert a mask of shape (L, L) to (1, L, L), because both are correct."""
    return candidate.fixture(with_batch_axis(candidate)).call(length)


case = CAUSAL_MASK.cases(_of_length)
case("the mask for four positions", 4)
case("the mask for one position, which may attend to itself", 1)
case("the mask for two positions", 2)
case("the mask for 260 positions: no length is too large", 260)


@probe("the mask for 1,100 positions")
def _causal_of_many(candidate: Candidate, draw: Draw) -> Observed:
    reply = candidate.fixture(of_a_long_sentence(candidate)).call(1100)
    return reply.value if isinstance(reply, Returned) else reply


# --- decoder_mask -------------------------------------------------------------------------------------------

DECODER_MASK = ExerciseCheck(decoder_mask)
probe = DECODER_MASK.probe
case = DECODER_MASK.random_cases(_masked, __name__)
_add_small_batches(case, "_decoder")


@probe("more sentences than tokens, and a pad_id other than 0")
def _decoder_of_another_number(candidate: Candidate, draw: Draw) -> Reply:
    tokens = _sentences(draw, 2, 1, 3, 3, width=3, pad_id=7)
    tokens[2, 1], tokens[3, 0] = 0, 2
    return candidate.call(tokens, 7)


case("_decoder_of_one_word", "one sentence of one token works", 1, width=1)
case("_decoder_of_many_words", "a sentence may have many tokens", 60, width=70)
DECODER_MASK.random_cases(_padded_in_front, __name__)(
    "_decoder_with_padding_in_front", "padding at the beginning is masked too"
)
_add_shared_probes(DECODER_MASK, "_decoder")


# --- shift_target -------------------------------------------------------------------------------------------

SHIFT_TARGET = ExerciseCheck(shift_target)
probe = SHIFT_TARGET.probe


def _shifted(candidate: Candidate, draw: Draw, *shape: int, dtype: torch.dtype = torch.int64) -> Reply:
    return candidate.call(draw.integers(0, 99, *shape).to(dtype))


case = SHIFT_TARGET.random_cases(_shifted, __name__)
case("_shift_of_two", "two targets of five tokens", 2, 5)
case("_shift_of_a_square", "equal batch size and length: no axis is mistaken for the other", 4, 4)


@probe("padded targets, with start and end tokens, are shifted like any other")
def _shift_of_padded(candidate: Candidate, draw: Draw) -> Reply:
    tokens = _sentences(draw, 5, 3, 4, width=7, pad_id=0)
    tokens[:, 0] = 1
    for sentence, length in enumerate((5, 3, 4)):
        tokens[sentence, length - 1] = 2
    return candidate.call(tokens)


@probe("everything is on the device of the target")
def _shift_elsewhere(candidate: Candidate, draw: Draw) -> Reply:
    return called_on_a_gpu(candidate, draw.integers(0, 99, 2, 4))


@probe("a second call with a different target has its own result, even if the first one was overwritten")
def _shift_again(candidate: Candidate, draw: Draw) -> Reply:
    first = (draw.integers(0, 99, 2, 4),)
    return candidate.fixture(after_another_call(candidate)).call(first, draw.integers(0, 99, 2, 4))


case("_shift_of_the_shortest", "a single target of two tokens gives one input token and one label", 1, 2)
case("_shift_of_int32", "int32 in, int32 out", 2, 4, dtype=torch.int32)


# --- predictions --------------------------------------------------------------------------------------------

PREDICT_PAIRS = PredictionCheck(
    answer=21.0,
    tolerance=0.001,
    hint="Go through the table row by row: to how many positions may the first word attend, to how many the "
    "second?",
    reason="1 + 2 + 3 + 4 + 5 + 6 = 21.",
)

PREDICT_ALLOWED = PredictionCheck(
    answer=14.0,
    tolerance=0.001,
    hint="Draw the square of 5 by 5. Cross out the columns of padding, then everything above the "
    "diagonal. How many entries are left, including those in the rows of padding?",
    reason="1 + 2 + 3 + 4 in the rows of the tokens, and 4 in the row of the padding.",
)

PREDICT_GUESSED = PredictionCheck(
    answer=1.0,
    tolerance=0.1,
    hint="The model doesn't need to predict anything. At which position can it read the answer?",
    reason="Position i predicts token i + 1 and may attend to position i + 1, where this token is. "
    "It only copies.",
)
