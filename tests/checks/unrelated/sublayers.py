"""Lesson 03, wrong answers that are none of the known misconceptions: nothing may be named for them."""

import torch
from torch import nn

from course_lib.transformer import FeedForward, LayerNorm, SublayerConnection


class NormOfTheAbsolute(LayerNorm):
    def forward(self, x):
        return super().forward(x).abs()


class NormByTheLargest(LayerNorm):
    def forward(self, x):
        return self.scale * x / x.abs().amax(-1, keepdim=True) + self.shift


class NormOnlyFromTwoAxes(LayerNorm):
    def forward(self, x):
        batch, length, features = x.shape
        return super().forward(x).reshape(batch, length, features)


class NormUnderOtherNames(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.gain, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return self.gain * (x - mean) / torch.sqrt(variance + self.eps) + self.bias


class NormByMeanDeviation(LayerNorm):
    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.scale * centred / (centred.abs().mean(-1, keepdim=True) + self.eps) + self.shift


class NormThatGivesNothing(LayerNorm):
    def forward(self, x):
        super().forward(x)


class NormWithoutSizes(LayerNorm):
    def __init__(self):
        super().__init__(4)


class NetworkOfTanh(FeedForward):
    def forward(self, x):
        return self.outer(self.dropout(self.inner(x).tanh()))


class NetworkThatStopsHalfway(FeedForward):
    def forward(self, x):
        return self.inner(x).relu()


class NetworkTurnedRound(FeedForward):
    def forward(self, x):
        return -super().forward(x)


class NetworkOfThreeLayers(FeedForward):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__(d_model, d_ff, dropout)
        self.middle = nn.Linear(d_ff, d_ff)

    def forward(self, x):
        return self.outer(self.middle(self.inner(x).relu()).relu())


class NetworkOfMatrices(FeedForward):
    def forward(self, x):
        batch, length, _ = x.shape
        return super().forward(x.reshape(batch * length, -1))


class NetworkInASequential(nn.Sequential):
    def __init__(self, d_model, d_ff, dropout=0.1):
        layers = nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model)
        super().__init__(*layers)


class NetworkAlsoSaysSo(FeedForward):
    def forward(self, x):
        return super().forward(x), self.inner(x)


class ConnectionThatSubtracts(SublayerConnection):
    def forward(self, x, sublayer):
        return self.norm(x - self.dropout(sublayer(x)))


class ConnectionThatHalves(SublayerConnection):
    def forward(self, x, sublayer):
        return super().forward(x, sublayer) / 2


class ConnectionThatMultiplies(SublayerConnection):
    def forward(self, x, sublayer):
        return self.norm(x * self.dropout(sublayer(x)))


class ConnectionOfSublayers(SublayerConnection):
    def forward(self, x, sublayer):
        return lambda given: super().forward(given, sublayer)


class ConnectionWithoutSublayer(SublayerConnection):
    def forward(self, x):
        return self.norm(x)


class ConnectionOfTwoNorms(nn.Module):
    def __init__(self, d_model, dropout=0.1, norm_first=False):
        super().__init__()
        self.before, self.after = LayerNorm(d_model), LayerNorm(d_model)

    def forward(self, x, sublayer):
        return self.after(x + sublayer(self.before(x)))


class ConnectionThatConcatenates(SublayerConnection):
    def forward(self, x, sublayer):
        return torch.cat([x, sublayer(self.norm(x))], dim=-1)


UNRELATED = {
    "LayerNorm": (
        NormOfTheAbsolute,
        NormByTheLargest,
        NormOnlyFromTwoAxes,
        NormUnderOtherNames,
        NormByMeanDeviation,
        NormThatGivesNothing,
        NormWithoutSizes,
        lambda d_model, eps=1e-6: nn.LayerNorm(d_model, eps),
        lambda x: x - x.mean(-1, keepdim=True),
        None,
    ),
    "FeedForward": (
        NetworkOfTanh,
        NetworkThatStopsHalfway,
        NetworkTurnedRound,
        NetworkOfThreeLayers,
        NetworkOfMatrices,
        NetworkInASequential,
        NetworkAlsoSaysSo,
        3.0,
    ),
    "SublayerConnection": (
        ConnectionThatSubtracts,
        ConnectionThatHalves,
        ConnectionThatMultiplies,
        ConnectionOfSublayers,
        ConnectionWithoutSublayer,
        ConnectionOfTwoNorms,
        ConnectionThatConcatenates,
        "norm",
    ),
}
