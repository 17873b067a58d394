"""Read concept tests, the verdicts of graded lessons, and the logs of checks that students handed in.

Notebooks and logs come from students: nothing in them runs, and only known names are kept.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from autograder.graded_notebooks.verdicts import IN_WORDS
from autograder.nbgrader.course_folder import CourseFolder
from autograder.release.concept_test import TESTS, ConceptTest
from autograder.reports.class_report.records import read_records
from autograder.submissions.folder import Submission, submissions
from autograder.submissions.reading import UnreadableError, read_notebook
from autograder.submissions.regular_file import read_file
from course_lib.check_log import LOG, parse_log
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.misconceptions import common_misconceptions
from course_lib.checks.exercises.registry import catalogue
from course_lib.curriculum import public_curriculum


@dataclass(frozen=True)
class Run:
    """One run of a check, from a log or from grading, or an answer in the post-test."""

    student: str
    lesson: str
    exercise: str
    verdict: str
    misconceptions: tuple[str, ...]


@dataclass
class LearningRecords:
    """The data of the learning report."""

    answers: dict[str, dict[str, dict[str, str]]] = field(
        default_factory=lambda: {test: {} for test in TESTS}
    )
    """The chosen options, keyed by test, student and question. Without an answer, the option is empty."""
    logged: list[Run] = field(default_factory=list)
    """The runs in the logs that were handed in, in the order of each log."""
    graded: list[Run] = field(default_factory=list)
    """The runs of checks during the grading of submissions."""
    notes: list[str] = field(default_factory=list)
    """Descriptions of files that could not be read, as sentences."""


def read_learning(course: CourseFolder, test: ConceptTest) -> LearningRecords:
    """Read the concept tests and logs that were handed in, and the verdicts of graded lessons.

    Files that cannot be read are reported in the notes.
    """
    records = LearningRecords()
    for submission in submissions(course.directory()):
        try:
            for name, assignment in TESTS.items():
                if submission.lesson == assignment:
                    handed_in = replace(submission, notebooks=(assignment,))
                    records.answers[name][submission.student] = _answers(handed_in, test, name)
            records.logged += _runs(submission)
        except (UnreadableError, OSError) as error:
            records.notes.append(f"{submission.student}, {submission.lesson}: not counted: {error}.")
    with course.gradebook() as gradebook:
        graded = read_records(gradebook, course.directory())
    records.notes += graded.notes
    for entry in graded.submissions:
        for cell in entry.cells if entry.graded else ():
            if (found := cell.verdict) is not None:
                known = _known(cell.exercise, found.misconceptions)
                records.graded.append(Run(entry.student, entry.lesson, cell.exercise, found.verdict, known))
    return records


def _answers(submission: Submission, test: ConceptTest, name: str) -> dict[str, str]:
    notebook = read_notebook(read_file(Path(submission.folder), submission.find(TESTS[name])))
    if (notebook.lesson, notebook.version) != (TESTS[name], test.version(name)):
        raise UnreadableError("its questions differ from those in solutions/concept_test.toml")
    return test.answers(notebook, name)


def _runs(submission: Submission) -> Iterator[Run]:
    """Yield the runs of the lesson's checks in the log of a submission, if there is one.

    Unknown checks and verdicts are skipped, and links are not followed. Raises UnreadableError if the log
    can't be read.
    """
    lessons = {lesson.name: lesson.checked for lesson in public_curriculum().lessons}
    checks = lessons.get(submission.lesson, {})
    if not os.path.islink(submission.folder) and os.path.lexists(os.path.join(submission.folder, LOG)):
        for entry in parse_log(read_file(Path(submission.folder), LOG)):
            if entry.check in checks and entry.verdict in IN_WORDS:
                known = _known(entry.check, entry.misconceptions) if entry.verdict == "wrong" else ()
                yield Run(submission.student, submission.lesson, entry.check, entry.verdict, known)


def _known(exercise: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in statements(exercise))


@cache
def statements(exercise: str) -> dict[str, str]:
    """Return the statements of the misconceptions that a check can recognise, keyed by misconception name.

    The result is empty for an unknown check.
    """
    entry = catalogue().get(exercise)
    own = entry.misconceptions if entry is not None else ()
    common = common_misconceptions() if isinstance(entry, ExerciseCheck) else ()
    return {mistake.name: getattr(mistake, "statement", mistake.name) for mistake in (*common, *own)}
