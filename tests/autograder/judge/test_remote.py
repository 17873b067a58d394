"""A check continues whatever a student's process does: it gets an answer, or a reason for having none."""

import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from course_lib.checks.engine.candidate import Candidate, Request
from course_lib.checks.engine.reply import (
    KERNEL_DIED,
    OUT_OF_TIME,
    RAISED_BY_NAME,
    RESULT_TOO_LARGE,
    Handle,
    Opaque,
    Raised,
    Returned,
)
from course_lib.checks.exercises.fixtures.callables import multiply, to_itself
from course_lib.checks.remote.client import RemoteObject, StudentError, student_objects
from course_lib.checks.remote.serialization import pack
from course_lib.checks.remote.server import serve
from course_lib.checks.remote.transport import Channel, ChannelClosed, ChannelTimeout

pytestmark = pytest.mark.sandbox


@contextmanager
def forked(there_runs: Callable[[socket.socket], None]) -> Iterator[Channel]:
    """Run a function in another process, and yield a channel to it."""
    here, there = socket.socketpair()
    with warnings.catch_warnings():
        # torch has other threads, but the child computes only in the thread that forked.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            here.close()
            there_runs(there)
        finally:
            os._exit(0)
    there.close()
    with here:
        yield Channel(here)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def serving(**names: object) -> Any:
    return forked(lambda there: serve(there, names))


def answering(*answers: bytes) -> Any:
    """Start a process that replies with these messages, whatever the requests are."""

    def answer(there: socket.socket) -> None:
        channel = Channel(there)
        for one in answers:
            channel.receive()
            channel.send(one)
        channel.receive()

    return forked(answer)


