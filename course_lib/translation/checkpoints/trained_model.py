"""Trained models on disk, which contain only what is needed to translate.

A run saves up to three models in its folder. They share the vocabulary, and each file holds the vocabulary's
fingerprint.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError
from torch import Tensor

from course_lib.errors import BadInputError
from course_lib.transformer import average_checkpoints
from course_lib.translation.checkpoints.checkpoint import StepFiles
from course_lib.translation.checkpoints.checksummed_files import (
    DamagedFileError,
    load_checksummed,
    save_checksummed,
)
from course_lib.translation.checkpoints.run_folder import MODEL_KINDS, RunFolder
from course_lib.translation.configs.loader import load_config
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.vocabulary import Vocabulary
from course_lib.translation.distributed import memory_of


@dataclass(frozen=True)
class TrainedModel:
    """The weights of a model, with its config and the fingerprint of its vocabulary."""

    config: RunConfig
    vocabulary: str
    """The fingerprint of the vocabulary that the model was trained with."""
    weights: dict[str, Tensor]
    """A state dict with the parameter names of the reference's Transformer."""
    step: int
    """The number of updates that produced the weights or, if they are averaged, the latest snapshot."""
    parts: str | None = None
    """The fingerprint of the student's code that was trained; None for the reference."""


def save_model(path: Path, model: TrainedModel) -> None:
    """Write a model atomically, and create its folder if necessary.

    Raises OSError, for example if the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    save_checksummed(path, {**vars(model), "config": model.config.model_dump()})


def load_model(path: Path, mapped: bool = False) -> TrainedModel:
    """Load a model on the CPU. No code in the file is ever run.

    With `mapped`, the weights are memory-mapped. Raises BadInputError if the file is missing or damaged, is
    not a model, or was written by a version of the lab with different config keys.
    """
    try:
        state = load_checksummed(path, mapped)
        return TrainedModel(**{**state, "config": RunConfig.model_validate(state["config"])})
    except OSError as error:
        raise BadInputError(f"{path}: this model cannot be read ({error.strerror}).") from None
    except ValidationError:
        raise BadInputError(
            f"{path} was written by a different version of the lab, whose config has different keys. "
            "Train it again."
        ) from None
    except (DamagedFileError, KeyError, TypeError):
        raise BadInputError(
            f"{path}: this file is damaged or is not a trained model. Train the model again, or choose "
            "another file."
        ) from None


@dataclass(frozen=True)
class TrainedRun:
    """A trained model, its vocabulary and the folder that both were read from."""

    folder: RunFolder
    model: TrainedModel
    vocabulary: Vocabulary


def load_trained_run(folder: RunFolder, checkpoint: str | None = None) -> TrainedRun:
    """Load a model of a run, which may still be training, and its vocabulary.

    `checkpoint` is last, best, averaged or the path of a model. By default, it is the one that
    `evaluation.weights` names in the run's config or, if that hasn't been saved yet, the first that exists.
    Raises BadInputError if the run or the model is missing or damaged, or if their vocabularies differ.
    """
    model = load_model(_model_path(folder, checkpoint))
    vocabulary = Vocabulary.load(folder.vocabulary, model.config.data.direction)
    if vocabulary.fingerprint != model.vocabulary:
        raise BadInputError(
            f"{folder.vocabulary}: the model was trained with a different vocabulary. Restore the run's file."
        )
    return TrainedRun(folder, model, vocabulary)


def _model_path(folder: RunFolder, checkpoint: str | None) -> Path:
    available = [kind for kind in MODEL_KINDS if folder.model(kind).is_file()]
    if checkpoint is not None:
        kind = next((kind for kind in MODEL_KINDS if kind == checkpoint), None)
        if kind is not None and kind not in available:
            raise BadInputError(
                f"{folder.path}: the run has no {kind} model; it has {', '.join(available) or 'none yet'}."
            )
        if kind is None and not Path(checkpoint).exists():
            raise BadInputError(
                f"{checkpoint}: there is no such file. Pass the file of a model, or a kind of model that the "
                f"run has: {', '.join(available) or 'none yet'}."
            )
        return folder.model(kind) if kind else Path(checkpoint)
    if not available:
        raise BadInputError(
            f"{folder.path}: there is no trained model in this folder. A run can translate after its first "
            "epoch."
        )
    chosen = load_config(str(folder.config)).evaluation.weights
    return folder.model(chosen if chosen in available else available[0])


class Snapshots(StepFiles):
    """The newest `count` snapshots of a run's weights, to be averaged as in section 6.1 of the paper.

    Checkpoints would be unsuitable: they are three times as large, and are also written when a run is
    interrupted, while the average must not depend on interruptions.
    """

    def save(self, model: TrainedModel) -> None:
        """Write a snapshot, then call `remove_others`. Raises OSError, for example if the disk is full."""
        save_model(self.path(model.step), model)
        self.remove_others(up_to=model.step)

    def average(self, up_to: int, report: Callable[[str], None]) -> TrainedModel | None:
        """Return the average of the newest `count` snapshots up to update `up_to`, or None if none is usable.

        Damaged and unreadable snapshots are left out, and reported by calling `report` with a message.
        """
        models: list[TrainedModel] = []
        for path in self.newest_first(up_to)[: self.count]:
            try:
                # Memory-map the weights, because all models together may not fit into memory. Averaging reads
                # one tensor at a time.
                models.append(load_model(path, mapped=True))
            except BadInputError as error:
                report(f"Left out of the average: {error}")
        if not models:
            return None
        if len(models) < self.count:
            report(f"Averaging only {len(models)} snapshots instead of {self.count} (training.average_last).")
        # Tied weights are averaged once, and stay tied.
        names = {memory_of(weight): name for name, weight in models[0].weights.items()}
        average = average_checkpoints(
            [{name: model.weights[name] for name in names.values()} for model in models]
        )
        weights = {name: average[names[memory_of(weight)]] for name, weight in models[0].weights.items()}
        return replace(models[0], weights=weights)
