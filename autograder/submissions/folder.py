"""The folder of a submission, inspected before anything in it is opened or copied.

Links are never followed, and only regular files are read.
"""

import fnmatch
import glob
import hashlib
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import find_all_files, parse_utc

from autograder.submissions.reading import UnreadableError, shown
from autograder.submissions.regular_file import read_file

#: The maximum size of nbgrader's `timestamp.txt` in bytes. It has a single line.
_MAX_TIMESTAMP = 1_000

#: The beginning of a time that has only one interpretation, as in nbgrader's own files.
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")

#: The maximum nesting depth of folders. It is far below the depth at which Python fails to walk a tree.
_MAX_DEPTH = 50

#: The maximum number of files that are rejected individually. If there are more, no file is copied.
_MAX_REFUSED = 100


@dataclass
class Submission:
    """The folder that one student handed in for one lesson."""

    student: str
    lesson: str
    folder: str
    """The path of the folder, as nbgrader formats it."""
    notebooks: tuple[str, ...]
    """The names of the lesson's notebooks, without `.ipynb`."""
    refused: set[str] = field(default_factory=set)
    """Paths of files and folders that must not be copied."""
    all_refused: bool = False
    """Whether all files in the folder are refused, including those that are not in `refused`."""
    notes: list[str] = field(default_factory=list)
    """Problems with the folder that look accidental."""
    tampering: list[str] = field(default_factory=list)
    """Problems with the folder that look intentional."""

    def path(self, notebook: str) -> str:
        """Return the path where a notebook of this name is expected."""
        return os.path.join(self.folder, f"{notebook}.ipynb")

    def find(self, notebook: str) -> str:
        """Return the path of the notebook with this name, relative to the folder, or of the only candidate.

        If the lesson has a single notebook, the candidates are files with that name in subfolders or, if
        there are none, all notebooks in the folder and its subfolders. Raises UnreadableError if the
        submission is a link or not a folder, or if there is no notebook or more than one candidate.
        """
        folder = Path(self.folder)
        if _is_link(self.folder):
            raise UnreadableError(f"{shown(folder.name)} is a symbolic link, and links are not followed")
        if not folder.is_dir():
            raise UnreadableError(f"{shown(folder.name)} is not a folder")
        expected = f"{notebook}.ipynb"
        if os.path.lexists(self.path(notebook)):
            return expected
        paths = [path for path in _notebooks_in(folder) if stat.S_ISREG(path.lstat().st_mode)]
        found = [str(path.relative_to(folder)) for path in paths]
        same_name = [path for path in found if os.path.basename(path) == expected]
        if len(same_name or found) == 1 and len(self.notebooks) == 1:
            return (same_name or found)[0]
        if found:
            names = ", ".join(map(shown, found[:5]))
            raise UnreadableError(f"there is no {expected}; notebooks found instead: {names}")
        raise UnreadableError(f"there is no notebook in it; expected {expected}")

    def digest(self) -> str:
        """Return a hash of the paths and contents of all files in the folder and its subfolders.

        This includes `timestamp.txt`. Hidden folders and the files in `refused` are skipped. If the folder is
        a link, the result is an empty string. Raises UnreadableError if a file can't be read.
        """
        digest = hashlib.sha256()
        if _is_link(self.folder):
            return ""
        for where, folders, files in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                path = os.path.join(where, name)
                if path not in self.refused:
                    inside = os.path.relpath(path, self.folder)
                    content = hashlib.sha256(read_file(Path(self.folder), inside)).hexdigest()
                    digest.update(f"{inside}\0{content}\0".encode(errors="surrogateescape"))
        return digest.hexdigest()

    def inspect(self, lesson_files: Iterable[str], max_bytes: int) -> None:
        """Find the problems with the folder, and record them and the files that must not be copied.

        `lesson_files` are the instructor's files of the lesson, by their paths inside its folder. Files with
        more than `max_bytes` bytes are not copied. Raises UnreadableError if the student's name is not valid
        UTF-8, if folders are nested too deeply, or if the timestamp is invalid.
        """
        self.refused, self.notes, self.tampering, self.all_refused = set(), [], [], False
        try:
            self.student.encode()
        except UnicodeEncodeError:  # Linux accepts any bytes in a file's name
            raise UnreadableError(
                "the name of the student's folder is not valid UTF-8; rename the folder"
            ) from None
        if _is_link(self.folder) or not os.path.isdir(self.folder):
            self.all_refused = True
            return
        refuse_too_deep(self.folder)
        refuse_bad_timestamp(Path(self.folder))
        for where, folders, files in os.walk(self.folder):
            for name in sorted(folders + files):
                path = os.path.join(where, name)
                if problem := _problem_with(path, max_bytes):
                    self.refused.add(path)
                    (self.tampering if os.path.islink(path) else self.notes).append(
                        f"{shown(os.path.relpath(path, self.folder))} is {problem}; it was not copied"
                    )
        for lesson_file in lesson_files:
            self._refuse_conflicts_with(lesson_file)
        expected = {f"{notebook}.ipynb" for notebook in self.notebooks}
        others = [path.name for path in _notebooks_in(Path(self.folder)) if path.name not in expected]
        if others and expected & set(os.listdir(self.folder)):
            listed = ", ".join(shown(name) for name in sorted(others)[:5])
            self.notes.append(f"there are other notebooks besides the graded one: {listed}")
        if len(self.refused) > _MAX_REFUSED:
            self.all_refused = True
            self.notes, self.tampering = self.notes[:10], self.tampering[:10]
            self.tampering.append("too many of its files could not be copied, so none was copied")

    def _refuse_conflicts_with(self, lesson_file: str) -> None:
        """Refuse a folder at the path of `lesson_file`, and files at the paths of its parent folders."""
        path = os.path.join(self.folder, lesson_file)
        conflicting = [path] if os.path.isdir(path) else []
        for parent in Path(lesson_file).parents[:-1]:
            above = os.path.join(self.folder, parent)
            if os.path.lexists(above) and not os.path.isdir(above):
                conflicting.append(above)
        for conflict in conflicting:
            if conflict not in self.refused:
                self.refused.add(conflict)
                self.notes.append(
                    f"{shown(os.path.relpath(conflict, self.folder))} has the name of a file of the lesson; "
                    "it was not copied"
                )


