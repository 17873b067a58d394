"""Detection of frozen and lost processes, which would make collectives wait for a long time.

If a process has exited, gloo's collectives fail immediately in the others, but NCCL's may wait. If a
process is frozen, or if its machine can't be reached, all collectives wait for half an hour. So each rank
sends heartbeats to the next rank, from a thread.
"""

import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import NoReturn

import torch
import torch.distributed as dist

from course_lib.errors import ExitCode
from course_lib.translation.distributed import DistributedInfo, all_gather

#: The time between two heartbeats.
_INTERVAL = timedelta(seconds=1)
#: How long a rank may continue after another rank has exited. Over gloo, it fails by itself before that.
_SECONDS_TO_FAIL = 10.0
#: The maximum number of sent heartbeats to keep in memory. Their memory must not be freed before they arrive.
_IN_FLIGHT = 10_000


@contextmanager
def watched_peers(distributed: DistributedInfo, seconds: int) -> Iterator[set[object]]:
    """Within the block, end this process with a message if the previous rank is silent for `seconds` seconds.

    Also end it ten seconds after another rank has exited within its block. The main thread can't be
    interrupted while it waits in a collective, so the process ends without saving. While the yielded set is
    not empty, for example because a file is being written, this function doesn't end the process, but NCCL's
    own watchdog may still end it with SIGABRT. Must be called on every rank.

    On a GPU, a rank may stop sending heartbeats because it waits for another one: the queue of kernels gets
    full, and the next launch of a compiled kernel then blocks all of Python (PyTorch's issue 109074). If that
    happens on all ranks, only the timeouts of the collectives end the run.
    """
    unfinished: set[object] = set()
    if distributed.world_size == 1:
        yield unfinished
        return
    names = all_gather(distributed, [f"{socket.gethostname()}, process id {os.getpid()}"])
    # Use a long timeout: a `recv` that timed out, for example after all processes were suspended, would look
    # like a lost rank.
    group = dist.new_group(backend="gloo", timeout=timedelta(days=1))
    watch = _PeerWatch(distributed.rank, names, group, seconds, unfinished)
    watch.receiver.start()
    watch.sender.start()
    try:
        yield unfinished
    finally:
        watch.left.set()
    # Send a last heartbeat, and wait until the neighbours have stopped too. This is skipped after an
    # exception, because the other ranks may not get here.
    watch.stopped.set()
    watch.sender.join()


class _PeerWatch:
    """Two threads: one receives the previous rank's heartbeats, and the other sends them to the next rank.

    The sender ends the process if the previous rank has been silent for more than `seconds` seconds. If a
    rank has exited, a third thread ends the process ten seconds later, unless the main thread has `left` the
    block by then, or files are unfinished.
    """

    def __init__(
        self,
        rank: int,
        names: Sequence[str],
        group: dist.ProcessGroup,
        seconds: int,
        unfinished: Collection[object],
    ) -> None:
        self._rank, self._previous, self._next = rank, (rank - 1) % len(names), (rank + 1) % len(names)
        self._names = names
        self._group = group
        self._limit = seconds
        self._unfinished = unfinished
        self._silent = 0.0
        #: The next heartbeat: 1, or -1 - r after the loss of rank r. The last heartbeat is 0.
        self._beat = 1.0
        self.left = threading.Event()
        self.stopped = threading.Event()
        self.receiver = threading.Thread(target=self._receive, name="heartbeats received", daemon=True)
        self.sender = threading.Thread(target=self._send, name="heartbeats sent", daemon=True)

    def _receive(self) -> None:
        beat = torch.ones(1)
        try:
            while beat:
                dist.recv(beat, self._previous, self._group)
                self._silent = 0.0
                if beat < 0:
                    self._lose(-1 - int(beat))
        except RuntimeError:
            self._lose(self._previous)

    def _lose(self, rank: int) -> None:
        """Notify the next rank that a rank has exited, and end this process if it doesn't end by itself."""
        if self._beat == 1:
            self._beat = -1.0 - rank
            threading.Thread(target=self._end_if_stuck, args=[rank], name="lost peer", daemon=True).start()

    def _end_if_stuck(self, rank: int) -> None:
        while not self.left.wait(_SECONDS_TO_FAIL):
            if not self._unfinished:
                self._end(rank, "has exited or can no longer be reached. The run ends. Run")

    def _send(self) -> None:
        sent = deque[dist.Work | None](maxlen=_IN_FLIGHT)
        seconds, sent_last = _INTERVAL.total_seconds(), False
        try:
            while self.receiver.is_alive() or not sent_last:
                if not sent_last:
                    sent_last = self.stopped.is_set()
                    beat = torch.tensor([0.0 if sent_last else self._beat])
                    sent.append(dist.isend(beat, self._next, self._group))
                if sent_last:
                    self.receiver.join(seconds)
                else:
                    self.stopped.wait(seconds)
                # Count intervals rather than read a clock, which continues while all processes are suspended.
                self._silent += seconds
                if self._silent > self._limit and self.receiver.is_alive() and not self._unfinished:
                    self._end(
                        self._previous,
                        f"has not answered for {self._limit} seconds: it is frozen, its machine can't be "
                        "reached, or it waits for such a process. The run ends. Check its machine, then run",
                    )
            for work in sent:
                if work is not None:
                    work.wait(timeout=_INTERVAL * 10)
        except RuntimeError:
            return  # The next process has exited.

    def _end(self, rank: int, problem: str) -> NoReturn:
        print(
            f"\ntrain, process {self._rank}: process {rank} ({self._names[rank]}) {problem} the same command "
            "again to resume from the latest checkpoint.",
            file=sys.stderr,
            flush=True,
        )
        os._exit(ExitCode.FAILED)
