"""The model that a config describes."""

import pytest
import torch
from torch import nn

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import ModelConfig
from course_lib.translation.model.fused import use_fused_layers
from course_lib.translation.model.seq2seq import build_model

SIZES = {"layers": 1, "d_model": 8, "heads": 2, "d_ff": 16}


def rates(model: nn.Module) -> dict[str, float]:
    return {name: part.p for name, part in model.named_modules() if isinstance(part, nn.Dropout)}


def test_inner_dropout_applies_inside_the_sublayers() -> None:
    model = build_model(ModelConfig(**SIZES, dropout=0.3, inner_dropout=0.1), 7, 7)
    use_fused_layers(model)
    inner = {name for name, rate in rates(model).items() if rate == 0.1}
    assert inner == {
        "encoder_layers.0.self_attention.dropout",
        "encoder_layers.0.feed_forward.dropout",
        "decoder_layers.0.self_attention.dropout",
        "decoder_layers.0.cross_attention.dropout",
        "decoder_layers.0.feed_forward.dropout",
    }
    assert {rate for name, rate in rates(model).items() if name not in inner} == {0.3}


def test_without_it_all_dropout_is_the_same() -> None:
    assert set(rates(build_model(ModelConfig(**SIZES, dropout=0.3), 7, 7)).values()) == {0.3}


def test_inner_dropout_is_felt() -> None:
    torch.manual_seed(0)
    tokens, mask = torch.randint(0, 7, (2, 5)), torch.ones(2, 1, 5, dtype=torch.bool)
    same = build_model(ModelConfig(**SIZES, dropout=0.0, inner_dropout=0.0), 7, 7)
    assert same.encode(tokens, mask).equal(same.encode(tokens, mask))
    felt = build_model(ModelConfig(**SIZES, dropout=0.0, inner_dropout=0.5), 7, 7)
    assert not felt.encode(tokens, mask).equal(felt.encode(tokens, mask))


def test_a_layer_without_dropout_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Undropped(nn.Module):
        def __init__(self, d_model: int, d_ff: int, dropout: float) -> None:
            super().__init__()

    monkeypatch.setattr("course_lib.transformer.layers.FeedForward", Undropped)
    with pytest.raises(BadInputError, match="inside Undropped, the feed_forward of Encoder"):
        build_model(ModelConfig(**SIZES, inner_dropout=0.0), 7, 7)
