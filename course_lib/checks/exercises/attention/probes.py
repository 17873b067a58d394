"""Lesson 01: the scores, the weights, and scaled dot-product attention."""

from typing import Any

import torch

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import Exercise, Misconception, Prediction, WrongNumber
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Reply, Returned
from course_lib.checks.exercises.fixtures.callables import multiply
from course_lib.transformer.attention import (
    attention_scores,
    attention_weights,
    scaled_dot_product_attention,
)

SCORES = "section 3.2.1, equation 1: the product of Q and K transposed, and the root of d_k"
WEIGHTS = "section 3.2.1, equation 1: the softmax"
MASK = "section 3.2.3: illegal connections are masked out before the softmax"
DROPOUT = "section 4 of this lesson (the paper's section 5.4 does not name this dropout)"

# --- attention_scores ---------------------------------------------------------------------------------------


@probe("three queries and five keys give a 3 by 5 table of scores")
def _scores_of_matrices(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(3, 6), draw.normal(5, 6))


@probe("a batch with heads keeps both axes in front")
def _scores_of_batches(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 4, 7), draw.normal(2, 3, 5, 7))


@probe("as many queries as features, and as many keys: each axis still means its own thing")
def _scores_of_squares(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(4, 4, 4), draw.normal(4, 4, 4))


@probe("one query, one key and one feature are enough")
def _scores_of_one(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(1, 1), draw.normal(1, 1))


@probe("any number of axes may stand in front")
def _scores_of_many_axes(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 2, 3, 4, 3), draw.normal(2, 2, 3, 5, 3))


