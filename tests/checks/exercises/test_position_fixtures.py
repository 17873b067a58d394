"""Fixtures of lesson 05: the initial table, positions beyond max_length, and tensors left on the CPU."""

import copy

import pytest
import torch
from torch import nn

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import Raised, Reply, Returned
from course_lib.checks.exercises.fixtures.devices import on_a_gpu
from course_lib.checks.exercises.fixtures.positions import (
    has_large_entry,
    past_max_length,
    start_of,
    state_dict_fits,
)
from course_lib.transformer import PositionalEncoding, sinusoids


def candidate(found: object) -> Candidate:
    return Candidate(LocalBackend(found))


def told(reply: object) -> object:
    assert isinstance(reply, Returned)
    return reply.value


@pytest.mark.parametrize(
    ("fill", "spread", "normal"),
    [
        (lambda weight: nn.init.normal_(weight, std=0.5), 0.5, True),
        (lambda weight: nn.init.uniform_(weight, -0.5, 0.5), 0.5 / 3**0.5, False),
    ],
)
def test_the_start_is_told_and_not_the_numbers(fill, spread, normal) -> None:
    def build():
        module = nn.Linear(100, 100)
        fill(module.weight)
        return module

    student = candidate(build)
    facts = told(student.fixture(start_of("weight")).call(student.build()))
    assert facts["the standard deviation of the table"] == pytest.approx(spread, rel=0.03)
    assert facts["«the table's numbers are distributed normally»"] is normal
    assert facts["«the mean of the table is near 0»"] is True


class Unguarded(PositionalEncoding):
    def forward(self, x):
        return x + self.table[: x.shape[1]]


class Endless(PositionalEncoding):
    def forward(self, x):
        return x + sinusoids(*x.shape[1:])


class InItsOwnWords(PositionalEncoding):
    def forward(self, x):
        raise RuntimeError(f"{x.shape[1]} is more than 4")


class WithoutNumbers(PositionalEncoding):
    def forward(self, x):
        raise ValueError("too long")


class WrongFromTheStart(PositionalEncoding):
    def forward(self, x):
        return x + 1


class Shortened(PositionalEncoding):
    def forward(self, x):
        return super().forward(x[:, : len(self.table)])


@pytest.mark.parametrize(
    ("kind", "words", "maximum", "starts"),
    [
        (PositionalEncoding, 6, 4, "correct encodings or a clear error"),
        (Endless, 6, 4, "correct encodings or a clear error"),
        (InItsOwnWords, 6, 4, "correct encodings or a clear error"),
        (WithoutNumbers, 6, 4, "an error without the length or max_length"),
        (WrongFromTheStart, 6, 4, "correct encodings or a clear error"),  # other probes report this
        (Unguarded, 6, 4, "PyTorch's own error about sizes"),
        (Unguarded, 3, 1, "wrong encodings and no error"),
        (Shortened, 6, 4, "a result of a different shape"),
    ],
)
def test_what_happens_past_max_length(kind, words, maximum, starts) -> None:
    student = candidate(kind)
    reply = student.fixture(past_max_length()).call(
        student.build(6, 0.0, maximum), maximum, sinusoids(words, 6), True
    )
    assert told(reply).startswith(starts)


def test_what_is_saved_is_told_without_its_name() -> None:
    student = candidate(nn.Linear)
    look = student.fixture(has_large_entry())
    assert told(look.call(student.build(3, 4), 12)) is True
    assert told(look.call(student.build(3, 4), 13)) is False


def test_whether_a_state_dict_fits_is_told_without_its_names() -> None:
    student = candidate(nn.Linear)
    look = student.fixture(state_dict_fits())
    assert told(look.call(student.build(3, 4), student.build(3, 4))) is True
    assert told(look.call(student.build(3, 4), student.build(4, 3))) is False


class Plain(nn.Module):
    """A module with a plain tensor, which `bring` may or may not move to the input's device and dtype."""

    def __init__(self, bring):
        super().__init__()
        self.bring, self.numbers = bring, torch.ones(3)

    def forward(self, x):
        return x + self.bring(self.numbers, x)


class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("numbers", torch.ones(3), persistent=False)
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.weight + self.numbers[:3].clone()


def combines_devices(reply: Reply) -> bool:
    return isinstance(reply, Raised) and reply.message.startswith("with the module on a GPU, this would")


