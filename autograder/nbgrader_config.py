"""The configuration of nbgrader for this course. To use it, run nbgrader's commands in this folder."""

import os
import sys
import warnings
from pathlib import Path

from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearHiddenTests,
    ClearMarkScheme,
    ClearOutput,
    ComputeChecksums,
    GetGrades,
    IgnorePattern,
    LimitOutput,
    LockCells,
    SaveCells,
)

from autograder.graded_notebooks.feedback import FeedbackExporter, PrepareFeedback
from autograder.graded_notebooks.safe_html import SanitizeNotebook
from autograder.nbgrader.autograde import SaveScores
from autograder.nbgrader.generate_assignment import NamedStubs
from autograder.nbgrader.install import install
from autograder.nbgrader.mark_scheme import ShowMarkScheme
from autograder.nbgrader.sandboxed_execute import SandboxedExecute
from autograder.release.solutions import refresh_at_start
from course_lib.curriculum.course_file import CourseError

course = Path(__file__).resolve().parents[1]
c = get_config()  # type: ignore[name-defined] # defined by nbgrader

# nbgrader puts the current folder first on the path, where this folder's `nbgrader/` would hide nbgrader from
# worker processes.
sys.path[:] = [entry for entry in sys.path if entry != str(course / "autograder")]

# Extend nbgrader's commands so that no failure loses a grade, a graded notebook or a release.
install()

# Ignore a warning about nbgrader's own use of its database, because users cannot fix its cause.
warnings.filterwarnings("ignore", message="Object of type <Submitted", module="nbgrader")
# nbgrader creates a gradebook with the command `alembic`, which is on the PATH only if the
# environment is activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])

# Lessons train tiny models: more than one thread makes them slower, especially on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# --- Folders ------------------------------------------------------------------------------------------------
c.CourseDirectory.course_id = "build-the-transformer"
c.CourseDirectory.root = str(course)
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "lessons"
c.CourseDirectory.submitted_directory = "autograder/submitted"
c.CourseDirectory.autograded_directory = "autograder/autograded"
c.CourseDirectory.feedback_directory = "autograder/feedback"
# Downloads from Canvas or Moodle, for `nbgrader zip_collect` and `nbgrader export`.
c.ZipCollectApp.downloaded_directory = "autograder/downloaded"
c.FeedbackArchive.downloaded_directory = c.ZipCollectApp.downloaded_directory
c.ZipCollectApp.extractor_plugin = "autograder.submissions.archives.DownloadExtractor"
c.ZipCollectApp.collector_plugin = "autograder.nbgrader.downloads.DownloadCollector"
# To use a different gradebook, set COURSE_GRADEBOOK=sqlite:////absolute/path.db
c.CourseDirectory.db_url = os.environ.get("COURSE_GRADEBOOK", f"sqlite:///{course}/autograder/gradebook.db")
# Set this to True if several graders use separate Unix accounts: see "Several graders" in the guide.
# Change it here and not further down or on the command line, because the next lines read it to set the umask.
c.CourseDirectory.groupshared = False
if c.CourseDirectory.groupshared:  # Make new files writable by the graders' group.
    os.umask(os.umask(0o077) & ~0o070)
# nbgrader releases every file next to a notebook, and copies it into graded folders: exclude the sources.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "[0-9][0-9]-*.py"]

# nbgrader's own classes delete the old files before they copy the new ones, and stop at the first error.
c.ExchangeFactory.release_assignment = "autograder.nbgrader.exchange.CourseReleaseAssignment"
c.ExchangeFactory.release_feedback = "autograder.nbgrader.exchange.CourseReleaseFeedback"
c.ExchangeFactory.collect = "autograder.nbgrader.exchange.CourseCollect"

# A submission that could not be graded must not count as 0 points.
c.ExportApp.plugin_class = "autograder.reports.csv_export.CsvExport"

