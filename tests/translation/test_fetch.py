"""The lab reads a mirror folder that was downloaded on another machine."""

from collections.abc import Callable
from pathlib import Path

import pytest

from course_lib.errors import ExitCode
from course_lib.translation.data.corpora.published import MULTI30K
from course_lib.translation.fetch import main
from tests.translation.web_server import Answer, send


def test_what_is_fetched_is_a_mirror(
    published: Path, tmp_path: Path, server: Callable[[Answer], str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []
    url = server(
        lambda handler, name: (asked.append(name), send(handler, (published / name).read_bytes()))[1]
    )
    for _ in range(2):
        assert main(["multi30k", str(tmp_path), "--url", url]) == 0
    assert sorted(asked) == sorted(file.name for file in MULTI30K.files), (
        "existing files are not downloaded again"
    )
    assert MULTI30K.load(tmp_path) == MULTI30K.load(published)
    assert f"set COURSE_DATA={tmp_path}" in capsys.readouterr().out


def test_no_success_is_said_in_one_line(
    tmp_path: Path, server: Callable[[Answer], str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = server(lambda handler, name: handler.send_error(404))
    assert main(["wmt14", str(tmp_path), "--url", url]) == ExitCode.BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"fetch: {url}training-parallel-europarl-v7.tgz: cannot be downloaded (the server")


def test_an_unknown_corpus_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["captions", str(tmp_path)])
    assert ended.value.code == ExitCode.BAD_INPUT
    assert "invalid choice: 'captions'" in capsys.readouterr().err
