"""What a check cell prints, raises and returns."""

import contextlib
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch._subclasses import FakeTensorMode

from course_lib.check_log import LOG, read_log
from course_lib.checks import CheckError, check
from course_lib.checks.engine.candidate import Request
from course_lib.checks.engine.comparison import Comparison, Difference
from course_lib.checks.engine.diagnosis import Verdict, examine
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.findings import record
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.messages import failure
from course_lib.checks.engine.reply import OUT_OF_TIME, Raised, Reply
from course_lib.checks.engine.search import Explanation, Resemblance
from course_lib.checks.engine.versions import BrokenCheckError, known_versions
from course_lib.checks.exercises.registry import catalogue
from course_lib.transformer import (
    EncoderLayer,
    attention_scores,
    attention_weights,
    global_token_mean,
    learning_rate,
    scaled_dot_product_attention,
)

FUSED = "torch.nn.functional.scaled_dot_product_attention"


def _below_python(q: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, q, q)


def mistaken(exercise: str, *names: str) -> object:
    entry = catalogue()[exercise]
    assert isinstance(entry, ExerciseCheck)
    return entry.with_mistakes(*(mistake for mistake in entry.misconceptions if mistake.name in names))


def message(name: str, found: object, **keywords: object) -> str:
    with pytest.raises(CheckError) as caught:
        check(name, {name: found}, **keywords)  # type: ignore[arg-type]
    return str(caught.value)


def graded(found: object, costs: dict[str, float], **keywords: object) -> float | None:
    options = {"points": 4, "seed": 1, "costs": costs}
    return check("attention_scores", {"attention_scores": found}, grading=options, **keywords)  # type: ignore[arg-type]


def test_right_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    own = partial(attention_scores)
    assert check("attention_scores", {"attention_scores": own}) is None
    written = capsys.readouterr()
    assert re.fullmatch(r"✓ attention_scores: correct: all \d+ tests passed\.\n", written.out)
    assert written.err == ""


def test_the_courses_own_code_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    check("attention_scores", {"attention_scores": attention_scores})
    assert "This is the course's own code".lower() in " ".join(capsys.readouterr().out.split()).lower()


def test_a_named_mistake_says_what_why_and_where_to_read() -> None:
    told = message("attention_scores", mistaken("attention_scores", "not_scaled"))
    assert told.startswith("✗ attention_scores: the dot products are not divided by the square root of d.\n")
    assert "Expected the result at [0, 0] to be" in told
    assert "  Why: If all components are independent with mean 0 and variance 1, a dot product" in told
    assert "  Read: the paper, section 3.2.1, equation 1" in told
    assert len(told.splitlines()) <= 12
    assert max(map(len, told.splitlines())) <= 100


def test_two_mistakes_are_both_named() -> None:
    told = message("attention_scores", mistaken("attention_scores", "not_scaled", "roles_swapped"))
    assert "not divided by the square root of d; and the rows of the result belong to keys" in told.replace(
        "\n    ", " "
    )
    assert told.count("Why:") == 2


