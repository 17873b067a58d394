"""Stopping a run: SIGTERM and SIGUSR1 from a cluster, SIGINT from the keyboard.

A signal may arrive in the middle of an update, when one rank has sent its gradients and another has not. So
during training, the handler only records the signal. The run checks for it when all ranks have finished the
same update, saves a checkpoint, and exits with a code that indicates whether to restart the run.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from course_lib.errors import ExitCode

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGUSR1", "SIGINT") if hasattr(signal, name))
#: Signals within this time count as one request, because a cluster may signal every process itself, while
#: torchrun forwards the signal as well.
_SAME_REQUEST_SECONDS = 5.0


class Interrupted(KeyboardInterrupt):
    """A request to stop the run, made by the signal `number`, which determines `exit_code`."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = ExitCode.KEYBOARD if number == signal.SIGINT else ExitCode.RESTART


class Interruption:
    """A context manager that handles the signals that request a stop. It must be used on the main thread.

    By default, a signal immediately raises `Interrupted`. Inside a `deferred()` block, it is only recorded in
    `requested`. A second signal ends the process immediately; under torchrun, signals within five seconds of
    the first one are ignored.
    """

    def __init__(self) -> None:
        self.requested = 0
        """The number of the first signal that was received, or 0 if there was none."""
        self._received = 0.0
        self._deferred = False
        # Without torchrun, nothing forwards signals, so each signal counts as a request.
        self._same_request = _SAME_REQUEST_SECONDS if "WORLD_SIZE" in os.environ else 0.0
        self._previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        for number in _SIGNALS:
            self._previous_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer signals within the block: only record them, so that the caller can poll `requested`."""
        before, self._deferred = self._deferred, True
        try:
            yield
        finally:
            self._deferred = before

    @contextmanager
    def immediate(self) -> Iterator[None]:
        """Within the block, raise `Interrupted` as soon as a signal arrives, even if signals were deferred.

        `Interrupted` is also raised if a signal has already arrived. Use this where all progress has been
        saved.
        """
        before, self._deferred = self._deferred, False
        try:
            self._raise_if_requested()
            yield
        finally:
            self._deferred = before

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` seconds. Raise Interrupted if a signal arrives or has already arrived."""
        with self.deferred():
            end = time.monotonic() + seconds
            while not self.requested and time.monotonic() < end:
                time.sleep(0.05)
        self._raise_if_requested()

    def _raise_if_requested(self) -> None:
        if self.requested:
            raise Interrupted(self.requested)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.requested:
            self.requested, self._received = number, now
            if not self._deferred:
                raise Interrupted(number)
        elif now - self._received >= self._same_request:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
