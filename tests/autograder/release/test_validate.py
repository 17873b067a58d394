"""Every problem that `course check` reports, caused on purpose."""

import json
from pathlib import Path

import pytest

from autograder.release.build import main
from autograder.release.lessons import write_lessons
from autograder.release.validate import validate
from tests.autograder.small_course import LESSON, SmallCourse

pytestmark = pytest.mark.sandbox

NOTEBOOK = f"lessons/{LESSON}/{LESSON}.ipynb"
SOLUTION_LINE = "return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])"
AFTER_BUILD = '# %% [markdown] hints="attention_scores"'


def test_a_course_in_order_is_not_refused(small: SmallCourse, capfd: pytest.CaptureFixture[str]) -> None:
    # A hint may contain anything, and files that Jupyter and Python leave behind aren't stray.
    small.change_manifest("Divide by the root.", SOLUTION_LINE)
    small.write(f"lessons/{LESSON}/.ipynb_checkpoints/{LESSON}-checkpoint.ipynb", "{}")
    small.write(f"solutions/{LESSON}/__pycache__/x.pyc", "")
    write_lessons(small.root)
    assert main(["--check", "--course", str(small.root)]) == 0
    assert capfd.readouterr().out == (
        "lessons/ matches its sources, every solution passes, and every stub fails.\n"
    )


