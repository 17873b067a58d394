"""A run writes what it promises, resumes exactly where it stopped, and rejects other runs' files."""

import contextlib
import errno
import json
import math
import re
import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints import checkpoint
from course_lib.translation.checkpoints.checkpoint import load_checkpoint
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.checkpoints.trained_model import load_model, save_model
from course_lib.translation.configs.loader import load_config, provided_configs
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.distributed import SINGLE_PROCESS, DistributedInfo, RankZeroError
from course_lib.translation.train import setup
from course_lib.translation.train.experiment import Result, train
from course_lib.translation.train.interruption import Interrupted, Interruption
from course_lib.translation.train.metrics import MetricsLog
from course_lib.translation.train.scoring import score
from course_lib.translation.train.setup import divide_updates, locked_run
from course_lib.translation.train.trainer import Trainer
from tests.translation.real_processes import in_processes
from tests.translation.train.same_run import (
    MEASURED,
    assert_same_run,
    assert_same_tensors,
    forget_checkpoints,
    metrics,
    newest,
)

pytestmark = pytest.mark.slow


def run(config: RunConfig) -> Result:
    return train(config, SINGLE_PROCESS)


def run_in_process(distributed: DistributedInfo, config: RunConfig) -> float:
    return train(config, distributed).score.bleu


def refusal(distributed: DistributedInfo, config: RunConfig) -> tuple[str, str]:
    try:
        train(config, distributed)
    except BadInputError as error:
        return type(error).__name__, str(error)
    return "", ""


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]


def final_weights(folder: Path) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = newest(folder)["trainer"]["model"]
    return weights


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
    assert all(row.keys() == {"step", "epoch", "lr", "loss", "padded", *MEASURED} for row in training)
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


def test_any_number_of_processes_scores_alike(tiny_config: Callable[..., RunConfig], tmp_path: Path) -> None:
    for world_size in (1, 2, 3):
        folder = tmp_path / f"run-{world_size}"
        config = tiny_config("training.precision=float64", f"run_folder={folder}")
        scores = in_processes(world_size, run_in_process, config)
        assert len(set(scores)) == 1
    first = metrics(tmp_path / "run-1")
    for folder in (tmp_path / "run-2", tmp_path / "run-3"):
        for got, expected in zip(metrics(folder), first, strict=True):
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
    assert_same_tensors(final_weights(tmp_path / "run"), final_weights(tmp_path / "at once"))
    assert metrics(tmp_path / "run") == metrics(tmp_path / "at once")
    assert load_config(str(tmp_path / "run" / "config.yaml")) == longer


