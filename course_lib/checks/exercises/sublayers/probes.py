"""Probes of lesson 03: layer normalisation, the feed-forward network, and the sublayer connection."""

import math
from itertools import product
from typing import TypeGuard

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.comparison import TOLERANCE
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.engine.probe import Draw, Observed
from course_lib.checks.engine.reply import Raised, Reply, Returned, Value, first_failure
from course_lib.checks.exercises.fixtures.callables import sublayer, unchanged
from course_lib.checks.exercises.fixtures.models import linear
from course_lib.checks.exercises.fixtures.positions import state_dict_fits
from course_lib.checks.exercises.shared_requests import (
    Weights,
    called_on_a_gpu,
    copied,
    drops_with,
    gradients_of,
    in_double,
    round_trip,
    updated,
)
from course_lib.transformer.sublayers import FeedForward, LayerNorm, SublayerConnection


def _add_device(exercise: ExerciseCheck, prefix: str, *sizes: int) -> None:
    """Add a probe with an input on another device. Its name begins with `prefix`."""

    def elsewhere(candidate: Candidate, draw: Draw) -> Observed:
        x = draw.normal(2, 3, sizes[0], dtype=torch.float32)
        return called_on_a_gpu(candidate.build(*sizes), x)

    case = exercise.random_cases(elsewhere, __name__)
    case(f"{prefix}_elsewhere", "everything is on the device of the input")


# --- LayerNorm ----------------------------------------------------------------------------------------------

LAYER_NORM = ExerciseCheck(LayerNorm)
probe = LAYER_NORM.probe


def _norm_weights(draw: Draw, d_model: int) -> Weights:
    return {"scale": 1 + 0.5 * draw.normal(d_model), "shift": draw.normal(d_model)}


def _normalised(candidate: Candidate, draw: Draw, x: Tensor, *eps: float) -> Reply:
    layer = in_double(candidate, x.shape[-1], *eps)
    layer.load(_norm_weights(draw, x.shape[-1]))
    return layer.call(x)


@probe("a new module gives each position mean 0 and variance 1 over its features")
def _norm_when_new(candidate: Candidate, draw: Draw) -> Reply:
    return in_double(candidate, 4).call(3 * draw.normal(2, 3, 4) + 5)


@probe("each feature is multiplied by its own scale, then its own shift is added")
def _norm_with_weights(candidate: Candidate, draw: Draw) -> Reply:
    return _normalised(candidate, draw, 3 * draw.normal(2, 3, 5) + 1)


@probe("the variance is a mean over D features, and eps is added inside the root (few features, large eps)")
def _norm_with_large_eps(candidate: Candidate, draw: Draw) -> Reply:
    return _normalised(candidate, draw, draw.normal(4, 3), 0.5)


@probe("the default eps is 1e-6 (features as small as its square root)")
def _norm_of_small_numbers(candidate: Candidate, draw: Draw) -> Reply:
    return _normalised(candidate, draw, 1e-3 * draw.normal(2, 3, 5))


@probe("if all features are equal, the result is the shift")
def _norm_of_equal_features(candidate: Candidate, draw: Draw) -> Reply:
    return _normalised(candidate, draw, torch.tensor([[2.0] * 4, [-1.0] * 4], dtype=torch.float64))


def _normalised_normals(candidate: Candidate, draw: Draw, *shape: int) -> Reply:
    return _normalised(candidate, draw, 3 * draw.normal(*shape))


case = LAYER_NORM.random_cases(_normalised_normals, __name__)
case("_norm_of_one_vector", "a single vector without batch axes works", 7)
case("_norm_of_one_sentence", "one sentence keeps its batch axis", 1, 3, 5)
case("_norm_of_one_feature", "with a single feature, the result is the shift", 3, 1)
case("_norm_of_many_axes", "three axes in front of the features work", 2, 3, 2, 5)
case("_norm_of_cubes", "equal batch size, length and width: no axis is mistaken for another", 4, 4, 4)


