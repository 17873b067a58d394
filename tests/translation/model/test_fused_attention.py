"""PyTorch's fused kernel gives the same results as lesson 01's matrix products."""

import pytest
import torch
from torch import nn

from course_lib.errors import BadInputError
from course_lib.transformer import causal_mask, scaled_dot_product_attention
from course_lib.translation.model.fused import fused_attention


@pytest.mark.parametrize("masked", [False, True])
def test_it_equals_the_matrix_products(masked: bool) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    mask = causal_mask(5).unsqueeze(0) if masked else None
    expected, _ = scaled_dot_product_attention(query, key, value, mask)
    output, weights = fused_attention(query, key, value, mask, nn.Dropout(0.5).eval())
    assert weights is None
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(
        torch.autograd.grad(output.square().sum(), (query, key, value)),
        torch.autograd.grad(expected.square().sum(), (query, key, value)),
    )


def test_a_query_that_may_look_at_nothing_gets_zeros() -> None:
    query, key, value = (torch.randn(1, 1, 2, 4) for _ in range(3))
    mask = torch.tensor([[[[True, True], [False, False]]]])
    output, _ = fused_attention(query, key, value, mask)
    assert output[0, 0, 1].tolist() == [0.0] * 4


def test_dropout_that_does_not_say_how_likely_it_is_is_refused() -> None:
    query = torch.zeros(1, 1, 2, 4)
    with pytest.raises(BadInputError, match=r"must pass an nn.Dropout .* got function\. .*=plain"):
        fused_attention(query, query, query, None, lambda weights: weights)


def test_dropout_falls_on_the_weights_in_training_only() -> None:
    torch.manual_seed(0)
    query, key = torch.zeros(1, 1, 2000, 4), torch.zeros(1, 1, 10, 4)
    value = torch.ones(1, 1, 10, 4)
    dropout = nn.Dropout(0.3)
    output, _ = fused_attention(query, key, value, None, dropout)
    assert output.std() > 0.1
    assert output.mean().item() == pytest.approx(1.0, abs=0.02)
    output, _ = fused_attention(query, key, value, None, dropout.eval())
    torch.testing.assert_close(output, torch.ones_like(output))
