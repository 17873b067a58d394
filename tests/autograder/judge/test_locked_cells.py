"""Locked cells run in the judge's process, where students cannot replace the names that they use."""

import subprocess
import sys
import warnings
from dataclasses import replace

import pytest

from autograder.judge.job import NotComputedError
from autograder.judge.locked_cells import judge
from course_lib.checks import check
from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.probe import Draw, Observed, Probe
from course_lib.checks.exercises.final_lab import translation_score
from course_lib.checks.exercises.final_lab.hand_in import handed_in
from course_lib.checks.exercises.registry import catalogue
from course_lib.translation.configs.loader import documented_yaml, load_config

TRUSTED = {"check": check}
COSTS = '{"points": 4, "seed": 1, "costs": {"not_scaled": 1.5}}'
RIGHT = "lambda query, key: query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5"
UNSCALED = "lambda query, key: query @ key.transpose(-2, -1)"


def judged(source: str, **written: str):
    return judge(source, {name: LocalBackend(eval(code)) for name, code in written.items()}, TRUSTED)


def test_a_right_answer_leaves_a_line_and_a_finding() -> None:
    done = judged(
        'check("attention_scores", globals(), grading={"points": 4, "seed": 1})', attention_scores=RIGHT
    )
    assert [output.output_type for output in done.outputs] == ["stream"]
    assert done.outputs[0].text.startswith("✓ attention_scores: correct")
    [finding] = done.findings
    assert finding.verdict == "right"


def test_a_slip_leaves_points_as_the_last_result() -> None:
    source = f'check("attention_scores", globals(), grading={COSTS})'
    done = judged(source, attention_scores=UNSCALED)
    assert [output.output_type for output in done.outputs] == ["display_data", "stream", "execute_result"]
    assert "image/svg+xml" in done.outputs[0].data
    assert done.outputs[-1].data["text/plain"] == "2.5"
    [finding] = done.findings
    assert (finding.verdict, finding.misconceptions) == ("wrong", ("not_scaled",))


def test_a_failure_is_an_error_of_one_short_message() -> None:
    done = judged('check("attention_scores", globals(), grading={"points": 4, "seed": 1})', other=RIGHT)
    assert done.outputs[-1].output_type == "error"
    assert done.outputs[-1].evalue.startswith("✗ attention_scores: nothing with this name is defined.")
    assert [finding.verdict for finding in done.findings] == ["missing"]


def test_a_check_whose_reference_fails_costs_no_points(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> object:
        raise ImportError("a fixture is missing")

    entry = catalogue()["attention_scores"]
    broken.__name__ = entry.name
    monkeypatch.setitem(catalogue(), entry.name, replace(entry, reference=broken))
    source = f'check("attention_scores", globals(), grading={COSTS})'
    with pytest.raises(NotComputedError, match="its reference raised ImportError"):
        judged(source, attention_scores=RIGHT)


def test_a_cell_of_another_version_of_the_course_costs_no_points() -> None:
    with pytest.raises(
        NotComputedError, match=r"cannot import name 'grading' .* a different version of the course"
    ):
        judge("from course_lib.checks import grading\ngrading(points=1)", {}, {})
    (failed,) = judge("import a_package_of_an_instructor", {}, {}).outputs
    assert failed.ename == "ModuleNotFoundError"


def test_a_bug_in_a_probe_costs_no_points(monkeypatch: pytest.MonkeyPatch) -> None:
    def buggy(candidate: Candidate, draw: Draw) -> Observed:
        return {}["a key that is missing"]

    entry = catalogue()["attention_scores"]
    broken = replace(entry, probes=(*entry.probes, Probe("never tested", buggy)))
    monkeypatch.setitem(catalogue(), entry.name, broken)
    source = f'check("attention_scores", globals(), grading={COSTS})'
    for written in (RIGHT, UNSCALED):
        with pytest.raises(NotComputedError, match=r"it raised KeyError \('a key that is missing'\)"):
            judged(source, attention_scores=written)


def test_translations_that_this_machine_cannot_score_cost_no_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = "the references of multi30k are missing: no such folder"
    monkeypatch.setattr(translation_score, "references", lambda *_: missing)
    levels = '{"multi30k": [[30, 2], [40, 8]]}'
    source = f'check("hand_in_translations", globals(), levels={levels}, grading={{"points": 8, "seed": 1}})'
    config = documented_yaml(load_config("captions", ["training.warmup_steps=300"]))
    files = {"config.yaml": config.encode(), "translations.txt": b"a translation\n" * 1000}
    with handed_in(files), pytest.raises(NotComputedError, match="set COURSE_DATA and grade again"):
        judged(source)


def test_a_student_cannot_replace_the_check() -> None:
    done = judged('check("attention_scores", globals())', attention_scores=UNSCALED, check="lambda *_: 4.0")
    assert done.outputs[-1].output_type == "error"


@pytest.mark.parametrize("name", ["abs", "globals", "isinstance", "AssertionError"])
def test_a_student_cannot_replace_a_builtin(name: str) -> None:
    source = "assert abs(3) == 3\nassert isinstance(globals(), dict)\nassert False, 'as it should'"
    done = judged(source, **{name: "lambda *_: True"})
    assert (done.outputs[-1].ename, done.outputs[-1].evalue) == ("AssertionError", "as it should")


def test_an_instructors_own_assertions_say_where_they_failed() -> None:
    done = judged("size = 3\nassert size == 4, 'four was expected'\n")
    assert done.outputs[-1].ename == "AssertionError"
    assert done.outputs[-1].traceback == ["AssertionError: four was expected", "in line 2 of this cell"]


def test_warnings_and_stderr_of_ours_cost_no_points() -> None:
    done = judged("import sys, warnings\nwarnings.warn('old')\nprint('oh', file=sys.stderr)\nprint('well')")
    assert [(output.output_type, output.text) for output in done.outputs] == [("stream", "well\n")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("still told", stacklevel=1)
    assert len(caught) == 1


@pytest.mark.parametrize("source", ["raise SystemExit(3)", "import sys\nsys.exit()", "1 / 0"])
def test_no_locked_cell_ends_the_judge(source: str) -> None:
    assert judged(source).outputs[-1].output_type == "error"


@pytest.mark.slow
def test_modules_that_are_imported_on_first_use_are_imported_ahead() -> None:
    code = "import sys, torch; from autograder.sandbox.inside import import_all\n"
    code += "before = 'torch._dynamo' in sys.modules; import_all(['torch.optim'])\n"
    code += "print(before, 'torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"
