"""A run's state on disk, so that it can go on as if it had never stopped."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from course_lib.errors import BadInputError
from course_lib.translation.configs.loader import differing_keys, value_text
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.training.checkpoints.checksummed_files import (
    DamagedFileError,
    read_sealed,
    write_sealed,
)
from course_lib.translation.training.checkpoints.numbered_files import NumberedFiles

#: What a run keeps.
KEYS = frozenset(
    {"config", "vocabulary", "data", "trainer", "metrics_bytes", "selection", "epochs_validated"}
)


class DamagedCheckpointError(BadInputError):
    """A file in a checkpoint's place that can be read, and is none."""


@dataclass(frozen=True)
class Found:
    """Where a run can go on."""

    path: Path | None
    """The newest checkpoint that is whole; None where there is no checkpoint at all."""
    damaged: list[Path]
    """The newer ones, which are not."""


class Checkpoints:
    """The newest few checkpoints of a run: where one is damaged, the run goes on from the one before."""

    def __init__(self, folder: Path, keep_last: int) -> None:
        self._files = NumberedFiles(folder)
        self._keep_last = keep_last

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Write tensors and plain values, whole or not at all, then remove what is too old.

        Raises OSError, as for a disk that is full; the older checkpoints are all there then.
        """
        self._files.folder.mkdir(parents=True, exist_ok=True)
        write_sealed(self._files.path(step), state)
        self._files.keep_newest(self._keep_last, up_to=step)

    def find(self) -> Found:
        """Look for the newest checkpoint that is whole.

        Raises BadInputError where all are damaged, and where one cannot be read: it may well be whole.
        """
        damaged: list[Path] = []
        for path in self._files.newest_first():
            try:
                load_checkpoint(path)
            except DamagedCheckpointError:
                damaged.append(path)
            else:
                return Found(path, damaged)
        if damaged:
            raise BadInputError(
                f"{self._files.folder}: expected a checkpoint that is whole, came {len(damaged)} damaged "
                f"({', '.join(path.name for path in damaged)}); remove the folder to start the run anew"
            )
        return Found(None, [])


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `Checkpoints.save` wrote, on the CPU; nothing in the file is ever run.

    Raises DamagedCheckpointError where the file is damaged or something else, and BadInputError where it
    cannot be read.
    """
    try:
        state = read_sealed(path)
    except DamagedFileError:
        state = {}
    except OSError as error:
        raise BadInputError(
            f"{path}: expected a checkpoint of a run, but it cannot be read ({error.strerror}); see to that "
            "disk, or remove the file to go on from an older one"
        ) from None
    if not state.keys() >= KEYS:
        raise DamagedCheckpointError(
            f"{path}: expected a checkpoint of a run, came something else or a damaged one; "
            "remove it to go on from an older one, or to start the run anew"
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
