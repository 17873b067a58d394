"""Show how corrected checks, deductions or points would change a lesson's grades, or write the changes."""

import json
import logging
import os
import signal
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters.base import NbGraderException
from nbgrader.utils import determine_grade, is_grade
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from autograder.judge.job import NotComputedError
from autograder.nbgrader.autograde import CourseAutograde
from autograder.nbgrader.command_line import command_parser, counted, create_console, reporting_errors
from autograder.nbgrader.course_folder import CourseFolder
from autograder.nbgrader.grading_folder import graded_folder, grading_records
from autograder.nbgrader.preparation import Preparation
from autograder.nbgrader.replacement import account_name
from autograder.nbgrader.sandboxed_execute import insert_outputs
from autograder.results.local_executor import SharedExecutor
from autograder.submissions.folder import Submission, released_notebooks, submissions
from autograder.submissions.reading import UnreadableError
from course_lib.atomic_files import atomic_write_text
from course_lib.curriculum.course_file import SOURCES, CourseError

#: The audit trail, and the folder of the notes for students, in the folder of nbgrader_config.py.
AUDIT, NOTES = "regrades.jsonl", "regrade_notes"

_IDLE_SECONDS = 600.0


@dataclass(frozen=True)
class Change:
    """A graded cell whose points would change for one student."""

    student: str
    notebook: str
    cell: str
    before: float | None
    """The automatic points in the gradebook, or None if there are none."""
    after: float | None
    """The automatic points from the current checks, or None if a person has to grade the cell."""
    manual: float | None
    """The points that a person gave instead, or None. They are kept."""
    max_before: float
    """The points that the cell was worth when it was graded."""
    max_points: float
    """The points that the cell is worth now."""

    @property
    def points_before(self) -> str:
        """The automatic points in the gradebook and their maximum, as in "5 of 5"."""
        return _points(self.before, self.max_before)

    @property
    def points_after(self) -> str:
        """The automatic points from the current checks and their maximum, as in "7 of 7"."""
        return _points(self.after, self.max_points)


