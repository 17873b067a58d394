"""Check predictions: numbers that a student predicts before seeing them."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from course_lib.checks.engine.candidate import Backend, Candidate
from course_lib.checks.engine.comparison import describe
from course_lib.checks.engine.exceptions import explained
from course_lib.checks.engine.misconceptions import WrongNumber, shown_number, wrong_numbers_of
from course_lib.checks.engine.reply import Raised


@dataclass(frozen=True)
class PredictionCheck:
    """The check of a number that a student predicts."""

    answer: float
    tolerance: float
    """The tolerance of an answer, relative to the correct one."""
    hint: str
    """A hint for wrong answers that are not among the known ones."""
    reason: str
    """Sentences that explain the correct answer to students who have found it, perhaps by luck."""
    misconceptions_file: Path | None = None
    """The file with the known wrong answers. The registry sets this field."""
    name: str = ""
    """The name of the prediction, which the registry takes from the variable in the lesson's probes."""

    @cached_property
    def misconceptions(self) -> tuple[WrongNumber, ...]:
        """The known wrong answers, loaded on first use. Raises MisconceptionError if one is invalid."""
        return wrong_numbers_of(self.misconceptions_file, self.name) if self.misconceptions_file else ()


#: The sentence about a prediction that still has the value of the released notebook.
UNANSWERED = "The answer is still None. Replace None with your number."


def examine_prediction(prediction: PredictionCheck, backend: Backend) -> WrongNumber | str | None:
    """Check the answer to a prediction.

    Return None if it is correct, the matching `WrongNumber` if it is a known wrong answer, and otherwise a
    sentence that explains what is wrong.
    """
    reply = Candidate(backend).number()
    if isinstance(reply, Raised):
        return f"Expected a number, but the value can't be read as one. {explained(reply)}"
    number = reply.value
    if number is None:
        return UNANSWERED
    if not isinstance(number, float):
        return f"Expected a number, got {describe(number)}."

    def near(goal: float) -> bool:
        return math.isclose(number, goal, rel_tol=prediction.tolerance)

    if near(prediction.answer):
        return None
    known = [wrong for wrong in prediction.misconceptions if near(wrong.value)]
    nearest = min(known, key=lambda wrong: abs(number - wrong.value), default=None)
    return nearest or f"{shown_number(number)} is incorrect. {prediction.hint}"
