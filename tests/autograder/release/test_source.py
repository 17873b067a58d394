from dataclasses import replace

import pytest

from autograder.release.source import SourceCell, read_source
from course_lib.curriculum.course_file import CourseError, load_curriculum
from tests.autograder.small_course import SmallCourse


def read(course: SmallCourse) -> list[SourceCell]:
    return read_source(course.root, load_curriculum(course.root).lessons[0])


def test_each_cell_has_its_role_and_name(small: SmallCourse) -> None:
    assert [(cell.role, cell.name) for cell in read(small)] == [
        ("text", ""),
        ("given", "setup"),
        ("predict", "predict_spread"),
        ("check", "predict_spread"),
        ("build", "attention_scores"),
        ("hints", "attention_scores"),
        ("check", "attention_scores"),
        ("see", ""),
        ("code", ""),
        ("text", ""),
        ("explain", "explain_root"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('# %% given="setup"', '# %% givne="setup"', "line 4 ('import math'): the header's 'givne' is not"),
        (
            '# %% given="setup"',
            '# %% given="setup" build="x"',
            "has one role, but this one has given and build",
        ),
        (
            '# %% given="setup"',
            '# %% given="setup" tags=["see"]',
            "has one role, but this one has given and tags",
        ),
        ('# %% given="setup"', "# %% given=setup", "the header's 'incorrectly_encoded_metadata' is not"),
        ('# %% given="setup"', '# %% given=["setup"]', "the role given needs a name in quotes"),
        (
            '# %% given="setup"',
            '# %% [markdown] given="setup"',
            'given="setup" must be a code cell. Begin it',
        ),
        ('# %% given="setup"', '# %% given="explain_root"', "another cell has the same name"),
        ('# %% [markdown] hints="', '# %% hints="', "must be a markdown cell. Begin it with # %% [markdown]"),
        ('# %% tags=["see"]', '# %% tags=["sea"]', "tags=['sea'] is not supported"),
        ('# %% tags=["see"]', "# %% A title", "the header's 'title' is not supported"),
        ("# %%\n# A cell", "# %% [raw]\n# A cell", "a raw cell is not supported"),
        (
            '# %% [markdown] hints="attention_scores"\n',
            "",
            'no cell hints="attention_scores". Add it',
        ),
        ('# %% check="attention_scores"\n', "", 'no cell check="attention_scores". Add it'),
        ('# %% check="predict_spread"\n', "", 'no cell check="predict_spread". Add it'),
        (
            '# %% check="predict_spread"',
            '# %% check="attention_scores"',
            "occurs 2 times. Remove all but one.",
        ),
        (
            '# %% [markdown] hints="attention_scores"',
            '# %% [markdown] hints="predict_spread"',
            'hints="predict_spread": course.toml has no such entry. It has: attention_sc',
        ),
    ],
)
def test_invalid_cells_are_refused_by_name(small: SmallCourse, old: str, new: str, says: str) -> None:
    small.change_source(old, new)
    with pytest.raises(CourseError) as refused:
        read(small)
    assert any(says in problem for problem in refused.value.problems), refused.value.problems
    assert all(problem.startswith("solutions/01-scores/01-scores.py") for problem in refused.value.problems)


@pytest.mark.parametrize(
    ("table", "role"),
    [("exercise", "build"), ("prediction", "predict"), ("explanation", "explain")],
)
def test_cells_missing_from_the_course_file_are_refused(small: SmallCourse, table: str, role: str) -> None:
    text = (small.root / "solutions/course.toml").read_text()
    before, _, entry = text.partition(f"[[lessons.{table}s]]")
    rest = entry[entry.index("[[") :] if "[[" in entry else ""
    small.write("solutions/course.toml", before + rest)
    with pytest.raises(CourseError) as refused:
        read(small)
    assert any(
        f'cell {role}="' in problem and "course.toml has no such entry" in problem
        for problem in refused.value.problems
    )


def test_exercises_in_another_order_than_in_the_course_file_are_refused(small: SmallCourse) -> None:
    [lesson] = load_curriculum(small.root).lessons
    second = replace(lesson.exercises[0], name="attention_weights")
    small.change_source(
        '# %% tags=["see"]',
        "# %% "
        + "\n\n# %% ".join(
            [
                'build="attention_weights"',
                '[markdown] hints="attention_weights"',
                'check="attention_weights"',
                'tags=["see"]',
            ]
        ),
    )
    assert read_source(small.root, replace(lesson, exercises=[lesson.exercises[0], second]))
    with pytest.raises(CourseError, match="attention_weights, attention_scores, got attention_scores"):
        read_source(small.root, replace(lesson, exercises=[second, lesson.exercises[0]]))


def test_the_lines_are_unknown_if_a_cell_has_no_header(small: SmallCourse) -> None:
    assert read(small)[1].location == 'solutions/01-scores/01-scores.py, line 4, given="setup"'
    small.change_source("# %% [markdown]\n# # A small lesson", "# Without a header")
    assert read(small)[1].location == 'solutions/01-scores/01-scores.py, cell 2, given="setup"'


def test_a_lesson_without_a_source_is_refused(small: SmallCourse) -> None:
    (small.root / "solutions/01-scores/01-scores.py").unlink()
    with pytest.raises(CourseError, match=r"01-scores\.py: no such file, but course.toml lists this lesson"):
        read(small)
