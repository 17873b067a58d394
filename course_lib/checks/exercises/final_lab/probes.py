"""The checks of lesson 13, the final lab: a prediction, and the files to hand in."""

from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.exercises.final_lab.hand_in import (  # noqa: F401 (the registry finds them)
    CONFIG,
    METRICS,
    TRANSLATIONS,
)

PREDICT_MINUTES = PredictionCheck(
    answer=29_000 * 15 * 12 / 5_800 / 60,
    tolerance=0.02,
    hint="Multiply sentences, tokens per sentence and epochs. Divide by the speed, and convert to minutes.",
    reason="29,000 · 15 · 12 tokens at 5,800 a second take 900 seconds.",
)
