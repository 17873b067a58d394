"""Files that are handed in, from course.toml to the cell that checks them."""

import pytest

from autograder.release.consistency import inconsistencies
from autograder.release.solution_notebook import solution_notebook
from course_lib.curriculum.course_file import CourseError, load_curriculum
from tests.autograder.small_course import LESSON, SmallCourse, cell_of

ASKED = """

[[lessons.hand_ins]]
name = "hand_in_translations"
file = "translations.txt"
points = 8
levels = { captions = [[30, 2], [86, 8]] }
"""
CELL = '\n# %% check="hand_in_translations"\n'


@pytest.fixture
def asking(small: SmallCourse) -> SmallCourse:
    """A course that asks for a file."""
    for name, more in (("course.toml", ASKED), (f"{LESSON}/{LESSON}.py", CELL)):
        path = small.root / "solutions" / name
        small.write(f"solutions/{name}", path.read_text(encoding="utf-8") + more)
    return small


def test_it_counts_as_a_graded_cell(asking: SmallCourse) -> None:
    [lesson] = load_curriculum(asking.root).lessons
    assert "hand_in_translations" not in lesson.written
    assert lesson.points["check_hand_in_translations"] == 8


def test_its_cell_says_what_a_score_is_worth(asking: SmallCourse) -> None:
    curriculum = load_curriculum(asking.root)
    cell = cell_of(solution_notebook(asking.root, curriculum.lessons[0]), "check_hand_in_translations")
    assert cell.metadata.nbgrader.points == 8
    assert cell.metadata.nbgrader.locked
    assert cell.source.splitlines() == [
        "check(",
        '    "hand_in_translations",',
        "    globals(),",
        '    levels={"captions": [[30, 2], [86, 8]]},',
        "    ### BEGIN HIDDEN TESTS",
        '    grading={"points": 8, "seed": 5},',
        "    ### END HIDDEN TESTS",
        ")",
    ]
    assert inconsistencies(curriculum.lessons) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[86, 8]", "[86, 7]", "the best level of captions must earn all 8 points, got 7"),
        ("[[30, 2], [86, 8]]", "[]", "the best level of captions must earn all 8 points, got 0"),
        ("[86, 8]", "[86]", "lesson 01-scores, hand_in hand_in_translations, levels"),
        ('"translations.txt"', '"../course.toml"', "file: expected the name of a file next to the notebook"),
        ('"translations.txt"', '"01-scores.ipynb"', "file: expected the name of a file next to the notebook"),
        ('"translations.txt"', '"Makefile"', "with an ending such as .txt or .yaml, got 'Makefile'"),
        ('"translations.txt"', '"run.zip"', "web pages and archives can't be handed in"),
        ('"translations.txt"', '"timestamp.txt"', "file: expected the name of a file next to the notebook"),
        ('"hand_in_translations"', '"attention_scores"', "attention_scores: 2 entries have this name"),
    ],
)
def test_an_invalid_course_file_is_refused(asking: SmallCourse, old: str, new: str, says: str) -> None:
    asking.change_manifest(old, new)
    with pytest.raises(CourseError) as refused:
        load_curriculum(asking.root)
    assert any(says in problem for problem in refused.value.problems), refused.value.problems


def test_a_file_that_no_check_knows_is_refused(asking: SmallCourse) -> None:
    asking.change_manifest('"hand_in_translations"', '"hand_in_poem"')
    [problem] = inconsistencies(load_curriculum(asking.root).lessons)
    assert "hand_in_poem: course_lib.checks has no check with this name" in problem


def test_another_file_than_the_check_reads_is_refused(asking: SmallCourse) -> None:
    asking.change_manifest('"translations.txt"', '"translation.txt"')
    [problem] = inconsistencies(load_curriculum(asking.root).lessons)
    assert "file: expected translations.txt, which the check reads, got translation.txt" in problem


def test_a_cell_has_to_be_there_for_it(asking: SmallCourse) -> None:
    asking.change_source(CELL, "")
    curriculum = load_curriculum(asking.root)
    with pytest.raises(CourseError, match='no cell check="hand_in_translations"'):
        solution_notebook(asking.root, curriculum.lessons[0])
