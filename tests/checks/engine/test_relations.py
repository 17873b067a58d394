"""Plain facts about how a wrong result relates to the expected one."""

import math

import pytest
import torch
from torch import Tensor

from course_lib.checks.engine.comparison import Arguments, Comparison
from course_lib.checks.engine.diagnosis import examine
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.relations import relation
from course_lib.checks.engine.reply import Text
from course_lib.checks.exercises.registry import catalogue
from course_lib.transformer import LayerNorm, scaled_dot_product_attention

DRAWN = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ROWS = DRAWN.softmax(-1)
MASK = torch.tensor([[True, True, False, False, True]] * 4)
EMPTY = MASK.clone()
EMPTY[1] = False


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (DRAWN * 2, "Every number is the expected one times 2."),
        (DRAWN / math.sqrt(6), "Every number is the expected one divided by √6, about 2.449."),
        (DRAWN - 0.5, "Every number is the expected one minus 0.5."),
        (-DRAWN, "Every number has the opposite sign."),
        (DRAWN * 0, "Every number of your result is 0."),
        (DRAWN.flip(1), "Along axis 1, your result is in reverse order."),
        (DRAWN.roll(1, 2), "Along axis 2, your result is shifted by 1."),
        (DRAWN[:, [0, 2, 1, 3]], "your result holds the expected slices in a different order: [0, 2, 1, 3]."),
        (DRAWN.transpose(1, 2), "With its axes in the expected order, every number is right."),
        (DRAWN.reshape(3, 20), "The numbers are the expected ones, in the same order"),
        (DRAWN.sum(1), "Your result is the expected one, summed over axis 1."),
        (DRAWN[:, :-1], "Your result is only the first 3 of the 4 expected elements along axis 1."),
        (DRAWN.clamp(min=0), "Your result is the expected one with every negative number replaced by 0."),
        (DRAWN.float(), "Apart from the dtype, every number is right."),
        (DRAWN * DRAWN.sum(-1, keepdim=True), "Each row is the expected one times its own factor (from "),
        (DRAWN + DRAWN.sum(-1, keepdim=True), "Each row is the expected one plus its own constant (from "),
        (torch.where(MASK, DRAWN, 1e9 * DRAWN**2), "All wrong numbers are where the mask is False."),
        (torch.where(DRAWN > 1, math.nan, DRAWN), "numbers in your result are NaN."),
        ((DRAWN, DRAWN), "The item at index 0 of your result is the expected result: return only that."),
    ],
)  # fmt: skip
def test_a_relation_is_found(found: Tensor, says: str) -> None:
    assert says in relation(DRAWN, found, Arguments((MASK,)))


def test_rows_that_the_mask_hides_entirely() -> None:
    expected = ROWS * EMPTY
    found = torch.where(EMPTY.any(-1, keepdim=True), expected, 0.2)
    assert "All wrong numbers are in rows that are masked entirely" in relation(
        expected, found, Arguments((EMPTY.expand(3, 4, 5),))
    )


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (~EMPTY, "Every truth value is inverted."),
        (EMPTY | True, "Every value of your result is True."),
        (
            EMPTY & (torch.arange(5) > 0),
            "the others are right. The wrong elements are all at index 0 of axis 1, which has size 5.",
        ),
        (EMPTY.float(), "Apart from the dtype, every number is right."),
    ],
)  # fmt: skip
def test_truth_values(found: Tensor, says: str) -> None:
    assert says in relation(EMPTY, found)


@pytest.mark.parametrize(
    ("expected", "found", "says"),
    [
        (0.3, 0.3137, ""),
        ({"a": 1.5, "b": 2.5, "c": 4.5}, {"a": 3.0, "b": 5.0, "c": 9.0}, "times 2"),
        (Text("a b c d"), Text("a c b d"), "The words are the expected ones, in a different order."),
        (Text("a b c d"), Text("a b e"), "Missing: c, d. Unexpected: e."),
        (
            Text("ein Rad fährt vorbei"),
            Text("ein Hund fährt vorbei"),
            "Missing: Rad. Unexpected: Hund.",
        ),
        (Text("a b c d e f"), Text("a g h i"), ""),
        ("a pair of tensors", "a tensor of two", ""),
        (torch.tensor([[1.5, 2.5], [3.5, 5.5]]), (1.5, 2.5, 3.5, 5.5), ""),
        ("a", "b", ""),
    ],
)
def test_numbers_and_words(expected: object, found: object, says: str) -> None:
    assert says in relation(expected, found)
    assert says or not relation(expected, found)


