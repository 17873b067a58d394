"""Probes of lesson 01: attention scores, attention weights, and scaled dot-product attention."""

import torch

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.comparison import TOLERANCE
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.engine.probe import Draw, Observed
from course_lib.checks.engine.reply import Reply, Returned
from course_lib.checks.exercises.fixtures.callables import multiply
from course_lib.checks.exercises.fixtures.results import after_another_call
from course_lib.checks.exercises.shared_requests import (
    DEVICE,
    SECOND_CALL,
    call_after_another,
    call_with_normals,
    called_on_a_gpu,
    called_on_a_gpu_with_normals,
)
from course_lib.transformer.attention import (
    attention_scores,
    attention_weights,
    scaled_dot_product_attention,
)

# --- attention_scores ---------------------------------------------------------------------------------------

ATTENTION_SCORES = ExerciseCheck(attention_scores)
probe = ATTENTION_SCORES.probe
case = ATTENTION_SCORES.random_cases(call_with_normals, __name__)

case("_scores_of_matrices", "three queries and five keys give a 3 by 5 table of scores", (3, 6), (5, 6))
case("_scores_of_batches", "batch and head axes are kept", (2, 3, 4, 7), (2, 3, 5, 7))
case(
    "_scores_of_squares",
    "equal numbers of queries, keys and features: no axis is mistaken for another",
    (4, 4, 4),
    (4, 4, 4),
)
case("_scores_of_one", "one query, one key and one feature give one score", (1, 1), (1, 1))
case("_scores_of_one_sentence", "one sentence with one head keeps both axes", (1, 1, 3, 4), (1, 1, 2, 4))
case("_scores_of_many_axes", "any number of batch axes is accepted", (2, 2, 3, 4, 3), (2, 2, 3, 5, 3))


@probe("gradients reach the queries and the keys")
def _scores_gradient(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.gradients(draw.normal(2, 3, 6), draw.normal(2, 5, 6), toward=draw.normal(2, 3, 5))


case("_scores_in_float32", "float32 in, float32 out", (2, 3, 9), (2, 4, 9), dtype=torch.float32)
# Use the tolerance of a 16-bit dtype even if the result has a different one.
rounded = ATTENTION_SCORES.random_cases(call_with_normals, __name__, TOLERANCE[torch.bfloat16])
rounded("_scores_in_float16", "float16 in, float16 out", (2, 3, 8), (2, 4, 8), dtype=torch.float16)
rounded("_scores_in_bfloat16", "bfloat16 in, bfloat16 out", (2, 3, 8), (2, 4, 8), dtype=torch.bfloat16)


@probe("queries and keys may be views with a different memory layout, such as the heads of a sentence")
def _scores_of_views(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 4, 5).transpose(1, 2), draw.normal(2, 6, 4, 5).transpose(1, 2))


again = ATTENTION_SCORES.random_cases(call_after_another, __name__)
again("_scores_again", SECOND_CALL, (2, 3, 4), (2, 5, 4))
ATTENTION_SCORES.random_cases(called_on_a_gpu_with_normals, __name__)(
    "_scores_elsewhere", DEVICE, (2, 3, 4), (2, 5, 4)
)


# --- attention_weights --------------------------------------------------------------------------------------

ATTENTION_WEIGHTS = ExerciseCheck(attention_weights)
probe = ATTENTION_WEIGHTS.probe


def _mask_with_empty_row() -> torch.Tensor:
    mask = torch.tensor([[1, 1, 0, 0, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]], dtype=torch.bool)
    return mask.expand(2, 3, 5).clone()


case = ATTENTION_WEIGHTS.random_cases(call_with_normals, __name__)
case("_weights_without_mask", "without a mask, the weights of each query are a softmax over the keys", (3, 5))
case("_weights_of_batches", "batch and head axes are accepted", (2, 3, 4, 5))
case("_weights_of_one_sentence", "one sentence with one head keeps both axes", (1, 1, 3, 4))


