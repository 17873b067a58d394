"""The grading record in a notebook's metadata: a damaged or missing one is read as an empty record."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_notebook

from autograder.graded_notebooks.record import GRADING, GradingRecord


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = GradingRecord(
        complete=True,
        handed_in="a digest",
        depends_on={"checks": "a hash"},
        tampering=["it had the mark of a graded notebook"],
        findings={"check_scores": {"name": "scores", "verdict": "right", "statements": []}},
    )
    notebook = new_notebook()
    written.write(notebook)
    assert GradingRecord.of(notebook) == written
    nbformat.write(notebook, tmp_path / "graded.ipynb")
    assert GradingRecord.read(tmp_path / "graded.ipynb") == written


@pytest.mark.parametrize(
    "record",
    [None, 7, [], {"repairs": 7}, {"findings": ["x"]}, {"complete": "true"}, {"depends_on": {"checks": 7}}],
)
def test_a_damaged_record_is_an_empty_one(record: object, tmp_path: Path) -> None:
    damaged = {"complete": True, **record} if isinstance(record, dict) else record
    notebook = new_notebook(metadata={GRADING: damaged})
    assert GradingRecord.of(notebook) == GradingRecord()
    (tmp_path / "graded.ipynb").write_text(nbformat.writes(notebook))
    assert GradingRecord.read(tmp_path / "graded.ipynb") == GradingRecord()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"metadata": {}}', "[" * 100_000])
def test_a_damaged_notebook_has_an_empty_record(text: str, tmp_path: Path) -> None:
    (tmp_path / "graded.ipynb").write_text(text)
    assert GradingRecord.read(tmp_path / "graded.ipynb") == GradingRecord()
    assert GradingRecord.read(tmp_path / "missing.ipynb") == GradingRecord()


def test_a_link_has_an_empty_record(tmp_path: Path) -> None:
    notebook = new_notebook()
    GradingRecord(complete=True).write(notebook)
    nbformat.write(notebook, tmp_path / "elsewhere.ipynb")
    (tmp_path / "graded.ipynb").symlink_to(tmp_path / "elsewhere.ipynb")
    assert GradingRecord.read(tmp_path / "graded.ipynb") == GradingRecord()
