"""Read the gradebook, the autograded notebooks, and the list of submissions that could not be graded."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Assignment, Gradebook, SubmittedAssignment, SubmittedNotebook
from nbgrader.coursedir import CourseDirectory

from autograder.graded_notebooks.points import GradedCell
from autograder.graded_notebooks.record import GradingRecord
from autograder.graded_notebooks.verdicts import UNREADABLE, verdicts_in
from autograder.nbgrader.gradebook import display_name, has_points, points_after_penalty
from autograder.nbgrader.grading_folder import NOT_GRADED, graded_folder, grading_folder, read_not_graded
from autograder.submissions.folder import submissions
from course_lib.checks.engine.findings import Finding
from course_lib.curriculum import Curriculum
from course_lib.curriculum.course_file import CourseError, load_curriculum


@dataclass(frozen=True)
class LessonRecord:
    """A lesson in the gradebook."""

    name: str
    title: str
    max_points: float
    due: datetime | None
    """The due date in UTC for students without an extension, or None if there is none."""
    minutes: int | None
    """The planned duration in minutes, or None if course.toml does not list the lesson."""
    cells: tuple[str, ...]
    """The names of the graded cells, in the order of the lesson."""


@dataclass(frozen=True)
class SubmissionRecord:
    """One student's submission for one lesson."""

    lesson: str
    student: str
    graded: bool
    points: float
    """The points after the late penalty, as nbgrader exports them."""
    handed_in: datetime | None
    """The submission's timestamp in UTC, or None if there is none."""
    due: datetime | None
    """The due date in UTC, including the student's extension, or None if there is none."""
    cells: tuple[GradedCell, ...]
    answers: Mapping[str, str]
    """The source of the student's own cells, by name: code and written answers."""
    grading: tuple[GradingRecord, ...]
    """How each notebook was graded."""
    flagged: bool
    """Whether a grader flagged the submission in Formgrader."""

    @property
    def waiting(self) -> bool:
        """Whether a person has to award or review points for any cell of the submission."""
        return any(cell.waiting for cell in self.cells)

    @property
    def open(self) -> float:
        """The maximum number of points for the cells whose points have not been awarded yet."""
        return sum(cell.max_points for cell in self.cells if cell.open)


@dataclass
class ClassRecords:
    """The data of the class report."""

    lessons: list[LessonRecord] = field(default_factory=list)
    students: dict[str, str] = field(default_factory=dict)
    """The students' names, keyed by id and sorted. The id replaces a missing name."""
    submissions: list[SubmissionRecord] = field(default_factory=list)
    not_graded: dict[tuple[str, str], str] = field(default_factory=dict)
    """The reasons why submissions have no grade, by lesson and student."""
    notes: list[str] = field(default_factory=list)
    """Descriptions of files that could not be read, as sentences."""


def read_records(
    gradebook: Gradebook,
    course: CourseDirectory,
    wants_student: Callable[[str], bool] = lambda _: True,
    wants_lesson: Callable[[str], bool] = lambda _: True,
) -> ClassRecords:
    """Read the gradebook and the graded notebooks for the selected students and lessons, by default for all.

    Unreadable files are reported in the notes. Nothing is written.
    """
    return _Reader(gradebook, course, wants_student, wants_lesson).read()