@probe("a score of exactly 0 gets its share of the weights, too")
def _weights_of_zero_scores(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.integers(-1, 2, 3, 4).double() * torch.tensor([0.0, 1, 1, 0]))


@probe("weights are zero where the mask is False, and the other keys share the whole weight")
def _weights_with_mask(candidate: Candidate, draw: Draw) -> Reply:
    mask = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 0]], dtype=torch.bool)
    return candidate.call(draw.normal(3, 4), mask)


@probe("a mask of shape (batch, 1, keys) applies to every query")
def _weights_with_broadcast_mask(candidate: Candidate, draw: Draw) -> Reply:
    mask = torch.tensor([[[1, 1, 1, 0, 0]], [[1, 0, 1, 1, 1]]], dtype=torch.bool)
    return candidate.call(draw.normal(2, 4, 5), mask)


@probe("a query that may attend to nothing gets zeros")
def _weights_of_empty_row(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 5), _mask_with_empty_row())


@probe("a mask that allows nothing at all gives only zeros")
def _weights_of_empty_mask(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 4), torch.zeros(3, 4, dtype=torch.bool))


@probe("masked weights are exactly zero")
def _weights_exact_zeros(candidate: Candidate, draw: Draw) -> Observed:
    reply = candidate.call(3 * draw.normal(4, 6), torch.ones(4, 6, dtype=torch.bool).tril())
    if not isinstance(reply, Returned) or not isinstance(reply.value, torch.Tensor):
        return reply
    return {"zeros": reply.value == 0}


@probe("a mask of shape (queries, keys) applies to every batch entry and head")
def _weights_with_mask_of_two_axes(candidate: Candidate, draw: Draw) -> Reply:
    mask = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0]], dtype=torch.bool)
    return candidate.call(draw.normal(2, 2, 3, 4), mask)


@probe("a single key is allowed for some queries and masked for others")
def _weights_of_one_key(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(3, 1), torch.tensor([[True], [False], [True]]))


@probe("large scores work without a mask")
def _weights_of_large_scores(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.integers(-3, 4, 2, 5).double() + torch.tensor([[600.0], [-600.0]]))


@probe("the allowed scores may all be very low")
def _weights_of_low_scores(candidate: Candidate, draw: Draw) -> Reply:
    mask = torch.tensor([[1, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 0]], dtype=torch.bool)
    return candidate.call(draw.normal(3, 4) - 30_000, mask)


@probe("scores of any size work, even if masked scores are the largest")
def _weights_of_far_scores(candidate: Candidate, draw: Draw) -> Reply:
    mask = torch.tensor([[1, 1, 1, 0, 1], [0, 1, 0, 1, 1], [1, 0, 1, 1, 1]], dtype=torch.bool)
    # The exponentials of these scores still fit into float64, so it is not necessary to subtract a maximum.
    scores = draw.integers(-3, 4, 3, 5) + 600 * torch.tensor([[1], [0], [-1]])
    return candidate.call(scores.masked_fill(~mask, 690).double(), mask)


@probe("a masked score may be far above the allowed ones")
def _weights_of_a_far_masked_score(candidate: Candidate, draw: Draw) -> Reply:
    mask = torch.tensor([[1, 0, 1, 1], [0, 1, 1, 0]], dtype=torch.bool)
    return candidate.call(draw.normal(2, 4).masked_fill(~mask, 30_000), mask)


@probe("gradients reach the scores")
def _weights_gradient(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.gradients(draw.normal(2, 3, 5), toward=draw.normal(2, 3, 5))


@probe("float32 in, float32 out")
def _weights_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 5, dtype=torch.float32), _mask_with_empty_row())


@probe("float16 in, float16 out, with a mask as well", TOLERANCE[torch.float16])
def _weights_in_float16(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 5, dtype=torch.float16), _mask_with_empty_row())


@probe("bfloat16 in, bfloat16 out, with a mask as well", TOLERANCE[torch.bfloat16])
def _weights_in_bfloat16(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 5, dtype=torch.bfloat16), _mask_with_empty_row())


