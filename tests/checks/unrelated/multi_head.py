"""Lesson 02, wrong answers that are none of the known misconceptions: nothing may be named for them."""

import torch
from torch import nn

from course_lib.transformer import MultiHeadAttention, merge_heads, scaled_dot_product_attention, split_heads


def _whole_numbers(x, heads):
    return split_heads(x.long(), heads)


def _loud(*_):
    raise RuntimeError("no")


class _Doubled(MultiHeadAttention):
    def forward(self, query, key, value, mask=None):
        return 2 * super().forward(query, key, value, mask)


class _Rounded(MultiHeadAttention):
    def forward(self, query, key, value, mask=None):
        return super().forward(query, key, value, mask).round(decimals=2)


class _NoMask(MultiHeadAttention):
    def forward(self, query, key, value):
        return super().forward(query, key, value)


class _Silent(MultiHeadAttention):
    def forward(self, query, key, value, mask=None):
        super().forward(query, key, value, mask)


class _SelfAttention(MultiHeadAttention):
    def forward(self, x, mask=None):
        return super().forward(x, x, x, mask)


class _Backwards(MultiHeadAttention):
    def forward(self, query, key, value, mask=None):
        return super().forward(query.flip(1), key, value, mask)


class _Unregistered(nn.Module):
    def __init__(self, d_model, heads, dropout=0.1, attention=scaled_dot_product_attention):
        super().__init__()
        self.layers = [nn.Linear(d_model, d_model) for _ in range(4)]
        self.query_projection, self.key_projection = self.layers[:2]
        self.heads, self.attention = heads, attention

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            split_heads(layer(x), self.heads)
            for layer, x in zip(self.layers, (query, key, value), strict=False)
        )
        return self.layers[3](merge_heads(self.attention(q, k, v, mask)[0]))


class _OtherNames(nn.Module):
    def __init__(self, d_model, heads, dropout=0.1, attention=scaled_dot_product_attention):
        super().__init__()
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        return self.w_o(query)


def _torchs_own(d_model, heads, dropout=0.1, attention=scaled_dot_product_attention):
    return nn.MultiheadAttention(d_model, heads, dropout, batch_first=True)


UNRELATED = {
    "split_heads": (
        lambda x, heads: None,
        lambda x, heads: x,
        _whole_numbers,
        lambda x, heads: split_heads(x, heads).flip(1),
        lambda x, heads: split_heads(x, heads).tolist(),
        lambda x, heads: split_heads(x, heads) + 1e-3,
        lambda x, heads: split_heads(x, heads).roll(1, dims=-1),
        lambda x: split_heads(x, 4),
        _loud,
        8,
    ),
    "merge_heads": (
        lambda x: None,
        lambda x: x,
        lambda x: merge_heads(x.flip(1)),
        lambda x: merge_heads(x).tolist(),
        lambda x: merge_heads(x) * 1.001,
        lambda x: merge_heads(x).unsqueeze(1),
        lambda x: merge_heads(x).float(),
        lambda x, heads: merge_heads(x),
        _loud,
        torch.zeros(2, 3, 4),
    ),
    "MultiHeadAttention": (
        _Doubled,
        _Rounded,
        _NoMask,
        _Silent,
        _SelfAttention,
        _Backwards,
        _Unregistered,
        _OtherNames,
        _torchs_own,
        _loud,
        lambda query, key, value, mask=None: query,
        None,
    ),
}
