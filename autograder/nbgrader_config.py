"""How nbgrader finds and grades this course. Type its commands in this folder, so that it reads this file."""

import os
import sys
import warnings
from pathlib import Path

from nbconvert.preprocessors import ClearMetadataPreprocessor, CSSHTMLHeaderPreprocessor
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
    SaveAutoGrades,
    SaveCells,
)

from autograder.nbgrader.converters import install
from autograder.nbgrader.mark_scheme import ShowMarkScheme
from autograder.nbgrader.sandboxed_execute import RecordGrading, SandboxedExecute
from autograder.release.solutions import refresh_at_start
from autograder.release.stubs import NamedStubs
from autograder.reports.feedback import FeedbackExporter, ForStudents
from autograder.reports.safe_html import Harmless
from course_lib.curriculum.course_file import CourseError

course = Path(__file__).resolve().parents[1]
c = get_config()  # type: ignore[name-defined] # nbgrader hands it in

# nbgrader's commands, such that no failure loses a grade, a graded notebook or a release.
install()

# About nbgrader's own use of its database: nothing that its users could mend.
warnings.filterwarnings("ignore", message="Object of type <Submitted", module="nbgrader")
# nbgrader makes a new gradebook with the program `alembic`, which is on an activated environment's PATH only.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])

# What lessons train is tiny: more threads than one make it slower, by far where other work is being done.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# --- Where things are ---------------------------------------------------------------------------------------
c.CourseDirectory.course_id = "build-the-transformer"
c.CourseDirectory.root = str(course)
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "lessons"
c.CourseDirectory.submitted_directory = "autograder/submitted"
c.CourseDirectory.autograded_directory = "autograder/autograded"
c.CourseDirectory.feedback_directory = "autograder/feedback"
# Another gradebook: COURSE_GRADEBOOK=sqlite:////absolute/path.db
c.CourseDirectory.db_url = os.environ.get("COURSE_GRADEBOOK", f"sqlite:///{course}/autograder/gradebook.db")
# nbgrader hands out every file beside a notebook, and copies it into graded folders: keep the sources back.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "[0-9][0-9]-*.py"]

# Formgrader's start page would show all of this, and with it the password of a gradebook in PostgreSQL.
c.FormgradeExtension.debug = False

# --- Release ------------------------------------------------------------------------------------------------
c.GenerateAssignment.preprocessors = [
    LockCells,
    NamedStubs,  # in place of ClearSolutions: each stub names its exercise
    ClearOutput,
    CheckCellMetadata,
    ComputeChecksums,
    SaveCells,
    ClearHiddenTests,
    ClearMarkScheme,
    ComputeChecksums,  # once more: the cells are others now
    CheckCellMetadata,
]
# lessons/ is generated and committed, so it is there already: without this, nbgrader would skip the release.
c.GenerateAssignment.force = True

# --- Grading ------------------------------------------------------------------------------------------------
# Students' code runs in sandboxes, the checks do not: `python -m autograder.doctor` shows what confines it.
c.SandboxedExecute.course = str(course)
if sys.argv[1:2] == ["validate"]:  # the Validate button of students does not read this file
    os.environ["JUPYTER_DEFAULT_PROVISIONER_NAME"] = "course-sandbox"
# A check cell that a student deleted is put back, and fails or passes like any other.
c.OverwriteCells.add_missing_cells = True
# One cell may take so many seconds: the first one imports torch, on a machine that may be busy.
c.Execute.timeout = 60
c.Execute.startup_timeout = 120
# Kernels warn, each anew, that they listen on a local port: errors alone are worth reading.
c.Execute.extra_arguments = ["--log-level=40"]
# The state of widgets holds the charting library, megabytes in each notebook.
c.NotebookClient.store_widget_state = False
# A loop that prints must not fill the gradebook's folder.
c.LimitOutput.max_lines = 300
c.LimitOutput.max_traceback = 30
# Graders see the model answers and mark schemes below what they grade.
c.Autograde.autograde_preprocessors = [
    SandboxedExecute,
    IgnorePattern,
    ClearMetadataPreprocessor,
    LimitOutput,
    SaveAutoGrades,
    AssignLatePenalties,
    CheckCellMetadata,
    ShowMarkScheme,
    RecordGrading,
]
c.ShowMarkScheme.solutions = str(course / "solutions")

# --- Feedback -----------------------------------------------------------------------------------------------
c.GenerateFeedback.exporter_class = FeedbackExporter
c.GenerateFeedback.preprocessors = [GetGrades, CSSHTMLHeaderPreprocessor, ForStudents]
# Nothing of a submission may run in a browser, here or in formgrader. nbconvert cleans outputs; nbgrader's
# templates show Markdown as it is, and trust the notebook's structure: see to that too.
c.HTMLExporter.preprocessors = [Harmless]
c.HTMLExporter.sanitize_html = True
c.HTMLExporter.filters = {
    "clean_html": "autograder.reports.safe_html.clean_output",
    "markdown2html": "autograder.reports.safe_html.clean_markdown",
}

# --- The solution notebooks, which git does not keep --------------------------------------------------------
try:
    refresh_at_start(course)
except CourseError as error:
    raise SystemExit(f"solutions/course.toml is not valid:\n{error}") from None
