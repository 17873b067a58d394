"""The fixture that describes the initial weights of a model."""

import torch
from torch import nn

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import value_of
from course_lib.checks.exercises.fixtures.starting_weights import count_of, facts_of_start
from course_lib.transformer import Transformer, TransformerConfig

CONFIG = TransformerConfig(layers=2, d_model=24, heads=2, d_ff=96)


def _described(change) -> list[str | bool]:
    def build():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            model = Transformer(400, 400, CONFIG)
        change(model)
        return model

    student = Candidate(LocalBackend(build))
    names = tuple(build().state_dict())
    return list(value_of(student.fixture(facts_of_start(names, 24, 2)).call(student.build())).values())


def test_the_reference_is_described_as_required() -> None:
    expected = [True, "Xavier's", True, "d_model**-0.5", True]
    assert _described(lambda model: None) == expected


def test_a_normal_distribution_and_equal_layers_are_seen() -> None:
    def change(model):
        for module in model.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_normal_(module.weight)
        model.encoder_layers[1].load_state_dict(model.encoder_layers[0].state_dict())

    assert _described(change)[:3] == [False, "Xavier's", False]


def test_copied_layers_with_matrices_of_their_own_are_different() -> None:
    def change(model):
        model.encoder_layers[1].load_state_dict(model.encoder_layers[0].state_dict())
        for module in model.encoder_layers[1].modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)

    assert _described(change)[0] is True


def test_entries_are_counted_by_prefix() -> None:
    student = Candidate(LocalBackend(lambda: nn.ModuleDict({"norm": nn.LayerNorm(2)})))
    counted = value_of(student.fixture(count_of("norm", "other")).call(student.build()))
    assert counted == {"the number of weights of norm": 2, "the number of weights of other": 0}


def test_tables_with_the_same_weights_are_seen() -> None:
    def change(model):
        model.target_embedding.table.weight = model.source_embedding.table.weight

    assert _described(change)[-1] is False
