"""Detection of frozen processes, for which collectives would wait a long time.

If a process has exited, the collectives of the other processes fail at once. If it is frozen, or if its
machine can't be reached, they wait for half an hour. So each rank sends heartbeats to the next rank, from a
thread.
"""

import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NoReturn

import torch
import torch.distributed as dist

from course_lib.translation.distributed import DistributedInfo, all_gather

EXIT_LOST_PEER = 1
#: The time between two heartbeats.
_INTERVAL = timedelta(seconds=1)
#: The maximum number of sent heartbeats to keep in memory. Their memory must not be freed before they arrive.
_IN_FLIGHT = 10_000


@contextmanager
def watched_peers(distributed: DistributedInfo, seconds: int) -> Iterator[None]:
    """Within the block, end this process with a message if the previous rank is silent for `seconds` seconds.

    The main thread can't be interrupted while it waits in a collective, so the process ends without saving.
    Must be called on every rank.
    """
    if distributed.world_size == 1:
        yield
        return
    watch = _PeerWatch(distributed, seconds)
    watch.receiver.start()
    watch.sender.start()
    yield
    # Send a last heartbeat, and wait until the neighbours have stopped too. This is skipped after an
    # exception, because the other ranks may not get here.
    watch.stopped.set()
    watch.sender.join()


class _PeerWatch:
    """Two threads: one receives the previous rank's heartbeats, and the other sends them to the next rank.

    The sender ends the process if the previous rank has been silent for more than `seconds` seconds.
    """

    def __init__(self, distributed: DistributedInfo, seconds: int) -> None:
        rank, world_size = distributed.rank, distributed.world_size
        self._rank, self._previous, self._next = rank, (rank - 1) % world_size, (rank + 1) % world_size
        self._names = all_gather(distributed, [f"{socket.gethostname()}, process id {os.getpid()}"])
        # By default, gloo would give up after half an hour.
        self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=2 * seconds) + 10 * _INTERVAL)
        self._limit = seconds
        self._silent = 0.0
        self.stopped = threading.Event()
        self.receiver = threading.Thread(target=self._receive, name="heartbeats received", daemon=True)
        self.sender = threading.Thread(target=self._send, name="heartbeats sent", daemon=True)

    def _receive(self) -> None:
        beat = torch.ones(1)
        try:
            while beat:  # The last heartbeat is 0.
                dist.recv(beat, self._previous, self._group)
                self._silent = 0.0
        except RuntimeError:
            return  # The previous process has exited. Its torchrun reports that and ends the others.

    def _send(self) -> None:
        sent = deque[dist.Work | None](maxlen=_IN_FLIGHT)
        seconds, sent_last = _INTERVAL.total_seconds(), False
        try:
            while self.receiver.is_alive() or not sent_last:
                if not sent_last:
                    sent_last = self.stopped.is_set()
                    beat = torch.tensor([0.0 if sent_last else 1.0])
                    sent.append(dist.isend(beat, self._next, self._group))
                if sent_last:
                    self.receiver.join(seconds)
                else:
                    self.stopped.wait(seconds)
                # Count intervals rather than read a clock, which continues while all processes are suspended.
                self._silent += seconds
                if self._silent > self._limit and self.receiver.is_alive():
                    self._end()
            for work in sent:
                if work is not None:
                    work.wait(timeout=_INTERVAL * 10)
        except RuntimeError:
            return  # The next process has exited.

    def _end(self) -> NoReturn:
        print(
            f"\ntrain, process {self._rank}: process {self._previous} ({self._names[self._previous]}) has "
            f"not answered for {self._limit} seconds: it is frozen, or its machine can't be reached. The "
            "run ends. Check that machine, then run the same command again to resume from the latest "
            "checkpoint.",
            file=sys.stderr,
            flush=True,
        )
        os._exit(EXIT_LOST_PEER)
