"""The fixtures of lesson 11: a model with tabulated probabilities, and a monitor of checkpoints."""

import math

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import Raised, Returned
from course_lib.checks.exercises.fixtures.checkpoints import AVERAGE, MODIFIED, SHARED, averaging
from course_lib.checks.exercises.fixtures.known_models import table_model
from course_lib.transformer import average_checkpoints, beam_search, causal_mask, greedy_decode

#: Logits by last source token, position and last token. After the start, 3 is likelier than 4, but the end
#: is more certain after 4.
LOGITS = torch.full((5, 2, 5, 5), -20.0, dtype=torch.float64)
LOGITS[:, 0, 1, 3], LOGITS[:, 0, 1, 4] = math.log(0.6), math.log(0.4)
LOGITS[:, 1, 3, 2], LOGITS[:, 1, 3, 4] = math.log(0.5), math.log(0.5)
LOGITS[:, 1, 4, 2] = 0.0
#: The translation of a source that ends in 4 is 3 and the end token.
LOGITS[4, 0, 1] = torch.tensor([-20.0, -20.0, -20.0, 0.0, -20.0])
LOGITS[4, 1, 3] = torch.tensor([-20.0, -20.0, 0.0, -20.0, -20.0])

SOURCE = torch.tensor([[1, 3, 4], [1, 0, 4]])
MASK = torch.tensor([[[True, True, False]], [[True, True, True]]])


def value(reply: object) -> object:
    assert isinstance(reply, Returned), reply
    return reply.value


def test_the_beam_finds_what_greedy_misses() -> None:
    searched = value(
        Candidate(LocalBackend(beam_search)).call(table_model(LOGITS), SOURCE, MASK, 2, 4, 1, 2, 0.0)
    )
    greedy = value(Candidate(LocalBackend(greedy_decode)).call(table_model(LOGITS), SOURCE, MASK, 4, 1, 2))
    assert isinstance(searched, Tensor)
    assert isinstance(greedy, Tensor)
    assert searched.tolist() == [[1, 4, 2], [1, 3, 2]]
    assert greedy[:, 1].tolist() == [3, 3]


def test_the_last_real_word_is_answered() -> None:
    model = Candidate(LocalBackend(None)).fixture(table_model(LOGITS))
    target = torch.tensor([[1, 4], [1, 3]])
    masked = value(model.call(SOURCE, MASK, target, causal_mask(2)))
    assert isinstance(masked, Tensor)
    assert torch.equal(masked[0], LOGITS[3, [0, 1], [1, 4]])
    without = value(model.call(SOURCE, None, target, causal_mask(2)))
    assert isinstance(without, Tensor)
    assert torch.equal(without[0], LOGITS[4, [0, 1], [1, 4]])


def test_a_memory_that_does_not_fit_is_refused() -> None:
    model = Candidate(LocalBackend(None)).fixture(table_model(LOGITS))
    reply = model.call(SOURCE, MASK, torch.tensor([[1]]), None)
    assert isinstance(reply, Raised)
    assert reply.message == "memory and target have different batch sizes: 2 and 1"


def test_it_notes_how_it_was_used() -> None:
    candidate = Candidate(LocalBackend(beam_search))
    careful, careless = candidate.fixture(table_model(LOGITS)), candidate.fixture(table_model(LOGITS))
    candidate.call(careful, SOURCE, MASK, 2, 4, 1, 2, 0.0)
    careless.call(SOURCE, MASK, method="encode")
    assert value(careful.call(method="notes")) == {
        "the mode of the model": "evaluation",
        "«the model runs without recording gradients»": True,
        "the parameters afterwards": "trainable",
    }
    assert value(careless.call(method="notes")) == {
        "the mode of the model": "training",
        "«the model runs without recording gradients»": False,
        "the parameters afterwards": "trainable",
    }


STATES = ({"w": torch.tensor([1.0]), "n": torch.tensor(3)}, {"w": torch.tensor([2.0]), "n": torch.tensor(3)})


def told(function: object) -> dict:
    candidate = Candidate(LocalBackend(function))
    found = value(candidate.fixture(averaging(candidate)).call(STATES))
    assert isinstance(found, dict)
    return found


def test_a_careful_average_writes_nothing_and_shares_nothing() -> None:
    found = told(average_checkpoints)
    assert found[AVERAGE]["w"].tolist() == [1.5]
    assert (found[MODIFIED], found[SHARED]) == ("none", "none")


def test_what_is_written_into_or_shared_is_named() -> None:
    def careless(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        states[0]["w"] += states[1]["w"]
        return {"w": states[0]["w"] / 2, "n": states[1]["n"].view(1)}

    found = told(careless)
    assert (found[MODIFIED], found[SHARED]) == ("w", "n")
    assert STATES[0]["w"].tolist() == [1.0]


def test_a_shortened_list_of_checkpoints_is_noticed() -> None:
    def careless(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        return average_checkpoints([states.pop(0), *states])

    assert told(careless)[MODIFIED] == "all, because the list of checkpoints was modified"


def test_entries_may_be_replaced_by_other_objects() -> None:
    def careless(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        average = average_checkpoints(states)
        for state in states:
            state["w"] = state["w"].tolist()
        return average

    found = told(careless)
    assert (found[MODIFIED], found[SHARED]) == ("w", "none")


def test_the_function_gets_a_list() -> None:
    assert told(lambda states: type(states).__name__)[AVERAGE] == "list"


def test_what_is_no_dict_shares_nothing() -> None:
    assert told(lambda states: states[0]["w"])[SHARED] == "none"
