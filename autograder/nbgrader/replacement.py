"""Replace a folder, and keep or restore the old one if writing fails or the process is killed."""

import json
import os
import pwd
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from course_lib.atomic_files import atomic_write_text
from course_lib.file_locks import try_lock


class FolderReplacement:
    """The replacement of one folder, in the context `replacing`.

    `begin` moves the old folder into a journal next to it. A journal that is found later belongs to a process
    that was killed; `recover` then restores the old folder. Each step is a single rename, so an incomplete
    folder is never mistaken for the old or the new one. A process that replaces a folder locks its parent, so
    that no other process treats the journal as abandoned.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._journal = folder.with_name(f".{folder.name}.replacing")
        self._discarded = folder.with_name(f".{folder.name}.discarded")
        self._old = self._journal / "old"

    @property
    def is_unfinished(self) -> bool:
        """Whether a process is replacing the folder, or was killed while it did."""
        return self._journal.is_dir()

    def recover(self, restore: Callable[[Any], object] | None = None) -> bool:
        """Clean up after a killed process, and return whether its replacement had to be rolled back.

        See `replacing` for `restore`. If the process was killed while it deleted its journal, only the
        remains of that journal are deleted. Raises OSError if a running process is replacing a folder
        next to it.
        """
        if not self._journal.exists() and not self._discarded.exists():
            return False
        with self._lock():
            interrupted = self._journal.is_dir()
            if interrupted:
                self._roll_back(restore)
            _remove(self._discarded)
        return interrupted

    def begin(
        self, note: object = None, copy_back: Callable[[str, list[str]], set[str]] | None = None
    ) -> None:
        """Move the old folder, if there is one, into the journal, together with a note.

        See `replacing` for the arguments. If this raises an error, the old folder is left as it is.
        """
        _remove(self._discarded)
        self._discarded.mkdir()
        exists = self.folder.exists()
        atomic_write_text(self._discarded / "note.json", json.dumps({"note": note, "existed": exists}))
        self._discarded.rename(self._journal)
        try:
            if exists:
                self.folder.rename(self._old)
                if copy_back is not None:
                    shutil.copytree(self._old, self.folder, ignore=copy_back)
        except BaseException:
            self._roll_back()
            raise

    @contextmanager
    def replacing(
        self,
        note: object = None,
        copy_back: Callable[[str, list[str]], set[str]] | None = None,
        restore: Callable[[Any], object] | None = None,
    ) -> Iterator[None]:
        """Replace the folder with the one that the block writes.

        If the block raises or writes no folder, restore the old one. To restore more than the folder, pass
        `note`, which is stored as JSON, and `restore`, which is called with it; if that raises, the journal
        is kept for a later attempt. With `copy_back`, the new folder starts as a copy of the old one, without
        the names that `copy_back` returns (it is passed to `shutil.copytree` as `ignore`). Raises OSError,
        and leaves the old folder as it is, if the folder can't be replaced or another process is replacing a
        folder next to it.
        """
        self._require_replaceable()
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with self._lock():
            self.begin(note, copy_back)
            try:
                yield
            except BaseException:
                self._roll_back(restore)
                raise
            if self.folder.is_dir():
                self._delete_journal()
            else:
                self._roll_back(restore)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        descriptor = os.open(self.folder.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if not try_lock(descriptor):
                raise OSError(
                    f"another process is replacing a folder in {self.folder.parent}. Run this command again "
                    "when it has finished."
                )
            yield
        finally:
            os.close(descriptor)

    def _roll_back(self, restore: Callable[[Any], object] | None = None) -> None:
        saved = json.loads((self._journal / "note.json").read_text(encoding="utf-8"))
        if self._old.exists() or not saved["existed"]:
            _remove(self.folder)
        if self._old.exists():
            self._old.rename(self.folder)
        if restore is not None:
            restore(saved["note"])
        self._delete_journal()

    def _delete_journal(self) -> None:
        _remove(self._discarded)
        self._journal.rename(self._discarded)
        _remove(self._discarded)

    def _require_replaceable(self) -> None:
        for path in (self.folder, self.folder.parent):
            if path.is_symlink():
                raise OSError(
                    f"{path} is a symbolic link, and grading does not write through links. Remove the link."
                )
        require_writable(self.folder)


def require_writable(folder: Path) -> None:
    """Raise PermissionError if the caller may not create a folder, or replace it and all its contents."""
    parent = next(parent for parent in folder.parents if parent.exists())
    for path in (parent, *_folders_in(folder)):
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(
                f"{folder} cannot be replaced, because {path} belongs to {owner(path)}, and you cannot "
                'write to it. If several people grade, see "Several graders" in the instructor\'s guide.'
            )


def _folders_in(folder: Path) -> Iterator[Path]:
    """Yield a folder, if it exists, and all folders in it, even those that can't be listed."""
    if folder.is_dir():
        yield folder
    for where, names, _ in os.walk(folder):
        yield from (path for name in names if not (path := Path(where, name)).is_symlink())


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def owner(path: Path) -> str:
    """Return the name of the account that owns a file or folder. Links are not followed."""
    return account_name(path.lstat().st_uid)


def account_name(number: int) -> str:
    """Return the name of an account, or "user NUMBER" if it has none, as in some containers."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
