"""Errors caused by the user's input, and the exit codes of commands."""

EXIT_BAD_INPUT = 2
#: The command was interrupted from the keyboard, as in shells.
EXIT_KEYBOARD = 130


class BadInputError(ValueError):
    """The error raised for invalid user input. The message is one line: the problem, the value, what to do.

    The commands print the message without a traceback and exit with code 2.
    """
