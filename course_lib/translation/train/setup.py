"""The setup of a run before the first update: devices, validation of the config, and data."""

import contextlib
import importlib.util
import os
import shutil
import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.file_locks import try_lock
from course_lib.translation.checkpoints.checkpoint import (
    Checkpoint,
    Checkpoints,
    CheckpointState,
    require_same_config,
)
from course_lib.translation.checkpoints.provided import load_run
from course_lib.translation.checkpoints.run_folder import MODEL_KINDS, RunFolder
from course_lib.translation.checkpoints.trained_model import TrainedRun
from course_lib.translation.configs.loader import documented_yaml, load_config, yaml_values
from course_lib.translation.configs.schema import ModelConfig, Precision, RunConfig, TrainingConfig
from course_lib.translation.data.preparation import prepare
from course_lib.translation.data.prepared import PreparedData, open_run_data, open_shared_data
from course_lib.translation.data.vocabulary import Vocabulary
from course_lib.translation.distributed import (
    DistributedInfo,
    all_gather,
    broadcast_from_rank_zero,
    global_max,
    raise_on_all_ranks,
    rank_zero_first,
    require_equal,
)
from course_lib.translation.model.devices import choose_device, device_name
from course_lib.translation.model.memory import GIB, MemoryEstimate
from course_lib.translation.model.precision import choose_kernels, resolve_precision
from course_lib.translation.train.student_code.parts import StudentCode, require_same_code
from course_lib.translation.train.trainer import Trainer

#: Settings that may differ between ranks: local paths and thread counts.
_LOCAL_SETTINGS = {
    "run_folder",
    "data.folder",
    "data.mirror",
    "data.prepared",
    "training.threads",
    "training.init_from",
}

#: How long a restarted process waits for the lock of its run folder.
_SECONDS_FOR_LOCK = 120

#: Settings of the model that may differ between two runs although the weights of one start the other.
_NOT_ARCHITECTURE = {"dropout", "inner_dropout", "attention"}


def set_up_process(config: RunConfig, distributed: DistributedInfo) -> tuple[RunConfig, torch.device]:
    """Select this rank's device, set its number of threads, and check that the config is equal on all ranks.

    All ranks need the same model of GPU, or a CPU, and the same version of PyTorch. Return the config with
    `precision: auto` resolved (for a resumed run, to the run's own precision), and the device. Must be
    called on every rank. Raises BadInputError on all ranks if the config cannot be satisfied or if the ranks
    differ.
    """
    training = config.training
    device = rank_zero_first(distributed, lambda: choose_device(training, distributed))
    # This must precede any other communication in the default process group: a rank on a CPU and a rank on a
    # GPU would wait for each other forever. Different GPUs are rejected because all ranks would wait for the
    # slowest one, and a GPU may not support the precision.
    require_equal(distributed, {"the device": device_name(device)})
    rank_zero_first(distributed, lambda: require_dashboards(training, distributed))
    share_cores(training, distributed)
    # With different settings, the ranks would wait in different collectives below.
    settings = {path: value for path, value in yaml_values(config).items() if path not in _LOCAL_SETTINGS}
    require_equal(distributed, settings | {"PyTorch": torch.__version__})
    precision = resolve_precision_on_all_ranks(training.precision, device, distributed)
    if training.precision == "auto":
        folder = RunFolder(Path(config.run_folder))
        # Only rank 0 reads the folder, because other nodes may have mounted it elsewhere.
        precision = broadcast_from_rank_zero(
            distributed, lambda: resumed_precision(folder, precision, device)
        )
    choose_kernels(precision, device)
    config = config.model_copy(update={"training": training.model_copy(update={"precision": precision})})
    return config, device


def require_dashboards(training: TrainingConfig, distributed: DistributedInfo) -> None:
    """Raise BadInputError if this is rank 0, a dashboard is enabled, and its package isn't installed.

    Only rank 0 writes to dashboards.
    """
    dashboards = ("tensorboard", training.tensorboard, "false"), ("wandb", training.wandb, "null")
    for package, wanted, off in dashboards:
        if distributed.is_rank_zero and wanted and importlib.util.find_spec(package) is None:
            raise BadInputError(
                f"training.{package}: the package {package} is not installed. Install it (pip install "
                f"{package}), or set training.{package}={off}."
            )


