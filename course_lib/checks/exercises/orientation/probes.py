"""Probes of lesson 00: the differences of all pairs, by broadcasting."""

import torch

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.engine.probe import Draw
from course_lib.checks.engine.reply import Reply
from course_lib.checks.exercises.shared_requests import SECOND_CALL, call_after_another, call_with_normals
from course_lib.transformer.broadcasting import pairwise_differences

# --- pairwise_differences -----------------------------------------------------------------------------------

PAIRWISE_DIFFERENCES = ExerciseCheck(pairwise_differences)
probe = PAIRWISE_DIFFERENCES.probe
case = PAIRWISE_DIFFERENCES.random_cases(call_with_normals, __name__)

case("_of_a_row", "a row of four numbers gives a table of 4 by 4", (4,))
case("_of_a_square", "three rows of three numbers give one table per row", (3, 3))
case("_of_two_rows", "two rows of five numbers give two tables of 5 by 5", (2, 5))
case("_of_two_batch_axes", "two batch axes in front of the rows are kept", (2, 3, 4))
case("_of_one_number", "a single number gives a table with one zero", (1,))


@probe("integers in, integers out")
def _of_whole_numbers(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.integers(-9, 10, 2, 4))


case("_in_float32", "float32 in, float32 out", (2, 3), dtype=torch.float32)
PAIRWISE_DIFFERENCES.random_cases(call_after_another, __name__)("_again", SECOND_CALL, (2, 3))


@probe("the rows may be a view with a different memory layout")
def _of_views(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(4, 3).T)


@probe("gradients reach the input")
def _gradient(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.gradients(draw.normal(2, 3), toward=draw.normal(2, 3, 3))


# --- predictions --------------------------------------------------------------------------------------------

PREDICT_BROADCAST = PredictionCheck(
    answer=12.0,
    tolerance=0.001,
    hint="Write one shape below the other, aligned at the right, and compare them from right to left.",
    reason="The result has the shape (3, 4).",
)

PREDICT_SILENT = PredictionCheck(
    answer=4 / 3,
    tolerance=0.01,
    hint="The shapes (3, 1) and (3,) differ, so they broadcast. Write down the whole table of differences.",
    reason="Of the nine differences, four are 1 or -1 and two are 2 or -2: (4 · 1 + 2 · 4) / 9.",
)
