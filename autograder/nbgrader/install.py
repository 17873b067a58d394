"""Install the course's versions of nbgrader's commands.

nbgrader has no setting for a command's converter class, so `install` rebinds the names under which the
commands and Formgrader look up these classes. No other module patches nbgrader.
"""

import os
from contextlib import suppress
from functools import cache, partial
from typing import Any

from nbgrader import api as gradebook
from nbgrader.apps import (
    api,
    autogradeapp,
    dbapp,
    generateassignmentapp,
    generatefeedbackapp,
    zipcollectapp,
)
from sqlalchemy import Engine, create_engine

from autograder.nbgrader import commands
from autograder.nbgrader.autograde import CourseAutograde
from autograder.nbgrader.generate_assignment import CourseGenerateAssignment
from autograder.nbgrader.generate_feedback import CourseGenerateFeedback
from autograder.nbgrader.gradebook import gradebook_file
from autograder.results.local_executor import SharedExecutor

#: How long Formgrader's workers wait for the next submission, in seconds.
_IDLE_SECONDS = 120.0


def install() -> None:
    """Make nbgrader's commands and Formgrader use the course's converters and the functions in `commands`.

    Also cache the gradebook's database engines, and let Formgrader keep its workers between runs.
    """
    autogradeapp.Autograde = CourseAutograde
    generateassignmentapp.GenerateAssignment = api.GenerateAssignment = CourseGenerateAssignment
    generatefeedbackapp.GenerateFeedback = api.GenerateFeedback = CourseGenerateFeedback
    zipcollectapp.ZipCollectApp.extract_archive_files = commands.extract_archive_files
    zipcollectapp.ZipCollectApp._transfer_files = commands.transfer_files
    dbapp.DbStudentImportApp.start = commands.import_students
    gradebook.create_engine = _gradebook_engine
    api.Autograde = partial(CourseAutograde, workers=SharedExecutor(_IDLE_SECONDS))


@cache
def _gradebook_engine(url: str, **options: Any) -> Engine:
    """Create the engine for a gradebook. Create the file of a new SQLite gradebook with the umask's mode.

    The engine is cached: nbgrader opens the gradebook many times, and a new engine would compile all SQL
    again each time. Connections that the database has closed are reopened. The file is created here, because
    SQLite itself never makes a new file writable for the group, so other graders could not write to it.
    """
    if (file := gradebook_file(url)) is not None:
        with suppress(OSError):  # SQLite itself reports why the file can't be opened.
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o666))
    return create_engine(url, pool_pre_ping=True, **options)
