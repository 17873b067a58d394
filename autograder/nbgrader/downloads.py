"""Collect submissions that were downloaded from Canvas or Moodle: the collector of `nbgrader zip_collect`."""

import csv
import io
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.plugins import FileNameCollectorPlugin
from traitlets import Unicode

from autograder.nbgrader.gradebook import open_gradebook
from autograder.submissions.downloaded_files import DownloadedFile, interpretations
from autograder.submissions.reading import shown
from course_lib.atomic_files import atomic_write_text
from course_lib.check_log import LOG
from course_lib.curriculum.course_file import load_curriculum

#: The file with the prefixes of the students' notebooks, for `FeedbackArchive`.
_PREFIXES = "prefixes.json"

_CANVAS_LOGINS = ("SIS Login ID", "SIS User ID", "Integration ID")


class Students:
    """The students of the gradebook, matched by the names and IDs in Canvas or Moodle file names.

    `roster` contains the rows of Canvas's gradebook or of Moodle's grading worksheet; it may be empty.
    """

    def __init__(self, gradebook: Gradebook, roster: Iterable[list[str]]) -> None:
        self._names: dict[str, set[str]] = defaultdict(set)
        self._canvas: dict[str, str] = {}
        self._moodle: dict[str, str] = {}
        keys: dict[str, str] = {}
        for student in gradebook.students:
            first, last = student.first_name or "", student.last_name or ""
            for name in (first + last, last + first):
                self._names[_letters(name)].add(student.id)
            if student.lms_user_id:
                self._canvas[student.lms_user_id] = student.id
            keys |= {key: student.id for key in (student.id, student.email, student.lms_user_id) if key}
        header, *rows = list(roster) or [[]]
        for row in rows:
            cells = dict(zip(header, row, strict=False))
            # Canvas's gradebook has fixed column names. Moodle translates those of its grading worksheet, and
            # the "Participant 1234" at the start of each row, into the user's language, so search all other
            # cells.
            shared = [cells.get(name, "") for name in _CANVAS_LOGINS] if "ID" in cells else row[1:]
            owner = next((keys[cell] for cell in shared if cell in keys), None)
            if owner is not None and "ID" in cells:
                self._canvas[cells["ID"]] = owner
            elif owner is not None and (participant := re.fullmatch(r"\D+(\d+)", row[0])):
                self._moodle[participant[1]] = owner

    def find(self, file: DownloadedFile) -> str | None:
        """Return the id of the student who uploaded a file, or None if the student can't be identified.

        A student is matched by ID or, if no student has the ID, by name. A name that several students share
        is not used.
        """
        numbers = self._moodle if file.moodle else self._canvas
        if file.number in numbers:
            return numbers[file.number]
        found = self._names.get(_letters(file.name), set())
        return next(iter(found)) if len(found) == 1 else None


