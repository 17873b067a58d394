"""TensorBoard and Weights & Biases receive the rows of metrics.jsonl: their own files contain them."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from course_lib.translation.configs.loader import load_config
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.distributed import SINGLE_PROCESS
from course_lib.translation.train.dashboards import Dashboards
from course_lib.translation.train.experiment import train
from tests.free_ports import free_ports

pytestmark = pytest.mark.slow

SHORT = ["training.updates=4", "training.epochs=null", "training.log_every=2", "evaluation.bleu_every=0"]


def loss_rows(run_folder: Path) -> list[dict[str, float]]:
    """Return the rows of metrics.jsonl that contain a training loss."""
    lines = (run_folder / "metrics.jsonl").read_text("utf-8").splitlines()
    rows = [row for line in lines if "loss" in (row := json.loads(line))]
    assert [row["step"] for row in rows] == [2, 4]
    assert {"loss", "lr", "tokens_per_second"} <= rows[0].keys()
    return rows


def test_tensorboard_gets_the_metrics(config_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed (pip install tensorboard)")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(load_config(str(config_file), [*SHORT, "training.tensorboard=true"]), SINGLE_PROCESS)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert "validation_loss" in events.Tags()["scalars"]
    for row in loss_rows(tmp_path / "run"):
        step = row.pop("step")
        got = {key: {event.step: event.value for event in events.Scalars(key)}[step] for key in row}
        assert got == pytest.approx(row, rel=1e-6)  # TensorBoard stores float32.


def test_wandb_gets_the_metrics_and_the_config(config_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed (pip install wandb)")
    # Processes that torchrun starts skip Python's shutdown, in which wandb normally completes its file.
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0])}
    environment = os.environ | place | {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    command = [sys.executable, "-m", "course_lib.translation.train", str(config_file)]
    subprocess.run([*command, *SHORT, "training.wandb=course"], env=environment, check=True)
    (path,) = (tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb")
    records = list(wandb_records(path))
    (run,) = [record.run for record in records if record.HasField("run")]
    assert [record.exit.exit_code for record in records if record.HasField("exit")] == [0]
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert (run.project, run.display_name) == ("course", "run")
    assert config["training"]["updates"] == 4
    history = [record.history.item for record in records if record.HasField("history")]
    logged = [{item.nested_key[0]: json.loads(item.value_json) for item in items} for items in history]
    for row in loss_rows(tmp_path / "run"):
        step = row.pop("step")
        (got,) = [each for each in logged if each["update"] == step and "loss" in each]
        assert {key: got[key] for key in row} == row


def test_a_dashboard_that_fails_is_reported_once(
    tiny_config: Callable[..., RunConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = pytest.importorskip(
        "torch.utils.tensorboard", reason="tensorboard is not installed"
    ).SummaryWriter
    said: list[str] = []
    dashboards = Dashboards.open(tmp_path, tiny_config("training.tensorboard=true"), said.append)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "flush", full)
    for step in (1, 2):
        dashboards.write({"step": step, "loss": 1.0})
    dashboards.close(failed=False)
    assert said == ["training.tensorboard: [Errno 28] No space left on device. The run continues without it."]


def wandb_records(path: Path) -> Iterator[Any]:
    """Read the records of an offline run: a header of 7 bytes, then records of LevelDB's log format."""
    from wandb.proto import wandb_internal_pb2

    content, position = path.read_bytes(), 7
    assert content.startswith(b":W&B")
    assert len(content) < 1 << 15, "the file must fit into one block, in which no record is split"
    while position < len(content):
        length, kind = struct.unpack_from("<HB", content, position + 4)  # after the checksum
        assert kind == 1, "expected a whole record"
        position += 7
        yield wandb_internal_pb2.Record.FromString(content[position : position + length])
        position += length
