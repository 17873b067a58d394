"""Lesson 07: the learning rate, and what drives an optimiser with it."""

from typing import Any

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import Exercise, Misconception, Prediction, WrongNumber
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Raised, Reply
from course_lib.checks.exercises.fixtures.results import in_float64
from course_lib.checks.exercises.fixtures.updates import updates
from course_lib.transformer.schedule import learning_rate, make_scheduler

FORMULA = "section 5.3, equation 3"
COUNTING = "section 5.3, and the documentation of torch.optim.lr_scheduler.LambdaLR"

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


@probe("during a warm-up of 4 the rate rises in a straight line, with 4 features")
def _rate_rises(candidate: Candidate, draw: Draw) -> Any:
    return _rates(candidate, 1, 2, 3, d_model=4, warmup=4)


@probe("at the end of a warm-up of 4 the rate is at its peak, with 4 features")
def _rate_at_the_peak(candidate: Candidate, draw: Draw) -> Any:
    return _rates(candidate, 4, d_model=4, warmup=4)


@probe("after a warm-up of 4 the rate falls with the root of the step, with 4 features")
def _rate_falls(candidate: Candidate, draw: Draw) -> Any:
    return _rates(candidate, 5, 9, 16, 100, d_model=4, warmup=4)


@probe("a warm-up of 3 and 10 features: each number has its own place in the formula")
def _rate_of_other_sizes(candidate: Candidate, draw: Draw) -> Any:
    return _rates(candidate, 1, 2, 3, 4, 50, d_model=10, warmup=3)


@probe("the base model of the paper: 512 features and a warm-up of 4000")
def _rate_of_the_base_model(candidate: Candidate, draw: Draw) -> Any:
    return _rates(candidate, 1, 3999, 4000, 4001, 100_000, d_model=512, warmup=4000)


@probe("a warm-up of 1 is none: the first step has the largest rate")
def _rate_without_warmup(candidate: Candidate, draw: Draw) -> Any:
    return _rates(candidate, 1, 2, 7, d_model=9, warmup=1)


@probe("numbers that nobody chose: some size, some warm-up, some steps")
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