def test_a_checkpoint_of_another_config_is_refused_by_its_keys(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    run(tiny_config("training.epochs=1"))
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*.*")}
    with pytest.raises(BadInputError) as refused:
        run(tiny_config("model.d_ff=64", "seed=7"))
    message = str(refused.value)
    assert "step-00000007.pt was made with a different config: " in message
    assert "seed (was 1, now 7), model.d_ff (was 32, now 64)." in message
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
    run(tiny_config("training.epochs=1", "data.vocab_size=300", f"run_folder={tmp_path / 'other'}"))
    (tmp_path / "other" / "vocabulary.json").replace(tmp_path / "run" / "vocabulary.json")
    with pytest.raises(BadInputError, match=r"vocabulary\.json: .*\.pt was made with a different vocabulary"):
        run(tiny_config("training.epochs=1"))


def test_all_processes_end_together_on_bad_input(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    (tmp_path / "corpus" / "validation.en").unlink()
    outcomes = in_processes(2, refusal, tiny_config())
    assert [name for name, _ in outcomes] == [BadInputError.__name__, RankZeroError.__name__]
    assert outcomes[0][1] == outcomes[1][1]
    assert "validation.en" in outcomes[0][1]
    assert not (tmp_path / "run").exists()


def refusal_of_differing_processes(
    distributed: DistributedInfo, config: RunConfig, other: RunConfig
) -> tuple[str, str]:
    return refusal(distributed, config if distributed.is_rank_zero else other)


def test_processes_with_different_configs_are_refused_before_the_first_update(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    other = tiny_config("model.d_ff=64", "training.log_every=7", "run_folder=/elsewhere")
    outcomes = in_processes(2, refusal_of_differing_processes, tiny_config(), other)
    assert [name for name, _ in outcomes] == [BadInputError.__name__, RankZeroError.__name__]
    assert outcomes[0][1] == (
        "All processes need the same config and data, but process 1 has model.d_ff 64, process 0 has 32; "
        "process 1 has training.log_every 7, process 0 has 4. Give every node the same files and the same "
        "command."
    )
    assert not (tmp_path / "run").exists()


def test_processes_with_different_data_are_refused_before_the_first_update(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    """The second process's node has a different run folder, which contains different data."""
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "corpus", elsewhere)
    (elsewhere / "train.en").write_text("Something else.\n" * 240, "utf-8")
    other = tiny_config(f"data.folder={elsewhere}", f"run_folder={tmp_path / 'other'}")
    run(tiny_config(f"data.folder={elsewhere}", f"run_folder={tmp_path / 'other'}", "training.epochs=1"))
    shutil.rmtree(tmp_path / "other" / "checkpoints")
    outcomes = in_processes(2, refusal_of_differing_processes, tiny_config(), other)
    assert [name for name, _ in outcomes] == [BadInputError.__name__, RankZeroError.__name__]
    assert "All processes need the same config and data, but process 1 has the" in outcomes[0][1]
    assert not (tmp_path / "run" / "checkpoints").exists()


def losses(distributed: DistributedInfo, *configs: RunConfig) -> list[str]:
    """Train with each config, and return the errors."""
    return [refusal(distributed, config)[1] for config in configs]


def test_an_update_is_divided_among_more_processes_than_batches(
    tiny_config: Callable[..., RunConfig], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    exact = ("training.precision=float64", "model.dropout=0", "training.epochs=1", "evaluation.bleu_every=0")
    divided = tiny_config(*exact, "training.batches_per_update=1")
    assert losses_of(in_processes(2, losses, divided)) == ""
    by_hand = (
        "training.batches_per_update=2",
        "training.tokens_per_batch=200",
        f"run_folder={tmp_path / 'hand'}",
    )
    run(tiny_config(*exact, *by_hand))
    torch.testing.assert_close(final_weights(tmp_path / "run"), final_weights(tmp_path / "hand"))
    # The run keeps its batches when it is resumed with fewer processes, and rejects more processes.
    run(divided.model_copy(update={"training": divided.training.model_copy(update={"epochs": 2})}))
    assert newest(tmp_path / "run")["config"]["training"]["tokens_per_batch"] == 200
    assert "this run has 2 batches in an update" in losses_of(in_processes(3, losses, divided))


def losses_of(outcomes: list[list[str]]) -> str:
    assert len({*map(tuple, outcomes)}) == 1, "all processes end with the same errors"
    return outcomes[0][0]


@pytest.mark.parametrize("name", sorted(provided_configs()))
def test_every_provided_config_starts_on_any_number_of_processes(name: str) -> None:
    config = load_config(name)
    tokens = config.training.tokens_per_batch * config.training.batches_per_update
    for processes in (1, 2, 4, 8, 32):
        divided = divide_updates(config, processes).training
        assert divided.batches_per_update >= processes
        assert divided.tokens_per_batch >= config.data.max_length
        if config.data.max_length * processes <= tokens:
            assert 0.95 * tokens <= divided.batches_per_update * divided.tokens_per_batch <= tokens


def test_training_ends_after_the_updates_of_the_config_in_the_middle_of_an_epoch(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    run(tiny_config("training.epochs=1", f"run_folder={tmp_path / 'whole'}", "evaluation.bleu_every=0"))
    epoch = newest(tmp_path / "whole")["trainer"]["step"]
    limited = ("training.epochs=null", f"training.updates={epoch + 2}", "evaluation.bleu_every=0")
    run(tiny_config(*limited))
    state = newest(tmp_path / "run")
    assert (state["trainer"]["step"], state["validated_step"]) == (epoch + 2, epoch + 2)
    assert [row["step"] for row in rows(tmp_path / "run") if "validation_loss" in row] == [epoch, epoch + 2]
    before = final_weights(tmp_path / "run")
    run(tiny_config(*limited))  # There are no updates left to make.
    assert_same_tensors(final_weights(tmp_path / "run"), before)
    # With a larger limit, training continues from the middle of the epoch, and stops at the end of epoch 2.
    run(tiny_config("training.epochs=2", f"training.updates={9 * epoch}", "evaluation.bleu_every=0"))
    run(tiny_config("training.epochs=2", f"run_folder={tmp_path / 'whole'}", "evaluation.bleu_every=0"))
    assert_same_tensors(final_weights(tmp_path / "run"), final_weights(tmp_path / "whole"))


def test_training_ends_early_and_the_best_weights_translate(
    tiny_config: Callable[..., RunConfig], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a learning rate that is far too large, the loss soon increases."""
    config = tiny_config(
        "training.lr_factor=30",
        "training.epochs=40",
        "selection.patience=2",
        "evaluation.weights=best",
        "evaluation.bleu_every=0",
        "evaluation.beam_size=1",
    )
    run(config)
    losses = {
        row["step"]: row["validation_loss"] for row in rows(tmp_path / "run") if "validation_loss" in row
    }
    best = min(losses, key=lambda step: losses[step])
    assert list(losses)[-3] == best, "training ends two measurements after the best"
    assert len(losses) < 40
    assert "Training stops early: 2 measurements without a better loss. The best was after update" in (
        capsys.readouterr().out
    )
    path = RunFolder(tmp_path / "run").model("best")
    model = load_model(path)
    assert model.step == best
    assert rows(tmp_path / "run")[-1]["weights"] == "best"
    # A process that is killed between saving these weights and its checkpoint leaves newer weights.
    save_model(path, replace(model, step=best + 1))
    run(config)
    save_model(path, replace(model, step=best - 1))
    with pytest.raises(BadInputError, match=f"the best weights are from update {best}, but"):
        run(config)


def test_a_run_that_diverges_ends_and_keeps_its_good_files(
    tiny_config: Callable[..., RunConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = ("evaluation.bleu_every=0", "training.log_every=1", "training.average_last=2")
    config = tiny_config(*quick, "training.updates=30", "training.checkpoint_every=2")
    update = Trainer.update

    def diverge(self: Trainer, *batches: Any) -> float:
        rate = update(self, *batches)
        if self.step == 10:
            next(self.model.parameters()).data[0] = torch.nan
        return rate

    monkeypatch.setattr(Trainer, "update", diverge)
    with pytest.raises(BadInputError, match=r"after update 10, weights are NaN .* lower training\.lr_factor"):
        run(config)
    folder = RunFolder(tmp_path / "run")
    checkpoints = sorted(path.name for path in folder.checkpoints.iterdir())
    assert checkpoints[-1] == "step-00000008.pt"
    for path in folder.checkpoints.iterdir():
        weights = load_checkpoint(path)["trainer"]["model"].values()
        assert all(weight.isfinite().all() for weight in weights)
    assert load_model(folder.model("last")).step == 7
    # The loss of an update with such weights is NaN, which JSON can only represent as null.
    log = MetricsLog.open(tmp_path / "metrics.jsonl")
    log.write({"step": 11, "loss": math.nan, "lr": 0.5})
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"step": 11, "loss": None, "lr": 0.5}


def endless_gradients(distributed: DistributedInfo, config: RunConfig) -> tuple[str, str]:
    """Train with infinite gradients after the fifth update, and a small loss scale, as after many skips."""
    update = Trainer.update

    def overflow(self: Trainer, *batches: Any) -> float:
        if self.step == 5:
            self._scaler.update(2.0**-8)
            self.model.generator.weight.register_hook(lambda gradient: gradient * torch.inf)
        return update(self, *batches)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "update", overflow)
        patch.setattr(Trainer, "measure_machine", lambda _: None)  # It is slow in float16 on a CPU.
        return refusal(distributed, config)


def test_a_run_in_float16_whose_updates_are_all_skipped_ends(
    tiny_config: Callable[..., RunConfig],
) -> None:
    quick = ("evaluation.bleu_every=0", "training.precision=float16", "training.checkpoint_every=1")
    outcomes = in_processes(2, endless_gradients, tiny_config(*quick))
    assert [error for error, _ in outcomes] == ["BadInputError", "RankZeroError"]
    for _, message in outcomes:
        assert re.search(r"up to update 8, the gradients of many .*training\.precision=float32", message)


def test_the_last_snapshots_are_averaged(tiny_config: Callable[..., RunConfig], tmp_path: Path) -> None:
    quick = ("evaluation.bleu_every=0", "evaluation.beam_size=1", "training.epochs=3")
    run(tiny_config(*quick, "training.average_last=2", "evaluation.weights=averaged"))
    averaged = load_model(RunFolder(tmp_path / "run").model("averaged")).weights
    tables = ("source_embedding.table.weight", "target_embedding.table.weight", "generator.weight")
    assert len({averaged[name].data_ptr() for name in tables}) == 1
    snapshots = sorted((tmp_path / "run" / "snapshots").iterdir())
    assert [path.name for path in snapshots] == ["step-00000014.pt", "step-00000021.pt"]
    first, second = (load_model(path).weights for path in snapshots)
    averaged = load_model(RunFolder(tmp_path / "run").model("averaged"))
    last = load_model(RunFolder(tmp_path / "run").model("last"))
    assert averaged.step == last.step == 21
    for name, value in averaged.weights.items():
        torch.testing.assert_close(value, (first[name] + second[name]) / 2)
        assert torch.equal(last.weights[name], second[name])
    assert not all(torch.equal(averaged.weights[name], second[name]) for name in second)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (("evaluation.weights=averaged", "training.average_last=2"), "there is no snapshot to average"),
        (("evaluation.weights=best", "selection.metric=bleu"), "the validation bleu was never measured"),
    ],
)
def test_the_last_weights_translate_if_there_are_no_others(
    tiny_config: Callable[..., RunConfig],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    overrides: tuple[str, ...],
    reason: str,
) -> None:
    quick = ("training.epochs=1", "training.average_every=1500", "evaluation.bleu_every=5")
    run(tiny_config(*quick, *overrides))
    assert reason in " ".join(capsys.readouterr().out.split())
    assert rows(tmp_path / "run")[-1]["weights"] == "last"


def interrupted(config: RunConfig, step: int) -> None:
    """Start a run, and send its process a signal during an update."""
    update = Trainer.update

    def signalled(trainer: Trainer, *arguments: Any) -> float:
        if trainer.step == step - 1:
            signal.raise_signal(signal.SIGTERM)
        return update(trainer, *arguments)

    with pytest.MonkeyPatch.context() as patch, Interruption() as interruption:
        patch.setattr(Trainer, "update", signalled)
        with pytest.raises(Interrupted):
            train(config, SINGLE_PROCESS, interruption)


def test_a_run_that_is_shortened_in_an_epoch_keeps_the_weights_that_it_scores(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    interrupted(tiny_config(), step=2)
    run(tiny_config("training.updates=2"))
    last = load_model(RunFolder(tmp_path / "run").model("last"))
    assert (last.step, rows(tmp_path / "run")[-1]["step"]) == (2, 2)
    assert [row["step"] for row in rows(tmp_path / "run") if "validation_loss" in row] == [2]


def test_an_extended_run_averages_ends_of_epochs_only(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    config = ("evaluation.bleu_every=0", "training.average_last=3", "training.epochs=null")
    run(tiny_config(*config, "training.updates=9"))
    run(tiny_config(*config, "training.updates=14"))
    snapshots = sorted(path.name for path in (tmp_path / "run" / "snapshots").iterdir())
    assert snapshots == ["step-00000007.pt", "step-00000014.pt"]


def test_an_earlier_run_s_snapshots_are_not_in_the_average(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    quick = ("evaluation.bleu_every=0", "evaluation.beam_size=1", "training.average_last=3")
    run(tiny_config(*quick, "evaluation.weights=averaged", "training.average_every=1", "training.epochs=1"))
    forget_checkpoints(tmp_path / "run")
    interrupted(tiny_config(*quick, "seed=9"), step=1)
    # Nobody may translate with the earlier run's models while the new one trains.
    assert not [*(tmp_path / "run" / "models").iterdir()]
    forget_checkpoints(tmp_path / "run")
    again = (*quick, "evaluation.weights=averaged", "training.average_every=5", "training.epochs=2", "seed=9")
    run(tiny_config(*again))
    run(tiny_config(*again, f"run_folder={tmp_path / 'fresh'}"))
    got, expected = (
        load_model(RunFolder(tmp_path / name).model("averaged")).weights for name in ("run", "fresh")
    )
    assert_same_tensors(got, expected)
    snapshots = [
        [path.name for path in (tmp_path / name / "snapshots").iterdir()] for name in ("run", "fresh")
    ]
    assert sorted(snapshots[0]) == sorted(snapshots[1])


def on_another_device(distributed: DistributedInfo, config: RunConfig) -> tuple[str, str]:
    if not distributed.is_rank_zero:
        setup.choose_device = lambda *_: torch.device("cuda")  # not undone: the process ends with the test
        setup.device_name = lambda device: "NVIDIA Tesla T4"
    return refusal(distributed, config)


def test_processes_on_different_devices_are_refused(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    outcomes = in_processes(2, on_another_device, tiny_config())
    assert [name for name, _ in outcomes] == [BadInputError.__name__, RankZeroError.__name__]
    assert "process 1 has the device NVIDIA Tesla T4, process 0 has cpu" in outcomes[0][1]
    assert not (tmp_path / "run").exists()


def read_from(distributed: DistributedInfo, folders: list[Path], config: RunConfig) -> list[Path]:
    read: list[Path] = []
    load = checkpoint.load_checkpoint

    def noting(path: Path) -> dict[str, Any]:
        read.append(path)
        return load(path)

    checkpoint.load_checkpoint = noting  # not undone: the process ends with the test
    train(config.model_copy(update={"run_folder": str(folders[distributed.rank])}), distributed)
    return read


def test_one_process_reads_the_checkpoint_for_all(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    run(tiny_config("training.epochs=1"))
    (tmp_path / "elsewhere").symlink_to(tmp_path / "run")
    folders = [tmp_path / "run", tmp_path / "elsewhere"]
    by_first, by_second = in_processes(2, read_from, folders, tiny_config())
    assert [path.parent for path in by_first] == [tmp_path / "run" / "checkpoints"]
    assert by_second == []


def test_two_processes_never_train_in_one_folder(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    run(tiny_config("training.epochs=1"))
    temporary = tmp_path / "run" / "checkpoints" / ".step-00000001.pt.1.tmp"
    temporary.write_bytes(b"the other process is writing this file")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with locked_run(RunFolder(tmp_path / "run")):
        error, message = refusal(SINGLE_PROCESS, tiny_config())
    assert (error, "another process is training in this run folder" in message) == ("BadInputError", True)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("restarted_by", ["SLURM", "TORCHELASTIC"])
def test_a_restarted_run_waits_for_the_lock_of_a_node_that_crashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarted_by: str
) -> None:
    monkeypatch.setenv(f"{restarted_by}_RESTART_COUNT", "1")
    held = contextlib.ExitStack()
    held.enter_context(locked_run(RunFolder(tmp_path)))
    threading.Timer(0.5, held.close).start()
    with locked_run(RunFolder(tmp_path)):
        monkeypatch.setattr(setup, "_SECONDS_FOR_LOCK", 0.5)
        again = locked_run(RunFolder(tmp_path))
        with pytest.raises(BadInputError, match="another process is training in this run folder"), again:
            pass


@pytest.mark.parametrize(("name", "why"), [("file", "is a file"), ("file/run", "can't be created")])
def test_a_run_folder_that_cannot_be_made_is_refused(
    tiny_config: Callable[..., RunConfig], tmp_path: Path, name: str, why: str
) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(BadInputError, match=rf"run_folder: {tmp_path / name} {why}"):
        run(tiny_config(f"run_folder={tmp_path / name}"))


def test_a_folder_with_other_files_is_not_made_a_run(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    logs = ("output.txt", "process.txt", "translator-7.log", "slurm-7.out", "nccl-trace-rank-0", ".DS_Store")
    for name in (*logs, "config.yaml"):
        (folder / name).write_text("text")
    with pytest.raises(BadInputError, match=r"isn't the folder of a run \(it contains config\.yaml\)"):
        run(tiny_config("training.epochs=1"))
    assert sorted(path.name for path in folder.iterdir()) == sorted([*logs, "config.yaml"])
    (folder / "config.yaml").unlink()
    run(tiny_config("training.epochs=1"))
    assert all((folder / name).read_text() == "text" for name in logs)


@pytest.mark.parametrize("kept", ["everything", "metrics.jsonl", "models/last.pt", "an empty folder"])
def test_a_run_whose_checkpoints_were_not_copied_is_not_overwritten(
    tiny_config: Callable[..., RunConfig], tmp_path: Path, kept: str
) -> None:
    run(tiny_config("training.epochs=1"))
    folder = tmp_path / "run"
    shutil.rmtree(folder / "checkpoints")
    if kept == "an empty folder":
        (folder / "checkpoints").mkdir()
    elif kept != "everything":
        for path in folder.glob("*/*.pt"):
            if not path.match(kept):
                path.unlink()
        (folder / "translations.txt").unlink()
        if kept != "metrics.jsonl":
            (folder / "metrics.jsonl").write_text("")
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    with pytest.raises(BadInputError, match="contains a run without checkpoints, which can't be resumed"):
        run(tiny_config("training.epochs=1"))
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before


def test_a_run_that_was_stopped_before_its_first_checkpoint_starts_again(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    for folder in ("run", "whole"):
        run(tiny_config(f"run_folder={tmp_path / folder}"))
    forget_checkpoints(tmp_path / "run")
    assert (tmp_path / "run" / "metrics.jsonl").stat().st_size
    run(tiny_config())
    assert_same_run(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize(
    ("shorter", "told"),
    [
        (("training.epochs=1",), "has already reached epoch 2, so it can't end after epoch 1"),
        (("training.updates=9",), "has already reached update 14, so it can't end after update 9"),
    ],
)
def test_a_run_cannot_end_before_the_update_that_it_has_reached(
    tiny_config: Callable[..., RunConfig], tmp_path: Path, shorter: tuple[str, ...], told: str
) -> None:
    run(tiny_config())
    config = (tmp_path / "run" / "config.yaml").read_bytes()
    with pytest.raises(BadInputError, match=told):
        run(tiny_config(*shorter))
    assert (tmp_path / "run" / "config.yaml").read_bytes() == config


def test_a_last_model_that_cannot_be_saved_is_an_error(
    tiny_config: Callable[..., RunConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = RunFolder(tmp_path / "run").model("last")
    with monkeypatch.context() as patch:
        patch.setattr("course_lib.translation.train.run_files.save_model", full_disk)
        with pytest.raises(BadInputError, match=rf"{last}: the last model .* same command again to resume"):
            run(tiny_config())
    assert not last.exists()
    run(tiny_config())
    assert load_model(last).step == newest(tmp_path / "run")["trainer"]["step"]


def test_a_run_whose_checkpoints_cannot_be_saved_is_an_error(
    tiny_config: Callable[..., RunConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint.Checkpoints, "save", full_disk)
    with pytest.raises(BadInputError, match=r"run/checkpoints: the checkpoint .* with another run_folder, "):
        run(tiny_config())


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
