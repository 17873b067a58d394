"""The files of a run are written in the background, in order, from copies of the weights."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.checkpoint import Checkpoints
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.checkpoints.trained_model import Snapshots, TrainedModel, load_model
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.train.metrics import MetricsLog
from course_lib.translation.train.run_files import RunFiles


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def config(tiny_config: Callable[..., RunConfig]) -> RunConfig:
    return tiny_config("training.average_last=2")


@pytest.fixture
def files(config: RunConfig, tmp_path: Path, reports: list[str]) -> Iterator[RunFiles]:
    folder = RunFolder(tmp_path / "files")
    folder.path.mkdir()
    unfinished: set[object] = set()
    with (
        MetricsLog.open(folder.metrics) as log,
        RunFiles(folder, config, log, reports.append, unfinished) as files,
    ):
        yield files
        assert not unfinished
    # The set stays non-empty, so that the loss of a peer doesn't end the process while the dashboards
    # are being closed.
    assert unfinished


def model(config: RunConfig, weights: dict[str, torch.Tensor], step: int = 1) -> TrainedModel:
    return TrainedModel(config, "vocabulary", weights, step)


def test_training_continues_while_a_snapshot_is_written(
    files: RunFiles, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, written = threading.Event(), []
    save_snapshot, save_checkpoint = Snapshots.save, Checkpoints.save

    def slow(self: Snapshots, given: TrainedModel) -> None:
        assert released.wait(60)
        save_snapshot(self, given)
        written.append("snapshot")

    def checkpoint(self: Checkpoints, *given: object) -> None:
        save_checkpoint(self, *given)
        written.append("checkpoint")

    monkeypatch.setattr(Snapshots, "save", slow)
    monkeypatch.setattr(Checkpoints, "save", checkpoint)
    weights = {"weight": torch.ones(3)}
    files.save_snapshot(lambda: model(config, weights))
    files.save_checkpoint(1, {"weight": weights["weight"]})
    assert not list(files.folder.snapshots.glob("*"))
    assert files._unfinished
    weights["weight"].zero_()  # The next update changes the weights in place.
    released.set()
    files.finish_writing()
    assert load_model(files.folder.snapshots / "step-00000001.pt").weights["weight"].tolist() == [1, 1, 1]
    # A run that resumes from the checkpoint must have all snapshots up to it.
    assert written == ["snapshot", "checkpoint"]


def test_the_average_waits_for_its_snapshots(
    files: RunFiles, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Snapshots.save
    monkeypatch.setattr(
        Snapshots, "save", lambda self, given: (threading.Event().wait(0.2), save(self, given))
    )
    for step in (1, 2):
        files.save_snapshot(lambda step=step: model(config, {"weight": torch.full((1,), float(step))}, step))
    files.save_average(up_to=2)
    assert load_model(files.folder.model("averaged")).weights["weight"].tolist() == [1.5]


def test_the_best_model_is_loaded_after_it_has_been_written(files: RunFiles, config: RunConfig) -> None:
    for step in (1, 2):
        files.save_model("best", lambda step=step: model(config, {"weight": torch.ones(1)}, step))
    assert files.load_model("best", best_step=2).step == 2


def test_files_that_cannot_be_written_are_reported_by_name(
    files: RunFiles, config: RunConfig, reports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("course_lib.translation.train.run_files.save_model", full)
    monkeypatch.setattr(Snapshots, "save", full)
    files.save_snapshot(lambda: model(config, {"weight": torch.ones(1)}))
    files.save_model("last", lambda: model(config, {"weight": torch.ones(1)}))
    files.finish_writing()
    why = "could not be saved (No space left on device). Older files, if any, are kept."
    assert reports == [f"The snapshot {why}", f"The last model {why}"]


def test_an_averaged_model_that_cannot_be_saved_is_an_error(
    files: RunFiles, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.save_snapshot(lambda: model(config, {"weight": torch.ones(1)}))
    files.finish_writing()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("course_lib.translation.train.run_files.save_model", full)
    with pytest.raises(
        BadInputError, match=r"averaged\.pt: the averaged model could not be saved \(No space"
    ):
        files.save_average(up_to=1)


def test_tied_weights_are_written_once(files: RunFiles, config: RunConfig) -> None:
    weight = torch.ones(100_000)
    files.save_model("last", lambda: model(config, {"one": weight, "two": weight, "part": weight[:5]}))
    files.finish_writing()
    assert files.folder.model("last").stat().st_size < 500_000
    assert load_model(files.folder.model("last")).weights["part"].tolist() == [1] * 5
