"""Lesson 03: layer normalisation, the feed-forward network, and the connection around a sublayer."""

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import Exercise, Misconception, Prediction, WrongNumber
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Raised, Reply, Returned, first_failure
from course_lib.checks.exercises.fixtures.callables import sublayer, unchanged
from course_lib.checks.exercises.fixtures.models import linear
from course_lib.transformer.sublayers import FeedForward, LayerNorm, SublayerConnection

NORM = "section 3.1, and Ba, Kiros and Hinton 2016 (arXiv 1607.06450), equation 4"
NETWORK = "section 3.3, equation 2"
EPS = "section 1 of this lesson: where epsilon stands"
RESIDUAL = "section 3.1: LayerNorm(x + Sublayer(x))"
ORDER = "section 3.1 for post-norm; Xiong et al. 2020 (arXiv 2002.04745) for pre-norm"
DROPOUT = "section 5.4: residual dropout"
INNER_DROPOUT = "section 2 of this lesson (the paper's section 5.4 does not name this dropout)"
MODULE = "the documentation of torch.nn.Module"

Weights = Mapping[str, Tensor]


def _built(candidate: Candidate, *sizes: Any, **options: Any) -> Candidate:
    """An instance in float64."""
    layer = candidate.build(*sizes, **options)
    layer.call(method="double")
    return layer


def _of_its_parts(reply: Reply, weights: Weights) -> Any:
    """Gradients of the inputs and of the weights that the contract names; what else there is, is free."""
    if isinstance(reply, Raised):
        return reply
    arrived = {"the input": reply.value["inputs"][0]}
    arrived |= {name: reply.value["weights"].get(name) for name in weights}
    return {
        f"the gradient of {name}": "none" if gradient is None else gradient
        for name, gradient in arrived.items()
    }


def _round_trip(full: Candidate, empty: Candidate, weights: Weights, *arguments: Any) -> Reply:
    """Load `full`, hand its state dict to `empty`, and call that."""
    loaded, state = full.load(weights), full.weights()
    if not isinstance(loaded, Returned) or not isinstance(state, Returned):
        return first_failure(loaded, state)
    return first_failure(empty.call(state.value, method="load_state_dict"), empty.call(*arguments))


def _copied(layer: Candidate, weights: Weights, *arguments: Any) -> Any:
    """Overwrite the weights of a deep copy, made after a call, then call both."""
    loaded = layer.load(weights)
    layer.call(*arguments)
    copy = layer.copy()
    overwritten = copy.load({name: torch.zeros_like(weight) for name, weight in weights.items()})
    return {
        "the original": first_failure(loaded, layer.call(*arguments)),
        "the copy": first_failure(overwritten, copy.call(*arguments)),
    }


def _drops_with(probability: float, kept: Tensor) -> bool:
    """Whether the share of what was kept is near what it should be."""
    return abs(float(kept.double().mean()) - (1 - probability)) < 0.1


# --- LayerNorm ----------------------------------------------------------------------------------------------


def _norm_weights(draw: Draw, d_model: int) -> Weights:
    return {"scale": 1 + 0.5 * draw.normal(d_model), "shift": draw.normal(d_model)}


def _normalised(candidate: Candidate, draw: Draw, x: Tensor, *eps: float) -> Reply:
    layer = _built(candidate, x.shape[-1], *eps)
    return first_failure(layer.load(_norm_weights(draw, x.shape[-1])), layer.call(x))


@probe("when it is new, it gives each position mean 0 and variance 1 over its features")
def _norm_when_new(candidate: Candidate, draw: Draw) -> Reply:
    return _built(candidate, 4).call(3 * draw.normal(2, 3, 4) + 5)


@probe("each feature has its own scale, and after that its own shift")
def _norm_with_weights(candidate: Candidate, draw: Draw) -> Reply:
    return _normalised(candidate, draw, 3 * draw.normal(2, 3, 5) + 1)


@probe(
    "with few features and a large eps: the variance is divided by D, and eps is added to it under the root"
)
def _norm_with_large_eps(candidate: Candidate, draw: Draw) -> Reply:
    return _normalised(candidate, draw, draw.normal(4, 3), 0.5)


@probe("numbers as small as the root of eps: it is 1e-6 unless another is given")
def _norm_of_small_numbers(candidate: Candidate, draw: Draw) -> Reply:
    return _normalised(candidate, draw, 1e-3 * draw.normal(2, 3, 5))


@probe("where all features are equal, the result is the shift")
def _norm_of_equal_features(candidate: Candidate, draw: Draw) -> Reply:
    return _normalised(candidate, draw, torch.tensor([[2.0] * 4, [-1.0] * 4], dtype=torch.float64))


@probe("a single vector, with no axis in front")
def _norm_of_one_vector(candidate: Candidate, draw: Draw) -> Reply:
    return _normalised(candidate, draw, 3 * draw.normal(7))


@probe("three axes in front of the features")
def _norm_of_many_axes(candidate: Candidate, draw: Draw) -> Reply:
    return _normalised(candidate, draw, 3 * draw.normal(2, 3, 2, 5))


@probe("as many sentences as positions as features: each axis still means its own thing")
def _norm_of_cubes(candidate: Candidate, draw: Draw) -> Reply:
    return _normalised(candidate, draw, 3 * draw.normal(4, 4, 4))


@probe("float32 goes in and float32 comes out")
def _norm_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    layer = candidate.build(6)
    loaded = layer.load(_norm_weights(draw, 6))
    return first_failure(loaded, layer.call(3 * draw.normal(2, 3, 6, dtype=torch.float32)))


@probe("bfloat16 goes in and bfloat16 comes out")
def _norm_in_bfloat16(candidate: Candidate, draw: Draw) -> Reply:
    layer = candidate.build(8)
    layer.call(method="bfloat16")
    loaded = layer.load(_norm_weights(draw, 8))
    # Where that failed, how a plain float32 number is rounded beside bfloat16 would say nothing.
    return loaded if isinstance(loaded, Raised) else layer.call(draw.normal(2, 3, 8, dtype=torch.bfloat16))


