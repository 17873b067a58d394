"""Wrong answers for lesson 05 that match no known misconception: the checks must not name one."""

import torch
from torch import nn

from course_lib.transformer import PositionalEncoding, TokenEmbedding, sinusoids


def waves_of_random_numbers(length, d_model):
    return torch.randn(length, d_model)


def waves_turned_round(length, d_model):
    return -sinusoids(length, d_model)


def waves_from_the_right(length, d_model):
    return sinusoids(length, d_model).flip(1)


def waves_in_bfloat16(length, d_model):
    return sinusoids(length, d_model).bfloat16()


def waves_as_a_list(length, d_model):
    return sinusoids(length, d_model).tolist()


def waves_of_one_row(length, d_model):
    return sinusoids(length, d_model)[-1]


def waves_of_half_size(length, d_model):
    return sinusoids(length, d_model) / 2


class EmbeddingOfTheNextWord(TokenEmbedding):
    def forward(self, tokens):
        return super().forward((tokens + 1) % self.table.num_embeddings)


class EmbeddingWithBias(TokenEmbedding):
    def forward(self, tokens):
        return super().forward(tokens) + 1


class EmbeddingOfLengthOne(TokenEmbedding):
    def forward(self, tokens):
        return nn.functional.normalize(super().forward(tokens), dim=-1)


class EmbeddingThatGivesNothing(TokenEmbedding):
    def forward(self, tokens):
        super().forward(tokens)


class PositionsFromTheEnd(PositionalEncoding):
    def forward(self, x):
        return self.dropout(x + self.table[: x.shape[1]].flip(0).to(x.dtype))


class PositionsForTheFirstSentence(PositionalEncoding):
    def forward(self, x):
        return torch.cat([super().forward(x[:1]), self.dropout(x[1:])])


class PositionsAlone(PositionalEncoding):
    def forward(self, x):
        return self.dropout(self.table[: x.shape[1]].to(x.dtype)).expand_as(x)


class PositionsHalved(PositionalEncoding):
    def forward(self, x):
        return super().forward(x) / 2


class PositionsWithoutRoom(PositionalEncoding):
    def __init__(self, d_model):
        super().__init__(d_model)


class PositionsInAPair(PositionalEncoding):
    def forward(self, x):
        return super().forward(x), self.table


UNRELATED = {
    "sinusoids": (
        waves_of_random_numbers,
        waves_turned_round,
        waves_from_the_right,
        waves_in_bfloat16,
        waves_as_a_list,
        waves_of_one_row,
        waves_of_half_size,
        lambda length, d_model: None,
        lambda length: sinusoids(length, 6),
        None,
    ),
    "TokenEmbedding": (
        EmbeddingOfTheNextWord,
        EmbeddingWithBias,
        EmbeddingOfLengthOne,
        EmbeddingThatGivesNothing,
        lambda tokens: tokens,
        "table",
    ),
    "PositionalEncoding": (
        PositionsFromTheEnd,
        PositionsForTheFirstSentence,
        PositionsAlone,
        PositionsHalved,
        PositionsWithoutRoom,
        PositionsInAPair,
        sinusoids,
        3.0,
    ),
}
