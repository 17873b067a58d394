"""Wrong answers for lesson 03 that match no known misconception: the checks must not name one."""

import torch
from torch import nn

from course_lib.transformer import FeedForward, LayerNorm, SublayerConnection


class NormOfTheAbsolute(LayerNorm):
    def forward(self, x):
        return super().forward(x).abs()


class NormByTheLargest(LayerNorm):
    def forward(self, x):
        return self.scale * x / x.abs().amax(-1, keepdim=True) + self.shift


class NormThatGivesNothing(LayerNorm):
    def forward(self, x):
        super().forward(x)


class NormWithoutSizes(LayerNorm):
    def __init__(self):
        super().__init__(4)


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


class NetworkAlsoSaysSo(FeedForward):
    def forward(self, x):
        return super().forward(x), self.inner(x)


class NetworkOfTruthValues(FeedForward):
    def forward(self, x):
        return super().forward(x) > 0


class ConnectionWithOneDropout(SublayerConnection):
    def forward(self, x, sublayer):
        def dropped(given):
            result = sublayer(given)
            return result * self.dropout(torch.ones_like(result[:1]))

        if self.norm_first:
            return x + dropped(self.norm(x))
        return self.norm(x + dropped(x))


class ConnectionThatHalves(SublayerConnection):
    def forward(self, x, sublayer):
        return super().forward(x, sublayer) / 2


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
        NormThatGivesNothing,
        NormWithoutSizes,
        lambda x: x - x.mean(-1, keepdim=True),
        None,
    ),
    "FeedForward": (
        NetworkTurnedRound,
        NetworkOfThreeLayers,
        NetworkOfMatrices,
        NetworkAlsoSaysSo,
        NetworkOfTruthValues,
        lambda x: x,
        3.0,
    ),
    "SublayerConnection": (
        ConnectionThatHalves,
        ConnectionWithOneDropout,
        ConnectionOfSublayers,
        ConnectionWithoutSublayer,
        ConnectionOfTwoNorms,
        ConnectionThatConcatenates,
        "norm",
    ),
}
