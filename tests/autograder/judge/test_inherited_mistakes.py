"""The choice of answers that are checked again with the course's code for earlier exercises."""

from dataclasses import asdict

from nbformat.v4 import new_output

from autograder.judge.inherited_mistakes import NOT_RUN, all_parts, answers_to_check_again
from autograder.judge.job import Cell, Job, Result
from autograder.sandbox.limits import Limits
from course_lib.checks.engine.findings import Finding, VerdictName

PARTS = ("attention_scores", "attention_weights", "scaled_dot_product_attention")


def chosen(
    *verdicts: VerdictName, released: bool = False, error: str = "CheckError"
) -> dict[tuple[str, ...], list[str]]:
    """Return the answers of lesson 01 to check again if its three exercises have these verdicts."""
    cells, outputs, findings = [], [], {}
    for name, verdict in zip(PARTS, verdicts, strict=True):
        cells += [Cell(name, "", False, False, released), Cell(f"check_{name}", "", True, False)]
        outputs += [[], [] if verdict == "right" else [new_output("error", ename=error, evalue="")]]
        findings[f"check_{name}"] = asdict(Finding(name, verdict))
    return answers_to_check_again(Job("01-attention", tuple(cells), (), Limits()), Result(outputs, findings))


def test_only_answers_that_use_failed_ones_are_checked_again() -> None:
    last = "check_scaled_dot_product_attention"
    assert chosen("right", "right", "wrong") == chosen("wrong", "wrong", "right") == {}
    assert chosen("wrong", "right", "wrong") == {("attention_scores",): [last]}
    assert chosen("out-of-time", "missing", "unwritten") == {
        ("attention_scores", "attention_weights"): [last]
    }


def test_unwritten_and_forbidden_answers_and_those_never_checked_are_left_out() -> None:
    assert chosen("wrong", "wrong", "forbidden") == {}
    assert chosen("wrong", "wrong", "unwritten", released=True) == {}
    assert chosen("kernel-died", "kernel-died", "kernel-died", error=NOT_RUN) == {}


def test_the_parts_of_a_part_are_available_too() -> None:
    assert all_parts(["Transformer"]) >= {"Transformer", "EncoderLayer", "MultiHeadAttention", "split_heads"}
