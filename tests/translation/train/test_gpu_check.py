"""`course gpu-check`, rehearsed on the CPU: every part runs, and a wrong result is reported."""

import contextlib
import gc
import json
import os
import re
import subprocess
import sys
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from course_lib.errors import BadInputError
from course_lib.translation.configs.loader import load_config
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.train.batches import BatchLoader
from course_lib.translation.train.gpu_check import __main__ as gpu_check
from course_lib.translation.train.gpu_check import correctness, speed, workload
from course_lib.translation.train.gpu_check.__main__ import PARTS, main
from course_lib.translation.train.gpu_check.speed import Row, published_rate
from course_lib.translation.train.gpu_check.workload import Scale
from course_lib.translation.train.trainer import Trainer
from tests.translation.train.micro_training import new_trainer

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def run(folder: Path, *parts: str, minutes: str = "10") -> tuple[int, dict[str, list[dict[str, object]]]]:
    code = main([*parts, "--device", "cpu", "--output", str(folder / "report.json"), "--minutes", minutes])
    report = json.loads((folder / "report.json").read_text())
    return code, {part: report[part]["rows"] for part in parts}


#: A program that runs the command without inductor, which would take minutes, and without the test of several
#: processes, which has its own test below.
REHEARSAL = """
import functools, sys
from course_lib.translation.train.gpu_check import __main__, correctness, workload
{change}
workload.Trainer = functools.partial(workload.Trainer, compile_backend="eager")
correctness.TESTS = tuple(test for test in correctness.TESTS if test is not correctness.several_processes)
sys.exit(__main__.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "change",
    [
        "workload.Trainer.compile = lambda _: None",  # test_compiled.py tests compiling.
        pytest.param("", marks=pytest.mark.nightly),
    ],
    ids=["uncompiled", "compiled"],
)
def test_every_part_is_rehearsed(tmp_path: Path, change: str) -> None:
    # Use a separate process without the shape checks, which the compiler can't compile.
    path = tmp_path / "report.json"
    command = [sys.executable, "-c", REHEARSAL.format(change=change)]
    command += ["--device", "cpu", "--output", str(path), "--minutes", "60"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr + done.stdout
    rows = {part: json.loads(path.read_text())[part]["rows"] for part in PARTS}
    assert [row["result"] for row in rows["correctness"]] == ["passed"] * (len(correctness.TESTS) - 1)
    assert [row["layers"] for row in rows["training"]] == ["eager", "compiled"]
    assert all(0 < row["MFU, of the measured rate"] < 1 for row in rows["training"])
    # A CPU computes an operation before it launches the next one, so nearly all of the time is launching.
    assert all(row["launching"] > 0.9 for row in rows["training"])
    assert rows["textbook"][0]["ratio"] > 0
    assert [row["search"][:7] for row in rows["decoding"]] == ["batches", "batches", "one at "]
    assert 0 < rows["memory"][0]["estimated GiB"] < rows["memory"][0]["measured peak GiB"]
    assert rows["trace"] == [{"result": f"Profile of 3 updates: {tmp_path / 'profile'}"}]
    assert json.loads((tmp_path / "profile" / "trace.json").read_text())["traceEvents"]
    assert "The figures mean nothing." in done.stdout
    assert "equals cpu in float64" in done.stdout


@pytest.mark.nightly
def test_several_processes_train_like_one() -> None:
    found = correctness.several_processes(CPU)
    assert re.fullmatch(r"processes under torchrun: 2, relative .*; in mixed precision, relative .*", found)


@pytest.mark.nightly
def test_one_process_under_torchrun_trains_like_one_without() -> None:
    found = correctness.launched_equals_one(CPU, 1)
    assert found.startswith("processes under torchrun: 1, relative difference")


@pytest.mark.nightly
def test_a_run_whose_compiler_fails_is_no_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
    common = "captions training.device=cpu data.train_pairs=100 data.vocab_size=300 model.layers=1"
    common += " model.d_model=16 model.heads=2 model.d_ff=16"
    settings = "training.epochs=null training.updates=1 evaluation.bleu_every=0 training.compile=true"
    arguments = [*common.split(), *settings.split(), f"run_folder={tmp_path}/run"]
    with pytest.raises(correctness.CheckFailedError, match=r"^torch\.compile failed \(InductorError: "):
        correctness._train(None, arguments)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_processes_get_two_batches_or_three_or_none(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = []

    def record(processes: int | None, arguments: list[str]) -> torch.Tensor:
        configs.append(load_config(arguments[0], [*arguments[1:], "training.updates=5"]))
        return torch.ones(5)

    monkeypatch.setattr(correctness, "_losses", record)
    correctness.launched_equals_one(CPU, count)
    assert [config.training.precision for config in configs] == ["float64"] * 2 + ["auto"] * 2
    plan = new_trainer(configs[0]).plan()
    assert [len(batches) for batches in plan] == [2 * count + 1, 2 * count + 1, 1]
    # The runs resume after two updates, and end in the second epoch.
    correctness.launched_equals_one(torch.device("cuda"), count)
    assert [config.training.compile for config in configs[4:]] == [False, False, True, True]


@pytest.mark.parametrize(
    ("cards", "count"), [(["H100"], 1), (["T4", "L4"], 1), (["H100"] * 8, 8), (["T4", "T4"], 2)]
)
def test_nccl_is_tested_on_any_number_of_gpus(
    cards: list[str], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: cards[index])
    monkeypatch.setattr(correctness, "launched_equals_one", lambda device, count: f"processes {count}")
    expected = f"processes {count}" + "; testing more than one needs several identical GPUs" * (count == 1)
    assert correctness.several_processes(torch.device("cuda")) == expected


def test_a_wrong_result_is_reported_and_the_other_tests_still_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Make the loss slightly wrong, as a broken kernel might.
    right = correctness.fused_smoothed_loss
    monkeypatch.setattr(correctness, "fused_smoothed_loss", lambda *given: right(*given) * 1.001)
    monkeypatch.setattr(correctness, "TESTS", (correctness.loss_kernel, correctness.attention_kernels))
    code, rows = run(tmp_path, "correctness")
    assert code == 1
    assert [row["result"] for row in rows["correctness"]] == ["FAILED", "passed"]
    assert "relative difference 1.0e-03, expected at most 1e-06" in str(rows["correctness"][0]["found"])


def test_a_part_that_fails_keeps_its_rows_and_the_other_parts_still_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Iterator[Row]:
        yield {"model": "base"}
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore lines")

    parts = {"training": broken, "memory": lambda *_: iter([{"model": "base"}])}
    monkeypatch.setattr(gpu_check, "MEASUREMENTS", parts)
    code, rows = run(tmp_path, "training", "memory")
    assert code == 1
    why = "RuntimeError: CUDA error: an illegal memory access was encountered"
    assert rows["training"] == [{"model": "base"}, {"result": "FAILED", "why": why}]
    assert rows["memory"] == [{"model": "base"}]


def test_a_model_that_does_not_fit_is_left_out_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {"big": workload.SMALL.model_copy(update={"layers": 3}), "small": workload.SMALL}
    monkeypatch.setattr(gpu_check, "REHEARSAL", replace(workload.REHEARSAL, models=models))

    def new_trainer(config: RunConfig, *arguments: Any) -> Trainer:
        if config.model.layers == 3 or config.training.compile:
            raise BadInputError("training.tokens_per_batch: training needs about 17.7 GiB, but. At most")
        return workload.new_trainer(config, *arguments)

    monkeypatch.setattr(speed, "new_trainer", new_trainer)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 3 * 2**30)
    code, rows = run(tmp_path, "training", "textbook", "memory")
    assert code == 0
    left_out = {"result": "left out", "why": "training.tokens_per_batch: training needs about 17.7 GiB, but"}
    names = [(row["model"], row["layers"]) for row in rows["training"]]
    assert names == [(model, layers) for model in ("big", "small") for layers in ("eager", "compiled")]
    for row in (rows["training"][0], rows["training"][1], rows["training"][3], rows["memory"][0]):
        assert left_out.items() <= row.items()
    assert rows["textbook"] == [left_out]
    assert rows["training"][2]["target tokens/s"] > 0
    assert rows["memory"][1]["reserved peak GiB"] == 3


def test_a_model_is_compared_with_a_gpu_s_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "BatchLoader", lambda *arguments: BatchLoader(*arguments[:-1], CPU))
    config = workload.run_config(workload.SMALL, workload.REHEARSAL)
    for free in (0, 2**40):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, free))
        with pytest.raises(BadInputError, match="are free") if free == 0 else contextlib.nullcontext():
            workload.new_trainer(config, workload.REHEARSAL, torch.device("cuda"))


class Mark:
    """An object that supports weak references."""


def test_the_memory_of_a_part_that_failed_is_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks: list[weakref.ref[Mark]] = []

    def broken(*_: object) -> Iterator[Row]:
        mark = Mark()
        mark.cycle = mark  # type: ignore[attr-defined]  # as in a trainer
        marks.append(weakref.ref(mark))
        yield {"model": "base"}
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(
        gpu_check,
        "MEASUREMENTS",
        {"training": broken, "memory": lambda *_: iter([{"freed": marks[0]() is None}])},
    )
    gc.disable()
    try:
        _, rows = run(tmp_path, "training", "memory")
    finally:
        gc.enable()
    assert rows["memory"] == [{"freed": True}]


@pytest.mark.parametrize(("seconds", "updates"), [(0.0, 20), (1000.0, 30)])
def test_warming_up_is_limited_like_a_measurement(seconds: float, updates: int) -> None:
    trainer = workload.new_trainer(
        workload.run_config(workload.SMALL, workload.REHEARSAL), workload.REHEARSAL, CPU
    )
    speed.warm_up(trainer, trainer.plan()[:1] * 30, seconds)
    assert trainer.step == updates


def test_a_part_that_is_killed_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def killed(*_: object) -> Iterator[Row]:
        yield {"model": "base", "ratio": 2.5}
        raise KeyboardInterrupt

    monkeypatch.setattr(gpu_check, "MEASUREMENTS", {"training": killed})
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "training")
    part = json.loads((tmp_path / "report.json").read_text())["training"]
    assert (part["complete"], part["rows"]) == (False, [{"model": "base", "ratio": 2.5}])
    assert "training: model base, ratio 2.5" in capsys.readouterr().out


def test_each_part_of_the_report_names_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {part: lambda *_: iter([{"model": "base"}]) for part in ("training", "memory")}
    monkeypatch.setattr(gpu_check, "MEASUREMENTS", parts)
    for part, card in (("training", "H100"), ("memory", "T4")):
        monkeypatch.setattr(gpu_check, "describe_machine", lambda _, card=card: {"card": card})
        run(tmp_path, part)
    report = json.loads((tmp_path / "report.json").read_text())
    assert {part: report[part]["machine"]["card"] for part in report} == {"training": "H100", "memory": "T4"}
    assert all(report[part]["complete"] for part in report)


def test_parts_that_do_not_fit_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def share(_: object, scale: Scale) -> Iterator[Row]:
        yield {"share": scale.seconds / workload.REHEARSAL.seconds}

    monkeypatch.setattr(gpu_check, "MEASUREMENTS", dict.fromkeys(("training", "decoding", "memory"), share))
    code, rows = run(tmp_path, "training", "decoding", "memory", minutes="0.6")
    assert code == 1
    assert rows["training"] == [{"result": "left out", "why": "it may not fit into --minutes 0.6"}]
    assert rows["decoding"] == [{"share": pytest.approx(36 / 45, abs=0.1)}]
    assert rows["memory"] == [{"share": 1.0}]
    assert "Left out for lack of time: training." in capsys.readouterr().out
    # The rows of an earlier measurement are kept.
    assert run(tmp_path, "memory", minutes="0")[1]["memory"] == rows["memory"]


def test_processes_that_hang_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correctness, "TIMEOUT", 0.5)
    with pytest.raises(
        correctness.CheckFailedError, match=r"training in 2 processes didn't end in 0\.5 seconds"
    ):
        correctness._train(2, ["captions", f"run_folder={tmp_path}"])


def test_missing_dropout_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correctness, "SMALL", correctness.SMALL.model_copy(update={"dropout": 0.0}))
    with pytest.raises(correctness.CheckFailedError, match="the weights are the same without dropout"):
        correctness.dropout_follows_the_seed(CPU)


def test_float32_and_float64_agree_although_they_round_differently() -> None:
    """The tolerance for float32 allows for the rounding of a different device."""
    found, expected = (
        correctness.trained(correctness._config(precision=each), CPU) for each in ("float32", "float64")
    )
    assert 0 < correctness.difference(found, expected) < 2e-5


def test_a_part_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["trainig"])
    assert "unknown part trainig; choose from correctness, training" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["my notes\n", "[1, 2]"])
def test_a_file_that_is_no_report_is_not_overwritten(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(content)
    assert main(["memory", "--device", "cpu", "--output", str(path)]) == 2
    assert f"gpu-check: {path}: this file isn't a report of this command" in capsys.readouterr().err
    assert path.read_text() == content


def test_published_rates_go_by_the_name_of_the_card() -> None:
    assert published_rate("NVIDIA H100 80GB HBM3") == 989e12
    assert published_rate("NVIDIA H100 PCIe") == 756e12
    assert published_rate("NVIDIA L40S") == 362e12
    assert published_rate("NVIDIA GH200 480GB") == 989e12
    assert published_rate("NVIDIA L40") is None
    assert published_rate("NVIDIA T400 4GB") is None
