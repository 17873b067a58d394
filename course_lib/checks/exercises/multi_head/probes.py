"""Probes of lesson 02: splitting into heads, merging them, and multi-head attention."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate, Fixture
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.engine.probe import Draw, Observed
from course_lib.checks.engine.reply import Reply, Returned
from course_lib.checks.exercises.fixtures.callables import (
    dropout_strength,
    mean_attention,
    over_a_memory,
    to_itself,
)
from course_lib.checks.exercises.fixtures.refusals import A_RESULT, any_refusal, refusal
from course_lib.checks.exercises.fixtures.results import after_new_contents
from course_lib.checks.exercises.fixtures.starting_weights import equal_weights
from course_lib.checks.exercises.shared_requests import (
    DEVICE,
    SECOND_CALL,
    call_after_another,
    call_with_normals,
    called_on_a_gpu,
    called_on_a_gpu_with_normals,
    gradients_of,
    in_double,
    round_trip,
    updated,
)
from course_lib.transformer.multi_head import MultiHeadAttention, merge_heads, split_heads

# --- split_heads --------------------------------------------------------------------------------------------

SPLIT_HEADS = ExerciseCheck(split_heads)
probe = SPLIT_HEADS.probe
case = SPLIT_HEADS.random_cases(call_with_normals, __name__)

case("_split_a_batch", "a batch of sentences is split into heads", (2, 3, 20), 4)
case(
    "_split_a_square",
    "equal batch size, length, heads and head width: no axis is mistaken for another",
    (4, 4, 16),
    4,
)
case("_split_odd_sizes", "odd sizes work: three heads of seven features", (3, 5, 21), 3)
case("_split_into_one", "a single head has all the features", (2, 3, 5), 1)
case("_split_into_single_features", "with as many heads as features, each head has one feature", (2, 3, 5), 5)
case("_split_one_word", "one sentence of one token works", (1, 1, 6), 2)


@probe("a d_model that is not divisible by heads raises a ValueError whose message contains both numbers")
def _split_refuses(candidate: Candidate, draw: Draw) -> Observed:
    refuses = candidate.fixture(refusal(candidate, 10, 4, passes=False))
    return {
        "the response": refuses.call(draw.normal(2, 3, 10), 4),
        # d_model isn't divisible by heads, although the length and the number of sentences are.
        "the response for four sentences of four tokens": refuses.call(draw.normal(4, 4, 10), 4),
    }


@probe("more heads than features raise a ValueError whose message contains both numbers")
def _split_refuses_too_many(candidate: Candidate, draw: Draw) -> Observed:
    response = candidate.fixture(refusal(candidate, 4, 8, passes=False)).call(draw.normal(2, 3, 4), 8)
    return {"the response": response}


@probe("gradients reach the input")
def _split_gradient(candidate: Candidate, draw: Draw) -> Reply:
    x, heads = draw.normal(2, 3, 8), 4
    return candidate.gradients(x, heads, toward=draw.normal(2, 4, 3, 2))


SPLIT_HEADS.random_cases(call_after_another, __name__)("_split_again", SECOND_CALL, (2, 3, 8), 4)
SPLIT_HEADS.random_cases(called_on_a_gpu_with_normals, __name__)("_split_elsewhere", DEVICE, (2, 3, 8), 4)
case("_split_in_float32", "float32 in, float32 out", (2, 3, 8), 2, dtype=torch.float32)
case("_split_in_bfloat16", "bfloat16 in, bfloat16 out", (2, 3, 8), 2, dtype=torch.bfloat16)


@probe("the axes of x may have any order in memory, as after a transpose")
def _split_transposed(candidate: Candidate, draw: Draw) -> Observed:
    batch_and_length, length_and_features = draw.normal(3, 2, 8), draw.normal(2, 8, 3)
    return {
        "the result for swapped batch and length axes": candidate.call(batch_and_length.transpose(0, 1), 4),
        "the result for swapped length and feature axes": candidate.call(
            length_and_features.transpose(1, 2), 4
        ),
    }


# --- merge_heads --------------------------------------------------------------------------------------------

MERGE_HEADS = ExerciseCheck(merge_heads)
probe = MERGE_HEADS.probe
case = MERGE_HEADS.random_cases(call_with_normals, __name__)

case("_merge_a_batch", "the heads of a batch are concatenated again", (2, 4, 3, 5))
case(
    "_merge_a_square",
    "equal batch size, heads, length and width: no axis is mistaken for another",
    (3, 3, 3, 3),
)


@probe("merge_heads reverses split_heads")
def _merge_what_was_split(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 4, 5).transpose(1, 2))


case("_merge_one", "a single head works", (2, 1, 3, 5))
case("_merge_single_features", "heads of a single feature work", (2, 5, 3, 1))
case("_merge_one_word", "one sentence of one token works", (1, 2, 1, 3))


@probe("gradients reach the heads")
def _merge_gradient(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.gradients(draw.normal(2, 3, 4, 5), toward=draw.normal(2, 4, 15))


MERGE_HEADS.random_cases(call_after_another, __name__)("_merge_again", SECOND_CALL, (2, 3, 4, 5))
MERGE_HEADS.random_cases(called_on_a_gpu_with_normals, __name__)("_merge_elsewhere", DEVICE, (2, 3, 4, 5))
case("_merge_in_float32", "float32 in, float32 out", (2, 3, 4, 5), dtype=torch.float32)
case("_merge_in_bfloat16", "bfloat16 in, bfloat16 out", (2, 3, 4, 5), dtype=torch.bfloat16)


# --- MultiHeadAttention -------------------------------------------------------------------------------------

MULTI_HEAD_ATTENTION = ExerciseCheck(MultiHeadAttention)
probe = MULTI_HEAD_ATTENTION.probe

_LAYERS = ("query_projection", "key_projection", "value_projection", "output_projection")
_MATRICES = tuple(f"{layer}.weight" for layer in _LAYERS)


def _weights(draw: Draw, d_model: int, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Return weights with the required names, scaled so that outputs have a magnitude of about 1."""
    matrices = {name: draw.normal(d_model, d_model, dtype=dtype) / d_model**0.5 for name in _MATRICES}
    biases = {f"{layer}.bias": draw.normal(d_model, dtype=dtype) for layer in _LAYERS}
    return matrices | biases


