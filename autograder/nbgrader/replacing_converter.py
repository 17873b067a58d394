"""A base class for nbgrader's converters that keeps an old result until the new one is complete."""

import glob
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from nbgrader.converters.base import BaseConverter, NbGraderException

from autograder.nbgrader.grading_folder import course_lock, grading_folder
from autograder.nbgrader.replacement import FolderReplacement
from course_lib.curriculum.course_file import CourseError


class RecordingConverter(BaseConverter):
    """A converter that records why it failed, because nbgrader raises an error that gives no reason."""

    error: Exception | None = None
    """The error that stopped the conversion of the current assignment, if any."""

    @contextmanager
    def recording_errors(self) -> Iterator[None]:
        """Record an error from the block in `error`, and re-raise it."""
        try:
            yield
        except Exception as error:
            self.error = error
            raise


class ReplacingConverter(RecordingConverter):
    """A converter that replaces an old result only once the new one is complete."""

    def init_notebooks(self) -> None:
        """Find the notebooks, even if a student's name contains characters of a glob pattern.

        Raises NbGraderException if there are none.
        """
        folders = glob.glob(self._format_source(self.coursedir.assignment_id, self.coursedir.student_id))
        found = {
            folder: glob.glob(os.path.join(glob.escape(folder), f"{self.coursedir.notebook_id}.ipynb"))
            for folder in folders
        }
        self.assignments = {folder: notebooks for folder, notebooks in found.items() if notebooks}
        self.notebooks: list[str] = []
        if not self.assignments:
            super().init_notebooks()  # This raises an error that suggests similar names.

    def convert_notebooks(self) -> None:
        """Convert each assignment. If that fails, restore its old result and continue with the others.

        Raises NbGraderException at the end if any assignment failed, or if another command holds the course's
        lock.
        """
        problems: list[str] = []
        folder = grading_folder(self.coursedir)
        try:
            with course_lock(folder, self.log) if folder.is_dir() else nullcontext():
                problems += self._convert_each()
        except NbGraderException as error:
            problems.append(str(error))
        if problems:
            self.log.error("%s", "\n".join(problems))
            raise NbGraderException("\n".join(problems))

    def convert_single_notebook(self, notebook_filename: str) -> None:
        """Convert one notebook. Record and re-raise errors."""
        with self.recording_errors():
            super().convert_single_notebook(notebook_filename)

    def sources(self, assignments: Mapping[str, list[str]]) -> Iterator[str]:
        """Yield the keys of `assignments` in the order of conversion.

        `assignments` maps folders to the notebooks in them. Subclasses can prepare a folder before they yield
        it.
        """
        yield from sorted(assignments)

    def check(self, assignment: str, notebooks: list[str]) -> None:
        """Raise NbGraderException or CourseError if an assignment must not be converted.

        Subclasses override this hook, which is called before any file is changed.
        """

    def problem(self, notebook: str, error: Exception) -> str:
        """Return the error message for an assignment that could not be converted.

        By default, it is the text of `error`. `notebook` is any of the assignment's notebooks.
        """
        return str(error)

    def names(self, notebook: str) -> dict[str, Any]:
        """Return nbgrader's data about a notebook, with keys such as "student" and "assignment"."""
        names: dict[str, Any] = self.init_single_notebook_resources(notebook)["nbgrader"]
        return names

    def replacement(self, notebook: str) -> FolderReplacement:
        """Return a `FolderReplacement` for the folder that a notebook is converted to."""
        names = self.names(notebook)
        return FolderReplacement(
            Path(os.path.normpath(self._format_dest(names["assignment"], names["student"])))
        )

    def is_due(self, notebooks: list[str]) -> bool:
        """Return whether to convert the assignment with these notebooks.

        By default, the rules are those of nbgrader's `init_destination`: convert it if its result is missing
        or has an older timestamp, or if the option --force is given.
        """
        folder = self.replacement(notebooks[0]).folder
        missing = self.coursedir.notebook_id != "*" and any(
            not (folder / name).exists() for name in self.written(notebooks)
        )
        if self.force or missing or not folder.exists():
            return True
        source = os.path.dirname(notebooks[0])
        new, old = map(self.coursedir.get_existing_timestamp, (source, str(folder)))
        return new is not None and old is not None and new > old

    def written(self, notebooks: list[str]) -> set[str]:
        """Return the names of the files to which notebooks are converted."""
        return {Path(notebook).stem + self.exporter.file_extension for notebook in notebooks}

    def _convert_each(self) -> Iterator[str]:
        """Convert each assignment, and yield an error message for each one that could not be converted."""
        assignments: dict[str, list[str]] = self.assignments
        for source in self.sources(assignments):
            notebooks = sorted(assignments[source])
            self.assignments = {source: notebooks}
            self.error = None
            try:
                self._replace(notebooks, super().convert_notebooks)
            except (CourseError, NbGraderException, OSError) as error:
                yield self.problem(notebooks[0], self.error or error)

    def _replace(self, notebooks: list[str], convert: Callable[[], None]) -> None:
        old = self.replacement(notebooks[0])
        old.recover()
        excluded = self.names(notebooks[0])["student"] in self.coursedir.student_id_exclude.split(",")
        if excluded or not self.is_due(notebooks):
            convert()  # nbgrader skips the assignment and says so.
            return
        self.check(self.names(notebooks[0])["assignment"], notebooks)
        written = self.written(notebooks)
        only_some = self.coursedir.notebook_id != "*"
        with old.replacing(copy_back=(lambda _, files: written.intersection(files)) if only_some else None):
            convert()
