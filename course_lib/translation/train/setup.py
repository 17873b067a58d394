"""Everything before the first update: devices, the validation of the config, and the run's data."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.checkpoint import Checkpoints, load_checkpoint, require_same_config
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.checkpoints.trained_model import TrainedRun, load_trained_run
from course_lib.translation.configs.loader import documented_yaml, keys, value_text
from course_lib.translation.configs.schema import RunConfig, TrainingConfig
from course_lib.translation.data.prepared import PreparedData, open_prepared, prepare
from course_lib.translation.data.vocabularies import BidirectionalSubwords, load_vocabularies
from course_lib.translation.distributed import (
    DistributedInfo,
    broadcast_from_rank_zero,
    global_sum,
    raise_on_all_ranks,
    rank_zero_first,
    require_equal,
)
from course_lib.translation.model.precision import Precision, has_bfloat16
from course_lib.translation.train.student_code.parts import StudentCode, require_same_code

#: Settings that may differ between ranks: local paths and thread counts.
_LOCAL_SETTINGS = {
    *("run_folder", "data.folder", "data.mirror", "data.cache"),
    *("training.threads", "training.init_from"),
}

#: Settings that must be the same for the weights of one run to fit another.
_SHAPE = ("layers", "d_model", "heads", "d_ff", "norm_first", "tie_embeddings")


def set_up_process(config: RunConfig, distributed: DistributedInfo) -> tuple[RunConfig, torch.device]:
    """Choose this rank's device and threads, and check that all ranks agree on the config.

    Return the config with `precision: auto` resolved, so that a resumed run uses the same precision. Raises
    BadInputError on all ranks if the config cannot be satisfied.
    """
    training = config.training
    device = rank_zero_first(distributed, lambda: choose_device(training, distributed))
    # Before any other communication: a rank on a CPU and one on a GPU would wait for each other.
    require_equal(distributed, {"the device": device.type})
    if training.batches_per_update < distributed.world_size:
        raise_on_all_ranks(
            distributed,
            f"training.batches_per_update: {distributed.world_size} processes need at least as many batches "
            "in an "
            f"update, got {training.batches_per_update}. Start at most {training.batches_per_update} "
            "processes, or "
            f"set training.batches_per_update={distributed.world_size}, which makes each update larger.",
        )
    share_cores(training, distributed)
    precision = resolve_precision_on_all_ranks(training.precision, device, distributed)
    config = config.model_copy(update={"training": training.model_copy(update={"precision": precision})})
    settings = {path: value_text(config, path) for path in keys() if path not in _LOCAL_SETTINGS}
    require_equal(distributed, {**settings, "PyTorch": torch.__version__})
    return config, device


def resolve_precision_on_all_ranks(
    precision: Precision, device: torch.device, distributed: DistributedInfo
) -> Precision:
    """Replace `auto` by bfloat16 if the devices of all ranks support it, and by float32 otherwise."""
    if precision != "auto":
        return precision
    supported = global_sum(distributed, torch.tensor(int(has_bfloat16(device)), device=device))
    return "bfloat16" if int(supported) == distributed.world_size else "float32"


def choose_device(config: TrainingConfig, distributed: DistributedInfo) -> torch.device:
    """Return the device for this rank: its own GPU, or the CPU.

    Raises BadInputError if there are fewer GPUs than local ranks.
    """
    if config.device == "cpu" or (config.device == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    gpus = torch.cuda.device_count()
    if distributed.local_world_size > gpus:
        raise BadInputError(
            f"training.device: this machine has {gpus} GPUs, but its processes need "
            f"{distributed.local_world_size}. Start fewer processes, or set training.device=cpu."
        )
    device = torch.device("cuda", distributed.local_rank)
    torch.cuda.set_device(device)
    return device


def share_cores(config: TrainingConfig, distributed: DistributedInfo) -> None:
    """Share the cores of a machine evenly among its ranks; torchrun gives each only one thread."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    elif distributed.local_world_size > 1:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        torch.set_num_threads(max(1, cores // distributed.local_world_size))


