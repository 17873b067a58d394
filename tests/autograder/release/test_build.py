import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import course_lib
from autograder.release.build import COURSE, main
from autograder.release.lessons import write_lessons
from autograder.release.solutions import refresh
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.exercises.registry import catalogue
from course_lib.curriculum.course_file import CourseError
from course_lib.transformer import attention_scores
from tests.autograder.small_course import LESSON, SmallCourse, cell_of
from tests.nbgrader_command import try_nbgrader

pytestmark = pytest.mark.slow

CLASS_EXERCISE = """
[[lessons.exercises]]
name = "MultiHeadAttention"
points = 6
hints = ["one", "two", "three"]
write = ["__init__", "forward"]
"""

CLASS_CELLS = """
# %% build="MultiHeadAttention"
### BEGIN SOLUTION course_lib.transformer.multi_head:MultiHeadAttention

# %% [markdown] hints="MultiHeadAttention"

# %% check="MultiHeadAttention"

# %% [markdown]
# Why the root?
"""


def test_students_get_stubs_that_name_their_exercise(small: SmallCourse) -> None:
    write_lessons(small.root)
    notebook = small.released()
    nbformat.validate(notebook)
    assert cell_of(notebook, "predict_spread").source == (
        "# How far do the dot products of two vectors of 64 numbers spread?\n"
        "predict_spread = None  # your number here"
    )
    written, _, stub = cell_of(notebook, "attention_scores").source.rpartition("\n")
    assert written.startswith("def attention_scores(\n")
    assert written.endswith('"""')
    assert stub == (
        '    raise NotImplementedError("attention_scores is yours to write: lesson 01, exercise 1 of 1")'
    )
    assert cell_of(notebook, "check_attention_scores").source == (
        'check(\n    "attention_scores",\n    globals(),\n'
        '    may_not_call=["torch.nn.functional.scaled_dot_product_attention"],\n)'
    )
    assert cell_of(notebook, "check_predict_spread").source == (
        'check(\n    "predict_spread",\n    globals(),\n)'
    )
    assert cell_of(notebook, "explain_root").source == "*Your answer here.*"
    assert cell_of(notebook, "hints_attention_scores").source.count("<details>") == 3


def test_each_method_of_a_class_gets_its_own_stub(small: SmallCourse) -> None:
    small.change_manifest("\n[[lessons.explanations]]", CLASS_EXERCISE + "\n[[lessons.explanations]]")
    small.change_source("\n# %% [markdown]\n# Why the root?\n", CLASS_CELLS)
    write_lessons(small.root)
    source = cell_of(small.released(), "MultiHeadAttention").source
    assert '"MultiHeadAttention.__init__ is yours to write: lesson 01, exercise 2 of 2"' in source
    assert '"MultiHeadAttention.forward is yours to write: lesson 01, exercise 2 of 2"' in source
    assert source.count("raise NotImplementedError") == 2
    assert "nn.Linear(" not in source
    assert '"""Project, split into heads, attend, merge the heads, and project again.' in source
    compile(source, "cell", "exec")


def test_the_solution_notebook_grades_with_hidden_numbers(small: SmallCourse) -> None:
    write_lessons(small.root)
    notebook = small.solution()
    assert cell_of(notebook, "check_attention_scores").source == (
        "check(\n"
        '    "attention_scores",\n'
        "    globals(),\n"
        '    may_not_call=["torch.nn.functional.scaled_dot_product_attention"],\n'
        "    ### BEGIN HIDDEN TESTS\n"
        '    grading={"points": 4, "seed": 5, "costs": {"not_scaled": 2.5}},\n'
        "    ### END HIDDEN TESTS\n"
        ")"
    )
    assert "predict_spread = 32.0" in cell_of(notebook, "predict_spread").source
    assert "MARK SCHEME" in cell_of(notebook, "explain_root").source


def test_cells_have_ids_that_stay(small: SmallCourse) -> None:
    write_lessons(small.root)
    assert [cell.id for cell in small.released().cells] == [
        "01-scores-text-1",
        "setup",
        "predict_spread",
        "check_predict_spread",
        "attention_scores",
        "hints_attention_scores",
        "check_attention_scores",
        "01-scores-see-1",
        "01-scores-code-1",
        "01-scores-text-2",
        "explain_root",
    ]


def test_which_cells_nbgrader_locks_and_grades(small: SmallCourse) -> None:
    write_lessons(small.root)
    kinds = {}
    for cell in small.released().cells:
        if "nbgrader" in cell.metadata:
            meta = cell.metadata.nbgrader
            assert meta.grade_id == cell.id
            kinds[cell.id] = (meta.grade, meta.solution, meta.locked, meta.get("points"))
    assert kinds == {
        "setup": (False, False, True, None),
        "predict_spread": (False, True, False, None),
        "check_predict_spread": (True, False, True, 1),
        "attention_scores": (False, True, False, None),
        "check_attention_scores": (True, False, True, 4),
        "explain_root": (True, True, False, 2),
    }


