"""Two files with one sentence per line become pairs, and invalid files are rejected by name."""

import gzip
from pathlib import Path

import pytest

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig
from course_lib.translation.data.corpora import load_corpus
from course_lib.translation.data.corpora.parallel_text import read_parallel_text


def files(tmp_path: Path, german: bytes, english: bytes, suffix: str = "") -> tuple[Path, Path]:
    paths = tmp_path / f"a.de{suffix}", tmp_path / f"a.en{suffix}"
    for path, content in zip(paths, (german, english), strict=True):
        path.write_bytes(content)
    return paths


def refusal(german: Path, english: Path) -> str:
    with pytest.raises(BadInputError) as refused:
        read_parallel_text(german, english)
    message = str(refused.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("zipped", [False, True])
def test_lines_become_pairs(tmp_path: Path, end: str, zipped: bool) -> None:
    german, english = (
        f"Schöne Grüße. \nEins\u2028zwei.{end}".encode(),
        f"Kind regards.\r\nOne\x85two.{end}".encode(),
    )
    if zipped:
        german, english = gzip.compress(german), gzip.compress(english)
    text = read_parallel_text(*files(tmp_path, german, english, ".gz" if zipped else ""))
    assert text.german == ["Schöne Grüße.", "Eins\u2028zwei."]
    assert text.english == ["Kind regards.", "One\x85two."]


def test_sides_of_different_length_are_refused(tmp_path: Path) -> None:
    german, english = files(tmp_path, b"eins\nzwei\n", b"one\ntwo\nthree\n")
    message = refusal(german, english)
    assert message.startswith(
        f"{german} and {english.name}: expected as many English as German sentences, and at least one, got 2"
    )


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    german, _ = files(tmp_path, b"eins\n", b"one\n")
    missing = tmp_path / "none.en"
    assert refusal(german, missing) == f"{missing}: cannot be read (No such file or directory)"


def test_empty_files_are_refused(tmp_path: Path) -> None:
    assert "got 0 German and 0 English sentences" in refusal(*files(tmp_path, b"", b""))


def test_other_encodings_are_refused_by_line(tmp_path: Path) -> None:
    german, english = files(tmp_path, "eins\nzw\xf6lf\n".encode("latin-1"), b"one\ntwelve\n")
    assert refusal(german, english) == f"{german}, line 2: not valid UTF-8. Convert the file to UTF-8."


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-5], lambda data: b"no gzip", lambda data: data[:20] + b"x" * 20]
)
def test_damaged_gzip_is_refused(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    whole = gzip.compress(b"eins zwei drei vier\n" * 100)
    german, english = files(tmp_path, damage(whole), whole, ".gz")
    assert f"{german}: this gzip file is damaged. Replace it with an intact copy." in refusal(german, english)


def test_a_folder_corpus_has_three_splits(corpus_folder: Path) -> None:
    for name in ("train.de", "train.en"):
        content = (corpus_folder / name).read_bytes()
        (corpus_folder / name).unlink()
        (corpus_folder / f"{name}.gz").write_bytes(gzip.compress(content))
    corpus = load_corpus(DataConfig(corpus="folder", folder=str(corpus_folder)))
    assert [len(corpus.train), len(corpus.validation), len(corpus.test)] == [240, 31, 23]


def test_a_file_that_is_also_there_gzipped_is_refused(corpus_folder: Path) -> None:
    (corpus_folder / "train.de.gz").write_bytes(gzip.compress(b"Hunde\n"))
    with pytest.raises(BadInputError, match=r"train\.de: there is also train\.de\.gz, .* Remove one\."):
        load_corpus(DataConfig(corpus="folder", folder=str(corpus_folder)))


def test_a_folder_without_a_file_is_refused_by_its_name(corpus_folder: Path) -> None:
    (corpus_folder / "test.en").unlink()
    with pytest.raises(BadInputError, match=r"test\.en: there is no such file, and none with \.gz"):
        load_corpus(DataConfig(corpus="folder", folder=str(corpus_folder)))
