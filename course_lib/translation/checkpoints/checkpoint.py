"""Checkpoints: the state of a run on disk. A resumed run has the same result as an uninterrupted one."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, cast

from pydantic import ValidationError

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.checksummed_files import (
    DamagedFileError,
    load_checksummed,
    save_checksummed,
)
from course_lib.translation.configs.loader import changed_values
from course_lib.translation.configs.schema import RunConfig

_FILE_NAME = re.compile(r"step-(\d+)\.pt")


class RunState(TypedDict):
    """The state of a run after an update, without its metrics."""

    config: dict[str, Any]
    """The config, as plain values. A different version of the lab may have written it."""
    batches_before_division: dict[str, int]
    """The user's batch settings; in `config`, `divide_updates` may have changed them."""
    vocabulary: str
    """The fingerprint of the vocabulary."""
    data: str
    """The fingerprint of the prepared data."""
    parts: str | None
    """The fingerprint of the student's code that is trained; None for the reference."""
    trainer: dict[str, Any]
    """The result of `Trainer.state`."""
    selection: dict[str, float | int]
    """The result of `BestWeights.state`."""
    validated_step: int
    """The update after which the weights were last evaluated."""


class CheckpointState(RunState):
    """The contents of a checkpoint."""

    metrics_bytes: int
    """The size of the metrics file, to which a resumed run truncates it."""


class Checkpoint(NamedTuple):
    """A checkpoint that has been loaded."""

    path: Path
    state: CheckpointState


@dataclass(frozen=True)
class StepFiles:
    """The files `step-N.pt` in a folder, which may not exist yet. Only the newest `count` are kept."""

    folder: Path
    count: int

    def path(self, step: int) -> Path:
        """Return the path of the file for update `step`. Leading zeros make the names sort numerically."""
        return self.folder / f"step-{step:08d}.pt"

    def newest_first(self, up_to: int | None = None) -> list[Path]:
        """List the files of updates up to `up_to` (default: all files), newest first."""
        found = [
            (int(name[1]), path)
            for path in (self.folder.iterdir() if self.folder.is_dir() else ())
            if (name := _FILE_NAME.fullmatch(path.name))
        ]
        return [path for step, path in sorted(found, reverse=True) if up_to is None or step <= up_to]

    def remove_others(self, up_to: int) -> None:
        """Remove all files except the newest `count` of those up to update `up_to`.

        Files of later updates exist if an earlier run left them, or if the run was resumed from an older
        checkpoint.
        """
        kept = self.newest_first(up_to)[: self.count]
        for path in self.newest_first():
            if path not in kept:
                path.unlink(missing_ok=True)


class Checkpoints(StepFiles):
    """The newest checkpoints of a run, which resumes from the newest one that is intact."""

    def save(self, step: int, state: CheckpointState) -> None:
        """Write tensors and plain values as the checkpoint of update `step`, then call `remove_others`.

        Raises OSError, for example if the disk is full; no other checkpoint is removed in that case.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        save_checksummed(self.path(step), state)
        self.remove_others(up_to=step)

    def find_latest(self) -> tuple[Checkpoint | None, list[Path]]:
        """Load the newest intact checkpoint, if there is one. Return it and the damaged ones that are newer.

        Raises BadInputError if all checkpoints are damaged, or if one cannot be read before an intact one is
        found. An unreadable checkpoint is not skipped, because it may be intact.
        """
        damaged: list[Path] = []
        for path in self.newest_first():
            try:
                return Checkpoint(path, load_checkpoint(path)), damaged
            except DamagedFileError:
                damaged.append(path)
        if damaged:
            raise BadInputError(
                f"{self.folder}: expected an intact checkpoint, but found only damaged ones "
                f"({', '.join(path.name for path in damaged)}). Restore one from a backup, or choose another "
                f"run_folder; there, training.init_from={self.folder.parent} starts from this run's model."
            )
        return None, []


def load_checkpoint(path: Path) -> CheckpointState:
    """Load a checkpoint on the CPU. No code in the file is ever run.

    Raises DamagedFileError if the file is damaged or not a checkpoint, and BadInputError if it cannot be
    read.
    """
    try:
        state = load_checksummed(path)
    except OSError as error:
        raise BadInputError(
            f"{path}: this checkpoint cannot be read ({error.strerror}). Check the disk, or remove the file "
            "to resume from an older one."
        ) from None
    if not state.keys() >= CheckpointState.__required_keys__:
        raise DamagedFileError
    return cast(CheckpointState, state)


def require_same_config(path: Path, saved: dict[str, Any], config: RunConfig) -> None:
    """Raise BadInputError if a checkpoint's config differs from `config` in keys that influence the weights.

    `path` is the checkpoint, and `saved` is the config in it, possibly of a different version of the lab.
    """
    try:
        before = RunConfig.model_validate(saved)
    except ValidationError:
        raise BadInputError(
            f"{path} was written by a different version of the lab, whose config has different keys. Choose "
            "another run_folder."
        ) from None
    if changed := changed_values(before, config):
        changes = ", ".join(f"{key} (was {was}, now {now})" for key, (was, now) in changed.items())
        raise BadInputError(
            f"{path} was made with a different config: {changes}. Undo these changes to resume that run, or "
            "choose another run_folder to start a new one."
        )
