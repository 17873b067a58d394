"""Errors caused by the user's input."""


class BadInputError(ValueError):
    """Input from the user cannot be used. The message is one line: what is wrong, the value, what to do.

    The commands print it without a traceback and exit with code 2.
    """
