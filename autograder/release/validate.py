"""Validate a course for `course check`. Each problem is one line with the file, the cell and what to do."""

import copy
import os
import re
import shutil
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from nbgrader.preprocessors import ClearHiddenTests
from nbgrader.utils import determine_grade, has_failed, is_grade, is_solution

from autograder.example_class import example_files
from autograder.judge.cell_dependencies import cells_to_run
from autograder.release.lessons import files_in, released, select
from autograder.release.solutions import stale_curriculum
from autograder.release.source import read_source
from course_lib.curriculum import Curriculum, Lesson
from course_lib.curriculum.course_file import LESSONS, SOURCES, CourseError, load_curriculum

#: The minimum length of a line that counts as secret. Shorter ones, such as `return x`, reveal nothing.
MIN_SECRET_LENGTH = 15
BOILERPLATE = {"super().__init__()"}

#: The maximum number of notebooks that run at the same time. Each takes about a gigabyte of
#: memory.
MAX_NOTEBOOKS = 4

#: The time limit of a cell, in seconds.
_SECONDS = 180

#: The suffix of the ids of checks as students see them.
_SEEN = "-as-seen"


def validate(course: Path, names: Collection[str] = ()) -> list[str]:
    """Validate the lessons called `names`, or the whole course without names, and return the problems.

    Stale solution notebooks are rebuilt. The notebooks are run only if there are no other problems.
    """
    try:
        whole = load_curriculum(course)
        curriculum = select(whole, names)
    except CourseError as error:
        return error.problems
    skipped = {lesson.name for lesson in whole.lessons} - {lesson.name for lesson in curriculum.lessons}
    problems = [
        *(
            f"{name}: does not match {SOURCES}/course.toml. Run `make lessons`."
            for name in stale_curriculum(course, whole)
        ),
        *stray_sources(course, whole, skipped),
    ]
    try:
        with released(course, names) as folder:
            problems += differences(course, folder, skipped)
            for lesson in curriculum.lessons:
                problems += leaks(course, lesson)
            # Run the notebooks only if nothing else is wrong: that takes longest, and reveals little about
            # lessons that have other problems.
            if not problems:
                problems = running(course, curriculum, folder)
    except CourseError as error:
        problems += error.problems
    return problems


def stray_sources(course: Path, curriculum: Curriculum, skipped: Collection[str]) -> list[str]:
    """Return a problem for each file in `solutions/` that `course.toml` doesn't list.

    nbgrader would release such a file to students if it is in a lesson's folder. The folders of the lessons
    in `skipped` are ignored.
    """
    # The questions of the concept tests are at the top of solutions/, so nbgrader doesn't release them.
    expected = {"course.toml", "concept_test.toml", *curriculum.files}
    for lesson in curriculum.lessons:
        names = (f"{lesson.name}.py", f"{lesson.name}.ipynb", *lesson.files)
        expected |= {f"{lesson.name}/{name}" for name in names}
    return [
        f"{SOURCES}/{name}: course.toml does not list this file. Add it there or remove it."
        for name in files_in(course / SOURCES)
        if name not in expected and name.partition("/")[0] not in skipped
    ]


def differences(course: Path, folder: Path, skipped: Collection[str]) -> list[str]:
    """Return a problem for each file that differs between `lessons/` and a fresh release in `folder`.

    A file that is in only one of the two folders counts as different, too. The folders of the lessons in
    `skipped` are ignored.
    """
    expected, found = files_in(folder), files_in(course / LESSONS)
    problems = [
        f"{LESSONS}/{name}: no source produces this file. Remove it."
        for name in found.keys() - expected
        if name.partition("/")[0] not in skipped
    ]
    for name, path in expected.items():
        if name not in found:
            problems.append(f"{LESSONS}/{name}: is missing. Run `make lessons`.")
        elif found[name].read_bytes() != path.read_bytes():
            problems.append(
                f"{LESSONS}/{name}{_first_difference(path, found[name])}: does not match its source. "
                "Change the source, never the lesson, and run `make lessons`."
            )
    return sorted(problems)


