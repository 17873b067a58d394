"""A class whose explanations wait for graders, and a marking page that is served to a test."""

import asyncio
import json
import os
import re
import shutil
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell, new_notebook
from nbgrader.api import Comment, Grade, Gradebook, Student, SubmittedAssignment, SubmittedNotebook

from autograder.marking.answers import LessonAnswers, Question
from autograder.marking.comment_bank import CommentBank
from autograder.marking.server import MarkingServer
from autograder.nbgrader.course_folder import CourseFolder
from tests.made_once import made_once

LESSON, NAME = "01-sums", "explain_sums"
SCHEME = """\
They add up.

### BEGIN MARK SCHEME
- 1 point: the variances of *independent* terms.
- 2 points: they add up,
  so the root grows.
### END MARK SCHEME
"""
CONFIG = """\
from pathlib import Path
root = Path(__file__).resolve().parents[1]
c = get_config()
c.CourseDirectory.root = str(root)
c.CourseDirectory.course_id = "a-course"
c.CourseDirectory.db_url = f"sqlite:///{root}/gradebook.db"
c.CourseDirectory.autograded_directory = "autograder/autograded"
c.CourseDirectory.groupshared = True
"""


def _about(**kind: bool) -> dict[str, Any]:
    plain = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    return {"nbgrader": {**plain, "grade_id": NAME, **kind}}


