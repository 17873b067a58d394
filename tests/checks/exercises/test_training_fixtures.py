"""Fixtures of lessons 07 and 08: the learning rates of updates, and results of any dtype."""

from decimal import Decimal

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import Raised, Reply, Returned
from course_lib.checks.exercises.fixtures.results import (
    as_number,
    gradient_through,
    in_float64,
    number_in,
    smoothing_by,
    with_batch_axis,
)
from course_lib.checks.exercises.fixtures.updates import updates, updates_in_turn
from course_lib.transformer import LabelSmoothingLoss, learning_rate, make_scheduler


def candidate(found: object) -> Candidate:
    return Candidate(LocalBackend(found))


def value_of(reply: Reply) -> object:
    assert isinstance(reply, Returned), reply
    return reply.value


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_the_rate_of_each_update_is_seen(kind: str) -> None:
    found = candidate(make_scheduler)
    rates = value_of(found.fixture(updates(6, kind=kind)).call(found, 4, 4, factor=2.0))
    expected = {f"the rate of update {step}": learning_rate(step, 4, 4, 2.0) for step in range(1, 7)}
    assert rates == pytest.approx(expected, rel=1e-7)


def test_each_group_of_weights_is_seen() -> None:
    found = candidate(make_scheduler)
    rates = value_of(found.fixture(updates(2, groups=2)).call(found, 4, 4))
    assert rates == pytest.approx(
        {
            "the rate of update 1 for parameter group 1": 1 / 16,
            "the rate of update 1 for parameter group 2": 1 / 16,
            "the rate of update 2 for parameter group 1": 2 / 16,
            "the rate of update 2 for parameter group 2": 2 / 16,
        }
    )


def test_a_scheduler_that_changes_more_than_the_rate_is_seen() -> None:
    def with_an_update(optimizer, *arguments):
        optimizer.step()
        return make_scheduler(optimizer, *arguments)

    def without_gradients(optimizer, *arguments):
        optimizer.zero_grad()
        return make_scheduler(optimizer, *arguments)

    expected = (
        (make_scheduler, "nothing"),
        (with_an_update, "the weights and the optimiser's state"),
        (without_gradients, "the gradients"),
    )
    for made, changed in expected:
        found = candidate(made)
        facts = value_of(found.fixture(updates(1, kind="adam", old_gradients=True)).call(found, 4, 4))
        assert isinstance(facts, dict)
        assert facts["what changed when the scheduler was created"] == changed


def test_the_rates_of_schedulers_used_in_turn_are_seen() -> None:
    found = candidate(make_scheduler)
    rates = value_of(found.fixture(updates_in_turn(2)).call(found, (4, 4), (4, 1, 2.0)))
    assert rates == pytest.approx(
        {
            "the rate of update 1 with scheduler 1": 1 / 16,
            "the rate of update 1 with scheduler 2": 1,
            "the rate of update 2 with scheduler 1": 2 / 16,
            "the rate of update 2 with scheduler 2": 2**-0.5,
        }
    )


def test_a_gradient_that_backward_leaves_alone_is_zero() -> None:
    x = torch.ones(2)

    def gradient(of):
        found = candidate(of)
        return value_of(found.fixture(gradient_through(found)).call(x))

    assert torch.equal(gradient(lambda x: 3 * x.sum()), 3 * x)
    assert torch.equal(gradient(lambda x: torch.zeros((), requires_grad=True)), 0 * x)
    assert gradient(lambda x: torch.zeros(())) is None
    assert gradient(lambda x: 0.0) is None


def test_asking_for_step_zero_is_one_error_however_it_shows() -> None:
    def by_own_formula(optimizer, d_model, warmup):
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: done**-0.5)

    def by_learning_rate(optimizer, d_model, warmup):
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: learning_rate(done, d_model, warmup))

    for made in (by_own_formula, by_learning_rate):
        found = candidate(made)
        reply = found.fixture(updates(2)).call(found, 4, 4)
        assert isinstance(reply, Raised)
        assert "the rate of step 0 was requested" in reply.message


def test_a_scheduler_that_does_not_come_back_is_missed() -> None:
    found = candidate(lambda optimizer: None)
    for fixture, arguments in ((updates(2), ()), (updates_in_turn(2), ((), ()))):
        reply = found.fixture(fixture).call(found, *arguments)
        assert isinstance(reply, Returned)
        assert reply.value is None