@pytest.mark.parametrize("seed", range(40))
def test_unrelated_results_of_any_kind_give_no_error(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    dtypes = (torch.float64, torch.float16, torch.int64, torch.bool)

    def any_tensor() -> Tensor:
        shape = torch.randint(0, 4, (int(torch.randint(0, 4, (), generator=draw)),), generator=draw).tolist()
        dtype = dtypes[int(torch.randint(0, 4, (), generator=draw))]
        return torch.randn(shape, generator=draw).mul(3).to(dtype)

    for _ in range(20):
        expected, found = any_tensor(), any_tensor()
        assert isinstance(relation(expected, found, Arguments((any_tensor(), 3, None))), str)


@pytest.mark.parametrize("found", [1e306, 1e-320, -1e306])
def test_extreme_numbers_give_no_error(found: float) -> None:
    assert relation(3.0, found) == relation(1e200, found) == ""


def test_results_on_another_device_are_not_compared() -> None:
    here, elsewhere = torch.ones(2, 3), torch.ones(2, 3, device="meta")
    assert relation((here, here), (elsewhere, elsewhere)) == relation(here, (elsewhere,)) == ""


def _returns_the_values(query, key, value, mask=None, dropout=None):
    return value, scaled_dot_product_attention(query, key, value, mask, dropout)[1]


def _cuts_the_keys(query, key, value, mask=None, dropout=None):
    return scaled_dot_product_attention(query, key.detach(), value, mask, dropout)


def _scales_in_place(query, key, value, mask=None, dropout=None):
    result = scaled_dot_product_attention(query, key, value, mask, dropout)
    query.mul_(2)
    return result


class _CutsTheInput(LayerNorm):
    def forward(self, x):
        return super().forward(x.detach())


@pytest.mark.parametrize(
    ("answer", "exercise", "says"),
    [
        (_returns_the_values, "scaled_dot_product_attention", "Your result equals `value`, unchanged."),
        (_cuts_the_keys, "scaled_dot_product_attention", "No gradient reaches `key`."),
        (
            _scales_in_place,
            "scaled_dot_product_attention",
            "Your code changed `query` in place, but the caller needs the old values.",
        ),
        (_CutsTheInput, "LayerNorm", "Expected the gradient of the input to be a tensor of shape (2, 3, 5)"),
    ],
)
def test_arguments_have_names(answer: object, exercise: str, says: str) -> None:
    verdict = examine(catalogue()[exercise], LocalBackend(answer), "seed")
    assert verdict.difference is not None
    assert says in " ".join([verdict.difference.facts, *verdict.facts])


def test_nothing_is_said_about_the_relation_of_truth_values_with_names() -> None:
    claims = {"«one»": True, "«other»": True}
    assert relation(claims, dict.fromkeys(claims, False)) == ""
    assert relation(True, False) == ""


def test_a_number_as_a_tensor_is_told_apart_from_a_wrong_number() -> None:
    assert "The value is right, but it must be a Python number" in relation(2.5, torch.tensor(2.5))
    assert "The value is right" not in relation(2.5, torch.tensor(3.5))


def test_a_claim_reads_as_a_sentence() -> None:
    difference = Comparison().difference(True, False, "«the mean is near 0»")
    assert difference is not None
    assert difference.facts == "This should be true, but isn't: the mean is near 0."
    difference = Comparison().difference(False, True, "«the state dict has an entry `mask`»")
    assert difference is not None
    assert difference.facts == "This shouldn't be true, but is: the state dict has an entry `mask`."


def test_facts_in_words_are_not_quoted() -> None:
    difference = Comparison().difference("one", "several: `encode` twice", "the number of calls of `encode`")
    assert difference is not None
    assert (
        difference.facts == "Expected the number of calls of `encode` to be one, got several: `encode` twice."
    )


def test_a_missing_error_is_expected_and_not_a_response() -> None:
    difference = Comparison().difference("an error", "a result", "the response for a max_length of 5")
    assert difference is not None
    assert difference.facts == "Expected an error for a max_length of 5, got a result."


def test_arguments_without_names_are_numbered() -> None:
    assert "Your result equals argument 2, unchanged." in relation(DRAWN, ROWS, Arguments((None, ROWS)))