@probe("large scores work in float16")
def _weights_of_large_scores_in_float16(candidate: Candidate, draw: Draw) -> Reply:
    scores = draw.integers(-3, 4, 2, 3, 5) + torch.tensor([[20], [0], [-20]])
    return candidate.call(scores.half(), _mask_with_empty_row())


@probe("in float16, a query with very low scores may attend to nothing")
def _weights_of_low_empty_row_in_float16(candidate: Candidate, draw: Draw) -> Reply:
    scores = draw.normal(2, 3, 5, dtype=torch.float16)
    # This query may attend to nothing. Masking by adding the lowest float16 number to -60 would overflow.
    scores[:, 1] = -60.0
    return candidate.call(scores, _mask_with_empty_row())


@probe("a mask with an axis for heads applies to every head")
def _weights_with_mask_of_four_axes(candidate: Candidate, draw: Draw) -> Observed:
    scores, keys = draw.normal(2, 3, 4, 5), torch.tensor([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]]).bool()
    return {
        "the weights with a mask of shape (batch, 1, 1, keys)": candidate.call(scores, keys[:, None, None]),
        "the weights with a mask of the scores' shape": candidate.call(scores, draw.coins(2, 3, 4, 5)),
    }


@probe("everything is on the device of the inputs")
def _weights_elsewhere(candidate: Candidate, draw: Draw) -> Observed:
    return {
        "without a mask": called_on_a_gpu(candidate, draw.normal(2, 3, 5)),
        "with a mask": called_on_a_gpu(candidate, draw.normal(2, 3, 5), _mask_with_empty_row()),
    }


@probe(SECOND_CALL)
def _weights_again(candidate: Candidate, draw: Draw) -> Reply:
    first = draw.normal(2, 3, 5), torch.ones(2, 3, 5, dtype=torch.bool).tril()
    return candidate.fixture(after_another_call(candidate)).call(
        first, draw.normal(2, 3, 5), _mask_with_empty_row()
    )


