"""Wrong answers for lesson 02 that match no known misconception: the checks must not name one."""

import torch

from course_lib.transformer import MultiHeadAttention, merge_heads, split_heads


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


class _DroppedWithoutMask(MultiHeadAttention):
    def forward(self, query, key, value, mask=None):
        dropout = self.dropout.p
        if mask is not None:
            self.dropout.p = 0.0
        result = super().forward(query, key, value, mask)
        self.dropout.p = dropout
        return result


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


UNRELATED = {
    "split_heads": (
        lambda x, heads: None,
        lambda x, heads: x,
        _whole_numbers,
        lambda x, heads: split_heads(x, heads).tolist(),
        lambda x, heads: split_heads(x, heads) + 1e-3,
        lambda x, heads: split_heads(x, heads).roll(1, dims=-1),
        lambda x: split_heads(x, 4),
        _loud,
        8,
    ),
    "merge_heads": (
        lambda x: None,
        lambda x: merge_heads(x).tolist(),
        lambda x: merge_heads(x) * 1.001,
        lambda x: merge_heads(x).unsqueeze(1),
        lambda x, heads: merge_heads(x),
        _loud,
        torch.zeros(2, 3, 4),
    ),
    "MultiHeadAttention": (
        _Doubled,
        _Rounded,
        _DroppedWithoutMask,
        _NoMask,
        _Silent,
        _SelfAttention,
        _Backwards,
        _loud,
        lambda query, key, value, mask=None: query,
        None,
    ),
}
