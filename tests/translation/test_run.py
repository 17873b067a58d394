"""A run keeps what it promises, goes on exactly where it was, and refuses what isn't its own."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from real_processes import in_processes, kill, results, start

from course_lib.translation.checkpoint import Checkpoints, load_checkpoint
from course_lib.translation.config import RunConfig, load_config
from course_lib.translation.distributed import FirstRefusedError, Place
from course_lib.translation.errors import BadInputError
from course_lib.translation.metrics import MEASURED
from course_lib.translation.run import Result, choose_device, train
from course_lib.translation.scoring import score

ALONE = Place(rank=0, world_size=1, local_rank=0, local_world_size=1)


def run(config: RunConfig) -> Result:
    return train(config, ALONE)


def run_in_process(place: Place, config: RunConfig) -> float:
    return train(config, place).score.bleu


def refusal(place: Place, config: RunConfig) -> tuple[str, str]:
    try:
        train(config, place)
    except BadInputError as error:
        return type(error).__name__, str(error)
    return "", ""


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]


def without_speed(folder: Path) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key not in MEASURED} for row in rows(folder)]


def newest(folder: Path) -> dict[str, Any]:
    path = Checkpoints(folder / "checkpoints", 3).find().path
    assert path is not None
    return load_checkpoint(path)


def final_weights(folder: Path) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = newest(folder)["trainer"]["model"]
    return weights


def assert_same_weights(got: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(got[name], value), name


def test_a_run_keeps_what_it_did(tiny_config: Callable[..., RunConfig], tmp_path: Path) -> None:
    config = tiny_config("training.epochs=3")
    result = run(config)
    folder = tmp_path / "run"
    assert sorted(path.name for path in folder.iterdir()) == [
        "checkpoints",
        "config.yaml",
        "data",
        "metrics.jsonl",
        "models",
        "search.json",
        "translations.txt",
        "vocabulary.json",
    ]
    assert load_config(str(folder / "config.yaml")) == config

    translations = (folder / "translations.txt").read_text("utf-8").removesuffix("\n").split("\n")
    references = (tmp_path / "corpus" / "test.en").read_text("utf-8").splitlines()
    assert translations == result.translations
    assert len(translations) == len(references)
    assert score(translations, references) == result.score

    every_row = rows(folder)
    training = [row for row in every_row if "loss" in row]
    validation = [row for row in every_row if "validation_loss" in row]
    updates = validation[0]["step"]
    assert [row["step"] for row in validation] == [updates, 2 * updates, 3 * updates]
    assert [row["epoch"] for row in validation] == [1, 2, 3]
    assert {row["step"] for row in training} == {
        step for step in range(1, 3 * updates + 1) if step % 4 == 0 or step % updates == 0
    }
    assert all(row.keys() == {"step", "epoch", "rate", "loss", "padded", *MEASURED} for row in training)
    assert all(0 <= row["padded"] < 0.5 and row["tokens_per_second"] > 0 for row in training)
    assert (
        validation[0]["validation_loss"] > validation[1]["validation_loss"] > validation[2]["validation_loss"]
    )
    assert all("bleu" in row for row in validation)
    assert every_row[-1]["test_bleu"] == result.score.bleu
    assert every_row[-1]["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")


def test_validation_counts_as_often_as_the_config_says(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    run(tiny_config("training.epochs=4", "evaluation.bleu_every=2"))
    validation = [row for row in rows(tmp_path / "run") if "validation_loss" in row]
    assert [("bleu" in row) for row in validation] == [False, True, False, True]


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_killed_run_goes_on_as_if_nothing_had_been(
    tiny_config: Callable[..., RunConfig], tmp_path: Path, world_size: int
) -> None:
    whole = tiny_config(f"run_folder={tmp_path / 'whole'}")
    in_processes(world_size, run_in_process, whole)

    killed = tiny_config(f"run_folder={tmp_path / 'killed'}")
    metrics = tmp_path / "killed" / "metrics.jsonl"
    for lines in (1, 3, 6):
        started = start(world_size, run_in_process, killed)
        deadline = time.monotonic() + 60
        while not metrics.exists() or metrics.read_bytes().count(b"\n") < lines:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        kill(started)
        assert not (tmp_path / "killed" / "translations.txt").exists(), (
            "it should have been killed before its end"
        )
    results(start(world_size, run_in_process, killed))

    assert_same_weights(final_weights(tmp_path / "killed"), final_weights(tmp_path / "whole"))
    assert without_speed(tmp_path / "killed") == without_speed(tmp_path / "whole")
    assert (tmp_path / "killed" / "translations.txt").read_bytes() == (
        tmp_path / "whole" / "translations.txt"
    ).read_bytes()


def test_any_number_of_processes_scores_alike(tiny_config: Callable[..., RunConfig], tmp_path: Path) -> None:
    for world_size in (1, 2, 3):
        folder = tmp_path / f"run-{world_size}"
        config = tiny_config("training.precision=float64", f"run_folder={folder}")
        scores = in_processes(world_size, run_in_process, config)
        assert len(set(scores)) == 1
    first = without_speed(tmp_path / "run-1")
    for folder in (tmp_path / "run-2", tmp_path / "run-3"):
        for got, expected in zip(without_speed(folder), first, strict=True):
            words = {key: value for key, value in expected.items() if isinstance(value, str)}
            assert {key: got.pop(key, None) for key in words} == words
            numbers = {key: value for key, value in expected.items() if key not in words}
            assert got == pytest.approx(numbers, rel=1e-9)


def test_one_process_finishes_what_two_began(tiny_config: Callable[..., RunConfig], tmp_path: Path) -> None:
    exact = "training.precision=float64"
    in_processes(2, run_in_process, tiny_config(exact, "training.epochs=1"))
    run(tiny_config(exact))
    run(tiny_config(exact, f"run_folder={tmp_path / 'alone'}"))
    got, expected = final_weights(tmp_path / "run"), final_weights(tmp_path / "alone")
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


def test_a_finished_run_started_again_only_scores_again(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    first = run(tiny_config())
    before = rows(tmp_path / "run")
    again = run(tiny_config())
    assert again == first
    assert rows(tmp_path / "run") == before


def test_a_finished_run_can_be_made_longer(tiny_config: Callable[..., RunConfig], tmp_path: Path) -> None:
    run(tiny_config("training.epochs=1"))
    longer = tiny_config("training.epochs=2")
    run(longer)
    run(tiny_config(f"run_folder={tmp_path / 'at once'}"))
    assert_same_weights(final_weights(tmp_path / "run"), final_weights(tmp_path / "at once"))
    assert without_speed(tmp_path / "run") == without_speed(tmp_path / "at once")
    assert load_config(str(tmp_path / "run" / "config.yaml")) == longer


def test_a_checkpoint_of_another_config_is_refused_by_its_keys(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    run(tiny_config("training.epochs=1"))
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*.*")}
    with pytest.raises(BadInputError) as refused:
        run(tiny_config("model.d_ff=64", "seed=7"))
    message = str(refused.value)
    assert "step-00000007.pt is of another config: " in message
    assert "seed (was 1, now 7), model.d_ff (was 32, now 64);" in message
    assert "\n" not in message
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*.*")} == before


def test_what_shapes_no_weight_may_change(tiny_config: Callable[..., RunConfig], tmp_path: Path) -> None:
    first = run(tiny_config())
    (tmp_path / "run").rename(tmp_path / "moved")
    moved = tiny_config(f"run_folder={tmp_path / 'moved'}", "training.log_every=7", "training.threads=1")
    assert run(moved).translations == first.translations


def test_the_vocabulary_of_another_run_is_refused(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    run(tiny_config("training.epochs=1"))
    run(tiny_config("training.epochs=1", "data.vocabulary_size=300", f"run_folder={tmp_path / 'other'}"))
    (tmp_path / "other" / "vocabulary.json").replace(tmp_path / "run" / "vocabulary.json")
    with pytest.raises(BadInputError, match=r"vocabulary\.json: expected the vocabulary of .*step-.*\.pt"):
        run(tiny_config("training.epochs=1"))


def test_all_processes_end_together_on_bad_input(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    (tmp_path / "corpus" / "validation.en").unlink()
    outcomes = in_processes(2, refusal, tiny_config())
    assert [name for name, _ in outcomes] == [BadInputError.__name__, FirstRefusedError.__name__]
    assert outcomes[0][1] == outcomes[1][1]
    assert "validation.en" in outcomes[0][1]
    assert not (tmp_path / "run").exists()


def test_a_run_folder_that_cannot_be_made_is_refused(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(BadInputError, match="the run cannot be kept there"):
        run(tiny_config(f"run_folder={tmp_path / 'file' / 'run'}"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the GPU that the test wants missing")
def test_a_gpu_that_is_not_there_is_refused(tiny_config: Callable[..., RunConfig]) -> None:
    with pytest.raises(BadInputError, match="expected a GPU for each of the 1 processes here, came 0"):
        choose_device(tiny_config("training.device=cuda").training, ALONE)
