"""Check a predict cell: is the number near enough, and if not, is it one that people often give?"""

import math

from course_lib.checks.engine.candidate import Candidate, Holder
from course_lib.checks.engine.comparison import describe
from course_lib.checks.engine.exercise import Prediction
from course_lib.checks.engine.misconceptions import WrongNumber
from course_lib.checks.engine.reply import Raised


def answers(prediction: Prediction, holder: Holder) -> WrongNumber | str | None:
    """Give None for a right answer, a known wrong one by name, or a sentence about any other."""
    reply = Candidate(holder).number()
    if isinstance(reply, Raised):
        return f"It is no number: {reply.kind}: {reply.message}"
    number = reply.value
    if number is None:
        return "It is still None: write your number in its place."
    if not isinstance(number, float):
        return f"A number was expected, found {describe(number)}."
    if _near(prediction, number, prediction.answer):
        return None
    for wrong in prediction.misconceptions:
        if _near(prediction, number, wrong.value):
            return wrong
    return f"{number:g} is not it. {prediction.hint}"


def _near(prediction: Prediction, number: float, goal: float) -> bool:
    return math.isclose(number, goal, rel_tol=prediction.tolerance)
