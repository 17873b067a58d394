"""Read all answers to a question, and save points and comments without overwriting other graders' changes."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat.v4
from nbgrader.api import (
    Assignment,
    Comment,
    Grade,
    Gradebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)

from autograder.graded_notebooks.verdicts import UNREADABLE
from autograder.nbgrader.course_folder import CourseFolder
from autograder.nbgrader.gradebook import display_name, unknown_entry
from autograder.nbgrader.grading_folder import graded_folder
from autograder.release.mark_scheme import MarkScheme, mark_schemes
from course_lib.curriculum.course_file import SOURCES, CourseError


@dataclass(frozen=True)
class Question:
    """A cell to mark by hand: a graded cell that students write themselves."""

    notebook: str
    name: str
    max_points: float
    scheme: MarkScheme
    grade_cell: str
    """The id of the cell's GradeCell in the gradebook, to which grades belong."""
    solution_cell: str
    """The id of the same cell's SolutionCell in the gradebook, to which comments belong."""


@dataclass(frozen=True)
class WrittenCell:
    """The content of one cell that a student wrote."""

    source: str = ""
    attachments: Mapping[str, Mapping[str, str]] | None = None
    is_code: bool = False
    problem: str = ""
    """The reason why the cell could not be read, or an empty string."""

    @cached_property
    def digest(self) -> str:
        """A hash of the content. Written answers that differ only in white space have the same hash."""
        words = self.source if self.is_code else " ".join(self.source.split())
        content = json.dumps([words, self.attachments or {}, self.problem], sort_keys=True)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Mark:
    """The points and the comment for one answer, as they are in the gradebook."""

    points: float | None
    """The points that a person gave, or None."""
    comment: str
    """The comment from a person, or an empty string."""
    automatic: float | None
    """The points from nbgrader: 0 if the cell is unchanged, None if a person has to grade it."""
    extra: float | None
    """Extra credit, which only Formgrader changes."""
    waiting: bool
    """Whether a person has to grade the answer, or to review an earlier mark."""


@dataclass(frozen=True)
class Answer:
    """One student's answer to a question."""

    id: str
    """The id of the grade in the gradebook. It is random and says nothing about the student."""
    student: str
    name: str
    """First and last name, or the id if the gradebook has neither."""
    submission: str
    """The id of the submitted notebook, which Formgrader uses in its addresses."""
    written: WrittenCell
    mark: Mark

    @cached_property
    def version(self) -> str:
        """Hashes of the answer and of its mark, which reveal later changes to either."""
        mark = json.dumps(list(vars(self.mark).values()))
        return f"{self.written.digest[:16]}.{hashlib.sha256(mark.encode()).hexdigest()[:16]}"


class ChangedError(Exception):
    """The error raised if a mark was not saved because the answers or their marks have changed."""

    def __init__(self, changed: Sequence[Answer]) -> None:
        super().__init__("answers or their marks have changed")
        self.changed = changed
        """The changed answers in their current state."""


