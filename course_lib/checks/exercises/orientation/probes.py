"""Lesson 00: the differences of all pairs, by broadcasting."""

import torch

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import Exercise, Misconception, Prediction, WrongNumber
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Reply
from course_lib.transformer.broadcasting import pairwise_differences

RULE = 'section 4 of this lesson, and "Broadcasting semantics" in PyTorch\'s documentation'
TASK = "the exercise's own text: what stands at [..., i, j]"

# --- pairwise_differences -----------------------------------------------------------------------------------


@probe("a row of four numbers gives a table of 4 by 4")
def _of_a_row(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(4))


@probe("three rows of three numbers: each row gets a table of its own")
def _of_a_square(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(3, 3))


@probe("two rows of five numbers")
def _of_two_rows(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 5))


@probe("two axes in front of the rows are both kept")
def _of_two_batch_axes(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 4))


@probe("a single number differs from itself by 0")
def _of_one_number(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(1))


@probe("whole numbers stay whole")
def _of_whole_numbers(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.integers(-9, 10, 2, 4))


@probe("float32 goes in and float32 comes out")
def _in_float32(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, dtype=torch.float32))


@probe("gradients reach the numbers")
def _gradient(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.gradients(draw.normal(2, 3), toward=draw.normal(2, 3, 3))


_COLUMN, _ROW = "x.unsqueeze(-1)", "x.unsqueeze(-2)"
_DIFFERENCE = f"{_COLUMN} - {_ROW}"

PAIRWISE_DIFFERENCES = Exercise(
    reference=pairwise_differences,
    probes=(
        _of_a_row,
        _of_a_square,
        _of_two_rows,
        _of_two_batch_axes,
        _of_one_number,
        _of_whole_numbers,
        _in_float32,
        _gradient,
    ),
    misconceptions=(
        Misconception(
            name="one_new_axis",
            says="only one of the two has a new axis, so numbers of different rows meet",
            hint="With (3, 3, 1) and (3, 3), at [b, i, j] stands x[b, i] - x[i, j]: numbers of different "
            "rows. Where sizes are equal nobody complains. Give both an axis, each at its own place.",
            paper=RULE,
            patch=[(_ROW, "x")],
        ),
        Misconception(
            name="order_swapped",
            says="it is x[j] - x[i] that stands at [i, j], the wrong way round",
            hint="The first index, i, runs down the rows of the table: it belongs to the one that stands "
            "as a column, (L, 1). What is taken away stands as a row, (1, L).",
            paper=TASK,
            patch=[(_DIFFERENCE, f"{_ROW} - {_COLUMN}")],
        ),
        Misconception(
            name="one_new_axis_and_swapped",
            says="only one of the two has a new axis, and the two are in the wrong order",
            hint="Give both an axis, each at its own place. What stands as a column, (L, 1), belongs to i; "
            "what is taken away stands as a row, (1, L).",
            paper=RULE,
            patch=[(_DIFFERENCE, f"x - {_COLUMN}")],
        ),
        Misconception(
            name="absolute",
            says="the differences have lost their sign",
            hint="A difference may be below zero: whether i stands before or after j is half of what it "
            "says.",
            paper=TASK,
            patch=[(_DIFFERENCE, f"({_DIFFERENCE}).abs()")],
        ),
        Misconception(
            name="squared",
            says="the differences are squared",
            hint="Plain differences are asked for.",
            paper=TASK,
            patch=[(_DIFFERENCE, f"({_DIFFERENCE}) ** 2")],
        ),
        Misconception(
            name="added",
            says="the numbers are added, not subtracted",
            hint="At [..., i, j] stands x[..., i] minus x[..., j].",
            paper=TASK,
            patch=[(_DIFFERENCE, f"{_COLUMN} + {_ROW}")],
        ),
        Misconception(
            name="axes_from_the_front",
            says="the new axes stand in front, where the last axis should become two",
            hint="Axes 0 and 1 are right for a single row. With others in front, the row is the last axis: "
            "count from the end, -1 and -2.",
            paper=RULE,
            patch=[(_DIFFERENCE, "x.unsqueeze(1) - x.unsqueeze(0)")],
        ),
        Misconception(
            name="one_batch_axis",
            says="it works with exactly one axis in front of the rows",
            hint="`x[:, :, None]` counts from the front, and needs two axes. `x[..., None]` or "
            "`unsqueeze(-1)` leaves open how many there are.",
            paper=RULE,
            patch=[(_DIFFERENCE, "x[:, :, None] - x[:, None, :]")],
        ),
        Misconception(
            name="no_new_axis",
            says="each number is subtracted from itself",
            hint="Two equal shapes meet element by element: i with i. For i with j, one has to stand as a "
            "column and the other as a row.",
            paper=RULE,
            patch=[(_DIFFERENCE, "x - x")],
        ),
        Misconception(
            name="neighbours",
            says="each number is subtracted from its neighbour alone",
            hint="All pairs are asked for: L numbers give a table of L by L.",
            paper=TASK,
            patch=[(_DIFFERENCE, "x.diff()")],
        ),
        Misconception(
            name="rows_joined",
            says="all rows are joined into one, so numbers of different rows meet",
            hint="Each row has a table of its own. What stands in front of the last axis stays in front.",
            paper=TASK,
            patch=[(_DIFFERENCE, "x.flatten().unsqueeze(-1) - x.flatten()")],
        ),
        Misconception(
            name="each_pair_once",
            says="each pair stands there once, and half of the table is zeros",
            hint="[i, j] and [j, i] are both asked for; they differ in their sign.",
            paper=TASK,
            patch=[(_DIFFERENCE, f"({_DIFFERENCE}).triu()")],
        ),
        Misconception(
            name="cast_to_float32",
            says="the result is always float32",
            hint="What goes in as float64 or as whole numbers comes out as that. `.float()` changes it, "
            "and so does torch.zeros without a dtype.",
            paper=TASK,
            patch=[("return x.", "return x.float()."), (_ROW, "x.float().unsqueeze(-2)")],
        ),
        Misconception(
            name="detached",
            says="the graph is cut, so no gradient reaches the numbers",
            hint="`.detach()`, `.data`, `.item()` and making a new tensor out of numbers all cut the graph.",
            paper=TASK,
            patch=[(_DIFFERENCE, f"({_DIFFERENCE}).detach()")],
        ),
    ),
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_BROADCAST = Prediction(
    name="predict_broadcast",
    answer=12.0,
    tolerance=0.001,
    hint="Write the two shapes below each other, so that their right ends meet, and go from right to left.",
    misconceptions=(
        WrongNumber(
            "sum_of_sizes", 7.0, "That is 3 + 4, all numbers put into one row. Here each meets each."
        ),
        WrongNumber(
            "larger_size", 4.0, "The 3 does not vanish: it has an axis of its own, in which the 4 is copied."
        ),
        WrongNumber(
            "smaller_size", 3.0, "The 4 does not vanish: the axis of length one is copied four times."
        ),
    ),
)

PREDICT_SILENT = Prediction(
    name="predict_silent",
    answer=4 / 3,
    tolerance=0.01,
    hint="The shapes are (3, 1) and (3,), and they are not the same. Write down the whole table of "
    "differences.",
    misconceptions=(
        WrongNumber(
            "as_meant",
            0.0,
            "That is what was meant, and what equal shapes would give. But (3, 1) and (3,) make a table: "
            "each prediction meets each target.",
        ),
        WrongNumber(
            "sum", 12.0, "That is the sum of all squares. The mean divides it by how many there are."
        ),
        WrongNumber("divided_by_three", 4.0, "That is the sum divided by 3. How many numbers has the table?"),
        WrongNumber(
            "not_squared", 0.88888889, "That is the mean without the square, of the absolute differences."
        ),
    ),
)

CATALOGUE = (PREDICT_BROADCAST, PREDICT_SILENT, PAIRWISE_DIFFERENCES)