@probe("gradients reach the input, the scale and the shift")
def _norm_gradient(candidate: Candidate, draw: Draw) -> Observed:
    layer, weights = in_double(candidate, 5), _norm_weights(draw, 5)
    x, toward = 3 * draw.normal(2, 3, 5), draw.normal(2, 3, 5)
    layer.load(weights)
    return gradients_of(layer.gradients(x, toward=toward), ("the input",), weights)


@probe("float32 in, float32 out")
def _norm_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    layer = candidate.build(6)
    layer.load(_norm_weights(draw, 6))
    return layer.call(3 * draw.normal(2, 3, 6, dtype=torch.float32))


@probe("bfloat16 in, bfloat16 out", TOLERANCE[torch.bfloat16])
def _norm_in_bfloat16(candidate: Candidate, draw: Draw) -> Reply:
    layer = candidate.build(8)
    layer.call(method="bfloat16")
    layer.load(_norm_weights(draw, 8))
    return layer.call(draw.normal(2, 3, 8, dtype=torch.bfloat16))


@probe("evaluation mode gives the same result as training mode, and other modules have no effect")
def _norm_in_evaluation(candidate: Candidate, draw: Draw) -> Reply:
    layer = in_double(candidate, 5, 0.5)
    layer.load(_norm_weights(draw, 5))
    x = draw.normal(2, 3, 5)
    in_double(candidate, 5, 1e-3).call(x)
    return first_failure(layer.train(False), layer.call(x))


@probe("loading a state dict into another module restores the weights, even after a call in evaluation mode")
def _norm_round_trip(candidate: Candidate, draw: Draw) -> Reply:
    full, empty = in_double(candidate, 5), in_double(candidate, 5)
    return round_trip(full, empty, _norm_weights(draw, 5), 3 * draw.normal(2, 5))


@probe("after an update of all parameters, the module uses the new values in evaluation mode")
def _norm_updated(candidate: Candidate, draw: Draw) -> Reply:
    x, toward = 3 * draw.normal(2, 5), draw.normal(2, 5)
    return updated(in_double(candidate, 5), _norm_weights(draw, 5), toward, x)


@probe("a deep copy has separate weights")
def _norm_copy(candidate: Candidate, draw: Draw) -> Observed:
    return copied(in_double(candidate, 5), _norm_weights(draw, 5), 3 * draw.normal(2, 5))


_add_device(LAYER_NORM, "_norm", 5)


# --- FeedForward --------------------------------------------------------------------------------------------

FEED_FORWARD = ExerciseCheck(FeedForward)
probe = FEED_FORWARD.probe


def _network_weights(draw: Draw, d_model: int, d_ff: int) -> Weights:
    return {
        "inner.weight": draw.normal(d_ff, d_model),
        "inner.bias": draw.normal(d_ff),
        "outer.weight": draw.normal(d_model, d_ff),
        "outer.bias": draw.normal(d_model),
    }


def _through_network(candidate: Candidate, draw: Draw, *shape: int, d_ff: int) -> Reply:
    x = draw.normal(*shape)
    layer = in_double(candidate, x.shape[-1], d_ff, dropout=0.0)
    layer.load(_network_weights(draw, x.shape[-1], d_ff))
    return layer.call(x)


def _can_be_compared(value: Value, x: Tensor) -> TypeGuard[Tensor]:
    """Return whether a result is a floating-point tensor of the shape of x."""
    return isinstance(value, Tensor) and value.is_floating_point() and value.shape == x.shape