def test_a_mistake_that_explains_all_failing_tests_is_in_the_first_line() -> None:
    exercise = catalogue()["attention_scores"]
    assert isinstance(exercise, ExerciseCheck)
    mistake = next(one for one in exercise.misconceptions if one.name == "not_scaled")
    first, second, passed, *_ = exercise.probes
    verdict = Verdict(
        exercise,
        failures=(first, second),
        difference=Difference("Expected 1, got 2."),
        explanation=Explanation(similar=Resemblance((mistake,), first, others=1, unexplained=passed)),
    )
    told = failure(verdict).split("\n")
    assert told[0].startswith(
        "✗ attention_scores: in both failing tests, the dot products are not divided by the"
    )
    assert "which your code passes. Yours may be a variant of it." in " ".join(map(str.strip, told))
    weaker = Explanation(similar=Resemblance((mistake,), first, others=0, unexplained=second))
    assert failure(replace(verdict, explanation=weaker)).startswith("✗ attention_scores: incorrect.")
    by_error = Explanation(
        similar=Resemblance((mistake,), first, others=1, unexplained=passed, is_error=True)
    )
    told_of_error = " ".join(failure(replace(verdict, explanation=by_error)).split())
    assert told_of_error.startswith("✗ attention_scores: incorrect.")
    assert "a known mistake has the same effect as yours: " in told_of_error
    assert "Why:" not in told_of_error


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (
            ("the result for swapped batch and length axes",),
            "result for swapped batch and length axes",
        ),
        (("the loss", "the result of the copy"), "loss and result of the copy"),
        (("«the mean is near 0»",), "result"),
    ],
)
def test_the_parts_that_a_mistake_explains_are_named(parts: tuple[str, ...], says: str) -> None:
    exercise = catalogue()["attention_scores"]
    assert isinstance(exercise, ExerciseCheck)
    mistake, probe = exercise.misconceptions[0], exercise.probes[0]
    similar = Resemblance((mistake,), probe, parts)
    told = failure(
        Verdict(exercise, (probe,), Difference("1, not 2."), explanation=Explanation(similar=similar))
    )
    assert f"In this test, for instance, a known mistake gives the same {says} as your code:" in told.replace(
        "\n    ", " "
    )


def test_a_mistake_in_code_of_another_structure_is_probably_named() -> None:
    def length_penalty(length: object, alpha: float) -> object:
        lengths = torch.as_tensor(length, dtype=torch.float64)
        return torch.exp(alpha * torch.log(lengths.clamp(min=1e-9)))  # differs from length**alpha at 0

    told = message("length_penalty", length_penalty)
    assert told.startswith("✗ length_penalty: the likely cause is that the length itself is raised to")
    assert "This mistake explains 4 of the 5 failing tests." in " ".join(told.split())


@pytest.mark.parametrize("decorator", ["", "@torch.enable_grad()"])
def test_parts_that_fail_their_own_checks_come_first(decorator: str) -> None:
    source = f"""
def attention_scores(query, key):
    return query @ key.mT
{decorator}
def scaled_dot_product_attention(query, key, value, mask=None, dropout=None):
    weights = attention_weights(attention_scores(query, key), mask)
    return (weights if dropout is None else dropout(weights)) @ value, weights
"""
    names: dict[str, object] = {"attention_weights": attention_weights, "torch": torch}
    exec(source, names)
    with pytest.raises(CheckError, match="First correct `attention_scores`, which your code uses"):
        check("scaled_dot_product_attention", names)
    with pytest.raises(CheckError) as caught:
        check("attention_scores", names)
    assert "First correct" not in str(caught.value)


def test_an_attribute_with_the_name_of_an_exercise_is_no_part() -> None:
    class Own:
        def attention_scores(self, query, key):
            return query @ key.mT

    names = {"attention_scores": lambda query, key: query, "own": Own()}
    exec("def attention_weights(scores, mask=None): return own.attention_scores(scores, scores)", names)
    with pytest.raises(CheckError) as caught:
        check("attention_weights", names)
    assert "First correct" not in str(caught.value)


def test_variables_of_the_notebook_that_an_answer_reads_are_named() -> None:
    names: dict[str, object] = {"width": 512, "HALF": 0.5, "torch": torch, "key": 3}
    exec("def attention_scores(query, key): return query @ key.mT / width**HALF + torch.ones(())", names)
    with pytest.raises(CheckError, match="Your code reads the notebook's variable `width`, set outside"):
        check("attention_scores", names)


def test_valid_arguments_that_an_answer_rejects_are_shown() -> None:
    def split_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
        raise ValueError("wrong sizes")

    told = message("split_heads", split_heads).replace("\n    ", " ")
    assert "These arguments are valid: `x` has the shape (2, 3, 20), `heads` is 4." in told


