"""Data-parallel processes: the process group, collectives, and the detection of lost peers.

`torchrun` starts the processes and numbers them: `rank` is the index of a process, counted from 0, and
`world_size` is the number of processes. Without torchrun, a run is one process with rank 0, and every
function here still works.
"""

import contextlib
import errno
import io
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.errors import BadInputError

Item = TypeVar("Item")
Value = TypeVar("Value")

#: How long the processes of a run wait for each other when they start.
_RENDEZVOUS_TIMEOUT = timedelta(minutes=5)
#: How long ranks wait for rank 0 to prepare the data, which may include downloading and tokenising a corpus.
_PREPARATION_TIMEOUT = timedelta(days=1)
#: The timeout of a collective over gloo, which is gloo's default.
_COLLECTIVE_TIMEOUT = timedelta(minutes=30)
#: How long a rank waits for its peers to answer when it checks that they are still running.
_PROBE_TIMEOUT = timedelta(seconds=3)


class RankZeroError(BadInputError):
    """A BadInputError of rank 0, raised on the other ranks. Only rank 0 reports it to the user."""


class RendezvousFailedError(BadInputError):
    """The error raised if the processes of a run can't connect to each other."""


class LostPeerError(RuntimeError):
    """The error raised if another process of the run has exited or doesn't answer."""


@dataclass(frozen=True)
class DistributedInfo:
    """The rank of a process and the world size of its run."""

    rank: int
    world_size: int
    local_rank: int
    """The rank on this machine, which is also the number of the GPU to use."""
    local_world_size: int
    control_group: "dist.ProcessGroup | None" = field(default=None, compare=False, repr=False)
    """A second process group over gloo, with a long timeout; None without torchrun."""

    @property
    def is_rank_zero(self) -> bool:
        """Whether this is rank 0, which writes the files and reports to the user."""
        return self.rank == 0

    @property
    def has_process_group(self) -> bool:
        """Whether torchrun started this process, perhaps as the only one.

        Gradients are reduced even in a group of one process, so that a machine with one GPU can test NCCL.
        """
        return self.control_group is not None


SINGLE_PROCESS = DistributedInfo(rank=0, world_size=1, local_rank=0, local_world_size=1)


@contextlib.contextmanager
def process_group() -> Iterator[DistributedInfo]:
    """Initialise the process group of the processes that torchrun started, and destroy it after the block.

    The backend is gloo on CPUs and NCCL on GPUs. If an exception leaves the block, the group is not
    destroyed: with NCCL, that would wait for the other ranks, which may be waiting for this one. Raises
    BadInputError if torchrun's environment variables are incomplete, RendezvousFailedError if the processes
    can't connect, and LostPeerError in place of a RuntimeError in the block if another process has exited.
    """
    if "WORLD_SIZE" not in os.environ:
        yield SINGLE_PROCESS
        return
    distributed = _join()
    with lost_peers_reported(distributed):
        yield distributed
    dist.destroy_process_group()


def _join() -> DistributedInfo:
    # Imported here because a PyTorch built without distributed support can still train in a single process.
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    if missing := [name for name in names if not os.environ.get(name)]:
        raise BadInputError(
            f"The environment variables that torchrun sets are incomplete: {', '.join(missing)} missing. "
            "Start the command with torchrun, or unset WORLD_SIZE to run a single process."
        )
    for name in names:
        value, maximum = os.environ[name], 65_535 if name == "MASTER_PORT" else 2**31
        if name != "MASTER_ADDR" and not (value.isdecimal() and int(value) <= maximum):
            raise BadInputError(
                f"The environment variable {name}: expected a whole number up to {maximum}, got {value}. "
                "Start the command with torchrun, or unset WORLD_SIZE to run a single process."
            )
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    started = time.monotonic()
    try:
        # The store is created separately so that this timeout applies to the rendezvous alone and not to
        # later collectives.
        store, rank, world_size = next(rendezvous("env://", timeout=_RENDEZVOUS_TIMEOUT))
        if os.environ.get("GROUP_WORLD_SIZE") == "1":
            # torchrun keeps its store when it restarts the processes. The prefix hides the addresses of the
            # dead processes. (With several nodes, each node counts its own restarts; `launch` solves that.)
            store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
            store=store,
            rank=rank,
            world_size=world_size,
        )
        control_group = dist.new_group(backend="gloo", timeout=_PREPARATION_TIMEOUT)
    except (RuntimeError, ValueError) as error:
        seconds = _RENDEZVOUS_TIMEOUT.total_seconds()
        reason = next(iter(str(error).splitlines()), "")
        if "gloo" in reason.lower():  # The processes have found each other, but can't connect.
            reason += (
                ". If the name of a node resolves to an address that begins with 127 (getent hosts "
                "$(hostname)), set GLOO_SOCKET_IFNAME to the network interface between the nodes."
            )
        elif time.monotonic() - started >= 0.9 * seconds:
            reason = (
                f"some processes didn't connect within {seconds:.0f} seconds. Check that every node has been "
                "started and can reach that address."
            )
        elif os.environ["RANK"] == "0" and is_port_in_use(port):
            reason = "the port is in use. Choose another one, or start with torchrun --standalone."
        raise RendezvousFailedError(
            f"The rendezvous of the processes at {host}:{port} failed: {reason}"
        ) from None
    return DistributedInfo(
        rank, world_size, int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]), control_group
    )


