"""Comparisons of runs that must be equal to the last bit."""

import json
from pathlib import Path
from typing import Any

import torch

from course_lib.translation.checkpoints.checkpoint import Checkpoints
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.checkpoints.trained_model import load_model

#: The keys of a row that depend on the machine, and so differ between otherwise identical runs.
MEASURED = frozenset({"tokens_per_second", "mfu", "memory_gib"})


def metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a run without the figures that depend on the machine."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [{key: value for key, value in row.items() if key not in MEASURED} for row in rows]


def newest(folder: Path) -> dict[str, Any]:
    """Return the state of the checkpoint from which a run would resume."""
    checkpoint, _ = Checkpoints(folder / "checkpoints", 3).find_latest()
    assert checkpoint is not None
    return {**checkpoint.state}


def forget_checkpoints(folder: Path) -> None:
    """Remove what a run writes from its first checkpoint on, as if it had been stopped just before that."""
    run = RunFolder(folder)
    later = [*run.checkpoints.iterdir(), run.translations, run.model("best"), run.model("averaged")]
    for path in later:
        path.unlink(missing_ok=True)


def assert_same_tensors(got: Any, expected: Any) -> None:
    """Require that nested dictionaries and lists with tensors are equal bit by bit."""
    if isinstance(expected, dict):
        assert got.keys() == expected.keys()
        for key in expected:
            assert_same_tensors(got[key], expected[key])
    elif isinstance(expected, list):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same_tensors(one, other)
    elif isinstance(expected, torch.Tensor):
        assert got.dtype == expected.dtype
        assert got.flatten().view(torch.uint8).tolist() == expected.flatten().view(torch.uint8).tolist()
    else:
        assert got == expected


def assert_same_run(got: Path, expected: Path) -> None:
    """Require that two finished runs have the same weights, optimiser, metrics, models and translations."""
    one, other = newest(got), newest(expected)
    for state in (one, other):
        del state["config"]["run_folder"], state["config"]["data"]["prepared"]
        del state["metrics_bytes"], state["trainer"]["window"]
    assert_same_tensors(one, other)
    assert metrics(got) == metrics(expected)
    models = sorted(path.name for path in (expected / "models").iterdir())
    assert sorted(path.name for path in (got / "models").iterdir()) == models
    for name in models:
        model, twin = load_model(got / "models" / name), load_model(expected / "models" / name)
        assert model.step == twin.step
        assert_same_tensors(model.weights, twin.weights)
    assert (got / "translations.txt").read_bytes() == (expected / "translations.txt").read_bytes()
