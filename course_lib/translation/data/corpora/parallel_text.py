"""Read parallel sentences from files: plain, gzipped, or inside a published archive."""

import gzip
import html
import re
import tarfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import Direction

_SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.DOTALL)


@dataclass(frozen=True)
class ParallelText:
    """German and English sentences. Sentences at the same index are translations of each other."""

    german: list[str]
    english: list[str]

    def __len__(self) -> int:
        return len(self.german)

    def first(self, count: int | None) -> "ParallelText":
        """Return the first `count` pairs, or all pairs if `count` is None."""
        return ParallelText(self.german[:count], self.english[:count])

    def sides(self, direction: Direction) -> tuple[list[str], list[str]]:
        """Return the source sentences and the target sentences for a direction of translation."""
        return (self.german, self.english) if direction == "de-en" else (self.english, self.german)


@dataclass(frozen=True)
class Corpus:
    """The three splits of a parallel corpus."""

    train: ParallelText
    validation: ParallelText
    test: ParallelText


def concatenate(parts: Sequence[ParallelText]) -> ParallelText:
    """Concatenate parallel texts, in order."""
    return ParallelText(
        [sentence for part in parts for sentence in part.german],
        [sentence for part in parts for sentence in part.english],
    )


def parallel_text(german: list[str], english: list[str], origin: str) -> ParallelText:
    """Pair German and English sentences. Raises BadInputError if their numbers differ or are zero."""
    if len(german) != len(english) or not german:
        raise BadInputError(
            f"{origin}: expected as many English as German sentences, and at least one, got {len(german)} "
            f"German and {len(english)} English sentences"
        )
    return ParallelText(german, english)


def read_parallel_text(german: Path, english: Path) -> ParallelText:
    """Read two files with one sentence per line, plain or gzipped, in UTF-8.

    Raises BadInputError if a file is missing, damaged, empty or not UTF-8, or if the numbers of lines differ.
    """
    return parallel_text(_read_lines(german), _read_lines(english), f"{german} and {english.name}")


def _read_lines(path: Path) -> list[str]:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise BadInputError(f"{path}: this gzip file is damaged. Replace it with an intact copy.") from None
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror})") from None
    return _lines(content, str(path))


def _lines(content: bytes, origin: str) -> list[str]:
    """Decode the contents of a file, and return its lines without surrounding whitespace.

    Raises BadInputError, with `origin` and the line in its message, if the contents are not UTF-8.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadInputError(f"{origin}, line {line}: not valid UTF-8. Convert the file to UTF-8.") from None
    # Only a line feed ends a line. Other Unicode line separators may occur inside a sentence.
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.strip() for line in lines]


def read_members(archive: Path, names: Iterable[str]) -> dict[str, list[str]]:
    """Read text files inside a .tgz archive without unpacking it, and return the lines of each file by name.

    The archive is read once, only up to the last of these files. Raises BadInputError if it cannot be read,
    is damaged, or lacks one of the files, or if a file isn't UTF-8.
    """
    missing = set(names)
    found: dict[str, list[str]] = {}
    try:
        with tarfile.open(archive, "r|gz") as members:
            for member in members:
                name = member.name.removeprefix("./")
                if name in missing and (file := members.extractfile(member)) is not None:
                    found[name] = _lines(file.read(), f"{archive}, {name}")
                    missing.remove(name)
                if not missing:
                    return found
    except (tarfile.TarError, EOFError, zlib.error):
        raise BadInputError(f"{archive}: this .tgz archive is damaged. Download it again.") from None
    except OSError as error:
        raise BadInputError(f"{archive}: cannot be read as a .tgz archive ({error})") from None
    raise BadInputError(
        f"{archive}: this archive has no {', '.join(sorted(missing))}. Download the archive again."
    )


def segments(lines: Iterable[str]) -> list[str]:
    """Extract the sentences of a test set in SGML or XML: the text of each <seg> element.

    Whitespace is collapsed and entities are unescaped, as in sacrebleu, so scores stay comparable.
    """
    return [html.unescape(" ".join(text.split())) for text in _SEGMENT.findall("\n".join(lines))]