@probe("gradients reach the input, the scale and the shift")
def _norm_gradient(candidate: Candidate, draw: Draw) -> Any:
    layer, weights = _built(candidate, 5), _norm_weights(draw, 5)
    layer.load(weights)
    reply = layer.gradients(3 * draw.normal(2, 3, 5), toward=draw.normal(2, 3, 5))
    return _of_its_parts(reply, weights)


@probe("its state dict, put into a new one, brings the weights along")
def _norm_round_trip(candidate: Candidate, draw: Draw) -> Reply:
    full, empty = _built(candidate, 5), _built(candidate, 5)
    return _round_trip(full, empty, _norm_weights(draw, 5), 3 * draw.normal(2, 5))


@probe("a deep copy has weights of its own")
def _norm_copy(candidate: Candidate, draw: Draw) -> Any:
    return _copied(_built(candidate, 5), _norm_weights(draw, 5), 3 * draw.normal(2, 5))


_STATISTICS = "variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)"
_CENTRED = "(x - mean)"
_ROOT = "torch.sqrt(variance + self.eps)"
_SCALE = "self.scale = nn.Parameter(torch.ones(d_model))"
_SHIFT = "self.shift = nn.Parameter(torch.zeros(d_model))"

LAYER_NORM = Exercise(
    reference=LayerNorm,
    probes=(
        _norm_when_new,
        _norm_with_weights,
        _norm_with_large_eps,
        _norm_of_small_numbers,
        _norm_of_equal_features,
        _norm_of_one_vector,
        _norm_of_many_axes,
        _norm_of_cubes,
        _norm_in_float32,
        _norm_in_bfloat16,
        _norm_gradient,
        _norm_round_trip,
        _norm_copy,
    ),
    misconceptions=(
        Misconception(
            name="unbiased_variance",
            says="the variance is divided by D - 1, not by D",
            hint="`var` and `std` of torch divide by D - 1 unless told otherwise, which is meant for "
            "estimating from a sample. Here the D features are all there is: `correction=0` divides by "
            "D.",
            paper=NORM,
            patch=[("correction=0", "correction=1")],
        ),
        Misconception(
            name="eps_outside_the_root",
            says="eps is added to the standard deviation, outside the root",
            hint="The root is taken of the variance plus eps. So the gradient of the root stays finite "
            "where the variance is zero.",
            paper=EPS,
            patch=[(_ROOT, "(torch.sqrt(variance) + self.eps)")],
        ),
        Misconception(
            name="eps_forgotten",
            says="eps is not added to the variance",
            hint="Where all features of a position are equal, the variance is 0, and 0 / 0 is NaN. Add eps "
            "under the root.",
            paper=EPS,
            patch=[(_ROOT, "torch.sqrt(variance)")],
        ),
        Misconception(
            name="eps_not_kept",
            says="the eps that is handed in is ignored, and 1e-6 is taken every time",
            hint="1e-6 is only what eps is when nobody gives another. Keep the argument in __init__, and "
            "use it in forward.",
            paper=NORM,
            patch=[("self.eps = eps", "self.eps = 1e-6")],
        ),
        Misconception(
            name="root_forgotten",
            says="it divides by the variance, not by its root",
            hint="Divided by the variance the result has a variance of one over the old. The standard "
            "deviation, the root, brings it to 1.",
            paper=NORM,
            patch=[(_ROOT, "(variance + self.eps)")],
        ),
        Misconception(
            name="mean_kept",
            says="the mean is not taken away",
            hint="First subtract the mean of the position's features, so that they lie around 0. Then "
            "divide.",
            paper=NORM,
            patch=[(_CENTRED, "x")],
        ),
        Misconception(
            name="only_centred",
            says="the mean is taken away, but nothing is divided by the standard deviation",
            hint="Subtracting the mean brings the mean to 0. To bring the variance to 1, divide by its root.",
            paper=NORM,
            patch=[(f" / {_ROOT}", "")],
        ),
        Misconception(
            name="root_mean_square",
            says="it divides by the root of the mean square and never takes the mean away, which is RMSNorm",
            hint="RMSNorm is a later, cheaper relative (Zhang and Sennrich 2019). The paper's layer "
            "normalisation takes the mean away first, and divides by the spread around it.",
            paper=NORM,
            patch=[(_CENTRED, "x"), (_STATISTICS, "variance = x.pow(2).mean(dim=-1, keepdim=True)")],
        ),
        Misconception(
            name="over_the_batch",
            says="it normalises over the first axis, the batch, which is batch normalisation",
            hint="Each position is normalised alone, over its own features: the last axis. Then a sentence "
            "does not depend on which others are in its batch.",
            paper=NORM,
            patch=[("dim=-1", "dim=0")],
        ),
        Misconception(
            name="over_positions",
            says="it normalises over the positions, not over the features",
            hint="The features of a position are the last axis: -1. The axis before it holds the positions.",
            paper=NORM,
            patch=[("dim=-1", "dim=-2")],
        ),
        Misconception(
            name="over_axis_one",
            says="it normalises over axis 1, which holds the features only of a plain matrix",
            hint="With a batch in front the features are the last axis. Count it from the end: -1.",
            paper=NORM,
            patch=[("dim=-1", "dim=1")],
        ),
        Misconception(
            name="over_axis_two",
            says="it normalises over axis 2, which holds the features only where two axes stand in front",
            hint="Any number of axes may stand in front of the features. Count the axis from the end: -1.",
            paper=NORM,
            patch=[("dim=-1", "dim=2")],
        ),
        Misconception(
            name="over_the_sentence",
            says="it takes one mean and one variance for all positions of a sentence together",
            hint="Each position has a mean and a variance of its own: reduce the last axis alone.",
            paper=NORM,
            patch=[("dim=-1", "dim=tuple(range(x.dim()))[-2:]")],
        ),
        Misconception(
            name="axis_lost",
            says="mean and variance have lost the axis over which they were taken",
            hint="With keepdim=True the axis stays, with length one, and broadcasts against the features. "
            "Without it, the means are set against the wrong axis, or fit none.",
            paper=NORM,
            patch=[(", keepdim=True", "")],
        ),
        Misconception(
            name="scale_not_used",
            says="the scale is not applied",
            hint="After normalising, each feature is multiplied by its own learned scale.",
            paper=NORM,
            patch=[(f"self.scale * {_CENTRED}", _CENTRED)],
        ),
        Misconception(
            name="shift_not_used",
            says="the shift is not applied",
            hint="After normalising and scaling, each feature gets its own learned shift added.",
            paper=NORM,
            patch=[(" + self.shift", "")],
        ),
        Misconception(
            name="scale_after_shift",
            says="the shift is added before the scale is applied",
            hint="Scale first, then shift: otherwise the scale changes the shift as well.",
            paper=NORM,
            patch=[
                (
                    f"self.scale * {_CENTRED} / {_ROOT} + self.shift",
                    f"self.scale * ({_CENTRED} / {_ROOT} + self.shift)",
                )
            ],
        ),
        Misconception(
            name="scale_starts_at_zero",
            says="the scale starts at 0, so a new layer gives nothing but zeros",
            hint="A new layer is to normalise and do no more: scale 1, shift 0.",
            paper=NORM,
            patch=[(_SCALE, "self.scale = nn.Parameter(torch.zeros(d_model))")],
        ),
        Misconception(
            name="one_scale_for_all",
            says="scale and shift hold a single number each",
            hint="Each of the d_model features has a scale and a shift of its own, so both are vectors of "
            "that length.",
            paper=NORM,
            patch=[
                (_SCALE, "self.scale = nn.Parameter(torch.ones(1))"),
                (_SHIFT, "self.shift = nn.Parameter(torch.zeros(1))"),
            ],
        ),
        Misconception(
            name="plain_tensors",
            says="scale and shift are plain tensors, which a module neither saves nor trains",
            hint="An optimiser and a checkpoint see only what is an nn.Parameter (or a module that holds "
            "some). Wrap both.",
            paper="the documentation of torch.nn.Parameter",
            patch=[
                (_SCALE, "self.scale = torch.ones(d_model)"),
                (_SHIFT, "self.shift = torch.zeros(d_model)"),
            ],
        ),
        Misconception(
            name="buffers",
            says="scale and shift are buffers, which are saved but never trained",
            hint="What is to be learned is an nn.Parameter. A buffer gets no gradient.",
            paper="the documentation of torch.nn.Parameter",
            patch=[
                (_SCALE, 'self.register_buffer("scale", torch.ones(d_model))'),
                (_SHIFT, 'self.register_buffer("shift", torch.zeros(d_model))'),
            ],
        ),
        Misconception(
            name="statistics_detached",
            says="the gradient takes mean and variance for constants",
            hint="They depend on x, and the gradient has to know it. Leave out `detach`, `no_grad` and "
            "`.data`.",
            paper=NORM,
            patch=[("torch.var_mean(x,", "torch.var_mean(x.detach(),")],
        ),
        Misconception(
            name="input_changed",
            says="the input is changed in place",
            hint="`-=` writes into the tensor that the caller handed in, and the residual connection still "
            "needs it. Make a new one: x - mean.",
            paper=NORM,
            patch=[
                (
                    _STATISTICS,
                    "x -= x.mean(dim=-1, keepdim=True)\n"
                    "        variance = x.pow(2).mean(dim=-1, keepdim=True)",
                ),
                (_CENTRED, "x"),
            ],
        ),
        Misconception(
            name="left_in_float32",
            says="it computes in float32, and does not go back to the dtype of the input",
            hint="To compute in float32 is wise in low precision. But hand the result back in the dtype of "
            "x: `.to(x.dtype)`.",
            paper="the course's rule for all exercises: results in the dtype of the inputs",
            patch=[(_STATISTICS, f"x = x.float()\n        {_STATISTICS}")],
        ),
        Misconception(
            name="module_not_begun",
            says="`super().__init__()` is missing from __init__",
            hint="A module keeps lists of its parameters and modules, and super().__init__() makes these "
            "lists. Call it first.",
            paper=MODULE,
            patch=[("super().__init__()", "pass")],
        ),
    ),
)

