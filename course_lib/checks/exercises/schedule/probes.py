"""Probes of lesson 07: Adam, the learning-rate schedule, and the scheduler that applies it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate, Fixture
from course_lib.checks.engine.comparison import describe
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.engine.probe import Draw, Observed
from course_lib.checks.engine.reply import Reply, Returned
from course_lib.checks.exercises.fixtures.results import as_number
from course_lib.checks.exercises.fixtures.updates import prepare_optimizers, updates, updates_in_turn
from course_lib.checks.exercises.shared_requests import numbers
from course_lib.transformer.adam import adam_update
from course_lib.transformer.schedule import learning_rate, make_scheduler

# --- adam_update --------------------------------------------------------------------------------------------

ADAM_UPDATE = ExerciseCheck(adam_update)
probe = ADAM_UPDATE.probe

_STATE = ("the new parameter", "the new mean", "the new variance")


def _update(candidate: Candidate, *arguments: object, **keywords: Any) -> Reply:
    """Call `adam_update`, and convert the tuple that it returns to a dict with a name for each item.

    The reply's value also describes the result, and contains no items if that isn't a tuple of three.
    """
    reply = candidate.call(*arguments, **keywords)
    if not isinstance(reply, Returned):
        return reply
    is_state = isinstance(reply.value, tuple) and len(reply.value) == len(_STATE)
    state = tuple(reply.value) if is_state else reply.value  # A list is accepted in place of a tuple.
    items = dict(zip(_STATE, state, strict=True)) if is_state else {}
    return replace(reply, value={"the result": describe(state), "the items": items})


def _numbers(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@probe("the first update, from running means of zero, is correct")
def _adam_first(candidate: Candidate, draw: Draw) -> Reply:
    parameter, gradient, zeros = _numbers(1.0, -2.0), _numbers(0.3, -0.02), _numbers(0.0, 0.0)
    return _update(candidate, parameter, gradient, zeros, zeros, 1, 0.1)


@probe("the second update, from the running means after one gradient, is correct")
def _adam_second(candidate: Candidate, draw: Draw) -> Reply:
    parameter, gradient = _numbers(0.9, -1.9), _numbers(0.1, 0.04)
    mean, variance = _numbers(0.03, -0.002), _numbers(0.0018, 0.000008)
    return _update(candidate, parameter, gradient, mean, variance, 2, 0.1)


@probe("the update is correct after many others, for random matrices")
def _adam_later(candidate: Candidate, draw: Draw) -> Reply:
    parameter, gradient, mean = (draw.normal(3, 4) for _ in range(3))
    return _update(candidate, parameter, gradient, mean, draw.normal(3, 4) ** 2, 30, 0.02)


@probe("eps is added to the corrected root, so a large eps makes the change smaller")
def _adam_with_large_eps(candidate: Candidate, draw: Draw) -> Reply:
    parameter, gradient, mean = (draw.normal(5) for _ in range(3))
    return _update(candidate, parameter, gradient, mean, draw.normal(5) ** 2, 3, 0.1, eps=0.5)


@probe("eps is 1e-9 by default: a gradient of that size moves the parameter by half the learning rate")
def _adam_with_small_gradient(candidate: Candidate, draw: Draw) -> Reply:
    zeros = _numbers(0.0, 0.0)
    return _update(candidate, zeros, _numbers(1e-9, -1e-9), zeros, zeros, 1, 0.1)


@probe("a parameter that never had a gradient does not move")
def _adam_without_gradient(candidate: Candidate, draw: Draw) -> Reply:
    zeros = _numbers(0.0, 0.0)
    return _update(candidate, _numbers(1.5, -0.5), zeros, zeros, zeros, 4, 0.1)


@probe("where a gradient is zero, the parameter still moves and both running means shrink towards zero")
def _adam_with_zeros_in_gradient(candidate: Candidate, draw: Draw) -> Reply:
    parameter, gradient, mean = (draw.normal(4) for _ in range(3))
    gradient[1:3] = 0
    return _update(candidate, parameter, gradient, mean, draw.normal(4) ** 2 + 0.1, 6, 0.1)


@probe("beta1, beta2 and eps are taken from the arguments, in this order")
def _adam_with_other_settings(candidate: Candidate, draw: Draw) -> Reply:
    parameter, gradient, mean = (draw.normal(2, 3) for _ in range(3))
    return _update(candidate, parameter, gradient, mean, draw.normal(2, 3) ** 2, 7, 0.3, 0.5, 0.75, 0.01)


@probe("a parameter may be a single number without axes, or have three axes")
def _adam_of_other_shapes(candidate: Candidate, draw: Draw) -> Observed:
    observed: dict[str, Observed] = {}
    for name, shape in (("a single number", ()), ("three axes", (2, 3, 2))):
        parameter, gradient, mean = (draw.normal(*shape) for _ in range(3))
        observed[name] = _update(candidate, parameter, gradient, mean, draw.normal(*shape) ** 2, 5, 0.1)
    return observed


@probe("float32 arguments give float32 results")
def _adam_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    parameter, gradient, mean = (draw.normal(4, dtype=torch.float32) for _ in range(3))
    return _update(candidate, parameter, gradient, mean, draw.normal(4, dtype=torch.float32) ** 2, 2, 0.1)


# --- learning_rate ------------------------------------------------------------------------------------------

LEARNING_RATE = ExerciseCheck(learning_rate)
probe = LEARNING_RATE.probe


def _rates(
    candidate: Candidate, steps: Sequence[int], d_model: int, warmup: int, **keywords: float
) -> Observed:
    calls = {f"the rate of step {step}": (step, d_model, warmup) for step in steps}
    return numbers(candidate, calls, **keywords)


case = LEARNING_RATE.cases(_rates)


case("the rate rises linearly during a warm-up of 6, with 7 features", (1, 2, 3), d_model=7, warmup=6)
case("the rate is at its peak at the end of a warm-up of 6, with 7 features", (6,), d_model=7, warmup=6)
case(
    "the rate decays with the inverse square root of the step after a warm-up of 6, with 7 features",
    (7, 9, 24, 150),
    d_model=7,
    warmup=6,
)
case("the rates are correct for a warm-up of 3 and 10 features", (1, 2, 3, 4, 50), d_model=10, warmup=3)
case(
    "the rates are correct for the paper's base model, with 512 features and a warm-up of 4000",
    (1, 3999, 4000, 4001, 100_000),
    d_model=512,
    warmup=4000,
)
case("a warm-up of 1 is no warm-up: the first step has the largest rate", (1, 2, 7), d_model=9, warmup=1)


@probe("the rates are correct for random sizes, warm-ups and steps")
def _rate_of_drawn_sizes(candidate: Candidate, draw: Draw) -> Observed:
    steps = sorted({int(step) for step in draw.integers(1, 400, 4)})
    d_model, warmup = (int(size) for size in draw.integers(20, 200, 2))
    return _rates(candidate, steps, d_model, warmup)


case("a factor of 200 gives rates above 1", (2, 9), d_model=10, warmup=3, factor=200.0)
case("a factor of 0.5 halves the rate before and after the peak", (1, 20), d_model=10, warmup=3, factor=0.5)
case("a factor of 0 gives rates of 0", (1, 20), d_model=10, warmup=3, factor=0.0)


@probe("the factor may also be given as the fourth positional argument")
def _rate_with_positional_factor(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.fixture(as_number(candidate)).call(2, 10, 3, 2.0)


# --- make_scheduler -----------------------------------------------------------------------------------------

MAKE_SCHEDULER = ExerciseCheck(make_scheduler)


def _driven(candidate: Candidate, optimizer: Fixture, *arguments: float, **keywords: Any) -> Reply:
    prepare_optimizers()  # Do this outside the request, which has a time limit.
    return candidate.fixture(optimizer).call(candidate, *arguments, **keywords)


case = MAKE_SCHEDULER.cases(_driven)


case("updates 1 to 12 have the rates of steps 1 to 12, with a warm-up of 5", updates(12), 16, 5)
case("with a warm-up of 1, the second update already has a lower rate than the first", updates(4), 9, 1)
case("the first three updates have the rates of the paper's base model", updates(3), 512, 4000)
case("a factor of 0.5 halves all rates", updates(5), 10, 3, factor=0.5)
case(
    "the rates are correct with Adam, and with the factor as the fourth argument",
    updates(6, kind="adam"),
    16,
    4,
    2.0,
)
case("both groups of an optimiser with two parameter groups follow the schedule", updates(4, groups=2), 16, 3)
case(
    "creating the scheduler changes neither weights nor old gradients nor the optimiser's state",
    updates(2, kind="adam", old_gradients=True),
    16,
    4,
)
case("two schedulers that are used in turn don't affect each other", updates_in_turn(3), (16, 5), (9, 1, 2.0))


# --- predictions --------------------------------------------------------------------------------------------

PREDICT_FIRST_MOVE = PredictionCheck(
    answer=0.01,
    tolerance=0.02,
    hint="Put t = 1 into the formulas: what is left of the mean of the gradients, and of the square root of "
    "the mean of their squares?",
    reason="After one update, the corrected mean is the gradient and the corrected root is its "
    "size, so the weight moves by the learning rate.",
)

PREDICT_PEAK = PredictionCheck(
    answer=(512 * 4000) ** -0.5,
    tolerance=0.02,
    hint="The peak is where the two terms of the minimum are equal. Put that step into either of them.",
    reason="At step 4000 both terms are 4000^-0.5, so the rate is 512^-0.5 · 4000^-0.5 = 0.0007.",
)

PREDICT_WARMUP = PredictionCheck(
    answer=500.0,
    tolerance=0.005,
    hint="How many times is the scheduler stepped for each update of the weights?",
    reason="The schedule takes 8 steps for each update, so it reaches step 4000 after 500 updates.",
)
