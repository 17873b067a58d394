"""What a run has learnt: one of its models, with the vocabularies that belong to it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch

from course_lib.errors import BadInputError
from course_lib.translation.configs.loader import load_config
from course_lib.translation.data.vocabularies import Vocabularies, load_vocabularies
from course_lib.translation.training.checkpoints.model_file import (
    TrainedModel,
    Use,
    load_trained,
    trained_path,
)
from course_lib.translation.training.run_folder import RunFolder

USES: tuple[Use, ...] = ("last", "best", "averaged")


@dataclass(frozen=True)
class TrainedRun:
    """A model that translates, as far as files go."""

    model: TrainedModel
    vocabularies: Vocabularies

    @property
    def fingerprint(self) -> str:
        """A hash that two have in common only where their weights are the same."""
        digest = hashlib.sha256()
        for name, weight in sorted(self.model.weights.items()):
            digest.update(name.encode() + weight.contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()


def load_trained_run(folder: RunFolder, checkpoint: str | None = None) -> TrainedRun:
    """Read a model of a run, which may still be going on, and its vocabularies.

    `checkpoint` is last, best, averaged or a model's path; without it, what the run's config says, or the
    last where the run has not come to that yet. Raises BadInputError where the run or the model is not there,
    damaged, or of another vocabulary.
    """
    model = load_trained(_model_path(folder, checkpoint))
    vocabularies = load_vocabularies(folder.vocabulary)
    if vocabularies.fingerprint != model.vocabulary:
        raise BadInputError(
            f"{folder.vocabulary}: expected the vocabulary that the model was trained with, came another one"
        )
    return TrainedRun(model, vocabularies)


def _model_path(folder: RunFolder, checkpoint: str | None) -> Path:
    there = [use for use in USES if trained_path(folder.path, use).is_file()]
    if checkpoint is None:
        if not folder.path.is_dir():
            raise BadInputError(f"{folder.path}: expected the folder of a run, but there is none")
        if not there:
            raise BadInputError(
                f"{folder.path}: expected the folder of a run with a trained model, came one without; "
                "its first epoch has to end before it can translate"
            )
        chosen = load_config(str(folder.config)).evaluation.weights
        return trained_path(folder.path, chosen if chosen in there else there[0])
    for use in USES:
        if checkpoint == use:
            if use not in there:
                raise BadInputError(
                    f"{folder.path}: the run has no {use} model; it has {', '.join(there) or 'none yet'}"
                )
            return trained_path(folder.path, use)
    return Path(checkpoint)