def is_port_in_use(port: int) -> bool:
    """Return whether a program on this machine listens on a port."""
    with socket.socket() as probe:
        # Ignore connections of an earlier run that are still closing.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


@contextlib.contextmanager
def lost_peers_reported(distributed: DistributedInfo) -> Iterator[None]:
    """Raise LostPeerError in place of a RuntimeError in the block if another process has exited.

    gloo, NCCL and DDP raise a RuntimeError for many causes. To distinguish them without parsing messages,
    attempt an all-reduce: it fails immediately if a peer has exited, and times out if the peers are busy.
    """
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, LostPeerError) or distributed.control_group is None:
            raise
        started = time.monotonic()
        try:
            work = dist.all_reduce(torch.zeros(1), group=distributed.control_group, async_op=True)
            assert work is not None, "this process is in the group"
            work.wait(timeout=_PROBE_TIMEOUT)
        except RuntimeError:
            if time.monotonic() - started < 0.9 * _PROBE_TIMEOUT.total_seconds():
                raise LostPeerError("another process of the run has exited") from error
        raise


@contextlib.contextmanager
def timeouts_reported() -> Iterator[None]:
    """Raise LostPeerError in place of a RuntimeError if the block took about half an hour or longer.

    A collective waits that long for a lost peer, and other errors occur much sooner.
    """
    started, limit = time.monotonic(), _COLLECTIVE_TIMEOUT.total_seconds()
    try:
        yield
    except RuntimeError as error:
        if time.monotonic() - started < 0.9 * limit:
            raise
        raise LostPeerError(f"another process has not answered for {limit / 60:.0f} minutes") from error


def rank_zero_first(distributed: DistributedInfo, function: Callable[[], Value]) -> Value:
    """Call `function` on rank 0, then on all other ranks, which can use the files that rank 0 has prepared.

    Return this rank's own result. A BadInputError on rank 0 is raised on all ranks, on the others as a
    RankZeroError. An OSError on rank 0 is treated as a BadInputError. Must be called on every rank.
    """
    if distributed.world_size == 1:
        return function()
    if distributed.is_rank_zero:
        try:
            try:
                value = function()
            except OSError as error:
                raise BadInputError.of(error) from error
        except BadInputError as error:
            dist.broadcast_object_list([str(error)], group=distributed.control_group)
            raise
        dist.broadcast_object_list([None], group=distributed.control_group)
        return value
    refusal: list[str | None] = [None]
    dist.broadcast_object_list(refusal, group=distributed.control_group)
    if refusal[0] is not None:
        raise RankZeroError(refusal[0])
    return function()


def broadcast_from_rank_zero(distributed: DistributedInfo, function: Callable[[], Value]) -> Value:
    """Call `function` on rank 0 and return its result on all ranks.

    The result may contain tensors on the CPU, which are sent one by one, so that a checkpoint is never in
    memory twice. Errors are treated as in `rank_zero_first`. Must be called on every rank.
    """
    result = rank_zero_first(distributed, lambda: function() if distributed.is_rank_zero else None)
    if distributed.world_size == 1:
        return result  # type: ignore[return-value]
    tensors: list[Tensor] = []
    if distributed.is_rank_zero:
        pickled = io.BytesIO()
        _TensorPickler(pickled, tensors).dump(result)
        dist.broadcast_object_list([pickled.getvalue()])
    else:
        message: list[bytes] = [b""]
        dist.broadcast_object_list(message)
        result = _TensorUnpickler(io.BytesIO(message[0]), tensors).load()
    for tensor in tensors:
        # Send the tensor as bytes, because gloo doesn't support every dtype.
        dist.broadcast(tensor.contiguous().flatten().view(torch.uint8), 0)
    return result  # type: ignore[return-value]


def memory_of(tensor: Tensor) -> tuple[object, ...]:
    """Return a key that is equal for tensors that occupy the same memory, such as tied weights."""
    return tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


