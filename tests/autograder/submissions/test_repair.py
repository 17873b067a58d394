"""Damaged notebooks are repaired, and nbgrader accepts every result."""

import copy
import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearOutput,
    DeduplicateIds,
    OverwriteCells,
    OverwriteKernelspec,
)
from traitlets.config import Config

from autograder.submissions.reading import UnreadableError
from autograder.submissions.repair import RepairedNotebook, repair
from tests.autograder.nbgrader.classroom import SOLVED, release, solved
from tests.autograder.small_course import LESSON, SmallCourse, cell_of

NAMES = ["setup", "predict_spread", "check_predict_spread", "attention_scores", "check_attention_scores"]
NAMES += ["explain_root"]


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> SmallCourse:
    """A small released course."""
    made = SmallCourse.make(tmp_path_factory.mktemp("released") / "course")
    release(made.root)
    return made


@pytest.fixture(scope="module")
def released(course: SmallCourse) -> NotebookNode:
    return course.released()


def spoil(released: NotebookNode, change: Callable[[NotebookNode], object]) -> bytes:
    """Return the file of a solved lesson to which a change was applied."""
    notebook = solved(released)
    change(notebook)
    return json.dumps(notebook).encode()


def repaired(released: NotebookNode, change: Callable[[NotebookNode], object]) -> RepairedNotebook:
    return repair(spoil(released, change), released)


def names(notebook: NotebookNode) -> list[str]:
    return [cell.metadata.nbgrader.grade_id for cell in notebook.cells if "nbgrader" in cell.metadata]


def index(notebook: NotebookNode, name: str) -> int:
    return [cell.id for cell in notebook.cells].index(name)


def remove(name: str) -> Callable[[NotebookNode], object]:
    return lambda notebook: notebook.cells.remove(cell_of(notebook, name))


def unchanged(notebook: NotebookNode) -> None:
    """Change nothing."""


@pytest.mark.slow
def test_a_good_submission_passes_as_it_is(released: NotebookNode) -> None:
    result = repaired(released, unchanged)
    assert (result.notes, result.tampering) == ([], [])
    assert result.notebook.cells == solved(released).cells
    assert result.notebook.metadata == released.metadata


def with_other_ids(notebook: NotebookNode) -> NotebookNode:
    """Return a copy with random cell ids, as in assignments made with nbgrader's toolbar in JupyterLab."""
    other = copy.deepcopy(notebook)
    for cell in other.cells:
        cell.id = hashlib.sha256(cell.id.encode()).hexdigest()[:8]
    return other


def _an_answer_above_the_original(notebook: NotebookNode) -> None:
    original = cell_of(notebook, "explain_root")
    answer = copy.deepcopy(original)
    answer.id, answer.source, original.source = "new", "Because they add up.", "YOUR ANSWER HERE"
    notebook.cells.insert(notebook.cells.index(original), answer)


def _an_edited_set_up(notebook: NotebookNode) -> None:
    cell_of(notebook, "setup").source += "\nimport cmath"


def _no_metadata(notebook: NotebookNode) -> None:
    for cell in notebook.cells:
        cell.metadata = NotebookNode()


@pytest.mark.parametrize(
    "change", [_an_answer_above_the_original, _an_edited_set_up, _no_metadata, unchanged]
)
def test_ids_need_not_be_names(released: NotebookNode, change: Callable[[NotebookNode], object]) -> None:
    notebook = solved(released)
    change(notebook)
    expected = repair(json.dumps(notebook).encode(), released)
    found = repair(json.dumps(with_other_ids(notebook)).encode(), with_other_ids(released))
    assert names(found.notebook) == names(expected.notebook)
    assert [cell.source for cell in found.notebook.cells] == [cell.source for cell in expected.notebook.cells]
    assert (found.notes, found.tampering) == (expected.notes, expected.tampering)


def test_before_nbformat_4_5_cells_had_no_ids(released: NotebookNode) -> None:
    notebook, old = solved(released), copy.deepcopy(released)
    for cell in (*notebook.cells, *old.cells):
        del cell["id"]
    assert names(repair(json.dumps(notebook).encode(), old).notebook) == names(released)