@probe("float16 goes in and float16 comes out")
def _scores_in_float16(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(
        draw.normal(2, 3, 8, dtype=torch.float16), draw.normal(2, 4, 8, dtype=torch.float16)
    )


@probe("float32 goes in and float32 comes out")
def _scores_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(
        draw.normal(2, 3, 9, dtype=torch.float32), draw.normal(2, 4, 9, dtype=torch.float32)
    )


@probe("bfloat16 goes in and bfloat16 comes out")
def _scores_in_bfloat16(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(
        draw.normal(2, 3, 8, dtype=torch.bfloat16), draw.normal(2, 4, 8, dtype=torch.bfloat16)
    )


@probe("gradients reach the queries and the keys")
def _scores_gradient(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.gradients(draw.normal(2, 3, 6), draw.normal(2, 5, 6), toward=draw.normal(2, 3, 5))


ATTENTION_SCORES = Exercise(
    reference=attention_scores,
    probes=(
        _scores_of_matrices,
        _scores_of_batches,
        _scores_of_squares,
        _scores_of_one,
        _scores_of_many_axes,
        _scores_in_float32,
        _scores_in_float16,
        _scores_in_bfloat16,
        _scores_gradient,
    ),
    misconceptions=(
        Misconception(
            name="not_scaled",
            says="the dot products are not divided by the root of d",
            hint="A dot product of d random terms has a standard deviation of √d. Undivided, it pushes the "
            "softmax "
            "to where it is flat and hardly any gradient comes back.",
            paper=SCORES,
            patch=[(" / math.sqrt(query.shape[-1])", "")],
        ),
        Misconception(
            name="scaled_by_d",
            says="the dot products are divided by d, not by its root",
            hint="(Dividing both the query and the key by the root comes to the same.) The standard "
            "deviation of a dot product grows with the root of d. Divided by d itself, the scores "
            "shrink as d grows, and all keys end up with about the same weight.",
            paper=SCORES,
            patch=[("math.sqrt(query.shape[-1])", "query.shape[-1]")],
        ),
        Misconception(
            name="multiplied_by_root",
            says="the dot products are multiplied by the root of d, where they should be divided",
            hint=(
                "Large scores are the trouble that the root of d is there to cure. Multiplying makes them "
                "larger."
            ),
            paper=SCORES,
            patch=[("/ math.sqrt", "* math.sqrt")],
        ),
        Misconception(
            name="scaled_by_queries",
            says="they are divided by the root of the number of queries, not of the number of features",
            hint=(
                "d is how many terms each dot product sums, which is the size of the last axis of the query."
            ),
            paper=SCORES,
            patch=[("query.shape[-1]", "query.shape[-2]")],
        ),
        Misconception(
            name="scaled_by_keys",
            says="they are divided by the root of the number of keys, not of the number of features",
            hint="d is how many terms each dot product sums, which is the size of the last axis of the key.",
            paper=SCORES,
            patch=[("math.sqrt(query.shape[-1])", "math.sqrt(key.shape[-2])")],
        ),
        Misconception(
            name="roles_swapped",
            says="rows belong to keys and columns to queries, the wrong way round",
            hint="Entry (i, j) is for query i and key j: the queries stand on the left of the product.",
            paper=SCORES,
            patch=[("query @ key.transpose(-2, -1)", "key @ query.transpose(-2, -1)")],
        ),
        Misconception(
            name="reshaped_keys",
            says="the keys are reshaped where they should be transposed",
            hint="A reshape keeps the numbers in their order in memory and cuts the row elsewhere, so each "
            "column "
            "mixes features of several keys. Transposing swaps the axes.",
            paper=SCORES,
            patch=[
                (
                    "key.transpose(-2, -1)",
                    "key.reshape(*key.shape[:-2], key.shape[-1], key.shape[-2])",
                )
            ],
        ),
        Misconception(
            name="first_axes_transposed",
            says="the first two axes of the keys are swapped, not the last two",
            hint="With batch axes in front, the two axes to swap are counted from the end: -2 and -1.",
            paper=SCORES,
            patch=[("key.transpose(-2, -1)", "key.transpose(0, 1)")],
        ),
        Misconception(
            name="cosine",
            says="the vectors are brought to length one, so the scores are cosines",
            hint="The paper takes plain dot products. Lengths matter: a long query is a query that is sure.",
            paper=SCORES,
            patch=[
                ("query @", "torch.nn.functional.normalize(query, dim=-1) @"),
                ("key.transpose", "torch.nn.functional.normalize(key, dim=-1).transpose"),
            ],
        ),
        Misconception(
            name="softmax_too_early",
            says="a softmax is already applied",
            hint=(
                "The softmax belongs to the next exercise, after the mask. Scores may be any number, also "
                "below 0."
            ),
            paper=SCORES,
            patch=[
                ("return query", "return (query"),
                ("math.sqrt(query.shape[-1])", "math.sqrt(query.shape[-1])).softmax(dim=-1)"),
            ],
        ),
        Misconception(
            name="query_changed",
            says="the query is changed in place",
            hint=(
                "`/=` and functions that end in _ write into the tensor that the caller handed in. Make a "
                "new one."
            ),
            paper=SCORES,
            patch=[
                ("return query @", "query /= math.sqrt(query.shape[-1])\n    return query @"),
                (" / math.sqrt(query.shape[-1])\n", "\n"),
            ],
        ),
        Misconception(
            name="cast_to_float32",
            says="the scores are always float32",
            hint=(
                "Results stand in the dtype of the inputs: training in bfloat16 and checking in float64 "
                "need that."
            ),
            paper=SCORES,
            patch=[
                (
                    "return query @ key.transpose(-2, -1)",
                    "return query.float() @ key.float().transpose(-2, -1)",
                )
            ],
        ),
        Misconception(
            name="detached",
            says="the graph is cut, so no gradient reaches the queries or the keys",
            hint="`.detach()`, `.data`, `.item()` and making a new tensor out of numbers all cut the graph.",
            paper=SCORES,
            patch=[
                ("return query @", "return query.detach() @"),
                ("key.transpose", "key.detach().transpose"),
            ],
        ),
    ),
)

# --- attention_weights --------------------------------------------------------------------------------------


def _mask_with_empty_row() -> torch.Tensor:
    mask = torch.tensor([[1, 1, 0, 0, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]], dtype=torch.bool)
    return mask.expand(2, 3, 5).clone()


@probe("without a mask, the weights of each query are a softmax over the keys")
def _weights_without_mask(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(3, 5))


@probe("batch and head axes may stand in front")
def _weights_of_batches(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 4, 5))


@probe("where the mask is False, the weight goes to the keys that are allowed")
def _weights_with_mask(candidate: Candidate, draw: Draw) -> Reply:
    mask = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 0]], dtype=torch.bool)
    return candidate.call(draw.normal(3, 4), mask)