def _first_difference(expected: Path, found: Path) -> str:
    """Return the location of the first cell in which two notebooks differ, as a suffix for their path."""
    try:
        pairs = zip(nbformat.read(expected, 4).cells, nbformat.read(found, 4).cells, strict=False)
        return next((f", cell {one.id}" for one, other in pairs if one != other), "")
    except (ValueError, nbformat.ValidationError):  # The file isn't a notebook.
        return ""


def leaks(course: Path, lesson: Lesson) -> list[str]:
    """Return a problem for each line of a solution, model answer or hidden test that students could read.

    Short lines are ignored. Hints may contain lines of a solution, and the given code of a class may repeat
    a line of another exercise.
    """
    solution = nbformat.read(course / SOURCES / lesson.name / f"{lesson.name}.ipynb", as_version=4)
    hidden = {cell.id: set(_hidden_lines(cell)) for cell in solution.cells}
    given = {cell.id: set(cell.source.splitlines()) - hidden[cell.id] for cell in solution.cells}
    everything = set().union(*hidden.values())
    code_to_write = {cell.id for cell in solution.cells if is_solution(cell) and cell.cell_type == "code"}
    problems: list[str] = []
    for name, path in files_in(course / LESSONS).items():
        if name.partition("/")[0] not in (lesson.name, name):
            continue  # The file belongs to another lesson.
        for location, cell, text in _texts(f"{LESSONS}/{name}", path):
            its_own = hidden.get(cell, set()) - given.get(cell, set())
            problems += _leaked(location, text, its_own if cell in code_to_write else everything)
    return problems


