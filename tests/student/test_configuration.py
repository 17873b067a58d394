"""The students' configuration, which `tests/autograder/nbgrader/test_exchange.py` also uses."""

from pathlib import Path

import pytest
from traitlets.config import PyFileConfigLoader

from course_lib.student.configuration import main, write_configuration


def test_jupyter_and_nbgrader_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    nbgrader, server = write_configuration(tmp_path / "jupyter", Path("/srv/ex'change"), "a-course")
    config = PyFileConfigLoader(nbgrader.name, path=str(nbgrader.parent)).load_config()
    assert (config.Exchange.root, config.CourseDirectory.course_id) == ("/srv/ex'change", "a-course")
    config = PyFileConfigLoader(server.name, path=str(server.parent)).load_config()
    assert config.LabApp.default_url == "/lab/tree/a-course/start.md"
    assert (Path(config.LabApp.app_settings_dir) / "overrides.json").is_file()
    [extensions] = config.LabApp.extra_labextensions_path
    assert list(Path(extensions).glob("*/static/start_page.js"))
    assert (tmp_path / "a-course" / "start.md").is_file()


def test_it_replaces_only_its_own_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["/srv/exchange", "--into", str(tmp_path)]) == 0
    assert main(["/srv/other", "--into", str(tmp_path)]) == 0
    assert "/srv/other" in (tmp_path / "nbgrader_config.py").read_text(encoding="utf-8")
    (tmp_path / "jupyter_server_config.py").write_text("c = get_config()\n", encoding="utf-8")
    assert main(["/srv/third", "--into", str(tmp_path)]) == 1
    assert "was not written by this command" in capsys.readouterr().err
    assert "/srv/other" in (tmp_path / "nbgrader_config.py").read_text(encoding="utf-8")


def test_a_relative_exchange_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exchange", "--into", str(tmp_path)]) == 1
    assert "exchange is a relative path" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("course_id", ["", "..", "a/b"])
def test_a_course_id_that_is_no_folder_name_is_refused(
    course_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["/srv/exchange", "--course-id", course_id, "--into", str(tmp_path)]) == 1
    assert f"expected the name of a folder, got {course_id!r}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