@dataclass
class _Reader:
    _gradebook: Gradebook
    _course: CourseDirectory
    _wants_student: Callable[[str], bool]
    _wants_lesson: Callable[[str], bool]
    _records: ClassRecords = field(default_factory=ClassRecords)

    def read(self) -> ClassRecords:
        records, curriculum = self._records, self._curriculum()
        names = {
            student.id: display_name(student)
            for student in self._gradebook.students
            if self._wants_student(student.id)
        }
        assignments = sorted(
            (entry for entry in self._gradebook.assignments if self._wants_lesson(entry.name)),
            key=lambda entry: entry.name,
        )
        records.lessons = [_lesson(assignment, curriculum) for assignment in assignments]
        records.not_graded = dict(self._reasons())
        for lesson in records.lessons:
            found = self._gradebook.assignment_submissions(lesson.name)
            for submission in sorted(found, key=lambda entry: entry.student_id):
                if submission.student_id in names and self._is_handed_in(submission):
                    records.submissions.append(self._submission(submission, lesson))
        self._find_ungraded()
        for _, student in records.not_graded:
            names.setdefault(student, student)
        records.students = dict(sorted(names.items(), key=lambda item: (item[1].casefold(), item[0])))
        return records

    def _curriculum(self) -> Curriculum | None:
        try:
            return load_curriculum(Path(self._course.root))
        except (CourseError, OSError) as error:
            self._records.notes.append(
                "solutions/course.toml could not be read, so lessons have no titles, and exercises "
                f"are in alphabetical order: {error}"
            )
            return None

    def _submission(self, submission: SubmittedAssignment, lesson: LessonRecord) -> SubmissionRecord:
        student = submission.student_id
        cells: list[GradedCell] = []
        answers: dict[str, str] = {}
        grading: list[GradingRecord] = []
        for notebook in submission.notebooks:
            read = self._notebook(submission, notebook)
            verdicts: dict[str, Finding] = {}
            if read is not None:
                verdicts, answers_here, record = read
                answers |= answers_here
                grading.append(record)
            cells += (GradedCell.of(grade, verdicts.get(grade.name)) for grade in notebook.grades)
        index = {name: number for number, name in enumerate(lesson.cells)}
        cells.sort(key=lambda cell: index.get(cell.name, len(index)))
        key = (lesson.name, student)
        is_complete = any(record.complete for record in grading)
        if not is_complete and all(cell.automatic is None and cell.person is None for cell in cells):
            self._records.not_graded.setdefault(key, "`nbgrader autograde` did not finish grading it")
        due = submission.assignment.duedate
        return SubmissionRecord(
            lesson=lesson.name,
            student=student,
            graded=key not in self._records.not_graded,
            points=points_after_penalty(
                sum(cell.points for cell in cells), submission.late_submission_penalty
            ),
            handed_in=submission.timestamp,
            due=due + submission.extension if due and submission.extension else due,
            cells=tuple(cells),
            answers=answers,
            grading=tuple(grading),
            flagged=any(notebook.flagged for notebook in submission.notebooks),
        )

    def _is_handed_in(self, submission: SubmittedAssignment) -> bool:
        """Return whether anything was handed in. Otherwise, the entry only records an extension."""
        course = self._course
        return (
            submission.timestamp is not None
            or has_points(submission)
            or Path(
                course.format_path(course.submitted_directory, submission.student_id, submission.name)
            ).is_dir()
        )

    def _notebook(
        self, submission: SubmittedAssignment, notebook: SubmittedNotebook
    ) -> tuple[dict[str, Finding], dict[str, str], GradingRecord] | None:
        """Return a graded notebook's verdicts, answers and grading record, or None if it can't be read."""
        folder = graded_folder(self._course, submission.student_id, submission.name)
        path = folder / f"{notebook.name}.ipynb"
        if not path.is_file():
            return None
        try:
            read = nbformat.read(path, as_version=4)
            return verdicts_in(read), _answers(read), GradingRecord.of(read)
        except UNREADABLE as error:
            student, lesson = submission.student_id, submission.name
            self._records.notes.append(
                f"The autograded notebook of {student} for {lesson} cannot be read "
                f"({type(error).__name__}). Its points are from the gradebook, and its verdicts are "
                f"not counted. Grade it again: nbgrader autograde {lesson} --student {student} --force"
            )
            return None

    def _reasons(self) -> Iterator[tuple[tuple[str, str], str]]:
        folder = grading_folder(self._course)
        try:
            for lesson, students in read_not_graded(folder).items():
                for student, reason in students.items():
                    if self._wants_lesson(lesson) and self._wants_student(student):
                        yield (lesson, student), reason
        except (OSError, ValueError) as error:
            self._records.notes.append(
                f"{folder.name}/{NOT_GRADED} cannot be read ({type(error).__name__}), so the report may not "
                "list every submission that could not be graded. Grade again to rewrite it."
            )

    def _find_ungraded(self) -> None:
        """Record as not graded each submission that was handed in but is not in the gradebook."""
        lessons = {lesson.name for lesson in self._records.lessons}
        known = {(entry.lesson, entry.student) for entry in self._records.submissions}
        for submission in submissions(self._course):
            student = submission.student.encode(errors="replace").decode()  # The name may not be valid UTF-8.
            key = (submission.lesson, student)
            if submission.lesson in lessons and key not in known and self._wants_student(student):
                reason = "handed in but not graded yet: run `nbgrader autograde`"
                self._records.not_graded.setdefault(key, reason)


def _lesson(assignment: Assignment, curriculum: Curriculum | None) -> LessonRecord:
    max_points = {
        cell.name: cell.max_score for notebook in assignment.notebooks for cell in notebook.grade_cells
    }
    lessons = curriculum.lessons if curriculum else ()
    entry = next((lesson for lesson in lessons if lesson.name == assignment.name), None)
    index = {name: number for number, name in enumerate(entry.points)} if entry else {}
    return LessonRecord(
        name=assignment.name,
        title=entry.title if entry else assignment.name,
        max_points=float(sum(max_points.values())),
        due=assignment.duedate,
        minutes=entry.minutes if entry else None,
        cells=tuple(sorted(max_points, key=lambda name: (index.get(name, len(index)), name))),
    )


def _answers(notebook: NotebookNode) -> dict[str, str]:
    about = ((cell, cell.metadata.get("nbgrader", {})) for cell in notebook.cells)
    return {
        note["grade_id"]: cell.source for cell, note in about if note.get("solution") and note.get("grade_id")
    }
