"""The result store: stored results are found again, and nothing else is accepted as a result."""

import importlib.metadata
import multiprocessing
import os
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from nbformat.v4 import new_output

from autograder.judge.job import Cell, Job, Result
from autograder.judge.lesson_source import load_lesson_source
from autograder.release.build import COURSE
from autograder.results import version
from autograder.results.store import DamagedResultError, ResultStore
from autograder.results.version import checks_version, installed_version
from autograder.sandbox.limits import Limits
from tests.autograder.nbgrader.unix_accounts import accounts, why_unavailable

JOB = Job("01-scores", (Cell("only", "print(1)", False, False),), (("a.txt", b"x"),), Limits(), version="v")
RESULT = Result([[new_output("stream", text="1\ud800\n")]], {"check": {"points": 1.0}}, seconds=1.5)


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    store = ResultStore(tmp_path / "store")
    store.save(JOB, RESULT.to_json(), RESULT.seconds)
    return store


def only(store: ResultStore) -> Path:
    ((path, _),) = store.entries()
    return path


def test_a_stored_result_is_found_by_an_equal_job_only(store: ResultStore) -> None:
    assert store.load(replace(JOB)) == RESULT
    for other in (replace(JOB, version="w"), replace(JOB, files=()), replace(JOB, lesson="02")):
        assert store.load(other) is None
    assert [path.name[0] for path in store.folder.rglob("*") if path.is_file()] != ["."]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content[:-3], "checksum"),
        (lambda content: content[:20], "header"),
        (lambda content: b"", "header"),
        (lambda content: b"\xff\xfe" + content, "header"),
        (lambda content: content.replace(b'"points":1.0', b'"points":9.0'), "checksum"),
        (lambda content: content.replace(b"01-scores", b"02-scores", 1), "another job"),
        (lambda content: content.replace(b'"format":1', b'"format":7', 1), "format 7"),
        (lambda content: b"[" * 100_000, "header"),
    ],
)
def test_a_damaged_entry_is_refused(store: ResultStore, change, reason: str) -> None:
    path = only(store)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DamagedResultError, match=reason):
        store.load(JOB)
    assert list(store.entries()) == [(path, None)]
    store.save(JOB, RESULT.to_json(), 1.5)
    assert store.load(JOB) == RESULT


def test_an_entry_under_the_name_of_another_is_refused(store: ResultStore) -> None:
    other = replace(JOB, version="w")
    store.save(other, RESULT.to_json(), 1.5)
    first, second = (path for path, _ in store.entries())
    first.write_bytes(second.read_bytes())
    assert [path for path, header in store.entries() if header is None] == [first]


def test_a_result_with_other_cells_is_refused(store: ResultStore) -> None:
    store.save(JOB, Result([]).to_json(), 1.0)
    with pytest.raises(DamagedResultError, match="found 0"):
        store.load(JOB)


def save_many(folder: Path) -> None:
    for _ in range(50):
        ResultStore(folder).save(JOB, RESULT.to_json(), 1.5)


def test_several_writers_leave_one_complete_entry(tmp_path: Path) -> None:
    writers = [
        multiprocessing.get_context("fork").Process(target=save_many, args=(tmp_path / "s",))
        for _ in range(3)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    ((_, header),) = ResultStore(tmp_path / "s").entries()
    assert header is not None


@pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
def test_two_accounts_share_a_store() -> None:
    other = replace(JOB, version="w")
    with (
        tempfile.TemporaryDirectory(prefix="store-") as name,
        accounts("instructor", "assistant") as (instructor, assistant),
    ):
        os.chown(name, instructor.uid, instructor.group)
        os.chmod(name, 0o2775)
        store = ResultStore(Path(name, "store"), group_shared=True)

        def write_and_read() -> None:
            store.save(other, RESULT.to_json(), 1.0)
            store.save(JOB, RESULT.to_json(), 1.0)  # replaces the instructor's result
            assert store.load(JOB) == replace(RESULT, seconds=1.0)

        for account, function in (
            (instructor, lambda: store.save(JOB, RESULT.to_json(), 1.5)),
            (assistant, write_and_read),
            (instructor, lambda: store.save(other, RESULT.to_json(), 1.5)),
        ):
            code, printed = account.call(function, umask=0o022)
            assert code == 0, printed
        assert {stat.S_IMODE(path.stat().st_mode) & 0o660 for path, _ in store.entries()} == {0o660}


def test_the_version_of_a_lesson_depends_on_its_own_checks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    masks = load_lesson_source(COURSE, "04-masks")
    files = version._versions_for("masks").keys()
    assert {"course_lib/checks/exercises/masks/probes.py", "judge/notebook_run.py"} <= files
    assert "course_lib/translation/data/corpora/__init__.py" in files
    assert not {name for name in files if "exercises/decoding" in name or "translation/train" in name}
    assert any("translation/train" in name for name in version._versions_for("final_lab"))
    hints = replace(masks.curriculum.lessons[4], title="Another title")
    lessons = [hints if lesson.name == "04-masks" else lesson for lesson in masks.curriculum.lessons]
    renamed = replace(masks, curriculum=replace(masks.curriculum, lessons=lessons))
    assert checks_version(renamed) == checks_version(masks)
    assert checks_version(replace(masks, cells=masks.cells[:-1])) != checks_version(masks)


@pytest.mark.parametrize("package", ["torch", "sacrebleu", "spacy", "tokenizers", "pydantic", "pyyaml"])
def test_the_version_changes_with_packages_that_determine_points(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    masks, installed = load_lesson_source(COURSE, "04-masks"), importlib.metadata.version
    before = checks_version(masks)
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.0" if name == package else installed(name)
    )
    _forget_versions()
    try:
        assert checks_version(masks) != before
    finally:
        _forget_versions()


def _forget_versions() -> None:
    version._code_version.cache_clear()
    version._versions.cache_clear()


def test_an_update_does_not_change_the_version_of_a_running_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A running process keeps its old modules, even for lessons that it first uses after the update."""
    monkeypatch.setattr(version, "_AUTOGRADER", tmp_path)
    monkeypatch.setattr(version, "_COURSE_LIB", tmp_path / "course_lib")
    file = tmp_path / "judge/checks.py"
    file.parent.mkdir()
    file.write_text("old")
    masks = load_lesson_source(COURSE, "04-masks")
    _forget_versions()
    try:
        installed = installed_version()
        file.write_text("new")
        before = checks_version(masks)
        _forget_versions()
        assert (installed_version(), checks_version(masks)) != (installed, before)
        file.write_text("old")
        _forget_versions()
        assert (installed_version(), checks_version(masks)) == (installed, before)
    finally:
        _forget_versions()