@probe("the factor may also be the fourth argument")
def _rate_with_factor_by_place(candidate: Candidate, draw: Draw) -> Reply:
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
        _rate_with_factor_by_place,
    ),
    misconceptions=(
        Misconception(
            name="larger_of_the_two",
            says="the larger of the two terms is taken, not the smaller",
            hint="During the warm-up the rising term is the smaller one, afterwards the falling one. The "
            "larger is huge at both ends, where the rate should be small.",
            paper=FORMULA,
            patch=[("min(", "max(")],
        ),
        Misconception(
            name="sum_of_the_two",
            says="the two terms are added",
            hint="At any time only one of them holds: the rise until the warm-up is over, then the fall. "
            "`min` takes the smaller one.",
            paper=FORMULA,
            patch=[("min(step**-0.5, step * warmup**-1.5)", "(step**-0.5 + step * warmup**-1.5)")],
        ),
        Misconception(
            name="no_warmup",
            says="the rate falls from the first step on, so there is no warm-up",
            hint="The term that rises, step · warmup^-1.5, has to be the smaller one until the warm-up is "
            "over. (With a power of +1.5 it never is.)",
            paper=FORMULA,
            patch=[("min(step**-0.5, step * warmup**-1.5)", "step**-0.5")],
        ),
        Misconception(
            name="never_falls",
            says="the rate goes on rising after the warm-up",
            hint="From the end of the warm-up on the term step^-0.5 is the smaller one, and it falls. "
            "(Without the minus in its power it grows.)",
            paper=FORMULA,
            patch=[("min(step**-0.5, step * warmup**-1.5)", "step * warmup**-1.5")],
        ),
        Misconception(
            name="flat_after_warmup",
            says="the rate stays at its peak after the warm-up",
            hint="After the warm-up the rate goes on with step^-0.5, the inverse root of the step itself. "
            "warmup^-0.5 is only what that is at the peak.",
            paper=FORMULA,
            patch=[("min(step**-0.5,", "min(warmup**-0.5,")],
        ),
        Misconception(
            name="falls_with_the_step",
            says="the rate falls with the step itself, not with its root",
            hint="The power is -0.5: four times the steps, half the rate. 1 / step falls so fast that "
            "learning all but stops.",
            paper=FORMULA,
            patch=[("min(step**-0.5,", "min(step**-1.0,")],
        ),
        Misconception(
            name="warmup_to_the_half",
            says="the warm-up's power is -0.5 where it should be -1.5",
            hint="At step = warmup both terms have to be equal: step · warmup^-1.5 is warmup^-0.5 there. "
            "With warmup^-0.5 the two meet far too early.",
            paper=FORMULA,
            patch=[("warmup**-1.5", "warmup**-0.5")],
        ),
        Misconception(
            name="divided_by_warmup",
            says="the step is divided by the warm-up, which is a power of -1 where it should be -1.5",
            hint="At step = warmup both terms have to be equal: step · warmup^-1.5 is warmup^-0.5 there. "
            "step / warmup would be 1.",
            paper=FORMULA,
            patch=[("warmup**-1.5", "warmup**-1.0")],
        ),
        Misconception(
            name="peak_is_the_factor",
            says="both terms are scaled so that the peak is 1 over the root of d_model, whatever the warm-up",
            hint="Other programs do that, and ask for a peak rate instead. In the paper the peak is "
            "(d_model · warmup)^-0.5, so a longer warm-up has a lower peak.",
            paper=FORMULA,
            patch=[
                (
                    "min(step**-0.5, step * warmup**-1.5)",
                    "min((warmup / step) ** 0.5, step / warmup)",
                )
            ],
        ),
        Misconception(
            name="d_model_left_out",
            says="d_model is left out",
            hint="In front of the minimum stands d_model^-0.5: the wider the model, the smaller its steps.",
            paper=FORMULA,
            patch=[("factor * d_model**-0.5 *", "factor *")],
        ),
        Misconception(
            name="multiplied_by_root_of_d_model",
            says="it is multiplied by the root of d_model, where it should be divided",
            hint="The power of d_model is -0.5: the wider the model, the smaller its steps.",
            paper=FORMULA,
            patch=[("d_model**-0.5", "d_model**0.5")],
        ),
        Misconception(
            name="divided_by_d_model",
            says="it is divided by d_model, not by its root",
            hint="The power of d_model is -0.5, so four times the width halves the rate.",
            paper=FORMULA,
            patch=[("d_model**-0.5", "d_model**-1.0")],
        ),
        Misconception(
            name="sizes_swapped",
            says="d_model and the warm-up have changed places",
            hint="d_model stands in front of the minimum, with the power -0.5; the warm-up stands inside, "
            "with the power -1.5.",
            paper=FORMULA,
            patch=[("d_model**-0.5", "warmup**-0.5"), ("warmup**-1.5", "d_model**-1.5")],
        ),
        Misconception(
            name="counted_from_zero",
            says="1 is added to the step, so each update runs at the rate of the next one",
            hint="Here the first update is step 1 already. Whoever counts from 0 adds the 1 before calling "
            "you.",
            paper=FORMULA,
            patch=[("min(step**-0.5, step *", "min((step + 1)**-0.5, (step + 1) *")],
        ),
        Misconception(
            name="factor_ignored",
            says="the factor is ignored",
            hint="The whole rate is multiplied by it, before the peak and after.",
            paper=FORMULA,
            patch=[("return factor * ", "return ")],
        ),
        Misconception(
            name="factor_inside",
            says="the factor reaches only one of the two terms",
            hint="The whole rate is multiplied by it, so it stands in front of the minimum.",
            paper=FORMULA,
            patch=[("return factor * ", "return "), ("step * warmup", "factor * step * warmup")],
        ),
    ),
)

# --- make_scheduler -----------------------------------------------------------------------------------------