def test_the_notebook_carries_the_course_version_and_no_trace_of_its_source(small: SmallCourse) -> None:
    write_lessons(small.root)
    assert small.released().metadata == {
        "course": {"lesson": LESSON, "title": "Scores", "minutes": 10, "version": course_lib.__version__},
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    }


def test_files_beside_the_lessons_are_handed_out_and_sources_are_not(small: SmallCourse) -> None:
    write_lessons(small.root)
    lessons = small.root / "lessons"
    found = {path.relative_to(lessons).as_posix() for path in lessons.rglob("*") if path.is_file()}
    agents = {"AGENTS.md", f"{LESSON}/AGENTS.md"}
    assert found == {*agents, f"{LESSON}/{LESSON}.ipynb", f"{LESSON}/data/words.txt"}
    for name in agents:
        assert (lessons / name).read_bytes() == (small.root / "solutions/AGENTS.md").read_bytes()


def test_only_what_changed_is_written(small: SmallCourse) -> None:
    files = (f"{LESSON}/{LESSON}.ipynb", f"{LESSON}/AGENTS.md", f"{LESSON}/data/words.txt", "AGENTS.md")
    assert sorted(write_lessons(small.root)) == sorted(f"lessons/{name}" for name in files)
    assert write_lessons(small.root) == []
    small.change_source("# # A small lesson", "# # Another lesson")
    assert write_lessons(small.root) == [f"lessons/{LESSON}/{LESSON}.ipynb"]
    assert small.released().cells[0].source == "# Another lesson"


def test_nbgraders_own_command_gives_the_same_bytes(small: SmallCourse) -> None:
    write_lessons(small.root)
    lessons = small.root / "lessons"
    built = {path: path.read_bytes() for path in lessons.rglob("*") if path.is_file()}
    # As in a fresh clone: lessons/ exists, but the solution notebooks and the gradebook don't.
    (small.root / "solutions" / LESSON / f"{LESSON}.ipynb").unlink()
    done = try_nbgrader(small.root / "autograder", "generate_assignment", LESSON)
    assert done.returncode == 0, done.stderr
    assert {path: path.read_bytes() for path in lessons.rglob("*") if path.is_file()} == built
    assert (small.root / "autograder/gradebook.db").is_file()


def test_nbgrader_releases_no_lesson_that_is_not_in_order(small: SmallCourse) -> None:
    write_lessons(small.root)
    before = (small.root / "lessons" / LESSON / f"{LESSON}.ipynb").read_bytes()
    small.change_source('# %% check="predict_spread"\n', "")
    done = try_nbgrader(small.root / "autograder", "generate_assignment", LESSON)
    assert done.returncode == 1
    # The problem is reported once, although nbgrader loads its configuration several times.
    assert done.stderr.count("cannot be released") == 1
    assert done.stderr.splitlines()[:2] == [
        "These lessons have problems and cannot be released:",
        "solutions/01-scores/01-scores.py: course.toml has predict_spread, but there is no cell "
        'check="predict_spread". Add it.',
    ]
    assert (small.root / "lessons" / LESSON / f"{LESSON}.ipynb").read_bytes() == before


def test_nbgrader_refuses_an_invalid_course_file(small: SmallCourse) -> None:
    small.change_manifest("points = 4", "points = 0")
    done = try_nbgrader(small.root / "autograder", "generate_assignment", LESSON)
    assert done.returncode == 1
    assert done.stderr == (
        "solutions/course.toml is not valid:\n"
        "solutions/course.toml, lesson 01-scores, attention_scores, points: "
        "expected a positive number, got 0\n"
    )


def test_a_lesson_that_is_not_in_order_holds_up_no_other(small: SmallCourse) -> None:
    small.add_copy("02-scores")
    small.change("solutions/02-scores/02-scores.py", '# %% check="predict_spread"\n', "")
    small.write("solutions/02-scores/02-scores.ipynb", "out of date")
    [problem] = refresh(small.root)
    assert problem.startswith("solutions/02-scores/02-scores.py: course.toml has predict_spread")
    assert small.solution().metadata.course.lesson == LESSON
    assert not (small.root / "solutions/02-scores/02-scores.ipynb").exists()
    assert try_nbgrader(small.root / "autograder", "generate_assignment", LESSON).returncode == 0
    with pytest.raises(CourseError, match="02-scores"):
        write_lessons(small.root)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            ":attention_scores",
            ":attention_socres",
            "expected a reference with the exercise's name, attention_scores, got",
        ),
        ("transformer.attention:", "transformer.atention:", "no module 'course_lib.transformer.atention'"),
        ("### BEGIN SOLUTION course", "### SOLUTION course", "its body must be the one line"),
        (
            "attention:attention_scores\n",
            "attention:attention_scores\nx = 1\n",
            "its body must be the one line",
        ),
        ("# How far do", "answer = 8  # How far do", "its body must be the question, as comment lines only"),
        (
            'check="predict_spread"\n',
            'check="predict_spread"\n1 + 1\n',
            "its body is generated; leave it empty",
        ),
        ("# ### END MARK SCHEME\n", "", "it needs a model answer, and below it a mark scheme"),
        ("# The variances of independent products add up.\n", "", "it needs a model answer, and below it"),
        ("# - 2 points: says", "# - 1.5 points: says", "add up to 1.5, but course.toml gives it 2 points"),
    ],
)
def test_a_cell_that_cannot_be_built_is_named(small: SmallCourse, old: str, new: str, says: str) -> None:
    small.change_source(old, new)
    with pytest.raises(CourseError) as refused:
        write_lessons(small.root)
    [problem] = refused.value.problems
    assert problem.startswith("solutions/01-scores/01-scores.py, line ")
    assert says in problem
    assert not (small.root / "lessons").exists()
    assert not list((small.root / "solutions").rglob("*.ipynb"))


