"""Multi30k is read from a mirror folder or a server, and rejected if it differs from the published corpus."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig
from course_lib.translation.data import corpora
from course_lib.translation.data.corpora import load_corpus
from course_lib.translation.data.corpora.published import MULTI30K
from tests.translation.web_server import Answer

NAMES = [file.name for file in MULTI30K.files]


def refusal(function: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(BadInputError) as refused:
        function(*arguments)
    message = str(refused.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("inside", [True, False])
def test_a_mirror_is_read_from_itself_or_its_subfolder(published: Path, tmp_path: Path, inside: bool) -> None:
    mirror = tmp_path / "mirror"
    shutil.copytree(published, mirror / "multi30k" if inside else mirror)
    corpus = MULTI30K.load(mirror)
    assert [len(corpus.train), len(corpus.validation), len(corpus.test)] == [29000, 1014, 1000]
    assert corpus.train.german[0] == "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche."
    assert corpus.train.english[0] == "Two young, White males are outside near many bushes."


def test_the_variable_names_the_mirror(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_DATA", str(published))
    assert len(load_corpus(DataConfig(corpus="multi30k")).test) == 1000


def test_the_config_names_the_mirror_before_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "variable"))
    with pytest.raises(BadInputError, match=r"mirror folder .*config or its subfolder"):
        load_corpus(DataConfig(corpus="multi30k", mirror=str(tmp_path / "config")))


def test_the_missing_files_of_a_mirror_are_named(tmp_path: Path) -> None:
    message = refusal(MULTI30K.load, tmp_path)
    assert message.startswith("multi30k: train.de.gz, train.en.gz, val.de.gz, val.en.gz, ")
    assert f"not found in the mirror folder {tmp_path} or its subfolder multi30k. " in message


def test_a_changed_file_of_a_mirror_is_refused(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_bytes(gzip.compress(b"eins\n"))
    assert f"{tmp_path / 'train.de.gz'}: not the published file" in refusal(MULTI30K.load, tmp_path)


def test_without_a_mirror_the_user_s_cache_is_read(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(published, tmp_path / "multi30k")
    monkeypatch.setattr(corpora.published, "user_cache_path", lambda name: tmp_path)
    assert len(MULTI30K.load().test) == 1000


def test_neither_mirror_nor_download_says_what_would_do(
    tmp_path: Path, server: Callable[[Answer], str]
) -> None:
    url = server(lambda handler, name: handler.send_error(404))
    message = refusal(MULTI30K.fetch, tmp_path, url)
    assert message.startswith(
        f"{url}train.de.gz: cannot be downloaded (the server responded 404 Not Found). Or"
    )
    assert "set COURSE_DATA to its path (subfolder multi30k contains train.de.gz, train.en" in message