def divide_updates(config: RunConfig, world_size: int) -> RunConfig:
    """Return the config with each update divided into at least as many batches as there are processes.

    An update keeps its number of tokens, unless the batches would be too small for the longest sentence.
    """
    training = config.training
    if training.batches_per_update >= world_size:
        return config
    total = training.tokens_per_batch * training.batches_per_update
    tokens = max(config.data.max_length, total // world_size)
    batches = {"batches_per_update": world_size, "tokens_per_batch": tokens}
    return config.model_copy(update={"training": training.model_copy(update=batches)})


def resolve_precision_on_all_ranks(
    precision: Precision, device: torch.device, distributed: DistributedInfo
) -> Precision:
    """Return the precision to use on all ranks, as `resolve_precision` does.

    Must be called on every rank, with the same `precision`.
    """
    resolved = all_gather(distributed, [resolve_precision(precision, device)])
    # Only CPUs can differ here, because all GPUs are of the same model.
    return resolved[0] if len(set(resolved)) == 1 else "float32"


def resumed_precision(folder: RunFolder, resolved: Precision, device: torch.device) -> Precision:
    """Resolve `precision: auto` for the run in a folder.

    A resumed run keeps the precision in which it was started. For a new one, the result is `resolved`, the
    choice for this hardware. Raises BadInputError if the run was started in a 16-bit precision that
    `auto` doesn't choose on this hardware.
    """
    if not folder.config.is_file() or not any(folder.checkpoints.glob("*")):
        return resolved
    started = load_config(str(folder.config)).training.precision
    if started == "float32" or (started == "float16" and device.type == "cuda"):
        return started
    # `auto` never resolves to a precision such as tf32, so the user has changed the config since then. A
    # later check reports that.
    if started == resolved or started not in ("bfloat16", "float16"):
        return resolved
    raise BadInputError(
        f"training.precision: the run in {folder.path} was started in {started}, but auto means {resolved} "
        f"on this hardware ({device_name(device)}). Resume the run on the same kind of hardware, or choose "
        "another run_folder to start a new one."
    )


def require_enough_memory(
    trainer: Trainer, config: RunConfig, distributed: DistributedInfo, device: torch.device
) -> None:
    """Raise BadInputError on all ranks if training won't fit into the GPU memory of at least one rank.

    With a student's code, whose memory can't be estimated, nothing is checked. Must be called on every rank.
    """
    estimate, (free, _) = trainer.estimate_memory(), torch.cuda.mem_get_info(device)
    if estimate is None:
        return
    free = -global_max(distributed, -free)  # The minimum over all ranks.
    # The weights and DDP's buckets, which hold the gradients, are already allocated.
    allocated = estimate.weights * (2 if distributed.has_process_group else 1)
    if estimate.total - allocated > free:
        largest = largest_batch(trainer, config, free + allocated)
        raise_on_all_ranks(distributed, too_little_memory(config, estimate, free, largest))


def largest_batch(trainer: Trainer, config: RunConfig, available: int) -> int:
    """Return the largest `training.tokens_per_batch` that is estimated to fit into `available` bytes.

    If not even the longest sentence fits, return 0.
    """
    length = config.data.max_length

    def total(sentences: int) -> int:
        estimate = trainer.estimate_memory(sentences * length)
        assert estimate is not None, "the caller has an estimate"
        return estimate.total

    counts = range(1, config.training.tokens_per_batch // length + 1)
    return bisect_right(counts, available, key=total) * length


def too_little_memory(config: RunConfig, estimate: MemoryEstimate, free: int, largest: int) -> str:
    """Return the error message for a GPU with too little memory, of which `free` bytes are free.

    `largest` is the result of `largest_batch`.
    """
    needed = (
        f"training.tokens_per_batch: training needs {estimate.description} on each GPU, but only "
        f"{free / GIB:.1f} GiB are free."
    )
    if largest < config.data.max_length:
        return (
            f"{needed} Not even a batch with one sentence of data.max_length={config.data.max_length} tokens "
            "fits. Choose a smaller model or a smaller data.max_length."
        )
    parts = -(-config.training.tokens_per_batch // largest)
    return f"{needed} At most {largest} tokens fit. {_smaller_batches(config, parts)}"


@contextlib.contextmanager
def full_memory_reported(config: RunConfig, section: Literal["training", "evaluation"]) -> Iterator[None]:
    """Raise BadInputError, with advice, in place of PyTorch's error if a GPU's memory is full.

    That can happen despite `require_enough_memory`, with a student's code or if other programs use the GPU.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        facts = ". ".join(str(error).split(". ")[:3])
        longest, tokens = config.data.max_length, config.evaluation.tokens_per_batch
        advice = _smaller_batches(config, 2)
        if section == "evaluation" and tokens > longest:
            advice = f"Set evaluation.tokens_per_batch={max(longest, tokens // 2)}."
        elif section == "evaluation":
            advice = "Choose a smaller model or a smaller data.max_length."
        raise BadInputError(
            f"{section}.tokens_per_batch: the memory of the GPU is full ({facts}). If other programs use "
            f"this GPU, end them. {advice}"
        ) from error


def _smaller_batches(config: RunConfig, parts: int) -> str:
    """Return the advice to divide each batch, for a GPU with too little memory."""
    training, longest = config.training, config.data.max_length
    if training.tokens_per_batch <= longest:
        return "Choose a smaller model or a smaller data.max_length."
    # Divide every batch into the same number of parts, so that the batches of an update can still be divided
    # evenly among the processes.
    return (
        f"Set training.tokens_per_batch={max(longest, training.tokens_per_batch // parts)} "
        f"training.batches_per_update={training.batches_per_update * parts}, which keeps updates at about "
        "the same size, or choose a smaller model."
    )


def share_cores(config: TrainingConfig, distributed: DistributedInfo) -> None:
    """Set this rank's number of CPU threads: `config.threads` or, by default, an even share of the cores.

    torchrun itself would set one thread per rank. With several ranks, PyTorch's compiler gets the same share,
    because it would otherwise start up to 32 processes for each rank.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = max(1, cores // distributed.local_world_size)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    elif distributed.local_world_size > 1:
        torch.set_num_threads(share)
    if distributed.local_world_size > 1:
        # PyTorch reads this variable when it imports the compiler, which happens later.
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(share))


@contextlib.contextmanager
def locked_run(folder: RunFolder) -> Iterator[None]:
    """Lock the run folder while the block runs.

    The lock is on the metrics file, and the operating system releases it if the process is killed. If
    the block raises an exception before anything is written, a new folder is removed again. Raises
    BadInputError if another process is training in the folder, if it cannot be created or written to, or if
    it contains files but no run. If SLURM or torchrun has restarted this process, wait up to two
    minutes for the lock: NFS keeps the lock of a node that has crashed for about 90 seconds.
    """
    is_new = not folder.path.exists()
    with contextlib.ExitStack() as stack:
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.require_run_or_empty()
            metrics = stack.enter_context(folder.metrics.open("ab"))
        except FileExistsError:
            raise BadInputError(
                f"run_folder: {folder.path} is a file. Choose the path of a new folder, or of a run."
            ) from None
        except OSError as error:
            raise BadInputError(
                f"run_folder: {folder.path} can't be created or written to ({error.strerror}). Choose "
                "another folder."
            ) from None
        deadline = time.monotonic() + (_SECONDS_FOR_LOCK if _was_restarted() else 0)
        while not (locked := try_lock(metrics)) and time.monotonic() < deadline:
            time.sleep(1)
        if not locked:
            raise BadInputError(
                f"{folder.path}: another process is training in this run folder. Wait until it has finished, "
                "stop it, or choose another run_folder."
            )
        try:
            yield
        except BaseException:
            is_empty = list(folder.path.iterdir()) == [folder.metrics] and not folder.metrics.stat().st_size
            if is_new and is_empty:
                shutil.rmtree(folder.path)
            raise


def _was_restarted() -> bool:
    counts = (os.environ.get(f"{name}_RESTART_COUNT", "0") for name in ("SLURM", "TORCHELASTIC"))
    return any(count != "0" for count in counts)


def open_run(
    folder: RunFolder, config: RunConfig, distributed: DistributedInfo, student: StudentCode | None
) -> tuple[RunConfig, PreparedData, tuple[Checkpoint | None, list[Path]], TrainedRun | None]:
    """Load the latest checkpoint if there is one, and prepare the data. Must be called on every rank.

    Return the config, with each update divided into at least one batch for each process, the data, the
    result of `find_latest` and, without a checkpoint, the run that `training.init_from` names, if any. Rank 0
    also saves the config and the student's code in the folder. Raises BadInputError on all ranks if the
    folder contains a different or a longer run, or a run whose checkpoints are missing or damaged, if the run
    to start from doesn't fit, or if the data cannot be prepared.
    """
    checkpoint, damaged = broadcast_from_rank_zero(distributed, lambda: _find_checkpoint(folder, config))
    start = broadcast_from_rank_zero(distributed, lambda: None if checkpoint else load_starting_run(config))
    config, data = rank_zero_first(
        distributed, lambda: _load(folder, config, distributed, checkpoint, student, start)
    )
    facts = {"the vocabulary": data.vocabulary.fingerprint, "the prepared data": data.fingerprint}
    require_equal(distributed, facts)
    return config, data, (checkpoint, damaged), start


def _find_checkpoint(folder: RunFolder, config: RunConfig) -> tuple[Checkpoint | None, list[Path]]:
    """Return the result of `find_latest`.

    Raises BadInputError if the folder contains results of a run, but no checkpoint, because starting again
    would overwrite them. A run creates its folder of checkpoints before the first update. So if that folder
    is empty, the run was stopped before its first checkpoint, and it can be started again, although it may
    have written metrics and, just before the checkpoint, the last model.
    """
    checkpoint, damaged = Checkpoints(folder.checkpoints, config.checkpoints.keep_last).find_latest()
    if checkpoint is not None:
        return checkpoint, damaged
    models = {kind for kind in MODEL_KINDS if folder.model(kind).is_file()}
    if folder.checkpoints.is_dir():
        has_results = bool(models - {"last"})
    else:
        has_results = bool(models) or folder.metrics.stat().st_size > 0
    if has_results or folder.translations.exists():
        advice = f" To train its model further, set training.init_from={folder.path} there." if models else ""
        raise BadInputError(
            f"{folder.path}: this folder contains a run without checkpoints, which can't be resumed. Choose "
            f"another run_folder.{advice}"
        )
    return None, damaged


def _load(
    folder: RunFolder,
    config: RunConfig,
    distributed: DistributedInfo,
    checkpoint: Checkpoint | None,
    student: StudentCode | None,
    start: TrainedRun | None,
) -> tuple[RunConfig, PreparedData]:
    given, config = config, divide_updates(config, distributed.world_size)
    if checkpoint is not None:
        # The checkpoint has rank 0's path, but this node may have mounted the folder elsewhere.
        path, state = folder.checkpoints / checkpoint.path.name, checkpoint.state
        config = _divided_as_before(path, state, given, distributed.world_size)
        require_same_config(path, state["config"], config)
        _require_not_shortened(folder, state, config.training)
        require_same_code(path, folder.parts, state["parts"], student)
        if Vocabulary.load(folder.vocabulary).fingerprint != state["vocabulary"]:
            raise BadInputError(
                f"{folder.vocabulary}: {path} was made with a different vocabulary. Restore the run's file."
            )
    if not distributed.is_rank_zero:
        if config.data.prepared:
            return config, open_shared_data(config.data, Path(config.data.prepared))
        return config, open_run_data(folder.data, folder.vocabulary)
    folder.remove_temporary_files()
    data = _prepared_data(folder, config, start, learn=checkpoint is None)
    if checkpoint is not None and checkpoint.state["data"] != data.fingerprint:
        raise BadInputError(
            f"{checkpoint.path}: the corpus has changed since this run was started. Restore it to resume, or "
            "start a new run with another run_folder."
        )
    try:
        if config.data.prepared and checkpoint is None:
            data.vocabulary.save(folder.vocabulary)
        atomic_write_text(folder.config, documented_yaml(given))
        if student is not None and checkpoint is None:
            student.parts.keep(folder.parts)  # Keep a copy, because the notebooks may change later.
    except OSError as error:
        raise BadInputError(f"{folder.path}: cannot write to the run folder ({error.strerror}).") from None
    return config, data


def _require_not_shortened(folder: RunFolder, state: CheckpointState, training: TrainingConfig) -> None:
    """Raise BadInputError if a run is past the epoch or the update at which its config would end it."""
    trainer = state["trainer"]
    epoch = trainer["epochs_done"] + (trainer["updates_done"] > 0)
    for unit, limit, reached in (
        ("epoch", training.epochs, epoch),
        ("update", training.updates, trainer["step"]),
    ):
        if limit is not None and reached > limit:
            raise BadInputError(
                f"training.{unit}s: the run in {folder.path} has already reached {unit} {reached}, so it "
                f"can't end after {unit} {limit}. Set training.{unit}s={reached} or more, or choose another "
                "run_folder to start a new run."
            )


def _prepared_data(
    folder: RunFolder, config: RunConfig, start: TrainedRun | None, learn: bool
) -> PreparedData:
    """Return the data in `data.prepared`, or prepare it in the run folder.

    `learn` is true before the first checkpoint. After it, the vocabulary must not change. Raises
    BadInputError if the data cannot be opened or prepared, or if its vocabulary differs from that of `start`.
    """
    known = start.vocabulary if start else None
    if not config.data.prepared:
        return prepare(config.data, folder.data, folder.vocabulary, learn, reused=known)
    data = open_shared_data(config.data, Path(config.data.prepared))
    if known is not None and known.fingerprint != data.vocabulary.fingerprint:
        raise BadInputError(
            f"data.prepared: {config.data.prepared} was prepared with a different vocabulary from that of "
            f"training.init_from={config.training.init_from}. Run `course prepare` with the same "
            "training.init_from."
        )
    return data


def _divided_as_before(path: Path, state: CheckpointState, given: RunConfig, world_size: int) -> RunConfig:
    """Return the user's config, with updates divided into the same batches as when the run was started.

    If the user has changed these settings since then, the new ones are kept, for `require_same_config` to
    report. Raises BadInputError if there are more processes than batches in an update.
    """
    names = ("batches_per_update", "tokens_per_batch")
    saved, training = state["config"]["training"], given.training
    if state["batches_before_division"] == {name: getattr(training, name) for name in names}:
        training = training.model_copy(update={name: saved[name] for name in names})
    if saved["batches_per_update"] < world_size:
        count = saved["batches_per_update"]
        raise BadInputError(
            f"{path}: this run has {count} batches in an update, too few for {world_size} processes, "
            f"and a resumed run can't change that. Start at most {count} processes, or choose another "
            "run_folder to start a new run."
        )
    return given.model_copy(update={"training": training})


def load_starting_run(config: RunConfig) -> TrainedRun | None:
    """Load the run or the provided model that `training.init_from` names, or return None if it names none.

    Raises BadInputError if that run has no model, or if its model or vocabulary doesn't fit the config.
    """
    folder = config.training.init_from
    if folder is None:
        return None
    try:
        run = load_run(folder)
    except BadInputError as error:
        raise BadInputError(
            f"training.init_from: {error} Train that run first, or set training.init_from=null."
        ) from None
    before = run.model.config
    facts = [
        (f"model.{name}", getattr(before.model, name), getattr(config.model, name))
        for name in ModelConfig.model_fields
        if name not in _NOT_ARCHITECTURE
    ]
    if run.vocabulary.direction is None:
        facts.append(("data.direction", before.data.direction, config.data.direction))
    differences = [
        f"{key} is {theirs} there and {ours} here" for key, theirs, ours in facts if theirs != ours
    ]
    if differences:
        raise BadInputError(
            f"training.init_from: the model of {folder} doesn't fit: {'; '.join(differences)}. Set these "
            "keys to the values of that run."
        )
    if config.data.both_directions and run.vocabulary.direction is None:
        raise BadInputError(
            f"training.init_from: {folder} was trained without data.both_directions, so its vocabulary has "
            "no language tags. Choose a run with data.both_directions, or set data.both_directions=false."
        )
    return replace(run, vocabulary=run.vocabulary.in_direction(config.data.direction))