class _TensorPickler(pickle.Pickler):
    """A pickler that writes only the shapes and dtypes of tensors, and collects the tensors in a list.

    Tensors that share their memory are collected once.
    """

    def __init__(self, file: io.BytesIO, tensors: list[Tensor]) -> None:
        super().__init__(file)
        self._tensors = tensors
        self._positions: dict[tuple[object, ...], int] = {}

    def persistent_id(self, obj: object) -> tuple[int, torch.Size, torch.dtype] | None:
        if not isinstance(obj, Tensor):
            return None
        position = self._positions.setdefault(memory_of(obj), len(self._tensors))
        if position == len(self._tensors):
            self._tensors.append(obj)
        return position, obj.shape, obj.dtype


class _TensorUnpickler(pickle.Unpickler):
    """An unpickler that allocates the tensors to be received, and collects them in a list."""

    def __init__(self, file: io.BytesIO, tensors: list[Tensor]) -> None:
        super().__init__(file)
        self._tensors = tensors

    def persistent_load(self, pid: tuple[int, torch.Size, torch.dtype]) -> Tensor:
        position, shape, dtype = pid
        if position == len(self._tensors):
            self._tensors.append(torch.empty(shape, dtype=dtype))
        return self._tensors[position]


def raise_on_all_ranks(distributed: DistributedInfo, message: str) -> NoReturn:
    """Raise an error that every rank has detected: BadInputError on rank 0, RankZeroError on the others."""
    raise BadInputError(message) if distributed.is_rank_zero else RankZeroError(message)


def require_equal(distributed: DistributedInfo, facts: Mapping[str, str]) -> None:
    """Raise BadInputError on all ranks if `facts` are not the same on every rank.

    `facts` maps the names of settings or files to this rank's values. Must be called on every rank.
    """
    on_rank_zero, *elsewhere = all_gather(distributed, [dict(facts)])
    differences = [
        f"process {rank} has {name} {theirs.get(name)}, process 0 has {value}"
        for rank, theirs in enumerate(elsewhere, start=1)
        for name, value in on_rank_zero.items()
        if theirs.get(name) != value
    ]
    if differences:
        more = f", and {len(differences) - 3} more" if len(differences) > 3 else ""
        raise_on_all_ranks(
            distributed,
            f"All processes need the same config and data, but {'; '.join(differences[:3])}{more}. Give "
            "every node the same files and the same command.",
        )


def all_gather(distributed: DistributedInfo, items: list[Item]) -> list[Item]:
    """Return the items of all ranks, in the order of the ranks. Must be called on every rank."""
    if distributed.world_size == 1:
        return items
    parts: list[list[Item]] = [[] for _ in range(distributed.world_size)]
    dist.all_gather_object(parts, items)
    return [item for part in parts for item in part]


def global_sum(distributed: DistributedInfo, values: Tensor) -> Tensor:
    """Return the sum of a tensor over all ranks, as a new tensor. Must be called on every rank."""
    total = values.detach().clone()
    if distributed.has_process_group:
        dist.all_reduce(total)
    return total


def global_max(distributed: DistributedInfo, number: int) -> int:
    """Return the maximum of a number over all ranks. Must be called on every rank."""
    if distributed.world_size == 1:
        return number
    # The tensor is on the CPU, so that the call doesn't wait for pending work on a GPU.
    value = torch.tensor(number)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return int(value)


def wait_for_peers(distributed: DistributedInfo) -> None:
    """Wait up to ten seconds for the other ranks before exiting with an error.

    torchrun ends all processes as soon as one has failed. Waiting lets rank 0 report the error before that.
    """
    if distributed.world_size > 1:
        with contextlib.suppress(RuntimeError):
            # Use the control group: in the default group, this all-reduce could match a collective for which
            # other ranks already wait. Use a CPU tensor, because a barrier would use NCCL if there are GPUs.
            work = dist.all_reduce(torch.zeros(1), group=distributed.control_group, async_op=True)
            assert work is not None, "this process is in the group"
            work.wait(timeout=timedelta(seconds=10))


def end_process(exit_code: int) -> NoReturn:
    """End this process with the given exit code.

    A process that torchrun started skips Python's shutdown, because DDP keeps gloo's threads alive after the
    group has been destroyed. If one of them releases a tensor during the shutdown, the process aborts (seen
    with torch 2.13 on a busy machine), and a finished run counts as failed.
    """
    if "WORLD_SIZE" not in os.environ:
        sys.exit(exit_code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # The reader of the pipe may have exited.
            stream.flush()
    os._exit(exit_code)
