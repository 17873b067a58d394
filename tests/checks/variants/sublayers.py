"""Correct answers for lesson 03, written differently: the checks must accept all of them."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.transformer import LayerNorm


class NormByMeanSquare(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(d_model))
        self.scale = nn.Parameter(torch.ones(d_model))
        self.small = eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.pow(2).mean(-1, keepdim=True)
        return centred / (variance + self.small) ** 0.5 * self.scale + self.shift


class NormByVar(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.d_model, self.eps = d_model, eps
        self.register_parameter("scale", nn.Parameter(torch.full((d_model,), 1.0)))
        self.register_parameter("shift", nn.Parameter(torch.full((d_model,), 0.0)))

    def forward(self, x):
        variance = x.var(dim=-1, unbiased=False, keepdim=True)
        return torch.addcmul(
            self.shift, self.scale, (x - x.mean(-1, True)) * torch.rsqrt(variance + self.eps)
        )


class NormBySums(nn.Module):
    """Normalisation with explicit sums, the axis restored by indexing, and eps in a buffer."""

    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.register_buffer("eps", torch.tensor(eps, dtype=torch.float64), persistent=False)
        self.scale, self.shift = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        count = x.shape[-1]
        away = x - (x.sum(-1) / count).unsqueeze(-1)
        variance = torch.einsum("...d,...d->...", away, away) / count
        return self.scale * away / torch.sqrt(variance + self.eps.to(x.dtype)).unsqueeze(-1) + self.shift


class NormByPosition(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        rows = [self._one(row) for row in x.reshape(-1, x.shape[-1])]
        return torch.stack(rows).reshape(x.shape)

    def _one(self, row):
        return (row - row.mean()) / (row.var(correction=0) + self.eps).sqrt() * self.scale + self.shift


class NormInFloat32(nn.Module):
    """Normalisation that computes in float32 for low precision, as torch's does, and converts back."""

    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        wide = x if x.dtype == torch.float64 else x.float()
        std, mean = torch.std_mean(wide, -1, correction=0, keepdim=True)
        normalised = (wide - mean) / torch.sqrt(std * std + self.eps)
        return (normalised * self.scale + self.shift).to(x.dtype)


class NormByMeanOfSquares(nn.Module):
    """Normalisation with the variance as the mean of the squares minus the square of the mean."""

    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        mean = torch.mean(x, dim=-1, keepdim=True)
        variance = (x * x).mean(dim=-1, keepdim=True) - mean * mean
        return self.scale * (x - mean) / (variance + self.eps).sqrt() + self.shift