class LessonAnswers:
    """The answers to the questions of one lesson, and their marks in the gradebook."""

    def __init__(self, course: CourseFolder, lesson: str) -> None:
        self.lesson = lesson
        self._course = course
        self._directory = course.directory(lesson)
        self._cells: dict[Path, tuple[tuple[int, int, int], dict[str, WrittenCell]]] = {}

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """The questions in the order of the lesson.

        Raises CourseError if the lesson is unknown or has no questions to mark by hand.
        """
        with self._course.gradebook() as gradebook:
            assignment = gradebook.db.query(Assignment).filter_by(name=self.lesson).one_or_none()
            if assignment is None:
                raise unknown_entry("lesson", self.lesson, (each.name for each in gradebook.assignments))
            found = [question for notebook in assignment.notebooks for question in self._questions(notebook)]
        if not found:
            raise CourseError(f"{self.lesson} has no explanations, so there is nothing to mark by hand")
        return tuple(found)

    def _questions(self, notebook: Any) -> Iterator[Question]:
        solution = Path(self._directory.root, SOURCES, self.lesson, f"{notebook.name}.ipynb")
        schemes = mark_schemes(solution) if solution.is_file() else {}
        written = {cell.name: cell.id for cell in notebook.solution_cells}
        graded = {cell.name: cell for cell in notebook.grade_cells}
        for name in dict.fromkeys([*schemes, *sorted(graded)]):
            if name in graded and name in written:
                cell, scheme = graded[name], schemes.get(name, MarkScheme())
                yield Question(
                    notebook.name, cell.name, float(cell.max_score), scheme, cell.id, written[cell.name]
                )

    def open_counts(self) -> dict[Question, tuple[int, int]]:
        """Return, for each question, the number of answers that need manual grading, and the total number."""
        with self._course.gradebook() as gradebook:
            return {
                question: (sum(bool(grade.needs_manual_grade) for grade in grades), len(grades))
                for question in self.questions
                for grades in [gradebook.db.query(Grade).filter(Grade.cell_id == question.grade_cell).all()]
            }

    def answers(self, question: Question) -> list[Answer]:
        """Return all answers to a question, in an order that reveals nothing about the students."""
        with self._course.gradebook() as gradebook:
            return [self._answer(question, *row) for row in self._rows(gradebook, question).all()]

    def save(
        self, question: Question, versions: Mapping[str, str], points: float | None, comment: str
    ) -> list[Answer]:
        """Save the same points and comment for several answers, and return the updated answers.

        `versions` maps the id of each answer to the version that the grader saw. If `points` is None, the
        answers need manual grading again, unless nbgrader gave them points. An empty comment removes the old
        one.

        Raises:
            ChangedError: if an answer or its mark has changed since the grader saw it.
            ValueError: if an id doesn't belong to an answer to this question, or the points are out of range.

        If an error is raised, nothing has been saved.
        """
        if points is not None and not 0 <= points <= question.max_points:
            raise ValueError(f"points: expected a number from 0 to {question.max_points:g}, got {points:g}")
        with self._course.gradebook() as gradebook:
            if gradebook.engine.dialect.name == "sqlite":
                # SQLite has no row locks: take the write lock before the first read.
                gradebook.db.connection().exec_driver_sql("BEGIN IMMEDIATE")
            query = self._rows(gradebook, question).filter(Grade.id.in_(list(versions)))
            rows = query.with_for_update(of=[Grade, Comment]).all()
            now = [self._answer(question, *row) for row in rows]
            if {answer.id for answer in now} != set(versions):
                raise ValueError("an answer is no longer in the gradebook. Load the page again.")
            if changed := [answer for answer in now if answer.version != versions[answer.id]]:
                raise ChangedError(changed)
            for grade, remark, *_ in rows:
                # Follow Formgrader's rules, and leave extra credit unchanged.
                grade.manual_score = points
                grade.needs_manual_grade = points is None and grade.auto_score is None
                remark.manual_comment = comment.strip() or None
            gradebook.db.flush()
            saved = [self._answer(question, *row) for row in rows]
            gradebook.db.commit()
            return saved

    def _rows(self, gradebook: Gradebook, question: Question) -> Any:
        return (
            gradebook.db.query(Grade, Comment, Student, SubmittedNotebook.id)
            .join(SubmittedNotebook, Grade.notebook_id == SubmittedNotebook.id)
            .join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
            .join(Student, SubmittedAssignment.student_id == Student.id)
            .join(Comment, Comment.notebook_id == SubmittedNotebook.id)
            .filter(Grade.cell_id == question.grade_cell, Comment.cell_id == question.solution_cell)
            .order_by(Grade.id)
        )

    def _answer(
        self, question: Question, grade: Grade, comment: Comment, student: Student, submission: str
    ) -> Answer:
        return Answer(
            id=grade.id,
            student=student.id,
            name=display_name(student),
            submission=submission,
            written=self._written(question, student.id),
            mark=Mark(
                points=grade.manual_score,
                comment=comment.manual_comment or "",
                automatic=grade.auto_score,
                extra=grade.extra_credit,
                waiting=bool(grade.needs_manual_grade),
            ),
        )

    def _written(self, question: Question, student: str) -> WrittenCell:
        path = graded_folder(self._directory, student, self.lesson) / f"{question.notebook}.ipynb"
        names = {one.name for one in self.questions}
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            known = self._cells.get(path)
            if known is None or known[0] != stamp:
                known = self._cells[path] = (stamp, _written_cells(path, names))
            cell = known[1].get(question.name)
        except UNREADABLE as error:
            return WrittenCell(problem=f"The graded notebook cannot be read ({type(error).__name__}).")
        return cell or WrittenCell(problem="The graded notebook does not contain this cell.")


def _written_cells(path: Path, names: set[str]) -> dict[str, WrittenCell]:
    """Read the cells with these names from a notebook, keyed by name.

    The notebook is not validated, because that would be slow for a whole class.
    """
    notebook = nbformat.v4.reads(path.read_text(encoding="utf-8"))
    return {
        cell.metadata.nbgrader.grade_id: WrittenCell(
            str(cell.source), _pictures(cell.get("attachments")), is_code=cell.cell_type == "code"
        )
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("grade_id") in names
    }


def _pictures(attachments: object) -> dict[str, dict[str, str]]:
    """Return the well-formed attachments of a cell, in base64, keyed by file name and then by MIME type."""
    if not isinstance(attachments, dict):
        return {}
    return {
        str(name): {str(kind): content for kind, content in bundle.items() if isinstance(content, str)}
        for name, bundle in attachments.items()
        if isinstance(bundle, dict)
    }