@probe("a mask of shape (batch, 1, keys) holds for every query")
def _weights_with_broadcast_mask(candidate: Candidate, draw: Draw) -> Reply:
    mask = torch.tensor([[[1, 1, 1, 0, 0]], [[1, 0, 1, 1, 1]]], dtype=torch.bool)
    return candidate.call(draw.normal(2, 4, 5), mask)


@probe("a query that may look at nothing gets zeros")
def _weights_of_empty_row(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 5), _mask_with_empty_row())


@probe("weights are exactly zero where the mask forbids")
def _weights_exact_zeros(candidate: Candidate, draw: Draw) -> Any:
    reply = candidate.call(3 * draw.normal(4, 6), torch.ones(4, 6, dtype=torch.bool).tril())
    if not isinstance(reply, Returned) or not isinstance(reply.value, torch.Tensor):
        return reply
    return {"zeros": reply.value == 0}


@probe("it works in float16")
def _weights_in_float16(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 5, dtype=torch.float16), _mask_with_empty_row())


@probe("float32 goes in and float32 comes out")
def _weights_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 5, dtype=torch.float32), _mask_with_empty_row())


def _far_scores(draw: Draw, dtype: torch.dtype, size: int) -> torch.Tensor:
    """Whole numbers, which each dtype holds exactly and whose exponentials float64 holds.

    Each row lies elsewhere, and forbidden keys lie far above all.
    """
    allowed = draw.integers(-3, 4, 3, 5) + size * torch.tensor([[1], [0], [-1]])
    return allowed.masked_fill(~_far_mask(), 690).to(dtype)


def _far_mask() -> torch.Tensor:
    return torch.tensor([[1, 1, 1, 0, 1], [0, 1, 0, 1, 1], [1, 0, 1, 1, 1]], dtype=torch.bool)


@probe("scores may be large or small, and those of forbidden keys larger still")
def _weights_of_far_scores(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_far_scores(draw, torch.float64, 600), _far_mask())


@probe("large scores without a mask")
def _weights_of_large_scores(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.integers(-3, 4, 2, 5).double() + torch.tensor([[600.0], [-600.0]]))


@probe("in float16, a query with very low scores that may look at nothing")
def _weights_of_low_empty_row_in_float16(candidate: Candidate, draw: Draw) -> Reply:
    scores = draw.normal(2, 3, 5, dtype=torch.float16)
    scores[:, 1] = -60.0  # this row is the empty one: the lowest float16 and this make minus infinity
    return candidate.call(scores, _mask_with_empty_row())


@probe("a single key, which some queries may look at and others not")
def _weights_of_one_key(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(3, 1), torch.tensor([[True], [False], [True]]))


