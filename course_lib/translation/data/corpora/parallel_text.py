"""Sentences in two languages, side by side, and the files that hold them."""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

from course_lib.errors import BadInputError


@dataclass(frozen=True)
class ParallelText:
    """German and English sentences; those at the same place are translations of each other."""

    german: list[str]
    english: list[str]

    def __len__(self) -> int:
        return len(self.german)


@dataclass(frozen=True)
class Corpus:
    """The three splits of a parallel corpus."""

    train: ParallelText
    validation: ParallelText
    test: ParallelText


def read_parallel_text(german: Path, english: Path) -> ParallelText:
    """Read two files of one sentence a line, plain or gzipped, in UTF-8.

    Raises BadInputError where a file is missing, damaged or empty, or the two have different numbers of
    lines.
    """
    text = ParallelText(_read_lines(german), _read_lines(english))
    if len(text.german) != len(text.english):
        raise BadInputError(
            f"{german} has {len(text.german)} lines and {english} has {len(text.english)}: expected as many, "
            "since line by line they are translations of each other"
        )
    if not text.german:
        raise BadInputError(f"{german}: expected one sentence a line, came an empty file")
    return text


def side_by_side(german: list[str], english: list[str], origin: str) -> ParallelText:
    """Pair sentences. Raises BadInputError, naming their origin, where they are not as many, or none."""
    if len(german) != len(english) or not german:
        raise BadInputError(
            f"{origin}: expected as many sentences in German as in English, came {len(german)} and "
            f"{len(english)}"
        )
    return ParallelText(german, english)


def _read_lines(path: Path) -> list[str]:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise BadInputError(f"{path}: expected a whole gzip file, came a damaged one; get it again") from None
    except OSError as error:
        raise BadInputError(
            f"{path}: expected a corpus file, but it cannot be read ({error.strerror})"
        ) from None
    return text_lines(content, str(path))


def text_lines(content: bytes, origin: str) -> list[str]:
    """Split a file's content into lines without the spaces around them.

    Raises BadInputError, naming the origin and the line, where it isn't text in UTF-8.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadInputError(f"{origin}, line {line}: expected text in UTF-8, came other bytes") from None
    # Only a line feed ends a line: other separators of Unicode may stand inside a sentence.
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.strip() for line in lines]
