"""Lesson 01: scores, weights, attention, compared with loops and `F.scaled_dot_product_attention`."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from course_lib.transformer import attention_scores, attention_weights, scaled_dot_product_attention

from .samples import assert_close, leaves, numbers, random_mask, seeds, unchanged

# Leading axes, queries, keys, width: unequal sizes, lengths of one, and zero to three leading axes.
SIZES = [((), 3, 4, 5), ((1,), 1, 1, 1), ((2,), 1, 6, 7), ((2, 3), 5, 1, 4), ((2, 1, 3), 4, 5, 2)]
lengths = st.integers(1, 6)


@pytest.mark.parametrize(("axes", "queries", "keys", "width"), SIZES)
def test_scores_are_dot_products_over_the_root_of_the_width(
    axes: tuple[int, ...], queries: int, keys: int, width: int
) -> None:
    query, key = numbers(*axes, queries, width), numbers(*axes, keys, width)
    scores = attention_scores(query, key)
    assert scores.shape == (*axes, queries, keys)
    flat = zip(query.reshape(-1, queries, width), key.reshape(-1, keys, width), strict=True)
    by_hand = [
        [[math.fsum((q * k).tolist()) / math.sqrt(width) for k in key_rows] for q in query_rows]
        for query_rows, key_rows in flat
    ]
    assert_close(scores.reshape(-1, queries, keys), torch.tensor(by_hand, dtype=torch.float64))


def test_scores_of_axes_that_broadcast() -> None:
    query, key = numbers(2, 1, 3, 4), numbers(1, 5, 6, 4)
    expected = torch.einsum("bqd,hkd->bhqk", query[:, 0], key[0]) / 2
    assert_close(attention_scores(query, key), expected)


def test_the_root_of_the_width_keeps_the_spread_of_scores_at_one() -> None:
    for width in (4, 64, 1024):
        scores = attention_scores(numbers(1000, width), numbers(1000, width))
        assert scores.std().item() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(("axes", "queries", "keys", "width"), SIZES)
def test_weights_without_a_mask_are_a_softmax(
    axes: tuple[int, ...], queries: int, keys: int, width: int
) -> None:
    scores = numbers(*axes, queries, keys)
    assert_close(attention_weights(scores), F.softmax(scores, dim=-1))


def test_weights_by_hand() -> None:
    scores = torch.tensor([[0.0, math.log(2.0), math.log(5.0)]], dtype=torch.float64)
    expected = torch.tensor([[1 / 8, 2 / 8, 5 / 8]], dtype=torch.float64)
    assert_close(attention_weights(scores), expected)
    mask = torch.tensor([[True, False, True]])
    assert_close(attention_weights(scores, mask), torch.tensor([[1 / 6, 0, 5 / 6]], dtype=torch.float64))


@given(seeds, st.integers(1, 3), lengths, lengths)
def test_weights_are_zero_where_forbidden_and_sum_to_one(
    seed: int, batch: int, queries: int, keys: int
) -> None:
    torch.manual_seed(seed)
    scores, mask = 10 * numbers(batch, queries, keys), random_mask(batch, queries, keys)
    weights = attention_weights(scores, mask)
    assert torch.all(weights[~mask] == 0.0)
    assert torch.all(weights >= 0.0)
    assert_close(weights.sum(dim=-1), torch.ones(batch, queries, dtype=torch.float64))


@given(seeds, lengths, lengths, st.floats(-50, 50))
def test_weights_do_not_change_when_all_scores_of_a_query_rise_alike(
    seed: int, queries: int, keys: int, rise: float
) -> None:
    torch.manual_seed(seed)
    scores, mask = numbers(queries, keys), random_mask(queries, keys)
    assert_close(attention_weights(scores + rise, mask), attention_weights(scores, mask))


def test_weights_of_huge_scores_are_finite() -> None:
    scores = torch.tensor([[1e30, -1e30, 1e30]], dtype=torch.float64)
    assert attention_weights(scores).tolist() == [[0.5, 0.0, 0.5]]
    mask = torch.tensor([[False, True, False]])
    assert attention_weights(scores, mask).tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    "shape", [(3, 4), (1, 4), (4,), (2, 1, 3, 4), (2, 1, 1, 4), (1, 5, 3, 4), (2, 5, 3, 4)]
)
def test_a_mask_broadcasts_against_the_scores(shape: tuple[int, ...]) -> None:
    scores, mask = numbers(2, 5, 3, 4), random_mask(*shape)
    expected = F.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)
    assert_close(attention_weights(scores, mask), expected)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("axes", "queries", "keys", "width"), SIZES)
def test_attention_and_its_gradients_are_those_of_torch(
    axes: tuple[int, ...], queries: int, keys: int, width: int, masked: bool
) -> None:
    shapes = ((*axes, queries, width), (*axes, keys, width), (*axes, keys, width + 1))
    ours = leaves(*shapes)
    torchs = [tensor.detach().clone().requires_grad_() for tensor in ours]
    mask = random_mask(*axes, queries, keys) if masked else None
    weight_of_outputs = numbers(*axes, queries, width + 1)

    output, weights = scaled_dot_product_attention(*ours, mask)
    expected = F.scaled_dot_product_attention(*torchs, attn_mask=mask)
    assert_close(output, expected)
    assert_close(weights @ ours[2], expected)
    (output * weight_of_outputs).sum().backward()
    (expected * weight_of_outputs).sum().backward()
    for tensor, twin in zip(ours, torchs, strict=True):
        assert_close(tensor.grad, twin.grad)


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (2, 1, 1, 4), (2, 1, 3, 4), (2, 5, 3, 4)])
def test_attention_under_broadcast_masks_is_that_of_torch(shape: tuple[int, ...]) -> None:
    query, key, value = numbers(2, 5, 3, 6), numbers(2, 5, 4, 6), numbers(2, 5, 4, 6)
    mask = random_mask(*shape)
    output, _ = scaled_dot_product_attention(query, key, value, mask)
    assert_close(output, F.scaled_dot_product_attention(query, key, value, attn_mask=mask))


@given(seeds, lengths, st.integers(1, 8), lengths)
def test_a_forbidden_key_is_as_good_as_no_key(seed: int, queries: int, keys: int, width: int) -> None:
    torch.manual_seed(seed)
    query, key, value = numbers(queries, width), numbers(keys, width), numbers(keys, width)
    allowed = random_mask(keys)
    output, _ = scaled_dot_product_attention(query, key, value, allowed)
    without, _ = scaled_dot_product_attention(query, key[allowed], value[allowed])
    assert_close(output, without)


@given(seeds, lengths, lengths)
def test_attention_does_not_mind_the_order_of_keys_and_keeps_that_of_queries(
    seed: int, queries: int, keys: int
) -> None:
    torch.manual_seed(seed)
    query, key, value = numbers(queries, 3), numbers(keys, 3), numbers(keys, 2)
    mask = random_mask(queries, keys)
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    of_queries, of_keys = torch.randperm(queries), torch.randperm(keys)
    moved, moved_weights = scaled_dot_product_attention(
        query[of_queries], key[of_keys], value[of_keys], mask[of_queries][:, of_keys]
    )
    assert_close(moved, output[of_queries])
    assert_close(moved_weights, weights[of_queries][:, of_keys])


@given(seeds, lengths, lengths)
def test_attention_stays_between_the_least_and_the_greatest_value(seed: int, queries: int, keys: int) -> None:
    torch.manual_seed(seed)
    value = numbers(keys, 3)
    output, _ = scaled_dot_product_attention(numbers(queries, 2), numbers(keys, 2), value)
    assert torch.all(output <= value.amax(dim=0) + 1e-12)
    assert torch.all(output >= value.amin(dim=0) - 1e-12)


def test_dropout_meets_the_weights_before_the_values_do() -> None:
    query, key, value, mask = numbers(2, 3, 4), numbers(2, 5, 4), numbers(2, 5, 6), random_mask(2, 3, 5)
    plain, plain_weights = scaled_dot_product_attention(query, key, value, mask)
    kept = (torch.rand(2, 3, 5) < 0.5) * 2.0
    seen = []

    def dropout(weights: Tensor) -> Tensor:
        seen.append(weights)
        return weights * kept

    output, weights = scaled_dot_product_attention(query, key, value, mask, dropout)
    assert len(seen) == 1
    assert torch.equal(seen[0], plain_weights)
    assert_close(output, (plain_weights * kept) @ value)
    assert not torch.allclose(output, plain)
    assert torch.equal(weights, plain_weights)


def test_pitfall_16_the_returned_weights_are_those_before_dropout() -> None:
    query, key, value = numbers(3, 4), numbers(50, 4), numbers(50, 4)
    _, weights = scaled_dot_product_attention(query, key, value, None, torch.nn.Dropout(0.5))
    assert_close(weights.sum(dim=-1), torch.ones(3, dtype=torch.float64))


def test_pitfall_09_a_query_that_may_look_at_nothing_gets_zeros_and_a_gradient_of_zeros() -> None:
    query, key, value = leaves((2, 3, 4), (2, 5, 4), (2, 5, 6))
    mask = random_mask(2, 3, 5)
    mask[0, 1] = False
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    assert torch.all(weights[0, 1] == 0.0)
    assert torch.all(output[0, 1] == 0.0)
    assert_close(output, F.scaled_dot_product_attention(query, key, value, attn_mask=mask))
    (output * numbers(2, 3, 6)).sum().backward()
    assert torch.all(query.grad[0, 1] == 0.0)
    for tensor in (query, key, value):
        assert tensor.grad.isfinite().all()
    assert query.grad[0, 0].abs().sum() > 0.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_pitfall_09_nothing_at_all_to_look_at_gives_zeros_in_every_dtype(dtype: torch.dtype) -> None:
    scores = torch.randn(2, 3, 4).to(dtype).requires_grad_()
    weights = attention_weights(scores, torch.zeros(2, 3, 4, dtype=torch.bool))
    assert weights.dtype == dtype
    assert torch.all(weights == 0.0)
    (weights * torch.randn(2, 3, 4).to(dtype)).sum().backward()
    assert torch.all(scores.grad == 0.0)


def test_pitfall_09_no_nan_arises_on_the_way_to_those_zeros() -> None:
    """A student who searches for a NaN with anomaly detection must not find one in the reference."""
    scores = numbers(3, 4).requires_grad_()
    with torch.autograd.set_detect_anomaly(True):
        attention_weights(scores, torch.zeros(3, 4, dtype=torch.bool)).sum().backward()
    assert torch.all(scores.grad == 0.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [1.0, 60000.0])
def test_pitfall_09_masking_works_in_half_precision(dtype: torch.dtype, size: float) -> None:
    scores = (size * torch.rand(4, 6) - size / 2).to(dtype).requires_grad_()
    mask = random_mask(4, 6)
    weights = attention_weights(scores, mask)
    exact = F.softmax(scores.detach().double().masked_fill(~mask, -torch.inf), dim=-1)
    assert weights.dtype == dtype
    assert torch.all(weights[~mask] == 0.0)
    assert_close(weights.double(), exact, rtol=0.0, atol=torch.finfo(dtype).eps)
    weights.max(dim=-1).values.sum().backward()
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_attention_in_lower_precision_is_near_that_in_float64(dtype: torch.dtype) -> None:
    query, key, value, mask = numbers(2, 3, 4), numbers(2, 5, 4), numbers(2, 5, 6), random_mask(2, 3, 5)
    exact, _ = scaled_dot_product_attention(query, key, value, mask)
    output, weights = scaled_dot_product_attention(query.to(dtype), key.to(dtype), value.to(dtype), mask)
    assert output.dtype == weights.dtype == dtype
    assert_close(output.double(), exact, rtol=0.0, atol=20 * torch.finfo(dtype).eps)


def test_gradients_agree_with_finite_differences() -> None:
    mask = random_mask(2, 3)
    mask[1] = False

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return scaled_dot_product_attention(query, key, value, mask)[0]

    assert torch.autograd.gradcheck(attend, leaves((2, 3), (3, 3), (3, 2)))


def test_views_of_any_stride_will_do() -> None:
    query, key, value = numbers(4, 3, 2).permute(1, 2, 0), numbers(3, 4, 5).mT, numbers(3, 10, 2)[:, ::2]
    output, _ = scaled_dot_product_attention(query, key, value)
    assert_close(
        output, F.scaled_dot_product_attention(query.contiguous(), key.contiguous(), value.contiguous())
    )


def test_inputs_are_not_written_into() -> None:
    query, key, value, mask = numbers(2, 3, 4), numbers(2, 5, 4), numbers(2, 5, 6), random_mask(2, 3, 5)
    scores = numbers(2, 3, 5)
    with unchanged(query, key, value, mask, scores):
        attention_scores(query, key)
        attention_weights(scores)
        attention_weights(scores, mask)
        scaled_dot_product_attention(query, key, value, mask, torch.nn.Dropout(0.5))
