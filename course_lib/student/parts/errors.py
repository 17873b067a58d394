"""What is wrong with a student's notebooks, in words for the student."""


class PartsError(ValueError):
    """Something in a notebook cannot be used. The message is one line: where, what, and what to do."""

    def _render_traceback_(self) -> list[str]:
        """Say to IPython what to print in place of a traceback."""
        return [f"✗ {self}"]


class AbsentError(PartsError):
    """The notebook is not there at all."""