@pytest.mark.parametrize(
    ("bring", "behind"),
    [
        (lambda numbers, x: numbers, True),
        (lambda numbers, x: numbers.to(x.dtype), True),
        (lambda numbers, x: torch.arange(3), True),
        (lambda numbers, x: numbers[[0, 1, 2]] * 2, True),
        (lambda numbers, x: numbers.to(x), False),
        (lambda numbers, x: numbers.to(x.device), False),
        (lambda numbers, x: numbers.type_as(x), False),
        (lambda numbers, x: numbers if numbers.device == x.device else numbers.to(x.device), False),
        (lambda numbers, x: numbers.cuda() if x.is_cuda else numbers, False),
        (lambda numbers, x: torch.arange(3, device=x.device).double(), False),
        (lambda numbers, x: torch.div(x.new_ones(3), 2, rounding_mode="floor"), False),
        (lambda numbers, x: torch.zeros_like(x).copy_(numbers), False),
        (lambda numbers, x: torch.tensor(2.0), False),
        (lambda numbers, x: torch.vmap(lambda row: row * 2)(x), False),
    ],
)
def test_what_stays_behind_is_told(bring, behind) -> None:
    student = candidate(lambda: Plain(bring))
    reply = student.fixture(on_a_gpu()).call(student.build(), torch.zeros(2, 3))
    assert combines_devices(reply) is behind


def test_a_table_from_a_cache_for_each_device_is_not_left_behind() -> None:
    tables: dict[torch.device, torch.Tensor] = {}

    def table(numbers: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        if x.device not in tables:
            tables[x.device] = torch.arange(3.0, device=x.device)
        return tables[x.device][:3]

    student = candidate(lambda: Plain(table))
    layer = student.build()
    layer.call(torch.zeros(2, 3))
    assert told(student.fixture(on_a_gpu()).call(layer, torch.zeros(2, 3))) is True


def test_another_object_for_a_buffer_goes_along() -> None:
    class Old(Buffered):
        def forward(self, x):
            return x + torch.autograd.Variable(self.numbers[1:])

    student = candidate(Old)
    assert told(student.fixture(on_a_gpu()).call(student.build(), torch.zeros(2, 2))) is True


def test_buffers_and_parameters_go_along() -> None:
    student = candidate(Buffered)
    assert told(student.fixture(on_a_gpu()).call(student.build(), torch.zeros(2, 3))) is True


def _doubled(tokens: torch.Tensor) -> torch.Tensor:
    return 2 * tokens


SCRIPTED = torch.jit.script(_doubled)


@pytest.mark.parametrize(
    ("found", "error"),
    [
        (lambda tokens: tokens != 0, ""),
        (lambda tokens: torch.ones(4, device=tokens.device) * tokens, ""),
        (lambda tokens: torch.ones(4) * tokens, "with inputs on a GPU, this would combine"),
        (lambda tokens: torch.tensor(tokens.tolist()), "with inputs on a GPU, the result would"),
        (lambda tokens: tokens * copy.deepcopy(nn.Parameter(tokens * 1.0)), ""),
        (lambda tokens: (tokens * 1.0).to_sparse().to_dense(), ""),
        (lambda tokens: torch.tensor(list(tokens * 1.0)) * torch.ones(4), "with inputs on a GPU, the result"),
        (lambda tokens: float((torch.tensor(list(tokens * 1.0)) * torch.ones(4)).sum()), ""),
        (lambda tokens: (torch.ones(4) + tokens.cpu()).to(tokens.device), ""),
        (lambda tokens: (torch.ones(4) + tokens.to("cpu")).to(tokens.device), ""),
        (lambda tokens: torch.ones(4) * tokens if tokens.is_cpu else tokens, ""),
        (lambda tokens: SCRIPTED(torch.ones_like(tokens)), ""),
        (lambda tokens: torch.zeros_like(tokens).index_put((torch.tensor([0, 2]),), tokens[0]), ""),
        (lambda tokens: tokens.no_such_attribute, ""),  # Other probes report this exception.
        (SCRIPTED, ""),
    ],
)
def test_what_stays_on_the_device_of_its_arguments(found, error) -> None:
    student = candidate(found)
    reply = student.fixture(on_a_gpu()).call(student, torch.arange(4))
    if error:
        assert isinstance(reply, Raised)
        assert reply.message.startswith(error)
    else:
        assert told(reply) is True
