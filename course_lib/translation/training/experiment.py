"""A run from corpus to score, and the folder that keeps it."""

import contextlib
import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.translation.configs.loader import documented_yaml, keys, value_text
from course_lib.translation.configs.schema import RunConfig, TrainingConfig
from course_lib.translation.data.prepared import PreparedData, open_prepared, prepare
from course_lib.translation.data.vocabularies import load_vocabularies
from course_lib.translation.model.components import REFERENCE
from course_lib.translation.model.precision import settled_by_all
from course_lib.translation.student_code.code import naming_the_cell
from course_lib.translation.student_code.parts import OwnParts, PartsChoice, own_parts, refuse_other_parts
from course_lib.translation.student_code.speed import relative_speed
from course_lib.translation.training.checkpoints.checkpoint import (
    Checkpoints,
    Found,
    load_checkpoint,
    refuse_other_config,
)
from course_lib.translation.training.checkpoints.trained_run import TrainedRun
from course_lib.translation.training.distributed import (
    Place,
    first_decides,
    first_then_rest,
    raise_on_all,
    refuse_differences,
)
from course_lib.translation.training.evaluation import Evaluator
from course_lib.translation.training.interruption import Interruption
from course_lib.translation.training.loop import Session
from course_lib.translation.training.metrics import MetricsLog
from course_lib.translation.training.progress_bar import RunDisplay
from course_lib.translation.training.run_folder import RunFolder
from course_lib.translation.training.scoring import Score
from course_lib.translation.training.starting_model import starting_model
from course_lib.translation.training.updates import Trainer


@dataclass(frozen=True)
class Result:
    """What a finished run has come to."""

    score: Score
    """BLEU on the test split."""
    sources: list[str]
    translations: list[str]
    references: list[str]
    folder: RunFolder


def train(
    config: RunConfig,
    place: Place,
    interruption: Interruption | None = None,
    choice: PartsChoice | None = None,
) -> Result:
    """Train, score and translate as the config says; a run that was stopped goes on from its checkpoint.

    With a `choice`, the model and its training are made of a student's own parts.
    Every process of the run calls it. Raises BadInputError before anything is written where the config cannot
    be met, and Interrupted where `interruption`, if given, has been told to stop.
    """
    device = first_then_rest(place, lambda: choose_device(config.training, place))
    # Before anything is sent: a process on a CPU and one on a GPU would wait for each other.
    refuse_differences(place, {"the device": device.type})
    _refuse_idle(config.training, place)
    share_cores(config.training, place)
    config = _with_settled_precision(config, device, place)
    refuse_differences(place, _what_must_agree(config))
    parts = own_parts(choice, config, place, device) if choice else None
    with naming_the_cell(parts.parts if parts else None):
        return _train(config, place, device, interruption or Interruption(), parts)


def _train(
    config: RunConfig,
    place: Place,
    device: torch.device,
    interruption: Interruption,
    parts: OwnParts | None,
) -> Result:
    folder = RunFolder(Path(config.run_folder))
    found = first_decides(place, lambda: Checkpoints(folder.checkpoints, config.checkpoints.keep_last).find())
    if found.path is not None:
        # The folder may be mounted elsewhere on other nodes.
        found = replace(found, path=folder.checkpoints / found.path.name)
    start = first_then_rest(place, lambda: starting_model(config) if found.path is None else None)
    data, state = first_then_rest(place, lambda: _open(folder, config, place, found, parts, start))
    vocabularies = data.vocabularies
    refuse_differences(
        place,
        {
            "the vocabulary": vocabularies.fingerprint,
            "the prepared data": data.fingerprint,
            "the model to begin with": start.fingerprint if start else "none",
        },
    )

    pieces = parts.pieces() if parts else REFERENCE
    trainer = Trainer(config, data.train, vocabularies, place, device, pieces)
    trainer.measure_machine()
    if state is not None:
        trainer.load(state["trainer"])
    elif start is not None:
        first_then_rest(place, partial(trainer.begin_with, start.model.weights))
    updates = config.training.epochs * len(trainer.plan())
    log = first_then_rest(place, lambda: _open_log(folder, state, place))
    with (
        log or contextlib.nullcontext(),
        RunDisplay(updates, trainer.step, speaks=place.is_first) as display,
    ):
        for path in found.damaged:
            display.say(f"{path} is damaged: left out.")
        if parts is not None:
            display.say(parts.table())
            if place.is_first and state is None:
                speed = relative_speed(config, pieces, data.train, vocabularies, device)
                display.say(f"Your parts run at {speed:.2f} of the reference's speed.")
        display.say(_opening(config, data, trainer, place, device))
        for note in data.notes:
            display.say(f"Data: {note}.")
        for note in trainer.notes:
            display.say(f"{note}.")
        evaluator = Evaluator(config, vocabularies, place, device, pieces)
        session = Session(config, place, folder, data, trainer, evaluator, display, log, interruption, parts)
        if state is None:
            first_then_rest(place, session.begin)
        else:
            session.load(state)
        # As large as the model and the optimiser, once more.
        state = start = None
        session.train()
        test_score, translations = session.test()
    return Result(test_score, data.test.text.german, translations, data.test.text.english, folder)