def test_an_unknown_mistake_gets_facts_and_a_next_step() -> None:
    told = message("attention_scores", lambda query, key: attention_scores(query, key).sin() * query[0, 0])
    assert told.startswith("✗ attention_scores: incorrect.")
    assert "15 of 15 numbers differ." in told
    assert "  Try (rounded inputs): attention_scores(torch.tensor([[" in told
    assert "open the next hint" in told


def test_an_unknown_mistake_is_narrowed_down_by_the_tests_that_pass() -> None:
    def after_warmup(step: int, d_model: int, warmup: int, factor: float = 1.0) -> float:
        rate = learning_rate(step, d_model, warmup, factor)
        return rate if step <= warmup else rate * math.cos(step / warmup)

    told = message("learning_rate", after_warmup).replace("\n    ", " ")
    assert "the rate of step 7 to be 0.142857, got" in told
    assert (
        "of the 11 tests, including “the rate rises linearly during a warm-up of 6, with 7 features” and"
        in told
    )
    assert "Your code passes" not in message("learning_rate", lambda *_: 0.123)


def test_a_plain_relation_to_the_expected_result_is_said() -> None:
    told = message("attention_scores", lambda query, key: attention_scores(query, key) + 1)
    assert "Every number is the expected one plus 1." in told


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (lambda query, key: None, "got None. Is a `return` missing?"),
        (lambda query, key: query, "shape (3, 5), got (3, 6): axis 1 has the wrong size"),
        (lambda query, key: attention_scores(query, key).float(), "dtype float64, got float32"),
        (lambda query, key: (attention_scores(query, key),), "got a tuple of one. Is there an extra comma"),
        (lambda query, key: [attention_scores(query, key)] * 2, "got a list of two."),
        (lambda query: query, "Your code raised TypeError: "),
        (lambda query, key: torch.zeros(5000, 4000), "\n  The result is a tensor of 80000000 bytes"),
        (None, "`attention_scores` is an object of type NoneType, not a function or a class."),
    ],
)
def test_facts(found: object, says: str) -> None:
    assert says in message("attention_scores", found).replace("\n    ", " ")


def test_what_is_not_there_is_no_name_error() -> None:
    with pytest.raises(CheckError) as caught:
        check("attention_scores", {"attention_weight": attention_scores, "EncoderLayer": object})
    told = str(caught.value)
    assert told.startswith("✗ attention_scores: nothing with this name is defined.\n  Next: run the cell")
    assert len(told.splitlines()) == 3


def test_what_was_renamed_is_found() -> None:
    with pytest.raises(CheckError) as caught:
        check("attention_scores", {"attention_score": attention_scores, "_attention_scores": 0})
    told = str(caught.value).replace("\n    ", " ")
    assert "There is `attention_score`. If that is your answer, rename it to `attention_scores`." in told


def test_a_loop_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course_lib.checks.engine.local_backend.SECONDS", 0.5)

    def endless(query, key):
        while True:
            query = query + 1

    told = message("attention_scores", endless).replace("\n    ", " ")
    assert "Stopped: the call did not return within 0.5 seconds. Is there a loop that never ends?" in told
    assert (
        "This happened in your line `query = query + 1`." in told
        or "This happened in your line `while True:`." in told
    )


def test_code_that_never_ends_is_not_run_again_to_check_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course_lib.checks.engine.local_backend.SECONDS", 0.3)
    calls: list[int] = []

    def endless(*arguments):
        calls.append(1)
        while True:
            pass

    names = {"attention_scores": endless, "attention_weights": attention_weights}
    exec("def scaled_dot_product_attention(*arguments): return attention_scores(*arguments)", names)
    with pytest.raises(CheckError, match="Stopped: the call did not return"):
        check("scaled_dot_product_attention", names)
    assert calls == [1]


