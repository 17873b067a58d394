"""The fixture of lesson 09: its report on a student's train_step."""

from typing import Any

import pytest
import torch

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import Returned
from course_lib.checks.exercises.fixtures.training import training
from course_lib.transformer import train_step

BATCH = ((torch.tensor([[1, 3, 2, 0], [1, 4, 5, 2]]), torch.tensor([[1, 5, 2], [1, 3, 2]])),)


def told(train: object, *batches: Any, **settings: Any) -> dict[str, Any]:
    found = Candidate(LocalBackend(train))
    reply = found.fixture(training(7, **settings)).call(found, batches or (BATCH,))
    assert isinstance(reply, Returned), reply
    return dict(reply.value)


def test_one_update_is_told() -> None:
    seen = told(train_step)
    assert seen["the mode of the model"] == "training"
    assert seen["the number of updates"] == seen["the number of scheduler steps"] == 1
    assert seen["the gradient of the update"] == "nonzero"
    assert seen["«the caller's tokens are unchanged»"] is True
    assert seen["the gradient of the generator's weights"].shape == (7, 4)


def test_the_weights_move_by_the_rate_times_the_gradient() -> None:
    idle, moved = told(lambda *_: 0.0), told(train_step)
    step = moved["the learning rate of the update"] * moved["the gradient of all weights, flattened"]
    before = idle["all weights after the update, flattened"]
    torch.testing.assert_close(moved["all weights after the update, flattened"], before - step)


def test_who_does_nothing_has_made_no_update() -> None:
    seen = told(lambda *_: 0.0)
    assert seen["the mode of the model"] == "none, because it was not called"
    assert seen["the number of updates"] == seen["the number of scheduler steps"] == 0
    assert seen["the gradient of the update"] == "zero"


def test_old_gradients_are_there_for_who_does_not_clear_them() -> None:
    def steps_only(model, loss, micro_batches, optimizer, scheduler):
        optimizer.step()

    seen = told(steps_only, old_gradients=True)
    assert seen["the gradient of the generator's weights"].equal(torch.ones(7, 4, dtype=torch.float64))
    assert told(steps_only)["the gradient of the update"] == "zero"


@pytest.mark.parametrize("mode", ["training", "evaluation"])
def test_the_model_comes_in_the_mode_that_is_asked_for(mode: str) -> None:
    def runs(model, loss, micro_batches, optimizer, scheduler):
        model.encode(micro_batches[0][0], None)

    assert told(runs, mode=mode)["the mode of the model"] == mode


def test_each_call_is_told_by_itself() -> None:
    seen = told(train_step, BATCH, BATCH)
    first, second = (seen[f"the returned loss (call {number} of 2)"] for number in (1, 2))
    assert second < first
    assert (
        seen["the learning rate of the update (call 2 of 2)"]
        > seen["the learning rate of the update (call 1 of 2)"]
    )


def test_a_change_of_the_tokens_is_seen() -> None:
    def overwrites(model, loss, micro_batches, optimizer, scheduler):
        micro_batches[0][1].zero_()

    assert told(overwrites)["«the caller's tokens are unchanged»"] is False
    assert BATCH[0][1].any()


def test_float_of_the_loss_gives_no_warning() -> None:
    found = Candidate(LocalBackend(lambda *_: float(torch.ones((), requires_grad=True))))
    reply = found.fixture(training(7)).call(found, (BATCH,))
    assert isinstance(reply, Returned)
    assert reply.warnings == ()


def test_a_generator_can_be_iterated_over_only_once() -> None:
    def iterates_twice(model, loss, micro_batches, optimizer, scheduler):
        return float(len(list(micro_batches)) + len(list(micro_batches)))

    assert told(iterates_twice)["the returned loss"] == 2.0
    assert told(iterates_twice, generator=True)["the returned loss"] == 1.0


ALIVE = "also that of an earlier micro-batch"
PIECES = (BATCH[0], tuple(side[:1] for side in BATCH[0]), BATCH[0])


def encodes(backward, joined: bool = False):
    def step(model, loss, micro_batches, optimizer, scheduler):
        values = []
        for source, _ in micro_batches:
            rows = torch.cat([source, source]) if joined else source
            values.append(model.encode(rows, None).sum())
            backward(values[-1])

    return step


@pytest.mark.parametrize(
    ("train", "fact"),
    [
        (encodes(lambda value: value.backward()), "those of one micro-batch at a time"),
        (encodes(lambda value: None), ALIVE),
        (encodes(lambda value: value.backward(retain_graph=True)), ALIVE),
        (encodes(lambda value: value.backward(), joined=True), "those of several micro-batches in one"),
        (train_step, "those of one micro-batch at a time"),
    ],
)
def test_graphs_that_are_alive_together_are_seen(train, fact: str) -> None:
    assert told(train, PIECES, graphs=True) == {"the graphs in memory": fact}