# --- FeedForward --------------------------------------------------------------------------------------------


def _network_weights(draw: Draw, d_model: int, d_ff: int) -> Weights:
    return {
        "inner.weight": draw.normal(d_ff, d_model),
        "inner.bias": draw.normal(d_ff),
        "outer.weight": draw.normal(d_model, d_ff),
        "outer.bias": draw.normal(d_model),
    }


def _through_network(candidate: Candidate, draw: Draw, x: Tensor, d_ff: int) -> Reply:
    layer = _built(candidate, x.shape[-1], d_ff, dropout=0.0)
    return first_failure(layer.load(_network_weights(draw, x.shape[-1], d_ff)), layer.call(x))


def _dropped_features(layer: Candidate, probability: float) -> Any:
    """See the hidden features through outer weights that pick the first three out of five."""
    bias = torch.tensor([10.0, 20.0, 30.0], dtype=torch.float64)
    weights = {
        "inner.weight": torch.ones(5, 3, dtype=torch.float64),
        "inner.bias": torch.zeros(5, dtype=torch.float64),
        "outer.weight": torch.eye(3, 5, dtype=torch.float64),
        "outer.bias": bias,
    }
    x = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64).expand(200, 3)
    reply = first_failure(layer.load(weights), layer.train(True), layer.call(x))
    if isinstance(reply, Raised) or not isinstance(reply.value, Tensor) or reply.value.shape != x.shape:
        return reply
    share = (reply.value - bias) / 7.0
    kept = (share - 1 / (1 - probability)).abs() < 1e-5
    return {
        f"«each hidden feature becomes 0, or is divided by {1 - probability:g}»": bool(
            (kept | (share.abs() < 1e-5)).all()
        ),
        f"«about {probability:.0%} of the hidden features become 0»": _drops_with(probability, kept),
        "«each hidden feature is dropped on its own»": bool((kept.any(-1) & ~kept.all(-1)).any()),
    }


