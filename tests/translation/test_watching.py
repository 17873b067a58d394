"""A run that is monitored while it writes."""

import json
from pathlib import Path

import pytest

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.train.monitoring import BackgroundRun, rows_so_far


def test_before_a_run_has_begun_there_are_no_rows(tmp_path: Path) -> None:
    assert rows_so_far(tmp_path / "not-there") == []


def test_a_line_that_is_being_written_is_left_for_the_next_time(tmp_path: Path) -> None:
    whole = json.dumps({"step": 1, "loss": 2.0}) + "\n"
    path = RunFolder(tmp_path).metrics
    path.write_text(whole + '{"step": 2, "lo')
    assert rows_so_far(tmp_path) == [{"step": 1, "loss": 2.0}]
    path.write_text(whole + whole)
    assert len(rows_so_far(tmp_path)) == 2


def test_what_a_run_says_is_known_also_when_it_refuses(tmp_path: Path) -> None:
    run = BackgroundRun("no-such-config", tmp_path / "run")
    assert run.wait() == 2
    assert not run.running
    assert run.rows() == []
    assert "no-such-config" in run.last_line()


def test_a_run_begins_anew_where_one_was(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    BackgroundRun("no-such-config", folder).stop()
    RunFolder(folder).metrics.write_text('{"step": 7}\n')
    again = BackgroundRun("no-such-config", folder, restart=True)
    again.stop()
    assert again.rows() == []


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("three years of work")
    with pytest.raises(BadInputError, match="this folder holds something other than a run"):
        BackgroundRun("captions", tmp_path, restart=True)
    assert (tmp_path / "thesis.txt").read_text() == "three years of work"