def choose_device(config: TrainingConfig, place: Place) -> torch.device:
    """Give this process its own GPU, or the CPU. Raises BadInputError where there is no GPU to give."""
    if config.device == "cpu" or (config.device == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    gpus = torch.cuda.device_count()
    if place.local_world_size > gpus:
        raise BadInputError(
            f"training.device: expected a GPU for each of the {place.local_world_size} processes here, "
            f"came {gpus}; start fewer processes, or set training.device=cpu"
        )
    device = torch.device("cuda", place.local_rank)
    torch.cuda.set_device(device)
    return device


def _with_settled_precision(config: RunConfig, device: torch.device, place: Place) -> RunConfig:
    """Write into the config what `precision: auto` means here, so that a continued run computes alike."""
    precision = settled_by_all(config.training.precision, device, place)
    return config.model_copy(update={"training": config.training.model_copy(update={"precision": precision})})


def share_cores(config: TrainingConfig, place: Place) -> None:
    """Give the processes of a machine equal shares of its cores; torchrun leaves each with one thread."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    elif place.local_world_size > 1:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        torch.set_num_threads(max(1, cores // place.local_world_size))


def _refuse_idle(config: TrainingConfig, place: Place) -> None:
    batches = config.batches_per_update
    if batches < place.world_size:
        raise_on_all(
            place,
            f"training.batches_per_update: expected a batch for each of the {place.world_size} processes, "
            f"came {batches}; start at most {batches}, or set training.batches_per_update to "
            f"{place.world_size}, which makes each update larger",
        )


#: What may differ from process to process: where things are, and what computes.
_OF_THE_MACHINE = {
    *("run_folder", "data.folder", "data.mirror", "data.cache"),
    *("training.threads", "training.init_from"),
}


def _what_must_agree(config: RunConfig) -> dict[str, str]:
    facts = {path: value_text(config, path) for path in keys() if path not in _OF_THE_MACHINE}
    return {**facts, "PyTorch": torch.__version__}


def _open_log(folder: RunFolder, state: dict[str, Any] | None, place: Place) -> MetricsLog | None:
    if not place.is_first:
        return None
    try:
        return MetricsLog(folder.metrics, state["metrics_bytes"] if state else 0)
    except OSError as error:
        raise BadInputError(f"{folder.metrics}: the run cannot be kept there ({error.strerror})") from None


def _open(
    folder: RunFolder,
    config: RunConfig,
    place: Place,
    found: Found,
    parts: OwnParts | None,
    start: TrainedRun | None,
) -> tuple[PreparedData, dict[str, Any] | None]:
    state = None
    if found.path is not None:
        state = load_checkpoint(found.path)
        refuse_other_config(found.path, state["config"], config)
        refuse_other_parts(found.path, folder.parts, state.get("parts"), parts)
        if load_vocabularies(folder.vocabulary).fingerprint != state["vocabulary"]:
            raise BadInputError(
                f"{folder.vocabulary}: expected the vocabulary of {found.path}, came another one"
            )
    if not place.is_first:
        return open_prepared(folder.data, folder.vocabulary), state
    folder.remove_leftovers()
    # Only before its first checkpoint may a run learn another vocabulary.
    given = start.vocabularies if start else None
    data = prepare(config.data, folder.data, folder.vocabulary, learn=state is None, given=given)
    if state is not None and state["data"] != data.fingerprint:
        raise BadInputError(
            f"{found.path}: the corpus is no longer what that run has learnt from; bring it back to go on "
            "with the run, or choose another run_folder for a new one"
        )
    _write(folder, config, parts if state is None else None)
    return data, state


def _write(folder: RunFolder, config: RunConfig, parts: OwnParts | None) -> None:
    try:
        atomic_write_text(folder.config, documented_yaml(config))
        if parts is not None:
            parts.keep(folder.parts)
    except OSError as error:
        raise BadInputError(f"{folder.path}: the run cannot be kept there ({error.strerror})") from None


def _opening(
    config: RunConfig,
    data: PreparedData,
    trainer: Trainer,
    place: Place,
    device: torch.device,
) -> str:
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    start = f"going on after update {trainer.step}" if trainer.step else "starting"
    batches = config.training.batches_per_update
    uneven = (
        f"\nAn update's {batches} batches can't be dealt out evenly: some processes wait for others."
        if batches % place.world_size
        else ""
    )
    return (
        f"{config.data.corpus}: {len(data.train):,} pairs to learn from, {_tokens(config, data)}. "
        f"Model: {parameters:,} parameters in {config.training.precision} on {device.type}, "
        f"{place.world_size} {'process' if place.world_size == 1 else 'processes'}; {start}.{uneven}"
    )


def _tokens(config: RunConfig, data: PreparedData) -> str:
    source, target = len(data.vocabularies.source), len(data.vocabularies.target)
    kind = "words" if config.data.tokenizer == "words" else "subwords"
    return f"{target:,} {kind}" if config.data.shares_vocabulary else f"{source:,} and {target:,} {kind}"