@probe("it widens, applies ReLU, and narrows: the values of equation 2")
def _network_values(candidate: Candidate, draw: Draw) -> Reply:
    return _through_network(candidate, draw, draw.normal(2, 4, 3), d_ff=5)


@probe("a single vector, with no axis in front")
def _network_of_one_vector(candidate: Candidate, draw: Draw) -> Reply:
    return _through_network(candidate, draw, draw.normal(3), d_ff=7)


@probe("three axes in front of the features")
def _network_of_many_axes(candidate: Candidate, draw: Draw) -> Reply:
    return _through_network(candidate, draw, draw.normal(2, 3, 2, 3), d_ff=5)


@probe("as wide inside as outside, and as many positions: each axis still means its own thing")
def _network_of_squares(candidate: Candidate, draw: Draw) -> Reply:
    return _through_network(candidate, draw, draw.normal(4, 4, 4), d_ff=4)


@probe("in training, dropout falls between the layers")
def _network_dropout(candidate: Candidate, draw: Draw) -> Any:
    return _dropped_features(_built(candidate, 3, 5, 0.25), 0.25)


@probe("dropout is 0.1 unless another is given")
def _network_usual_dropout(candidate: Candidate, draw: Draw) -> Any:
    return _dropped_features(_built(candidate, 3, 5), 0.1)


@probe("in evaluation nothing is dropped")
def _network_in_evaluation(candidate: Candidate, draw: Draw) -> Reply:
    layer = _built(candidate, 3, 5, 0.5)
    loaded = layer.load(_network_weights(draw, 3, 5))
    return first_failure(loaded, layer.train(False), layer.call(draw.normal(2, 4, 3)))


@probe("float32 goes in and float32 comes out")
def _network_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    layer = candidate.build(4, 6, 0.0)
    loaded = layer.load(_network_weights(draw, 4, 6))
    return first_failure(loaded, layer.call(draw.normal(2, 3, 4, dtype=torch.float32)))


@probe("gradients reach the input and the weights of both layers")
def _network_gradient(candidate: Candidate, draw: Draw) -> Any:
    layer, weights = _built(candidate, 3, 5, 0.0), _network_weights(draw, 3, 5)
    layer.load(weights)
    return _of_its_parts(layer.gradients(draw.normal(2, 4, 3), toward=draw.normal(2, 4, 3)), weights)


@probe("its state dict, put into a new one, brings the weights along")
def _network_round_trip(candidate: Candidate, draw: Draw) -> Reply:
    full, empty = _built(candidate, 3, 5, 0.0), _built(candidate, 3, 5, 0.0)
    return _round_trip(full, empty, _network_weights(draw, 3, 5), draw.normal(2, 3))


@probe("a deep copy has weights of its own")
def _network_copy(candidate: Candidate, draw: Draw) -> Any:
    return _copied(_built(candidate, 3, 5, 0.0), _network_weights(draw, 3, 5), draw.normal(2, 3))


_INNER = "self.inner = nn.Linear(d_model, d_ff)"
_OUTER = "self.outer = nn.Linear(d_ff, d_model)"
_KEEP_DROPOUT = "self.dropout = nn.Dropout(dropout)"
_NETWORK = "self.outer(self.dropout(self.inner(x).relu()))"

