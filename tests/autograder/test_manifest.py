import pytest
from small_course import SmallCourse

from autograder.errors import CourseError
from autograder.release.manifest import load_manifest


def test_points_are_by_grade_cell(small: SmallCourse) -> None:
    [lesson] = load_manifest(small.root).lesson
    assert lesson.points == {"check_predict_spread": 1, "check_attention_scores": 4, "explain_root": 2}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("points = 4", "points = 0", "exercise attention_scores, points: Input should be greater than 0"),
        ("points = 4", "points = -1", "exercise attention_scores, points: Input should be greater than 0"),
        ("points = 4", "pionts = 4", "exercise attention_scores, pionts: no such key is known here"),
        ("points = 4", "", "exercise attention_scores, points: is missing"),
        ("seed = 5", "seed = 'five'", "lesson 01-scores, seed: Input should be a valid integer"),
        ('"It is a product of matrices."', '" "', "exercise attention_scores, hints: hint 2 is empty"),
        (', "Divide by the root."', "", "expected 3 hints, from gentle to plain, and found 2"),
        ("not_scaled = 2.5", "not_scaled = 5", "the slip not_scaled costs 5, more than all 4 points"),
        ('"predict_spread"', '"attention_scores"', "attention_scores: its name stands there twice"),
        ('"01-scores"', '"scores"', "lesson scores, name: String should match pattern"),
        ('"data/words.txt"', '"data/wrods.txt"', "01-scores/data/wrods.txt is not there; add it"),
        ('"data/words.txt"', '"../secret"', "must be a path inside the folder"),
        ('"data/words.txt"', '"01-scores.ipynb"', "is no file to hand out as it is"),
        ('title = "A small course"', "title = ", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_said_by_name(small: SmallCourse, old: str, new: str, says: str) -> None:
    small.change_manifest(old, new)
    with pytest.raises(CourseError) as refused:
        load_manifest(small.root)
    assert any(says in problem for problem in refused.value.problems), refused.value.problems
    for problem in refused.value.problems:
        assert problem.startswith("solutions/course.toml")
        assert "\n" not in problem


def test_lessons_stand_in_order_and_once(small: SmallCourse) -> None:
    [header, lesson] = (small.root / "solutions/course.toml").read_text().split("[[lesson]]")
    small.write("solutions/course.toml", "[[lesson]]".join([header, lesson, lesson]))
    with pytest.raises(CourseError, match="lesson 01-scores: its name stands there twice"):
        load_manifest(small.root)
    earlier = lesson.replace("01-scores", "00-before").replace("data/words.txt", "").replace('[""]', "[]")
    small.write("solutions/course.toml", "[[lesson]]".join([header, lesson, earlier]))
    with pytest.raises(CourseError, match="in the order of their numbers; found 01-scores, 00-before"):
        load_manifest(small.root)


def test_a_folder_without_a_manifest_is_no_course(small: SmallCourse) -> None:
    (small.root / "solutions/course.toml").unlink()
    with pytest.raises(CourseError, match="there is no such file"):
        load_manifest(small.root)