@dataclass
class RunInputs:
    """The data of a run, and the state or the weights that it starts from."""

    data: PreparedData
    state: dict[str, Any] | None
    """The latest checkpoint; None for a new run."""
    start: TrainedRun | None
    """The run that `training.init_from` names; None for a resumed run, or one with random weights."""
    damaged: list[Path]
    """Checkpoints that were skipped because they are damaged."""


def open_run(
    folder: RunFolder, config: RunConfig, distributed: DistributedInfo, student: StudentCode | None
) -> RunInputs:
    """Load the latest checkpoint if there is one, and prepare the data. Must be called on every rank.

    Raises BadInputError on all ranks if the folder holds another run, or the data cannot be prepared.
    """
    latest = broadcast_from_rank_zero(
        distributed, Checkpoints(folder.checkpoints, config.checkpoints.keep_last).find_latest
    )
    # Other nodes may have mounted the folder elsewhere.
    path = latest.path and folder.checkpoints / latest.path.name
    start = rank_zero_first(distributed, lambda: None if path else load_starting_run(config))
    data, state = rank_zero_first(
        distributed, lambda: _load(folder, config, distributed, path, student, start)
    )
    require_equal(
        distributed,
        {
            "the vocabulary": data.vocabularies.fingerprint,
            "the prepared data": data.fingerprint,
            "the weights to start from": start.fingerprint if start else "none",
        },
    )
    return RunInputs(data, state, start, latest.damaged)


def _load(
    folder: RunFolder,
    config: RunConfig,
    distributed: DistributedInfo,
    checkpoint: Path | None,
    student: StudentCode | None,
    start: TrainedRun | None,
) -> tuple[PreparedData, dict[str, Any] | None]:
    state = None
    if checkpoint is not None:
        state = load_checkpoint(checkpoint)
        require_same_config(checkpoint, state["config"], config)
        require_same_code(checkpoint, folder.parts, state.get("parts"), student)
        if load_vocabularies(folder.vocabulary).fingerprint != state["vocabulary"]:
            raise BadInputError(
                f"{folder.vocabulary}: {checkpoint} was made with another vocabulary. Restore the run's own "
                "file."
            )
    if not distributed.is_rank_zero:
        return open_prepared(folder.data, folder.vocabulary), state
    folder.remove_temporary_files()
    # A run may learn another vocabulary only before its first checkpoint.
    given = start.vocabularies if start else None
    data = prepare(config.data, folder.data, folder.vocabulary, learn=state is None, given=given)
    if state is not None and state["data"] != data.fingerprint:
        raise BadInputError(
            f"{checkpoint}: the corpus has changed since this run was started. Restore it to resume, or "
            "start a new "
            "run with another run_folder."
        )
    try:
        atomic_write_text(folder.config, documented_yaml(config))
        if student is not None and state is None:
            student.save(folder.parts)
    except OSError as error:
        raise BadInputError(f"{folder.path}: cannot write to the run folder ({error.strerror}).") from None
    return data, state


def load_starting_run(config: RunConfig) -> TrainedRun | None:
    """Load the run that `training.init_from` names, or None if training starts from random weights.

    Raises BadInputError if that run has no model, or one whose weights don't fit this run's model.
    """
    folder = config.training.init_from
    if folder is None:
        return None
    try:
        run = load_trained_run(RunFolder(Path(folder)))
    except BadInputError as error:
        raise BadInputError(
            f"training.init_from: {error} Train that run first, or set training.init_from=null."
        ) from None
    before = run.model.config
    facts = [(f"model.{name}", getattr(before.model, name), getattr(config.model, name)) for name in _SHAPE]
    facts.append(("data.tokenizer", before.data.tokenizer, config.data.tokenizer))
    differences = [
        f"{key} is {theirs} there and {ours} here" for key, theirs, ours in facts if theirs != ours
    ]
    if differences:
        raise BadInputError(
            f"training.init_from: the model of {folder} doesn't fit: {'; '.join(differences)}. Set these "
            "keys as in "
            "that run."
        )
    if config.data.both_directions and not isinstance(run.vocabularies, BidirectionalSubwords):
        raise BadInputError(
            f"training.init_from: {folder} was trained without data.both_directions, so its vocabulary has "
            "no tokens "
            "for the languages. Choose a run with data.both_directions, or turn it off."
        )
    return run
