"""How nbgrader finds and grades this course. Type its commands in this folder, so that it reads this file."""

import os
import secrets
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
    Execute,
    GetGrades,
    IgnorePattern,
    LimitOutput,
    LockCells,
    SaveAutoGrades,
    SaveCells,
)

from autograder.errors import CourseError
from autograder.feedback import ForStudents
from autograder.freshness import refresh, refresh_at_start
from autograder.mark_scheme import ShowMarkScheme
from autograder.stubs import NamedStubs

course = Path(__file__).resolve().parents[1]
c = get_config()  # type: ignore[name-defined] # nbgrader hands it in

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
# A `skip-execution` tag on a check cell would give full marks: make the tag one that no student can guess.
c.NotebookClient.skip_cells_with_tag = secrets.token_hex()
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
    Execute,
    IgnorePattern,
    ClearMetadataPreprocessor,
    LimitOutput,
    SaveAutoGrades,
    AssignLatePenalties,
    CheckCellMetadata,
    ShowMarkScheme,
]
c.ShowMarkScheme.solutions = str(course / "solutions")

# --- Feedback -----------------------------------------------------------------------------------------------
c.GenerateFeedback.preprocessors = [GetGrades, ForStudents, CSSHTMLHeaderPreprocessor]
# HTML of a submission must not run in a browser, here or in formgrader. nbconvert cleans outputs; nbgrader's
# templates show Markdown as it is: clean that too.
c.HTMLExporter.sanitize_html = True
c.HTMLExporter.filters = {
    "clean_html": "autograder.safe_html.clean",
    "markdown2html": "autograder.safe_html.clean_markdown",
}

# --- The solution notebooks, which git does not keep --------------------------------------------------------
# Formgrader's button releases without loading this file again.
c.GenerateAssignment.pre_convert_hook = lambda **_: refresh(course)
try:
    refresh_at_start(course)
except CourseError as error:
    raise SystemExit(f"The manifest is not in order:\n{error}") from None
