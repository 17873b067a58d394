"""A run translates in either direction, and data or weights for the other direction are rejected by name."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from course_lib.errors import BadInputError, ExitCode
from course_lib.file_locks import try_lock
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.configs.loader import load_config
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.preparation import prepare
from course_lib.translation.data.prepared import open_run_data, validation_split
from course_lib.translation.decoding.translator import load_translator
from course_lib.translation.distributed import SINGLE_PROCESS
from course_lib.translation.train.experiment import train
from course_lib.translation.train.prepare_data import main as prepare_command
from course_lib.translation.translate import main as translate_command

pytestmark = pytest.mark.slow

Configs = Callable[..., RunConfig]
QUICK = ("training.epochs=1", "evaluation.bleu_every=0")


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def refusal(config: RunConfig) -> str:
    with pytest.raises(BadInputError) as caught:
        train(config, SINGLE_PROCESS)
    return str(caught.value)


def test_sources_and_targets_change_places(tiny_config: Configs, tmp_path: Path, corpus_folder: Path) -> None:
    back, forth = (
        prepare(
            tiny_config(f"data.direction={direction}").data,
            tmp_path / direction,
            tmp_path / f"{direction}.json",
            learn=True,
        )
        for direction in ("de-en", "en-de")
    )
    assert [(target, source) for source, target in forth.train] == list(back.train)
    assert forth.test.sources == back.test.references == lines(corpus_folder / "test.en")
    assert forth.validation.references == lines(corpus_folder / "validation.de")
    text = forth.vocabulary.decode([forth.test.pairs[0][1]])
    assert text == forth.vocabulary.decode(forth.vocabulary.encode(forth.test.references[:1]))


def test_a_run_into_german_is_trained_scored_and_used(
    tiny_config: Configs, tmp_path: Path, corpus_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = train(tiny_config(*QUICK, "data.direction=en-de"), SINGLE_PROCESS)
    assert result.references == lines(corpus_folder / "test.de")
    assert result.tokenized_score.signature.endswith("compounds:split")
    assert load_translator(tmp_path / "run").direction == "en-de"
    # Ask the same run for its own direction, and then for the opposite one.
    text = tmp_path / "text"
    text.write_text("two dogs\n")
    assert translate_command([str(tmp_path / "run"), str(text), "--to", "german"]) == 0
    assert translate_command([str(tmp_path / "run"), str(text), "--to", "english"]) == 2
    assert "this run translates en-de only, not de-en" in capsys.readouterr().err
    assert "data.direction (was en-de, now de-en)" in refusal(tiny_config(*QUICK))
    other = tiny_config(*QUICK, f"training.init_from={tmp_path / 'run'}", f"run_folder={tmp_path / 'other'}")
    assert "data.direction is en-de there and de-en here" in refusal(other)


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_run_in_both_directions_translates_both_ways_and_starts_either(
    tiny_config: Configs, tmp_path: Path
) -> None:
    train(tiny_config(*QUICK, "data.both_directions=true"), SINGLE_PROCESS)
    to_english = load_translator(tmp_path / "run")
    to_german = load_translator(tmp_path / "run", direction="en-de")
    assert (to_english.direction, to_german.direction) == ("de-en", "en-de")
    tag = [each.vocabulary.encode_source(["x"])[0][0] for each in (to_english, to_german)]
    assert tag[0] != tag[1]
    started = tiny_config(
        *(*QUICK, f"training.init_from={tmp_path / 'run'}", f"run_folder={tmp_path / 'german'}"),
        "data.direction=en-de",
    )
    train(started, SINGLE_PROCESS)
    german = load_translator(tmp_path / "german")
    assert german.vocabulary.encode_source(["x"])[0][0] == tag[1]


def test_a_folder_is_prepared_by_one_process_at_a_time(
    config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "prepared"
    given.mkdir()
    (given / ".train.ids.1.tmp").touch()
    descriptor = os.open(given, os.O_RDONLY)
    assert try_lock(descriptor)
    assert prepare_command([str(config_file), str(given)]) == ExitCode.BAD_INPUT
    assert "another process is preparing data in this folder" in capsys.readouterr().err
    os.close(descriptor)
    assert prepare_command([str(config_file), str(given)]) == 0
    assert not [*given.glob(".*.tmp")]
    (given / "vocabulary.json").unlink()
    assert prepare_command([str(config_file), str(given)]) == 0
    assert prepare_command([str(config_file), str(config_file / "x")]) == ExitCode.BAD_INPUT
    assert f"prepare: {config_file / 'x'}: Not a directory" in capsys.readouterr().err


@pytest.mark.usefixtures("shapes_unchecked")
def test_data_prepared_ahead_gives_the_same_run_without_the_corpus(
    tiny_config: Configs, config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tiny_config(*QUICK), SINGLE_PROCESS)
    given, run = tmp_path / "prepared", f"run_folder={tmp_path / 'other'}"
    assert prepare_command([str(config_file), str(given)]) == 0
    corpus = (tmp_path / "corpus").rename(tmp_path / "elsewhere")
    train(tiny_config(*QUICK, f"data.prepared={given}", run), SINGLE_PROCESS)
    train(tiny_config(*QUICK, "training.epochs=3"), SINGLE_PROCESS)  # Resume the first run.
    train(tiny_config(*QUICK, "training.epochs=3", f"data.prepared={given}", run), SINGLE_PROCESS)
    corpus.rename(tmp_path / "corpus")
    first, second = (load_translator(tmp_path / name) for name in ("run", "other"))
    text = ["zwei Hunde schlafen", "fünf Züge"]
    assert first.translate(text) == second.translate(text)
    assert not (tmp_path / "other" / "data").exists()

    # Remove the prepared data, as if it had been a copy on a node's local disk.
    shutil.rmtree(given)
    folder, data = RunFolder(tmp_path / "other"), tiny_config(f"data.prepared={given}").data
    expected = open_run_data(tmp_path / "run" / "data", tmp_path / "run" / "vocabulary.json").validation
    got = validation_split(data, folder.data, folder.vocabulary, second.vocabulary)
    assert got == (expected.source_ids, expected.references)
    assert translate_command([str(folder.path), "--tune", "--beam", "2"]) == 0
    shutil.rmtree(tmp_path / "corpus")
    assert translate_command([str(folder.path), "--tune", "--beam", "2"]) == 2
    assert "prepared no longer exists, and the corpus cannot be read: " in capsys.readouterr().err


@pytest.mark.usefixtures("shapes_unchecked")
def test_the_folder_of_a_run_is_not_prepared(
    tiny_config: Configs, config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tiny_config(*QUICK), SINGLE_PROCESS)
    run = tmp_path / "run"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for folder in (run, run / "data"):
        assert prepare_command([str(config_file), str(folder), "data.vocab_size=310"]) == 2
        assert f"{folder}: this folder is part of a run" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_prepared_data_that_does_not_fit_is_refused_by_name(
    tiny_config: Configs, config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "prepared"
    here = f"data.prepared={given}"
    assert "holds no prepared data" in refusal(tiny_config(*QUICK, here))
    assert prepare_command([str(config_file), str(given)]) == 0
    message = refusal(tiny_config(*QUICK, here, "data.direction=en-de", "data.max_length=30"))
    assert "data.direction is de-en there and en-de here; data.max_length is 40 there and 30 here" in message
    assert prepare_command([str(config_file), str(given), "data.direction=en-de"]) == 2
    assert "data.direction is de-en there" in capsys.readouterr().err
    ids = given / "train.ids"
    ids.write_bytes(ids.read_bytes()[:-2])
    assert "is damaged or incomplete" in refusal(tiny_config(*QUICK, here))
    contents = given / "contents.json"
    contents.write_text(contents.read_text().replace('"layout": 5', '"layout": 4'))
    assert "prepared by a different version of the course (layout 4, this version needs 5)" in refusal(
        tiny_config(*QUICK, here)
    )
    contents.write_text('{"layout": 5}')
    assert "holds no prepared data, or only part of it" in refusal(tiny_config(*QUICK, here))
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_the_wmt14_configs_follow_the_paper() -> None:
    for name, updates, rate, snapshots in (("wmt14-base", 100_000, 0.1, 5), ("wmt14-big", 300_000, 0.3, 20)):
        config = load_config(name)
        training, search = config.training, config.evaluation
        assert (config.data.direction, training.updates, training.epochs) == ("en-de", updates, None)
        assert (config.model.dropout, config.model.inner_dropout) == (rate, 0)
        assert (training.average_last, training.warmup_steps, training.schedule) == (snapshots, 4000, "paper")
        assert (search.beam_size, search.alpha, search.max_target_length(30)) == (4, 0.6, 80)