@probe("gradients reach the scores")
def _weights_gradient(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.gradients(draw.normal(2, 3, 5), toward=draw.normal(2, 3, 5))


@probe("the gradient of a query that may look at nothing is zero, not NaN")
def _weights_gradient_of_empty_row(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.gradients(draw.normal(2, 3, 5), _mask_with_empty_row(), toward=draw.normal(2, 3, 5))


ATTENTION_WEIGHTS = Exercise(
    reference=attention_weights,
    probes=(
        _weights_without_mask,
        _weights_of_batches,
        _weights_with_mask,
        _weights_with_broadcast_mask,
        _weights_of_empty_row,
        _weights_exact_zeros,
        _weights_of_one_key,
        _weights_of_large_scores,
        _weights_of_far_scores,
        _weights_in_float32,
        _weights_in_float16,
        _weights_of_low_empty_row_in_float16,
        _weights_gradient,
        _weights_gradient_of_empty_row,
    ),
    misconceptions=(
        Misconception(
            name="over_queries",
            says="the softmax runs over the queries, not over the keys",
            hint=(
                "Each query spreads a weight of one over the keys, so each row sums to one: that is the "
                "last axis."
            ),
            paper=WEIGHTS,
            patch=[
                ("return scores.softmax(dim=-1)", "return scores.softmax(dim=-2)"),
                ("lowest).softmax(dim=-1)", "lowest).softmax(dim=-2)"),
            ],
        ),
        Misconception(
            name="over_axis_one",
            says="the softmax runs over axis 1, which is the keys only where there is no batch",
            hint="With batch axes in front the keys are the last axis. Count it from the end: dim=-1.",
            paper=WEIGHTS,
            patch=[
                ("return scores.softmax(dim=-1)", "return scores.softmax(dim=1)"),
                ("lowest).softmax(dim=-1)", "lowest).softmax(dim=1)"),
            ],
        ),
        Misconception(
            name="mask_ignored",
            says="the mask is ignored",
            hint=(
                "Where the mask is False, the weight has to be zero, and the others have to share what it "
                "gave up."
            ),
            paper=MASK,
            patch=[("if mask is None:", "if True:")],
        ),
        Misconception(
            name="mask_inverted",
            says="the mask is read the wrong way round",
            hint="True means «may look». What is to be filled is where the mask is False: ~mask.",
            paper=MASK,
            patch=[
                ("masked_fill(~mask, lowest)", "masked_fill(mask, lowest)"),
                ("(~mask, 0.0)", "(mask, 0.0)"),
            ],
        ),
        Misconception(
            name="mask_after_softmax",
            says="the mask is applied after the softmax alone, so rows no longer sum to one",
            hint="The forbidden keys have then already taken their share. Hide them before the softmax.",
            paper=MASK,
            patch=[(".masked_fill(~mask, lowest)", "")],
        ),
        Misconception(
            name="zero_scores",
            says="forbidden scores are set to zero, which still gives them weight",
            hint="The softmax takes the exponential, and exp(0) is 1. Only a very low score gets no weight.",
            paper=MASK,
            patch=[
                ("lowest = torch.finfo(scores.dtype).min", "lowest = 0.0"),
                (".masked_fill(~mask, 0.0)", ""),
            ],
        ),
        Misconception(
            name="scores_times_mask",
            says="the scores are multiplied by the mask, which still gives forbidden keys weight",
            hint=(
                "Multiplying makes forbidden scores 0, and exp(0) is 1. Only a very low score gets no weight."
            ),
            paper=MASK,
            patch=[("scores.masked_fill(~mask, lowest)", "(scores * mask)")],
        ),
        Misconception(
            name="mask_added",
            says="the mask is added to the scores as zeros and ones",
            hint=(
                "Adding 1 to a score only makes its key somewhat likelier. A forbidden key needs a very "
                "low score."
            ),
            paper=MASK,
            patch=[
                ("scores.masked_fill(~mask, lowest)", "(scores + mask)"),
                (".masked_fill(~mask, 0.0)", ""),
            ],
        ),
        Misconception(
            name="empty_row_is_nan",
            says="a query that may look at nothing gets NaN",
            hint="A row of nothing but minus infinity is 0 / 0 to the softmax. Use the lowest finite number "
            "(torch.finfo) and set forbidden weights to zero afterwards.",
            paper=MASK,
            patch=[("torch.finfo(scores.dtype).min", "-math.inf"), (".masked_fill(~mask, 0.0)", "")],
        ),
        Misconception(
            name="nan_hidden_forward",
            says="the output is right, but the gradient of a query that may look at nothing is NaN",
            hint="NaN was made and then covered up: backwards it comes out again, since 0 times NaN is "
            "NaN. Do not "
            "make it: put in the lowest finite number, not minus infinity.",
            paper=MASK,
            patch=[
                (
                    "scores.masked_fill(~mask, lowest)",
                    "(scores + torch.where(mask, 0.0, -math.inf).to(scores.dtype))",
                )
            ],
        ),
        Misconception(
            name="empty_row_is_uniform",
            says="a query that may look at nothing looks at everything alike",
            hint="Where all scores of a row are equally low, the softmax is uniform. Set forbidden weights "
            "to zero "
            "after the softmax as well.",
            paper=MASK,
            patch=[(".masked_fill(~mask, 0.0)", "")],
        ),
        Misconception(
            name="minus_a_billion",
            says="forbidden scores are set to -1e9, which float16 cannot hold",
            hint="The lowest number of float16 is -65504. torch.finfo(scores.dtype).min fits every dtype.",
            paper=MASK,
            patch=[("torch.finfo(scores.dtype).min", "-1e9")],
        ),
        Misconception(
            name="log_softmax",
            says="log_softmax is used, so the weights are logarithms",
            hint="Weights are to be probabilities: none below zero, and each row sums to one.",
            paper=WEIGHTS,
            patch=[
                ("return scores.softmax", "return scores.log_softmax"),
                ("lowest).softmax", "lowest).log_softmax"),
            ],
        ),
        Misconception(
            name="sigmoid",
            says="a sigmoid is used, so each key gets a weight of its own and rows do not sum to one",
            hint="Keys compete for a query's attention: a softmax shares out a weight of one among them.",
            paper=WEIGHTS,
            patch=[
                ("return scores.softmax(dim=-1)", "return scores.sigmoid()"),
                ("lowest).softmax(dim=-1)", "lowest).sigmoid()"),
            ],
        ),
        Misconception(
            name="no_exponential",
            says="the scores are divided by their sum, without the exponential",
            hint=(
                "Scores may be below zero, and their sum may be zero. The exponential makes all of them "
                "positive."
            ),
            paper=WEIGHTS,
            patch=[
                ("return scores.softmax(dim=-1)", "return scores / scores.sum(dim=-1, keepdim=True)"),
                (
                    "scores.masked_fill(~mask, lowest).softmax(dim=-1)",
                    "scores / (scores * mask).sum(dim=-1, keepdim=True)",
                ),
            ],
        ),
        Misconception(
            name="whole_table",
            says="the softmax runs over the whole table, so all weights together sum to one",
            hint="Every query has a weight of one of its own to spread: only the last axis takes part.",
            paper=WEIGHTS,
            patch=[
                (
                    "return scores.softmax(dim=-1)",
                    "return scores.flatten(-2).softmax(dim=-1).view_as(scores)",
                ),
                (
                    "scores.masked_fill(~mask, lowest).softmax(dim=-1)",
                    "scores.masked_fill(~mask, lowest).flatten(-2).softmax(dim=-1).view_as(scores)",
                ),
            ],
        ),
        Misconception(
            name="scores_changed",
            says="the scores are changed in place",
            hint=(
                "`masked_fill_` writes into the tensor that the caller handed in; `masked_fill` makes a "
                "new one."
            ),
            paper=MASK,
            patch=[("scores.masked_fill(~mask, lowest)", "scores.masked_fill_(~mask, lowest)")],
        ),
        Misconception(
            name="cast_to_float32",
            says="the weights are always float32",
            hint=(
                "Results stand in the dtype of the inputs: training in bfloat16 and checking in float64 "
                "need that."
            ),
            paper=WEIGHTS,
            patch=[
                ("return scores.softmax(dim=-1)", "return scores.softmax(dim=-1, dtype=torch.float32)"),
                ("lowest).softmax(dim=-1)", "lowest).softmax(dim=-1, dtype=torch.float32)"),
            ],
        ),
        Misconception(
            name="detached",
            says="the graph is cut, so no gradient reaches the scores",
            hint="`.detach()`, `.data`, `.item()` and making a new tensor out of numbers all cut the graph.",
            paper=WEIGHTS,
            patch=[
                ("return scores.softmax", "return scores.detach().softmax"),
                ("return scores.masked_fill", "return scores.detach().masked_fill"),
            ],
        ),
    ),
)

# --- scaled_dot_product_attention ---------------------------------------------------------------------------


@probe("the output is the mean of the values by the weights, and comes with the weights")
def _attention_of_matrices(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(3, 6), draw.normal(5, 6), draw.normal(5, 4))


@probe("batch and head axes may stand in front")
def _attention_of_batches(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 4, 7), draw.normal(2, 3, 5, 7), draw.normal(2, 3, 5, 7))


@probe("as many queries as keys and features: each axis still means its own thing")
def _attention_of_squares(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(4, 4, 4), draw.normal(4, 4, 4), draw.normal(4, 4, 4))


@probe("the mask is kept to")
def _attention_with_mask(candidate: Candidate, draw: Draw) -> Reply:
    mask = torch.ones(1, 5, 5, dtype=torch.bool).tril()
    return candidate.call(draw.normal(2, 5, 6), draw.normal(2, 5, 6), draw.normal(2, 5, 3), mask)


@probe("a mask of shape (batch, 1, keys) holds for every query, and values may be wider than keys")
def _attention_with_broadcast_mask(candidate: Candidate, draw: Draw) -> Reply:
    mask = torch.tensor([[[1, 1, 1, 0, 0]], [[1, 0, 1, 1, 1]]], dtype=torch.bool)
    return candidate.call(draw.normal(2, 4, 3), draw.normal(2, 5, 3), draw.normal(2, 5, 7), mask)


@probe("float16 goes in and float16 comes out, with a mask too")
def _attention_in_float16(candidate: Candidate, draw: Draw) -> Reply:
    query, key, value = (draw.normal(2, n, 8, dtype=torch.float16) for n in (3, 5, 5))
    return candidate.call(query, key, value, _mask_with_empty_row())


@probe("a query that may look at nothing gets zeros for its output")
def _attention_of_empty_row(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(
        draw.normal(2, 3, 6), draw.normal(2, 5, 6), draw.normal(2, 5, 3), _mask_with_empty_row()
    )


@probe(
    "dropout falls on the weights before they meet the values; the weights handed back are those before it"
)
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


@probe("float32 goes in and float32 comes out")
def _attention_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    query, key, value = (draw.normal(2, 4, 8, dtype=torch.float32) for _ in range(3))
    return candidate.call(query, key, value)


@probe("gradients reach the queries, the keys and the values")
def _attention_gradient(candidate: Candidate, draw: Draw) -> Reply:
    query, key, value = draw.normal(2, 3, 6), draw.normal(2, 5, 6), draw.normal(2, 5, 4)
    return candidate.gradients(query, key, value, _mask_with_empty_row(), toward=draw.normal(2, 3, 4))


SCALED_DOT_PRODUCT_ATTENTION = Exercise(
    reference=scaled_dot_product_attention,
    probes=(
        _attention_of_matrices,
        _attention_of_batches,
        _attention_of_squares,
        _attention_with_mask,
        _attention_with_broadcast_mask,
        _attention_of_empty_row,
        _attention_with_dropout,
        _attention_with_mask_and_dropout,
        _attention_in_float32,
        _attention_in_float16,
        _attention_gradient,
    ),
    misconceptions=(
        Misconception(
            name="mask_not_passed",
            says="the mask is not handed on",
            hint="attention_weights takes the mask as its second argument.",
            paper=MASK,
            patch=[("key), mask)", "key))")],
        ),
        Misconception(
            name="mask_inverted",
            says="the mask is turned round on its way",
            hint="True means «may look» here and in attention_weights. Hand the mask on as it is.",
            paper=MASK,
            patch=[("key), mask)", "key), None if mask is None else ~mask)")],
        ),
        Misconception(
            name="no_softmax",
            says="the scores are used as weights, without a softmax",
            hint="Scores may be below zero and need not sum to one. attention_weights makes weights of them.",
            paper=WEIGHTS,
            patch=[("attention_weights(attention_scores(query, key), mask)", "attention_scores(query, key)")],
        ),
        Misconception(
            name="scaled_again",
            says="the scores are divided by the root of d a second time",
            hint="attention_scores has already divided them.",
            paper=SCORES,
            patch=[
                ("attention_scores(query, key)", "attention_scores(query, key) / math.sqrt(key.shape[-1])")
            ],
        ),
        Misconception(
            name="query_and_key_swapped",
            says="queries and keys have changed places",
            hint=(
                "attention_scores takes the query first: its rows are the queries, and the output has "
                "their number."
            ),
            paper=SCORES,
            patch=[("attention_scores(query, key)", "attention_scores(key, query)")],
        ),
        Misconception(
            name="attends_to_keys",
            says="the weights meet the keys, where they should meet the values",
            hint="Keys only say where to look. What is found there are the values.",
            paper="section 3.2.1, equation 1: the product with V",
            patch=[("kept @ value", "kept @ key")],
        ),
        Misconception(
            name="weights_transposed",
            says="the weights are transposed before they meet the values",
            hint=(
                "A row of weights belongs to one query and runs over the keys, as do the rows of the values."
            ),
            paper="section 3.2.1, equation 1: the product with V",
            patch=[("kept @ value", "kept.transpose(-2, -1) @ value")],
        ),
        Misconception(
            name="dropout_ignored",
            says="dropout is not applied",
            hint="Where `dropout` is given, call it on the weights.",
            paper=DROPOUT,
            patch=[("kept = weights if dropout is None else dropout(weights)", "kept = weights")],
        ),
        Misconception(
            name="dropped_weights_returned",
            says="the weights handed back are those after dropout",
            hint=(
                "They are for looking at, so each row has to sum to one still: hand back those before "
                "dropout."
            ),
            paper=DROPOUT,
            patch=[("kept @ value, weights", "kept @ value, kept")],
        ),
        Misconception(
            name="dropout_on_output",
            says="dropout falls on the output, not on the weights",
            hint=(
                "Here a whole key is dropped for a query. Dropout on a sublayer's output comes in lesson 03."
            ),
            paper=DROPOUT,
            patch=[
                ("kept = weights if dropout is None else dropout(weights)", "kept = weights"),
                ("kept @ value,", "(kept @ value if dropout is None else dropout(kept @ value)),"),
            ],
        ),
        Misconception(
            name="dropout_on_scores",
            says="dropout falls on the scores, before the softmax",
            hint="A score of 0 still gets weight, since exp(0) is 1. Drop weights, after the softmax.",
            paper=DROPOUT,
            patch=[
                ("kept = weights if dropout is None else dropout(weights)", "kept = weights"),
                (
                    "attention_scores(query, key), mask",
                    "attention_scores(query, key) if dropout is None else "
                    "dropout(attention_scores(query, key)), mask",
                ),
            ],
        ),
        Misconception(
            name="dropout_on_values",
            says="dropout falls on the values, not on the weights",
            hint="Dropout is applied to the weights, before they meet the values.",
            paper=DROPOUT,
            patch=[
                ("kept = weights if dropout is None else dropout(weights)", "kept = weights"),
                ("kept @ value,", "kept @ (value if dropout is None else dropout(value)),"),
            ],
        ),
        Misconception(
            name="output_alone",
            says="only the output is handed back, without the weights",
            hint="Hand back both, as a tuple: the output, then the weights.",
            paper="section 3.2.1, equation 1",
            patch=[("kept @ value, weights", "kept @ value")],
        ),
        Misconception(
            name="weights_first",
            says="the weights come first and the output second",
            hint="The output is what most callers want: hand back the output, then the weights.",
            paper="section 3.2.1, equation 1",
            patch=[("kept @ value, weights", "weights, kept @ value")],
        ),
        Misconception(
            name="scores_returned",
            says="the scores are handed back where the weights should be",
            hint="The second of the two is what came out of attention_weights.",
            paper="section 3.2.1, equation 1",
            patch=[("kept @ value, weights", "kept @ value, attention_scores(query, key)")],
        ),
    ),
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_SPREAD = Prediction(
    name="predict_spread",
    answer=8.0,
    tolerance=0.05,
    hint="Each of the 64 products has mean 0 and variance 1, and variances of independent numbers add up.",
    misconceptions=(
        WrongNumber("variance", 64.0, "That is the variance. The standard deviation is its root."),
        WrongNumber(
            "no_growth", 1.0, "That is the standard deviation of a single product. Here 64 are summed."
        ),
        WrongNumber(
            "inverse_root", 0.125, "That is what the scores are multiplied by, to bring them back to 1."
        ),
    ),
)

PREDICT_SHARE = Prediction(
    name="predict_share",
    answer=0.5,
    tolerance=0.02,
    hint=(
        "The softmax shares out a weight of one among the keys that are allowed, and equal scores get "
        "equal shares."
    ),
    misconceptions=(
        WrongNumber(
            "mask_forgotten",
            0.25,
            "That is the share among all four keys. Two of them may not be looked at, and get nothing.",
        ),
        WrongNumber("no_competition", 1.0, "The weights of a query sum to one, and two keys share it here."),
    ),
)

CATALOGUE = (
    PREDICT_SPREAD,
    ATTENTION_SCORES,
    PREDICT_SHARE,
    ATTENTION_WEIGHTS,
    SCALED_DOT_PRODUCT_ATTENTION,
)
