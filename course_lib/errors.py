"""What the lab says to a user whose config, data or run folder cannot be used."""


class BadInputError(ValueError):
    """Something the user gave cannot be used; one line says what was expected, what came and what to do.

    The commands print it without a traceback and end with exit code 2.
    """
