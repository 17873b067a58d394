"""How a run is told to stop: SIGTERM and SIGUSR1 from a cluster, SIGINT from the keyboard.

A signal comes at any moment, and most moments are bad ones: halfway through an update, one process has given
its gradients and another has not. So the handler only makes a note. The run looks for it where all processes
are at the same place, saves, and ends with an exit code that says it is to be started again.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

#: Exit code of a run that was told to stop and is to be started again: EX_TEMPFAIL of sysexits.h.
START_AGAIN = 75
#: Exit code of a run that was stopped from the keyboard, as shells have it.
FROM_KEYBOARD = 130

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGUSR1", "SIGINT") if hasattr(signal, name))
#: A cluster may signal every process, and torchrun hands the same signal on: that is one request.
_SAME_REQUEST_SECONDS = 5.0


class Interrupted(KeyboardInterrupt):
    """The run ends because it was told to; `exit_code` says by whom."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = FROM_KEYBOARD if number == signal.SIGINT else START_AGAIN


class Interruption:
    """Listens for signals while it is entered; only a process's main thread can.

    At first a signal ends the run at once, by `Interrupted`: there is nothing to lose. In `deferred()` it is
    only noted, for `asked` to tell. A second signal ends the process at once, whatever it is at.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._came = 0.0
        self._deferred = False
        # Started by hand, nothing hands on signals: there every one counts.
        self._same_request = _SAME_REQUEST_SECONDS if "WORLD_SIZE" in os.environ else 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def asked(self) -> int:
        """The signal that came, or 0."""
        return self._number or 0

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only note signals in here: whoever is in here looks at `asked`."""
        before, self._deferred = self._deferred, True
        try:
            yield
        finally:
            self._deferred = before

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside `deferred()`, end at once again: all that counts is saved."""
        before, self._deferred = self._deferred, False
        try:
            if self._number is not None:
                raise Interrupted(self._number)
            yield
        finally:
            self._deferred = before

    def expect(self, seconds: float) -> None:
        """Wait so long for a signal; raise Interrupted where one comes, or has come already."""
        with self.deferred():
            end = time.monotonic() + seconds
            while self._number is None and time.monotonic() < end:
                time.sleep(0.05)
        if self._number is not None:
            raise Interrupted(self._number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._number is None:
            self._number, self._came = number, now
            if not self._deferred:
                raise Interrupted(number)
        elif now - self._came >= self._same_request:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