@probe("the gradient of a query that may attend to nothing is zero, not NaN")
def _weights_gradient_of_empty_row(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.gradients(draw.normal(2, 3, 5), _mask_with_empty_row(), toward=draw.normal(2, 3, 5))


# --- scaled_dot_product_attention ---------------------------------------------------------------------------

SCALED_DOT_PRODUCT_ATTENTION = ExerciseCheck(scaled_dot_product_attention)
probe = SCALED_DOT_PRODUCT_ATTENTION.probe
case = SCALED_DOT_PRODUCT_ATTENTION.random_cases(call_with_normals, __name__)

case(
    "_attention_of_matrices",
    "the output is the weighted mean of the values, and is returned with the weights",
    (3, 6),
    (5, 6),
    (5, 4),
)
case("_attention_of_batches", "batch and head axes are accepted", (2, 3, 4, 7), (2, 3, 5, 7), (2, 3, 5, 7))
case(
    "_attention_of_squares",
    "equal numbers of queries, keys and features: no axis is mistaken for another",
    (4, 4, 4),
    (4, 4, 4),
    (4, 4, 4),
)
case("_attention_of_one", "one query and one key work, and keep their axes", (1, 1, 4), (1, 1, 4), (1, 1, 3))
again = SCALED_DOT_PRODUCT_ATTENTION.random_cases(call_after_another, __name__)
again("_attention_again", SECOND_CALL, (2, 3, 4), (2, 5, 4), (2, 5, 6))
SCALED_DOT_PRODUCT_ATTENTION.random_cases(called_on_a_gpu_with_normals, __name__)(
    "_attention_elsewhere", DEVICE, (2, 3, 4), (2, 5, 4), (2, 5, 6)
)


@probe("the mask is applied")
def _attention_with_mask(candidate: Candidate, draw: Draw) -> Reply:
    mask = torch.ones(1, 5, 5, dtype=torch.bool).tril()
    return candidate.call(draw.normal(2, 5, 6), draw.normal(2, 5, 6), draw.normal(2, 5, 3), mask)


@probe("a mask of shape (batch, 1, keys) applies to every query, and values can be wider than keys")
def _attention_with_broadcast_mask(candidate: Candidate, draw: Draw) -> Reply:
    mask = torch.tensor([[[1, 1, 1, 0, 0]], [[1, 0, 1, 1, 1]]], dtype=torch.bool)
    return candidate.call(draw.normal(2, 4, 3), draw.normal(2, 5, 3), draw.normal(2, 5, 7), mask)


@probe("a query that may attend to nothing gets an output of zeros")
def _attention_of_empty_row(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(
        draw.normal(2, 3, 6), draw.normal(2, 5, 6), draw.normal(2, 5, 3), _mask_with_empty_row()
    )


@probe("masked keys get no weight, even if the allowed scores are very low")
def _attention_with_low_scores(candidate: Candidate, draw: Draw) -> Reply:
    # The scores are near -200, so their exponentials still fit into float64.
    query, key = torch.full((2, 3, 4), -100.0, dtype=torch.float64), 1 + 0.05 * draw.normal(2, 5, 4)
    mask = torch.tensor([1, 1, 0, 1, 0], dtype=torch.bool).expand(2, 3, 5)
    return candidate.call(query, key, draw.normal(2, 5, 6), mask)


@probe("dropout is applied to the weights that multiply the values, but not to the returned weights")
def _attention_with_dropout(candidate: Candidate, draw: Draw) -> Reply:
    query, key, value = draw.normal(2, 5, 6), draw.normal(2, 5, 6), draw.normal(2, 5, 5)
    # Weights, values and output have the same shape, so that dropout in the wrong place still runs.
    return candidate.call(query, key, value, None, multiply(2.0 * draw.coins(5, 5)))


@probe("mask and dropout work together")
def _attention_with_mask_and_dropout(candidate: Candidate, draw: Draw) -> Reply:
    query, key, value = draw.normal(2, 5, 6), draw.normal(2, 5, 6), draw.normal(2, 5, 5)
    mask = draw.coins(2, 5, 5)
    mask[:, 1] = False
    return candidate.call(query, key, value, mask, multiply(2.0 * draw.coins(5, 5)))


case("_attention_in_float32", "float32 in, float32 out", (2, 4, 8), (2, 4, 8), (2, 4, 8), dtype=torch.float32)


@probe("float16 in, float16 out, with a mask as well", TOLERANCE[torch.float16])
def _attention_in_float16(candidate: Candidate, draw: Draw) -> Reply:
    query, key, value = (draw.normal(2, n, 8, dtype=torch.float16) for n in (3, 5, 5))
    return candidate.call(query, key, value, _mask_with_empty_row())


@probe("gradients reach the queries, the keys and the values")
def _attention_gradient(candidate: Candidate, draw: Draw) -> Reply:
    query, key, value = draw.normal(2, 3, 6), draw.normal(2, 5, 6), draw.normal(2, 5, 4)
    return candidate.gradients(query, key, value, _mask_with_empty_row(), toward=draw.normal(2, 3, 4))


# --- predictions --------------------------------------------------------------------------------------------

PREDICT_SPREAD = PredictionCheck(
    answer=32.0,
    tolerance=0.05,
    hint=(
        "What is the variance of a single product of two such features? The dot product sums 64 of them, and "
        "variances of independent numbers add up."
    ),
    reason=(
        "Each product has variance 4 · 4 = 16, so the sum of 64 products has variance 1024, and a standard "
        "deviation of 32."
    ),
)

PREDICT_SHARE = PredictionCheck(
    answer=0.5,
    tolerance=0.02,
    hint=(
        "The softmax distributes a total weight of one over the allowed keys, and equal scores get equal "
        "shares."
    ),
    reason="Two keys are allowed, and equal scores get equal weights: 1/2 each.",
)