def test_the_same_bytes_give_the_same_notebook(released: NotebookNode) -> None:
    def strip_ids(notebook: NotebookNode) -> None:
        for cell in notebook.cells:
            del cell["id"]

    raw = spoil(released, strip_ids)
    first, second = (nbformat.writes(repair(raw, released).notebook) for _ in range(2))
    assert first == second
    assert repair(raw, released).notes == []


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_cell_is_put_back_in_its_place(released: NotebookNode, name: str) -> None:
    result = repaired(released, remove(name))
    assert [cell.id for cell in result.notebook.cells] == [cell.id for cell in released.cells]
    assert cell_of(result.notebook, name) == cell_of(released, name)
    assert [note for note in result.notes if note.startswith(f"{name} was missing")]


def test_missing_cells_find_their_place_where_the_text_is_gone_too(released: NotebookNode) -> None:
    def keep_answers(notebook: NotebookNode) -> None:
        notebook.cells = [cell for cell in notebook.cells if cell.id in SOLVED]

    result = repaired(released, keep_answers)
    assert names(result.notebook) == names(released)
    assert {cell.id: cell.source for cell in result.notebook.cells if cell.id in SOLVED} == SOLVED


def test_a_missing_check_is_restored_below_a_moved_solution(released: NotebookNode) -> None:
    def move(notebook: NotebookNode) -> None:
        remove("check_attention_scores")(notebook)
        solution = cell_of(notebook, "attention_scores")
        notebook.cells.remove(solution)
        notebook.cells.append(solution)

    result = repaired(released, move).notebook
    assert index(result, "check_attention_scores") == index(result, "attention_scores") + 1


def test_a_check_above_its_solution_is_noted(released: NotebookNode) -> None:
    def swap(notebook: NotebookNode) -> None:
        check = cell_of(notebook, "check_predict_spread")
        notebook.cells.remove(check)
        notebook.cells.insert(0, check)

    result = repaired(released, swap)
    assert result.notebook.cells[0].id == "check_predict_spread"
    assert [note for note in result.notes if "check_predict_spread is above predict_spread" in note]


def test_metadata_that_are_gone_come_back(released: NotebookNode) -> None:
    def lose(notebook: NotebookNode) -> None:
        for number, cell in enumerate(notebook.cells):
            cell.metadata = {}
            if number % 2:
                del cell["id"]

    result = repaired(released, lose)
    assert names(result.notebook) == names(released)
    assert {name: cell_of(result.notebook, name).source for name in SOLVED} == SOLVED
    assert result.tampering == []


def test_a_retyped_notebook_is_recognised_by_its_content(released: NotebookNode) -> None:
    cells = [
        nbformat.v4.new_markdown_cell("Why the root?"),
        nbformat.v4.new_markdown_cell(SOLVED["explain_root"]),
        nbformat.v4.new_code_cell(SOLVED["attention_scores"]),
        nbformat.v4.new_code_cell('check("attention_scores", globals())'),
    ]
    raw = nbformat.writes(nbformat.v4.new_notebook(cells=cells)).encode()
    result = repair(raw, released).notebook
    assert cell_of(result, "attention_scores").source == SOLVED["attention_scores"]
    assert cell_of(result, "explain_root").source == SOLVED["explain_root"]
    assert sorted(names(result)) == sorted(names(released))


def test_the_empty_half_of_a_split_answer_does_not_count(released: NotebookNode) -> None:
    def split(notebook: NotebookNode) -> None:
        rest = copy.deepcopy(cell_of(notebook, "attention_scores"))
        rest.source = "\n"
        notebook.cells.insert(index(notebook, "attention_scores") + 1, rest)

    result = repaired(released, split)
    assert cell_of(result.notebook, "attention_scores").source == SOLVED["attention_scores"]


@pytest.mark.parametrize("first", [True, False])
def test_of_two_copies_of_a_solution_the_written_one_counts(released: NotebookNode, first: bool) -> None:
    def copy_stub(notebook: NotebookNode) -> None:
        stub = copy.deepcopy(cell_of(released, "attention_scores"))
        notebook.cells.insert(index(notebook, "attention_scores") + (0 if first else 1), stub)

    result = repaired(released, copy_stub)
    assert names(result.notebook) == names(released)
    assert cell_of(result.notebook, "attention_scores").source == SOLVED["attention_scores"]
    assert [note for note in result.notes if "attention_scores occurred 2 times" in note]


