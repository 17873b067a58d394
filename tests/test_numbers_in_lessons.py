"""Numbers that the lessons' text states and no cell of the lesson prints."""

import math
from pathlib import Path

import pytest
import torch

from course_lib.transformer import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    PositionalEncoding,
    TokenEmbedding,
    sinusoids,
)

SOLUTIONS = Path(__file__).parents[1] / "solutions"


def said(lesson: str, *numbers: str) -> None:
    """Check that the lesson still contains these numbers, so that this file doesn't outlive its text."""
    [path] = SOLUTIONS.glob(f"{lesson}-*/{lesson}-*.py")
    text = " ".join(path.read_text(encoding="utf-8").replace("\n#", " ").split())
    assert all(number in text for number in numbers), numbers


def parameters(*modules: torch.nn.Module) -> int:
    return sum(weight.numel() for module in modules for weight in module.parameters())


def test_lesson_02() -> None:
    said("02", "2,048 of about a million")
    attention = MultiHeadAttention(512, 8)
    biases = sum(weight.numel() for name, weight in attention.named_parameters() if name.endswith("bias"))
    assert biases == 2048
    assert parameters(attention) == pytest.approx(1e6, rel=0.1)
    # One half is the best mean squared error that one mean of two neighbours allows, with any weights.
    for p, q in ((0.5, 0.5), (0.9, 0.1), (1.0, 0.0)):
        total = p**2 + q**2
        assert (1 - p**2 / total + 1 - q**2 / total) / 2 == pytest.approx(0.5)


def test_lesson_03() -> None:
    said("03", "Two thirds of an encoder", "In a text of `d_ff` words", r"\ln 50 \approx 3.9")
    network, attention = FeedForward(512, 2048), MultiHeadAttention(512, 8)
    norms = LayerNorm(512), LayerNorm(512)
    share = parameters(network) / parameters(network, attention, *norms)
    assert share == pytest.approx(2 / 3, abs=0.005)
    assert 2 * 2048 * 512 == 2 * 512 * 2048  # 2 n d for n = d_ff, and 2 d d_ff
    assert math.log(50) == pytest.approx(3.9, abs=0.05)


def test_lesson_05() -> None:
    said("05", "60,611 positions", "up to distance 43", "only up to 3", "as large as 0.0004", "22.6")
    assert 2 * math.pi * 10000 ** (510 / 512) == pytest.approx(60611, abs=1)
    assert pytest.approx(1e-4, rel=0.05) == 1 / 10000 ** (510 / 512)
    for d_model, last in ((512, 43), (16, 3)):
        table = sinusoids(101, d_model).double()
        falls = (table @ table[0]).diff() < 0
        assert falls[:last].all()
        assert not falls[last]
    exact = (4999 / 10000 ** (torch.arange(0, 512, 2).double() / 512)).sin()
    rounded = (4999 / 10000 ** (torch.arange(0, 512, 2).float() / 512)).sin()
    assert (exact - rounded).abs().max().item() == pytest.approx(4e-4, abs=1e-4)
    assert math.sqrt(512) == pytest.approx(22.6, abs=0.05)
    embedding = TokenEmbedding(1000, 512)
    assert embedding.table.weight.norm(dim=-1).mean().item() == pytest.approx(1, abs=0.02)
    encoding = PositionalEncoding(512)
    assert encoding.table.nbytes == pytest.approx(10e6, rel=0.05)  # "ten megabytes"
    assert not encoding.state_dict()


def test_lesson_06() -> None:
    said("06", "3.15 million", "0.07", "3.3e18", "2.3e19")
    assert parameters(EncoderLayer(512, 8, 2048)) == pytest.approx(3.15e6, rel=0.001)
    assert parameters(DecoderLayer(512, 8, 2048)) == 4_204_032
    assert pytest.approx(0.07, abs=0.005) == 1 / 14
    assert pytest.approx(3.3e18, rel=0.01) == 12 * 3600 * 8 * 9.5e12
    assert pytest.approx(2.3e19, rel=0.01) == 3.5 * 86400 * 8 * 9.5e12
