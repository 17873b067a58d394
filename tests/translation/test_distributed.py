"""The process group and its collectives, on real processes."""

import contextlib
import os
import socket
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from real_processes import in_processes

from course_lib.errors import BadInputError
from course_lib.translation.training.distributed import (
    FirstRefusedError,
    Place,
    _Preparing,
    end_together,
    first_decides,
    first_then_rest,
    gather,
    global_sum,
    has_lost_another,
    largest,
    process_group,
)
from tests.free_ports import free_ports


def collectives(place: Place) -> tuple[list[str], list[float], list[float]]:
    values = torch.tensor([float(place.rank), 1.0])
    names = gather(place, [f"{place.rank}a", f"{place.rank}b"])
    return names, global_sum(place, values).tolist(), values.tolist()


def test_gather_and_sum() -> None:
    for rank, (names, total, values) in enumerate(in_processes(3, collectives)):
        assert names == ["0a", "0b", "1a", "1b", "2a", "2b"]
        assert total == [3.0, 3.0]
        assert values == [rank, 1.0]


def order(place: Place, folder: str) -> bool:
    """The first makes a file, the others find it."""

    def make() -> bool:
        if place.is_first:
            with open(f"{folder}/made", "x"):
                return True
        with open(f"{folder}/made"):
            return True

    return first_then_rest(place, make)


def test_what_the_first_makes_the_others_find(tmp_path: object) -> None:
    assert in_processes(3, order, str(tmp_path)) == [True, True, True]


def refusal(place: Place, refusing: int) -> str:
    def make() -> None:
        if place.rank == refusing:
            raise BadInputError(f"process {place.rank} cannot go on")

    try:
        first_then_rest(place, make)
    except FirstRefusedError as error:
        end_together(place)
        return f"as the first: {error}"
    except BadInputError as error:
        end_together(place)
        return str(error)
    return "went on"


def test_bad_input_on_the_first_ends_all() -> None:
    assert in_processes(2, refusal, 0) == ["process 0 cannot go on", "as the first: process 0 cannot go on"]


def test_bad_input_elsewhere_is_that_process_s_own() -> None:
    assert in_processes(2, refusal, 1) == ["went on", "process 1 cannot go on"]


def place_in_environment(monkeypatch: pytest.MonkeyPatch, rank: int, port: int) -> None:
    values = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")


def test_a_port_in_use_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        place_in_environment(monkeypatch, 0, port)
        with pytest.raises(BadInputError) as refused, process_group():
            pass
    assert str(refused.value) == (
        f"127.0.0.1:{port}: the processes cannot meet there (the port is in use; choose another one, or "
        "start with torchrun --standalone, which finds one)"
    )


@pytest.mark.parametrize("rank", [0, 1])
def test_others_that_do_not_come_are_not_waited_for_forever(
    monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    [port] = free_ports(1)
    place_in_environment(monkeypatch, rank, port)
    with (
        pytest.raises(BadInputError, match="not all were there within 1 seconds; see that every node"),
        process_group(patience=timedelta(seconds=1)),
    ):
        pass


def test_half_of_torchrun_s_variables_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    place_in_environment(monkeypatch, 0, 1)
    monkeypatch.delenv("LOCAL_RANK")
    with pytest.raises(BadInputError, match="but LOCAL_RANK are missing"), process_group():
        pass


def first_says(place: Place) -> tuple[str, int]:
    return first_decides(place, lambda: f"said by {place.rank}"), largest(place, place.rank)


def test_the_first_decides_for_all_and_all_know_the_largest() -> None:
    assert in_processes(2, first_says) == [("said by 0", 1), ("said by 0", 1)]


@pytest.mark.parametrize("fails", [True, False])
def test_nobody_waits_for_a_farewell_after_an_exception(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """Over NCCL, leaving is waiting for the others, and these may be waiting for whoever leaves."""
    [port] = free_ports(1)
    place_in_environment(monkeypatch, 0, port)
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(_Preparing, "group", None)
    with contextlib.suppress(MemoryError), process_group():
        if fails:
            raise MemoryError
    assert dist.is_initialized() is fails
    if fails:
        dist.destroy_process_group()


@pytest.mark.parametrize(("environment", "goodbye"), [({}, ", goodbye"), ({"WORLD_SIZE": "2"}, "")])
def test_a_process_ends_with_its_code_and_all_it_said(environment: dict[str, str], goodbye: str) -> None:
    code = (
        "import atexit; from course_lib.translation.training.distributed import end_process; "
        "atexit.register(print, ', goodbye', end=''); print('said', end=''); end_process(75)"
    )
    alone = {name: value for name, value in os.environ.items() if name != "WORLD_SIZE"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=alone | environment, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (75, f"said{goodbye}", "")


def limits(place: Place) -> list[timedelta]:
    groups: list[Any] = [dist.group.WORLD, _Preparing.group]
    return [group._get_backend(torch.device("cpu")).options._timeout for group in groups]


def test_what_the_first_prepares_may_take_hours() -> None:
    assert in_processes(2, limits) == [[timedelta(minutes=30), timedelta(days=1)]] * 2


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (dist.DistNetworkError("the connection to the store is closed"), True),
        (RuntimeError("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed"), True),
        (
            dist.DistBackendError(
                "NCCL error: remote process exited or there was a network error, "
                "ncclRemoteError: A call failed possibly due to a network error"
            ),
            True,
        ),
        (
            dist.DistBackendError("NCCL error: unhandled system error, ncclSystemError: no room in /dev/shm"),
            False,
        ),
        (RuntimeError("CUDA out of memory"), False),
    ],
)
def test_an_error_of_this_machine_s_own_is_no_loss_of_another(error: Exception, lost: bool) -> None:
    assert has_lost_another(error) is lost


def test_alone_there_is_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with process_group() as place:
        assert place == Place(rank=0, world_size=1, local_rank=0, local_world_size=1)
        assert not torch.distributed.is_initialized()
        assert gather(place, [1, 2]) == [1, 2]
        assert global_sum(place, torch.tensor(3.0)).item() == 3.0
        assert first_then_rest(place, lambda: "made") == "made"