@pytest.mark.parametrize("place", [0, -1])
def test_of_two_copies_of_a_check_the_one_in_its_place_counts(released: NotebookNode, place: int) -> None:
    def copy_check(notebook: NotebookNode) -> None:
        notebook.cells.insert(place, cell_of(notebook, "check_attention_scores") | {"id": "copied"})

    result = repaired(released, copy_check)
    assert names(result.notebook) == names(released)
    assert cell_of(result.notebook, "copied").cell_type == "raw"
    assert [cell.id for cell in result.notebook.cells if cell.id != "copied"] == [
        cell.id for cell in released.cells
    ]


def test_of_two_copies_without_ids_the_check_below_its_solution_counts(released: NotebookNode) -> None:
    notebook = solved(released)
    notebook.cells.insert(0, copy.deepcopy(cell_of(notebook, "check_attention_scores")))
    for cell in notebook.cells:
        del cell["id"]
    notebook.nbformat_minor = 4
    result = repair(nbformat.writes(notebook).encode(), released)
    assert names(result.notebook) == names(released)


@pytest.mark.parametrize("name", ["attention_scores", "check_attention_scores"])
@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_a_retyped_cell_is_changed_back(released: NotebookNode, name: str, kind: str) -> None:
    def retype(notebook: NotebookNode) -> None:
        cell = cell_of(notebook, name)
        cell.cell_type = kind
        del cell["outputs"], cell["execution_count"]

    result = repaired(released, retype)
    assert cell_of(result.notebook, name) == cell_of(solved(released), name)
    assert [note for note in result.notes if f"{name} was a {kind} cell" in note]


def test_an_answer_that_became_code_is_words_again(released: NotebookNode) -> None:
    def retype(notebook: NotebookNode) -> None:
        cell_of(notebook, "explain_root").update(cell_type="code", outputs=[], execution_count=1)

    result = repaired(released, retype)
    assert cell_of(result.notebook, "explain_root") == cell_of(solved(released), "explain_root")


def test_an_edited_check_is_put_back_and_told(released: NotebookNode) -> None:
    def edit(notebook: NotebookNode) -> None:
        cell_of(notebook, "check_attention_scores").source = "print('all right')"

    result = repaired(released, edit)
    assert result.notebook.cells == solved(released).cells
    assert [note for note in result.tampering if "check_attention_scores" in note]


def test_what_was_added_to_a_locked_set_up_still_runs(released: NotebookNode) -> None:
    def edit(notebook: NotebookNode) -> None:
        cell_of(notebook, "setup").source += "\nimport numpy as np"

    result = repaired(released, edit)
    place = index(result.notebook, "setup")
    assert result.notebook.cells[place].source == cell_of(released, "setup").source
    assert result.notebook.cells[place + 1].source.endswith("import numpy as np")
    assert "nbgrader" not in result.notebook.cells[place + 1].metadata
    assert result.tampering == []


@pytest.mark.parametrize(
    "forged",
    [
        {"points": 400},
        {"grade": False},
        {"locked": False},
        {"solution": True},
        {"task": True},
        {"points": "many"},
        {"points": None},
        {"grade": 7},
    ],
)
def test_forged_metadata_are_put_back_and_told(released: NotebookNode, forged: dict[str, Any]) -> None:
    def forge(notebook: NotebookNode) -> None:
        cell_of(notebook, "check_attention_scores").metadata.nbgrader.update(forged)

    result = repaired(released, forge)
    assert result.notebook.cells == solved(released).cells
    assert [note for note in result.tampering if "check_attention_scores" in note and str(*forged) in note]


@pytest.mark.parametrize("version", [None, 0, 1, 2, 4, 99, "3", True])
def test_other_versions_of_the_metadata_are_replaced(released: NotebookNode, version: object) -> None:
    def age(notebook: NotebookNode) -> None:
        for cell in notebook.cells:
            if "nbgrader" in cell.metadata:
                cell.metadata.nbgrader.schema_version = version

    result = repaired(released, age)
    assert result.notebook.cells == solved(released).cells
    assert [note for note in result.notes if note.startswith("nbgrader's metadata of setup")]


def test_cells_of_another_lesson_become_the_students_own(released: NotebookNode) -> None:
    def add(notebook: NotebookNode) -> None:
        foreign = {"grade_id": "check_LayerNorm", "grade": True, "points": 9, "locked": True}
        cell = nbformat.v4.new_code_cell("mine = 1", metadata={"nbgrader": foreign}, id="check_LayerNorm")
        notebook.cells.insert(3, cell)

    result = repaired(released, add)
    assert result.notebook.cells[3].source == "mine = 1"
    assert result.notebook.cells[3].metadata == {}
    assert [note for note in result.notes if "cell 4 claimed to be check_LayerNorm" in note]


