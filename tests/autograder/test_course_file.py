import pytest

from course_lib.curriculum.course_file import CourseError, load_curriculum
from tests.autograder.small_course import SmallCourse


def test_points_are_by_grade_cell(small: SmallCourse) -> None:
    [lesson] = load_curriculum(small.root).lessons
    assert lesson.points == {"check_predict_spread": 1, "check_attention_scores": 4, "explain_root": 2}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("points = 4", "points = 0", "attention_scores, points: expected a positive number, got 0"),
        ("points = 4", "points = -1", "attention_scores, points: expected a positive number, got -1"),
        (
            "points = 4",
            "points = 'many'",
            "exercise attention_scores, points: Input should be a valid integer",
        ),
        ("points = 4", "pionts = 4", "exercise attention_scores, pionts: unknown key"),
        ("points = 4", "", "exercise attention_scores, points: is missing"),
        ("seed = 5", "seed = 'five'", "lesson 01-scores, seed: Input should be a valid integer"),
        ('"It is a product of matrices."', '" "', "attention_scores, hints: hint 2 is empty"),
        (', "Divide by the root."', "", "hints: expected 3, from vague to explicit, got 2"),
        (
            "not_scaled = 2.5",
            "not_scaled = 5",
            "deductions: not_scaled must cost more than 0 and at most 4 points, got 5",
        ),
        ('"predict_spread"', '"attention_scores"', "attention_scores: 2 entries have this name"),
        ('"01-scores"', '"scores"', "lesson scores, name: expected two digits"),
        ('"data/words.txt"', '"data/wrods.txt"', "01-scores/data/wrods.txt does not exist"),
        ('"data/words.txt"', '"../secret"', "files: expected paths inside the folder, got '../secret'"),
        ('"data/words.txt"', '"01-scores.ipynb"', "files: '01-scores.ipynb' cannot be handed out unchanged"),
        ('title = "Scores"', "title = ", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_said_by_name(small: SmallCourse, old: str, new: str, says: str) -> None:
    small.change_manifest(old, new)
    with pytest.raises(CourseError) as refused:
        load_curriculum(small.root)
    assert any(says in problem for problem in refused.value.problems), refused.value.problems
    for problem in refused.value.problems:
        assert problem.startswith("solutions/course.toml")
        assert "\n" not in problem


def test_lessons_are_in_order_and_unique(small: SmallCourse) -> None:
    [header, lesson] = (small.root / "solutions/course.toml").read_text().split("[[lessons]]")
    small.write("solutions/course.toml", "[[lessons]]".join([header, lesson, lesson]))
    with pytest.raises(CourseError, match="lesson 01-scores: 2 lessons have this name"):
        load_curriculum(small.root)
    earlier = lesson.replace("01-scores", "00-before").replace("data/words.txt", "").replace('[""]', "[]")
    small.write("solutions/course.toml", "[[lessons]]".join([header, lesson, earlier]))
    with pytest.raises(CourseError, match="in the order of their numbers, got 01-scores, 00-before"):
        load_curriculum(small.root)


def test_a_course_file_in_another_encoding_is_refused(small: SmallCourse) -> None:
    path = small.root / "solutions" / "course.toml"
    path.write_bytes(path.read_bytes() + b"# caf\xe9\n")
    with pytest.raises(CourseError, match=r"solutions/course\.toml: not valid TOML: 'utf-8' codec"):
        load_curriculum(small.root)


def test_a_folder_without_a_course_file_is_refused(small: SmallCourse) -> None:
    (small.root / "solutions/course.toml").unlink()
    with pytest.raises(CourseError, match="no such file"):
        load_curriculum(small.root)
