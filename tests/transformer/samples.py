"""Random tensors, masks, sentences and modules for the tests, in float64."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from course_lib.transformer import Transformer, TransformerConfig

Module = TypeVar("Module", bound=nn.Module)

#: The ids of the padding, start and end tokens in all tests that decode or train.
PAD, START, END = 0, 1, 2

#: A hypothesis strategy for seeds of torch's generator, so that an example can be reproduced.
seeds = st.integers(0, 2**31)


def numbers(*shape: int) -> Tensor:
    """Draw a float64 tensor from the standard normal distribution."""
    return torch.randn(shape, dtype=torch.float64)


def leaves(*shapes: tuple[int, ...]) -> list[Tensor]:
    """Draw tensors that require gradients."""
    return [numbers(*shape).requires_grad_() for shape in shapes]


def random_mask(*shape: int) -> Tensor:
    """Draw a mask that allows about half of the keys, and at least one for every query."""
    mask = torch.rand(*shape) < 0.5
    mask.scatter_(-1, torch.randint(shape[-1], (*shape[:-1], 1)), True)
    return mask


def sentences(lengths: Iterable[int], vocabulary: int = 11, pad_id: int = PAD) -> Tensor:
    """Draw sentences of these lengths from the ids of ordinary tokens, padded to the longest."""
    lengths = list(lengths)
    tokens = torch.randint(3, vocabulary, (len(lengths), max(lengths)))
    for row, length in zip(tokens, lengths, strict=True):
        row[length:] = pad_id
    return tokens


def sentences_from(seed: int, lengths: Iterable[int]) -> Tensor:
    """Draw sentences of these lengths with a fixed seed."""
    torch.manual_seed(seed)
    return sentences(lengths)


def batches(shortest: int = 1) -> st.SearchStrategy[Tensor]:
    """Return a hypothesis strategy for one to four padded sentences, each of at most six tokens."""
    return st.builds(sentences_from, seeds, st.lists(st.integers(shortest, 6), min_size=1, max_size=4))


def with_random_weights(module: Module, spread: float = 0.5) -> Module:
    """Convert a module to float64, and draw all its parameters at random, including biases and norms."""
    module.double()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=spread)
    return module


def small_transformer(vocabulary: int = 11, spread: float | None = 0.5, **settings: Any) -> Transformer:
    """Build a model of two layers, by default without dropout. `spread=None` keeps its initial weights."""
    sizes = {"layers": 2, "d_model": 8, "heads": 2, "d_ff": 12, "dropout": 0.0} | settings
    model = Transformer(vocabulary, vocabulary, TransformerConfig(**sizes)).double()
    return model if spread is None else with_random_weights(model, spread)


def assert_close(actual: Tensor, expected: Tensor, rtol: float = 1e-9, atol: float = 1e-11) -> None:
    """Compare values, shape, dtype and device. By default, the tolerance is far smaller than float32's."""
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol)


@contextmanager
def unchanged(*tensors: Tensor) -> Iterator[None]:
    """Raise an error if the block modifies one of these tensors."""
    before = [tensor.detach().clone() for tensor in tensors]
    yield
    for tensor, old in zip(tensors, before, strict=True):
        assert torch.equal(tensor, old), "an input was modified in place"
