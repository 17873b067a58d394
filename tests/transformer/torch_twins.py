"""PyTorch's own layers with our weights: both must compute the same results.

The functions named `..._state` arrange our weights under PyTorch's names. They read either the weights
(`torch.Tensor.detach`) or their gradients (`gradient`), so one layout serves for both copying and comparing.
PyTorch's masks are inverted: True means "may not attend".
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from course_lib.transformer import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    Transformer,
)

from .samples import assert_close

Read = Callable[[Tensor], Tensor]
State = dict[str, Tensor]

weight = Tensor.detach


def gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None, "a weight got no gradient"
    return parameter.grad


def under(name: str, state: State) -> State:
    return {f"{name}.{key}": value for key, value in state.items()}


def linear_state(linear: nn.Linear, read: Read) -> State:
    return {"weight": read(linear.weight), "bias": read(linear.bias)}


def norm_state(norm: LayerNorm, read: Read) -> State:
    return {"weight": read(norm.scale), "bias": read(norm.shift)}


def attention_state(attention: MultiHeadAttention, read: Read) -> State:
    projections = (attention.query_projection, attention.key_projection, attention.value_projection)
    return {
        "in_proj_weight": torch.cat([read(projection.weight) for projection in projections]),
        "in_proj_bias": torch.cat([read(projection.bias) for projection in projections]),
        **under("out_proj", linear_state(attention.output_projection, read)),
    }


def _feed_forward_state(feed_forward: FeedForward, read: Read) -> State:
    return {
        **under("linear1", linear_state(feed_forward.inner, read)),
        **under("linear2", linear_state(feed_forward.outer, read)),
    }


def _norms_state(layer: EncoderLayer | DecoderLayer, read: Read) -> State:
    state: State = {}
    for number, sublayer in enumerate(layer.sublayers, start=1):
        state |= under(f"norm{number}", norm_state(sublayer.norm, read))
    return state


def encoder_layer_state(layer: EncoderLayer, read: Read) -> State:
    return {
        **under("self_attn", attention_state(layer.self_attention, read)),
        **_feed_forward_state(layer.feed_forward, read),
        **_norms_state(layer, read),
    }


def decoder_layer_state(layer: DecoderLayer, read: Read) -> State:
    return {
        **under("self_attn", attention_state(layer.self_attention, read)),
        **under("multihead_attn", attention_state(layer.cross_attention, read)),
        **_feed_forward_state(layer.feed_forward, read),
        **_norms_state(layer, read),
    }


def encoder_state(model: Transformer, read: Read) -> State:
    state: State = {}
    for number, layer in enumerate(model.encoder_layers):
        state |= under(f"layers.{number}", encoder_layer_state(layer, read))
    if model.encoder_norm is not None:
        state |= under("norm", norm_state(model.encoder_norm, read))
    return state


def decoder_state(model: Transformer, read: Read) -> State:
    state: State = {}
    for number, layer in enumerate(model.decoder_layers):
        state |= under(f"layers.{number}", decoder_layer_state(layer, read))
    if model.decoder_norm is not None:
        state |= under("norm", norm_state(model.decoder_norm, read))
    return state


def attention_twin(attention: MultiHeadAttention, d_model: int, heads: int) -> nn.MultiheadAttention:
    twin = nn.MultiheadAttention(d_model, heads, batch_first=True, dtype=torch.float64)
    twin.load_state_dict(attention_state(attention, weight))
    return twin


def new_encoder_layer(d_model: int, heads: int, d_ff: int, norm_first: bool) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(
        d_model,
        heads,
        d_ff,
        dropout=0.0,
        layer_norm_eps=1e-6,
        batch_first=True,
        norm_first=norm_first,
        dtype=torch.float64,
    )


def new_decoder_layer(d_model: int, heads: int, d_ff: int, norm_first: bool) -> nn.TransformerDecoderLayer:
    return nn.TransformerDecoderLayer(
        d_model,
        heads,
        d_ff,
        dropout=0.0,
        layer_norm_eps=1e-6,
        batch_first=True,
        norm_first=norm_first,
        dtype=torch.float64,
    )


def encoder_twin(
    model: Transformer, layers: int, d_model: int, heads: int, d_ff: int, norm_first: bool
) -> nn.TransformerEncoder:
    norm = nn.LayerNorm(d_model, eps=1e-6, dtype=torch.float64) if norm_first else None
    layer = new_encoder_layer(d_model, heads, d_ff, norm_first)
    twin = nn.TransformerEncoder(layer, layers, norm, enable_nested_tensor=False)
    twin.load_state_dict(encoder_state(model, weight))
    return twin


def decoder_twin(
    model: Transformer, layers: int, d_model: int, heads: int, d_ff: int, norm_first: bool
) -> nn.TransformerDecoder:
    norm = nn.LayerNorm(d_model, eps=1e-6, dtype=torch.float64) if norm_first else None
    layer = new_decoder_layer(d_model, heads, d_ff, norm_first)
    twin = nn.TransformerDecoder(layer, layers, norm)
    twin.load_state_dict(decoder_state(model, weight))
    return twin


def assert_same_gradients(twin: nn.Module, gradients: Mapping[str, Tensor]) -> None:
    """Compare the gradients of the twin with ours, arranged under its names."""
    assert gradients.keys() == dict(twin.named_parameters()).keys()
    for name, parameter in twin.named_parameters():
        assert_close(gradients[name], gradient(parameter))