@probe("updates 1 to 12 run at the rates of steps 1 to 12, up a warm-up of 5 and down again")
def _updates_in_order(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.make(updates(12)).call(candidate, 16, 5)


@probe("a warm-up of 1: the second update is already slower than the first")
def _updates_without_warmup(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.make(updates(4)).call(candidate, 9, 1)


@probe("the base model of the paper: the first three updates")
def _updates_of_the_base_model(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.make(updates(3)).call(candidate, 512, 4000)


@probe("a factor of 0.5 halves all rates")
def _updates_with_factor(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.make(updates(5)).call(candidate, 10, 3, factor=0.5)


@probe("the paper's optimiser, Adam, is driven too; here the factor is the fourth argument")
def _updates_of_adam(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.make(updates(6, kind="adam")).call(candidate, 16, 4, 2.0)


@probe("an optimiser with two groups of weights: both are driven")
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
    misconceptions=(
        Misconception(
            name="step_zero_asked_for",
            says="the rate of step 0 is asked for, and there is none",
            hint="LambdaLR calls your function with the number of updates done so far, which is 0 before "
            "the first. The update that comes next is one more.",
            paper=COUNTING,
            patch=[("learning_rate(done + 1,", "learning_rate(done,")],
        ),
        Misconception(
            name="zero_taken_for_one",
            says="step 0 is taken for step 1, so updates 1 and 2 share a rate and all later ones lag by one",
            hint="LambdaLR calls your function with 0, 1, 2, … for updates 1, 2, 3, …: add one each time. "
            "Clamping mends only the first call.",
            paper=COUNTING,
            patch=[("learning_rate(done + 1,", "learning_rate(max(done, 1),")],
        ),
        Misconception(
            name="first_update_at_zero",
            says="the first update runs at rate 0, and all later ones lag by one",
            hint="LambdaLR calls your function with 0, 1, 2, … for updates 1, 2, 3, …: add one each time. A "
            "rate of 0 at the start wastes a batch.",
            paper=COUNTING,
            patch=[("lambda done: learning_rate(done + 1,", "lambda done: done and learning_rate(done,")],
        ),
        Misconception(
            name="one_ahead",
            says="each update runs at the rate of the next one",
            hint="Add one to what LambdaLR counts, once. If your learning_rate adds one too, take it out "
            "there.",
            paper=COUNTING,
            patch=[("done + 1", "done + 2")],
        ),
        Misconception(
            name="stepped_at_once",
            says="the scheduler is already stepped while it is made, before any update",
            hint="Making it sets the rate of the first update. Whoever trains steps it, once after each "
            "update.",
            paper=COUNTING,
            patch=[
                ("return LambdaLR(", "made = LambdaLR("),
                ("warmup, factor))", "warmup, factor))\n    made.step()\n    return made"),
            ],
        ),
        Misconception(
            name="never_moves",
            says="the rate is worked out once and stays the same",
            hint="Hand over a function, which is called anew before each update; and let its rate depend on "
            "the number that it is called with.",
            paper=COUNTING,
            patch=[("learning_rate(done + 1,", "learning_rate(1,")],
        ),
        Misconception(
            name="rates_multiplied",
            says="each rate is multiplied by the one before, as MultiplicativeLR does",
            hint="LambdaLR multiplies the optimiser's own rate, which is 1.0 here, by what your function "
            "gives. MultiplicativeLR multiplies the rate of the last update.",
            paper=COUNTING,
            patch=[
                (
                    "return LambdaLR(",
                    "from torch.optim.lr_scheduler import MultiplicativeLR\n    return MultiplicativeLR(",
                )
            ],
        ),
        Misconception(
            name="held_at_the_peak",
            says="the rate stays at its peak once the warm-up is over",
            hint="The schedule goes on after the warm-up: hand on the number of the update as it is.",
            paper=FORMULA,
            patch=[("learning_rate(done + 1,", "learning_rate(min(done + 1, warmup),")],
        ),
        Misconception(
            name="factor_ignored",
            says="the factor is not handed on",
            hint="learning_rate takes it as its fourth argument.",
            paper=FORMULA,
            patch=[("warmup, factor))", "warmup))")],
        ),
        Misconception(
            name="factor_squared",
            says="the factor is applied twice",
            hint="learning_rate multiplies by the factor already.",
            paper=FORMULA,
            patch=[("warmup, factor))", "warmup, factor**2))")],
        ),
        Misconception(
            name="sizes_swapped",
            says="d_model and the warm-up are handed on in the wrong order",
            hint="learning_rate takes the step, then d_model, then the warm-up. Names make it safe: "
            "warmup=warmup.",
            paper=FORMULA,
            patch=[("done + 1, d_model, warmup,", "done + 1, warmup, d_model,")],
        ),
        Misconception(
            name="first_group_only",
            says="only the first group of weights is driven",
            hint="An optimiser may hold several groups, each with a rate of its own. LambdaLR drives all of "
            "them if you hand it one function; by hand it takes a loop over `optimizer.param_groups`.",
            paper=COUNTING,
            patch=[
                ("lambda done: learning_rate", "[lambda done: learning_rate"),
                (
                    "warmup, factor))",
                    "warmup, factor)] + [lambda done: 1.0] * (len(optimizer.param_groups) - 1))",
                ),
            ],
        ),
    ),
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_FIRST_MOVE = Prediction(
    name="predict_first_move",
    answer=0.01,
    tolerance=0.02,
    hint="Put t = 1 into the formulas: what is left of the mean of the gradients, and of the root of the "
    "mean of their squares?",
    misconceptions=(
        WrongNumber(
            "plain_descent",
            0.00002,
            "That is plain gradient descent, rate times gradient. Adam divides by the size of the gradient.",
        ),
        WrongNumber(
            "signed",
            -0.01,
            "That is right, with its direction. How far is asked for: a number without a sign.",
        ),
        WrongNumber("gradient", 0.002, "That is the gradient itself. Adam divides by its size."),
        WrongNumber(
            "mean_not_corrected",
            0.001,
            "The mean of the gradients starts at 0, and (1 - β₁) of the first gradient is little. The hats "
            "in the formulas correct for that.",
        ),
        WrongNumber(
            "nothing_corrected",
            0.01 * 0.1 / 0.02**0.5,
            "Both means start at 0, and the hats in the formulas correct for that.",
        ),
    ),
)

PREDICT_PEAK = Prediction(
    name="predict_peak",
    answer=(512 * 4000) ** -0.5,
    tolerance=0.02,
    hint="The peak is where the two terms of the minimum are equal. Put that step into either of them.",
    misconceptions=(
        WrongNumber(
            "d_model_left_out", 4000**-0.5, "That is the minimum alone. d_model^-0.5 stands in front of it."
        ),
        WrongNumber(
            "warmup_left_out",
            512**-0.5,
            "That stands in front of the minimum. The minimum is not 1 at the peak.",
        ),
        WrongNumber(
            "first_step", 512**-0.5 * 4000**-1.5, "That is the rate of the first step, where the rise begins."
        ),
        WrongNumber("no_roots", 1 / (512 * 4000), "Both powers are -0.5 at the peak: take the root."),
    ),
)

PREDICT_WARMUP = Prediction(
    name="predict_warmup",
    answer=500.0,
    tolerance=0.005,
    hint="How many times is the scheduler stepped for each update of the weights?",
    misconceptions=(
        WrongNumber(
            "as_meant", 4000.0, "That is what was meant. But the scheduler counts its own steps, not updates."
        ),
        WrongNumber(
            "wrong_way",
            32000.0,
            "The other way round: eight steps of the scheduler go into one update, so the peak comes sooner.",
        ),
    ),
)

CATALOGUE = (
    PREDICT_FIRST_MOVE,
    PREDICT_PEAK,
    LEARNING_RATE,
    MAKE_SCHEDULER,
    PREDICT_WARMUP,
)