def _dropped_features(layer: Candidate, probability: float) -> Observed:
    """Report how dropout changes the first three hidden features, which the outer weights select."""
    bias = torch.tensor([10.0, 20.0, 30.0], dtype=torch.float64)
    weights = {
        "inner.weight": torch.ones(5, 3, dtype=torch.float64),
        "inner.bias": torch.zeros(5, dtype=torch.float64),
        "outer.weight": torch.eye(3, 5, dtype=torch.float64),
        "outer.bias": bias,
    }
    x = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64).expand(4, 50, 3)
    layer.load(weights)
    reply = first_failure(layer.train(True), layer.call(x))
    if isinstance(reply, Raised) or not _can_be_compared(reply.value, x):
        return reply
    share = (reply.value - bias) / 7.0
    kept = (share - 1 / (1 - probability)).abs() < 1e-5
    return {
        f"«each hidden feature becomes 0, or is divided by {1 - probability:g}»": bool(
            (kept | (share.abs() < 1e-5)).all()
        ),
        f"«about {probability:.0%} of the hidden features become 0»": drops_with(probability, kept),
        "«each hidden feature is dropped on its own»": bool((kept.any(-1) & ~kept.all(-1)).any()),
    }


case = FEED_FORWARD.random_cases(_through_network, __name__)
case(
    "_network_values", "the layers widen x, apply ReLU and narrow it again, as in equation 2", 2, 4, 3, d_ff=5
)
case("_network_of_one_vector", "a single vector without batch axes works", 3, d_ff=7)
case("_network_of_one_sentence", "one sentence keeps its batch axis", 1, 2, 3, d_ff=5)
case("_network_of_many_axes", "three axes in front of the features work", 2, 3, 2, 3, d_ff=5)
case(
    "_network_of_squares",
    "equal inner width, outer width and length: no axis is mistaken for another",
    4,
    4,
    4,
    d_ff=4,
)


@probe("in training mode, dropout is applied between the layers")
def _network_dropout(candidate: Candidate, draw: Draw) -> Observed:
    return _dropped_features(in_double(candidate, 3, 5, 0.25), 0.25)


@probe("the default dropout rate is 0.1")
def _network_usual_dropout(candidate: Candidate, draw: Draw) -> Observed:
    return _dropped_features(in_double(candidate, 3, 5), 0.1)


@probe("in evaluation mode nothing is dropped")
def _network_in_evaluation(candidate: Candidate, draw: Draw) -> Reply:
    layer = in_double(candidate, 3, 5, 0.5)
    layer.load(_network_weights(draw, 3, 5))
    return first_failure(layer.train(False), layer.call(draw.normal(2, 4, 3)))


@probe("float32 in, float32 out")
def _network_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    layer = candidate.build(4, 6, 0.0)
    layer.load(_network_weights(draw, 4, 6))
    return layer.call(draw.normal(2, 3, 4, dtype=torch.float32))


@probe("gradients reach the input and the weights of both layers")
def _network_gradient(candidate: Candidate, draw: Draw) -> Observed:
    layer, weights = in_double(candidate, 3, 5, 0.0), _network_weights(draw, 3, 5)
    x, toward = draw.normal(2, 4, 3), draw.normal(2, 4, 3)
    layer.load(weights)
    return gradients_of(layer.gradients(x, toward=toward), ("the input",), weights)


@probe("the backward pass works in training mode, with dropout")
def _network_backward(candidate: Candidate, draw: Draw) -> Observed:
    layer = in_double(candidate, 3, 5, 0.5)
    layer.train(True)
    reply = layer.gradients(draw.normal(2, 4, 3), toward=draw.normal(2, 4, 3))
    # Report only whether the backward pass works, because torch's message about a tensor that was modified in
    # place contains details such as the tensor's version counter.
    return {
        "«the backward pass works»": not (
            isinstance(reply, Raised) and "modified by an inplace" in reply.message
        )
    }


@probe("loading a state dict into another module restores the weights, even after a call in evaluation mode")
def _network_round_trip(candidate: Candidate, draw: Draw) -> Reply:
    full, empty = in_double(candidate, 3, 5, 0.0), in_double(candidate, 3, 5, 0.0)
    return round_trip(full, empty, _network_weights(draw, 3, 5), draw.normal(2, 3))