def test_the_command_line_says_each_refusal_on_a_line(
    small: SmallCourse, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lessons(small.root)
    small.write("solutions/notes.txt", "")
    small.write("lessons/notes.txt", "")
    assert main(["--check", "--course", str(small.root)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "solutions/notes.txt: course.toml does not list this file. Add it there or remove it.",
        "lessons/notes.txt: no source produces this file. Remove it.",
    ]


def test_only_the_named_lessons_are_validated(small: SmallCourse, capsys: pytest.CaptureFixture[str]) -> None:
    small.add_copy("02-scores")
    write_lessons(small.root)
    small.change("solutions/02-scores/02-scores.py", '# %% check="predict_spread"\n', "")
    for name in ("lessons/02-scores/notes.txt", "solutions/02-scores/notes.txt"):
        small.write(name, "")
    check = ["--check", "--course", str(small.root)]
    assert main([*check, LESSON]) == 0
    assert capsys.readouterr().out.startswith("lessons/01-scores matches its sources, every solution passes")
    assert main([*check, "02-scores"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert main([*check, "03-scores"]) == 1
    assert capsys.readouterr().err == (
        "there is no lesson called '03-scores'. The lessons are: 01-scores, 02-scores\n"
    )


# --- lessons/ matches the sources ---------------------------------------------------------------------------


def test_a_lesson_edited_by_hand_is_refused(small: SmallCourse) -> None:
    write_lessons(small.root)
    small.change(NOTEBOOK, "# A small lesson", "# A fine lesson")
    assert validate(small.root) == [
        f"{NOTEBOOK}, cell 01-scores-text-1: does not match its source. "
        "Change the source, never the lesson, and run `make lessons`."
    ]


def test_a_single_byte_is_refused(small: SmallCourse) -> None:
    write_lessons(small.root)
    path = small.root / NOTEBOOK
    path.write_bytes(path.read_bytes() + b"\n")
    assert validate(small.root) == [
        f"{NOTEBOOK}: does not match its source. Change the source, never the lesson, and run `make lessons`."
    ]


def test_a_source_changed_without_building_is_refused(small: SmallCourse) -> None:
    write_lessons(small.root)
    small.change_source("# # A small lesson", "# # A fine lesson")
    [problem] = validate(small.root)
    assert problem.startswith(f"{NOTEBOOK}, cell 01-scores-text-1: does not match its source")


def test_a_missing_lesson_is_refused(small: SmallCourse) -> None:
    write_lessons(small.root)
    (small.root / NOTEBOOK).unlink()
    assert validate(small.root) == [f"{NOTEBOOK}: is missing. Run `make lessons`."]


def test_a_lesson_that_is_no_notebook_is_refused(small: SmallCourse) -> None:
    write_lessons(small.root)
    small.write(NOTEBOOK, "no JSON")
    [problem] = validate(small.root)
    assert problem.startswith(f"{NOTEBOOK}: does not match its source")


# --- nothing leaks ------------------------------------------------------------------------------------------


def test_lines_for_instructors_in_the_text_are_refused(small: SmallCourse) -> None:
    lines = [
        "- 2 points: says that variances add up.",
        "The variances of independent products add up.",
        'grading={"points": 4, "seed": 5, "costs": {"not_scaled": 2.5}},',
        "predict_spread = 32.0",
        SOLUTION_LINE,
    ]
    small.change_source("# # A small lesson", "\n#\n".join(f"# {line}" for line in ["# A lesson", *lines]))
    write_lessons(small.root)
    assert validate(small.root) == [
        f"{NOTEBOOK}, cell 01-scores-text-1: students would read {line!r}, "
        "which is for instructors only. Remove it."
        for line in lines
    ]


def test_a_solution_left_in_its_own_cell_is_refused(small: SmallCourse) -> None:
    write_lessons(small.root)
    path = small.root / NOTEBOOK
    notebook = json.loads(path.read_text())
    [cell] = [cell for cell in notebook["cells"] if cell["id"] == "attention_scores"]
    cell["source"][-1] = f"    {SOLUTION_LINE}"
    path.write_text(json.dumps(notebook))
    assert validate(small.root)[1].startswith(
        f"{NOTEBOOK}, cell attention_scores: students would read {SOLUTION_LINE!r}"
    )


@pytest.mark.parametrize("name", [f"{LESSON}/data/words.txt", "AGENTS.md"])
def test_a_solution_in_a_file_beside_a_lesson_is_refused(small: SmallCourse, name: str) -> None:
    small.write(f"solutions/{name}", SOLUTION_LINE)
    write_lessons(small.root)
    problems = validate(small.root)
    assert any(
        problem.startswith(f"lessons/{name}: students would read {SOLUTION_LINE!r}") for problem in problems
    )


# --- solutions pass, stubs fail -----------------------------------------------------------------------------


def test_a_solution_that_fails_its_check_is_refused(
    small: SmallCourse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = Path("course_lib/transformer/attention.py").read_text(encoding="utf-8")
    (tmp_path / "mistaken.py").write_text(reference.replace(" / math.sqrt(query.shape[-1])", ""))
    monkeypatch.syspath_prepend(tmp_path)
    small.change_source("course_lib.transformer.attention:attention_scores", "mistaken:attention_scores")
    write_lessons(small.root)
    problems = validate(small.root)
    place = f'solutions/{LESSON}/{LESSON}.py, line 23, check="attention_scores"'
    assert problems[0] == f"{place}: the solution earns 1.5 of 4 points"
    assert problems[1].startswith(
        f"{place}, as students see it: it fails with the solutions: CheckError: ✗ attention_scores"
    )
    assert len(problems) == 2


def test_cells_that_fail_or_do_not_end_and_a_stub_that_passes_are_refused(
    small: SmallCourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autograder.release.validate._SECONDS", 8)
    gift = "# %%\nfrom course_lib.transformer.attention import attention_scores\n\n"
    small.change_source(AFTER_BUILD, gift + AFTER_BUILD)
    fails = "import sys; print('careful', file=sys.stderr)"
    small.change_source("# A cell to play with.", f"{fails}\n\n# %%\nwhile True: pass")
    write_lessons(small.root)
    place = f"solutions/{LESSON}/{LESSON}.py, line"
    assert validate(small.root) == [
        f"{place} 31: it fails with the solutions: careful",
        f"{place} 34: it fails with the solutions: it was interrupted after 8 seconds",
        f"{NOTEBOOK}, cell check_attention_scores: it passes before anything is written. "
        "A cell above it gives the answer.",
    ]


def test_a_stub_whose_message_is_lost_is_refused(small: SmallCourse) -> None:
    swallow = """# %%
def forgiving(query, key, written=attention_scores):
    try:
        return written(query, key)
    except NotImplementedError:
        return query


attention_scores = forgiving

"""
    small.change_source(AFTER_BUILD, swallow + AFTER_BUILD)
    write_lessons(small.root)
    [problem] = validate(small.root)
    assert problem.startswith(
        f"{NOTEBOOK}, cell check_attention_scores: it should fail because the stub is not written, "
    )


# --- course.toml is consistent ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("Divide by the root.", "", "attention_scores, hints: hint 3 is empty"),
        (', "Divide by the root."', "", "hints: expected 3, from vague to explicit, got 2"),
        ("points = 4", "points = 0", "attention_scores, points: expected a positive number, got 0"),
        (
            "not_scaled = 2.5",
            "unscaled = 2",
            "'unscaled' is not a misconception of this exercise. Its misconceptions are: not_scaled",
        ),
        (
            "torch.nn.functional.scaled_dot",
            "torch.nn.scaled_dot",
            "no function 'torch.nn.scaled_dot",
        ),
    ],
)
def test_an_inconsistent_course_file_is_refused(small: SmallCourse, old: str, new: str, says: str) -> None:
    small.change_manifest(old, new)
    problems = validate(small.root)
    assert problems[0].startswith("solutions/course.toml, lesson 01-scores, ")
    assert says in problems[0]


def test_an_exercise_that_the_checks_do_not_know_is_refused(small: SmallCourse) -> None:
    small.change_manifest('"attention_scores"', '"attention_socres"')
    problems = validate(small.root)
    assert problems[0].startswith(
        "solutions/course.toml, lesson 01-scores, attention_socres: course_lib.checks has no check with this"
    )
    assert any('no cell build="attention_socres". Add it.' in problem for problem in problems)


@pytest.mark.parametrize("role", ["build", "check", "[markdown] hints"])
def test_a_missing_cell_is_refused(small: SmallCourse, role: str) -> None:
    small.change_source(f'# %% {role}="attention_scores"\n', "# %%\n")
    [problem] = validate(small.root)
    assert problem == (
        f"solutions/{LESSON}/{LESSON}.py: course.toml has attention_scores, but there is no cell "
        f'{role.split()[-1]}="attention_scores". Add it.'
    )
