"""Lesson 02: heads, compared with explicit indices and with `nn.MultiheadAttention`."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from course_lib.transformer import (
    MultiHeadAttention,
    causal_mask,
    merge_heads,
    scaled_dot_product_attention,
    split_heads,
)

from .samples import (
    assert_close,
    leaves,
    numbers,
    random_mask,
    seeds,
    sentences,
    with_random_weights,
)
from .torch_twins import assert_same_gradients, attention_state, attention_twin, gradient

# Batch, queries, keys, d_model, heads.
SIZES = [(2, 3, 3, 8, 2), (1, 1, 1, 1, 1), (3, 4, 5, 7, 7), (2, 5, 1, 7, 1), (1, 2, 6, 6, 3)]
sizes = pytest.mark.parametrize(("batch", "queries", "keys", "d_model", "heads"), SIZES)


def attention_of(d_model: int, heads: int, dropout: float = 0.0) -> MultiHeadAttention:
    return with_random_weights(MultiHeadAttention(d_model, heads, dropout))


def test_each_head_gets_its_share_of_the_features() -> None:
    x = numbers(2, 3, 8)
    heads = split_heads(x, 4)
    assert heads.shape == (2, 4, 3, 2)
    for b, h, i, f in itertools.product(range(2), range(4), range(3), range(2)):
        assert heads[b, h, i, f] == x[b, i, 2 * h + f]


def test_merging_puts_the_heads_side_by_side() -> None:
    heads = numbers(2, 4, 3, 2)
    x = merge_heads(heads)
    assert x.shape == (2, 3, 8)
    for b, h, i, f in itertools.product(range(2), range(4), range(3), range(2)):
        assert x[b, i, 2 * h + f] == heads[b, h, i, f]


@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.integers(1, 4))
def test_merging_undoes_splitting(batch: int, length: int, heads: int, width: int) -> None:
    x = numbers(batch, length, heads * width)
    assert torch.equal(merge_heads(split_heads(x, heads)), x)


@pytest.mark.parametrize(("d_model", "heads"), [(7, 2), (8, 3), (2, 4)])
def test_features_that_heads_cannot_share_are_refused(d_model: int, heads: int) -> None:
    with pytest.raises(ValueError, match=rf"{d_model}.*{heads}"):
        split_heads(numbers(2, 3, d_model), heads)
    attention, x = attention_of(d_model, heads), numbers(2, 3, d_model)
    with pytest.raises(ValueError, match=rf"{d_model}.*{heads}"):
        attention(x, x, x)


def test_the_projections_are_linear_layers_with_bias() -> None:
    attention = MultiHeadAttention(6, 2)
    names = ("query_projection", "key_projection", "value_projection", "output_projection")
    expected = {f"{name}.{kind}" for name in names for kind in ("weight", "bias")}
    assert attention.state_dict().keys() == expected
    for name in names:
        assert isinstance(getattr(attention, name), torch.nn.Linear)
        assert getattr(attention, name).weight.shape == (6, 6)


def compare_with_torch(
    attention: MultiHeadAttention,
    heads: int,
    inputs: list[Tensor],
    mask: Tensor | None,
    **torch_masks: Tensor,
) -> None:
    """Compare output, gradients of the inputs and gradients of the weights."""
    twin = attention_twin(attention, inputs[0].shape[-1], heads)
    copies = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    output = attention(*inputs, mask)
    expected, _ = twin(*copies, need_weights=False, **torch_masks)
    assert_close(output, expected)
    weight_of_outputs = numbers(*output.shape)
    (output * weight_of_outputs).sum().backward()
    (expected * weight_of_outputs).sum().backward()
    for tensor, copy in zip(inputs, copies, strict=True):
        assert_close(tensor.grad, copy.grad)
    assert_same_gradients(twin, attention_state(attention, gradient))


@sizes
def test_it_is_the_attention_of_torch(batch: int, queries: int, keys: int, d_model: int, heads: int) -> None:
    inputs = leaves((batch, queries, d_model), (batch, keys, d_model), (batch, keys, d_model))
    compare_with_torch(attention_of(d_model, heads), heads, inputs, None)


@sizes
def test_a_mask_of_two_axes_holds_for_every_sentence_and_head(
    batch: int, queries: int, keys: int, d_model: int, heads: int
) -> None:
    inputs = leaves((batch, queries, d_model), (batch, keys, d_model), (batch, keys, d_model))
    mask = random_mask(queries, keys)
    compare_with_torch(attention_of(d_model, heads), heads, inputs, mask, attn_mask=~mask)


@sizes
def test_a_mask_of_three_axes_holds_for_every_head(
    batch: int, queries: int, keys: int, d_model: int, heads: int
) -> None:
    inputs = leaves((batch, queries, d_model), (batch, keys, d_model), (batch, keys, d_model))
    mask = random_mask(batch, queries, keys)
    torchs = ~mask.repeat_interleave(heads, dim=0)
    compare_with_torch(attention_of(d_model, heads), heads, inputs, mask, attn_mask=torchs)


@sizes
def test_a_mask_of_four_axes_is_taken_as_it_is(
    batch: int, queries: int, keys: int, d_model: int, heads: int
) -> None:
    inputs = leaves((batch, queries, d_model), (batch, keys, d_model), (batch, keys, d_model))
    mask = random_mask(batch, heads, queries, keys)
    compare_with_torch(attention_of(d_model, heads), heads, inputs, mask, attn_mask=~mask.flatten(0, 1))


def test_as_many_sentences_as_heads_are_not_mixed_up() -> None:
    inputs = leaves((3, 4, 6), (3, 4, 6), (3, 4, 6))
    mask = random_mask(3, 4, 4)
    torchs = ~mask.repeat_interleave(3, dim=0)
    compare_with_torch(attention_of(6, 3), 3, inputs, mask, attn_mask=torchs)


def test_a_padding_mask_and_a_causal_mask_are_those_of_torch() -> None:
    tokens = sentences([4, 2, 1])
    inputs = leaves((3, 4, 6), (3, 4, 6), (3, 4, 6))
    padding = tokens == 0
    mask = ~padding.unsqueeze(1) & causal_mask(4)
    forbidden = torch.ones(4, 4, dtype=torch.bool).triu(1)
    compare_with_torch(attention_of(6, 2), 2, inputs, mask, attn_mask=forbidden, key_padding_mask=padding)


def test_self_attention_sums_the_three_gradients_of_one_input() -> None:
    attention, (x,) = attention_of(6, 2), leaves((2, 3, 6))
    copy = x.detach().clone().requires_grad_()
    attention(x, x, x).square().sum().backward()
    attention_twin(attention, 6, 2)(copy, copy, copy)[0].square().sum().backward()
    assert_close(x.grad, copy.grad)


def test_a_query_that_may_look_at_nothing_gets_the_output_bias() -> None:
    attention, x, mask = attention_of(6, 2), numbers(2, 3, 6).requires_grad_(), random_mask(2, 3, 3)
    mask[1, 2] = False
    output = attention(x, x, x, mask)
    assert torch.equal(output[1, 2], attention.output_projection.bias)
    output.sum().backward()
    assert x.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in attention.parameters())


@given(seeds, st.integers(1, 5))
def test_it_keeps_the_order_of_queries_and_does_not_mind_that_of_keys(seed: int, length: int) -> None:
    torch.manual_seed(seed)
    attention, query, memory = attention_of(6, 2), numbers(2, length, 6), numbers(2, 4, 6)
    mask = random_mask(2, length, 4)
    of_queries, of_keys = torch.randperm(length), torch.randperm(4)
    moved_memory, moved_mask = memory[:, of_keys], mask[:, of_queries][:, :, of_keys]
    moved = attention(query[:, of_queries], moved_memory, moved_memory, moved_mask)
    assert_close(moved, attention(query, memory, memory, mask)[:, of_queries])


@given(seeds, st.integers(1, 5), st.integers(0, 4))
def test_a_later_key_changes_no_earlier_output_under_a_causal_mask(seed: int, length: int, late: int) -> None:
    torch.manual_seed(seed)
    late = min(late, length - 1)
    attention, x = attention_of(6, 3), numbers(2, length, 6)
    changed = x.clone()
    changed[:, late:] += numbers(2, length - late, 6)
    mask = causal_mask(length)
    before, after = attention(x, x, x, mask), attention(changed, changed, changed, mask)
    assert_close(before[:, :late], after[:, :late], rtol=0.0, atol=1e-13)
    assert not torch.allclose(before[:, late:], after[:, late:])


def test_the_attention_function_gets_heads_mask_and_dropout_and_may_keep_its_weights() -> None:
    calls = []

    def recording(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: torch.nn.Module
    ) -> tuple[Tensor, None]:
        calls.append((query.shape, key.shape, value.shape, mask, dropout))
        return scaled_dot_product_attention(query, key, value, mask, dropout)[0], None

    attention = MultiHeadAttention(6, 3, 0.25, attention=recording).double().eval()
    query, memory, mask = numbers(2, 4, 6), numbers(2, 5, 6), random_mask(2, 4, 5)
    output = attention(query, memory, memory, mask)
    ((query_shape, key_shape, value_shape, given_mask, dropout),) = calls
    assert query_shape == (2, 3, 4, 2)
    assert key_shape == value_shape == (2, 3, 5, 2)
    assert torch.equal(given_mask.expand(2, 3, 4, 5), mask.unsqueeze(1).expand(2, 3, 4, 5))
    assert dropout.p == 0.25
    attention.attention = scaled_dot_product_attention
    assert_close(output, attention(query, memory, memory, mask))


def test_the_fused_attention_of_torch_can_be_put_in() -> None:
    def fused(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: torch.nn.Dropout
    ) -> tuple[Tensor, None]:
        rate = dropout.p if dropout.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, mask, rate), None

    ours = attention_of(8, 2)
    theirs = MultiHeadAttention(8, 2, 0.0, attention=fused).double()
    theirs.load_state_dict(ours.state_dict())
    x, mask = numbers(2, 5, 8), random_mask(2, 5, 5)
    assert_close(ours(x, x, x, mask), theirs(x, x, x, mask))


def test_pitfall_06_the_dropout_argument_reaches_the_weights() -> None:
    x = numbers(2, 3, 6)
    all_dropped = attention_of(6, 2, dropout=1.0)
    expected = all_dropped.output_projection.bias.expand(2, 3, 6)
    assert torch.equal(all_dropped(x, x, x), expected)
    assert not torch.allclose(all_dropped.eval()(x, x, x), expected)


def test_pitfall_06_no_dropout_drops_nothing_in_training_either() -> None:
    attention, x = attention_of(6, 2, dropout=0.0), numbers(2, 3, 6)
    training = attention.train()(x, x, x)
    assert torch.equal(training, attention(x, x, x))
    assert torch.equal(training, attention.eval()(x, x, x))


def test_dropout_falls_on_the_weights_only() -> None:
    def without_dropout(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: torch.nn.Module
    ) -> tuple[Tensor, Tensor]:
        return scaled_dot_product_attention(query, key, value, mask)

    attention = with_random_weights(MultiHeadAttention(6, 2, 0.9, attention=without_dropout))
    x = numbers(2, 3, 6)
    assert torch.equal(attention.train()(x, x, x), attention.eval()(x, x, x))


def test_dropout_drops_a_tenth_unless_told() -> None:
    assert MultiHeadAttention(6, 2).dropout.p == 0.1


@pytest.mark.parametrize(
    ("query", "key", "value"),
    [
        ((2, 3, 4), (4, 3, 4), (4, 3, 4)),
        ((4, 3, 4), (2, 3, 4), (2, 3, 4)),
        ((2, 3, 4), (2, 3, 4), (4, 3, 4)),
        ((2, 3, 4), (2, 3, 4), (2, 6, 4)),
        ((2, 3, 4), (6, 1, 4), (6, 1, 4)),
    ],
)
@pytest.mark.usefixtures("shapes_unchecked")
def test_pitfall_10_a_key_batch_that_does_not_fit_is_refused(
    query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...]
) -> None:
    with pytest.raises((ValueError, RuntimeError)):
        attention_of(4, 2)(numbers(*query), numbers(*key), numbers(*value))


def test_pitfall_16_no_weights_are_stored_and_no_graph_is_kept_alive() -> None:
    attention, x = attention_of(6, 2), numbers(2, 3, 6)
    before = set(vars(attention))
    attention(x, x, x, random_mask(2, 3, 3))
    assert set(vars(attention)) == before
    assert not any(isinstance(value, Tensor) for value in vars(attention).values())
