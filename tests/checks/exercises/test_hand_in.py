"""Files that are handed in: their points, and the messages for files without points."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from course_lib.checks import check
from course_lib.checks.engine.findings import Finding, record
from course_lib.checks.exercises.final_lab.hand_in import (
    CONFIG,
    MAX_BYTES,
    METRICS,
    TRANSLATIONS,
    FileVerdict,
    handed_in,
    judge_file,
)
from course_lib.checks.exercises.final_lab.translation_score import SENTENCES, references
from course_lib.checks.notebook import CheckError
from course_lib.translation.checkpoints.provided import find_run
from course_lib.translation.configs.loader import documented_yaml, load_config, provided_configs
from course_lib.translation.data.corpora import load_captions
from course_lib.translation.train.scoring import score

LEVELS = {"captions": [[30, 2], [60, 4], [80, 8]], "multi30k": [[15, 2], [33, 8]]}
ENGLISH = load_captions().test.english
EDITED = documented_yaml(load_config("captions", ["training.warmup_steps=300"])).encode()


def rows(count: int = 20, **changes: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"step": 10 * number, "epoch": 1, "loss": 5.0 / number, "lr": 0.001, "padded": 0.1}
        for number in range(1, count + 1)
    ]
    return [*made, {"step": 10 * count, "test_bleu": 50.0, "signature": "nrefs:1"} | changes]


def written(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def lines(sentences: list[str]) -> bytes:
    return "".join(f"{sentence}\n" for sentence in sentences).encode()


def metrics(content: bytes) -> FileVerdict:
    with handed_in({CONFIG.file: EDITED, METRICS.file: content}):
        return judge_file(METRICS, {})


def translations(content: bytes, **others: bytes) -> FileVerdict:
    with handed_in(
        {
            CONFIG.file: EDITED,
            TRANSLATIONS.file: content,
            **{name.replace("_", "."): it for name, it in others.items()},
        }
    ):
        return judge_file(TRANSLATIONS, LEVELS)


def worse(share: float) -> list[str]:
    """Return translations in which a share of the sentences has its words in reverse order."""
    turned = int(share * len(ENGLISH))
    return [" ".join(line.split()[::-1]) for line in ENGLISH[:turned]] + ENGLISH[turned:]


@pytest.fixture
def fresh_references() -> Iterator[None]:
    references.cache_clear()
    yield
    references.cache_clear()


def test_what_a_run_writes_is_worth_everything() -> None:
    found = metrics(written(rows()))
    assert found.share == 1
    assert found.message == (
        "After 200 updates, the mean loss has fallen from 2.60 in the first fifth of the run to 0.27 in the "
        "last, and the test score is 50.0"
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "expected at least 8 rows with a loss, found 0"),
        (b"\xff\xfe", "expected UTF-8, but line 1 has invalid bytes"),
        (b"not json\n", "line 1: expected one JSON object, found 'not json'"),
        (b"[1, 2]\n", "line 1: expected one JSON object, found [1, 2]"),
        (b"[" * 100_000, "line 1: expected one JSON object"),
        (b'{"loss": 1}\n', 'line 1: expected an integer "step", found None'),
        (b'{"step": true}\n', 'expected an integer "step", found True'),
        (b'{"step": 1' + b"0" * 400 + b"}\n", 'expected an integer "step"'),
        (b'{"step": 1, "loss": NaN}\n', 'line 1: expected "loss" to be from 0 to 1e+06, found nan'),
        (b'{"step": 1, "loss": 1e999}\n', 'line 1: expected "loss" to be from 0 to 1e+06, found inf'),
        (b'{"step": 1, "loss": "low"}\n', "found 'low'"),
        (b'{"step": 1, "padded": 1.5}\n', 'expected "padded" to be from 0 to 1, found 1.5'),
        (b'{"step": 1, "lr": -0.1}\n', 'expected "lr" to be from 0 to 1e+06, found -0.1'),
        (b'{"step": 9}\n{"step": 8}\n', "line 2: expected rising steps, but 8 follows 9"),
        (written(rows(5)), "expected at least 8 rows with a loss, found 5. Train longer"),
        (written(rows()[:-1]), "the run has not finished"),
        (written(rows(test_bleu=101)), 'expected "test_bleu" to be from 0 to 100.1, found 101'),
        (
            written([{**row, "loss": row["step"] / 100} for row in rows()[:-1]]),
            "expected a falling loss, but its mean is 0.25 in the first fifth of the rows, and 1.85 in the",
        ),
    ],
)
def test_what_no_run_has_written_is_worth_nothing(content: bytes, says: str) -> None:
    found = metrics(content)
    assert found.share == 0
    assert says in found.message


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        *((name, []) for name in provided_configs()),
        ("captions", ["seed=7", "run_folder=elsewhere", "training.threads=1", "training.log_every=5"]),
        ("captions", ["training.average_last=5", "training.precision=float32", "evaluation.beam_size=2"]),
    ],
)
def test_an_unedited_config_is_worth_nothing(name: str, overrides: list[str]) -> None:
    config = documented_yaml(load_config(name, overrides)).encode()
    files = {CONFIG.file: config, METRICS.file: written(rows()), TRANSLATIONS.file: lines(worse(0.05))}
    with handed_in(files):
        for entry in (CONFIG, METRICS, TRANSLATIONS):
            found = judge_file(entry, LEVELS)
            assert found.share == 0
            assert f"match the provided configuration {name}." in found.message


@pytest.mark.parametrize("edit", ["model.dropout=0.2", "training.epochs=9", "data.vocab_size=1500"])
def test_an_edited_config_earns_its_points(edit: str) -> None:
    with handed_in({CONFIG.file: documented_yaml(load_config("captions", [edit])).encode()}):
        assert judge_file(CONFIG, {}).share == 1


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[1", b"model: {layers: 0}", b"\xff", b"run_folder: 2020-99-99", b"seed: !!int ''"),
        *(b"a: " + b"[" * 20_000, b"seed: " + b"9" * 5_000, b"seed: 0x" + b"f" * 5_000, b"a: b\n" * 20_000),
        b"a: &a [x, x]\nb: [*a, *a]",
    ],
)
def test_what_is_no_config_says_so(content: bytes) -> None:
    with handed_in({CONFIG.file: content, METRICS.file: written(rows())}):
        says = judge_file(CONFIG, {}).message
        assert says.startswith("In config.yaml: ")
        assert len(says) < 600
        assert judge_file(METRICS, {}).share == 0


def test_a_run_without_its_config_is_worth_nothing() -> None:
    with handed_in({METRICS.file: written(rows())}):
        assert judge_file(METRICS, {}).message == "No file config.yaml was handed in with the notebook."


def test_translations_are_worth_what_their_score_is() -> None:
    shares = {share: translations(lines(worse(share))) for share in (0.05, 0.3, 0.6, 0.95)}
    for share, found in shares.items():
        bleu = score(worse(share), ENGLISH).bleu
        reached = max([points for least, points in LEVELS["captions"] if bleu >= least], default=0)
        assert found.share == reached / 8
        assert f"BLEU {bleu:.1f} on captions" in found.message
        assert f"{reached} of 8 points" in found.message
    assert len({found.share for found in shares.values()}) >= 3
    assert "For more points you need BLEU" in shares[0.6].message
    assert "There would be" not in shares[0.05].message


def test_translations_into_german_are_scored_against_german_references() -> None:
    german = load_captions().test.german
    config = documented_yaml(load_config("captions", ["data.direction=en-de"])).encode()
    found = translations(lines(german), config_yaml=config)
    assert found.share == 1
    assert "BLEU 100.0 on captions into German" in found.message
    assert translations(lines(ENGLISH), config_yaml=config).share == 0


def test_windows_lines_and_a_mark_at_the_beginning_do_no_harm() -> None:
    plain = translations(lines(worse(0.05)))
    assert translations(b"\xef\xbb\xbf" + lines(worse(0.05)).replace(b"\n", b"\r\n")) == plain
    assert metrics(b"\xef\xbb\xbf" + written(rows()).replace(b"\n", b"\r\n")) == metrics(written(rows()))
    assert translations(lines(worse(0.05)).removesuffix(b"\n")) == plain
    # Python's splitlines would split a line at this character, but a file's lines don't end there.
    strange = [line.replace(" ", "\u2028", 1) for line in worse(0.05)]
    assert "on captions" in translations(lines(strange)).message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "a test set: 300 (captions) or 1,000 (multi30k), found 0"),
        (lines(ENGLISH[:299]), "found 299"),
        (lines([*ENGLISH, "one more"]), "found 301"),
        (lines(ENGLISH[:7]) + b"caf\xe9\n", "expected UTF-8, but line 8 has invalid bytes"),
        (b"x" * (MAX_BYTES + 1), "The file translations.txt is 4.2 MB, but the limit is 4.2 MB"),
    ],
)
def test_what_cannot_be_scored_says_why(content: bytes, says: str) -> None:
    found = translations(content)
    assert (found.share, found.verdict) == (0, "wrong")
    assert says in found.message


def test_empty_lines_are_translations_too() -> None:
    assert "BLEU 0.0 on captions" in translations(b"\n" * 300).message


def test_a_file_that_is_not_there_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with handed_in({"notes.txt": b""}):
        found = judge_file(METRICS, {})
        assert (found.share, found.verdict) == (0, "missing")
    monkeypatch.chdir(tmp_path)
    assert judge_file(METRICS, {}).message == "There is no file metrics.jsonl next to this notebook yet."
    (tmp_path / METRICS.file).mkdir()
    assert judge_file(METRICS, {}).verdict == "missing"


def test_a_students_own_file_is_next_to_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / CONFIG.file).write_bytes(EDITED)
    (tmp_path / METRICS.file).write_bytes(written(rows()))
    assert judge_file(METRICS, {}).share == 1
    (tmp_path / METRICS.file).write_bytes(b"x" * (MAX_BYTES + 1))
    assert "the limit is 4.2 MB" in judge_file(METRICS, {}).message


def test_the_references_themselves_are_for_a_person_to_look_at() -> None:
    copied = translations(lines(ENGLISH))
    assert copied.share == 1
    assert copied.review.startswith("translations.txt is the reference, word for word (BLEU 100.0)")
    assert translations(lines(worse(0.05))).review == ""


@pytest.mark.skipif("COURSE_DATA" not in os.environ, reason="COURSE_DATA is not set")
def test_translations_of_the_provided_model_are_for_a_person_to_look_at() -> None:
    written = find_run("multi30k")[0].path / "test_2016_flickr.en"
    sentences = written.read_text("utf-8").splitlines()
    assert translations(lines(sentences)).review == (
        "100% of translations.txt matches the output of the model that comes with the course"
    )
    others = [f"{sentence} !" if number % 2 else sentence for number, sentence in enumerate(sentences)]
    assert translations(lines(others)).review == ""


def test_translations_far_better_than_their_run_are_for_a_person_to_look_at() -> None:
    good = lines(worse(0.05))
    assert translations(good, metrics_jsonl=written(rows(test_bleu=20))).review.endswith(
        "but metrics.jsonl reports 20.0"
    )
    assert translations(good, metrics_jsonl=written(rows(test_bleu=90))).review == ""
    assert translations(good, metrics_jsonl=b"not json").review == ""


def test_where_the_references_are_not_there_the_score_has_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_references: None
) -> None:
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    found = translations(b"a translation\n" * 1000)
    assert (found.share, found.verdict) == (0, "error")
    assert (
        "the references of multi30k are not on this machine, so the file can't be scored yet" in found.message
    )
    assert "set COURSE_DATA and grade again" in found.review


def test_the_sentences_are_counted_right(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SENTENCES["captions"] == len(ENGLISH)
    right = references("multi30k")
    if isinstance(right, str):
        pytest.skip("the published files of Multi30k are not available")
    assert SENTENCES["multi30k"] == len(right)
    assert "on multi30k" in translations(lines(right)).message


def checked(name: str, content: bytes, points: float | None) -> tuple[float | None, Finding]:
    grading = None if points is None else {"points": points, "seed": 1}
    files = {CONFIG.file: EDITED, METRICS.file: content, TRANSLATIONS.file: content}
    with handed_in(files), record() as findings:
        given = check(name, {}, levels=LEVELS, grading=grading)
    return given, findings[0]


def test_a_graded_check_gives_points(capsys: pytest.CaptureFixture[str]) -> None:
    given, finding = checked(METRICS.name, written(rows()), points=2)
    assert given is None  # nbgrader gives full points for None
    assert finding.verdict == "right"
    given, finding = checked(TRANSLATIONS.name, lines(worse(0.3)), points=8)
    assert given == 4
    assert finding.verdict == "wrong"
    assert finding.statements[0].startswith("BLEU ")
    said = capsys.readouterr().out
    assert "✓ hand_in_metrics: After 200 updates" in said
    assert "◐ hand_in_translations: BLEU" in said


def test_a_check_in_a_students_notebook_says_it_without_points(capsys: pytest.CaptureFixture[str]) -> None:
    given, _ = checked(TRANSLATIONS.name, lines(worse(0.3)), points=None)
    assert given is None
    assert "4 of 8 points" in " ".join(capsys.readouterr().out.split())


def test_a_file_that_is_worth_nothing_fails_the_check() -> None:
    with pytest.raises(CheckError, match=r"✗ hand_in_metrics: In metrics\.jsonl: line 1"):
        checked(METRICS.name, b"what?", points=2)