def _loaded(
    candidate: Candidate, weights: Mapping[str, Tensor], *sizes: object, **options: object
) -> Candidate:
    """Build an instance in evaluation mode, with these weights and their dtype."""
    module = candidate.build(*sizes, **options)
    module.train(False)
    if weights[_MATRICES[0]].dtype == torch.float64:
        module.call(method="double")
    module.load(weights)
    return module


def _attends(
    description: str,
    sizes: tuple[int, int, int, int, int],
    mask_of: Callable[[Draw], Tensor] | None = None,
    dtype: torch.dtype = torch.float64,
    attention: Callable[[], Fixture] | None = None,
) -> None:
    """Add a probe of attention from one sentence to another, in evaluation mode.

    `sizes` are the numbers of sentences, queries and keys, d_model, and the number of heads. Without
    `mask_of`, there is no mask; without `attention`, the default attention function is used. Keys and values
    differ, so that swapping them changes the result.
    """
    batch, queries, keys, d_model, heads = sizes

    @MULTI_HEAD_ATTENTION.probe(description)
    def ask(candidate: Candidate, draw: Draw) -> Reply:
        options = {} if attention is None else {"attention": attention()}
        module = _loaded(candidate, _weights(draw, d_model, dtype), d_model, heads, 0.3, **options)
        query = draw.normal(batch, queries, d_model, dtype=dtype)
        key, value = (draw.normal(batch, keys, d_model, dtype=dtype) for _ in range(2))
        return module.call(query, key, value, *(() if mask_of is None else (mask_of(draw),)))


