"""Members of published archives, read without unpacking anything to the disk."""

import html
import re
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from course_lib.errors import BadInputError
from course_lib.translation.data.corpora.parallel_text import text_lines

SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.DOTALL)


def read_members(archive: Path, names: Iterable[str]) -> dict[str, list[str]]:
    """Read text files inside a .tgz: the lines of each, by its name.

    The archive is read once from front to back, and no further than the last of them. Raises BadInputError
    where it is damaged or has no such file.
    """
    missing, found = set(names), {}
    try:
        with tarfile.open(archive, "r|gz") as members:
            for member in members:
                name = member.name.removeprefix("./")
                if name in missing and (file := members.extractfile(member)) is not None:
                    found[name] = text_lines(file.read(), f"{archive}, {name}")
                    missing.remove(name)
                if not missing:
                    return found
    except (tarfile.TarError, EOFError, zlib.error):
        raise BadInputError(
            f"{archive}: expected a whole .tgz archive, came a damaged one; get it again"
        ) from None
    except OSError as error:
        raise BadInputError(f"{archive}: expected a .tgz archive, but it cannot be read ({error})") from None
    raise BadInputError(
        f"{archive}: expected {', '.join(sorted(missing))} inside it, but there is no such file"
    )


def segments(lines: Iterable[str]) -> list[str]:
    """Take the sentences out of a test set's SGML or XML: what stands between <seg id="..."> and </seg>.

    Spaces are made single, as sacrebleu does, and &quot; becomes a quotation mark; sacrebleu's 13a tokenizer
    takes the one for the other, so the score of a set stays comparable.
    """
    return [html.unescape(" ".join(text.split())) for text in SEGMENT.findall("\n".join(lines))]
