"""The provided model translates in both directions as its card says, and damage to it is detected."""

import gzip
import re
import shutil
from pathlib import Path

import pytest
import torch
from sacrebleu.metrics import BLEU

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints import provided
from course_lib.translation.checkpoints.provided import find_run, load_provided, provide, provided_models
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.checkpoints.trained_model import load_trained_run
from course_lib.translation.configs.schema import Direction
from course_lib.translation.decoding.translator import load_translator
from course_lib.translation.translate import main

FOLDER = find_run("multi30k")[0].path
TEST = "test_2016_flickr"


def test_it_is_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.iterdir()]
    assert sum(sizes) <= 8_000_000
    assert max(sizes) < 500_000


def test_it_translates_both_ways(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert provided_models() == ["multi30k"]
    for language, sentence, expected in (
        (
            "english",
            "Ein Hund schläft auf dem Sofa.",
            r"A dog (is sleeping|sleeps) on (the|a) (couch|sofa)\.",
        ),
        (
            "german",
            "A dog is sleeping on the couch.",
            r"Ein Hund schläft auf (der|dem|einem|einer) (Couch|Sofa)\.",
        ),
    ):
        (tmp_path / "text").write_text(f"{sentence}\n", "utf-8")
        assert main(["multi30k", "--to", language, str(tmp_path / "text")]) == 0
        assert re.fullmatch(expected, capsys.readouterr().out.strip())


def test_a_folder_of_the_same_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("multi30k").mkdir()
    assert find_run("multi30k") == (RunFolder(Path("multi30k")), False)


def test_what_it_cannot_do_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for option, message in (
        (["--tune"], "the length penalty of a provided model is already tuned"),
        (
            ["--checkpoint", "best"],
            "the provided model multi30k has only one checkpoint. Leave out this option",
        ),
    ):
        assert main(["multi30k", *option]) == 2
        assert message in capsys.readouterr().err


def test_a_wrong_name_or_a_file_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("seed: 1", "utf-8")
    for name, message in (
        (
            "multi31k",
            "multi31k: there is no such folder. Pass the folder of a run or a provided model (multi30k). Did "
            'you mean "multi30k"?',
        ),
        (f"{tmp_path / 'my.yaml'}", f"{tmp_path / 'my.yaml'}: this is a file. Pass the folder of a run."),
    ):
        assert main([name]) == 2
        assert capsys.readouterr().err == f"translate: {message}\n"


@pytest.mark.slow
def test_a_run_can_be_provided(trained_folder: Path, tmp_path: Path) -> None:
    run = RunFolder(trained_folder)
    provide(run, tmp_path)
    expected, found = load_trained_run(run), load_provided(RunFolder(tmp_path))
    assert found.vocabulary.fingerprint == expected.vocabulary.fingerprint
    assert found.model.step == expected.model.step
    assert found.model.weights.keys() == expected.model.weights.keys()
    for name, weight in expected.model.weights.items():
        torch.testing.assert_close(found.model.weights[name], weight.half().float(), rtol=0, atol=0)


@pytest.mark.slow
def test_a_model_of_many_pieces_is_put_together(
    trained_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provided, "_PIECE_BYTES", 500)
    provide(RunFolder(trained_folder), tmp_path / "model")
    assert len(list((tmp_path / "model").glob("model.safetensors.*"))) > 100
    load_provided(RunFolder(tmp_path / "model"))
    (tmp_path / "model" / "model.sha256").unlink()
    with pytest.raises(BadInputError, match="the provided model is damaged"):
        load_provided(RunFolder(tmp_path / "model"))


@pytest.mark.parametrize("piece", ["model.safetensors.00", "model.safetensors.07"])
def test_damage_is_detected(piece: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(FOLDER, copy)
    content = bytearray((copy / piece).read_bytes())
    content[-1] ^= 1
    (copy / piece).write_bytes(content)
    with pytest.raises(BadInputError, match="the provided model is damaged"):
        load_provided(RunFolder(copy))
    (copy / piece).unlink()
    with pytest.raises(BadInputError, match="the provided model is damaged"):
        load_provided(RunFolder(copy))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("direction", "count"),
    [
        ("de-en", 100),
        pytest.param("de-en", 1000, marks=pytest.mark.nightly),
        pytest.param("en-de", 1000, marks=pytest.mark.nightly),
    ],
)
def test_the_scores_of_its_card(published: Path, direction: Direction, count: int) -> None:
    source, target = (
        gzip.decompress((published / f"{TEST}.{language}.gz").read_bytes()).decode().splitlines()
        for language in direction.split("-")
    )
    found = load_translator("multi30k", direction=direction).translate(source[:count])
    if direction == "de-en":
        kept = (FOLDER / f"{TEST}.en").read_text("utf-8").splitlines()
        assert sum(one == other for one, other in zip(found, kept, strict=False)) > 0.98 * count
        found += kept[count:]
    card = (FOLDER / "README.md").read_text("utf-8")
    [score] = re.findall(rf"^\| {direction} \| ([0-9.]+) \|", card, re.MULTILINE)
    assert abs(BLEU().corpus_score(found, [target]).score - float(score)) < 0.1