def _texts(shown: str, path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the location, id and source of each cell of a student notebook, except the hint cells.

    For any other file, yield its whole text, with an empty cell id. Each location starts with `shown`.
    """
    if path.suffix != ".ipynb":
        yield shown, "", path.read_text(encoding="utf-8", errors="replace")
        return
    try:
        cells = nbformat.read(path, as_version=4).cells
    except nbformat.reader.NotJSONError:  # `differences` reports this.
        return
    for cell in cells:
        name = cell.get("id", "")
        if not name.startswith("hints_"):
            yield f"{shown}, cell {name}", name, cell.source


def _leaked(location: str, text: str, secrets: set[str]) -> Iterator[str]:
    markers = {"BEGIN SOLUTION", "BEGIN HIDDEN TESTS", "BEGIN MARK SCHEME"}
    for secret in sorted(markers | {line.strip() for line in secrets}):
        if (len(secret) < MIN_SECRET_LENGTH and secret not in markers) or secret in BOILERPLATE:
            continue
        if secret in text:
            yield f"{location}: students would read {secret!r}, which is for instructors only. Remove it."


def _hidden_lines(cell: NotebookNode) -> Iterator[str]:
    """Yield the lines between the markers of solutions and hidden tests, or all lines of a written answer."""
    hidden = is_solution(cell) and cell.cell_type == "markdown"
    for line in cell.source.splitlines():
        if re.search("(BEGIN|END) (SOLUTION|HIDDEN TESTS)", line):
            hidden = "BEGIN" in line
        elif hidden and line.strip():
            yield line


def running(course: Path, curriculum: Curriculum, folder: Path) -> list[str]:
    """Run all solution notebooks and released notebooks, several in parallel, and return their problems.

    `folder` contains the released lessons.
    """
    with ThreadPoolExecutor(min(MAX_NOTEBOOKS, os.cpu_count() or 1)) as pool:
        # Start with the last lessons, because they take longest.
        lessons = curriculum.lessons[::-1]
        solutions = [pool.submit(failing_solutions, course, lesson, folder) for lesson in lessons]
        stubs = [pool.submit(passing_stubs, lesson, folder) for lesson in lessons]
        return [problem for job in (*solutions, *stubs) for problem in job.result()]


def failing_solutions(course: Path, lesson: Lesson, folder: Path) -> list[str]:
    """Run a solution notebook, and return its problems: failing cells, and checks without full points.

    Each check runs twice: once as it is graded, and once as students see it. `folder` contains the released
    lessons, because the notebook runs next to the lesson's released files.
    """
    notebook = nbformat.read(course / SOURCES / lesson.name / f"{lesson.name}.ipynb", as_version=4)
    locations: dict[str, str] = {}
    for cell, source in zip(notebook.cells, read_source(course, lesson), strict=True):
        locations |= {cell.id: source.location, f"{cell.id}{_SEEN}": f"{source.location}, as students see it"}
    notebook.cells = list(_with_practice(notebook.cells))
    _run(notebook, _with_files(folder / lesson.name, lesson))
    problems: list[str] = []
    for cell in notebook.cells:
        if has_failed(cell):
            problems.append(f"{locations[cell.id]}: it fails with the solutions: {_failure(cell)}")
        elif is_grade(cell) and cell.cell_type == "code":
            score, max_score = determine_grade(cell)
            if score != max_score:
                problems.append(f"{locations[cell.id]}: the solution earns {score:g} of {max_score:g} points")
    return problems


def _with_files(released: Path, lesson: Lesson) -> Path:
    """Return a lesson's released folder, or a copy with example files if students must hand in files."""
    files = example_files(lesson)
    if not files:
        return released
    folder = released.with_name(f"{released.name}-handed-in")
    shutil.copytree(released, folder)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def _with_practice(cells: list[NotebookNode]) -> Iterator[NotebookNode]:
    """Yield the cells. After each check cell, also yield the students' version, which tests other inputs."""
    for cell in cells:
        yield cell
        if is_grade(cell) and cell.cell_type == "code":
            seen, _ = ClearHiddenTests().preprocess_cell(copy.deepcopy(cell), {}, 0)
            yield new_code_cell(seen.source, id=f"{cell.id}{_SEEN}")


def passing_stubs(lesson: Lesson, folder: Path) -> list[str]:
    """Run a released notebook, and return its problems.

    Every check must fail, and the check of an exercise must fail with the message of its stub. Cells that
    only draw pictures are skipped. `folder` contains the released lessons.
    """
    notebook = nbformat.read(folder / lesson.name / f"{lesson.name}.ipynb", as_version=4)
    notebook.cells = _without_pictures(notebook.cells, lesson)
    _run(notebook, folder / lesson.name)
    exercises = {f"check_{exercise.name}": exercise.name for exercise in lesson.exercises}
    problems: list[str] = []
    for cell in notebook.cells:
        if not is_grade(cell) or cell.cell_type != "code":
            continue
        location = f"{LESSONS}/{lesson.name}/{lesson.name}.ipynb, cell {cell.id}"
        message = _failure(cell)
        if not message:
            problems.append(
                f"{location}: it passes before anything is written. A cell above it gives the answer."
            )
        elif cell.id in exercises and not re.search(rf"\b{exercises[cell.id]}(\.\w+)? is yours to", message):
            problems.append(
                f"{location}: it should fail because the stub is not written, but it fails with: {message}"
            )
    return problems


def _without_pictures(cells: list[NotebookNode], lesson: Lesson) -> list[NotebookNode]:
    """Return the code cells of a lesson, except those that only draw pictures, which are the slowest."""
    pictures = {
        cell.id
        for cell in cells
        if "see" in cell.metadata.get("tags", ()) and not cell.metadata.get("nbgrader")
    }
    checks = {cell.id for cell in cells if is_grade(cell) and cell.cell_type == "code"}
    runs = cells_to_run(cells, pictures, checks, lesson.written.keys())
    return [cell for cell, run in zip(cells, runs, strict=True) if run or cell.id in checks]


def _run(notebook: NotebookNode, folder: Path) -> None:
    # Use one thread for each notebook, because several notebooks run in parallel.
    NotebookClient(
        notebook,
        timeout=_SECONDS,
        interrupt_on_timeout=True,
        allow_errors=True,
        extra_arguments=["--log-level=40"],
        resources={"metadata": {"path": str(folder)}},
    ).execute(env=os.environ | {"OMP_NUM_THREADS": "1"})


def _failure(cell: NotebookNode) -> str:
    for output in cell.outputs:
        if output.output_type == "error":
            if output.ename == "KeyboardInterrupt":
                return f"it was interrupted after {_SECONDS} seconds"
            return f"{output.ename}: {output.evalue}"
        if output.output_type == "stream" and output.name == "stderr":
            return str(output.text).strip()
    return ""