@probe("after an update of all parameters, the module uses the new values in evaluation mode")
def _network_updated(candidate: Candidate, draw: Draw) -> Reply:
    x, toward = draw.normal(2, 3), draw.normal(2, 3)
    return updated(in_double(candidate, 3, 5, 0.0), _network_weights(draw, 3, 5), toward, x)


@probe("a deep copy has separate weights")
def _network_copy(candidate: Candidate, draw: Draw) -> Observed:
    return copied(in_double(candidate, 3, 5, 0.0), _network_weights(draw, 3, 5), draw.normal(2, 3))


_add_device(FEED_FORWARD, "_network", 5, 7)


# --- SublayerConnection -------------------------------------------------------------------------------------

SUBLAYER_CONNECTION = ExerciseCheck(SublayerConnection)
probe = SUBLAYER_CONNECTION.probe


def _connection_weights(draw: Draw, d_model: int) -> Weights:
    return {f"norm.{name}": weight for name, weight in _norm_weights(draw, d_model).items()}


def _far_apart(draw: Draw, *shape: int) -> Tensor:
    """Return features so far apart that it makes no difference where the norm adds eps."""
    return 3 * draw.normal(*shape) + torch.linspace(-9, 9, shape[-1], dtype=torch.float64)


def _connected(candidate: Candidate, draw: Draw, *settings: object) -> Observed:
    """Call a sublayer connection in float64, without dropout. Also call its norm alone.

    The result reveals whether the sublayer is called more than once.
    """
    layer = in_double(candidate, 6, 0.0, *settings)
    layer.load(_connection_weights(draw, 6))
    x = _far_apart(draw, 2, 4, 6)
    return {
        "its norm alone (if it differs, fix LayerNorm first)": layer.call(x, method="norm"),
        "the result": layer.call(x, sublayer(draw.normal(6))),
    }


def _dropped_outputs(candidate: Candidate, draw: Draw, probability: float, *settings: object) -> Observed:
    """Report whether dropout is applied to the sublayer's output, and with the expected rate.

    With three features there are eight dropout patterns. Each position must result from one of them.
    """
    norm_first = settings[-1:] == (True,)
    layer = in_double(candidate, 3, *settings)
    x, weights = _far_apart(draw, 4, 50, 3), _connection_weights(draw, 3)
    scale, shift = weights["norm.scale"], weights["norm.shift"]
    inside = layer.fixture(linear(3, 3))
    given = layer_norm(x, (3,), scale, shift, eps=1e-6) if norm_first else x
    added = inside.call(given)
    layer.load(weights)
    reply = first_failure(layer.train(True), layer.call(x, inside))
    if not isinstance(added, Returned) or not isinstance(reply, Returned):
        return reply
    if not _can_be_compared(reply.value, x):
        return reply
    ways = torch.tensor(list(product([0.0, 1.0], repeat=3)), dtype=torch.float64)
    possible = x.unsqueeze(-2) + ways * added.value.unsqueeze(-2) / (1 - probability)
    if not norm_first:
        possible = layer_norm(possible, (3,), scale, shift, eps=1e-6)
    fits = (possible - reply.value.unsqueeze(-2)).abs().amax(-1) < 1e-4
    kept = ways[fits.double().argmax(-1)]
    says = "x + dropout(sublayer(norm(x)))" if norm_first else "norm(x + dropout(sublayer(x)))"
    return {
        f"«each position is {says}»": bool(fits.any(-1).all()),
        f"«about {probability:.0%} of the sublayer's output is dropped»": drops_with(probability, kept),
        "«each number is dropped independently of the others»": bool((kept.amin(-1) < kept.amax(-1)).any()),
        "«each sentence has its own dropout»": bool((kept != kept[:1]).any()),
    }


