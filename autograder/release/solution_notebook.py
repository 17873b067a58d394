"""Build a lesson's solution notebook for nbgrader from its source, course.toml and the reference."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import course_lib
from autograder.release.mark_scheme import MarkScheme
from autograder.release.reference import marked_source
from autograder.release.source import SourceCell, read_source
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.exercises.registry import catalogue
from course_lib.curriculum import Exercise, HandIn, Lesson, Prediction
from course_lib.curriculum.course_file import HINTS, CourseError

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def solution_notebook(course: Path, lesson: Lesson, inputs: str = "") -> NotebookNode:
    """Build one lesson's solution notebook, including the hidden tests.

    `inputs`, a hash of the notebook's sources, is stored in its metadata to detect a stale notebook.

    A cell's id is derived from its name or, if it has none, from the lesson, the cell's role and its number
    among the cells with this role.

    Raises CourseError, with a line for each problem, if the lesson's source, `course.toml` and the reference
    are inconsistent.
    """
    cells: list[NotebookNode] = []
    problems: list[str] = []
    ordinals: Counter[str] = Counter()
    for cell in read_source(course, lesson):
        ordinals[cell.role] += 1
        try:
            cells.append(_cell(cell, lesson, ordinals[cell.role]))
        except CourseError as error:
            problems += [f"{cell.location}: {problem}" for problem in error.problems]
    if problems:
        raise CourseError(problems)
    about = {"lesson": lesson.name, "title": lesson.title, "minutes": lesson.minutes}
    stamp = {**about, "version": course_lib.__version__, "inputs": inputs}
    return new_notebook(cells=cells, metadata={"kernelspec": KERNEL, "course": stamp})


def _cell(cell: SourceCell, lesson: Lesson, ordinal: int) -> NotebookNode:
    name = cell.name
    exercises = {exercise.name: exercise for exercise in lesson.exercises}
    match cell.role:
        case "given":
            return _code(name, cell.text, locked=True)
        case "build":
            return _code(name, _build(cell, exercises[name]), solution=True)
        case "predict":
            return _code(name, _predict(cell), solution=True)
        case "check":
            _refuse_body(cell)
            entry = lesson.checked[name]
            return _code(
                f"check_{name}", _check(entry, lesson.seed), grade=True, locked=True, points=entry.points
            )
        case "hints":
            _refuse_body(cell)
            return new_markdown_cell(_hints(exercises[name]), id=f"hints_{name}")
        case "explain":
            _refuse_unmarked(cell, lesson.points[name])
            metadata = _nbgrader(name, solution=True, grade=True, points=lesson.points[name])
            return new_markdown_cell(cell.text, id=name, metadata=metadata)
        case "see":
            return new_code_cell(cell.text, id=f"{lesson.name}-see-{ordinal}", metadata={"tags": ["see"]})
        case "code":
            return new_code_cell(cell.text, id=f"{lesson.name}-code-{ordinal}")
        case _:
            return new_markdown_cell(cell.text, id=f"{lesson.name}-text-{ordinal}")


def _build(cell: SourceCell, exercise: Exercise) -> str:
    marker, _, reference = cell.text.partition("### BEGIN SOLUTION ")
    if marker or not reference or "\n" in reference:
        raise CourseError("its body must be the one line `### BEGIN SOLUTION package.module:name`")
    if reference.rpartition(":")[2] != exercise.name:
        raise CourseError(f"expected a reference with the exercise's name, {exercise.name}, got {reference}")
    return marked_source(reference, exercise.write)


def _predict(cell: SourceCell) -> str:
    question = cell.text.splitlines()
    if not question or not all(line.startswith("#") for line in question):
        raise CourseError("its body must be the question, as comment lines only; the answer is in the checks")
    entry = catalogue().get(cell.name)
    if not isinstance(entry, PredictionCheck):
        raise CourseError(f"course_lib.checks has no prediction {cell.name!r}. Add it there, with its answer")
    answer = f"{cell.name} = {entry.answer!r}"
    return "\n".join([*_wrapped(question), "### BEGIN SOLUTION", answer, "### END SOLUTION"])


def _wrapped(question: Sequence[str]) -> Iterator[str]:
    """Wrap the paragraphs of a question, because JupyterLab doesn't wrap the lines of a code cell."""
    for is_text, lines in groupby(question, key=lambda line: line.startswith("# ") and line[2] != " "):
        if is_text:
            yield from wrap(
                " ".join(line[2:] for line in lines), 98, initial_indent="# ", subsequent_indent="# "
            )
        else:
            yield from lines


def _check(entry: Prediction | Exercise | HandIn, seed: int) -> str:
    grading: dict[str, object] = {"points": entry.points, "seed": seed}
    options: dict[str, object] = {}
    if isinstance(entry, HandIn):
        options["levels"] = entry.levels
    elif entry.deductions:
        grading["costs"] = entry.deductions
    if isinstance(entry, Exercise):
        options["may_not_call"] = entry.may_not_call
    # nbgrader removes the hidden lines from the students' version, which then lacks the argument `grading`.
    return "\n".join(
        [
            "check(",
            f'    "{entry.name}",',
            "    globals(),",
            *(f"    {key}={_literal(value)}," for key, value in options.items() if value),
            "    ### BEGIN HIDDEN TESTS",
            f"    grading={_literal(grading)},",
            "    ### END HIDDEN TESTS",
            ")",
        ]
    )


def _literal(value: object) -> str:
    # JSON writes numbers, strings, lists and dicts as Python does, with double quotes.
    return json.dumps(value, ensure_ascii=False)


def _hints(exercise: Exercise) -> str:
    return "\n\n".join(
        f"<details>\n<summary>Hint {number} of {HINTS}</summary>\n\n{hint.strip()}\n\n</details>"
        for number, hint in enumerate(exercise.hints, start=1)
    )


def _refuse_body(cell: SourceCell) -> None:
    if cell.text:
        raise CourseError("its body is generated; leave it empty")


def _refuse_unmarked(cell: SourceCell, points: float) -> None:
    answer, begin, rest = cell.text.partition("### BEGIN MARK SCHEME")
    if not answer.strip() or not begin or "### END MARK SCHEME" not in rest:
        raise CourseError(
            "it needs a model answer, and below it a mark scheme between the lines "
            "`### BEGIN MARK SCHEME` and `### END MARK SCHEME`"
        )
    criteria = MarkScheme(scheme=rest).criteria
    if criteria and (total := sum(criterion.points for criterion in criteria)) != points:
        raise CourseError(
            f"the criteria of its mark scheme add up to {total:g}, but course.toml gives it {points:g} points"
        )


def _code(name: str, text: str, **kind: object) -> NotebookNode:
    return new_code_cell(text, id=name, metadata=_nbgrader(name, **kind))


def _nbgrader(name: str, **kind: object) -> dict[str, object]:
    plain = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    return {"nbgrader": {**plain, "grade_id": name, **kind}}
