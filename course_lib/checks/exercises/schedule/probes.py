"""Lesson 07: the learning-rate schedule, and the scheduler that applies it to an optimiser."""

from pathlib import Path
from typing import Any

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import Exercise, Prediction
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Raised, Reply
from course_lib.checks.exercises.fixtures.results import in_float64
from course_lib.checks.exercises.fixtures.updates import updates
from course_lib.transformer.schedule import learning_rate, make_scheduler

MISCONCEPTIONS = Path(__file__).with_name("misconceptions.toml")


# --- learning_rate ------------------------------------------------------------------------------------------


def _rates(candidate: Candidate, *steps: int, d_model: int, warmup: int) -> Any:
    function = candidate.make(in_float64(candidate))
    rates: dict[str, Any] = {}
    for step in steps:
        reply = function.call(step, d_model, warmup)
        if isinstance(reply, Raised):
            return reply
        rates[f"the rate of step {step}"] = reply.value
    return rates


@probe("the rate rises linearly during a warm-up of 4, with 4 features")
def _rate_rises(candidate: Candidate, draw: Draw) -> Any:
    return _rates(candidate, 1, 2, 3, d_model=4, warmup=4)


@probe("the rate is at its peak at the end of a warm-up of 4, with 4 features")
def _rate_at_the_peak(candidate: Candidate, draw: Draw) -> Any:
    return _rates(candidate, 4, d_model=4, warmup=4)


@probe("the rate falls with the square root of the step after a warm-up of 4, with 4 features")
def _rate_falls(candidate: Candidate, draw: Draw) -> Any:
    return _rates(candidate, 5, 9, 16, 100, d_model=4, warmup=4)


@probe("the rates are correct for a warm-up of 3 and 10 features")
def _rate_of_other_sizes(candidate: Candidate, draw: Draw) -> Any:
    return _rates(candidate, 1, 2, 3, 4, 50, d_model=10, warmup=3)


@probe("the rates are correct for the paper's base model, with 512 features and a warm-up of 4000")
def _rate_of_the_base_model(candidate: Candidate, draw: Draw) -> Any:
    return _rates(candidate, 1, 3999, 4000, 4001, 100_000, d_model=512, warmup=4000)


@probe("a warm-up of 1 is no warm-up: the first step has the largest rate")
def _rate_without_warmup(candidate: Candidate, draw: Draw) -> Any:
    return _rates(candidate, 1, 2, 7, d_model=9, warmup=1)


@probe("the rates are correct for random sizes, warm-ups and steps")
def _rate_of_drawn_sizes(candidate: Candidate, draw: Draw) -> Any:
    steps = sorted({int(step) for step in draw.integers(1, 400, 4)})
    d_model, warmup = (int(size) for size in draw.integers(20, 200, 2))
    return _rates(candidate, *steps, d_model=d_model, warmup=warmup)


@probe("a factor of 0.5 halves the rate before and after the peak")
def _rate_with_factor(candidate: Candidate, draw: Draw) -> Any:
    function = candidate.make(in_float64(candidate))
    replies = {step: function.call(step, 10, 3, factor=0.5) for step in (1, 20)}
    broken = [reply for reply in replies.values() if isinstance(reply, Raised)]
    return broken[0] if broken else {f"the rate of step {s}": r.value for s, r in replies.items()}  # type: ignore[union-attr]


@probe("the factor may also be given as the fourth positional argument")
def _rate_with_positional_factor(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.make(in_float64(candidate)).call(2, 10, 3, 2.0)


LEARNING_RATE = Exercise(
    reference=learning_rate,
    probes=(
        _rate_rises,
        _rate_at_the_peak,
        _rate_falls,
        _rate_of_other_sizes,
        _rate_of_the_base_model,
        _rate_without_warmup,
        _rate_of_drawn_sizes,
        _rate_with_factor,
        _rate_with_positional_factor,
    ),
    misconceptions_file=MISCONCEPTIONS,
)

# --- make_scheduler -----------------------------------------------------------------------------------------


@probe("updates 1 to 12 have the rates of steps 1 to 12, with a warm-up of 5")
def _updates_in_order(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.make(updates(12)).call(candidate, 16, 5)


@probe("with a warm-up of 1, the second update already has a lower rate than the first")
def _updates_without_warmup(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.make(updates(4)).call(candidate, 9, 1)


@probe("the first three updates have the rates of the paper's base model")
def _updates_of_the_base_model(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.make(updates(3)).call(candidate, 512, 4000)


@probe("a factor of 0.5 halves all rates")
def _updates_with_factor(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.make(updates(5)).call(candidate, 10, 3, factor=0.5)


@probe("the schedule also works with Adam, and with the factor as the fourth argument")
def _updates_of_adam(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.make(updates(6, kind="adam")).call(candidate, 16, 4, 2.0)


@probe("both groups of an optimiser with two parameter groups follow the schedule")
def _updates_of_two_groups(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.make(updates(4, groups=2)).call(candidate, 16, 3)


MAKE_SCHEDULER = Exercise(
    reference=make_scheduler,
    probes=(
        _updates_in_order,
        _updates_without_warmup,
        _updates_of_the_base_model,
        _updates_with_factor,
        _updates_of_adam,
        _updates_of_two_groups,
    ),
    misconceptions_file=MISCONCEPTIONS,
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_FIRST_MOVE = Prediction(
    name="predict_first_move",
    answer=0.01,
    tolerance=0.02,
    hint="Put t = 1 into the formulas: what is left of the mean of the gradients, and of the square root of "
    "the mean of their squares?",
    misconceptions_file=MISCONCEPTIONS,
)

PREDICT_PEAK = Prediction(
    name="predict_peak",
    answer=(512 * 4000) ** -0.5,
    tolerance=0.02,
    hint="The peak is where the two terms of the minimum are equal. Put that step into either of them.",
    misconceptions_file=MISCONCEPTIONS,
)

PREDICT_WARMUP = Prediction(
    name="predict_warmup",
    answer=500.0,
    tolerance=0.005,
    hint="How many times is the scheduler stepped for each update of the weights?",
    misconceptions_file=MISCONCEPTIONS,
)
