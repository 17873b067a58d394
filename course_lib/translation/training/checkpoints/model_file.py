"""A trained model as a file: all that a later process needs to translate with it, and no more.

A run keeps up to three in its folder: the `last` weights, the `best` by validation, and the `averaged` ones.
The vocabulary lies beside them, shared by all three; a fingerprint says which one belongs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError
from torch import Tensor

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.training.checkpoints.checksummed_files import (
    DamagedFileError,
    read_sealed,
    write_sealed,
)

#: Which of a run's models.
Use = Literal["last", "best", "averaged"]


@dataclass(frozen=True)
class TrainedModel:
    """Weights, and what they are the weights of."""

    config: RunConfig
    vocabulary: str
    """The fingerprint of the vocabulary that the weights were learnt with."""
    weights: dict[str, Tensor]
    """A `state_dict`, by the names of the exercises' contract."""
    step: int
    """Updates made; of averaged weights, the latest."""
    parts: str | None = None
    """The fingerprint of the student's own parts that were trained; None for the reference's."""


def trained_path(run_folder: Path, use: Use) -> Path:
    """Say where a run keeps one of its models."""
    return run_folder / "models" / f"{use}.pt"


def save_trained(path: Path, model: TrainedModel) -> None:
    """Write a model, whole or not at all, making the folder. Raises OSError, as for a disk that is full."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = {name: getattr(model, name) for name in ("vocabulary", "weights", "step", "parts")}
    write_sealed(path, {**fields, "config": model.config.model_dump()})


def load_trained(path: Path, mapped: bool = False) -> TrainedModel:
    """Read what `save_trained` wrote, on the CPU; nothing in the file is ever run.

    `mapped` leaves the weights in the file. Raises BadInputError where the file is missing, damaged,
    something else, or of another version.
    """
    try:
        state = read_sealed(path, mapped)
        return TrainedModel(**{**state, "config": RunConfig.model_validate(state["config"])})
    except OSError as error:
        raise BadInputError(
            f"{path}: expected a trained model, but it cannot be read ({error.strerror})"
        ) from None
    except ValidationError:
        raise BadInputError(
            f"{path} is of another version of the lab: its config has other keys; train it again"
        ) from None
    except (DamagedFileError, KeyError, TypeError):
        raise BadInputError(
            f"{path}: expected a trained model, came something else or a damaged file"
        ) from None
