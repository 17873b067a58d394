"""Lesson 06: one layer of the encoder and of the decoder, compared with PyTorch's layers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from course_lib.transformer import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    SublayerConnection,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
)

from .samples import (
    PAD,
    assert_close,
    leaves,
    numbers,
    random_mask,
    seeds,
    sentences,
    with_random_weights,
)
from .torch_twins import (
    assert_same_gradients,
    decoder_layer_state,
    encoder_layer_state,
    gradient,
    new_decoder_layer,
    new_encoder_layer,
    weight,
)

norm_orders = pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
# d_model, heads, d_ff.
sizes = pytest.mark.parametrize(("d_model", "heads", "d_ff"), [(8, 2, 12), (7, 7, 3), (7, 1, 5), (1, 1, 1)])


def backward_together(ours: Tensor, theirs: Tensor) -> None:
    weight_of_outputs = numbers(*ours.shape)
    (ours * weight_of_outputs).sum().backward()
    (theirs * weight_of_outputs).sum().backward()


@norm_orders
@sizes
@pytest.mark.parametrize("lengths", [[4, 2, 1], [1], [3]])
def test_an_encoder_layer_is_that_of_torch(
    d_model: int, heads: int, d_ff: int, norm_first: bool, lengths: list[int]
) -> None:
    layer = with_random_weights(EncoderLayer(d_model, heads, d_ff, 0.0, norm_first))
    twin = new_encoder_layer(d_model, heads, d_ff, norm_first)
    twin.load_state_dict(encoder_layer_state(layer, weight))
    source = sentences(lengths)
    (x,) = leaves((*source.shape, d_model))
    copy = x.detach().clone().requires_grad_()

    output = layer(x, padding_mask(source, PAD))
    expected = twin(copy, src_key_padding_mask=source == PAD)
    assert_close(output, expected)
    backward_together(output, expected)
    assert_close(x.grad, copy.grad)
    assert_same_gradients(twin, encoder_layer_state(layer, gradient))


@norm_orders
@sizes
@pytest.mark.parametrize(
    ("source_lengths", "target_lengths"), [([4, 2, 1], [3, 5, 2]), ([1], [1]), ([5], [2])]
)
def test_a_decoder_layer_is_that_of_torch(
    d_model: int,
    heads: int,
    d_ff: int,
    norm_first: bool,
    source_lengths: list[int],
    target_lengths: list[int],
) -> None:
    layer = with_random_weights(DecoderLayer(d_model, heads, d_ff, 0.0, norm_first))
    twin = new_decoder_layer(d_model, heads, d_ff, norm_first)
    twin.load_state_dict(decoder_layer_state(layer, weight))
    source, target = sentences(source_lengths), sentences(target_lengths)
    length = target.shape[1]
    x, memory = leaves((*target.shape, d_model), (*source.shape, d_model))
    copy, memory_copy = (tensor.detach().clone().requires_grad_() for tensor in (x, memory))

    target_mask = padding_mask(target, PAD) & causal_mask(length)
    output = layer(x, memory, padding_mask(source, PAD), target_mask)
    expected = twin(
        copy,
        memory_copy,
        tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
        tgt_key_padding_mask=target == PAD,
        memory_key_padding_mask=source == PAD,
    )
    assert_close(output, expected)
    backward_together(output, expected)
    assert_close(x.grad, copy.grad)
    assert_close(memory.grad, memory_copy.grad)
    assert_same_gradients(twin, decoder_layer_state(layer, gradient))


def test_without_masks_everything_may_be_looked_at() -> None:
    encoder, decoder = EncoderLayer(8, 2, 12, 0.0).double(), DecoderLayer(8, 2, 12, 0.0).double()
    x, memory = numbers(2, 3, 8), numbers(2, 5, 8)
    assert_close(encoder(x, None), encoder(x, torch.ones(2, 1, 3, dtype=torch.bool)))
    open_source, open_target = torch.ones(2, 1, 5, dtype=torch.bool), torch.ones(2, 3, 3, dtype=torch.bool)
    assert_close(decoder(x, memory, None, None), decoder(x, memory, open_source, open_target))


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_a_mask_of_every_allowed_shape_will_do(heads: int) -> None:
    layer, x, mask = with_random_weights(EncoderLayer(6, heads, 8, 0.0)), numbers(2, 4, 6), random_mask(4, 4)
    expected = layer(x, mask)
    assert_close(layer(x, mask.expand(2, 4, 4)), expected)
    assert_close(layer(x, mask.expand(2, heads, 4, 4)), expected)


def test_parts_carry_the_names_of_the_contract() -> None:
    encoder, decoder = EncoderLayer(8, 2, 12), DecoderLayer(8, 2, 12)
    for layer, sublayers in ((encoder, 2), (decoder, 3)):
        assert isinstance(layer.self_attention, MultiHeadAttention)
        assert isinstance(layer.feed_forward, FeedForward)
        assert isinstance(layer.sublayers, nn.ModuleList)
        assert len(layer.sublayers) == sublayers
        assert all(isinstance(sublayer, SublayerConnection) for sublayer in layer.sublayers)
    assert isinstance(decoder.cross_attention, MultiHeadAttention)


@norm_orders
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_pitfall_06_the_dropout_argument_reaches_every_part(dropout: float, norm_first: bool) -> None:
    given_to_attention = []

    def recording(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, drop: nn.Dropout
    ) -> tuple[Tensor, Tensor]:
        given_to_attention.append((drop.p, drop.training))
        return scaled_dot_product_attention(query, key, value, mask, drop)

    encoder = EncoderLayer(8, 2, 12, dropout, norm_first, recording).double()
    decoder = DecoderLayer(8, 2, 12, dropout, norm_first, recording).double()
    for layer, dropouts in ((encoder, 4), (decoder, 6)):
        rates = [module.p for module in layer.modules() if isinstance(module, nn.Dropout)]
        assert rates == [dropout] * dropouts
    x, memory = numbers(2, 5, 8), numbers(2, 3, 8)
    encoder(x, None)
    decoder(x, memory, None, None)
    assert given_to_attention == [(dropout, True)] * 3
    for run in (lambda: encoder(x, None), lambda: decoder(x, memory, None, None)):
        encoder.train(), decoder.train()
        training = run()
        encoder.eval(), decoder.eval()
        assert torch.equal(training, run()) == (dropout == 0.0)
        assert torch.equal(run(), run())


@norm_orders
def test_with_all_dropped_only_the_residual_path_is_left(norm_first: bool) -> None:
    x, memory = numbers(2, 5, 8), numbers(2, 3, 8)
    norm = nn.LayerNorm(8, eps=1e-6, dtype=torch.float64)
    encoder = EncoderLayer(8, 2, 12, 1.0, norm_first).double()
    decoder = DecoderLayer(8, 2, 12, 1.0, norm_first).double()
    assert_close(encoder(x, None), x if norm_first else norm(norm(x)))
    assert_close(decoder(x, memory, None, None), x if norm_first else norm(norm(norm(x))))


@given(seeds, st.integers(1, 6), st.booleans())
def test_an_encoder_layer_knows_no_order(seed: int, length: int, norm_first: bool) -> None:
    torch.manual_seed(seed)
    layer = with_random_weights(EncoderLayer(6, 2, 8, 0.0, norm_first))
    x, mask, order = numbers(2, length, 6), random_mask(2, 1, length), torch.randperm(length)
    assert_close(layer(x[:, order], mask[:, :, order]), layer(x, mask)[:, order])


@given(seeds, st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_a_decoder_layer_knows_no_order_of_its_memory(
    seed: int, length: int, source_length: int, norm_first: bool
) -> None:
    torch.manual_seed(seed)
    layer = with_random_weights(DecoderLayer(6, 2, 8, 0.0, norm_first))
    x, memory, mask = numbers(2, length, 6), numbers(2, source_length, 6), random_mask(2, 1, source_length)
    order = torch.randperm(source_length)
    moved = layer(x, memory[:, order], mask[:, :, order], causal_mask(length))
    assert_close(moved, layer(x, memory, mask, causal_mask(length)))


@given(seeds, st.integers(1, 6), st.integers(0, 5), st.booleans())
def test_a_later_token_changes_no_earlier_output(seed: int, length: int, late: int, norm_first: bool) -> None:
    torch.manual_seed(seed)
    late = min(late, length - 1)
    layer = with_random_weights(DecoderLayer(6, 2, 8, 0.0, norm_first))
    x, memory = numbers(2, length, 6), numbers(2, 3, 6)
    changed = x.clone()
    changed[:, late:] += numbers(2, length - late, 6)
    before, after = (layer(inputs, memory, None, causal_mask(length)) for inputs in (x, changed))
    assert_close(before[:, :late], after[:, :late], rtol=0.0, atol=1e-13)
    assert not torch.allclose(before[:, late:], after[:, late:])
