"""A check rejects an answer that leaves a model in an unusual state, and doesn't fail itself."""

import pytest
import torch
from torch import nn

from course_lib.checks.engine.diagnosis import Verdict, examine
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.exercises.registry import catalogue
from course_lib.transformer import beam_search, greedy_decode

pytestmark = pytest.mark.slow


def verdict_on(name: str, answer: object) -> Verdict:
    exercise = catalogue()[name]
    assert isinstance(exercise, ExerciseCheck)
    return examine(exercise, LocalBackend(answer), "seed")


@pytest.mark.parametrize("mode", [None, "training", {}])
@pytest.mark.parametrize("decode", [greedy_decode, beam_search])
def test_the_mode_of_a_model_may_be_anything(decode, mode: object) -> None:
    def answer(model, *arguments):
        result = decode(model, *arguments)
        for module in model.modules():
            module.training = mode
        return result

    verdict = verdict_on(decode.__name__, answer)
    assert not verdict.passed
    assert verdict.difference is not None
    assert "the mode afterwards" in verdict.difference.facts


def test_a_tied_matrix_may_be_of_any_kind() -> None:
    def answer(model):
        model.target_embedding.table.weight = model.source_embedding.table.weight
        model.generator.weight = nn.Parameter(torch.zeros(7, 6).to_sparse())
        return model

    verdict = verdict_on("tie_embeddings", answer)
    assert not verdict.passed
    assert verdict.difference is not None
    assert verdict.difference.facts == (
        "This should be true, but isn't: the generator's matrix equals the source's table."
    )
