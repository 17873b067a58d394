"""The submissions of five made-up students, for the demo and the tests."""

import copy
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.utils import is_grade, is_solution

from course_lib.atomic_files import atomic_write_text
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.misconceptions import Misconception
from course_lib.checks.exercises.final_lab.hand_in import CONFIG, METRICS, TRANSLATIONS
from course_lib.checks.exercises.registry import catalogue
from course_lib.curriculum import Curriculum, Exercise, Lesson
from course_lib.curriculum.course_file import LESSONS, SOURCES
from course_lib.translation.configs.loader import documented_yaml, load_config
from course_lib.translation.data.corpora import load_captions

#: A whole mark scheme, or a line that begins or ends a solution. An answer contains neither.
_INSTRUCTORS_PART = re.compile(
    r"\n*^### BEGIN MARK SCHEME[\s\S]*?^### END MARK SCHEME\n?|^ *### (BEGIN|END) SOLUTION.*\n?",
    re.MULTILINE,
)


@dataclass(frozen=True)
class ExampleSubmission:
    """One student's submission."""

    student: str
    did: str
    """A short description of the submission, which is printed next to its result."""
    notebook: NotebookNode
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files handed in with the notebook, by name."""


@dataclass(frozen=True)
class PartialMistake:
    """A mistake that costs some of an exercise's points, but not all."""

    exercise: Exercise
    misconception: Misconception
    code: str
    """The code of the exercise, including the mistake."""


def example_lesson(curriculum: Curriculum) -> Lesson:
    """Return the first lesson with several exercises, or the first lesson if no lesson has several."""
    lessons = curriculum.lessons
    return next((lesson for lesson in lessons if len(lesson.exercises) > 1), lessons[0])


def example_class(course: Path, lesson: Lesson) -> Iterator[ExampleSubmission]:
    """Yield the submissions of a class for a lesson that has been built and released.

    There are five students, or only the first and the third if the lesson has no exercises. Raises ValueError
    if the lesson has exercises but `course.toml` has no deductions for them.
    """
    released = _read(course / LESSONS, lesson)
    solution = _read(course / SOURCES, lesson)
    answers = {
        cell.id: _INSTRUCTORS_PART.sub("", cell.source) for cell in solution.cells if is_solution(cell)
    }
    files = example_files(lesson)
    yield ExampleSubmission("amara", "everything right", _with(released, answers), files)
    if not lesson.exercises:
        yield ExampleSubmission("chiyo", "handed in the unchanged lesson", released)
        return
    last = lesson.exercises[-1].name
    mistake = partial_mistake(lesson)
    yield ExampleSubmission(
        "bruno",
        f"one mistake: {mistake.misconception.statement}",
        _with(released, answers | {mistake.exercise.name: mistake.code}),
        files,
    )
    yield ExampleSubmission("chiyo", "handed in the unchanged lesson", released)
    yield ExampleSubmission(
        "daria",
        f"correct, but the first line of the cell with {last} fails",
        _with(released, answers | {last: f"import a_package_of_my_own\n\n{answers[last]}"}),
        files,
    )
    cheat = _with(released, {last: "def check(*_, **__): return None"})
    for cell in cheat.cells:
        if is_grade(cell) and not is_solution(cell):
            cell.metadata["tags"] = ["skip-execution"]
    yield ExampleSubmission(
        "emeka", "wrote no answers, tagged the checks to be skipped and redefined `check`", cheat
    )


def partial_mistake(lesson: Lesson) -> PartialMistake:
    """Return a mistake that costs some of the points of one of the lesson's exercises.

    If several exercises have such a mistake, the last of them is chosen, because few other exercises depend
    on it.
    Raises ValueError if `course.toml` has no deductions for this lesson.
    """
    for exercise in reversed(lesson.exercises):
        entry = catalogue()[exercise.name]
        assert isinstance(entry, ExerciseCheck)
        for misconception in entry.misconceptions:
            if misconception.name in exercise.deductions:
                return PartialMistake(exercise, misconception, entry.source_with(misconception))
    raise ValueError(
        f"course.toml has no deductions for {lesson.name}, so this lesson cannot show partial credit. "
        "Choose another lesson."
    )


def hand_in(course: Path, lesson: Lesson) -> list[ExampleSubmission]:
    """Write the example class's submissions for a lesson to the course's submitted folder, and return them.

    Raises ValueError if the lesson has exercises but `course.toml` has no deductions for them.
    """
    submissions = list(example_class(course, lesson))
    for submission in submissions:
        folder = course / "autograder" / "submitted" / submission.student / lesson.name
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write_text(folder / f"{lesson.name}.ipynb", nbformat.writes(submission.notebook) + "\n")
        for name, content in submission.files.items():
            (folder / name).write_bytes(content)
    return submissions


def example_files(lesson: Lesson) -> dict[str, bytes]:
    """Return examples of the files that students hand in with a lesson, keyed by name.

    They look like the files of a successful training run.
    """
    made = {
        CONFIG.name: (CONFIG.file, _config),
        METRICS.name: (METRICS.file, _metrics),
        TRANSLATIONS.name: (TRANSLATIONS.file, _translations),
    }
    return {file: make() for file, make in (made[entry.name] for entry in lesson.hand_ins)}


def _config() -> bytes:
    """Return an example of a student's configuration: `captions` with a different number of warm-up steps."""
    return documented_yaml(load_config("captions", ["training.warmup_steps=300"])).encode()


def _metrics() -> bytes:
    """Return synthetic metrics of a run whose loss falls as a negative power of the number of updates."""
    updates, every, warmup = 1000, 20, 200
    rows: list[dict[str, object]] = [
        {
            "step": step,
            "epoch": 1 + step // (updates // 4),
            "lr": 1e-3 * min(step / warmup, (warmup / step) ** 0.5),
            "loss": 12.0 * step**-0.3,
            "tokens_per_second": 6000.0 + step % 7,
            "padded": 0.05,
        }
        for step in range(every, updates + 1, every)
    ]
    rows += [{"step": updates, "epoch": 4, "test_bleu": 92.0}]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _translations() -> bytes:
    """Return synthetic translations of the captions' test split: the references without every 40th word."""
    number = itertools.count(1)
    lines = (
        " ".join(word for word in caption.split() if next(number) % 40)
        for caption in load_captions().test.english
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _with(released: NotebookNode, answers: dict[str, str]) -> NotebookNode:
    notebook = copy.deepcopy(released)
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source)
    return notebook


def _read(folder: Path, lesson: Lesson) -> NotebookNode:
    return nbformat.read(folder / lesson.name / f"{lesson.name}.ipynb", as_version=4)
