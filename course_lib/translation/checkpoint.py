"""A run's state on disk, so that it can go on as if it had never stopped."""

from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from course_lib.atomic_files import atomic_write
from course_lib.translation.config import RunConfig, differing_keys, value_text
from course_lib.translation.errors import BadInputError

#: What a run keeps.
KEYS = frozenset({"config", "subwords", "trainer", "metrics_bytes"})


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values, whole or not at all."""
    with atomic_write(path) as file:
        torch.save(state, file)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote, on the CPU.

    Only tensors and plain values are ever loaded, never code. Raises BadInputError where the file is
    something else.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # A damaged file can make the loader raise nearly anything.
        state = None
    if not isinstance(state, dict) or not state.keys() >= KEYS:
        raise BadInputError(
            f"{path}: expected a checkpoint of a run, came something else or a damaged one; "
            "remove it to start the run anew"
        )
    return state


def refuse_other_config(path: Path, saved: dict[str, Any], config: RunConfig) -> None:
    """Raise BadInputError, naming the keys that differ, where a checkpoint was made with another config."""
    try:
        before = RunConfig.model_validate(saved)
    except ValidationError:
        raise BadInputError(
            f"{path} is of another version of the lab: its config has other keys; choose another run_folder"
        ) from None
    if keys := differing_keys(before, config):
        changes = ", ".join(
            f"{key} (was {value_text(before, key)}, now {value_text(config, key)})" for key in keys
        )
        raise BadInputError(
            f"{path} is of another config: {changes}; set these back to go on with that run, "
            "or choose another run_folder for a new one"
        )