def _causal(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def _with_empty_row(draw: Draw) -> Tensor:
    mask = draw.coins(2, 3, 5)
    mask[:, :, 0] = True
    mask[1, 2] = False
    return mask


_attends("one sentence attends to another with four heads, in float32", (2, 3, 5, 12, 4), dtype=torch.float32)
_attends(
    "equal numbers of sentences, heads, words and features per head: no axis is mistaken for another",
    (3, 3, 3, 9, 3),
)
_attends("a single head and an odd number of features work", (2, 4, 3, 7, 1))
_attends("one sentence of one word works, with heads of one feature", (1, 1, 1, 2, 2))
_attends(
    "a mask of shape (B, Q, K) applies to every head", (2, 3, 5, 12, 4), lambda draw: draw.coins(2, 3, 5)
)
_attends(
    "a mask of shape (B, 1, K) applies to every query and head",
    (2, 3, 5, 12, 4),
    lambda draw: torch.arange(5) < torch.tensor([[[5]], [[2]]]),
)
_attends(
    "a mask of shape (Q, K) applies to every sentence and head", (2, 4, 4, 6, 3), lambda draw: _causal(4)
)
_attends(
    "a mask of shape (Q, K) works with as many sentences as words",
    (4, 4, 4, 6, 3),
    lambda draw: _causal(4),
)


@probe("self-attention with a mask works: the same tensor is query, key and value")
def _self_attention(candidate: Candidate, draw: Draw) -> Reply:
    module = _loaded(candidate, _weights(draw, 6), 6, 2)
    x, mask = draw.normal(2, 4, 6), _causal(4).expand(2, 4, 4)
    return candidate.fixture(to_itself()).call(module, x, mask)


_attends(
    "a mask of shape (B, H, Q, K) masks each head separately",
    (2, 3, 5, 12, 4),
    lambda draw: draw.coins(2, 4, 3, 5),
)
_attends(
    "a mask of shape (B, Q, K) works with as many sentences as heads and words",
    (3, 3, 3, 9, 3),
    lambda draw: draw.coins(3, 3, 3),
)
_attends(
    "a query that may attend to nothing gets the bias of the output projection",
    (2, 3, 5, 12, 4),
    _with_empty_row,
)
_attends(
    "the attention function that is passed in is the one that is used, and it gets the mask",
    (2, 3, 5, 12, 4),
    lambda draw: draw.coins(2, 3, 5),
    attention=mean_attention,
)


def _dropped(
    candidate: Candidate, draw: Draw, *rate: float, training: bool = True, mask: Tensor | None = None
) -> Reply:
    # With this attention function the output shows the rate and the scaling, not which elements were dropped.
    module = _loaded(candidate, _weights(draw, 6), 6, 2, *rate, attention=dropout_strength())
    module.train(training)
    x = draw.normal(2, 3, 6)
    return module.call(x, x, x, mask)


case = MULTI_HEAD_ATTENTION.random_cases(_dropped, __name__)
case(
    "_dropout_in_training",
    "in training mode the attention function gets dropout with the given rate, and nothing else is dropped",
    0.25,
)
case(
    "_dropout_with_mask",
    "with a mask, too, the attention function gets dropout in training mode",
    0.25,
    mask=torch.ones(2, 3, 3, dtype=torch.bool),
)
case("_no_dropout", "dropout=0 drops nothing in training mode", 0.0)
case("_usual_dropout", "the default dropout rate is 0.1")
case("_dropout_in_evaluation", "in evaluation mode nothing is dropped", 0.25, training=False)


@probe("keys and values whose batch size differs from the queries' raise an error")
def _other_batch(candidate: Candidate, draw: Draw) -> Observed:
    module = _loaded(candidate, _weights(draw, 6), 6, 2)
    found: dict[str, Observed] = {}
    query, memory = draw.normal(2, 3, 6), draw.normal(4, 3, 6)
    for sentences in (4, 1):  # A batch of one must be rejected, too, although torch could broadcast it.
        keys = memory[:sentences]
        reply = candidate.fixture(any_refusal()).call(module, query, keys, keys)
        if isinstance(reply, Returned) and reply.value == A_RESULT:
            module.call(query, keys, keys)  # Don't compare this result: it only helps the diagnosis.
        found[f"the response for 2 sentences of queries and {sentences} of keys"] = reply
    return found


@probe("each projection starts with its own random weights")
def _starts(candidate: Candidate, draw: Draw) -> Reply:
    # Compare only the matrices, because all biases may be initialised to zero.
    return candidate.fixture(equal_weights(*_MATRICES)).call(candidate.build(6, 2))


@probe("a second call has its own result, and a second module with more heads does not affect the first")
def _next_to_another(candidate: Candidate, draw: Draw) -> Observed:
    module = _loaded(candidate, _weights(draw, 6), 6, 2)
    other = _loaded(candidate, _weights(draw, 6), 6, 3)
    first, second = (draw.normal(2, 3, 6) for _ in range(2))
    other.call(first, first, first, draw.coins(2, 3, 3))
    return {
        "the first result": module.call(first, first, first, _causal(3)),
        "the second": module.call(first, second, second),
        "the third, with another mask": module.call(first, second, second, ~_causal(3)),
    }


@probe("a memory whose numbers change in place is read again in the next call")
def _with_new_memory(candidate: Candidate, draw: Draw) -> Reply:
    module = _loaded(candidate, _weights(draw, 6), 6, 2)
    x, old, new = draw.normal(2, 3, 6), draw.normal(2, 4, 6), draw.normal(2, 4, 6)
    again = module.fixture(after_new_contents(module.fixture(over_a_memory(module))))
    return again.call((x, old), x, new)


@probe(DEVICE)
def _elsewhere(candidate: Candidate, draw: Draw) -> Observed:
    x = draw.normal(2, 3, 6, dtype=torch.float32)
    return called_on_a_gpu(candidate.build(6, 2), x, x, x, draw.coins(2, 3, 3))


@probe("in evaluation mode, self-attention uses weights that are loaded after an earlier call")
def _reloaded(candidate: Candidate, draw: Draw) -> Reply:
    full, used = (_loaded(candidate, _weights(draw, 6), 6, 2) for _ in range(2))
    x = draw.normal(2, 3, 6)
    return round_trip(full, used, _weights(draw, 6), x, through=to_itself())


@probe("after an update of all parameters, the module uses the new values in evaluation mode")
def _updated(candidate: Candidate, draw: Draw) -> Reply:
    x, toward = draw.normal(2, 3, 6), draw.normal(2, 3, 6)
    return updated(in_double(candidate, 6, 2, 0.0), _weights(draw, 6), toward, x, x, x)


@probe("a deep copy made after a forward pass has equal but separate weights")
def _copied(candidate: Candidate, draw: Draw) -> Observed:
    module = _loaded(candidate, _weights(draw, 6), 6, 2)
    x, others = draw.normal(2, 3, 6), _weights(draw, 6)
    module.call(x, x, x)
    copied = module.copy()
    same = copied.call(x, x, x)
    copied.load(others)
    return {
        "the copy": same,
        "the copy, with other weights": copied.call(x, x, x),
        "the original, after the copy was changed": module.call(x, x, x),
    }


@probe("a deep copy in training mode drops weights, even if the original is in evaluation mode")
def _copy_in_training(candidate: Candidate, draw: Draw) -> Reply:
    module = _loaded(candidate, _weights(draw, 6), 6, 2, 0.25, attention=dropout_strength())
    copied, x = module.copy(), draw.normal(2, 3, 6)
    copied.train(True)
    return copied.call(x, x, x)


@probe("gradients reach queries, keys, values and every weight")
def _gradients(candidate: Candidate, draw: Draw) -> Observed:
    weights = _weights(draw, 6)
    module = _loaded(candidate, weights, 6, 2)
    query, key, value = draw.normal(2, 3, 6), draw.normal(2, 5, 6), draw.normal(2, 5, 6)
    mask = draw.coins(2, 3, 5)
    reply = module.gradients(query, key, value, mask, toward=draw.normal(2, 3, 6))
    return gradients_of(reply, ("query", "key", "value"), weights)


# --- predictions --------------------------------------------------------------------------------------------

PREDICT_FEATURE = PredictionCheck(
    answer=197,
    tolerance=1e-6,
    hint="How many features does a head have? Head 0 gets that many from the front, head 1 the next ones.",
    reason="Head 3 begins at feature 3 · 64 = 192, and 192 + 5 = 197.",
)

PREDICT_PARAMETERS = PredictionCheck(
    answer=1_050_624,
    tolerance=1e-6,
    hint="Each of the layers has a matrix of d_model by d_model and a bias. How many layers are there, "
    "and does the number of heads matter?",
    reason="Four layers, each with a matrix of 512 · 512 and a bias of 512, whatever the number of heads.",
)

PREDICT_WEIGHTS = PredictionCheck(
    answer=80_000,
    tolerance=1e-6,
    hint="How many weights does one query have in one head? How many queries are there, and how many heads?",
    reason="In each of 8 heads, each of 100 queries has 100 weights.",
)