def test_invalid_ids_are_replaced(released: NotebookNode) -> None:
    def spoil_ids(notebook: NotebookNode) -> None:
        for number, cell in enumerate(notebook.cells):
            cell.id = ["same", "", "not an id", "mark-scheme-explain_root", "x" * 65][number % 5]

    result = repaired(released, spoil_ids)
    ids = [cell.id for cell in result.notebook.cells]
    assert len(set(ids)) == len(ids)
    assert "mark-scheme-explain_root" not in ids
    assert names(result.notebook) == names(released)
    assert [note for note in result.notes if "ids" in note]


def test_a_tag_that_would_skip_a_check_is_taken_off_and_told(released: NotebookNode) -> None:
    def tag(notebook: NotebookNode) -> None:
        for cell in notebook.cells:
            cell.metadata["tags"] = ["skip-execution", "see"]

    result = repaired(released, tag)
    assert not [cell for cell in result.notebook.cells if "skip-execution" in cell.metadata.get("tags", [])]
    assert len(result.tampering) == 3  # two checks, and the explanation, which is graded too


def test_the_mark_of_a_graded_notebook_cannot_be_forged(released: NotebookNode) -> None:
    def forge(notebook: NotebookNode) -> None:
        notebook.metadata.course_grading = {"complete": True, "repairs": 7}

    result = repaired(released, forge)
    assert "course_grading" not in result.notebook.metadata
    assert result.tampering == ["it had the mark of a graded notebook; the mark was removed"]


@pytest.mark.parametrize("kernel", ["conda-env-x", "ir"])
def test_another_kernel_is_replaced(released: NotebookNode, kernel: str) -> None:
    def change(notebook: NotebookNode) -> None:
        notebook.metadata.kernelspec = {"name": kernel, "display_name": kernel}
        notebook.metadata.language_info = {"name": "R", "codemirror_mode": 7}
        notebook.metadata.language = 7

    result = repaired(released, change)
    assert result.notebook.metadata.kernelspec == released.metadata.kernelspec
    assert "language" not in result.notebook.metadata
    assert [note for note in result.notes if kernel in note]


def test_a_lesson_of_an_older_release_is_mended_without_suspicion(released: NotebookNode) -> None:
    older = copy.deepcopy(released)
    older.metadata.course.version = "0.0.1"
    cell_of(older, "check_attention_scores").metadata.nbgrader.points = 3
    cell_of(older, "check_attention_scores").source = 'check("attention_scores")'
    cell_of(older, "explain_root").metadata.nbgrader.grade_id = "explain_square_root"
    cell_of(older, "explain_root").id = "explain_square_root"
    result = repair(json.dumps(older).encode(), released)
    assert names(result.notebook) == names(released)
    assert result.tampering == []
    assert [note for note in result.notes if "from release 0.0.1" in note]


@pytest.mark.parametrize("empty", [True, False])
def test_a_notebook_that_answers_nothing_is_no_silent_zero(released: NotebookNode, empty: bool) -> None:
    def replace(notebook: NotebookNode) -> None:
        notebook.metadata.course.lesson = "02-multi-head"
        notebook.cells = [] if empty else [cell_of(notebook, "setup")]

    with pytest.raises(UnreadableError, match="notebook of lesson 02-multi-head, handed in as 01-scores"):
        repaired(released, replace)
    raw = b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    with pytest.raises(UnreadableError, match="none of the answer cells of lesson 01-scores"):
        repair(raw, released)


def test_there_is_an_end_to_notes(released: NotebookNode) -> None:
    def add(notebook: NotebookNode) -> None:
        for number in range(3000):
            metadata = {"nbgrader": {"grade_id": f"x{number}"}}
            notebook.cells.append(nbformat.v4.new_code_cell("", metadata=metadata))

    assert len(repaired(released, add).notes) < 50


