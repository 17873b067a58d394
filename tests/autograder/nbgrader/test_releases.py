"""`nbgrader generate_assignment` never loses a release, whatever stops the command."""

import os
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.converters import GenerateAssignment
from nbgrader.converters.base import NbGraderException

from autograder.nbgrader.generate_assignment import CourseGenerateAssignment
from autograder.nbgrader.replacement import FolderReplacement
from tests.autograder.nbgrader.classroom import Classroom, configuration, release, solved
from tests.autograder.small_course import LESSON, SmallCourse

MANIFEST_ENTRY = '[[lessons.explanations]]\nname = "explain_sum"\npoints = 1\n'
CELLS = """
# %% [markdown]
# Why a sum?

# %% [markdown] explain="explain_sum"
# Because of the product.
#
# ### BEGIN MARK SCHEME
# - 1 point: says so.
# ### END MARK SCHEME
"""


def add_graded_cell(course: Path) -> None:
    for name, text in (("course.toml", MANIFEST_ENTRY), (f"{LESSON}/{LESSON}.py", CELLS)):
        with (course / "solutions" / name).open("a", encoding="utf-8") as file:
            file.write(text)


def contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def cells_in_gradebook(classroom: Classroom) -> set[str]:
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as gradebook:
        return {cell.name for cell in gradebook.find_notebook(LESSON, LESSON).source_cells}


@pytest.fixture
def graded(classroom: Classroom) -> Classroom:
    """A graded class of one student."""
    classroom.hand_in("anna", solved(classroom.released))
    classroom.autograde()
    return classroom


def test_a_changed_text_is_released_again_after_submissions_were_graded(graded: Classroom) -> None:
    SmallCourse(graded.course).change_source("# Why the root?", "# Why is there a root?")
    release(graded.course)
    assert "Why is there a root?" in (graded.course / "lessons" / LESSON / f"{LESSON}.ipynb").read_text()
    assert not [path for path in (graded.course / "lessons").iterdir() if path.name.startswith(".")]


def test_an_added_check_is_refused_before_the_release_is_touched(
    graded: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_graded_cell(graded.course)
    before, state = contents(graded.course / "lessons"), graded.state()
    monkeypatch.setattr(FolderReplacement, "begin", lambda *_, **__: pytest.fail("the release was touched"))
    with pytest.raises(NbGraderException, match=f"{LESSON}: explain_sum was added"):
        release(graded.course)
    assert contents(graded.course / "lessons") == before
    assert graded.state() == state
    assert "explain_sum" not in cells_in_gradebook(graded)


def test_before_submissions_a_check_can_be_added(classroom: Classroom) -> None:
    add_graded_cell(classroom.course)
    release(classroom.course)
    assert "explain_sum" in cells_in_gradebook(classroom)


@pytest.mark.parametrize("when", ["converting", "setting permissions"])
def test_a_release_that_fails_leaves_the_old_one(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    method = "convert_single_notebook" if when == "converting" else "set_permissions"
    monkeypatch.setattr(GenerateAssignment, method, fail)
    before = contents(classroom.course / "lessons")
    with pytest.raises(NbGraderException):
        release(classroom.course)
    assert contents(classroom.course / "lessons") == before


def test_the_release_of_a_killed_run_is_restored(classroom: Classroom) -> None:
    before = contents(classroom.course / "lessons")
    killed = FolderReplacement(classroom.course / "lessons" / LESSON)
    killed.begin()
    killed.folder.mkdir()
    (killed.folder / f"{LESSON}.ipynb").write_text("{")
    release(classroom.course, force=False)
    assert contents(classroom.course / "lessons") == before


def test_the_command_of_nbgrader_uses_this_converter(graded: Classroom) -> None:
    from nbgrader.apps import api, autogradeapp, generateassignmentapp, generatefeedbackapp

    configuration(graded.course)  # installs the converters
    assert generateassignmentapp.GenerateAssignment is api.GenerateAssignment is CourseGenerateAssignment
    assert autogradeapp.Autograde.__name__ == "CourseAutograde"
    assert generatefeedbackapp.GenerateFeedback.__name__ == "CourseGenerateFeedback"
    assert os.environ.get("OMP_NUM_THREADS")
