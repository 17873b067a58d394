"""Errors caused by the user's input, and the exit codes of commands."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of commands, except for 0, which means success."""

    FAILED = 1
    """Part of the work failed, or another process of a run has exited or is frozen."""
    BAD_INPUT = 2
    """The user's input is invalid."""
    RENDEZVOUS_FAILED = 69
    """The processes of a run could not connect to each other (EX_UNAVAILABLE in sysexits.h)."""
    RESTART = 75
    """A signal stopped the run, which should be restarted (EX_TEMPFAIL in sysexits.h)."""
    KEYBOARD = 130
    """The command was interrupted from the keyboard. Shells use the same code."""


class BadInputError(ValueError):
    """The error raised for invalid user input. The message is one line: the problem, the value, what to do.

    The commands print the message without a traceback and exit with `ExitCode.BAD_INPUT`.
    """

    @classmethod
    def of(cls, error: OSError) -> "BadInputError":
        """Convert an error of the operating system, such as that for a file that can't be read."""
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        return cls(": ".join([*names, error.strerror or str(error)]))