FEED_FORWARD = Exercise(
    reference=FeedForward,
    probes=(
        _network_values,
        _network_of_one_vector,
        _network_of_many_axes,
        _network_of_squares,
        _network_dropout,
        _network_usual_dropout,
        _network_in_evaluation,
        _network_in_float32,
        _network_gradient,
        _network_round_trip,
        _network_copy,
    ),
    misconceptions=(
        Misconception(
            name="relu_forgotten",
            says="there is no ReLU between the layers",
            hint="Without it the two layers are one: a linear map of a linear map is a linear map.",
            paper=NETWORK,
            patch=[(".relu()", "")],
        ),
        Misconception(
            name="relu_at_the_end",
            says="the ReLU falls on the output, not between the layers",
            hint="The output is added to x, and has to be able to lower a feature too: it may be below 0. "
            "The ReLU belongs between the layers.",
            paper=NETWORK,
            patch=[(_NETWORK, "self.outer(self.dropout(self.inner(x))).relu()")],
        ),
        Misconception(
            name="relu_twice",
            says="a second ReLU falls on the output",
            hint="The output is added to x, and has to be able to lower a feature too: it may be below 0.",
            paper=NETWORK,
            patch=[("(x).relu()))", "(x).relu())).relu()")],
        ),
        Misconception(
            name="relu_at_the_start",
            says="the ReLU falls on the input, not between the layers",
            hint="It takes away all that is below 0 in x before the network has seen it. Let inner read x "
            "first.",
            paper=NETWORK,
            patch=[("self.inner(x).relu()", "self.inner(x.relu())")],
        ),
        Misconception(
            name="gelu",
            says="it uses GELU where the paper has ReLU",
            hint="Later models (BERT, GPT) took GELU. Equation 2 has max(0, ·), which is ReLU.",
            paper=NETWORK,
            patch=[("self.inner(x).relu()", "nn.functional.gelu(self.inner(x))")],
        ),
        Misconception(
            name="leaky_relu",
            says="it uses a leaky ReLU where the paper has ReLU",
            hint="Equation 2 has max(0, ·): all that is below 0 becomes 0.",
            paper=NETWORK,
            patch=[("self.inner(x).relu()", "nn.functional.leaky_relu(self.inner(x))")],
        ),
        Misconception(
            name="sizes_swapped",
            says="inner and outer have each other's sizes",
            hint="inner widens: d_model in, d_ff out. outer narrows again.",
            paper=NETWORK,
            patch=[
                (_INNER, "self.inner = nn.Linear(d_ff, d_model)"),
                (_OUTER, "self.outer = nn.Linear(d_model, d_ff)"),
            ],
        ),
        Misconception(
            name="order_swapped",
            says="x goes through outer first",
            hint="inner comes first: it reads x and widens it. outer narrows what came out.",
            paper=NETWORK,
            patch=[(_NETWORK, "self.inner(self.dropout(self.outer(x).relu()))")],
        ),
        Misconception(
            name="no_bias",
            says="the layers have no bias",
            hint="Equation 2 has $b_1$ and $b_2$. nn.Linear has a bias unless told otherwise.",
            paper=NETWORK,
            patch=[
                (_INNER, "self.inner = nn.Linear(d_model, d_ff, bias=False)"),
                (_OUTER, "self.outer = nn.Linear(d_ff, d_model, bias=False)"),
            ],
        ),
        Misconception(
            name="residual_inside",
            says="x is added to the output",
            hint="That is the residual connection, which SublayerConnection makes. Here it would be added "
            "twice.",
            paper=NETWORK,
            patch=[(_NETWORK, f"x + {_NETWORK}")],
        ),
        Misconception(
            name="dropout_forgotten",
            says="nothing is dropped in training",
            hint="Making the dropout in __init__ does nothing yet: call it in forward, on what comes out of "
            "the ReLU.",
            paper=INNER_DROPOUT,
            patch=[("self.dropout(self.inner(x).relu())", "self.inner(x).relu()")],
        ),
        Misconception(
            name="dropout_on_output",
            says="dropout falls on the output, not between the layers",
            hint="The output is dropped later, by SublayerConnection. Here hidden features are dropped, "
            "after the ReLU.",
            paper=INNER_DROPOUT,
            patch=[(_NETWORK, "self.dropout(self.outer(self.inner(x).relu()))")],
        ),
        Misconception(
            name="dropout_on_input",
            says="dropout falls on the input, not between the layers",
            hint="The hidden features are what is dropped: call the dropout after the ReLU.",
            paper=INNER_DROPOUT,
            patch=[("self.dropout(self.inner(x).relu())", "self.inner(self.dropout(x)).relu()")],
        ),
        Misconception(
            name="dropout_hard_wired",
            says="the dropout that is handed in is ignored, and 0.1 is taken every time",
            hint="0.1 is only what it is when nobody gives another. Hand the argument on: "
            "nn.Dropout(dropout).",
            paper=INNER_DROPOUT,
            patch=[(_KEEP_DROPOUT, "self.dropout = nn.Dropout(0.1)")],
        ),
        Misconception(
            name="dropout_not_passed",
            says="nn.Dropout() is made without its probability, so it drops one half",
            hint="Hand the argument on: nn.Dropout(dropout).",
            paper=INNER_DROPOUT,
            patch=[(_KEEP_DROPOUT, "self.dropout = nn.Dropout()")],
        ),
        Misconception(
            name="dropped_in_evaluation",
            says="it goes on dropping in evaluation",
            hint="The function F.dropout does not know the module's mode unless told, "
            "`training=self.training`. An nn.Dropout made in __init__ does.",
            paper=INNER_DROPOUT,
            patch=[
                (
                    "self.dropout(self.inner(x).relu())",
                    "nn.functional.dropout(self.inner(x).relu(), self.dropout.p)",
                )
            ],
        ),
        Misconception(
            name="module_not_begun",
            says="`super().__init__()` is missing from __init__",
            hint="A module keeps lists of its parameters and modules, and super().__init__() makes these "
            "lists. Call it first.",
            paper=MODULE,
            patch=[("super().__init__()", "pass")],
        ),
    ),
)

# --- SublayerConnection -------------------------------------------------------------------------------------


def _connection_weights(draw: Draw, d_model: int) -> Weights:
    return {f"norm.{name}": weight for name, weight in _norm_weights(draw, d_model).items()}


def _far_apart(draw: Draw, *shape: int) -> Tensor:
    """Features far apart: there a norm that differs only in where eps stands gives the same."""
    return 3 * draw.normal(*shape) + torch.linspace(-9, 9, shape[-1], dtype=torch.float64)


def _connected(candidate: Candidate, draw: Draw, *settings: Any) -> Any:
    """Call it, in float64 and without dropout, around a sublayer that tells a second call from a first."""
    layer = _built(candidate, 6, 0.0, *settings)
    loaded = layer.load(_connection_weights(draw, 6))
    x = _far_apart(draw, 2, 4, 6)
    return {
        "its norm alone (if that differs, mend LayerNorm first)": first_failure(
            loaded, layer.call(x, method="norm")
        ),
        "the result": layer.call(x, sublayer(draw.normal(6))),
    }


def _dropped_outputs(candidate: Candidate, draw: Draw, probability: float, *settings: Any) -> Any:
    """Look for what was kept: with three features there are eight ways to drop, and each position has one."""
    norm_first = settings[-1:] == (True,)
    layer = _built(candidate, 3, *settings)
    x, weights = _far_apart(draw, 4, 50, 3), _connection_weights(draw, 3)
    scale, shift = weights["norm.scale"], weights["norm.shift"]
    inside = layer.make(linear(3, 3))
    given = layer_norm(x, (3,), scale, shift, eps=1e-6) if norm_first else x
    added = inside.call(given)
    reply = first_failure(layer.load(weights), layer.train(True), layer.call(x, inside))
    if not isinstance(added, Returned) or not isinstance(reply, Returned):
        return reply
    if not isinstance(reply.value, Tensor) or reply.value.shape != x.shape:
        return reply
    ways = torch.tensor(list(product([0.0, 1.0], repeat=3)), dtype=torch.float64)
    possible = x.unsqueeze(-2) + ways * added.value.unsqueeze(-2) / (1 - probability)
    if not norm_first:
        possible = layer_norm(possible, (3,), scale, shift, eps=1e-6)
    fits = (possible - reply.value.unsqueeze(-2)).abs().amax(-1) < 1e-4
    says = "x + dropout(sublayer(norm(x)))" if norm_first else "norm(x + dropout(sublayer(x)))"
    return {
        f"«each position is {says}»": bool(fits.any(-1).all()),
        f"«about {probability:.0%} of what the sublayer gives is dropped»": _drops_with(
            probability, ways[fits.double().argmax(-1)]
        ),
    }


