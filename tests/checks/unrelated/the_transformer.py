"""Wrong answers for lesson 06 that match no known misconception: the checks must not name one."""

import torch
import torch.nn as nn

from course_lib.transformer import (
    DecoderLayer,
    EncoderLayer,
    Transformer,
    greedy_decode,
    tie_embeddings,
)


class _Identity(nn.Module):
    def __init__(self, *sizes, **settings):
        super().__init__()

    def forward(self, x, *rest):
        return x


class _TwiceEncoder(EncoderLayer):
    def forward(self, x, source_mask):
        return super().forward(super().forward(x, source_mask), source_mask)


class _TupleEncoder(EncoderLayer):
    def forward(self, x, source_mask):
        return super().forward(x, source_mask), source_mask


class _FlippedEncoder(EncoderLayer):
    def forward(self, x, source_mask):
        return super().forward(x, source_mask).flip(1)


class _DetachedEncoder(EncoderLayer):
    def forward(self, x, source_mask):
        return super().forward(x.detach(), source_mask)


class _LoudEncoder(EncoderLayer):
    def forward(self, x, source_mask):
        raise RuntimeError("no")


class _DecoderThatCutsInTraining(DecoderLayer):
    def forward(self, x, memory, source_mask, target_mask):
        memory = memory.detach() if self.training else memory
        return super().forward(x, memory, source_mask, target_mask)


class _ModelThatCutsInTraining(Transformer):
    def encode(self, source, source_mask):
        with torch.set_grad_enabled(not self.training):
            return super().encode(source, source_mask)


class _TwiceDecoder(DecoderLayer):
    def forward(self, x, memory, source_mask, target_mask):
        x = super().forward(x, memory, source_mask, target_mask)
        return super().forward(x, memory, source_mask, target_mask)


class _ShiftedDecoder(DecoderLayer):
    def forward(self, x, memory, source_mask, target_mask):
        return super().forward(x, memory.roll(1, dims=1), source_mask, target_mask)


class _ThreeArguments(DecoderLayer):
    def forward(self, x, memory, source_mask):
        return super().forward(x, memory, source_mask, None)


class _TwiceModel(Transformer):
    def encode(self, source, source_mask):
        x = self.positions(self.source_embedding(source))
        for layer in (*self.encoder_layers, *self.encoder_layers):
            x = layer(x, source_mask)
        return x if self.encoder_norm is None else self.encoder_norm(x)


class _CutModel(Transformer):
    def encode(self, source, source_mask):
        return super().encode(source, source_mask).clamp(min=0)


class _NoMemory(Transformer):
    def decode(self, memory, source_mask, target, target_mask):
        return super().decode(torch.zeros_like(memory), source_mask, target, target_mask)


class _SummedLogits(Transformer):
    def forward(self, source, source_mask, target, target_mask):
        return super().forward(source, source_mask, target, target_mask).cumsum(1)


class _NoDecode(Transformer):
    decode = None


class _LooseArguments(Transformer):
    def __init__(self, source_vocab, target_vocab, layers=6, d_model=512):
        raise TypeError("a config is missing")


def _tie_to_zeros(model):
    model = tie_embeddings(model)
    model.source_embedding.table.weight = nn.Parameter(torch.zeros_like(model.generator.weight))
    return model


def _tie_and_name(model):
    return tie_embeddings(model), "tied"


def _decode(change):
    def greedy(model, source, source_mask, max_length, start_id, end_id):
        return change(greedy_decode(model, source, source_mask, max_length, start_id, end_id))

    return greedy


UNRELATED = {
    "EncoderLayer": (
        _TwiceEncoder,
        _TupleEncoder,
        _FlippedEncoder,
        _DetachedEncoder,
        _LoudEncoder,
        None,
    ),
    "DecoderLayer": (
        3.0,
        _TwiceDecoder,
        _DecoderThatCutsInTraining,
        _ShiftedDecoder,
        _ThreeArguments,
        None,
        "DecoderLayer",
    ),
    "Transformer": (
        _Identity,
        _TwiceModel,
        _ModelThatCutsInTraining,
        _CutModel,
        _NoMemory,
        _SummedLogits,
        _NoDecode,
        _LooseArguments,
    ),
    "tie_embeddings": (
        lambda model: model.generator,
        lambda model: model.source_embedding,
        lambda: None,
        _tie_to_zeros,
        _tie_and_name,
        3,
    ),
    "greedy_decode": (
        lambda *arguments: None,
        lambda model, source, source_mask, max_length, start_id, end_id: source,
        lambda model, source, source_mask, max_length, start_id, end_id: source.new_full(
            (len(source), max_length), end_id
        ),
        lambda model, source, source_mask: source,
        _decode(lambda ids: ids.tolist()),
        _decode(lambda ids: ids.double()),
        _decode(lambda ids: ids.flip(0)),
        _decode(lambda ids: ids + 1),
        _decode(lambda ids: (ids, None)),
    ),
}