# Formgrader's start page would show the configuration, including the password of a PostgreSQL gradebook.
c.FormgradeExtension.debug = False

# --- Release ------------------------------------------------------------------------------------------------
c.GenerateAssignment.preprocessors = [
    LockCells,
    NamedStubs,  # This replaces ClearSolutions, whose stubs don't name their exercise.
    ClearOutput,
    CheckCellMetadata,
    ComputeChecksums,
    SaveCells,
    ClearHiddenTests,
    ClearMarkScheme,
    ComputeChecksums,  # This is repeated because the cells have changed.
    CheckCellMetadata,
]
# Without this, nbgrader would skip a lesson that is already in lessons/, which is committed.
c.GenerateAssignment.force = True

# --- Grading ------------------------------------------------------------------------------------------------
# Students' code runs in sandboxes; the checks do not. `python -m autograder.doctor` lists the mechanisms.
c.SandboxedExecute.course = str(course)
if sys.argv[1:2] == ["validate"]:  # The students' Validate button doesn't read this file.
    os.environ["JUPYTER_DEFAULT_PROVISIONER_NAME"] = "course-sandbox"
# nbgrader's other steps are not needed: `autograder.submissions` has already restored all cells and their
# metadata, or rejected the submission.
c.Autograde.sanitize_preprocessors = [ClearOutput]
# Validate a notebook only once instead of after each preprocessor, to save time.
c.Exporter.optimistic_validation = True
# The time limit of a cell in `nbgrader validate`, in seconds, long enough to import torch on a busy machine.
# For grading, set c.SandboxedExecute.cell_seconds and c.SandboxedExecute.notebook_seconds instead.
c.Execute.timeout = 60
c.Execute.startup_timeout = 120
# Show errors only, because each kernel warns that it listens on a local port.
c.Execute.extra_arguments = ["--log-level=40"]
# An endless loop of prints must not fill the disk.
c.LimitOutput.max_lines = 300
c.LimitOutput.max_traceback = 30
# Graders see the model answer and the mark scheme below each answer. No preprocessor after SandboxedExecute
# may clear a notebook's metadata, because it contains the grading record.
c.Autograde.autograde_preprocessors = [
    SandboxedExecute,
    IgnorePattern,
    LimitOutput,
    SaveScores,
    AssignLatePenalties,
    ShowMarkScheme,
]
c.ShowMarkScheme.solutions = str(course / "solutions")

# --- Feedback -----------------------------------------------------------------------------------------------
c.GenerateFeedback.exporter_class = FeedbackExporter
c.GenerateFeedback.preprocessors = [
    AssignLatePenalties,  # This is repeated because people have graded explanations since.
    GetGrades,
    CSSHTMLHeaderPreprocessor,
    PrepareFeedback,
]
# No part of a submission may run in a browser, in feedback or in Formgrader. nbconvert cleans outputs, but
# nbgrader's templates insert Markdown as it is and trust the notebook's structure, so both are cleaned too.
c.HTMLExporter.preprocessors = [SanitizeNotebook]
c.HTMLExporter.sanitize_html = True
c.HTMLExporter.filters = {
    "clean_html": "autograder.graded_notebooks.safe_html.clean_output",
    "markdown2html": "autograder.graded_notebooks.safe_html.clean_markdown",
    "highlight_code": "autograder.graded_notebooks.safe_html.highlight_code",
    # nbconvert's own filter takes quadratic time, and only corrects addresses in very old notebooks. This
    # function returns the page unchanged.
    "strip_files_prefix": "markupsafe.soft_str",
}

# --- The solution notebooks, which are not in git -----------------------------------------------------------
try:
    refresh_at_start(course)
except CourseError as error:
    raise SystemExit(f"solutions/course.toml is not valid:\n{error}") from None
except OSError as error:  # Another grader may own the folder. Only generate_assignment needs the notebooks.
    print(f"The solution notebooks are out of date, and cannot be rebuilt: {error}", file=sys.stderr)