@probe("unless told otherwise: norm(x + sublayer(x)), as in the paper")
def _connection_post_norm(candidate: Candidate, draw: Draw) -> Any:
    return _connected(candidate, draw)


@probe("with norm_first=False: norm(x + sublayer(x))")
def _connection_told_post_norm(candidate: Candidate, draw: Draw) -> Any:
    return _connected(candidate, draw, False)


@probe("a sublayer may hand back the very tensor that it gets, which stays as it is")
def _connection_of_the_same(candidate: Candidate, draw: Draw) -> Any:
    replies: dict[str, Any] = {}
    for name, settings in (("post-norm", (6, 0.5)), ("pre-norm", (6, 0.5, True))):
        layer = _built(candidate, *settings)
        x = _far_apart(draw, 2, 4, 6)
        changed = layer.call(x, unchanged())  # in training mode: what was dropped is free
        replies[f"{name}, x changed"] = (
            {"in training": bool(changed.changed)} if isinstance(changed, Returned) else changed
        )
        layer.train(False)
        replies[name] = layer.call(x, unchanged())
    return replies


@probe("with norm_first: x + sublayer(norm(x))")
def _connection_pre_norm(candidate: Candidate, draw: Draw) -> Any:
    return _connected(candidate, draw, True)


@probe("the sublayer is called once: one more call of it is the second")
def _connection_calls(candidate: Candidate, draw: Draw) -> Any:
    replies: dict[str, Reply] = {}
    for name, settings in (("post-norm", (6, 0.0)), ("pre-norm", (6, 0.0, True))):
        layer = _built(candidate, *settings)
        counting = layer.make(sublayer(torch.ones(6)))
        result = layer.call(_far_apart(draw, 2, 4, 6), counting)
        one_more = counting.call(torch.ones(1, dtype=torch.float64).expand(6))
        replies[f"the next call after {name}"] = first_failure(result, one_more)
    return replies


@probe("in training, post-norm: dropout falls on what the sublayer gives, before the sum")
def _connection_post_norm_dropout(candidate: Candidate, draw: Draw) -> Any:
    return _dropped_outputs(candidate, draw, 0.25, 0.25)


@probe("in training, pre-norm: dropout falls on what the sublayer gives, before the sum")
def _connection_pre_norm_dropout(candidate: Candidate, draw: Draw) -> Any:
    return _dropped_outputs(candidate, draw, 0.25, 0.25, True)


@probe("dropout is 0.1 unless another is given")
def _connection_usual_dropout(candidate: Candidate, draw: Draw) -> Any:
    return _dropped_outputs(candidate, draw, 0.1)


@probe("in evaluation nothing is dropped")
def _connection_in_evaluation(candidate: Candidate, draw: Draw) -> Any:
    replies: dict[str, Reply] = {}
    for name, settings in (("post-norm", (6, 0.5)), ("pre-norm", (6, 0.5, True))):
        layer = _built(candidate, *settings)
        mode = layer.train(False)
        replies[name] = first_failure(mode, layer.call(_far_apart(draw, 2, 4, 6), sublayer(draw.normal(6))))
    return replies


@probe("float32 goes in and float32 comes out")
def _connection_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    layer = candidate.build(6, 0.0)
    loaded = layer.load(_connection_weights(draw, 6))
    x = _far_apart(draw, 2, 4, 6).float()
    return first_failure(loaded, layer.call(x, sublayer(draw.normal(6))))


@probe("gradients reach x, both by way of the sublayer and past it, and the weights of the norm")
def _connection_gradient(candidate: Candidate, draw: Draw) -> Any:
    found: dict[str, Any] = {}
    for name, settings in (("post-norm", (6, 0.0)), ("pre-norm", (6, 0.0, True))):
        layer, weights = _built(candidate, *settings), _connection_weights(draw, 6)
        layer.load(weights)
        x, toward = _far_apart(draw, 2, 4, 6), draw.normal(2, 4, 6)
        reply = layer.gradients(x, sublayer(draw.normal(6)), toward=toward)
        found[name] = _of_its_parts(reply, weights)
    return found


@probe("its state dict, put into a new one, brings the weights along")
def _connection_round_trip(candidate: Candidate, draw: Draw) -> Reply:
    full, empty = _built(candidate, 6, 0.0), _built(candidate, 6, 0.0)
    x, inside = _far_apart(draw, 2, 4, 6), sublayer(draw.normal(6))
    return _round_trip(full, empty, _connection_weights(draw, 6), x, inside)


@probe("a deep copy has weights of its own")
def _connection_copy(candidate: Candidate, draw: Draw) -> Any:
    x, inside = _far_apart(draw, 2, 4, 6), sublayer(draw.normal(6))
    return _copied(_built(candidate, 6, 0.0, True), _connection_weights(draw, 6), x, inside)


_PRE = "x + self.dropout(sublayer(self.norm(x)))"
_POST = "self.norm(x + self.dropout(sublayer(x)))"
_NORM = "self.norm = LayerNorm(d_model)"

