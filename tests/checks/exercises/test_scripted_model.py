"""The fixtures of lesson 06: a model that produces known sentences, and one with two vocabularies."""

import copy

import torch

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import Raised, Returned
from course_lib.checks.exercises.fixtures.known_models import scripted_model
from course_lib.checks.exercises.fixtures.models import transformer
from course_lib.transformer import causal_mask, greedy_decode

SCRIPT = torch.zeros(6, 4, dtype=torch.long)
SCRIPT[3] = torch.tensor([4, 2, 5, 5])
SCRIPT[4] = torch.tensor([5, 5, 5, 2])
SOURCE = torch.tensor([[1, 3, 2], [1, 4, 2]])
MASK = torch.ones(2, 1, 3, dtype=torch.bool)


def value(reply: object) -> object:
    assert isinstance(reply, Returned), reply
    return reply.value


def test_each_source_is_answered_by_its_phrase() -> None:
    reply = Candidate(LocalBackend(greedy_decode)).call(
        scripted_model(SCRIPT, vocab=6), SOURCE, MASK, 9, 1, 2
    )
    found = value(reply)
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == [[1, 4, 2, 2, 2], [1, 5, 5, 5, 2]]


def test_rows_may_be_answered_one_by_one() -> None:
    reply = Candidate(LocalBackend(greedy_decode)).call(
        scripted_model(SCRIPT, vocab=6), SOURCE[1:], MASK[1:], 9, 1, 2
    )
    found = value(reply)
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == [[1, 5, 5, 5, 2]]


def test_forward_is_encode_decode_and_generator() -> None:
    model = Candidate(LocalBackend(None)).fixture(scripted_model(SCRIPT, vocab=6))
    logits = value(model.call(SOURCE, MASK, torch.tensor([[1, 4], [1, 5]]), causal_mask(2)))
    assert isinstance(logits, torch.Tensor)
    assert logits.argmax(-1).tolist() == [[4, 2], [5, 5]]


def test_it_notes_how_it_was_used() -> None:
    candidate = Candidate(LocalBackend(greedy_decode))
    careful = candidate.fixture(scripted_model(SCRIPT, vocab=6))
    candidate.call(careful, SOURCE, MASK, 9, 1, 2)
    assert value(careful.call(method="notes")) == {
        "the mode of the model": "evaluation",
        "«the model runs without recording gradients»": True,
        "the parameters afterwards": "trainable",
    }
    careless = candidate.fixture(scripted_model(SCRIPT, vocab=6))
    careless.call(SOURCE, MASK, method="encode")
    assert value(careless.call(method="notes")) == {
        "the mode of the model": "training",
        "«the model runs without recording gradients»": False,
        "the parameters afterwards": "trainable",
    }


def test_a_transformer_may_have_two_vocabularies() -> None:
    model = Candidate(LocalBackend(None)).fixture(
        transformer(7, target_vocab=9, layers=1, d_model=4, heads=1, d_ff=3)
    )
    weights = value(model.weights())
    assert isinstance(weights, dict)
    assert weights["source_embedding.table.weight"].shape == (7, 4)
    assert weights["target_embedding.table.weight"].shape == (9, 4)
    assert weights["generator.weight"].shape == (9, 4)


def test_it_counts_how_often_the_source_is_encoded() -> None:
    candidate = Candidate(LocalBackend(greedy_decode))
    model = candidate.fixture(scripted_model(SCRIPT, vocab=6))
    assert value(model.call(method="encoded")) == "no call that does"
    candidate.call(model, SOURCE, MASK, 9, 1, 2)
    assert value(model.call(method="encoded")) == "one call that encodes the source"
    model.call(SOURCE, MASK, SOURCE, causal_mask(3))
    both = "several: `encode` with several sentences and the whole model"
    assert value(model.call(method="encoded")) == both


def test_it_counts_the_calls_to_its_deep_copies() -> None:
    candidate = Candidate(LocalBackend(lambda model, *inputs: greedy_decode(copy.deepcopy(model), *inputs)))
    model = candidate.fixture(scripted_model(SCRIPT, vocab=6))
    candidate.call(model, SOURCE, MASK, 9, 1, 2)
    assert value(model.call(method="encoded")) == "one call that encodes the source"


def test_a_mask_of_numbers_is_refused() -> None:
    model = Candidate(LocalBackend(None)).fixture(scripted_model(SCRIPT, vocab=6))
    reply = model.call(SOURCE, MASK, torch.tensor([[1, 4], [1, 5]]), causal_mask(2).long())
    assert isinstance(reply, Raised)
    assert reply.kind == "TypeError"