def test_a_prediction_without_an_answer_is_refused(small: SmallCourse) -> None:
    small.change_manifest('"predict_spread"', '"predict_weather"')
    for role in ("predict", "check"):
        small.change_source(f'{role}="predict_spread"', f'{role}="predict_weather"')
    with pytest.raises(CourseError, match=r"course_lib\.checks has no prediction 'predict_weather'"):
        write_lessons(small.root)


def test_solution_notebooks_are_rebuilt_only_when_stale(small: SmallCourse) -> None:
    path = small.root / "solutions" / LESSON / f"{LESSON}.ipynb"

    def refreshed() -> bool:
        before = path.stat().st_ino if path.exists() else None
        assert refresh(small.root) == []
        return path.stat().st_ino != before

    assert refreshed()
    assert not refreshed()
    path.write_text("half a notebook")
    assert refreshed()
    # A changed file is noticed even if its modification time is older, as in a restored copy.
    small.change_source("# # A small lesson", "# # Another lesson")
    os.utime(path.with_suffix(".py"), (0, 0))
    assert refreshed()
    small.change_manifest("points = 4", "points = 5")
    assert refreshed()


def test_a_fresh_course_is_loaded_without_jupytext_and_torch(small: SmallCourse) -> None:
    refresh(small.root)
    load = (
        "import sys; from traitlets.config import PyFileConfigLoader; "
        f"PyFileConfigLoader('nbgrader_config.py', path={str(small.root / 'autograder')!r}).load_config(); "
        "sys.exit(' '.join({'jupytext', 'torch'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_builds_and_refuses(small: SmallCourse, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--course", str(small.root)]) == 0
    assert f"wrote lessons/{LESSON}/{LESSON}.ipynb" in capsys.readouterr().out
    assert main(["--course", str(small.root)]) == 0
    assert capsys.readouterr().out == "lessons/ is up to date\n"
    small.change_manifest("points = 4", "points = 0")
    assert main(["--course", str(small.root)]) == 1
    assert capsys.readouterr().err.startswith(
        "solutions/course.toml, lesson 01-scores, attention_scores, points"
    )


def test_names_that_the_checks_do_not_know_are_refused_when_lessons_are_built_and_released(
    small: SmallCourse, capsys: pytest.CaptureFixture[str]
) -> None:
    small.change_manifest("not_scaled = 2.5", "unscaled = 2.5")
    problem = "deductions: 'unscaled' is not a misconception of this exercise. Its misconceptions are: not_sc"
    assert main(["--course", str(small.root)]) == 1
    assert problem in capsys.readouterr().err
    done = try_nbgrader(small.root / "autograder", "generate_assignment", LESSON)
    assert done.returncode == 1
    assert problem in done.stderr
    assert not (small.root / "lessons").exists()


def test_an_invalid_misconception_is_refused_when_lessons_are_built(
    small: SmallCourse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "misconceptions.toml"
    file.write_text('[[attention_scores]]\nname = "none"\nhnt = ""\n', encoding="utf-8")
    broken = ExerciseCheck(attention_scores, file)
    monkeypatch.setitem(catalogue(), "attention_scores", broken)
    assert main(["--course", str(small.root)]) == 1
    [unknown, *missing] = capsys.readouterr().err.splitlines()
    assert "attention_scores, none: unknown key 'hnt'" in unknown
    assert len(missing) == 4


def test_a_concept_test_that_needs_a_removed_exercise_is_refused(
    small: SmallCourse, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = (COURSE / "solutions/concept_test.toml").read_text(encoding="utf-8")
    small.write("solutions/concept_test.toml", questions.replace('"split_heads"', '"split_tails"'))
    assert main(["--course", str(small.root)]) == 1
    assert capsys.readouterr().err == (
        "solutions/concept_test.toml, question heads: lesson 02-multi-head has no exercise split_tails. "
        "Remove the question, or change its lesson and exercise.\n"
    )


def test_the_help_of_the_check_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--check", "--help"])
    shown = capsys.readouterr().out
    assert shown.startswith("usage: course check [-h] [--course COURSE] [LESSON ...]\n\nCheck that lessons/")
    assert "--check" not in shown
