"""Correct answers for lesson 02, written differently: the checks must accept all of them."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.transformer import merge_heads, scaled_dot_product_attention, split_heads


def split_by_view(x, heads):
    batch, length, d_model = x.shape
    if d_model % heads:
        raise ValueError("features and heads", d_model, heads)
    return x.view(batch, length, heads, d_model // heads).transpose(1, 2)


def split_by_pieces(x, heads):
    width, rest = divmod(x.size(-1), heads)
    if rest > 0:
        raise ValueError(f"{x.size(-1)} is no multiple of {heads}")
    return torch.stack(x.split(width, dim=-1), dim=1)


def split_by_loop(x, heads):
    class WrongHeadsError(ValueError):
        pass

    width = x.shape[2] // heads
    if width * heads != x.shape[2]:
        raise WrongHeadsError(x.shape, heads)
    split = x.new_empty(x.shape[0], heads, x.shape[1], width)
    for head in range(heads):
        split[:, head] = x[:, :, head * width : (head + 1) * width]
    return split


def split_by_permutation(x, heads):
    d_model = x.shape[-1]
    if heads * (d_model // heads) != d_model:
        raise ValueError(d_model, heads)
    return torch.reshape(x, (*x.shape[:2], heads, -1)).permute(0, 2, 1, 3).contiguous()


def split_by_einsum(x, heads):
    if x.shape[-1] % heads != 0:
        raise ValueError("features: " + str(x.size(2)) + ", heads: " + str(heads))
    return torch.einsum("blhd->bhld", x.unflatten(2, (heads, -1)))


def split_by_unfolding(x, heads):
    if x.shape[-1] % heads != 0:
        raise ValueError("features: " + str(x.size(2)) + ", heads: " + str(heads))
    width = x.shape[-1] // heads
    return x.unfold(-1, width, width).movedim(2, 1)


def split_with_an_error_of_torch(x, heads):
    torch._check_value(x.shape[-1] % heads == 0, lambda: f"{x.shape[-1]} features, {heads} heads")
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_by_reshape(x):
    batch, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * width)


def merge_by_contiguous_view(x):
    return x.permute(0, 2, 1, 3).contiguous().view(x.size(0), -1, x.size(1) * x.size(3))


def merge_by_concatenation(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


def merge_by_loop(x):
    batch, heads, length, width = x.shape
    merged = x.new_zeros(batch, length, heads * width)
    for head in range(heads):
        merged[..., head * width : (head + 1) * width] = x[:, head]
    return merged


def merge_by_einsum(x):
    return torch.einsum("bhld->blhd", x).flatten(start_dim=2)


def merge_by_horizontal_stack(x):
    return torch.stack([torch.hstack(tuple(sentence)) for sentence in x])


class Plain(nn.Module):
    """Attention with its own views, keyword arguments for the attention function, and an indexed mask."""

    def __init__(self, d_model, heads, dropout=0.1, attention=scaled_dot_product_attention):
        super().__init__()
        if d_model % heads != 0:
            raise ValueError("d_model must be a multiple of heads")
        self.h, self.d_k, self.attend = heads, d_model // heads, attention
        self.output_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.query_projection = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(p=dropout)

    def _heads(self, layer, x):
        return layer(x).view(x.size(0), x.size(1), self.h, self.d_k).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        if query.size(0) != key.size(0) or query.size(0) != value.size(0):
            raise ValueError("the batch sizes differ")
        if mask is not None and mask.ndim == 3:
            mask = mask[:, None]
        q = self._heads(self.query_projection, query)
        k = self._heads(self.key_projection, key)
        v = self._heads(self.value_projection, value)
        mixed = self.attend(query=q, key=k, value=v, mask=mask, dropout=self.drop)[0]
        return self.output_projection(mixed.transpose(1, 2).reshape(query.shape))


class HeadByHead(nn.Module):
    """Attention with a loop over the heads, in which the attention function gets three axes."""

    def __init__(self, d_model, heads, dropout=0.1, attention=scaled_dot_product_attention):
        super().__init__()
        self.width = d_model // heads
        self.heads = heads
        self.attention = attention
        for role in ("query", "key", "value", "output"):
            self.add_module(f"{role}_projection", nn.Linear(d_model, d_model))
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        assert len({len(query), len(key), len(value)}) == 1
        outputs = []
        for head in range(self.heads):
            part = slice(head * self.width, (head + 1) * self.width)
            q, k, v = (
                F.linear(x, layer.weight[part], layer.bias[part])
                for x, layer in (
                    (query, self.query_projection),
                    (key, self.key_projection),
                    (value, self.value_projection),
                )
            )
            its_mask = mask[:, head] if mask is not None and mask.dim() == 4 else mask
            outputs.append(self.attention(q, k, v, its_mask, self.dropout)[0])
        return self.output_projection(torch.cat(outputs, dim=-1))


class HeadsInTheBatch(nn.Module):
    """Attention with heads and batch in one axis, an expanded mask, and Xavier and zero initialization."""

    def __init__(self, d_model, heads, dropout=0.1, attention=scaled_dot_product_attention):
        super().__init__()
        self.heads, self.attention, self.dropout = heads, attention, nn.Dropout(dropout)
        self.key_projection, self.value_projection, self.query_projection, self.output_projection = (
            nn.Linear(d_model, d_model) for _ in range(4)
        )
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self, query, key, value, mask=None):
        q, k, v = self.query_projection(query), self.key_projection(key), self.value_projection(value)
        q, k, v = (split_heads(x, self.heads).flatten(0, 1) for x in (q, k, v))
        if mask is not None:
            if mask.dim() == 3:
                mask = mask.unsqueeze(1)
            mask = mask.expand(len(query), self.heads, q.shape[1], k.shape[1]).flatten(0, 1)
        output, _ = self.attention(q, k, v, mask, self.dropout)
        return self.output_projection(merge_heads(output.unflatten(0, (-1, self.heads))))


class WithExtras(nn.Module):
    """Attention with extra state: a buffer, and the detached weights. It applies dropout only in training."""

    def __init__(self, d_model, heads, dropout=0.1, attention=scaled_dot_product_attention):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.d_model, self.heads, self.attention, self.rate = d_model, heads, attention, dropout
        self.query_projection = nn.Linear(d_model, d_model, bias=True)
        self.key_projection = nn.Linear(d_model, d_model, bias=True)
        self.value_projection = nn.Linear(d_model, d_model, bias=True)
        self.output_projection = nn.Linear(d_model, d_model, bias=True)
        self.last_weights = None

    def forward(self, query, key, value, mask=None):
        self.calls += 1
        torch.stack([query[:, 0], key[:, 0], value[:, 0]])  # raises an error if the batch sizes differ
        if mask is not None and len(mask.shape) == 3:
            mask = torch.stack([mask] * self.heads, dim=1)
        drop = (lambda weights: F.dropout(weights, self.rate)) if self.training else None
        heads = [
            split_heads(layer(x), self.heads)
            for layer, x in zip(
                (self.query_projection, self.key_projection, self.value_projection),
                (query, key, value),
                strict=True,
            )
        ]
        output, weights = self.attention(*heads, mask, drop)
        self.last_weights = None if weights is None else weights.detach()
        return self.output_projection(torch.cat(list(output.unbind(1)), dim=2))


class ByEinsum(nn.Module):
    """Attention with einsums over the weights split into heads. Without a mask, it passes none."""

    def __init__(self, d_model, heads, dropout=0.1, attention=scaled_dot_product_attention):
        super().__init__()
        self.heads, self.attention = heads, attention
        self.dropout = nn.Dropout(dropout)
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)

    def _project(self, layer, x):
        weight, bias = layer.weight.unflatten(0, (self.heads, -1)), layer.bias.unflatten(0, (self.heads, -1))
        return torch.einsum("bli,hdi->bhld", x, weight) + bias.unsqueeze(1)

    def forward(self, query, key, value, mask=None):
        key, value = key.view(len(query), *key.shape[1:]), value.view(len(query), *value.shape[1:])
        masks = {} if mask is None else {"mask": mask.unsqueeze(1) if mask.dim() == 3 else mask}
        output, _ = self.attention(
            self._project(self.query_projection, query),
            self._project(self.key_projection, key),
            self._project(self.value_projection, value),
            dropout=self.dropout,
            **masks,
        )
        weight = self.output_projection.weight.unflatten(1, (self.heads, -1))
        return torch.einsum("bhld,ohd->blo", output, weight) + self.output_projection.bias


class InAList(nn.Module):
    """Attention whose projections are also in a list, under an earlier name, and that keeps its weights."""

    def __init__(self, d_model, heads, dropout=0.1, attention=scaled_dot_product_attention):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.query_projection, self.key_projection, self.value_projection, self.output_projection = (
            self.linears
        )
        self.temperature = nn.Parameter(torch.ones(()), requires_grad=False)
        self.heads, self.attention, self.dropout = heads, attention, nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        if not query.shape[::2] == key.shape[::2] == value.shape[::2]:
            raise RuntimeError(f"{query.shape}, {key.shape} and {value.shape} do not fit")
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        q, k, v = (
            layer(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for layer, x in zip(self.linears, (query, key, value), strict=False)
        )
        x, weights = self.attention(q, k, v, mask=mask, dropout=self.dropout)
        self.weights = weights.detach()
        return self.linears[-1](x.transpose(1, 2).flatten(2) * self.temperature)


class AttentionWithProperties(nn.Module):
    """The projections are in a dict, and properties have the names that the exercise requires."""

    def __init__(self, d_model, heads, dropout=0.1, attention=scaled_dot_product_attention):
        super().__init__()
        parts = ("query", "key", "value", "output")
        self.layers = nn.ModuleDict({part: nn.Linear(d_model, d_model) for part in parts})
        self.heads, self.attention, self.dropout = heads, attention, nn.Dropout(dropout)

    query_projection = property(lambda self: self.layers["query"])
    key_projection = property(lambda self: self.layers["key"])
    value_projection = property(lambda self: self.layers["value"])
    output_projection = property(lambda self: self.layers["output"])

    def forward(self, query, key, value, mask=None):
        if key.shape[0] != query.shape[0]:
            raise ValueError(f"{len(key)} sentences of keys for {len(query)} of queries")
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        q, k, v = (
            split_heads(self.layers[part](x), self.heads)
            for part, x in (("query", query), ("key", key), ("value", value))
        )
        return self.output_projection(merge_heads(self.attention(q, k, v, mask, self.dropout)[0]))


VARIANTS = {
    "split_heads": (
        split_by_view,
        split_by_pieces,
        split_by_loop,
        split_by_permutation,
        split_by_einsum,
        split_by_unfolding,
        split_with_an_error_of_torch,
    ),
    "merge_heads": (
        merge_by_reshape,
        merge_by_contiguous_view,
        merge_by_concatenation,
        merge_by_loop,
        merge_by_einsum,
        merge_by_horizontal_stack,
    ),
    "MultiHeadAttention": (
        Plain,
        AttentionWithProperties,
        HeadByHead,
        HeadsInTheBatch,
        WithExtras,
        ByEinsum,
        InAList,
    ),
}