case = SUBLAYER_CONNECTION.random_cases(_connected, __name__)
case("_connection_post_norm", "by default the result is norm(x + sublayer(x)), as in the paper")
case("_connection_pre_norm", "with norm_first=True the result is x + sublayer(norm(x))", True)
case("_connection_told_post_norm", "with norm_first=False the result is norm(x + sublayer(x))", False)


@probe("one sentence of one token works, with norm_first=True as well")
def _connection_of_one_token(candidate: Candidate, draw: Draw) -> Observed:
    observed: dict[str, Observed] = {}
    for name, norm_first in (("post-norm", False), ("pre-norm", True)):
        layer = in_double(candidate, 6, 0.0, norm_first)
        layer.load(_connection_weights(draw, 6))
        observed[f"the result with {name}"] = layer.call(_far_apart(draw, 1, 1, 6), sublayer(draw.normal(6)))
    return observed


@probe("a second module with a different norm_first does not affect the first")
def _connection_next_to_another(candidate: Candidate, draw: Draw) -> Reply:
    layer = in_double(candidate, 6, 0.0, False)
    layer.load(_connection_weights(draw, 6))
    x, inside = _far_apart(draw, 2, 4, 6), sublayer(draw.normal(6))
    in_double(candidate, 6, 0.0, True).call(x, inside)
    return layer.call(x, inside)


@probe("a sublayer can return its own input, which must not be modified")
def _connection_of_the_same(candidate: Candidate, draw: Draw) -> Observed:
    replies: dict[str, Observed] = {}
    for name, settings in (("post-norm", (6, 0.5)), ("pre-norm", (6, 0.5, True))):
        layer = in_double(candidate, *settings)
        x = _far_apart(draw, 2, 4, 6)
        # Report only whether x changed: in training mode, dropout makes the result random.
        changed = layer.call(x, unchanged())
        replies[f"{name}, x changed"] = (
            {"in training": bool(changed.changed)} if isinstance(changed, Returned) else changed
        )
        layer.train(False)
        replies[name] = layer.call(x, unchanged())
    return replies


@probe("the sublayer is called exactly once, in training and in evaluation mode")
def _connection_calls(candidate: Candidate, draw: Draw) -> Observed:
    replies: dict[str, Reply] = {}
    for name, training, settings in (
        ("post-norm", True, (6, 0.0)),
        ("pre-norm", True, (6, 0.0, True)),
        ("post-norm in evaluation mode", False, (6, 0.0)),
        ("pre-norm in evaluation mode", False, (6, 0.0, True)),
    ):
        layer = in_double(candidate, *settings)
        layer.train(training)
        counting = layer.fixture(sublayer(torch.ones(6)))
        result = layer.call(_far_apart(draw, 2, 4, 6), counting)
        calls = first_failure(result, counting.call(method="count"))
        replies[f"the number of calls to the sublayer with {name}"] = calls
    return replies


@probe("in training mode with post-norm, dropout is applied to the sublayer's output, before the sum")
def _connection_post_norm_dropout(candidate: Candidate, draw: Draw) -> Observed:
    return _dropped_outputs(candidate, draw, 0.25, 0.25)


@probe("in training mode with pre-norm, dropout is applied to the sublayer's output, before the sum")
def _connection_pre_norm_dropout(candidate: Candidate, draw: Draw) -> Observed:
    return _dropped_outputs(candidate, draw, 0.25, 0.25, True)


@probe("the default dropout rate is 0.1")
def _connection_usual_dropout(candidate: Candidate, draw: Draw) -> Observed:
    return _dropped_outputs(candidate, draw, 0.1)


@probe("in evaluation mode nothing is dropped")
def _connection_in_evaluation(candidate: Candidate, draw: Draw) -> Observed:
    replies: dict[str, Reply] = {}
    for name, settings in (("post-norm", (6, 0.5)), ("pre-norm", (6, 0.5, True))):
        layer = in_double(candidate, *settings)
        mode = layer.train(False)
        replies[name] = first_failure(mode, layer.call(_far_apart(draw, 2, 4, 6), sublayer(draw.normal(6))))
    return replies


