"""The names of files that were downloaded from Canvas or Moodle.

Both systems include the student in the name of each file or of its folder:

- Canvas: `NAME_USER_ATTACHMENT_FILE` or `NAME_LATE_USER_ATTACHMENT_FILE`, where NAME is the sortable name
  without spaces and punctuation, and USER is the ID in the gradebook (`content_zipper.rb`).
- Moodle: `NAME_PARTICIPANT_assignsubmission_file_FILE`, or a folder `NAME_PARTICIPANT_assignsubmission_file`,
  where NAME is the full name, and PARTICIPANT is a number that differs between assignments (`mod/assign`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_MOODLE = re.compile(r"(?P<name>[^_]+)_(?P<number>\d+)_assignsubmission_file(_(?P<file>.*))?", re.DOTALL)
# A third number is rejected, because students could otherwise choose a file name, or their own name, that
# makes the file seem to belong to another student.
_CANVAS = re.compile(
    r"(?P<name>((?!_\d+_).)+?)(?P<late>_LATE)?_(?P<number>\d+)_(?P<attachment>\d+)_(?P<file>(?!\d+_).+)",
    re.DOTALL,
)
#: The suffixes that Canvas, browsers and file managers append to the name of a file that already exists.
_COPY = r"(-\d+| ?\(\d+\)| copy| \d+)?"


@dataclass(frozen=True)
class DownloadedFile:
    """A downloaded file, and the information in its path about the student."""

    path: Path
    file: str
    """The name that the student gave the file."""
    name: str
    """The student's name, as Canvas or Moodle writes it."""
    number: str
    moodle: bool
    depth: int = 0
    """The number of folders around the part of the path that names the student."""
    prefix: str = ""
    """The part of the path that identifies the student, up to the name of the student's own file."""
    late: bool = False
    attachment: int = 0
    """Canvas's id of the upload; later uploads have higher ids. It is 0 for Moodle."""

    def is_copy_of(self, wanted: str) -> bool:
        """Return whether the file has the name `wanted`, ignoring a suffix such as `-1` or ` (1)`."""
        stem, ending = wanted.rsplit(".", 1)
        return bool(re.fullmatch(rf"{re.escape(stem)}{_COPY}\.{re.escape(ending)}", self.file))


def interpretations(path: Path, parts: Sequence[str]) -> Iterator[DownloadedFile]:
    """Yield the possible interpretations of a file's path, starting with the outermost folder.

    `parts` is the path in the archive. Only its first two parts can identify a student: the first may be the
    name of the downloaded archive, and the student chose the names below the second.
    """
    for depth, part in enumerate(parts[:2]):
        if match := _MOODLE.fullmatch(part) or _CANVAS.fullmatch(part):
            found = match.groupdict()
            yield DownloadedFile(
                path=path,
                file=found["file"] or "" if depth == len(parts) - 1 else parts[-1],
                name=found["name"],
                number=found["number"],
                moodle=match.re is _MOODLE,
                depth=depth,
                prefix=part.removesuffix(found["file"] or "").removesuffix("_") + "_",
                late=bool(found.get("late")),
                attachment=int(found.get("attachment") or 0),
            )
