"""Read lines from a file, a pipe or a keyboard as soon as they arrive."""

import os
from collections.abc import Iterator

from course_lib.errors import BadInputError

#: The maximum number of bytes per read, about 900 captions. Larger reads don't make translation faster.
BYTES = 1 << 16


def arriving_lines(descriptor: int, origin: str) -> Iterator[list[str]]:
    """Read UTF-8 lines until the end of the input. Yield lists of the lines that are available together.

    Each list contains at least one line, and the reader never waits for more: a user at a keyboard gets an
    answer after each line, and a slow caller gets many lines of a fast pipe at once. Only a line feed ends a
    line, and surrounding whitespace is removed. Raises BadInputError with the line number if a line isn't
    valid UTF-8, after yielding the lines before it.
    """
    number, rest = 1, b""
    while True:
        content = os.read(descriptor, BYTES)
        *complete, rest = (rest + content).split(b"\n")
        if not content and rest:
            complete, rest = [*complete, rest], b""
        lines: list[str] = []
        for line in complete:
            try:
                # Some editors begin a file with a byte order mark.
                lines.append(line.decode("utf-8-sig" if number == 1 else "utf-8").strip())
            except UnicodeDecodeError:
                if lines:
                    yield lines
                raise BadInputError(f"{origin}, line {number}: this is not UTF-8 text.") from None
            number += 1
        if lines:
            yield lines
        if not content:
            return