def test_other_errors_stay_what_they_are() -> None:
    def broken(optimizer, d_model, warmup):
        raise ValueError("some other trouble")

    found = candidate(broken)
    reply = found.fixture(updates(2)).call(found, 4, 4)
    assert isinstance(reply, Raised)
    assert reply.message == "some other trouble"


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_results_of_any_floating_dtype_come_in_float64(dtype: torch.dtype) -> None:
    found = candidate(lambda x, times: (x * times).to(dtype))
    tensor = value_of(found.fixture(in_float64(found)).call(torch.ones(2), times=2))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.float64
    assert tensor.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), torch.tensor(2.0)])
def test_a_single_number_is_a_plain_one(number: object) -> None:
    found = candidate(lambda: number)
    assert value_of(found.fixture(in_float64(found)).call()) == 2.0


@pytest.mark.parametrize(
    "number", [2, 2.0, np.float32(2), np.array([2.0]), torch.tensor(2), torch.tensor([[2.0]]), Decimal(2)]
)
def test_everything_that_behaves_as_a_number_is_one(number: object) -> None:
    found = candidate(lambda: number)
    assert value_of(found.fixture(as_number(found)).call()) == 2.0


@pytest.mark.parametrize("other", [None, "two", True, torch.ones(2)])
def test_anything_else_is_no_number(other: object) -> None:
    found = candidate(lambda: other)
    value = value_of(found.fixture(as_number(found)).call())
    assert type(value) is type(other)


@pytest.mark.parametrize("other", [None, "two", True])
def test_what_is_no_number_stays_as_it_is(other: object) -> None:
    found = candidate(lambda: other)
    assert value_of(found.fixture(in_float64(found)).call()) is other


def test_whole_numbers_stay_whole() -> None:
    found = candidate(lambda: torch.ones(2, dtype=torch.long))
    tensor = value_of(found.fixture(in_float64(found)).call())
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.int64


def test_a_change_of_an_argument_is_seen_through_it() -> None:
    found = candidate(lambda x: x.mul_(2))
    reply = found.fixture(in_float64(found)).call(torch.ones(2))
    assert isinstance(reply, Returned)
    assert reply.changed == (0,)


@pytest.mark.parametrize(("shape", "given"), [((2, 2), (1, 2, 2)), ((1, 2, 2), (1, 2, 2)), ((2,), (2,))])
def test_a_table_gets_an_axis_in_front(shape: tuple[int, ...], given: tuple[int, ...]) -> None:
    found = candidate(lambda size: torch.ones(shape, dtype=torch.bool))
    tensor = value_of(found.fixture(with_batch_axis(found)).call(2))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.shape == given
    assert tensor.dtype == torch.bool


def test_what_is_no_table_gets_no_axis() -> None:
    found = candidate(lambda size: "a table")
    assert value_of(found.fixture(with_batch_axis(found)).call(2)) == "a table"


def test_an_attribute_is_read_as_a_number() -> None:
    class Holds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain = 3
            self.register_buffer("kept", torch.tensor(4))

    held = candidate(Holds()).copy()
    numbers = held.fixture(number_in(held))
    assert value_of(numbers.call("plain")) == 3.0
    assert value_of(numbers.call("kept")) == 4.0
    missing = numbers.call("other")
    assert isinstance(missing, Raised)
    assert missing.kind == "AttributeError"


def hidden(logits, labels):
    return getattr(F, "cross" + "_entropy")(logits, labels, label_smoothing=0.1)


def by_place(logits, labels):
    return F.cross_entropy(logits, labels, None, None, -100, None, "mean", 0.1)


def by_operator(logits, labels):
    return torch.ops.aten.cross_entropy_loss(logits, labels, None, 1, -100, 0.1)


def by_overload(logits, labels):
    return torch.ops.aten.cross_entropy_loss.default(logits, labels, label_smoothing=0.1)


@pytest.mark.parametrize(
    "loss", [hidden, by_place, by_operator, by_overload, nn.CrossEntropyLoss(label_smoothing=0.1)]
)
def test_smoothing_by_torch_is_seen_however_it_is_called(loss) -> None:
    found = candidate(loss)
    reply = found.fixture(smoothing_by(found)).call(torch.randn(3, 5), torch.tensor([1, 2, 3]))
    assert value_of(reply) == "PyTorch's cross-entropy"


@pytest.mark.parametrize("loss", [F.cross_entropy, LabelSmoothingLoss(5, 0), nn.CrossEntropyLoss()])
def test_a_cross_entropy_without_smoothing_is_nobody_s_smoothing(loss) -> None:
    found = candidate(loss)
    reply = found.fixture(smoothing_by(found)).call(torch.randn(3, 5), torch.tensor([1, 2, 3]))
    assert value_of(reply) == "your own code"