SUBLAYER_CONNECTION = Exercise(
    reference=SublayerConnection,
    probes=(
        _connection_post_norm,
        _connection_pre_norm,
        _connection_told_post_norm,
        _connection_of_the_same,
        _connection_calls,
        _connection_post_norm_dropout,
        _connection_pre_norm_dropout,
        _connection_usual_dropout,
        _connection_in_evaluation,
        _connection_in_float32,
        _connection_gradient,
        _connection_round_trip,
        _connection_copy,
    ),
    misconceptions=(
        Misconception(
            name="always_pre_norm",
            says="it is pre-norm also where the paper's post-norm is asked for",
            hint="Many programs say that they follow the paper and normalise before the sublayer. The paper "
            "normalises after the sum: norm(x + dropout(sublayer(x))).",
            paper=ORDER,
            patch=[("if self.norm_first:", "if True:")],
        ),
        Misconception(
            name="always_post_norm",
            says="norm_first is ignored",
            hint="With norm_first the sublayer gets norm(x), and nothing is normalised after the sum.",
            paper=ORDER,
            patch=[("if self.norm_first:", "if False:")],
        ),
        Misconception(
            name="order_inverted",
            says="norm_first is read the wrong way round",
            hint="norm_first means: the norm comes before the sublayer. The paper's way, norm after the "
            "sum, is the other.",
            paper=ORDER,
            patch=[("if self.norm_first:", "if not self.norm_first:")],
        ),
        Misconception(
            name="residual_forgotten",
            says="x is not added to what the sublayer gives",
            hint="The sum with x is the residual connection itself: without it, every layer has to carry "
            "everything on, and gradients fade on their way down.",
            paper=RESIDUAL,
            patch=[
                (_PRE, "self.dropout(sublayer(self.norm(x)))"),
                (_POST, "self.norm(self.dropout(sublayer(x)))"),
            ],
        ),
        Misconception(
            name="residual_of_the_norm",
            says="with norm_first, norm(x) is added where x should be",
            hint="Only what goes into the sublayer is normalised. x itself runs past it untouched: that is "
            "the point.",
            paper=ORDER,
            patch=[(_PRE, "self.norm(x) + self.dropout(sublayer(self.norm(x)))")],
        ),
        Misconception(
            name="residual_of_the_result",
            says="what the sublayer gives is added to itself",
            hint="The sum is of x and of what the sublayer makes of it.",
            paper=RESIDUAL,
            patch=[
                (_PRE, "2 * self.dropout(sublayer(self.norm(x)))"),
                (_POST, "self.norm(2 * self.dropout(sublayer(x)))"),
            ],
        ),
        Misconception(
            name="norm_before_the_sum",
            says="what the sublayer gives is normalised before x is added",
            hint="The paper normalises the sum: norm(x + ...), so that what goes on to the next layer is "
            "normalised.",
            paper=RESIDUAL,
            patch=[(_POST, "x + self.norm(self.dropout(sublayer(x)))")],
        ),
        Misconception(
            name="norm_forgotten",
            says="nothing is normalised",
            hint="Making the norm in __init__ does nothing yet: call it in forward.",
            paper=RESIDUAL,
            patch=[(_PRE, "x + self.dropout(sublayer(x))"), (_POST, "x + self.dropout(sublayer(x))")],
        ),
        Misconception(
            name="pre_norm_after_too",
            says="with norm_first, the sum is normalised as well",
            hint="Pre-norm leaves the sum as it is, so that x can run from the first layer to the last. One "
            "norm at the very top follows in lesson 06.",
            paper=ORDER,
            patch=[(_PRE, "self.norm(x + self.dropout(sublayer(self.norm(x))))")],
        ),
        Misconception(
            name="post_norm_before_too",
            says="without norm_first, the input of the sublayer is normalised as well",
            hint="x came out of the norm of the layer below. The sublayer takes it as it is.",
            paper=ORDER,
            patch=[(_POST, "self.norm(x + self.dropout(sublayer(self.norm(x))))")],
        ),
        Misconception(
            name="norm_made_anew",
            says="a new LayerNorm is made at each call, and never learns",
            hint="Parameters have to stay where the optimiser can find them: make the norm once, in "
            "__init__.",
            paper=MODULE,
            patch=[
                (_PRE, _PRE.replace("self.norm", "LayerNorm(x.shape[-1])")),
                (_POST, _POST.replace("self.norm", "LayerNorm(x.shape[-1])")),
            ],
        ),
        Misconception(
            name="unbiased_variance",
            says="its LayerNorm divides by D - 1, not by D; mend it there",
            hint="SublayerConnection is right but for its norm. `correction=0` divides by D.",
            paper=NORM,
            patch=[
                (
                    _NORM,
                    "class Unbiased(LayerNorm):\n"
                    "            def forward(self, x):\n"
                    "                centred = x - x.mean(dim=-1, keepdim=True)\n"
                    "                variance = x.var(dim=-1, keepdim=True)\n"
                    "                normalised = centred / torch.sqrt(variance + self.eps)\n"
                    "                return self.scale * normalised + self.shift\n"
                    "        self.norm = Unbiased(d_model)",
                )
            ],
        ),
        Misconception(
            name="dropout_forgotten",
            says="nothing is dropped in training",
            hint="Making the dropout in __init__ does nothing yet: call it in forward, on what the sublayer "
            "gives.",
            paper=DROPOUT,
            patch=[(_PRE, "x + sublayer(self.norm(x))"), (_POST, "self.norm(x + sublayer(x))")],
        ),
        Misconception(
            name="dropout_on_the_sum",
            says="dropout falls on the sum, so x itself loses features",
            hint="x is to run past the sublayer whole. Drop what the sublayer gives, before the sum.",
            paper=DROPOUT,
            patch=[
                (_PRE, "self.dropout(x + sublayer(self.norm(x)))"),
                (_POST, "self.norm(self.dropout(x + sublayer(x)))"),
            ],
        ),
        Misconception(
            name="dropout_at_the_end",
            says="dropout falls on the result of the norm",
            hint="Section 5.4: dropout is applied to the output of each sublayer, before it is added and "
            "normalised.",
            paper=DROPOUT,
            patch=[(_POST, "self.dropout(self.norm(x + sublayer(x)))")],
        ),
        Misconception(
            name="dropout_before_the_sublayer",
            says="dropout falls on what goes into the sublayer",
            hint="Section 5.4: dropout is applied to the output of each sublayer.",
            paper=DROPOUT,
            patch=[
                (_PRE, "x + sublayer(self.dropout(self.norm(x)))"),
                (_POST, "self.norm(x + sublayer(self.dropout(x)))"),
            ],
        ),
        Misconception(
            name="dropout_on_x",
            says="dropout falls on x, where it should fall on what the sublayer gives",
            hint="x is to run past the sublayer whole. What the sublayer gives is dropped.",
            paper=DROPOUT,
            patch=[
                (_PRE, "self.dropout(x) + sublayer(self.norm(x))"),
                (_POST, "self.norm(self.dropout(x) + sublayer(x))"),
            ],
        ),
        Misconception(
            name="dropout_hard_wired",
            says="the dropout that is handed in is ignored, and 0.1 is taken every time",
            hint="0.1 is only what it is when nobody gives another. Hand the argument on: "
            "nn.Dropout(dropout).",
            paper=DROPOUT,
            patch=[(_KEEP_DROPOUT, "self.dropout = nn.Dropout(0.1)")],
        ),
        Misconception(
            name="dropout_not_passed",
            says="nn.Dropout() is made without its probability, so it drops one half",
            hint="Hand the argument on: nn.Dropout(dropout).",
            paper=DROPOUT,
            patch=[(_KEEP_DROPOUT, "self.dropout = nn.Dropout()")],
        ),
        Misconception(
            name="dropped_in_evaluation",
            says="it goes on dropping in evaluation",
            hint="The function F.dropout does not know the module's mode unless told, "
            "`training=self.training`. An nn.Dropout made in __init__ does.",
            paper=DROPOUT,
            patch=[(_KEEP_DROPOUT, "self.dropout = lambda given: nn.functional.dropout(given, dropout)")],
        ),
        Misconception(
            name="sublayer_called_twice",
            says="with norm_first, the sublayer is called twice",
            hint="A call costs time, draws new dropout and may have effects: call it once, in the branch "
            "that needs it.",
            paper=RESIDUAL,
            patch=[
                ("if self.norm_first:", "given = sublayer(x)\n        if self.norm_first:"),
                (_POST, "self.norm(x + self.dropout(given))"),
            ],
        ),
        Misconception(
            name="sublayer_on_itself",
            says="the sublayer is applied to what it has already given",
            hint="It is called once, on x, or with norm_first on norm(x).",
            paper=RESIDUAL,
            patch=[
                (_PRE, "x + self.dropout(sublayer(sublayer(self.norm(x))))"),
                (_POST, "self.norm(x + self.dropout(sublayer(sublayer(x))))"),
            ],
        ),
        Misconception(
            name="input_changed",
            says="x is changed in place",
            hint="`x += ...` writes into the tensor that the caller handed in. Make a new one: x + ...",
            paper=RESIDUAL,
            patch=[
                (f"return {_PRE}", "x += self.dropout(sublayer(self.norm(x)))\n            return x"),
                (f"return {_POST}", "x += self.dropout(sublayer(x))\n        return self.norm(x)"),
            ],
        ),
        Misconception(
            name="module_not_begun",
            says="`super().__init__()` is missing from __init__",
            hint="A module keeps lists of its parameters and modules, and super().__init__() makes these "
            "lists. Call it first.",
            paper=MODULE,
            patch=[("super().__init__()", "pass")],
        ),
    ),
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_NORMALISED = Prediction(
    name="predict_normalised",
    answer=math.sqrt(3),
    tolerance=0.01,
    hint="The mean is 1. So the four features lie at -1, -1, -1 and 3 around it; now their variance, and "
    "its root.",
    misconceptions=(
        WrongNumber(
            "unbiased_variance", 1.5, "That divides the squares by 3. All four features are there: by 4."
        ),
        WrongNumber("root_forgotten", 1.0, "That divides by the variance. It is its root that is wanted."),
        WrongNumber("mean_kept", 4 / math.sqrt(3), "First take the mean away from the 4, then divide."),
        WrongNumber("root_mean_square", 2.0, "That is RMSNorm. Here the mean is taken away first."),
        WrongNumber("only_centred", 3.0, "The mean is taken away. Now divide by the standard deviation."),
    ),
)

_ATTENTION = 4 * (512 * 512 + 512)
_FEED_FORWARD = 512 * 2048 + 2048 + 2048 * 512 + 512

PREDICT_NETWORK_SHARE = Prediction(
    name="predict_network_share",
    answer=_FEED_FORWARD / (_FEED_FORWARD + _ATTENTION),
    tolerance=0.02,
    hint="Count the two kinds of matrices: attention has four of 512 by 512, the network two of 512 by 2048.",
    misconceptions=(
        WrongNumber(
            "attention_share", 1 / 3, "That is the share of attention. The question is for the network's."
        ),
        WrongNumber(
            "one_half", 0.5, "Each matrix of the network is four times as large as each of attention's."
        ),
        WrongNumber(
            "four_fifths", 0.8, "Attention has four matrices: of queries, keys, values and the output."
        ),
        WrongNumber("percent", 200 / 3, "That is in percent. As a share of 1, please."),
    ),
)

PREDICT_STREAM = Prediction(
    name="predict_stream",
    answer=math.sqrt(13),
    tolerance=0.01,
    hint="Variances of independent numbers add up: one from the start, and one more from each sublayer.",
    misconceptions=(
        WrongNumber("variance", 13.0, "That is the variance. The standard deviation is its root."),
        WrongNumber(
            "start_forgotten", math.sqrt(12), "That is what the sublayers add. x was there before them."
        ),
        WrongNumber(
            "no_growth", 1.0, "Nothing in x + Sublayer(x) brings the sum back to 1: each adds to it."
        ),
        WrongNumber(
            "spreads_added", 12.0, "Standard deviations of independent numbers do not add up; variances do."
        ),
    ),
)

CATALOGUE = (
    PREDICT_NORMALISED,
    LAYER_NORM,
    PREDICT_NETWORK_SHARE,
    FEED_FORWARD,
    PREDICT_STREAM,
    SUBLAYER_CONNECTION,
)
