"""A class graded with nbgrader's real commands, as an instructor runs them, has the exact expected scores."""

import copy
import csv
import html
import io
import os
import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from rich.console import Console

from autograder.demo import copy_course, first_verdict, score_table
from autograder.example_class import ExampleSubmission, example_lesson, hand_in, partial_mistake
from autograder.graded_notebooks.feedback import CHECK_ERROR
from autograder.nbgrader.install import install
from autograder.release.build import COURSE
from autograder.release.lessons import released, write_lessons
from course_lib.checks import CheckError
from course_lib.curriculum import Lesson
from course_lib.curriculum.course_file import load_curriculum
from tests.autograder.nbgrader.classroom import RIGHT, solved
from tests.autograder.small_course import LESSON, SmallCourse, cell_of
from tests.made_once import made_once
from tests.nbgrader_command import nbgrader

pytestmark = pytest.mark.sandbox

ATTACK = (
    'I say <script>alert(1)</script><img src="x" onerror="alert(2)"> [this](javascript:alert(3)). **Really.**'
)


@dataclass(frozen=True)
class GradedClass:
    """A copy of the real course, in which a class has done one lesson."""

    root: Path
    lesson: Lesson
    submissions: list[ExampleSubmission]

    @property
    def classroom(self) -> Path:
        """The folder in which the commands are run."""
        return self.root / "autograder"

    def autograded(self, student: str) -> NotebookNode:
        return nbformat.read(self._file("autograded", student, "ipynb"), as_version=4)

    def feedback(self, student: str) -> str:
        return self._file("feedback", student, "html").read_text(encoding="utf-8")

    def scores(self, student: str) -> dict[str, float]:
        """Return a student's scores in the gradebook, by grade cell."""
        with Gradebook(f"sqlite:///{self.classroom}/gradebook.db") as gradebook:
            notebook = gradebook.find_submission_notebook(self.lesson.name, self.lesson.name, student)
            return {grade.name: grade.score for grade in notebook.grades}

    def _file(self, step: str, student: str, suffix: str) -> Path:
        return self.classroom / step / student / self.lesson.name / f"{self.lesson.name}.{suffix}"


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> GradedClass:
    return made_once(tmp_path_factory, "graded", lambda: grade(tmp_path_factory.mktemp("graded") / "course"))


def grade(root: Path) -> GradedClass:
    copy_course(COURSE, root)
    # As in the repository, the commands' working folder contains a package called nbgrader.
    (root / "autograder" / "nbgrader").mkdir()
    (root / "autograder" / "nbgrader" / "__init__.py").write_text(
        "raise ImportError('not nbgrader')\n", "utf-8"
    )
    lesson = example_lesson(load_curriculum(root))
    nbgrader(root / "autograder", "generate_assignment", lesson.name)
    submissions = hand_in(root, lesson)
    submissions.append(hand_in_spoilt(root, lesson, submissions[0].notebook))
    nbgrader(root / "autograder", "autograde", lesson.name)
    nbgrader(root / "autograder", "generate_feedback", lesson.name)
    nbgrader(root / "autograder", "export")
    return GradedClass(root, lesson, submissions)


def hand_in_spoilt(root: Path, lesson: Lesson, right: NotebookNode) -> ExampleSubmission:
    """Submit a correct lesson without its last check, and with an explanation that attacks a browser."""
    notebook = copy.deepcopy(right)
    last_check = f"check_{lesson.exercises[-1].name}"
    notebook.cells = [cell for cell in notebook.cells if cell.id != last_check]
    cell_of(notebook, lesson.explanations[0].name).source = ATTACK
    folder = root / "autograder" / "submitted" / "felix" / lesson.name
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / f"{lesson.name}.ipynb")
    return ExampleSubmission("felix", "right, with an attack", notebook)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def expected_scores(lesson: Lesson) -> dict[str, dict[str, float]]:
    """Return the points that each student has earned before a person has read the explanations."""
    nothing = dict.fromkeys(lesson.points, 0.0)
    right = nothing | {f"check_{name}": float(entry.points) for name, entry in lesson.checked.items()}
    mistake = partial_mistake(lesson)
    left = mistake.exercise.points - mistake.exercise.deductions[mistake.misconception.name]
    return {
        "amara": right,
        "bruno": right | {f"check_{mistake.exercise.name}": left},
        "chiyo": nothing,
        "daria": right | {f"check_{lesson.exercises[-1].name}": 0.0},
        "emeka": nothing,
        "felix": right,
    }


def test_the_slip_of_the_example_leaves_some_points(graded: GradedClass) -> None:
    mistake = partial_mistake(graded.lesson)
    cost = mistake.exercise.deductions[mistake.misconception.name]
    assert 0 < cost < mistake.exercise.points


@pytest.mark.parametrize("student", ["amara", "bruno", "chiyo", "daria", "emeka", "felix"])
def test_the_gradebook_holds_the_expected_scores(graded: GradedClass, student: str) -> None:
    assert graded.scores(student) == expected_scores(graded.lesson)[student]


def test_the_export_holds_the_sums(graded: GradedClass) -> None:
    rows = csv.DictReader(io.StringIO((graded.classroom / "grades.csv").read_text()))
    found = {row["student_id"]: (float(row["score"]), float(row["max_score"])) for row in rows}
    max_points = sum(graded.lesson.points.values())
    assert found == {
        student: (sum(scores.values()), max_points)
        for student, scores in expected_scores(graded.lesson).items()
    }