@probe("float32 in, float32 out")
def _connection_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    layer = candidate.build(6, 0.0)
    layer.load(_connection_weights(draw, 6))
    return layer.call(_far_apart(draw, 2, 4, 6).float(), sublayer(draw.normal(6)))


@probe("gradients reach the norm's parameters, and x through the sublayer and the residual connection")
def _connection_gradient(candidate: Candidate, draw: Draw) -> Observed:
    found: dict[str, Observed] = {}
    for name, settings in (("post-norm", (6, 0.0)), ("pre-norm", (6, 0.0, True))):
        layer, weights = in_double(candidate, *settings), _connection_weights(draw, 6)
        layer.load(weights)
        x, toward = _far_apart(draw, 2, 4, 6), draw.normal(2, 4, 6)
        reply = layer.gradients(x, sublayer(draw.normal(6)), toward=toward)
        found[name] = gradients_of(reply, ("the input",), weights)
    return found


@probe("everything is on the device of the input")
def _connection_elsewhere(candidate: Candidate, draw: Draw) -> Observed:
    x = draw.normal(2, 3, 6, dtype=torch.float32)
    return called_on_a_gpu(candidate.build(6), x, unchanged())


@probe("loading a state dict into another module restores the weights, even after a call in evaluation mode")
def _connection_round_trip(candidate: Candidate, draw: Draw) -> Reply:
    full, empty = in_double(candidate, 6, 0.0), in_double(candidate, 6, 0.0)
    x, inside = _far_apart(draw, 2, 4, 6), sublayer(draw.normal(6))
    return round_trip(full, empty, _connection_weights(draw, 6), x, inside)


@probe("a call with a module as its sublayer doesn't change the state dict")
def _connection_with_a_module(candidate: Candidate, draw: Draw) -> Observed:
    layer, other = in_double(candidate, 6, 0.0), in_double(candidate, 6, 0.0)
    reply = layer.call(_far_apart(draw, 2, 4, 6), layer.fixture(linear(6, 6)))
    fits = candidate.fixture(state_dict_fits()).call(layer, other)
    return reply if isinstance(reply, Raised) else {"«the state dict still fits a new module»": fits}


@probe("a deep copy has separate weights")
def _connection_copy(candidate: Candidate, draw: Draw) -> Observed:
    x, inside = _far_apart(draw, 2, 4, 6), sublayer(draw.normal(6))
    return copied(in_double(candidate, 6, 0.0, True), _connection_weights(draw, 6), x, inside)


# --- predictions --------------------------------------------------------------------------------------------

PREDICT_NORMALISED = PredictionCheck(
    answer=math.sqrt(3),
    tolerance=0.01,
    hint="The mean is 1, so the centred features are -1, -1, -1 and 3. What is their standard deviation?",
    reason="The mean is 1 and the variance (1 + 1 + 1 + 9) / 4 = 3, so (4 - 1) / √3 = √3.",
)

_ATTENTION = 4 * (512 * 512 + 512)
_FEED_FORWARD = 512 * 2048 + 2048 + 2048 * 512 + 512

PREDICT_NETWORK_SHARE = PredictionCheck(
    answer=_FEED_FORWARD / (_FEED_FORWARD + _ATTENTION),
    tolerance=0.02,
    hint="Count the two kinds of matrices: attention has four of 512 by 512, the network two of 512 by 2048.",
    reason="The network has two matrices of 512 · 2048, as many numbers as eight of 512 · 512; "
    "attention has four.",
)

PREDICT_STREAM = PredictionCheck(
    answer=math.sqrt(13),
    tolerance=0.01,
    hint="Variances of independent numbers add up: one from the start, and one more from each sublayer.",
    reason="Thirteen variances of 1 add up to 13, so the standard deviation is √13.",
)