def test_a_process_group_that_stays_open_is_named_and_closed() -> None:
    def opens_a_group(loss_sum, token_count):
        if not dist.is_initialized():
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        return global_token_mean(loss_sum, token_count)

    told = message("global_token_mean", opens_a_group).replace("\n    ", " ")
    assert "a process group was already open in this notebook. Your code must not open one" in told
    check("global_token_mean", {"global_token_mean": global_token_mean})


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("FeedForward", "✗ FeedForward: `FeedForward` is not an nn.Module."),
        ("LabelSmoothingLoss", "an instance of `LabelSmoothingLoss` cannot be called"),
    ],
)
def test_a_class_that_is_no_module_is_named(name: str, statement: str) -> None:
    def start(self, size, pad_id, *others, **settings) -> None:
        self.pad_id = pad_id

    told = message(name, type(name, (), {"__init__": start}))
    assert statement in told
    assert f"Write `class {name}(nn.Module):`" in told.replace("\n    ", " ")


def test_leaving_the_program_is_an_error_like_others() -> None:
    assert "Your code raised SystemExit: 3" in message("attention_scores", lambda query, key: sys.exit(3))


def test_an_error_in_the_students_line_is_shown_with_the_line() -> None:
    def broken(query, key):
        return query @ key

    told = message("attention_scores", broken).replace("\n    ", " ")
    assert "Your code raised RuntimeError:" in told
    assert "This happened in your line `return query @ key`." in told


def test_a_stub_says_its_own_message() -> None:
    def stub(query, key):
        raise NotImplementedError("attention_scores is yours to write: lesson 01, exercise 1 of 3")

    told = message("attention_scores", stub)
    assert told == "○ attention_scores is yours to write: lesson 01, exercise 1 of 3"


def test_another_not_implemented_error_is_a_fact() -> None:
    def unsupported(query, key):
        raise NotImplementedError("no kernel for this dtype")

    assert "Your code raised NotImplementedError: no kernel" in message("attention_scores", unsupported)


def test_the_built_in_that_is_the_exercise_is_refused() -> None:
    def fused(query, key, value, mask=None, dropout=None):
        torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return scaled_dot_product_attention(query, key, value, mask, dropout)

    told = message("scaled_dot_product_attention", fused, may_not_call=[FUSED])
    assert f"doesn't allow {FUSED}, or an operator that does the same." in told.replace("\n    ", " ")
    check("scaled_dot_product_attention", {"scaled_dot_product_attention": fused})


def test_in_ipython_the_message_alone_is_shown() -> None:
    error = CheckError("one\ntwo")
    assert isinstance(error, AssertionError)
    assert error._render_traceback_() == ["one", "two"]


def test_unknown_exercise_is_said_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"no check called 'attention_score'; known names: .*attention_scores, "
    ):
        check("attention_score", {"attention_score": attention_scores})


class TestPredictions:
    @pytest.mark.parametrize("right", [32, 32.0, 32.8, torch.tensor(32.0), math.sqrt(1024)])
    def test_right(self, right: object, capsys: pytest.CaptureFixture[str]) -> None:
        assert check("predict_spread", {"predict_spread": right}) is None
        assert " ".join(capsys.readouterr().out.split()) == (
            "✓ predict_spread: correct. Each product has variance 4 · 4 = 16, so the sum of 64 products has "
            "variance 1024, and a standard deviation of 32."
        )

    @pytest.mark.parametrize(
        ("wrong", "says"),
        [
            (1024, "incorrect.\n  Why: That is the variance."),
            (6_300_000, "6300000 is incorrect."),
            (5.5, "5.5 is incorrect. What is the variance of a single product"),
            (None, "The answer is still None"),
            ("8", "Expected a number, got '8'"),
            (True, "Expected a number, got True"),
            (8 + 0j, "Expected a number, got an object of type complex"),
            (float("nan"), "nan is incorrect"),
        ],
    )
    def test_wrong(self, wrong: object, says: str) -> None:
        assert says in message("predict_spread", wrong)