class DownloadCollector(FileNameCollectorPlugin):
    """A collector for `nbgrader zip_collect` that handles downloads from Canvas and Moodle."""

    roster = Unicode(
        help="A CSV file that connects the IDs in file names with students: Canvas's gradebook, or the "
        "grading worksheet of Moodle's assignment. It is needed if students share a name, or if their names "
        "differ from those in nbgrader's gradebook."
    ).tag(config=True)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.left_out = 0
        """The number of warnings about unidentified files, ambiguous uploads and missing notebooks."""
        self.prefixes: dict[str, str] = {}
        """The prefix of each student's notebook in the download, by student."""

    def collect(self, submitted_file: str) -> dict[str, str] | None:
        """Return the student ("student_id") and the new name ("file_id") of a file.

        Return None if the file is not collected.
        """
        return self._collected.get(Path(submitted_file))

    @cached_property
    def _collected(self) -> dict[Path, dict[str, str]]:
        # Decide about all files together, because a student may have uploaded several versions of one.
        lesson = self.parent.coursedir.assignment_id
        notebook = f"{lesson}.ipynb"
        files_to_collect = (notebook, *self._hand_ins(lesson), LOG)
        collected: dict[Path, dict[str, str]] = {}
        late: set[str] = set()
        for student, files in sorted(self._files_by_student().items()):
            late |= {student for file in files if file.late}
            for wanted in files_to_collect:
                choice = _newest([file for file in files if file.is_copy_of(wanted)], wanted)
                if wanted == notebook and not choice:
                    # As in autograding, a student's only notebook is accepted under any name.
                    choice = [file for file in files if file.path.suffix == ".ipynb"]
                    if not choice:
                        self.left_out += 1
                        self.log.warning("%s has uploaded no notebook for %s", student, lesson)
                if len(choice) == 1:
                    collected[choice[0].path] = {"student_id": student, "file_id": wanted}
                    if wanted == notebook:
                        self.prefixes[student] = choice[0].prefix
                elif choice:
                    self.left_out += 1
                    self.log.warning(
                        "%s has uploaded several files that may be %s, and none was collected: %s. Copy the "
                        "right one to %s",
                        student,
                        wanted,
                        ", ".join(shown(file.file) for file in choice),
                        Path(self.parent.coursedir.submitted_directory, student, lesson, wanted),
                    )
        if late:
            self.log.warning(
                "Canvas marks these submissions as late, but its file names don't say by how much: %s. They "
                "count as on time unless you write the time into timestamp.txt next to the notebook.",
                ", ".join(sorted(late)),
            )
        return collected

    def _hand_ins(self, lesson: str) -> list[str]:
        """Return the names of the files that students hand in for a lesson in addition to the notebook."""
        lessons = load_curriculum(Path(self.parent.coursedir.root)).lessons
        return [entry.file for known in lessons if known.name == lesson for entry in known.hand_ins]

    @cached_property
    def students(self) -> Students:
        """The students who can have uploaded files. The command exits if they can't be read."""
        directory = self.parent.coursedir
        try:
            roster = read_roster(self.roster) if self.roster else []
            with open_gradebook(directory) as gradebook:
                return Students(gradebook, roster)
        except ValueError as error:
            self.parent.fail(str(error))
            raise

    def _files_by_student(self) -> dict[str, list[DownloadedFile]]:
        """Group the files by student, and report those that can't be attributed to one."""
        folder = Path(self.parent._format_collect_path(self.parent.extracted_directory))
        found: dict[str, list[DownloadedFile]] = defaultdict(list)
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            parts = self.parent.extractor_plugin_inst.original_parts(folder, path)
            # Skip Jupyter's checkpoints, the files that macOS adds to archives, and text typed into the
            # assignment's page.
            if any(part.startswith((".", "__MACOSX")) for part in parts) or path.suffix == ".html":
                continue
            for file in interpretations(path, parts):
                if student := self.students.find(file):
                    found[student].append(file)
                    break
            else:
                self.left_out += 1
                self.log.warning(
                    "%s was not collected: its name must be one that Canvas or Moodle created, with the name "
                    "or ID of exactly one student in the gradebook. Add the student to the gradebook, pass a "
                    "roster (--DownloadCollector.roster=FILE.csv), or copy the file to "
                    "submitted/STUDENT/LESSON yourself.",
                    "/".join(map(shown, parts)),
                )
        return found


def _newest(files: list[DownloadedFile], wanted: str) -> list[DownloadedFile]:
    """Return the files of the latest upload that have exactly the wanted name.

    If there are none, return all files of the latest upload. If the files to return all have the same
    content, return only one of them. Only the files at the smallest depth count, because a deeper one may be
    from another student's archive, and that student chose its name.
    """
    files = [file for file in files if file.depth == min(each.depth for each in files)]
    last = [file for file in files if file.attachment == max(each.attachment for each in files)]
    exact = [file for file in last if file.file == wanted] or last
    return exact[:1] if len({file.path.read_bytes() for file in exact}) == 1 else exact


def read_prefixes(folder: Path) -> dict[str, str]:
    """Read the prefixes of the students' notebooks from a lesson's folder in `downloaded/`.

    Return an empty dict if nothing has been collected. Raises ValueError if the file isn't valid.
    """
    path = folder / _PREFIXES
    try:
        prefixes = json.loads(path.read_text("utf-8"))
        if not isinstance(prefixes, dict):
            raise ValueError("expected a JSON object")
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); delete it, and collect with --force") from None
    return {str(student): str(prefix) for student, prefix in prefixes.items()}


def write_prefixes(folder: Path, prefixes: Mapping[str, str]) -> None:
    """Write the prefixes of the students' notebooks to a lesson's folder in `downloaded/`."""
    text = json.dumps(dict(sorted(prefixes.items())), indent=1)
    atomic_write_text(folder / _PREFIXES, text + "\n")


def read_roster(path: str) -> list[list[str]]:
    """Read the rows of a CSV file exported from Canvas or Moodle.

    Raises ValueError if the file can't be read or has no rows.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the roster {path} cannot be read ({error})") from None
    rows = [row for row in csv.reader(io.StringIO(text)) if any(row)]
    if not rows:
        raise ValueError(f"the roster {path} is empty; export it from the gradebook again")
    return rows


def _letters(name: str) -> str:
    """Return a name's letters and digits, case-folded, because Canvas and Moodle change other characters."""
    composed = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return "".join(character for character in composed if character.isalnum())
