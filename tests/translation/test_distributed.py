"""The process group and its collectives, in real processes."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from course_lib.errors import BadInputError, ExitCode
from course_lib.translation.distributed import (
    SINGLE_PROCESS,
    DistributedInfo,
    LostPeerError,
    RankZeroError,
    all_gather,
    broadcast_from_rank_zero,
    global_max,
    global_sum,
    lost_peers_reported,
    memory_of,
    process_group,
    rank_zero_first,
    timeouts_reported,
    wait_for_peers,
)
from course_lib.translation.train import peer_watch
from course_lib.translation.train.peer_watch import watched_peers
from tests.free_ports import free_ports
from tests.translation.real_processes import SECONDS, in_processes, kill, received, start

pytestmark = pytest.mark.slow

#: The module whose timeouts some tests shorten.
MODULE = "course_lib.translation.distributed"


def collectives(distributed: DistributedInfo) -> tuple[list[str], list[float], list[float]]:
    values = torch.tensor([float(distributed.rank), 1.0])
    names = all_gather(distributed, [f"{distributed.rank}a", f"{distributed.rank}b"])
    return names, global_sum(distributed, values).tolist(), values.tolist()


def test_gather_and_sum() -> None:
    for rank, (names, total, values) in enumerate(in_processes(3, collectives)):
        assert names == ["0a", "0b", "1a", "1b", "2a", "2b"]
        assert total == [3.0, 3.0]
        assert values == [rank, 1.0]


def order(distributed: DistributedInfo, folder: str) -> bool:
    """Create a file on rank 0; the other ranks open it."""

    def make() -> bool:
        if distributed.is_rank_zero:
            with open(f"{folder}/made", "x", encoding="utf-8"):
                return True
        with open(f"{folder}/made", encoding="utf-8"):
            return True

    return rank_zero_first(distributed, make)


def test_what_the_first_makes_the_others_find(tmp_path: object) -> None:
    assert in_processes(3, order, str(tmp_path)) == [True, True, True]


def refusal(distributed: DistributedInfo, refusing: int) -> str:
    def make() -> None:
        if distributed.rank == refusing:
            raise BadInputError(f"process {distributed.rank} cannot go on")

    try:
        rank_zero_first(distributed, make)
    except RankZeroError as error:
        wait_for_peers(distributed)
        return f"as rank zero: {error}"
    except BadInputError as error:
        wait_for_peers(distributed)
        return str(error)
    return "went on"


def test_bad_input_on_the_first_ends_all() -> None:
    assert in_processes(2, refusal, 0) == ["process 0 cannot go on", "as rank zero: process 0 cannot go on"]


def test_bad_input_elsewhere_is_that_process_s_own() -> None:
    assert in_processes(2, refusal, 1) == ["went on", "process 1 cannot go on"]


def failure(distributed: DistributedInfo) -> str:
    if distributed.rank == 0:
        try:
            global_max(distributed, 1)
        except RuntimeError:
            return "lost a peer"
    wait_for_peers(distributed)
    return "reported"


def test_a_failing_process_does_not_answer_what_another_one_waits_for() -> None:
    assert in_processes(2, failure) == ["lost a peer", "reported"]


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
        f"The rendezvous of the processes at 127.0.0.1:{port} failed: the port is in use. Choose another "
        "one, or start with torchrun --standalone."
    )


@pytest.mark.parametrize("rank", [0, 1])
def test_others_that_do_not_come_are_not_waited_for_forever(
    monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    [port] = free_ports(1)
    place_in_environment(monkeypatch, rank, port)
    monkeypatch.setattr(f"{MODULE}._RENDEZVOUS_TIMEOUT", timedelta(seconds=1))
    with (
        pytest.raises(BadInputError, match="some processes didn't connect within 1 seconds"),
        process_group(),
    ):
        pass


def test_a_network_that_gloo_cannot_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    [port] = free_ports(1)
    place_in_environment(monkeypatch, 0, port)
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "none0")
    with pytest.raises(BadInputError, match=r"(?i)gloo.*set GLOO_SOCKET_IFNAME to the"), process_group():
        pass


def test_half_of_torchrun_s_variables_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    place_in_environment(monkeypatch, 0, 1)
    monkeypatch.delenv("LOCAL_RANK")
    with pytest.raises(BadInputError, match="incomplete: LOCAL_RANK missing"), process_group():
        pass


@pytest.mark.parametrize(
    ("name", "value"), [("MASTER_PORT", "abc"), ("MASTER_PORT", "99999"), ("LOCAL_RANK", "-1")]
)
def test_torchrun_s_variables_must_be_numbers(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    place_in_environment(monkeypatch, 0, 1)
    monkeypatch.setenv(name, value)
    with (
        pytest.raises(BadInputError, match=f"{name}: expected a whole number up to [0-9]+, got {value}"),
        process_group(),
    ):
        pass


def first_says(distributed: DistributedInfo) -> tuple[str, int]:
    return broadcast_from_rank_zero(distributed, lambda: f"said by {distributed.rank}"), global_max(
        distributed, distributed.rank
    )


def test_the_first_decides_for_all_and_all_know_the_largest() -> None:
    assert in_processes(2, first_says) == [("said by 0", 1), ("said by 0", 1)]


def state_from_first(distributed: DistributedInfo) -> bool:
    state: dict[str, Any] = {
        "a": torch.tensor(7),
        "b": [torch.arange(6.0).view(2, 3).T, torch.tensor([True, False])],
        "c": "x",
    }
    state["tied"] = state["a"]
    got = broadcast_from_rank_zero(distributed, lambda: state if distributed.is_rank_zero else {})
    same = [torch.equal(got["a"], state["a"]), *map(torch.equal, got["b"], state["b"])]
    tied = got["tied"].data_ptr() == got["a"].data_ptr()
    return all(same) and tied and got["c"] == "x" and got["b"][1].dtype == torch.bool


def test_tensors_are_sent_as_they_are() -> None:
    assert in_processes(2, state_from_first) == [True, True]


def test_only_the_same_numbers_in_memory_have_the_same_key() -> None:
    weight = torch.arange(6.0).view(2, 3)
    assert memory_of(weight.detach().view(2, 3)) == memory_of(torch.nn.Parameter(weight)) == memory_of(weight)
    others = (weight.clone(), weight[1:], weight.view(3, 2), weight.view(torch.int32), weight.view(6)[:4])
    assert len({memory_of(each) for each in (weight, *others)}) == 6


def freeze(distributed: DistributedInfo, rank: int) -> str:
    """Freeze the process with this rank while the other ranks wait for it in a collective."""
    with watched_peers(distributed, 2):
        dist.barrier()  # A process that freezes while the watch is being set up isn't watched yet.
        if distributed.rank == rank:
            os.kill(os.getpid(), signal.SIGSTOP)
        dist.all_reduce(torch.zeros(1))
    return "continued"


def test_a_frozen_process_is_not_waited_for() -> None:
    started = start(2, freeze, 0)
    started[1][0].join(SECONDS)
    assert started[1][0].exitcode == ExitCode.FAILED
    kill(started)


def lose(distributed: DistributedInfo, ends: str, output: str) -> str:
    """Exit on rank 1 while it is watched. The others wait in the main thread, as in an NCCL collective."""
    pytest.MonkeyPatch().setattr(peer_watch, "_SECONDS_TO_FAIL", 2.0)
    if distributed.rank == 0:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), 2)
    with contextlib.suppress(MemoryError), watched_peers(distributed, 60) as unfinished:
        dist.barrier()
        if distributed.rank == 1:
            os._exit(0)
        if ends == "after writing":
            unfinished.add(output)
            time.sleep(3)
            unfinished.discard(output)
        if ends == "with an error":
            raise MemoryError
        if ends == "never":
            time.sleep(SECONDS)
    time.sleep(3)
    return "ended"


def test_a_lost_process_is_not_waited_for(tmp_path: Path) -> None:
    """Rank 0 gets no heartbeats from rank 1, and learns from rank 2 that rank 1 has exited."""
    started = start(3, lose, "never", str(tmp_path / "errors"))
    for process, _ in started:
        process.join(SECONDS)
    assert [process.exitcode for process, _ in started] == [ExitCode.FAILED, 0, ExitCode.FAILED]
    message = (tmp_path / "errors").read_text()
    assert f"train, process 0: process 1 ({socket.gethostname()}, process id {started[1][0].pid})" in message
    assert "has exited or can no longer be reached. The run ends." in message


@pytest.mark.parametrize("ends", ["after writing", "with an error", "normally"])
def test_a_process_that_ends_by_itself_is_not_ended_for_a_lost_one(tmp_path: Path, ends: str) -> None:
    started = start(2, lose, ends, str(tmp_path / "errors"))
    assert received(started[0][1]) == (True, "ended")
    kill(started)


def test_a_watch_ends_with_its_run() -> None:
    assert in_processes(3, freeze, 99) == ["continued"] * 3


def test_an_error_after_a_long_wait_is_a_lost_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=r"^own$"), timeouts_reported():
        raise RuntimeError("own")
    monkeypatch.setattr(f"{MODULE}._COLLECTIVE_TIMEOUT", timedelta(0))
    with pytest.raises(LostPeerError, match="has not answered for 0 minutes"), timeouts_reported():
        raise RuntimeError("Timed out")


@pytest.mark.parametrize("fails", [True, False])
def test_nobody_waits_for_a_farewell_after_an_exception(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """With NCCL, leaving the group waits for the others, which may be waiting for the leaving rank."""
    [port] = free_ports(1)
    place_in_environment(monkeypatch, 0, port)
    monkeypatch.setenv("WORLD_SIZE", "1")
    with contextlib.suppress(MemoryError), process_group():
        if fails:
            raise MemoryError
    assert dist.is_initialized() is fails
    if fails:
        dist.destroy_process_group()


@pytest.mark.parametrize(("environment", "goodbye"), [({}, ", goodbye"), ({"WORLD_SIZE": "2"}, "")])
def test_a_process_ends_with_its_code_and_all_it_said(environment: dict[str, str], goodbye: str) -> None:
    code = (
        "import atexit; from course_lib.translation.distributed import end_process; "
        "atexit.register(print, ', goodbye', end=''); print('said', end=''); end_process(75)"
    )
    alone = {name: value for name, value in os.environ.items() if name != "WORLD_SIZE"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=alone | environment, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (75, f"said{goodbye}", "")


def limits(distributed: DistributedInfo) -> list[timedelta]:
    groups: list[Any] = [dist.group.WORLD, distributed.control_group]
    return [group._get_backend(torch.device("cpu")).options._timeout for group in groups]


def test_what_the_first_prepares_may_take_hours() -> None:
    assert in_processes(2, limits) == [[timedelta(minutes=30), timedelta(days=1)]] * 2


def outcome_of_an_error(distributed: DistributedInfo, dies: bool) -> str:
    """Raise an error on rank 0 while rank 1 exits or waits, and return rank 0's final error."""
    if distributed.rank == 1:
        if dies:
            os._exit(0)
        dist.barrier()
        return "waited"
    if not dies:  # The peer never answers the probe, so a short timeout is enough.
        pytest.MonkeyPatch().setattr(f"{MODULE}._PROBE_TIMEOUT", timedelta(seconds=1))
    time.sleep(0.5)
    try:
        with lost_peers_reported(distributed):
            raise RuntimeError("anything that torch may say")
    except RuntimeError as error:
        if not dies:
            dist.barrier()
        return f"{type(error).__name__}: {error}"


def test_an_error_after_the_loss_of_a_peer_says_so() -> None:
    started = start(2, outcome_of_an_error, True)
    good, said = received(started[0][1])
    assert (good, said) == (True, "LostPeerError: another process of the run has exited")
    kill(started)


def test_an_error_is_no_loss_while_the_peers_are_there() -> None:
    """A rank's error keeps its own message, even if the peers don't answer."""
    assert in_processes(2, outcome_of_an_error, False) == [
        "RuntimeError: anything that torch may say",
        "waited",
    ]


def test_errors_of_other_kinds_and_of_a_single_process_pass() -> None:
    for error in (MemoryError(), RuntimeError("CUDA out of memory"), LostPeerError()):
        with pytest.raises(type(error)) as caught, lost_peers_reported(SINGLE_PROCESS):
            raise error
        assert caught.value is error


def test_alone_there_is_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with process_group() as distributed:
        assert distributed == SINGLE_PROCESS
        assert not torch.distributed.is_initialized()
        assert all_gather(distributed, [1, 2]) == [1, 2]
        assert global_sum(distributed, torch.tensor(3.0)).item() == 3.0
        assert rank_zero_first(distributed, lambda: "made") == "made"
