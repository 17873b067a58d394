"""Faster training layers for the reference's Transformer, with fewer and larger operations.

A layer computes in one dtype throughout, including the residual stream of post-norm layers. Projections of
the same input are merged into one matrix product, and the weights are converted to that dtype once per
update. The parameters and their names are the same as in the reference's layers, and tests show that the
results are equal up to rounding.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from course_lib.transformer import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    SublayerConnection,
    Transformer,
)
from course_lib.translation.model.fused import BlockDropout, FusedLayerNorm, fused_attention

#: The module classes of the reference's layers. A layer that contains any other class is not replaced.
LAYER_MODULES = {
    EncoderLayer,
    DecoderLayer,
    MultiHeadAttention,
    FeedForward,
    SublayerConnection,
    LayerNorm,
    FusedLayerNorm,
    BlockDropout,
    nn.Dropout,
    nn.Linear,
    nn.ModuleList,
}


def use_fast_layers(
    model: nn.Module, dtype: torch.dtype
) -> "tuple[list[MergedWeights], MergedWeights | None]":
    """Replace the layers of the reference's Transformer with faster ones that compute in `dtype`.

    Return the merged weights of the new layers, to be passed to `refresh`, and those among them that
    `hidden_with_fused_attention` needs, or None if it can't be used. Layers that contain modules of other
    classes are left unchanged, because a student's classes may compute something different.
    """
    if type(model) is not Transformer:
        return [], None
    replaced: list[MergedWeights] = []
    for layers in (model.encoder_layers, model.decoder_layers):
        for index, layer in enumerate(layers):
            if any(type(module) not in LAYER_MODULES for module in layer.modules()):
                continue
            assert isinstance(layer, EncoderLayer | DecoderLayer), "a Transformer has two kinds of layers"
            fast = (FastEncoderLayer if isinstance(layer, EncoderLayer) else FastDecoderLayer)(layer, dtype)
            layers[index] = fast
            replaced.append(fast.merged)
    own = [layer.memory_weights for layer in model.decoder_layers if isinstance(layer, FastDecoderLayer)]
    if len(replaced) < len(model.encoder_layers) + len(model.decoder_layers) or any(
        module.attention is not fused_attention
        for module in model.modules()
        if isinstance(module, MultiHeadAttention)
    ):
        return replaced + own, None
    weights, biases = ([part for each in own for part in each._groups[kind]] for kind in (0, 1))
    memory_weights = MergedWeights([weights, biases], dtype)
    return [*replaced, memory_weights], memory_weights


def refresh(weights: "Sequence[MergedWeights]") -> None:
    """Copy the current weights into the merged copies. Call this before the forward pass of each update."""
    pairs = [pair for each in weights for pair in each.views()]
    if pairs:
        copies, originals = zip(*pairs, strict=True)
        with torch.no_grad():
            torch._foreach_copy_(list(copies), list(originals))


def hidden_with_fused_attention(
    model: Transformer,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B 1 S"],
    target: Int[Tensor, "B T"],
    dtype: torch.dtype,
    memory_weights: "MergedWeights",
) -> Float[Tensor, "B T D"]:
    """Compute the decoder's output as `Transformer` does, but with the masks that suit fused attention best.

    `memory_weights` is the second result of `use_fast_layers`. One product with it computes the keys and
    values of the encoder's output for all decoder layers. The source mask is converted once, to a bias in
    `dtype` that is added to the scores: 0 for tokens, minus infinity for padding. The decoder's
    self-attention uses only a causal mask: padding is on the right, so no real position attends to it.
    """
    first = model.encoder_layers[0]
    assert isinstance(first, _FastLayer), "every layer was replaced"
    # Convert the input of each stack to the dtype of the residual stream, so that one compiled function
    # serves all layers.
    residual_dtype = first.residual_dtype
    zeros = torch.zeros(source_mask.shape, dtype=dtype, device=source.device)
    bias = zeros.masked_fill(~source_mask, -torch.inf).unsqueeze(1)
    memory = model.positions(model.source_embedding(source)).to(residual_dtype)
    for layer in model.encoder_layers:
        memory = layer(memory, bias)
    memory = memory if model.encoder_norm is None else model.encoder_norm(memory)
    projected = F.linear(memory.to(dtype), *memory_weights.tensors()).chunk(2 * len(model.decoder_layers), -1)
    x = model.positions(model.target_embedding(target)).to(residual_dtype)
    for layer, key, value in zip(model.decoder_layers, projected[::2], projected[1::2], strict=True):
        x = layer(x, (key, value), bias, None)
    return x if model.decoder_norm is None else model.decoder_norm(x)


class MergedWeights:
    """A layer's weights in one dtype, with the weights of each group concatenated into one tensor.

    After the first call to `views`, the weights' values may change, but their tensors must not be replaced
    or moved.
    """

    def __init__(self, groups: Sequence[Sequence[Tensor]], dtype: torch.dtype) -> None:
        self._groups = groups
        self._dtype = dtype
        self._copies: list[Tensor] = []
        self._views: list[tuple[Tensor, Tensor]] = []

    def views(self) -> list[tuple[Tensor, Tensor]]:
        """Return a pair for each weight: its part of the merged copy, as a view, and the weight itself.

        If the weights already have the dtype of the layer, there are no copies, and the list is empty.
        """
        if self._groups[0][0].dtype == self._dtype:
            return []
        if not self._copies:
            shapes = [(sum(len(weight) for weight in group), *group[0].shape[1:]) for group in self._groups]
            device = self._groups[0][0].device
            self._copies = [torch.empty(shape, dtype=self._dtype, device=device) for shape in shapes]
            # Keep the views, because creating hundreds of them for each update would take milliseconds.
            self._views = [
                (view, weight)
                for copy, group in zip(self._copies, self._groups, strict=True)
                for view, weight in zip(copy.split([len(weight) for weight in group]), group, strict=True)
            ]
        return self._views

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the merged weights, one tensor for each group. Their gradients flow to the original weights.

        If there are copies and gradients are enabled, the values are those of the last `refresh`. Otherwise,
        they are the current ones.
        """
        if self._copies and torch.is_grad_enabled():
            weights = [weight for group in self._groups for weight in group]
            sizes = [[len(weight) for weight in group] for group in self._groups]
            merged: tuple[Tensor, ...] = _MergedCopies.apply(sizes, *self._copies, *weights)  # type: ignore[no-untyped-call]
            return merged
        return tuple(
            (torch.cat(list(group)) if len(group) > 1 else group[0]).to(self._dtype) for group in self._groups
        )


