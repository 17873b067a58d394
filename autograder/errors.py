"""What is wrong with the course's own source."""

from collections.abc import Iterable


class CourseError(ValueError):
    """The source of the course cannot be built, or may not be released.

    Each problem is one line that names the file, the cell and what to do.
    """

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))
