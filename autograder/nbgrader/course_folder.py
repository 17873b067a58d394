"""A course folder for the instructors' commands: its nbgrader configuration, result store and gradebook."""

from functools import cached_property
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config, PyFileConfigLoader

from autograder.nbgrader.gradebook import open_gradebook
from autograder.nbgrader.sandboxed_execute import SandboxedExecute
from autograder.release.build import COURSE
from course_lib.curriculum.course_file import CourseError

CONFIG = "nbgrader_config.py"


class CourseFolder:
    """A course folder with an nbgrader_config.py.

    The constructor looks for the configuration in `folder` and its `autograder/`. By default, it looks in the
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
        """The preprocessor with the course's settings. It runs notebooks inside its `running` context."""
        return SandboxedExecute(config=self.config)

    def gradebook(self) -> Gradebook:
        """Open the course's gradebook, and return it. The caller must close it.

        Raises CourseError if it doesn't exist, its address is not valid, or its database can't be used.
        """
        return open_gradebook(self.directory())
