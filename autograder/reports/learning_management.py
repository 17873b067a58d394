"""Export grades and feedback for Canvas and Moodle.

Grades are exported as CSV files with the columns that the systems' documentation describes. For Canvas
(instructor guide, "How do I import grades in the Gradebook?"), the file has a row for each student,
identified by ID or SIS Login ID, a row "Points Possible", and a column for each assignment. If Canvas has
assigned an ID to an assignment, its column name ends with the ID in parentheses. For Moodle
(https://docs.moodle.org/en/Grade_import), the file has the columns of Moodle's own export, which the
instructor maps during the import. Until a submission is fully graded, its cell keeps the value from the
roster, or is empty without a roster.

Feedback is exported as an archive whose files are named like the downloaded submissions, because both systems
identify students by these names (`infer_comment_context_from_filename` in Canvas's code, and
`mod/assign/feedback/file/importziplib.php` in Moodle's).
"""

import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Gradebook
from traitlets import Unicode

from autograder.graded_notebooks.points import rounded
from autograder.nbgrader.downloads import read_prefixes, read_roster
from autograder.nbgrader.gradebook import has_points, points_after_penalty
from autograder.reports.exporter import CourseExporter, write_csv
from course_lib.atomic_files import atomic_write

_POINTS_POSSIBLE = "Points Possible"

#: Canvas's name for the test student, which instructors use to try out a course.
_TEST_STUDENT = "Student, Test"


@dataclass(frozen=True)
class StudentGrades:
    """A student's final points, by lesson. Lessons that are not fully graded yet are omitted."""

    id: str
    first_name: str
    last_name: str
    email: str
    lms_user_id: str
    points: Mapping[str, float]


def final_grades(gradebook: Gradebook, lessons: Sequence[str]) -> list[StudentGrades]:
    """Read all students' points for these lessons, after late penalties, from the gradebook.

    A student's points for a lesson are left out if there are none yet, or if a person still has to grade
    some of its cells.
    """
    points: dict[str, dict[str, float]] = {}
    for lesson in lessons:
        for submission in gradebook.assignment_submissions(lesson):
            if not submission.needs_manual_grade and has_points(submission):
                score = points_after_penalty(submission.score, submission.late_submission_penalty)
                points.setdefault(submission.student_id, {})[lesson] = score
    return [
        StudentGrades(
            id=student.id,
            first_name=student.first_name or "",
            last_name=student.last_name or "",
            email=student.email or "",
            lms_user_id=student.lms_user_id or "",
            points=points.get(student.id, {}),
        )
        for student in sorted(gradebook.students, key=lambda student: student.id)
    ]


class _Export(CourseExporter):
    """An exporter of one CSV file with a row per student and a column per lesson."""

    roster = Unicode(
        help="A CSV file exported from the learning management system. Its rows and columns are kept."
    ).tag(config=True)

    #: The default name of the file.
    file = ""

    #: The columns of a roster that identify students. The first one contains the learning management
    #: system's IDs.
    identifiers: tuple[str, ...] = ()

    def write(self, gradebook: Gradebook) -> None:
        """Write the grades to `to`, or to `file` by default.

        Students who are only in the gradebook or only on the roster are logged, and so are those with answers
        that a person still has to mark. Raises ValueError, and writes nothing, if the roster can't be read,
        lacks necessary columns or doesn't identify the students.
        """
        max_points = {
            lesson.name: float(lesson.max_score)
            for lesson in sorted(gradebook.assignments, key=lambda lesson: lesson.name)
            if self.wants_lesson(lesson.name)
        }
        grades = final_grades(gradebook, list(max_points))
        rows = (
            self.with_roster(read_roster(self.roster), grades, max_points)
            if self.roster
            else self.table([grade for grade in grades if self.wants_student(grade.id)], max_points)
        )
        target = Path(self.to or self.file)
        write_csv(target, rows)
        self.log.info("Wrote %s", target)
        for lesson in max_points:
            self.warn_of_unmarked(gradebook, lesson, "no new points in the file")

    def table(self, grades: Sequence[StudentGrades], max_points: Mapping[str, float]) -> list[list[str]]:
        """Return the rows of the file, including the header, if there is no roster.

        `max_points` maps each lesson to its maximum number of points. Subclasses implement this method.
        """
        raise NotImplementedError

    def with_roster(
        self, rows: list[list[str]], grades: Sequence[StudentGrades], max_points: Mapping[str, float]
    ) -> list[list[str]]:
        """Return the rows of the roster, including the header, with the grades filled in.

        `max_points` maps each lesson to its maximum number of points. Subclasses implement this method.
        """
        raise NotImplementedError

    def fill(
        self,
        header: list[str],
        rows: list[list[str]],
        grades: Sequence[StudentGrades],
        columns: Mapping[str, int],
    ) -> list[list[str]]:
        """Return the rows with the points of the wanted students filled in.

        `columns` maps each lesson to the index of its column, and `grades` contains the grades of all
        students, including those not wanted. Students who are only in the rows, and wanted students who are
        only in the gradebook, are logged.

        Raises ValueError if the header has none of `identifiers`, if a student has two rows, or if a row
        matches several students.
        """
        identifying = set(self.identifiers) & set(header)
        if not identifying:
            raise ValueError(
                f"the roster {self.roster} has none of the columns {', '.join(self.identifiers)}; "
                f"its columns are {', '.join(header)}. If these are not in English, set the language to "
                "English and export it again."
            )
        by_number = {grade.lms_user_id: grade for grade in grades}
        # Moodle doesn't distinguish upper and lower case in email addresses.
        by_name = {grade.email.lower(): grade for grade in grades} | {grade.id: grade for grade in grades}

        def owners(cells: Sequence[str]) -> dict[str, StudentGrades]:
            """Return the students who match a row, by id."""
            fitting: dict[str, StudentGrades] = {}
            for column in identifying:
                is_number = column == self.identifiers[0]
                first, second = (by_number, by_name) if is_number else (by_name, by_number)
                key = cells[header.index(column)]
                owner = first.get(key) or second.get(key) or by_name.get(key.lower())
                if key and owner is not None:
                    fitting[owner.id] = owner
            return fitting

        found: set[str] = set()
        filled: list[list[str]] = []
        for row in rows:
            cells = [*row, *[""] * (len(header) - len(row))]
            fitting = owners(cells)
            if len(fitting) > 1:
                raise ValueError(
                    f"the roster's row of {cells[0]} matches several students in the gradebook: "
                    f"{', '.join(sorted(fitting))}. Correct their lms_user_id or email there."
                )
            grade = next(iter(fitting.values()), None)
            if grade is None:
                self.log.warning("%s is in %s but not in the gradebook", cells[0], self.roster)
            elif grade.id in found:
                raise ValueError(f"the roster {self.roster} has {grade.id} twice; remove one of the rows")
            else:
                found.add(grade.id)
                for lesson, column in columns.items():
                    if lesson in grade.points and self.wants_student(grade.id):
                        cells[column] = rounded(grade.points[lesson], 4)
            filled.append(cells)
        for grade in grades:
            if grade.id not in found and self.wants_student(grade.id):
                self.log.warning("%s is in the gradebook but not in %s", grade.id, self.roster)
        return filled


