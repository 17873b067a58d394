"""The engine's support for exercises that are classes: loading weights, their gradients, and copies."""

from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.diagnosis import examine
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.probe import Draw
from course_lib.checks.engine.reply import Reply
from course_lib.checks.engine.search import can_be_combined
from course_lib.transformer import LayerNorm

EXERCISE = ExerciseCheck(LayerNorm, Path(__file__).with_name("layer_norm_misconceptions.toml"))


def _loaded(candidate: Candidate, draw: Draw) -> Candidate:
    layer = candidate.build(4, 0.1)
    layer.load({"scale": draw.normal(4).float(), "shift": draw.normal(4).float()})
    return layer


@EXERCISE.probe("it normalises the last axis")
def _values(candidate: Candidate, draw: Draw) -> Reply:
    return _loaded(candidate, draw).call(draw.normal(2, 3, 4).float())


@EXERCISE.probe("gradients reach the input, the scale and the shift")
def _gradients(candidate: Candidate, draw: Draw) -> Reply:
    layer = _loaded(candidate, draw)
    return layer.gradients(draw.normal(2, 4).float(), toward=draw.normal(2, 4).float())


@EXERCISE.probe("a copy has the same weights, and they are its own")
def _copy(candidate: Candidate, draw: Draw) -> Any:
    layer = _loaded(candidate, draw)
    layer.copy().load({"scale": torch.zeros(4)})
    return layer.weights()


def test_the_reference_passes() -> None:
    assert examine(EXERCISE, LocalBackend(LayerNorm), "seed").passed


def test_torch_passes_under_the_contracts_names() -> None:
    class Renamed(torch.nn.Module):
        def __init__(self, d_model: int, eps: float = 1e-6) -> None:
            super().__init__()
            self.eps = eps
            self.scale = torch.nn.Parameter(torch.ones(d_model))
            self.shift = torch.nn.Parameter(torch.zeros(d_model))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.layer_norm(x, x.shape[-1:], self.scale, self.shift, self.eps)

    assert examine(EXERCISE, LocalBackend(Renamed), "seed").passed


def test_mistakes_and_pairs_are_named() -> None:
    pairs = [pair for pair in combinations(EXERCISE.misconceptions, 2) if can_be_combined(EXERCISE, pair)]
    assert pairs
    for mistakes in [*((one,) for one in EXERCISE.misconceptions), *pairs]:
        verdict = examine(EXERCISE, LocalBackend(EXERCISE.with_mistakes(*mistakes)), "seed")
        assert verdict.explanation.named == mistakes


def test_a_class_with_other_names_is_told_so() -> None:
    class Other(torch.nn.Module):
        def __init__(self, d_model: int, eps: float = 1e-6) -> None:
            super().__init__()
            self.gain = torch.nn.Parameter(torch.ones(d_model))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    verdict = examine(EXERCISE, LocalBackend(Other), "seed")
    assert not verdict.passed
    assert [mistake.statement for mistake in verdict.explanation.named] == [
        "the module has no parameter `scale`"
    ]