class Regrading:
    """A comparison of a lesson's grades with the current checks' results, and the correction of grades."""

    def __init__(self, course: CourseFolder, lesson: str, log: logging.Logger) -> None:
        self._course, self._lesson, self._log = course, lesson, log
        self._directory = course.directory(lesson)
        self._preparation = Preparation(self._directory, course.execute)
        self._workers = SharedExecutor(_IDLE_SECONDS)
        self.failed: dict[str, str] = {}
        """Students whose submission could not be compared or graded again, with the reasons."""
        self.compared = 0

    def changes(self) -> list[Change]:
        """Return the graded cells whose points would change. Only the result store is written to.

        Submissions that were never graded are skipped. Those that can't be compared, or that have changed
        since they were graded, are recorded in `failed`. Raises CourseError if the lesson was never released,
        or was changed and not released again, if the gradebook can't be opened, or if students' code can't be
        confined.
        """
        if not released_notebooks(self._directory, self._lesson):
            raise CourseError(
                f"{self._lesson} has not been generated. Check the name, or run "
                f"`nbgrader generate_assignment {self._lesson}` first."
            )
        changes: list[Change] = []
        self._require_current_release()
        with (
            self._course.gradebook() as gradebook,
            self._course.execute.running(self._workers) as results,
        ):
            unchanged = [submission for submission, _ in self._unchanged()]
            for prepared in self._preparation.prepare_ahead(unchanged, results, self._reporting):
                student = prepared.submission.student
                with self._reporting(prepared.submission):
                    self._require_unchanged(prepared.submission, prepared.digest)
                    found: list[Change] = []
                    for name, notebook in prepared.notebooks.items():
                        insert_outputs(notebook, results.get(prepared.source, prepared.jobs[name]))
                        found += self._compare(gradebook, student, name, notebook)
                    changes += found
                    self.compared += 1
        return changes

    def write(self, changes: Sequence[Change]) -> list[Change]:
        """Write changes into the gradebook and the graded notebooks, by grading the submissions again.

        Return the changes that were written. The audit trail lists all changes as "planned" before the first
        grade is written, and then, as "written", those that were made. Submissions that have changed since
        they were graded, or that could not be graded again, keep their grades and are recorded in `failed`.
        Manual points are kept. A cell that a person has graded is marked for manual grading again only if its
        automatic points, or the submission's files, have changed. After an interrupt from the keyboard, the
        submissions that were not graded again are recorded in `failed`, too. Raises OSError, and writes no
        grade, if the audit trail can't be written.
        """
        self._append_to_trail("planned", changes)
        affected = {change.student for change in changes}
        graded = {found[0].student: found for found in self._unchanged() if found[0].student in affected}
        with self._course.gradebook() as gradebook:
            reviewed = {
                student: [
                    (notebook.name, grade.name, grade.auto_score)
                    for notebook in gradebook.find_submission(self._lesson, student).notebooks
                    for grade in notebook.grades
                    if not grade.needs_manual_grade
                ]
                for student in graded
            }
        converter = CourseAutograde(
            coursedir=self._directory, config=self._course.config, workers=self._workers, students=graded
        )
        converter.log, converter.force = self._log, True
        reason = ""
        try:
            converter.start()
        except NbGraderException as error:
            reason = str(error)
        except KeyboardInterrupt:
            reason = "the command was interrupted. Run it again"
        finally:
            with _without_interrupts():
                same = {student for student, found in graded.items() if self._is_graded_from(*found)}
                written = self._finish(changes, same, reviewed)
        unwritten = {change.student for change in changes} - {change.student for change in written}
        for student in unwritten & graded.keys():
            again = "a new submission was collected in the meantime, and the correction doesn't apply to it"
            differs = (
                "it was graded again, but its points aren't those listed above. Look at it in Formgrader"
            )
            self.failed.setdefault(student, reason or (differs if student in same else again))
        if reason and not unwritten & graded.keys():
            # No student is affected, so the failure is nbgrader's own.
            self.failed.setdefault("nbgrader autograde", reason)
        return written

    def _finish(
        self,
        changes: Sequence[Change],
        students: Collection[str],
        reviewed: Mapping[str, Sequence[tuple[str, str, float | None]]],
    ) -> list[Change]:
        """Record and return the changes that were written, after submissions were graded again.

        `students` are those whose submission is the one that the changes are for. (One that was collected
        again in the meantime has a new grade, which is not a correction.) `reviewed` lists their cells that
        a person has graded, as notebook, cell and automatic points. If these points are still the same, the
        cells needn't be graded again.
        """
        with self._course.gradebook() as gradebook:
            for student in students:
                for notebook, cell, before in reviewed[student]:
                    grade = gradebook.find_grade(cell, notebook, self._lesson, student)
                    if grade.auto_score == before:
                        grade.needs_manual_grade = False
            gradebook.db.commit()
            written = [
                change
                for change in changes
                if change.student in students
                and gradebook.find_grade(
                    change.cell, change.notebook, self._lesson, change.student
                ).auto_score
                == change.after
            ]
        self._append_to_trail("written", written)
        return written

    def write_notes(self, changes: Sequence[Change]) -> list[Path]:
        """Write a note for each student whose points change into a new folder, and return the notes' paths.

        The folder's name is the time, so it contains the notes of this correction only. Changes to cells with
        manual points are left out, because the manual points are kept.
        """
        now = datetime.now(UTC)
        folder = self._course.folder / NOTES / self._lesson / f"{now:%Y-%m-%dT%H.%M.%SZ}"
        notes = []
        for student in sorted({change.student for change in changes if change.manual is None}):
            lines = [f"# {self._lesson}: your points were corrected", ""]
            lines += [
                f"- {change.cell.removeprefix('check_')}: {change.points_before} points before, "
                f"{change.points_after} points now"
                for change in changes
                if change.student == student and change.manual is None
            ]
            reason = "a check or its points were corrected, and all submissions were graded again."
            lines += ["", f"On {now:%-d %B %Y}, {reason}"]
            folder.mkdir(parents=True, exist_ok=True)
            atomic_write_text(folder / f"{student}.md", "\n".join(lines) + "\n")
            notes.append(folder / f"{student}.md")
        return notes

    @contextmanager
    def _reporting(self, submission: Submission) -> Iterator[None]:
        """Catch an error in the block that concerns one submission, and record it in `failed`."""
        try:
            yield
        except (UnreadableError, OSError, NbGraderException, NotComputedError, MissingEntry) as error:
            self.failed[submission.student] = str(error)

    def _unchanged(self) -> list[tuple[Submission, str]]:
        """Inspect the submissions that were graded, and return the unchanged ones with their digests."""
        unchanged = []
        for submission in submissions(self._directory):
            if graded_folder(self._directory, submission.student, self._lesson).is_dir():
                with self._reporting(submission):
                    self._preparation.inspect(submission)
                    digest = submission.digest()
                    self._require_unchanged(submission, digest)
                    unchanged.append((submission, digest))
        return unchanged

    def _require_unchanged(self, submission: Submission, digest: str) -> None:
        """Raise NbGraderException if files with this digest are not those that were graded."""
        if not self._is_graded_from(submission, digest):
            raise NbGraderException(
                f"it has changed since it was graded. Run `nbgrader autograde {self._lesson}` first."
            )

    def _is_graded_from(self, submission: Submission, digest: str) -> bool:
        """Return whether a submission's graded notebooks were created from files with this digest."""
        records = grading_records(self._directory, submission)
        return {record.handed_in for record in records} == {digest}

    def _compare(
        self, gradebook: Gradebook, student: str, name: str, notebook: NotebookNode
    ) -> Iterator[Change]:
        graded = graded_folder(self._directory, student, self._lesson) / f"{name}.ipynb"
        points = {
            cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader.points
            for cell in nbformat.read(graded, as_version=4).cells
            if is_grade(cell)
        }
        for cell in notebook.cells:
            if is_grade(cell):
                cell_name = cell.metadata.nbgrader.grade_id
                grade = gradebook.find_grade(cell_name, name, self._lesson, student)
                after, max_points = determine_grade(cell, self._log)
                if after != grade.auto_score:
                    before, manual = grade.auto_score, grade.manual_score
                    max_before = points.get(cell_name, max_points)
                    yield Change(student, name, cell_name, before, after, manual, max_before, max_points)

    def _require_current_release(self) -> None:
        """Raise CourseError if locked cells or points in the solution notebooks differ from the gradebook."""
        for name in released_notebooks(self._directory, self._lesson):
            path = Path(self._directory.root, SOURCES, self._lesson, f"{name}.ipynb")
            if not path.is_file():
                continue
            known = self._preparation.releases.gradebook_cells(self._lesson, name)
            changed = []
            for cell in nbformat.read(path, as_version=4).cells:
                tracked = cell.metadata.get("nbgrader", {})
                cell_name, points = tracked.get("grade_id"), tracked.get("points")
                if known.locked.get(cell_name, cell.source) != cell.source or (
                    known.points.get(cell_name, points) != points
                ):
                    changed.append(cell_name)
            if changed:
                raise CourseError(
                    f"{', '.join(sorted(changed))} changed since {self._lesson} was released. Run "
                    f"`nbgrader generate_assignment {self._lesson}` first: it keeps all grades."
                )

    def _append_to_trail(self, state: str, changes: Sequence[Change]) -> None:
        about = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "by": account_name(os.getuid()),
            "state": state,
            "lesson": self._lesson,
        }
        with (self._course.folder / AUDIT).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(about | asdict(change)) + "\n" for change in changes)
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ignore interrupts from the keyboard within the block."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@reporting_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run `course regrade`, and return its exit code: 1 if it fails for any submission, otherwise 0."""
    parser = command_parser("regrade", __doc__)
    parser.add_argument("lesson", help="the lesson, such as 01-attention")
    parser.add_argument("--write", action="store_true", help="write the changes (default: only show them)")
    parser.add_argument(
        "--notes", action="store_true", help=f"with --write: write a note for each student into {NOTES}/"
    )
    options = parser.parse_args(arguments)
    console = create_console()
    log = logging.getLogger("regrade")
    course = CourseFolder(options.course)
    regrading = Regrading(course, options.lesson, log)
    changes = regrading.changes()
    _show(console, changes)
    differ = f"{counted(len(changes), 'grade')} differ{'s' * (len(changes) == 1)}"
    console.print(f"{counted(regrading.compared, 'submission')} compared, {differ}.")
    try:
        if changes and not options.write:
            console.print("Nothing was written. Add --write to write these changes.")
        elif changes:
            written = regrading.write(changes)
            trail = escape(str(course.folder / AUDIT))
            console.print(f"{counted(len(written), 'grade')} written, and recorded in {trail}.")
            if options.notes:
                notes = regrading.write_notes(written)
                folder = course.folder / NOTES / options.lesson
                console.print(
                    f"{counted(len(notes), 'note')} written to a new folder in {escape(str(folder))}."
                )
    finally:
        for student, reason in sorted(regrading.failed.items()):
            console.print(f"[bold red]✗[/] {escape(student)}: not corrected: {escape(reason)}")
    return int(bool(regrading.failed))


def _show(console: Console, changes: Sequence[Change]) -> None:
    if not changes:
        return
    table = Table("Student", "Cell", "Before", "After", "Remarks")
    for change in sorted(changes, key=lambda each: (each.student, each.cell)):
        remark = "" if change.manual is None else f"keeps {change.manual:g} manual points; needs another look"
        table.add_row(
            escape(change.student),
            escape(change.cell),
            change.points_before,
            change.points_after,
            remark,
        )
    console.print(table)


def _points(points: float | None, max_points: float) -> str:
    return f"{'none' if points is None else f'{points:g}'} of {max_points:g}"


if __name__ == "__main__":
    sys.exit(main())
