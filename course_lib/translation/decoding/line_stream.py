"""Lines from a file, a pipe or a keyboard, as many at a time as have come."""

import os
from collections.abc import Iterator

from course_lib.errors import BadInputError

#: The most bytes to take at once, some 900 captions: a file gives as many, a pipe what is in it, and a
#: keyboard a line. Batches of sentences of like length lose nothing by it: 6,000 captions took about 30
#: seconds with this and with sixteen times as much.
BYTES = 1 << 16


def arriving_lines(descriptor: int, origin: str) -> Iterator[list[str]]:
    """Read lines in UTF-8 to the end, in lists of those that have come together.

    Whoever reads waits for the first line only, never for a full list: so someone at a keyboard is answered
    line by line, and a slow reader of a fast pipe gets many lines at once. Only a line feed ends a line, and
    the spaces around it are left out. Raises BadInputError for bytes that aren't UTF-8, naming the line, once
    those before it have been taken.
    """
    number, rest = 1, b""
    while True:
        content = os.read(descriptor, BYTES)
        *whole, rest = (rest + content).split(b"\n")
        if not content and rest:
            whole, rest = [*whole, rest], b""
        lines: list[str] = []
        for line in whole:
            try:
                # Some editors mark the beginning of a file.
                lines.append(line.decode("utf-8-sig" if number == 1 else "utf-8").strip())
            except UnicodeDecodeError:
                if lines:
                    yield lines
                raise BadInputError(
                    f"{origin}, line {number}: expected text in UTF-8, came other bytes"
                ) from None
            number += 1
        if lines:
            yield lines
        if not content:
            return