class CanvasExport(_Export):
    """An nbgrader exporter that writes grades as a CSV file for Canvas.

    Run it with `nbgrader export --exporter=autograder.reports.learning_management.CanvasExport`.
    """

    file = "canvas.csv"
    identifiers = ("ID", "SIS Login ID", "SIS User ID", "Integration ID")

    def table(self, grades: Sequence[StudentGrades], max_points: Mapping[str, float]) -> list[list[str]]:
        """Return the header, the maximum points, and a row for each student.

        A student is identified by ID, if the gradebook has one for Canvas, and by SIS Login ID.
        """
        header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *max_points]
        possible = [f"    {_POINTS_POSSIBLE}", "", "", "", ""]
        possible += [rounded(points, 4) for points in max_points.values()]
        rows = [
            [_last_first(grade), grade.lms_user_id, "", grade.id, "", *_points(grade, max_points)]
            for grade in grades
        ]
        return [header, possible, *rows]

    def with_roster(
        self, rows: list[list[str]], grades: Sequence[StudentGrades], max_points: Mapping[str, float]
    ) -> list[list[str]]:
        """Return Canvas's rows with the grades filled in. Lessons without a column get a new one.

        Canvas's test student and rows without an identifier are left out. Raises the same errors as `fill`.
        """
        header, *others = rows
        # Canvas appends an assignment's ID to its name.
        columns = _columns(header, max_points, r"{}(\s*\(\d+\))?")
        new = [lesson for lesson in max_points if lesson not in columns]
        columns |= {lesson: len(header) + number for number, lesson in enumerate(new)}
        header = [*header, *new]
        students = [
            row for row in others if row[0].strip() not in (_POINTS_POSSIBLE, _TEST_STUDENT) and any(row[1:4])
        ]
        above = [row for row in others if row[0].strip() == _POINTS_POSSIBLE]
        for row in above:
            row += [""] * (len(header) - len(row))
            for lesson, points in max_points.items():
                if lesson in new:
                    row[columns[lesson]] = rounded(points, 4)
                elif _is_other_number(possible := row[columns[lesson]].strip(), points):
                    self.log.warning(
                        "%s has %s points, but %s in Canvas: change the assignment there",
                        lesson,
                        rounded(points, 4),
                        possible,
                    )
        return [header, *above, *self.fill(header, students, grades, columns)]


