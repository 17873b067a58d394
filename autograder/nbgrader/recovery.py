"""Take away what a killed run left half done, so that nbgrader does it again.

nbgrader skips a submission whose autograded folder exists, even one with half a notebook in it. A notebook is
done where its metadata's `course_grading` says `complete`, which stands in no file before the last one is
written. What a killed run wrote into the gradebook is written again, in full, when the submission is graded.
"""

import json
import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from nbgrader.converters import Autograde
from nbgrader.utils import find_all_files

from autograder.submissions.folder import Submission
from autograder.submissions.repair import GRADING


def clear(converter: Autograde, found: Iterable[Submission]) -> list[Path]:
    """Remove what is not complete of the autograded files of these submissions, and give what was removed.

    Only what lies inside the autograded folder is ever removed, and no link is followed.
    """
    course = converter.coursedir
    autograded = Path(course.format_path(course.autograded_directory, "", "")).resolve()
    removed: list[Path] = []
    for submission in found:
        folder = autograded / submission.student / submission.lesson
        if not os.path.lexists(folder) or folder.resolve() != folder or not folder.is_dir():
            continue
        notebooks = [folder / f"{name}.ipynb" for name in submission.notebooks]
        begun = [path for path in notebooks if not _is_complete(path)]
        if course.notebook_id != "*":
            for path in begun:
                if path.is_file() or path.is_symlink():
                    path.unlink()
                    removed.append(path)
        elif begun or _lacks_files(converter, submission, folder):
            shutil.rmtree(folder)
            removed.append(folder)
        if folder.is_dir() and not _has_permissions(folder, int(str(converter.permissions), 8)):
            # Killed after the last notebook was written: nbgrader would only have set the permissions.
            converter.set_permissions(submission.lesson, submission.student)
    for path in removed:
        converter.log.warning("Removing what an interrupted run left half done: %s", path)
    return removed


def _is_complete(path: Path) -> bool:
    """Say whether a notebook was written to its end, by a run that graded it to its end."""
    if path.is_symlink() or not path.is_file():
        return False
    try:
        grading = json.loads(path.read_bytes())["metadata"][GRADING]
        return grading["complete"] is True
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _lacks_files(converter: Autograde, submission: Submission, folder: Path) -> bool:
    """Say whether a file of the submission is missing: the run was killed while it removed the folder."""
    left_out = [*converter.coursedir.ignore, "*.ipynb"]
    copied = find_all_files(submission.folder, left_out)
    return not all((folder / os.path.relpath(path, submission.folder)).is_file() for path in copied)


def _has_permissions(folder: Path, permissions: int) -> bool:
    files = [Path(where, name) for where, _, names in os.walk(folder) for name in names]
    return all(stat.S_IMODE(path.lstat().st_mode) == permissions for path in files)