class Scale(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        if size < 1:
            raise ValueError("a size of at least 1")
        self.scale = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        return self.scale * x


def raises(error: BaseException) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        raise error

    return call


def test_a_class_is_worked_with_as_at_home() -> None:
    with serving(Scale=Scale) as channel:
        candidate = Candidate(RemoteObject(channel, "Scale"))
        layer, failed = candidate.build(2), candidate.build(0)
        assert layer.load({"scale": torch.tensor([3.0, 4.0])}) == Returned(None)
        copied = layer.copy()
        copied.load({"scale": torch.zeros(2)})
        found = layer.call(torch.ones(1, 2))
        assert isinstance(found, Returned)
        assert found.value.tolist() == [[3.0, 4.0]]
        gradients = layer.gradients(torch.ones(2), toward=torch.ones(2))
        assert isinstance(gradients, Returned)
        assert gradients.value["weights"]["scale"].tolist() == [1.0, 1.0]
        refused = failed.weights()
        assert isinstance(refused, Raised)
        assert (refused.kind, refused.message, refused.note) == (
            *("ValueError", "a size of at least 1"),
            RAISED_BY_NAME,
        )
        assert layer.modes() == Returned({"": True})
        assert layer.load({"gain": torch.ones(2)}) == layer.call(torch.ones(2))
        assert not channel.dead


def test_fixtures_are_made_over_there() -> None:
    with serving(apply=lambda f, x: f(x)) as channel:
        reply = Candidate(RemoteObject(channel, "apply")).call(multiply(torch.tensor(3.0)), torch.ones(2))
        assert isinstance(reply, Returned)
        assert reply.value.tolist() == [3.0, 3.0]


def test_a_locked_cell_can_simply_call_it() -> None:
    with serving(add=lambda a, b=1: a + b, fail=raises(KeyError("x"))) as channel:
        names = student_objects(channel)
        assert names["add"](2) == 3
        assert names["add"](2, b=5) == 7
        with pytest.raises(StudentError, match="KeyError: 'x'"):
            names["fail"]()


def test_names_are_those_that_a_student_defined() -> None:
    def others(there: socket.socket) -> None:
        serve(there, {"f": 1, "_hidden": 2, "x" * 101: 3, 4: 5, "größe": 6})  # type: ignore[dict-item]

    with forked(others) as channel:
        assert set(student_objects(channel)) == {"f", "größe"}


def test_ten_thousand_names_are_told_at_most() -> None:
    with serving(**{f"n{number}": number for number in range(12_000)}) as channel:
        assert len(student_objects(channel)) == 10_000


def test_each_cell_starts_fresh() -> None:
    def serve_two_cells(there: socket.socket) -> None:
        serve(there, {"Scale": Scale})
        serve(there, {"Scale": Scale})

    with forked(serve_two_cells) as channel:
        first = Candidate(student_objects(channel)["Scale"])
        assert [first.build(1).handle, first.build(1).handle] == [Handle(1), Handle(2)]
        channel.send(pack({"do": "done"}))
        assert Candidate(student_objects(channel)["Scale"]).build(1).handle == Handle(1)


def test_a_name_that_is_gone_is_said_so() -> None:
    with serving() as channel:
        reply = Candidate(RemoteObject(channel, "attention")).call(1)
        assert reply == Raised("NameError", "name 'attention' is not defined")
        built = Candidate(RemoteObject(channel, "attention")).build(1)
        assert built.call(1) == reply


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("never")


class EndlessError(Exception):
    def __str__(self) -> str:
        sys.exit(3)


class Odd:
    def __float__(self) -> float:
        raise KeyboardInterrupt


def itself() -> Any:
    loop: list[Any] = []
    loop += [loop, loop]
    return loop


def shared() -> Any:
    value: Any = 1
    for _ in range(25):
        value = (value, value)
    return value


ORDINARY_TROUBLE: dict[str, tuple[object, Raised | Returned]] = {
    "KeyboardInterrupt": (raises(KeyboardInterrupt()), Raised("KeyboardInterrupt", "")),
    "SystemExit": (raises(SystemExit(1)), Raised("SystemExit", "1")),
    "GeneratorExit": (raises(GeneratorExit()), Raised("GeneratorExit", "")),
    "a message that cannot be read": (
        raises(UnspeakableError()),
        Raised("UnspeakableError", "(reading its message raised RuntimeError)"),
    ),
    "a message that ends the program": (
        raises(EndlessError()),
        Raised("EndlessError", "(reading its message raised SystemExit)"),
    ),
    "a list that holds itself": (
        itself,
        Raised(
            RESULT_TOO_LARGE,
            "The result holds more than 50000 values, or values nested more than 30 levels deep",
        ),
    ),
    "too much, in few objects": (
        shared,
        Raised(
            RESULT_TOO_LARGE,
            "The result holds more than 50000 values, or values nested more than 30 levels deep",
        ),
    ),
    "a string of megabytes": (
        lambda: "x" * 10**7,
        Raised(RESULT_TOO_LARGE, "The result cannot be inspected: a string has"),
    ),
    "a tensor of gigabytes": (
        lambda: torch.zeros(1).expand(2**31),
        Raised(RESULT_TOO_LARGE, "The result is a tensor of 8589934592 bytes, and at most 67108864 are"),
    ),
    "a whole number of thousands of digits": (
        lambda: 10**5000,
        Returned(Opaque("int, of hundreds of digits")),
    ),
    "a long message": (raises(ValueError("y" * 10**6)), Raised("ValueError", "y" * 10_000)),
    "a number whose float is interrupted": (Odd(), Raised("TypeError", "expected a function or a class")),
}


@pytest.mark.parametrize("trouble", ORDINARY_TROUBLE)
def test_ordinary_trouble_comes_back_as_data(trouble: str) -> None:
    found, expected = ORDINARY_TROUBLE[trouble]
    with serving(found=found, well=lambda: 1) as channel:
        reply = RemoteObject(channel, "found").ask(Request("call", Handle(0)))
        if isinstance(expected, Raised):
            assert isinstance(reply, Raised)
            assert reply.kind == expected.kind
            assert reply.message.startswith(expected.message)
        else:
            assert reply == expected
        built = Candidate(RemoteObject(channel, "found")).build()
        assert isinstance(built.call(), Raised | Returned)
        assert RemoteObject(channel, "well").ask(Request("call", Handle(0))) == Returned(1)
        assert not channel.dead


def test_a_number_that_interrupts_is_no_end() -> None:
    with serving(found=Odd()) as channel:
        reply = RemoteObject(channel, "found").ask(Request("number", Handle(0)))
        assert isinstance(reply, Raised)
        assert reply.kind == "KeyboardInterrupt"
        assert not channel.dead


def test_a_program_that_ends_answers_nothing_more() -> None:
    with serving(leave=lambda: os._exit(0), well=lambda: 1) as channel:
        holder = RemoteObject(channel, "leave")
        for _ in range(2):
            reply = holder.ask(Request("call", Handle(0)))
            assert isinstance(reply, Raised)
            assert reply.kind == KERNEL_DIED
        other = Candidate(RemoteObject(channel, "well"))
        reply = other.build(1).copy().fixture(to_itself()).call()
        assert isinstance(reply, Raised)
        assert reply.kind == KERNEL_DIED
        assert channel.dead
        assert student_objects(channel) == {}


def test_a_program_that_does_not_answer_is_not_waited_for_again() -> None:
    with forked(lambda there: time.sleep(60)) as channel:
        candidate = Candidate(RemoteObject(channel, "f", timeout=0.3))
        assert candidate.call(1) == Raised(OUT_OF_TIME, "the call did not return within 0.3 seconds")
        assert candidate.build(1).call(1) == Raised(OUT_OF_TIME, "the call did not return within 0.3 seconds")
        assert channel.dead


def test_a_timeout_is_extended_by_time_without_a_core() -> None:
    def answer_late(there: socket.socket) -> None:
        time.sleep(0.8)
        Channel(there).send(b"late")
        time.sleep(60)

    since = time.monotonic()
    with forked(answer_late) as channel:
        channel._without_core = lambda: time.monotonic() - since
        assert channel.receive(0.3) == b"late"
        # The same time isn't counted again: from here on, the peer isn't waiting for a core.
        waited = time.monotonic() - since
        channel._without_core = lambda: waited
        with pytest.raises(ChannelTimeout):
            channel.receive(0.3)
        assert time.monotonic() - since < 30


def test_what_did_not_come_back_once_is_not_asked_for_again() -> None:
    late = Raised(OUT_OF_TIME, "the call did not return within 10 seconds")

    def answer_once(there: socket.socket) -> None:
        other = Channel(there)
        other.receive()
        other.send(pack(late))
        time.sleep(60)

    with forked(answer_once) as channel:
        candidate = Candidate(RemoteObject(channel, "f", timeout=20))
        assert [candidate.call(1) for _ in range(5)] == [late] * 5
        assert not channel.dead


def test_a_program_that_reads_nothing_is_not_waited_for() -> None:
    with forked(lambda there: time.sleep(60)) as channel:
        large = torch.zeros(2**22)
        reply = Candidate(RemoteObject(channel, "f", timeout=0.3)).call(large)
        assert isinstance(reply, Raised)
        assert reply.kind == OUT_OF_TIME


NO_ANSWERS = {
    "no message": ("call", b"\x00"),
    "a plain value": ("call", pack(3)),
    "an object that was not made": ("call", pack(Returned(Handle(1)))),
    "another object than the one just made": ("build", pack(Returned(Handle(0)))),
    "a value in place of an object": ("build", pack(Returned(3))),
    "weights that are a tensor": ("weights", pack(Returned(torch.ones(2)))),
    "modes that are a list": ("modes", pack(Returned(()))),
    "gradients without weights": ("gradients", pack(Returned({"inputs": ()}))),
    "gradients that are strings": ("gradients", pack(Returned({"inputs": ("a",), "weights": {}}))),
    "something for a load": ("load", pack(Returned(1))),
    "a change of an argument that was not there": ("call", pack(Returned(1, changed=(7,)))),
}


@pytest.mark.parametrize("what", NO_ANSWERS)
def test_what_is_no_answer_ends_the_channel(what: str) -> None:
    action, answer = NO_ANSWERS[what]
    with answering(answer) as channel:
        holder = RemoteObject(channel, "f")
        reply = holder.ask(Request(action, Handle(0)))  # type: ignore[arg-type]
        if action == "build":
            assert isinstance(reply, Returned)
            reply = holder.ask(Request("call", reply.value))
        assert isinstance(reply, Raised)
        assert reply.kind == KERNEL_DIED
        assert channel.dead


@pytest.mark.parametrize("names", [3, ("_hidden",), ("x" * 101,), (1,), ("a",) * 10_001], ids=str)
def test_names_that_are_none_end_the_channel(names: object) -> None:
    with answering(pack(names)) as channel:
        assert student_objects(channel) == {}
        assert channel.dead


def test_a_channel_says_what_went_wrong() -> None:
    here, there = socket.socketpair()
    channel, other = Channel(here, max_bytes=100), Channel(there)
    other.send(b"x" * 100)
    assert channel.receive(1.0) == b"x" * 100
    with pytest.raises(ChannelTimeout):
        channel.receive(0.05)
    with pytest.raises(ChannelClosed, match="did not answer in time"):
        channel.send(b"")
    with pytest.raises(ChannelClosed, match="the peer has closed the connection"):
        other.receive()

    here, there = socket.socketpair()
    channel, other = Channel(here, max_bytes=100), Channel(there)
    other.send(b"x" * 101)
    with pytest.raises(ChannelClosed, match="has 101 bytes, more than 100"):
        channel.receive()


def test_a_message_that_comes_in_drops_is_waited_for_no_longer_than_said() -> None:
    def drip(there: socket.socket) -> None:
        there.sendall((1000).to_bytes(8, "big"))
        for _ in range(600):
            there.sendall(b"x")
            time.sleep(0.1)

    with forked(drip) as channel, pytest.raises(ChannelTimeout):
        channel.receive(0.5)