class TestGrading:
    def test_other_numbers_are_drawn(self) -> None:
        seen: list[torch.Tensor] = []

        def spy(query, key):
            seen.append(query)
            return attention_scores(query, key)

        check("attention_scores", {"attention_scores": spy})
        check("attention_scores", {"attention_scores": spy}, grading={"points": 4, "seed": 1})
        assert not seen[0].equal(seen[len(seen) // 2])

    def test_a_mistake_with_a_cost_leaves_the_rest(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert graded(mistaken("attention_scores", "not_scaled"), {"not_scaled": 1.5}) == 2.5
        assert "You earn 2.5 points for this." in capsys.readouterr().out

    def test_costs_of_two_mistakes_add_up(self) -> None:
        both = mistaken("attention_scores", "not_scaled", "roles_swapped")
        assert graded(both, {"not_scaled": 1, "roles_swapped": 2}) == 1

    @pytest.mark.parametrize("costs", [{"not_scaled": 4}, {"not_scaled": 1}, {}])
    def test_nothing_is_left_otherwise(self, costs: dict[str, float]) -> None:
        names = ("not_scaled",) if costs.get("not_scaled") == 4 else ("not_scaled", "roles_swapped")
        with pytest.raises(CheckError):
            graded(mistaken("attention_scores", *names), costs)

    def test_a_graded_check_does_not_grade_the_next_one(self) -> None:
        assert graded(attention_scores, {"not_scaled": 1}) is None
        message("attention_scores", mistaken("attention_scores", "not_scaled"))

    def test_a_forbidden_call_leaves_nothing(self) -> None:
        def both(query, key):
            torch.nn.functional.softmax(query, -1)
            return query @ key.transpose(-2, -1)

        with pytest.raises(CheckError):
            graded(both, {"not_scaled": 1}, may_not_call=["torch.nn.functional.softmax"])


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("attention_scores", lambda query, key: query @ key.mT / (math.sqrt(query.shape[-1]) + 3e-6)),
        ("attention_weights", lambda scores, mask=None: attention_weights(scores, mask) * (1 - 3e-6)),
        ("attention_scores", lambda query, key: attention_scores(query, key).to(torch.complex128)[..., :1]),
    ],
)
def test_what_is_nearly_right_gets_words_and_no_error_of_the_pictures(name: str, found: object) -> None:
    assert message(name, found).startswith(f"✗ {name}: ")


class _Askable:
    """An object that has a backend's `ask` method."""

    def ask(self, request: object) -> str:
        return "an answer"


class _Unreadable:
    """An object without any readable attribute, not even its class."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)


class _Anything:
    """An object that has every attribute, and whose comparisons never return True or False."""

    def __getattr__(self, name: str) -> "_Anything":
        return _Anything()

    def __call__(self, *arguments: object) -> "_Anything":
        return self

    def __eq__(self, other: object) -> torch.Tensor:  # type: ignore[override]
        return torch.ones(2)

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "make", [_Askable, lambda: _Askable, _Unreadable, _Anything, mock.MagicMock, lambda: None]
)
@pytest.mark.parametrize("name", ["attention_scores", "predict_spread"])
def test_an_odd_object_is_no_error_of_the_course(
    name: str, make: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COURSE_LOG", str(tmp_path))
    (tmp_path / "on").write_text("with code", encoding="utf-8")
    assert message(name, make()).startswith((f"✗ {name}: ", f"○ {name}: The answer is still None."))
    log = (tmp_path / "check_log.jsonl").read_text(encoding="utf-8")
    assert '"verdict": "wrong"' in log or '"verdict": "unwritten"' in log


def _fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(3, 5)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: torch.ones(3, 5).to(torch.float8_e4m3fn), "an object of type Tensor of dtype float8_e4m3fn"),
        (lambda: torch.quantize_per_tensor(torch.rand(3, 5), 0.1, 0, torch.quint8), "of dtype quint8"),
        (lambda: torch.ones(3, 5, dtype=torch.float64, device="meta"), "of dtype float64 on the device meta"),
        (_fake, "an object of type FakeTensor"),
        (lambda: 8 + 0j, "an object of type complex"),
    ],
)
def test_an_odd_result_is_no_error_of_the_course(make: Callable[[], object], says: str) -> None:
    assert says in " ".join(message("attention_scores", lambda query, key: make()).split())


def test_nan_equals_only_nan() -> None:
    compare = Comparison().difference
    assert compare(math.nan, math.nan) is None
    for found in (1.0, 0, math.inf):
        assert compare(math.nan, found) is not None
        assert compare(found, math.nan) is not None


def test_tensors_on_different_devices_differ() -> None:
    differs = Comparison().difference(torch.ones(2), torch.ones(2, device="meta"))
    assert differs is not None
    assert differs.facts == "Expected the result on the device cpu, got it on meta."


@pytest.mark.slow
def test_a_module_whose_result_has_no_data() -> None:
    class OnMeta(EncoderLayer):
        def forward(self, *arguments: object) -> torch.Tensor:
            return torch.ones(2, 3, device="meta")

    assert "on the device meta" in " ".join(message("EncoderLayer", OnMeta).split())


def test_a_result_that_is_the_function_itself() -> None:
    def attention_scores(query: object, key: object) -> object:
        return attention_scores

    assert "got the checked object itself." in message("attention_scores", attention_scores)


@pytest.fixture
def untouched() -> Iterator[ExerciseCheck]:
    """An exercise without cached outcomes. The cache is cleared again afterwards."""
    exercise = catalogue()["shift_target"]
    assert isinstance(exercise, ExerciseCheck)
    known_versions.cache_clear()
    yield exercise
    known_versions.cache_clear()


@contextlib.contextmanager
def default_device(name: str) -> Iterator[None]:
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize(
    "left_on",
    [
        lambda: torch.autocast("cpu", torch.bfloat16),
        torch.inference_mode,
        torch.no_grad,
        lambda: default_device("meta"),
    ],
)
@pytest.mark.parametrize("name", ["shift_target", "FeedForward", "SublayerConnection", "attention_scores"])
@pytest.mark.slow
def test_what_a_notebook_has_left_on_changes_nothing(
    name: str, left_on: Callable[[], contextlib.AbstractContextManager[None]]
) -> None:
    exercise = catalogue()[name]
    assert isinstance(exercise, ExerciseCheck)
    wrong = exercise.with_mistakes(exercise.misconceptions[0])
    known_versions.cache_clear()
    try:
        with left_on():
            check(name, {name: exercise.reference})
            assert exercise.misconceptions[0].statement[:40] in message(name, wrong).replace("\n    ", " ")
        check(name, {name: exercise.reference})
    finally:
        known_versions.cache_clear()


def unknown(target):
    return target[:, :-1] + 1, target[:, 1:]


@pytest.fixture(scope="module")
def message_for_unknown() -> str:
    return message("shift_target", unknown)


@pytest.mark.parametrize("interrupted", range(1, 14, 3))
@pytest.mark.slow
def test_an_interrupt_while_a_check_compares_spoils_no_later_check(
    message_for_unknown: str, untouched: ExerciseCheck, interrupted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = itertools.count(1)
    ask = LocalBackend.ask

    def impatient(holder: LocalBackend, request: Request) -> Reply:
        if next(requests) == interrupted:
            raise KeyboardInterrupt
        return ask(holder, request)

    with monkeypatch.context() as sitting:
        sitting.setattr(LocalBackend, "ask", impatient)
        with pytest.raises(KeyboardInterrupt):
            check("shift_target", {"shift_target": unknown})
    assert message("shift_target", unknown) == message_for_unknown
    check("shift_target", {"shift_target": untouched.reference})


def test_a_machine_that_slept_spoils_no_later_check(untouched: ExerciseCheck) -> None:
    def late(holder: LocalBackend, request: Request) -> Reply:
        holder.stopped = Raised(OUT_OF_TIME, "the call did not return within 10 seconds")
        return holder.stopped

    with pytest.MonkeyPatch.context() as sleeping:
        sleeping.setattr(LocalBackend, "ask", late)
        with (
            record() as findings,
            pytest.raises(BrokenCheckError, match="error in the course, not in your code"),
        ):
            check("shift_target", {"shift_target": untouched.reference})
        assert [finding.verdict for finding in findings] == ["error"]
    check("shift_target", {"shift_target": untouched.reference})


def test_a_check_that_crashes_after_its_verdict_is_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*arguments: object) -> str:
        raise KeyError("no words for this verdict")

    monkeypatch.setattr("course_lib.checks.engine.messages.failure", crash)
    monkeypatch.setenv("COURSE_LOG", str(tmp_path))
    (tmp_path / "on").touch()
    with record() as findings, pytest.raises(BrokenCheckError, match="could not run: it raised KeyError"):
        check("attention_scores", {"attention_scores": lambda query, key: query})
    assert [finding.verdict for finding in findings] == ["error"]
    assert [entry.verdict for entry in read_log(tmp_path / LOG)] == ["error"]


def test_charts_that_cannot_be_imported_hide_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise RuntimeError(name)

    monkeypatch.setitem(sys.modules, "course_lib.charts", Broken("course_lib.charts"))
    told = message("attention_scores", lambda query, key: attention_scores(query, key) + 1)
    assert told.startswith("✗ attention_scores: incorrect.")


def test_a_broken_reference_lets_nothing_pass(untouched: ExerciseCheck) -> None:
    def broken(*arguments: object) -> object:
        raise ImportError("a fixture is missing")

    failing = replace(untouched, reference=broken)
    with pytest.raises(BrokenCheckError, match="its reference raised ImportError \\(a fixture is missing\\)"):
        examine(failing, LocalBackend(broken), "practice")


def test_what_was_printed_is_shown_for_the_failing_test_only(capsys: pytest.CaptureFixture[str]) -> None:
    def chatty(query, key):
        print("shape:", tuple(query.shape))
        return query @ key.transpose(-2, -1)

    told = message("attention_scores", chatty)
    assert "  Printed in this test: shape: (3, 6)\n" in told
    assert told.count("shape:") == 1
    assert "shape:" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "hidden",
    [
        lambda q: torch.ops.aten._scaled_dot_product_attention_math(q, q, q),
        lambda q: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q),
        torch.jit.script(_below_python),
        lambda q: getattr(torch.nn.functional, "scaled_dot_product" + "_attention")(q, q, q),
    ],
)
def test_kernels_below_the_built_in_are_refused_as_well(hidden: Callable[[torch.Tensor], object]) -> None:
    def answer(query, key, value, mask=None, dropout=None):
        hidden(torch.ones(1, 1, 2, 3))
        return scaled_dot_product_attention(query, key, value, mask, dropout)

    told = message("scaled_dot_product_attention", answer, may_not_call=[FUSED])
    assert f"doesn't allow {FUSED}" in told.replace("\n    ", " ")


def test_a_forbidden_function_in_python_is_found() -> None:
    name = "torch.nn.Transformer.generate_square_subsequent_mask"
    make = torch.nn.Transformer.generate_square_subsequent_mask
    told = message("causal_mask", lambda length: make(length).isfinite()[None], may_not_call=[name])
    assert f"doesn't allow {name}" in told.replace("\n    ", " ")


@pytest.mark.parametrize("name", ["greedy_decode", "beam_search", "tie_embeddings", "MultiHeadAttention"])
def test_a_check_draws_none_of_the_notebooks_random_numbers(name: str) -> None:
    exercise = catalogue()[name]
    assert isinstance(exercise, ExerciseCheck)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    check(name, {name: exercise.reference})
    assert torch.equal(torch.rand(3), expected)