class NetworkByFunctional(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.outer = nn.Linear(d_ff, d_model)
        self.inner = nn.Linear(d_model, d_ff)
        self.p = dropout

    def forward(self, x):
        hidden = F.dropout(F.relu(self.inner(x)), self.p, training=self.training)
        return self.outer(hidden)


class NetworkByEinsum(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.inner, self.outer = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.drop = nn.Dropout(p=dropout)

    def forward(self, x):
        hidden = torch.einsum("...d,fd->...f", x, self.inner.weight) + self.inner.bias
        hidden = self.drop(hidden.clamp(min=0))
        return torch.einsum("...f,df->...d", hidden, self.outer.weight) + self.outer.bias


class NetworkWithDropoutFirst(nn.Module):
    """A network with dropout before the ReLU, which is equivalent: both keep zeros and signs."""

    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff, bias=True)
        self.outer = nn.Linear(d_ff, d_model, bias=True)
        self.activation, self.dropout = nn.ReLU(), nn.Dropout(dropout)

    def forward(self, x):
        return self.outer(self.activation(self.dropout(self.inner(x))))


class NetworkWithDropoutByHand(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.rate = dropout
        self.outer = nn.Linear(d_ff, d_model)
        self.inner = nn.Linear(d_model, d_ff)

    def forward(self, x):
        hidden = torch.where((hidden := self.inner(x)) > 0, hidden, torch.zeros_like(hidden))
        if self.training and self.rate > 0:
            hidden = hidden * (torch.rand_like(hidden) >= self.rate) / (1 - self.rate)
        return self.outer(hidden)


class NetworkInPlace(nn.Module):
    """A network with its own parameters, named as nn.Linear would name them, and an in-place ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.inner, self.outer = self._affine(d_model, d_ff), self._affine(d_ff, d_model)
        self.between = nn.Sequential(nn.ReLU(inplace=True), nn.Dropout(dropout))

    @staticmethod
    def _affine(inputs, outputs):
        part = nn.Module()
        part.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        part.bias = nn.Parameter(torch.zeros(outputs))
        return part

    def forward(self, x):
        hidden = self.between(x @ self.inner.weight.T + self.inner.bias)
        return hidden @ self.outer.weight.T + self.outer.bias


class ConnectionByFunctional(nn.Module):
    def __init__(self, d_model, dropout=0.1, norm_first=False):
        super().__init__()
        self.norm, self.rate, self.first = LayerNorm(d_model), dropout, norm_first

    def forward(self, x, sublayer):
        given = sublayer(self.norm(x) if self.first else x)
        total = torch.add(x, F.dropout(given, self.rate, self.training))
        return total if self.first else self.norm(total)


class ConnectionWithOwnNorm(nn.Module):
    def __init__(self, d_model, dropout=0.1, norm_first=False):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.norm_first = norm_first
        self.norm = NormByMeanSquare(d_model)

    def forward(self, x, sublayer):
        if not self.norm_first:
            residual = self.drop(sublayer(x))
            return self.norm(residual + x)
        normalised = self.norm(x)
        return self.drop(sublayer(normalised)) + x


class ConnectionOfTwoNames(nn.Module):
    """A connection that chooses between pre-norm and post-norm in __init__."""

    def __init__(self, d_model, dropout=0.1, norm_first=False):
        super().__init__()
        self.norm = LayerNorm(d_model, eps=1e-6)
        self.dropout = nn.Dropout(dropout)
        self.way = "pre" if norm_first else "post"

    def forward(self, x, sublayer):
        return getattr(self, self.way)(x, sublayer)

    def pre(self, x, sublayer):
        return x.add(self.dropout(sublayer(self.norm(x))))

    def post(self, x, sublayer):
        return self.norm(x.add(self.dropout(sublayer(x))))


class ConnectionWithDropoutByHand(nn.Module):
    def __init__(self, d_model, dropout=0.1, norm_first=False):
        super().__init__()
        self.norm_first, self.p = norm_first, dropout
        self.norm = LayerNorm(d_model)
        self.before = self.norm if norm_first else nn.Identity()
        self.after = nn.Identity() if norm_first else self.norm

    def forward(self, x, sublayer):
        given = sublayer(self.before(x))
        if self.training:
            keep = torch.empty_like(given).bernoulli_(1 - self.p)
            given = given * keep / (1 - self.p)
        return self.after(torch.stack([x, given]).sum(0))


class ConnectionWithMoreAttributes(nn.Module):
    def __init__(self, d_model, dropout=0.1, norm_first=False):
        super().__init__()
        self.norm_first = norm_first
        self.d_model = d_model
        self.register_buffer("calls", torch.zeros(()), persistent=False)
        self.parts = nn.ModuleDict({"dropout": nn.Dropout(dropout)})
        self.norm = LayerNorm(d_model)

    def forward(self, x, sublayer):
        self.calls += 1
        residual, given = (x, self.norm(x)) if self.norm_first else (x, x)
        total = residual + self.parts["dropout"](sublayer(given))
        if self.norm_first:
            return total
        return self.norm(total)


class NetworkWithProperties(nn.Module):
    """The layers are in a list, and properties have the names that the exercise requires."""

    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)])
        self.rate = dropout

    @property
    def inner(self):
        return self.layers[0]

    @property
    def outer(self):
        return self.layers[1]

    def forward(self, x):
        return self.outer(F.dropout(self.inner(x).relu(), self.rate, self.training))


VARIANTS = {
    "LayerNorm": (
        NormByMeanSquare,
        NormByVar,
        NormBySums,
        NormByPosition,
        NormInFloat32,
        NormByMeanOfSquares,
    ),
    "FeedForward": (
        NetworkByFunctional,
        NetworkWithProperties,
        NetworkByEinsum,
        NetworkWithDropoutFirst,
        NetworkWithDropoutByHand,
        NetworkInPlace,
    ),
    "SublayerConnection": (
        ConnectionByFunctional,
        ConnectionWithOwnNorm,
        ConnectionOfTwoNames,
        ConnectionWithDropoutByHand,
        ConnectionWithMoreAttributes,
    ),
}