@dataclass
class MarkedClass:
    """A course with one explanation, and the actions of its students and graders."""

    root: Path

    @classmethod
    def make(cls, root: Path, tmp_path_factory: pytest.TempPathFactory) -> "MarkedClass":
        """Create a course without submissions by copying one, which is faster than creating a gradebook."""

        def make() -> Path:
            return cls._make(tmp_path_factory.mktemp("marked") / "course").root

        shutil.copytree(made_once(tmp_path_factory, "marked_class", make), root)
        return cls(root)

    @classmethod
    def _make(cls, root: Path) -> "MarkedClass":
        (root / "autograder").mkdir(parents=True)
        (root / "autograder/nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
        cells = [
            new_markdown_cell("Some text.\n\n### Explain it\n\nWhy **the root**?"),
            new_markdown_cell(SCHEME, metadata=_about(grade=True, solution=True)),
        ]
        (root / "solutions" / LESSON).mkdir(parents=True)
        nbformat.write(new_notebook(cells=cells), root / "solutions" / LESSON / f"{LESSON}.ipynb")
        made = cls(root)
        with pytest.MonkeyPatch.context() as patch:
            # nbgrader creates a gradebook with the program `alembic`.
            patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
            with made.gradebook() as book:
                book.add_assignment(LESSON)
                book.add_notebook(LESSON, LESSON)
                book.add_grade_cell(NAME, LESSON, LESSON, max_score=3, cell_type="markdown")
                book.add_solution_cell(NAME, LESSON, LESSON)
        return made

    def gradebook(self) -> Gradebook:
        """Open the gradebook as Formgrader does."""
        return Gradebook(f"sqlite:///{self.root}/gradebook.db", "a-course")

    def hand_in(self, answers: Mapping[str, str], attachments: Mapping[str, Any] | None = None) -> None:
        """Write graded notebooks as grading does. An empty answer stands for an unchanged cell."""
        with self.gradebook() as book, book.db.no_autoflush:
            notebook = book.find_notebook(LESSON, LESSON)
            known = {one.student_id: one for one in book.find_assignment(LESSON).submissions}
            for student, text in answers.items():
                if student not in known:
                    # Commit once for the whole class. nbgrader's methods would commit once for each student.
                    person = Student(id=student, first_name=student.title(), last_name="Doe")
                    known[student] = SubmittedAssignment(assignment=notebook.assignment, student=person)
                    submitted = SubmittedNotebook(notebook=notebook, assignment=known[student])
                    submitted.grades = [Grade(cell=cell) for cell in notebook.grade_cells]
                    submitted.comments = [Comment(cell=cell) for cell in notebook.solution_cells]
                    book.db.add(person)
                grade = known[student].notebooks[0].grades[0]
                grade.auto_score = None if text else 0
                grade.needs_manual_grade = bool(text) or grade.manual_score is not None
                cell = new_markdown_cell(text, metadata=_about(grade=True, solution=True))
                if attachments:
                    cell.attachments = attachments
                path = self.root / "autograder/autograded" / student / LESSON / f"{LESSON}.ipynb"
                path.parent.mkdir(parents=True, exist_ok=True)
                nbformat.write(new_notebook(cells=[cell]), path)
            book.db.commit()

    def mark_in_formgrader(self, student: str, points: float, comment: str) -> None:
        """Save a grade and a comment as Formgrader's handlers do."""
        with self.gradebook() as book:
            grade = book.find_grade(NAME, LESSON, LESSON, student)
            grade.manual_score, grade.extra_credit, grade.needs_manual_grade = points, 0.5, False
            book.find_comment(NAME, LESSON, LESSON, student).manual_comment = comment
            book.db.commit()

    def in_formgrader(self, student: str) -> tuple[float | None, float | None, bool, str | None]:
        """Return Formgrader's view of an answer: points, extra credit, whether it awaits grading, comment."""
        with self.gradebook() as book:
            grade = book.find_grade(NAME, LESSON, LESSON, student).to_dict()
            comment = book.find_comment(NAME, LESSON, LESSON, student).to_dict()
        waits = grade["needs_manual_grade"]
        return grade["manual_score"], grade["extra_credit"], waits, comment["manual_comment"]

    def answers(self) -> LessonAnswers:
        """Open the lesson as a grader's `course mark` does."""
        return LessonAnswers(CourseFolder(self.root), LESSON)

    def bank(self) -> CommentBank:
        """Open the comment bank as a grader's `course mark` does."""
        return CommentBank(self.root / "autograder", self.root, LESSON, shared=True)

    def question(self) -> Question:
        """Return the only question."""
        return self.answers().questions[0]


@contextmanager
def served(server: MarkingServer) -> Iterator[str]:
    """Serve the page from a thread, and yield its address."""
    loop = asyncio.new_event_loop()
    started = threading.Event()
    addresses: list[str] = []

    async def serve() -> None:
        http, address = server.listen()
        addresses.append(address)
        started.set()
        await stopped.wait()
        http.stop()
        await http.close_all_connections()

    stopped = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert started.wait(30)
        yield addresses[0]
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
        loop.close()


class Browser:
    """A minimal browser that loads the page and sends the requests of its script."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self.xsrf = ""
        self.policy = ""

    def get(self, path: str = "", **headers: str) -> tuple[int, str]:
        """Load a page, and return the status code and the text."""
        return self._open(urllib.request.Request(self.address + path, headers=headers))

    def load(self, options: str = "?show=all") -> str:
        """Load the page of the question."""
        code, page = self.get(f"questions/{LESSON}/{NAME}{options}")
        assert code == 200, page
        found = re.search(r'data-xsrf="([^"]+)"', page)
        assert found
        self.xsrf = found[1]
        return page

    def post(self, path: str, **content: object) -> tuple[int, dict[str, Any]]:
        """Send a POST request with JSON, and return the status code and the reply."""
        body = json.dumps({"notebook": LESSON, "question": NAME, **content}).encode()
        headers = {"Content-Type": "application/json", "X-XSRFToken": self.xsrf}
        code, reply = self._open(urllib.request.Request(self.address + path, body, headers))
        return code, json.loads(reply) if reply.startswith("{") else {"message": reply}

    def _open(self, request: urllib.request.Request) -> tuple[int, str]:
        try:
            with self._opener.open(request, timeout=60) as reply:
                self.policy = reply.headers["Content-Security-Policy"]
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
