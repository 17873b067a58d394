"""Correct answers for lesson 05, written differently: the checks must accept all of them."""

import functools
import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn


def waves_by_exponentials(length, d_model):
    """Compute the waves in float32, with exp and log."""
    table = torch.zeros(length, d_model)
    position = torch.arange(0, length).unsqueeze(1).float()
    frequency = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency[: d_model // 2])
    return table


def waves_by_loops(length, d_model):
    table = torch.empty(length, d_model)
    for position in range(length):
        for column in range(d_model):
            angle = position / 10000 ** (2 * (column // 2) / d_model)
            table[position, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


def waves_by_stacking(length, d_model):
    pairs = (d_model + 1) // 2
    angle = torch.outer(torch.arange(length), 10000 ** (-2 * torch.arange(pairs).double() / d_model))
    return torch.stack((angle.sin(), angle.cos()), dim=2).reshape(length, 2 * pairs)[:, :d_model].float()


def waves_by_shifted_sines(length, d_model):
    """Compute a cosine as a sine that is a quarter of a period ahead."""
    column = torch.arange(d_model)
    angle = torch.arange(length)[:, None] / 10000 ** ((column - column % 2) / d_model)
    return torch.sin(angle + (column % 2) * math.pi / 2)


def waves_by_where(length, d_model):
    column = torch.arange(d_model, dtype=torch.float64)
    exponent = torch.div(column, 2, rounding_mode="floor") * 2 / d_model
    angle = torch.einsum("l,d->ld", torch.arange(length).double(), torch.pow(10000.0, -exponent))
    return torch.where(column % 2 == 0, angle.sin(), angle.cos()).to(torch.float32)


def waves_by_complex_numbers(length, d_model):
    frequency = torch.tensor([10000.0 ** (-even / d_model) for even in range(0, d_model, 2)])
    turned = torch.polar(torch.ones(length, len(frequency)), torch.arange(length).unsqueeze(1) * frequency)
    return torch.view_as_real(turned).flip(-1).flatten(1)[:, :d_model].contiguous()


_KEPT: dict[tuple[int, int], torch.Tensor] = {}


def waves_copied_from_a_cache(length, d_model):
    if (length, d_model) not in _KEPT:
        _KEPT[length, d_model] = waves_by_where(length, d_model)
    return _KEPT[length, d_model].clone()


@functools.lru_cache
def waves_from_a_cache(length, d_model):
    return waves_by_where(length, d_model)


class EmbeddingByFunctional(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.factor = d_model**0.5
        self.table = nn.Embedding(vocab_size, d_model)
        with torch.no_grad():
            self.table.weight.normal_(0.0, 1 / self.factor)

    def forward(self, tokens):
        return F.embedding(tokens, self.table.weight) * self.factor


class EmbeddingOfGivenNumbers(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.d_model = d_model
        start = torch.randn(vocab_size, d_model) / math.sqrt(d_model)
        self.table = nn.Embedding.from_pretrained(start, freeze=False)

    def forward(self, tokens):
        return math.sqrt(self.d_model) * self.table.weight[tokens]


class EmbeddingByProduct(nn.Module):
    """An embedding that multiplies by a one-hot matrix, with the factor in a buffer."""

    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.register_buffer("factor", torch.tensor(float(d_model)).sqrt(), persistent=False)
        self.table = nn.Embedding(vocab_size, d_model)
        self.table.weight.data.div_(math.sqrt(d_model))

    def forward(self, tokens):
        rows = F.one_hot(tokens, self.table.num_embeddings).to(self.table.weight.dtype)
        return rows @ (self.table.weight * self.factor)


class EmbeddingByInheritance(nn.Module):
    class _Table(nn.Embedding):
        def reset_parameters(self):
            nn.init.normal_(self.weight, mean=0, std=self.embedding_dim**-0.5)

    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.vocab_size, self.scale = vocab_size, torch.tensor(d_model).sqrt().item()
        self.table = self._Table(vocab_size, d_model)

    def forward(self, tokens):
        return torch.mul(self.table(tokens), self.scale)


class EmbeddingKeptInEvaluation(EmbeddingByFunctional):
    """An embedding that keeps the scaled table in evaluation mode, until weights are loaded."""

    def __init__(self, vocab_size, d_model):
        super().__init__(vocab_size, d_model)
        self.kept = None

    def load_state_dict(self, *arguments, **keywords):
        self.kept = None
        return super().load_state_dict(*arguments, **keywords)

    def train(self, mode=True):
        self.kept = None
        return super().train(mode)

    def forward(self, tokens):
        if self.training:
            return super().forward(tokens)
        if self.kept is None:
            self.kept = self.table.weight.detach() * self.factor
        return self.kept[tokens]


class PositionsComputedAnew(nn.Module):
    """Positions without a table: they are computed for each sentence, so they work beyond max_length."""

    def __init__(self, d_model, dropout=0.1, max_length=5000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        table = waves_by_exponentials(x.size(1), x.size(2)).to(device=x.device, dtype=x.dtype)
        return self.dropout(x + table)


class PositionsAsPlainTensor(nn.Module):
    """Positions in a plain tensor, which is moved explicitly."""

    def __init__(self, d_model, dropout=0.1, max_length=5000):
        super().__init__()
        self.rate, self.max_length = dropout, max_length
        self.waves = waves_by_stacking(max_length, d_model)

    def forward(self, x):
        if x.shape[1] > self.max_length:
            raise IndexError(f"this sentence is too long: {x.shape[1]} > {self.max_length}")
        return F.dropout(x + self.waves[: x.shape[1]].to(x), self.rate, self.training)


class PositionsWithBatchAxis(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_length=5000):
        super().__init__()
        self.register_buffer("pe", waves_by_where(max_length, d_model)[None], persistent=False)
        self.drop = nn.Dropout(p=dropout)

    def forward(self, x):
        batch, length, _ = x.shape
        assert length <= self.pe.shape[1], (length, self.pe.shape[1])
        added = torch.add(x, self.pe[:, :length].expand(batch, -1, -1))
        return self.drop(added.type_as(x))


class PositionsThatGrow(nn.Module):
    """Positions in a table that is extended for a longer sentence."""

    def __init__(self, d_model, dropout=0.1, max_length=5000):
        super().__init__()
        self.d_model = d_model
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("table", waves_by_where(min(max_length, 4), d_model), persistent=False)

    def forward(self, x):
        if x.shape[1] > len(self.table):
            self.table = waves_by_where(x.shape[1], self.d_model).to(self.table)
        positions = torch.arange(x.shape[1], device=x.device)
        return self.dropout(self.table.index_select(0, positions).to(x.dtype) + x)


class PositionsWithFloat64Inside(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_length=5000):
        super().__init__()
        frequency = [10000.0 ** (-2 * (column // 2) / d_model) for column in range(d_model)]
        self.register_buffer("frequency", torch.tensor(frequency, dtype=torch.float64))
        self.dropout, self.max_length = nn.Dropout(dropout), max_length

    def forward(self, x):
        if x.shape[1] > self.max_length:
            raise RuntimeError(f"{x.shape[1]} words, but max_length is {self.max_length}")
        angle = torch.arange(x.shape[1], device=x.device).unsqueeze(1) * self.frequency
        odd = torch.arange(x.shape[2], device=x.device) % 2 == 1
        return self.dropout((x + torch.where(odd, angle.cos(), angle.sin())).to(x.dtype))


class PositionsAsVariable(nn.Module):
    """Positions in a `Variable`, as in code from before PyTorch 0.4: another object for the same tensor."""

    def __init__(self, d_model, dropout=0.1, max_length=5000):
        super().__init__()
        self.dropout, self.max_length = nn.Dropout(dropout), max_length
        self.register_buffer("pe", waves_by_exponentials(max_length, d_model)[None], persistent=False)

    def forward(self, x):
        if x.size(1) > self.max_length:
            raise ValueError(f"{x.size(1)} tokens are more than max_length = {self.max_length}")
        rows = torch.autograd.Variable(self.pe[:, : x.size(1)], requires_grad=False)
        return self.dropout(x + rows.to(x.dtype))


class PositionsSharedByModules(nn.Module):
    """Positions in tables that all modules share, one for each length and number of features."""

    tables: ClassVar[dict[tuple[int, int], torch.Tensor]] = {}

    def __init__(self, d_model, dropout=0.1, max_length=5000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        size = tuple(x.shape[1:])
        if size not in self.tables:
            self.tables[size] = waves_by_where(*size)
        return self.dropout(x + self.tables[size].to(x))


VARIANTS = {
    "sinusoids": (
        waves_by_exponentials,
        waves_by_loops,
        waves_by_stacking,
        waves_by_shifted_sines,
        waves_by_where,
        waves_by_complex_numbers,
        waves_copied_from_a_cache,
        waves_from_a_cache,
    ),
    "TokenEmbedding": (
        EmbeddingByFunctional,
        EmbeddingOfGivenNumbers,
        EmbeddingByProduct,
        EmbeddingByInheritance,
        EmbeddingKeptInEvaluation,
    ),
    "PositionalEncoding": (
        PositionsComputedAnew,
        PositionsAsPlainTensor,
        PositionsWithBatchAxis,
        PositionsThatGrow,
        PositionsWithFloat64Inside,
        PositionsAsVariable,
        PositionsSharedByModules,
    ),
}