class _MergedCopies(torch.autograd.Function):
    """An autograd function that returns the merged copies, and passes their gradients to the weights."""

    @staticmethod
    def forward(ctx: Any, sizes: list[list[int]], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.sizes = sizes
        ctx.dtype = tensors[-1].dtype
        return tuple(copy.view_as(copy) for copy in tensors[: len(sizes)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        parts = [
            part
            for gradient, sizes in zip(gradients, ctx.sizes, strict=True)
            for part in gradient.split(sizes)
        ]
        converted = [torch.empty(part.shape, dtype=ctx.dtype, device=part.device) for part in parts]
        torch._foreach_copy_(converted, parts)
        return (None, *[None] * len(gradients), *converted)


def _projections(attention: MultiHeadAttention, *names: str) -> list[list[Tensor]]:
    layers: list[nn.Linear] = [getattr(attention, f"{name}_projection") for name in names]
    return [[layer.weight for layer in layers], [layer.bias for layer in layers]]


def _singles(*modules: nn.Linear | LayerNorm) -> list[list[Tensor]]:
    pairs = [
        (each.scale, each.shift) if isinstance(each, LayerNorm) else (each.weight, each.bias)
        for each in modules
    ]
    return [[parameter] for pair in pairs for parameter in pair]


def _attend(
    attention: MultiHeadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """Split query, key and value into heads, attend, and merge the heads. Return a tensor (B, Q, D).

    A `mask` of None masks nothing. `causal` adds a causal mask; it requires `fused_attention` and no `mask`.
    """
    query, key, value = (
        each.unflatten(-1, (attention.heads, -1)).transpose(1, 2) for each in (query, key, value)
    )
    # As in the reference, a mask with three axes applies to every head.
    mask = mask.unsqueeze(1) if mask is not None and mask.dim() == 3 else mask
    if attention.attention is fused_attention:
        rate = attention.dropout.p if attention.dropout.training else 0.0
        output = F.scaled_dot_product_attention(query, key, value, mask, rate, is_causal=causal)
    else:
        # The softmax needs more than 16 bits: autocast computes it in float32.
        mixed = query.dtype in (torch.bfloat16, torch.float16)
        with torch.autocast(query.device.type, query.dtype if mixed else None, enabled=mixed):
            output, _ = attention.attention(query, key, value, mask, attention.dropout)
    return output.transpose(1, 2).flatten(2)


def _norm(connection: SublayerConnection, x: Tensor, norm: Sequence[Tensor]) -> Tensor:
    scale, shift = norm
    y = F.layer_norm(x, scale.shape, scale.to(x.dtype), shift.to(x.dtype), connection.norm.eps)
    return y.to(scale.dtype)


def _before(connection: SublayerConnection, x: Tensor, norm: Sequence[Tensor]) -> Tensor:
    """Compute a sublayer's input as `SublayerConnection` does. `norm` holds the norm's scale and shift."""
    return _norm(connection, x, norm) if connection.norm_first else x


def _after(connection: SublayerConnection, x: Tensor, output: Tensor, norm: Sequence[Tensor]) -> Tensor:
    """Add a sublayer's output to the residual stream and, unless `norm_first` is set, normalise the sum."""
    x = x + connection.dropout(output)
    return x if connection.norm_first else _norm(connection, x, norm)


class _FastLayer(nn.Module):
    """The base class of `FastEncoderLayer` and `FastDecoderLayer`.

    A fast layer has the same submodules as the layer that it replaces. `merged` holds its weights in `dtype`.
    """

    self_attention: MultiHeadAttention
    cross_attention: MultiHeadAttention
    feed_forward: FeedForward
    sublayers: Any  # A ModuleList of SublayerConnections; mypy doesn't know the items' type.

    def __init__(self, layer: EncoderLayer | DecoderLayer, dtype: torch.dtype) -> None:
        # Don't call `super().__init__()`, which would build new submodules.
        nn.Module.__init__(self)
        # Keep the reference's order, because the optimiser's state lists the parameters in this order.
        for name, child in layer.named_children():
            self.add_module(name, child)
        # With norm_first, the residual stream is a sum that grows from layer to layer, so 16 bits would be
        # too coarse for it.
        exact = torch.promote_types(dtype, torch.float32)
        self.residual_dtype = exact if layer.sublayers[0].norm_first else dtype
        # `forward` unpacks the merged weights in this order: a weight and a bias for each projection, and a
        # scale and a shift for each norm.
        groups = [
            *_projections(self.self_attention, "query", "key", "value"),
            *_singles(self.self_attention.output_projection),
            *_singles(self.feed_forward.inner, self.feed_forward.outer),
            *_singles(*(each.norm for each in self.sublayers)),
        ]
        if isinstance(layer, DecoderLayer):
            cross = self.cross_attention
            groups += [*_projections(cross, "query"), *_singles(cross.output_projection)]
            self.memory_weights = MergedWeights(_projections(cross, "key", "value"), dtype)
        self.merged = MergedWeights(groups, dtype)

    def _self_attend(
        self, x: Tensor, weights: Sequence[Tensor], mask: Tensor | None, causal: bool = False
    ) -> Tensor:
        w_qkv, b_qkv, w_out, b_out = weights
        query, key, value = F.linear(x, w_qkv, b_qkv).chunk(3, -1)
        return F.linear(_attend(self.self_attention, query, key, value, mask, causal), w_out, b_out)

    def _feed(self, x: Tensor, weights: Sequence[Tensor]) -> Tensor:
        w_inner, b_inner, w_outer, b_outer = weights
        hidden = self.feed_forward.dropout(F.linear(x, w_inner, b_inner).relu())
        return F.linear(hidden, w_outer, b_outer)


class FastEncoderLayer(_FastLayer, EncoderLayer):
    """A faster version of an `EncoderLayer` for training, which computes in `dtype`."""

    def forward(
        self, x: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "..."] | Float[Tensor, "..."] | None
    ) -> Float[Tensor, "B S D"]:
        """Compute the layer's output. A mask of None masks nothing.

        With fused attention, the mask may also be a bias added to the scores.
        """
        weights = self.merged.tensors()
        self_weights, feed_weights = weights[:4], weights[4:8]
        attend_norm, feed_norm = weights[8:10], weights[10:]
        attend, feed = self.sublayers
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(self.residual_dtype)
            y = self._self_attend(_before(attend, x, attend_norm), self_weights, source_mask)
            x = _after(attend, x, y, attend_norm)
            y = self._feed(_before(feed, x, feed_norm), feed_weights)
            return _after(feed, x, y, feed_norm)


class FastDecoderLayer(_FastLayer, DecoderLayer):
    """A faster version of a `DecoderLayer` for training, which computes in `dtype`."""

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"] | tuple[Float[Tensor, "B S D"], Float[Tensor, "B S D"]],
        source_mask: Bool[Tensor, "..."] | Float[Tensor, "..."] | None,
        target_mask: Bool[Tensor, "..."] | None,
    ) -> Float[Tensor, "B T D"]:
        """Compute the layer's output. `memory` is the encoder's output, or the keys and values made from it.

        With fused attention, a target mask of None means a causal mask, and the source mask may also be a
        bias added to the scores. In all other cases, a mask of None masks nothing.
        """
        weights = self.merged.tensors()
        self_weights, feed_weights = weights[:4], weights[4:8]
        attend_norm, cross_norm, feed_norm = weights[8:10], weights[10:12], weights[12:14]
        w_q, b_q, w_out, b_out = weights[14:]
        causal = target_mask is None and self.self_attention.attention is fused_attention
        attend, cross, feed = self.sublayers
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(self.residual_dtype)
            y = self._self_attend(_before(attend, x, attend_norm), self_weights, target_mask, causal)
            x = _after(attend, x, y, attend_norm)
            query = F.linear(_before(cross, x, cross_norm), w_q, b_q)
            if isinstance(memory, Tensor):
                memory = memory.to(w_q.dtype)
                key, value = F.linear(memory, *self.memory_weights.tensors()).chunk(2, -1)
            else:
                key, value = memory
            y = _attend(self.cross_attention, query, key, value, source_mask, False)
            x = _after(cross, x, F.linear(y, w_out, b_out), cross_norm)
            y = self._feed(_before(feed, x, feed_norm), feed_weights)
            return _after(feed, x, y, feed_norm)
