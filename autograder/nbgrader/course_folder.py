"""A course folder for the instructors' commands: its nbgrader configuration, result store and gradebook."""

from functools import cached_property
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from sqlalchemy import make_url
from traitlets.config import Config, PyFileConfigLoader

from autograder.nbgrader.releases import Releases
from autograder.nbgrader.sandboxed_execute import SandboxedExecute
from autograder.release.build import COURSE
from autograder.results.store import ResultStore
from autograder.submissions.folder import released_notebooks
from course_lib.curriculum.course_file import CourseError

CONFIG = "nbgrader_config.py"


def gradebook_file(url: str) -> Path | None:
    """Return the file of a gradebook, or None if its database is on a server or in memory."""
    address = make_url(url)
    file = address.database if address.get_backend_name() == "sqlite" else None
    return Path(file) if file and file != ":memory:" else None


class CourseFolder:
    """A course folder with an nbgrader_config.py.

    The configuration is searched for in `folder` and its `autograder/`. By default, it is searched for in the
    current folder, its `autograder/`, and the `autograder/` of the course that this package belongs to.
    Raises CourseError if there is no configuration.
    """

    def __init__(self, folder: Path | None = None) -> None:
        here = Path.cwd()
        candidates = [here, here / "autograder", COURSE / "autograder"]
        if folder is not None:
            candidates = [folder, folder / "autograder"]
        found = next((each for each in candidates if (each / CONFIG).is_file()), None)
        if found is None:
            raise CourseError(
                f"there is no {CONFIG} in {' or '.join(map(str, candidates))}. Pass the course's folder with "
                "--course."
            )
        self.folder = found.resolve()
        self._current: dict[str, dict[str, set[str]]] = {}

    @cached_property
    def config(self) -> Config:
        """The course's nbgrader configuration."""
        return PyFileConfigLoader(CONFIG, path=str(self.folder)).load_config()

    def directory(self, lesson: str = "*") -> CourseDirectory:
        """Return nbgrader's CourseDirectory for one lesson of the course, or by default for all lessons."""
        directory = CourseDirectory(config=self.config)
        directory.assignment_id = lesson
        return directory

    @cached_property
    def execute(self) -> SandboxedExecute:
        """The configured preprocessor, which runs notebooks inside its `running` context."""
        execute = SandboxedExecute(config=self.config)
        execute.group_shared = self.directory().groupshared
        return execute

    @property
    def store(self) -> ResultStore:
        """The course's result store."""
        return self.execute.store

    def gradebook(self) -> Gradebook:
        """Open the course's gradebook, and return it. The caller must close it.

        Raises CourseError if it is a file that doesn't exist: nothing has been released or graded yet.
        """
        directory = self.directory()
        path = gradebook_file(directory.db_url)
        if path is not None and not path.exists():
            raise CourseError(
                f"there is no gradebook yet at {path}. `nbgrader generate_assignment LESSON` creates it."
            )
        return Gradebook(directory.db_url, directory.course_id)

    def current(self, lesson: str) -> dict[str, set[str]]:
        """Return the current hashes of a lesson's checks and limits, keyed as in `Job.depends_on`.

        Each set has one hash for each different notebook of the lesson. The result is cached.
        """
        if lesson not in self._current:
            releases, names = Releases(self.directory()), released_notebooks(self.directory(lesson), lesson)
            jobs = [self.execute.job(lesson, releases.with_hidden_tests(lesson, name), {}) for name in names]
            self._current[lesson] = {
                part: {job.depends_on[part] for job in jobs} for part in ("checks", "limits")
            }
        return self._current[lesson]
