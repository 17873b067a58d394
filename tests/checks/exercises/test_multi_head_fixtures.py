"""The fixtures of lesson 02: they report what the contract requires, and omit what students may choose."""

import torch
from torch import nn

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import Opaque, Returned
from course_lib.checks.exercises.fixtures.callables import dropout_strength
from course_lib.checks.exercises.fixtures.refusals import A_RESULT, AN_ERROR, any_refusal
from course_lib.checks.exercises.fixtures.starting_weights import equal_weights


def candidate(found: object) -> Candidate:
    return Candidate(LocalBackend(found))


def told(reply: object) -> object:
    assert isinstance(reply, Returned)
    return reply.value


def test_an_error_of_any_kind_counts_if_it_is_raised_and_not_returned() -> None:
    def divide(x):
        return 1 / x if x < 2 else ValueError("too large")

    student = candidate(divide)
    look = student.fixture(any_refusal())
    assert [told(look.call(student, x)) for x in (0, 1)] == [AN_ERROR, A_RESULT]
    assert told(look.call(student, 2)) == Opaque("ValueError")


def test_equal_weights_are_told_in_pairs() -> None:
    module = nn.ModuleDict({name: nn.Linear(2, 2) for name in "abc"})
    module["c"].load_state_dict(module["a"].state_dict())
    student = candidate(lambda: module)
    look = student.fixture(equal_weights("a.weight", "b.weight", "c.weight"))
    assert told(look.call(student.build())) == (("a.weight", "c.weight"),)


def test_the_strength_of_dropout_is_told_and_not_its_pattern() -> None:
    x = torch.ones(1, 2, 3, dtype=torch.float64)

    def attend(attention, rate, training):
        dropout = nn.Dropout(rate).train(training) if rate is not None else None
        return attention(0 * x, 0 * x, x, None, dropout)[0].max().item()

    student = candidate(attend)
    assert told(student.call(dropout_strength(), 0.75, True)) == 4.0
    assert told(student.call(dropout_strength(), 0.75, False)) == 0.5
    assert told(student.call(dropout_strength(), None, True)) == 0.5
