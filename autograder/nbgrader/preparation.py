"""Read and repair a submission, and request the results of its notebooks."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePath

import nbformat
from nbformat import NotebookNode
from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import is_grade

from autograder.graded_notebooks.record import GradingRecord
from autograder.judge.job import Job
from autograder.judge.lesson_source import LessonSource
from autograder.nbgrader.releases import Releases
from autograder.nbgrader.replacement import FolderReplacement
from autograder.nbgrader.sandboxed_execute import SandboxedExecute
from autograder.results.results import Results
from autograder.sandbox.archive import MAX_NEIGHBOR_BYTES, neighbor_files
from autograder.submissions.folder import Submission, lesson_files
from autograder.submissions.reading import UnreadableError, shown
from autograder.submissions.regular_file import read_file
from autograder.submissions.repair import RepairedNotebook, repair

#: The number of submissions per worker that are prepared in advance.
AHEAD = 4

#: nbgrader's own files in the folder of a submission.
_OF_NBGRADER = ("timestamp.txt", "submission_secret.txt")

_UPDATED = "The lesson was updated after you fetched it."
_KEPT = f"{_UPDATED} Your answers were graded with the current checks and points."
_RENEWED = f"{_UPDATED} Its graded cells have changed, so all given cells were replaced by the current ones."


@dataclass
class PreparedSubmission:
    """A submission that nbgrader can grade. `notebooks` contains its repaired notebooks, by name."""

    submission: Submission
    notebooks: dict[str, NotebookNode]
    digest: str
    """The digest of the submission's files before they were read."""
    source: LessonSource
    """The data about the lesson that its jobs need."""
    jobs: dict[str, Job]
    """The jobs that run the notebooks, by the notebooks' names."""


class Preparation:
    """The preparation of submissions: reading and repairing them, and requesting their results."""

    def __init__(self, course: CourseDirectory, execute: SandboxedExecute) -> None:
        self.releases = Releases(course)
        self._course, self._execute = course, execute
        self._of_students = Autograde(coursedir=course, config=execute.config).exclude_overwriting
        self._current: dict[tuple[str, str], dict[str, str]] = {}
        """The hashes of the current checks and limits of each released notebook, by lesson and name."""

    def is_current(self, lesson: str, name: str, depends_on: Mapping[str, str]) -> bool:
        """Return whether a result was computed with the current checks and limits of a released notebook.

        `depends_on` is taken from the result's job. Raises CourseError if the gradebook can't be opened.
        """
        if (lesson, name) not in self._current:
            notebook = nbformat.from_dict(self.releases.notebook(lesson, name))
            self.releases.insert_hidden_tests(lesson, name, notebook)
            job = self._execute.job(lesson, notebook, {})
            self._current[lesson, name] = {part: job.depends_on[part] for part in ("checks", "limits")}
        return self._current[lesson, name].items() <= depends_on.items()

    def inspect(self, submission: Submission) -> None:
        """Record the problems with a submission's folder in `submission`.

        Raises UnreadableError if the submission can't be graded at all, for example because not all of its
        files have been collected yet.
        """
        if FolderReplacement(Path(submission.folder)).is_unfinished:
            raise UnreadableError(
                "its files are incomplete, because collecting it was interrupted or is still in progress; "
                "collect it again when no other command is running"
            )
        files = lesson_files(self._course, submission.lesson)
        submission.inspect(files, self._course.max_file_size * 1000)

    def prepare(self, submission: Submission, results: Results) -> PreparedSubmission:
        """Read and repair a submission that was inspected, and request the results of its notebooks.

        Raises UnreadableError if a notebook is missing or doesn't belong to the lesson, or if a file can't
        be read.
        """
        digest = submission.digest()
        notebooks = {name: self._read(submission, name, digest) for name in submission.notebooks}
        lesson, files = submission.lesson, self._files(submission)
        source = self._execute.source(lesson)
        jobs = {name: self._execute.job(lesson, notebook, files) for name, notebook in notebooks.items()}
        for job in jobs.values():
            results.request(source, job)
        return PreparedSubmission(submission, notebooks, digest, source, jobs)

    def prepare_ahead(
        self,
        inspected: Iterable[Submission],
        results: Results,
        reporting: Callable[[Submission], AbstractContextManager[None]],
    ) -> Iterator[PreparedSubmission]:
        """Yield prepared submissions. Some are prepared ahead, so that their notebooks run in the meantime.

        Each submission is prepared inside `reporting(submission)`. If that catches an error, the submission
        is skipped.
        """
        waiting: deque[PreparedSubmission] = deque()
        for submission in inspected:
            with reporting(submission):
                waiting.append(self.prepare(submission, results))
            if len(waiting) > AHEAD * results.workers:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()

    def _read(self, submission: Submission, name: str, digest: str) -> NotebookNode:
        found, expected = submission.find(name), f"{name}.ipynb"
        repaired = self._repair(read_file(Path(submission.folder), found), submission.lesson, name)
        renamed = [] if found == expected else [f"it was handed in as {shown(found)}, not {expected}"]
        GradingRecord(
            repairs=[*renamed, *submission.notes, *repaired.notes],
            tampering=[*submission.tampering, *repaired.tampering],
            handed_in=digest,
        ).write(repaired.notebook)
        return repaired.notebook

    def _repair(self, raw: bytes, lesson: str, name: str) -> RepairedNotebook:
        """Repair a notebook, and insert the hidden tests.

        The notebook is compared with the current release and, if it seems to be from another one, with the
        earlier releases. It keeps the cells of an earlier release only if that release has the same graded
        cells.
        """
        current = self.releases.notebook(lesson, name)
        repaired = repair(raw, current)
        if repaired.tampering or repaired.from_another_release:
            for earlier in self.releases.earlier(lesson, name):
                attempt = repair(raw, earlier)
                if attempt.tampering or attempt.from_another_release:
                    continue
                if _graded_cells(earlier) == _graded_cells(current):
                    attempt.notes.insert(0, _KEPT)
                    self.releases.insert_hidden_tests(lesson, name, attempt.notebook, graded_only=True)
                    return attempt
                repaired.notes[:0] = [_RENEWED, *repaired.tampering]
                repaired.tampering.clear()
                break
        self.releases.insert_hidden_tests(lesson, name, repaired.notebook)
        return repaired

    def _files(self, submission: Submission) -> dict[str, bytes]:
        """Return the lesson's files and the student's other files, except those refused or too large.

        Files in nbgrader's `exclude_overwriting`, which students edit, are the student's own if handed in.
        """
        found = {} if submission.all_refused else neighbor_files(Path(submission.folder))
        refused = {os.path.relpath(path, submission.folder) for path in submission.refused}
        files = {
            path: content
            for path, content in found.items()
            # If a folder is refused, so are its contents.
            if path not in _OF_NBGRADER and refused.isdisjoint([path, *map(str, PurePath(path).parents)])
        }
        for name, path in lesson_files(self._course, submission.lesson).items():
            edited = name in files and name in self._of_students.get(submission.lesson, ())
            if not edited and path.stat().st_size <= MAX_NEIGHBOR_BYTES:
                files[name] = path.read_bytes()
        return files


def _graded_cells(notebook: NotebookNode) -> set[str]:
    return {cell.metadata.nbgrader.grade_id for cell in notebook.cells if is_grade(cell)}
