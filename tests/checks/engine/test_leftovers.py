"""Diagnoses based on structure, such as leftover stubs, wrong axes and errors that are returned."""

import pytest
import torch

from course_lib.checks import CheckError, check
from course_lib.transformer import (
    LabelSmoothingLoss,
    LayerNorm,
    attention_scores,
    scaled_dot_product_attention,
)

STUB = "attention_scores is yours to write: lesson 01, exercise 1 of 3"


def message(found: object, name: str = "attention_scores") -> str:
    with pytest.raises(CheckError) as caught:
        check(name, {name: found})
    return str(caught.value).replace("\n    ", " ")


def test_a_stub_left_above_finished_code_is_named() -> None:
    def answer(query, key):
        raise NotImplementedError(STUB)
        return query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5

    assert "a line that raises NotImplementedError is still in your code." in message(answer)


def test_a_stub_left_below_finished_code_is_named() -> None:
    def answer(query, key):
        scores = query @ key.transpose(-2, -1)
        scores = scores / query.shape[-1] ** 0.5
        raise NotImplementedError(STUB)

    assert "a line that raises NotImplementedError is still in your code." in message(answer)


def test_an_error_that_is_returned_is_told_from_one_that_is_raised() -> None:
    def split_heads(x, heads):
        if x.shape[-1] % heads:
            return ValueError(f"{x.shape[-1]} features cannot be split among {heads} heads")
        return x.unflatten(-1, (heads, -1)).transpose(-3, -2)

    told = message(split_heads, "split_heads")
    assert "returned" in told


async def unawaited(query, key):
    return attention_scores(query, key)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda q, k: attention_scores(q, k).transpose(-2, -1), "axes 0 and 1 are swapped"),
        (lambda q, k: attention_scores(q, k).unsqueeze(0), "axis 0 should not be there"),
        (lambda q, k: attention_scores(q, k)[0], "axis 0 of the expected result is missing"),
        (lambda q, k: attention_scores(q, k)[:, 1:], "axis 1 has the wrong size"),
        (lambda q, k: attention_scores(q, k).numpy(), "Compute with torch, not NumPy"),
        (lambda q, k: attention_scores(q, k).clone, "Are the parentheses of a call missing?"),
        (lambda q, k: (yield attention_scores(q, k)), "`yield` returns a generator"),
        (unawaited, "Write `def` instead of `async def`"),
        (lambda q, k: attention_scores(q, k) * torch.nan, "got nan"),
        (lambda q, k: querry, "Is the name misspelled"),
    ],
)
def test_structure_is_described(answer: object, says: str) -> None:
    assert says in message(answer)


def test_a_combination_of_three_is_named() -> None:
    def answer(query, key):
        query /= 1.0
        return (key @ query.transpose(-2, -1)).softmax(-1)

    assert message(answer).startswith("✗ attention_scores: ")


def test_a_resemblance_is_said_as_no_more() -> None:
    def answer(query, key):
        scores = query @ key.transpose(-2, -1)
        return scores if query.dim() == 2 else scores * 3

    told = message(answer).replace("\n    ", " ")
    assert told.startswith("✗ attention_scores: incorrect.")
    assert "gives the same result as your code: the dot products are not divided" in told
    assert "But it doesn't explain the test “" in told


def test_a_resemblance_says_if_the_tests_that_it_does_not_explain_succeed() -> None:
    def answer(query, key):
        scores = query @ key.transpose(-2, -1)
        return scores if query.dim() == 2 else scores / query.shape[-1] ** 0.5

    told = message(answer).replace("\n    ", " ")
    assert "gives the same result as your code: the dot products are not divided" in told
    assert "But it would also fail the test “" in told
    assert "which your code passes. Yours may be a variant of it." in told
    assert "second mistake" not in told


def test_a_resemblance_in_a_later_test_is_said_as_such() -> None:
    def answer(query, key):
        if query.dim() == 2:
            raise IndexError("tuple index out of range")
        return query @ key.transpose(-2, -1)

    told = message(answer).replace("\n    ", " ")
    assert (
        "Your code raised IndexError: tuple index out of range. This happened in your line `raise IndexError"
        in told
    )
    assert "In another test (batch and head axes are kept), for instance, a known mistake gives " in told


def test_no_line_is_quoted_that_the_student_has_not_written() -> None:
    class StoresItsOutput(LayerNorm):
        def forward(self, x):
            self.output = super().forward(x)
            return self.output

    told = message(StoresItsOutput, "LayerNorm")
    assert "deepcopy" in told
    assert "This happened in your line" not in told


def test_code_that_keeps_something_between_calls_is_told() -> None:
    seen = []

    def answer(query, key):
        seen.append(query)
        return attention_scores(query, key) * (1 + len(seen) * key.abs())[..., :1, :1].sqrt()

    assert "When this test is repeated, your code gives a different result." in message(answer)


def test_code_that_is_stopped_later_is_not_said_to_give_another_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(query, key):
        while query.dtype == torch.bfloat16:
            pass
        return attention_scores(query, key).sin() * query[..., :1, :1]

    monkeypatch.setattr("course_lib.checks.engine.local_backend.SECONDS", 0.3)
    assert "repeats this test" not in message(answer)


def test_code_with_wrong_gradients_alone_is_told() -> None:
    class WithoutGradientOfDeviation(LayerNorm):
        def forward(self, x):
            with torch.no_grad():
                deviation = (x.var(-1, correction=0, keepdim=True) + self.eps).sqrt()
            return self.scale * (x - x.mean(-1, keepdim=True)) / deviation + self.shift

    told = message(WithoutGradientOfDeviation, "LayerNorm")
    assert "Your code passes all tests except those for gradients." in told
    assert told.count("Gradients are cut by") == 1


def test_the_causes_of_a_missing_gradient_are_listed_once() -> None:
    def cuts_the_keys(query, key, value, mask=None, dropout=None):
        return scaled_dot_product_attention(query, key.detach(), value, mask, dropout)

    told = message(cuts_the_keys, "scaled_dot_product_attention")
    assert "Your code passes all tests except those for gradients." in told
    assert told.count("Gradients are cut by") == 1


def test_a_wrong_value_in_a_test_of_gradients_is_not_blamed_on_them() -> None:
    class WrongInEvaluation(LabelSmoothingLoss):
        def forward(self, logits, labels):
            loss = super().forward(logits, labels)
            return loss if self.training else loss * loss.sin()

    assert "those of gradients" not in message(WrongInEvaluation, "LabelSmoothingLoss")