class MoodleExport(_Export):
    """An nbgrader exporter that writes grades as a CSV file for Moodle.

    Run it with `nbgrader export --exporter=autograder.reports.learning_management.MoodleExport`.
    """

    file = "moodle.csv"
    identifiers = ("ID number", "Username", "Email address")

    def table(self, grades: Sequence[StudentGrades], max_points: Mapping[str, float]) -> list[list[str]]:
        """Return the header and a row for each student, identified by ID number, username and email."""
        header = ["First name", "Last name", "ID number", "Username", "Email address", *max_points]
        rows = [
            [
                *(grade.first_name, grade.last_name, grade.lms_user_id, grade.id, grade.email),
                *_points(grade, max_points),
            ]
            for grade in grades
        ]
        return [header, *rows]

    def with_roster(
        self, rows: list[list[str]], grades: Sequence[StudentGrades], max_points: Mapping[str, float]
    ) -> list[list[str]]:
        """Return Moodle's rows with the grades filled in.

        Raises the same errors as `fill`, and ValueError if a lesson has no column, because Moodle rejects
        columns that it didn't export.
        """
        header, *students = rows
        # A column is called "01-attention (Real)" or "Assignment: 01-attention (Real)", for example. If
        # Moodle exports feedback or other kinds of grades as well, their columns are further to the right.
        columns = _columns(header, max_points, r"(.+[:：]\s*)?{}( \((?!Percentage|Letter|Feedback)\w+\))?")
        if missing := [lesson for lesson in max_points if lesson not in columns]:
            raise ValueError(
                f"Moodle has no grade item for {', '.join(missing)}. Add the items in Moodle and export the "
                "grades again, or choose other lessons with --assignment."
            )
        return [header, *self.fill(header, students, grades, columns)]


class FeedbackArchive(CourseExporter):
    """An nbgrader exporter that packs a lesson's feedback into an archive for Canvas or Moodle.

    Run it with `nbgrader export --exporter=autograder.reports.learning_management.FeedbackArchive
    --assignment=LESSON`.
    """

    downloaded_directory = Unicode(
        "downloaded", help="The folder of the downloads, as in ZipCollectApp.downloaded_directory."
    ).tag(config=True)

    def write(self, gradebook: Gradebook) -> None:
        """Write the archive to `to`, or to feedback-LESSON.zip by default.

        Students with a submission from a download but no feedback, and students with feedback but no such
        submission, are logged. Raises ValueError, and writes nothing, if not exactly one lesson is chosen, if
        no downloaded submission was collected, or if none of them has feedback.
        """
        if len(self.assignment) != 1:
            raise ValueError("choose one lesson, for example --assignment=01-attention")
        lesson = str(self.assignment[0])
        folder = Path(self.course.root, self.downloaded_directory, lesson)
        prefixes = read_prefixes(folder)
        if not prefixes:
            raise ValueError(
                f"{folder} contains no names of downloaded submissions; collect them with "
                f"`nbgrader zip_collect {lesson} --force`"
            )
        pages = {
            student: sorted(
                Path(self.course.format_path(self.course.feedback_directory, student, lesson)).glob("*.html")
            )
            for student in sorted({student.id for student in gradebook.students} | prefixes.keys())
            if self.wants_student(student)
        }
        if missing := [student for student in pages if student in prefixes and not pages[student]]:
            self.log.warning("%s: not in the archive, because there is no feedback", ", ".join(missing))
        if others := [student for student in pages if student not in prefixes and pages[student]]:
            self.log.warning(
                "%s: not in the archive, because the submission is not from a download",
                ", ".join(others),
            )
        self.warn_of_unmarked(gradebook, lesson, "the feedback shows no points for these answers")
        packed = [
            (page, prefixes[student] + page.name)
            for student in pages.keys() & prefixes.keys()
            for page in pages[student]
        ]
        if not packed:
            raise ValueError(f"there is no feedback; run `nbgrader generate_feedback {lesson}` first")
        target = Path(self.to or f"feedback-{lesson}.zip")
        with (
            atomic_write(target) as file,
            zipfile.ZipFile(file, "w", compression=zipfile.ZIP_DEFLATED) as archive,
        ):
            for page, name in sorted(packed):
                archive.write(page, name)
        self.log.info("Wrote %s with %d files", target, len(packed))


def _columns(header: Sequence[str], lessons: Iterable[str], pattern: str) -> dict[str, int]:
    """Return the index of each lesson's first column. Lessons without a column are omitted.

    `pattern` is a regular expression for the column's name, with `{}` in place of the lesson's name.
    """
    return {
        lesson: number
        for lesson in lessons
        for number, name in reversed([*enumerate(header)])
        if re.fullmatch(pattern.format(re.escape(lesson)), name)
    }


def _is_other_number(text: str, number: float) -> bool:
    """Return whether a text contains a number that differs from `number`."""
    try:
        return float(text.replace(",", ".")) != number
    except ValueError:
        return False


def _last_first(grade: StudentGrades) -> str:
    return ", ".join(filter(None, (grade.last_name, grade.first_name))) or grade.id


def _points(grade: StudentGrades, max_points: Mapping[str, float]) -> list[str]:
    return [rounded(grade.points[lesson], 4) if lesson in grade.points else "" for lesson in max_points]