def test_only_answers_in_words_wait_for_a_person(graded: GradedClass) -> None:
    explanations = {entry.name for entry in graded.lesson.explanations}
    with Gradebook(f"sqlite:///{graded.classroom}/gradebook.db") as gradebook:
        for submission in graded.submissions:
            notebook = gradebook.find_submission_notebook(
                graded.lesson.name, graded.lesson.name, submission.student
            )
            waiting = {grade.name for grade in notebook.grades if grade.needs_manual_grade}
            # An unchanged answer is worth nothing, and nobody has to read it.
            assert waiting == (set() if submission.student in ("chiyo", "emeka") else explanations)


def test_a_check_that_was_tagged_to_be_skipped_was_run(graded: GradedClass) -> None:
    told = graded.autograded("emeka").metadata.course_grading.tampering
    assert any("skip-execution" in line for line in told)
    for name in graded.lesson.checked:
        cell = cell_of(graded.autograded("emeka"), f"check_{name}")
        assert "tags" not in cell.metadata
        assert [output.output_type for output in cell.outputs] == ["error"]


def test_the_release_is_what_is_built(graded: GradedClass) -> None:
    with released(graded.root) as folder:
        built = contents(folder / graded.lesson.name)
    assert built == contents(graded.root / "lessons" / graded.lesson.name)


def test_sources_are_copied_nowhere(graded: GradedClass) -> None:
    assert not list((graded.root / "lessons").rglob("*.py"))
    assert not list((graded.classroom / "autograded").rglob("*.py"))


def test_a_lesson_fails_validation_on_each_graded_cell_until_it_is_solved(small: SmallCourse) -> None:
    write_lessons(small.root)
    folder = small.root / "lessons" / LESSON

    def validate() -> str:
        return nbgrader(small.root / "autograder", "validate", f"../lessons/{LESSON}/{LESSON}.ipynb").stdout

    said = validate()
    assert "VALIDATION FAILED ON 3 CELL(S)" in said
    assert "attention_scores is yours to write: lesson 01, exercise " in said
    notebook = solved(small.released())
    for source, expected in (
        # The check would draw this result, but the sandbox has too little address space for a picture.
        ("def attention_scores(query, key):\n    return query @ key.mT", "VALIDATION FAILED ON 1 CELL(S)"),
        (RIGHT, "Success! Your notebook passes all the tests.\n"),
    ):
        cell_of(notebook, "attention_scores").source = source
        nbformat.write(notebook, folder / f"{LESSON}.ipynb")
        assert expected in validate()


@pytest.mark.parametrize("student", ["amara", "bruno", "chiyo", "daria", "emeka", "felix"])
def test_feedback_shows_no_hidden_test_and_no_mark_scheme(graded: GradedClass, student: str) -> None:
    page = graded.feedback(student)
    text = re.sub(r"<[^>]+>", "", page)
    for secret in ("grading=", f'"seed": {graded.lesson.seed}', "HIDDEN TESTS", "ark scheme", "MARK SCHEME"):
        assert secret not in text


def test_feedback_shows_verdicts_and_pictures(graded: GradedClass) -> None:
    mistake = partial_mistake(graded.lesson)
    bruno = graded.feedback("bruno")
    assert f"✗ {mistake.exercise.name}: {mistake.misconception.statement}" in bruno
    assert "data:image/svg+xml;base64," in bruno
    assert "Score: 0.0 / 4.0" in graded.feedback("daria")
    missing = f"✗ {graded.lesson.exercises[-1].name}: nothing with this name is defined."
    assert missing in html.unescape(graded.feedback("daria"))
    assert "Hint 1 of 3</summary>" in graded.feedback("chiyo")
    assert CheckError.__name__ == CHECK_ERROR


def test_feedback_is_harmless(graded: GradedClass) -> None:
    page = graded.feedback("felix")
    assert "<script>alert" not in page
    assert "onerror" not in page
    assert "javascript:alert" not in page
    assert "I say &lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<strong>Really.</strong>" in page


def test_graders_see_the_mark_scheme_below_each_answer(graded: GradedClass) -> None:
    cells = graded.autograded("amara").cells
    for entry in graded.lesson.explanations:
        [place] = [index for index, cell in enumerate(cells) if cell.id == entry.name]
        scheme = cells[place + 1]
        assert scheme.metadata.tags == ["mark-scheme"]
        assert "1 point:" in scheme.source
        assert "### " not in scheme.source


def test_graded_notebooks_stay_small(graded: GradedClass) -> None:
    for submission in graded.submissions:
        assert len(nbformat.writes(graded.autograded(submission.student))) < 500_000


def test_the_demo_reads_the_scores(graded: GradedClass) -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(score_table(graded.classroom, graded.lesson, graded.submissions))
    [last_row] = [line for line in console.export_text().splitlines() if line.startswith("│ score")]
    sums = [sum(scores.values()) for scores in expected_scores(graded.lesson).values()]
    assert last_row.replace("│", "").split()[2:] == [f"{score:g}" for score in sums]
    mistake = partial_mistake(graded.lesson)
    verdicts = [
        first_verdict(
            graded.classroom / "autograded" / student / graded.lesson.name / f"{graded.lesson.name}.ipynb"
        )
        for student in ("amara", "bruno", "daria")
    ]
    assert verdicts == [
        "✓ all correct",
        f"✗ {mistake.exercise.name}: {mistake.misconception.statement}.",
        f"✗ {graded.lesson.exercises[-1].name}: nothing with this name is defined.",
    ]


def test_a_new_gradebook_has_the_mode_that_the_umask_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))  # nbgrader starts `alembic`
    install()
    before = os.umask(0o007)
    try:
        Gradebook(f"sqlite:///{tmp_path}/gradebook.db").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "gradebook.db").stat().st_mode) == 0o660