def lesson_files(course: CourseDirectory, lesson: str) -> dict[str, Path]:
    """Return the instructor's files of a lesson, except notebooks, keyed by path in the lesson's folder."""
    folder = course.format_path(course.source_directory, ".", lesson)
    paths = find_all_files(folder, [*course.ignore, "*.ipynb"])
    return {os.path.relpath(path, folder): Path(path) for path in sorted(paths)}


def submissions(course: CourseDirectory) -> list[Submission]:
    """Find all submissions that a run of `nbgrader autograde` covers, including those without a notebook."""
    pattern = course.format_path(course.submitted_directory, course.student_id, course.assignment_id)
    excluded = course.student_id_exclude.split(",")
    found = []
    released: dict[str, tuple[str, ...]] = {}
    for folder in sorted(glob.glob(pattern)):
        lesson, student = os.path.basename(folder), os.path.basename(os.path.dirname(folder))
        if student not in excluded:
            if lesson not in released:
                released[lesson] = released_notebooks(course, lesson)
            found.append(Submission(student, lesson, folder, released[lesson]))
    return found


def released_notebooks(course: CourseDirectory, lesson: str) -> tuple[str, ...]:
    """Return the names of a lesson's notebooks that a run of `nbgrader autograde` covers."""
    folder = Path(course.format_path(course.release_directory, ".", lesson))
    names = sorted(path.stem for path in folder.glob("*.ipynb"))
    return tuple(name for name in names if fnmatch.fnmatchcase(name, course.notebook_id))


def refuse_bad_timestamp(folder: Path) -> None:
    """Raise UnreadableError if nbgrader could not read or might misread `timestamp.txt`, or block on it."""
    if not os.path.lexists(folder / "timestamp.txt"):
        return
    try:
        written = read_file(folder, "timestamp.txt", _MAX_TIMESTAMP).strip()
    except UnreadableError:
        raise UnreadableError(
            "its timestamp.txt must be a regular file with one line, such as 2026-11-23 18:30:00"
        ) from None
    try:
        text = written.decode()
        # dateutil would also accept "3.12." or "18:30", and choose the month or the day itself.
        if text and not _DATE.match(text):
            raise ValueError(text)
        parse_utc(text or "2000-01-01")
    except Exception:  # dateutil can raise many kinds of exceptions.
        found = shown(written.decode(errors="replace"))
        raise UnreadableError(
            f"expected a time such as 2026-11-23 18:30:00 in its timestamp.txt, found {found!r}"
        ) from None


def _is_link(folder: str) -> bool:
    """Return whether a submission's folder, or its parent folder, is a symbolic link."""
    return os.path.islink(folder) or os.path.islink(os.path.dirname(folder))


def refuse_too_deep(folder: str) -> None:
    """Raise UnreadableError if folders in this one are nested too deep."""
    waiting = [(folder, 0)]
    while waiting:
        where, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise UnreadableError(f"its folders are nested more than {_MAX_DEPTH} deep")
        with os.scandir(where) as entries:
            waiting += [(entry.path, depth + 1) for entry in entries if entry.is_dir(follow_symlinks=False)]


def _notebooks_in(folder: Path) -> list[Path]:
    found = []
    for where, folders, files in os.walk(folder):
        # `Submission.digest` skips hidden folders, too.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(where, name) for name in sorted(files) if name.endswith(".ipynb")]
    return found


def _problem_with(path: str, max_bytes: int) -> str | None:
    """Return the problem with a file to be copied, such as a size above `max_bytes`, or None."""
    if not os.path.basename(path).isprintable():  # A terminal would interpret control characters.
        return "a file with control characters in its name"
    about = os.lstat(path)
    if stat.S_ISLNK(about.st_mode):
        return "a symbolic link"
    if stat.S_ISDIR(about.st_mode):
        return None
    if not stat.S_ISREG(about.st_mode):
        return "not a regular file"
    if about.st_size > max_bytes:
        return f"larger than {max_bytes / 1e6:g} MB"
    return None