# --- Random changes -----------------------------------------------------------------------------------------
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
GRADE_IDS = st.sampled_from([*NAMES, "made_up", "", "not an id!"]) | st.text(max_size=9) | JSON
FLAGS = {"grade": st.booleans() | JSON, "solution": st.booleans() | JSON, "locked": st.booleans() | JSON}
NBGRADER = st.fixed_dictionaries(
    {},
    optional=FLAGS
    | {
        "grade_id": GRADE_IDS,
        "points": st.integers(-5, 500) | st.floats() | JSON,
        "schema_version": st.integers(0, 9) | JSON,
        "cell_type": st.sampled_from(["code", "markdown", "raw"]) | JSON,
        "checksum": st.text(max_size=32) | JSON,
        "task": st.booleans() | JSON,
        "extra": JSON,
    },
)
#: Random changes, each to one key of a cell or to the list of cells.
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("metadata"), st.fixed_dictionaries({"nbgrader": NBGRADER | JSON}) | JSON),
        st.tuples(st.just("nbgrader"), NBGRADER),
        st.tuples(st.just("cell_type"), st.sampled_from(["code", "markdown", "raw", "heading"]) | JSON),
        st.tuples(st.just("source"), st.text() | st.sampled_from(list(SOLVED.values())) | JSON),
        st.tuples(st.just("id"), GRADE_IDS),
        st.tuples(st.just("outputs"), JSON),
        st.tuples(st.just("attachments"), JSON),
        st.tuples(st.sampled_from(["delete", "copy", "move", "no id", "shuffle"]), st.integers(0, 20)),
    ),
    max_size=12,
)


def change(notebook: NotebookNode, place: int, what: str, value: Any) -> None:
    cells = notebook.cells
    cell = cells[place % len(cells)]
    match what:
        case "delete":
            if len(cells) > 1:
                cells.remove(cell)
        case "copy":
            cells.insert(value % len(cells), copy.deepcopy(cell))
        case "move":
            cells.remove(cell)
            cells.insert(value, cell)
        case "no id":
            cell.pop("id", None)
        case "shuffle":
            random.Random(value).shuffle(cells)
        case "nbgrader":
            if isinstance(cell.get("metadata"), dict):
                known = cell["metadata"].get("nbgrader")
                cell["metadata"]["nbgrader"] = (known if isinstance(known, dict) else {}) | value
        case _:
            cell[what] = value


class Sanitizer:
    """nbgrader's own sanitize preprocessors with a real gradebook."""

    def __init__(self, course: SmallCourse) -> None:
        self.course = course
        self.exporter = NotebookExporter(
            config=Config({"OverwriteCells": {"add_missing_cells": True}, "Exporter": {"preprocessors": []}})
        )
        self.exporter._preprocessors = []
        for step in (ClearOutput, DeduplicateIds, OverwriteKernelspec, OverwriteCells, CheckCellMetadata):
            self.exporter.register_preprocessor(step)

    def sanitize(self, notebook: NotebookNode) -> NotebookNode:
        names = {
            "student": "anna",
            "assignment": LESSON,
            "notebook": LESSON,
            "db_url": f"sqlite:///{self.course.root}/autograder/gradebook.db",
        }
        text, _ = self.exporter.from_notebook_node(notebook, {"nbgrader": names})
        return nbformat.reads(text, as_version=4)


@pytest.fixture(scope="module")
def sanitizer(course: SmallCourse) -> Sanitizer:
    return Sanitizer(course)


@pytest.mark.slow
@settings(max_examples=100)
@given(
    changes=st.lists(st.integers(0, 30), min_size=12, max_size=12).flatmap(
        lambda places: CHANGES.map(lambda done: list(zip(places, done, strict=False)))
    )
)
def test_nbgrader_takes_whatever_comes_out(
    released: NotebookNode, sanitizer: Sanitizer, changes: list[tuple[int, tuple[str, Any]]]
) -> None:
    """Whatever the damage, the result has each released cell exactly once, with its points and its tests."""
    notebook = solved(released)
    for place, (what, value) in changes:
        change(notebook, place, what, value)
    raw = json.dumps(notebook).encode()
    try:
        result = repair(raw, released)
    except UnreadableError as error:
        assert "asks for" in str(error)  # noqa: PT017 # the only permitted error: no answer is left
        return
    sanitized = sanitizer.sanitize(result.notebook)
    solution = sanitizer.course.solution()
    assert sorted(names(sanitized)) == sorted(NAMES)
    for cell in sanitized.cells:
        if "nbgrader" in cell.metadata:
            given = cell_of(solution, cell.metadata.nbgrader.grade_id)
            for flag in ("grade", "solution", "locked", "points"):
                assert cell.metadata.nbgrader.get(flag) == given.metadata.nbgrader.get(flag)
            if given.metadata.nbgrader.locked and not given.metadata.nbgrader.solution:
                assert cell.source == given.source
    assert nbformat.writes(repair(raw, released).notebook) == nbformat.writes(result.notebook)
