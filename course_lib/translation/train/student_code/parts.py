"""A student's parts of a run, which are compared with the reference before training starts.

Every rank reads the notebooks, and all must find the same code. A mistake is reported with its lesson before
the run starts, rather than discovered through a low BLEU score at the end. During the run, errors name the
student's cell, and its output is suppressed.
"""

import contextlib
import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from course_lib.errors import BadInputError
from course_lib.student.parts import LESSONS, Parts, PartsError, build_transformer, load_parts, unequal_parts
from course_lib.transformer import Transformer, TransformerConfig, global_token_mean, shard
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.distributed import (
    DistributedInfo,
    LostPeerError,
    all_gather,
    broadcast_from_rank_zero,
    lost_peers_reported,
    raise_on_all_ranks,
    require_equal,
)
from course_lib.translation.model.precision import product_dtype
from course_lib.translation.model.seq2seq import Components, TransformerModel
from course_lib.translation.train.student_code.adapters import StudentSchedule, search_exercises

#: What to do if a part differs from the reference: refuse to start, or use the reference's part.
UnequalParts = Literal["refuse", "reference"]

#: The exercises whose code doesn't affect the weights.
_AFTER_TRAINING = ("greedy_decode", *LESSONS.get("11-decoding", ()))
_NOT_USED = "not used: "
_MAX_MESSAGE = 200
#: A row of `Parts.table` for a part that the student hasn't written.
_UNWRITTEN_ROW = re.compile(r"\S+ +\S+ +the reference's( \(not written yet\))?")


@dataclass(frozen=True)
class StudentCode:
    """The student's parts that a run uses. The run uses the reference for all other parts."""

    parts: Parts
    notes: dict[str, str]
    """Remarks on some of the student's parts, by exercise, to be shown in the table."""

    @property
    def used(self) -> dict[str, str]:
        """The hashes of the student's cells that affect the weights, by exercise."""
        return {
            name: value
            for name, value in self.parts.fingerprints.items()
            if name not in _AFTER_TRAINING and not self.notes.get(name, "").startswith(_NOT_USED)
        }

    @property
    def fingerprint(self) -> str:
        """A hash of all of the student's code that affects the weights."""
        return hashlib.sha256(repr(sorted(self.used.items())).encode()).hexdigest()

    def table(self) -> str:
        """Return a table of the student's parts, and the number of those in use.

        Parts that the student hasn't written are only counted.
        """
        unused = sum(note.startswith(_NOT_USED) for note in self.notes.values())
        used = len(self.parts.yours) - unused
        summary = (
            f"{used} of the {len(list(self.parts))} parts come from your code. What it prints is not shown."
        )
        lines = self.parts.table(self.notes).splitlines()
        shown = [line for line in lines if not _UNWRITTEN_ROW.fullmatch(line)]
        if others := len(lines) - len(shown):
            shown.append(f"{others} other{'' if others == 1 else 's'}: the reference's")
        return "\n".join([*shown, summary])

    def components(self) -> Components:
        """Return the components for training, with the student's parts."""
        parts = self.parts
        return Components(
            transformer=self._transformer,
            tie_embeddings=parts["tie_embeddings"],
            attention=parts["scaled_dot_product_attention"],
            padding_mask=parts["padding_mask"],
            decoder_mask=parts["decoder_mask"],
            shift_target=parts["shift_target"],
            loss=parts["LabelSmoothingLoss"],
            make_scheduler=self._scheduler,
            shard=parts["shard"],
            global_token_mean=parts["global_token_mean"],
        )

    def _transformer(
        self, source_vocab: int, target_vocab: int, config: TransformerConfig
    ) -> TransformerModel:
        model = build_transformer(self.parts, source_vocab, target_vocab, config)
        # Exclude additional weights from training: the comparison has shown that they have no effect, so they
        # get no gradients, and DDP would wait for their gradients.
        known = model.state_dict(keep_vars=True)
        with torch.device("meta"):
            names = Transformer(source_vocab, target_vocab, config).state_dict()
        trained = {id(known[name]) for name in names if name in known}
        for parameter in model.parameters():
            parameter.requires_grad_(id(parameter) in trained)
        return cast(TransformerModel, model)

    def _scheduler(self, optimizer: Optimizer, d_model: int, warmup: int, factor: float) -> LRScheduler:
        make = self.parts["make_scheduler"]
        return StudentSchedule(optimizer, lambda: make(optimizer, d_model, warmup, factor))


class UpdateFailedError(BadInputError):
    """A BadInputError in the middle of an update, when the other ranks are waiting and can't be notified."""


def print_to_files(*values: object, **options: Any) -> None:
    """Print, but only to files. This replaces `print` in a student's code, which runs at every update."""
    if options.get("file") not in (None, sys.stdout, sys.stderr):
        print(*values, **options)


def load_student_code(
    folder: str, unequal: UnequalParts, config: RunConfig, distributed: DistributedInfo, device: torch.device
) -> StudentCode:
    """Load a student's parts and compare those that the config uses. Must be called on every rank.

    `folder` is the lessons' folder, or the `parts.json` of a run. Raises BadInputError on all ranks if it
    doesn't exist or contains no completed exercise, or if the ranks have different code. If a part fails or
    differs from the reference, also raises it unless `unequal` is "reference".
    """
    parts = _read(folder, distributed)
    code = dict.fromkeys((name for names in LESSONS.values() for name in names), "the reference's")
    code |= {name: value[:12] for name, value in parts.fingerprints.items()}
    require_equal(distributed, {f"the code of {name}:": value for name, value in code.items()})
    unused = _unused(config)
    faults = {
        part.source.exercise: part.problem
        for part in parts
        if part.problem and not part.unwritten and not part.source.notebook_missing
    }
    # Set the dtype for the comparison in 16 bits, which enables autocast itself.
    dtype = product_dtype(config.training.precision, device) or torch.bfloat16
    with torch.autocast(device.type, dtype, enabled=False):
        # After the parts that differ individually have been removed, the others may differ in combination.
        while found := _unequal(parts, unused, distributed, device):
            faults |= found
            parts = parts.without({name: f"it is left out: {reason}" for name, reason in found.items()})
    if faults and unequal == "refuse":
        raise_on_all_ranks(distributed, _refusal(faults))
    notes = dict.fromkeys(search_exercises(config.evaluation.beam_size), "translates the test split") | unused
    return StudentCode(parts, {name: note for name, note in notes.items() if name in parts.yours})


def require_same_code(
    checkpoint: Path, saved_code: Path, before: str | None, student: StudentCode | None
) -> None:
    """Raise BadInputError if a checkpoint was made with different code.

    `before` is the fingerprint of the checkpoint's code, and `saved_code` the path of the run's copy of it.
    `before` or `student` is None for a run without a student's code.
    """
    if before == (student.fingerprint if student else None):
        return
    if student is None:
        raise BadInputError(
            f"{checkpoint} was made with a student's parts. Add --parts {saved_code} to resume that run, or "
            "choose another run_folder."
        )
    if before is None:
        raise BadInputError(
            f"{checkpoint} was made with the reference's parts. Leave out --parts to resume that run, or "
            "choose another run_folder to train your own."
        )
    try:
        saved = StudentCode(load_parts(saved_code), student.notes).used
        changed = [name for name in saved | student.used if saved.get(name) != student.used.get(name)]
    except PartsError:
        changed = []
    raise BadInputError(
        f"{checkpoint} was made with a different version of {', '.join(changed) or 'your code'}. Add --parts "
        f"{saved_code} to resume with that run's code, or choose another run_folder to train your new code."
    )


def _read(folder: str, distributed: DistributedInfo) -> Parts:
    parts, problem = None, ""
    try:
        parts = load_parts(folder, names={"print": print_to_files})
        if not parts.yours:
            first = next((part.problem for part in parts if part.problem), "")
            problem = f"{folder}: none of the parts there can be used. The first: {first}"
    except PartsError as error:
        problem = str(error)
    for rank, message in enumerate(all_gather(distributed, [problem])):
        if message:
            where = "--parts" if rank == 0 else f"--parts, on process {rank}"
            raise_on_all_ranks(distributed, f"{where}: {message}")
    assert parts is not None, "otherwise there was a problem"
    return parts


def _unequal(
    parts: Parts, unused: dict[str, str], distributed: DistributedInfo, device: torch.device
) -> dict[str, str]:
    """Return a description of each part that differs from the reference, the same on all ranks.

    The exercises in `unused` are skipped. Must be called on every rank.
    """
    skipped = {*unused, *LESSONS.get("12-data-parallel", ())}
    model_parts = [name for name in parts.yours if name not in skipped]
    found = broadcast_from_rank_zero(distributed, lambda: unequal_parts(parts.only(model_parts), device))
    differences: dict[str, str] = {}
    compare: Callable[[Any, DistributedInfo], str]
    for name, compare in (("shard", _compare_shard), ("global_token_mean", _compare_mean)):
        if name in parts.yours:
            try:
                differences[name] = compare(parts[name], distributed)
            except Exception as error:  # A student's code may raise anything.
                differences[name] = f"it raises {type(error).__name__}: {error}"
    # If several ranks found a difference, the lowest rank's is reported.
    for of_rank in reversed(all_gather(distributed, [differences])):
        found |= {name: difference for name, difference in of_rank.items() if difference}
    return found


def _compare_shard(function: Callable[..., Sequence[list[int]]], distributed: DistributedInfo) -> str:
    for world_size in range(1, 5):
        for count in range(8):
            batches = [[number] for number in range(count)]
            got = [list(function(batches, rank, world_size)) for rank in range(world_size)]
            expected = [list(shard(batches, rank, world_size)) for rank in range(world_size)]
            if got != expected:
                return f"{count} batches for {world_size} processes: expected {expected}, got {got}"
            if batches != [[number] for number in range(count)]:
                return "it changes its argument"
    return ""


def _compare_mean(function: Callable[[Tensor, Tensor], Tensor], distributed: DistributedInfo) -> str:
    total, count = 7.0 * distributed.rank + 2.0, 3 * distributed.rank + 1
    for dtype in (torch.float32, torch.float64):
        loss_sum, token_count = torch.tensor(total, dtype=dtype), torch.tensor(count)
        expected = global_token_mean(loss_sum, token_count)
        got = function(loss_sum, token_count)
        if float(loss_sum) != total or int(token_count) != count:
            return "it changes its arguments"
        if not torch.allclose(torch.as_tensor(got, dtype=torch.float64), expected.double(), rtol=1e-6):
            return f"expected {float(expected):.4g}, got {float(got):.4g}"
    return ""


def _unused(config: RunConfig) -> dict[str, str]:
    """Return the exercises that a run doesn't use, each with the reason."""
    beam = config.evaluation.beam_size
    reasons = {"average_checkpoints": "a run averages its snapshots file by file"}
    reasons |= dict.fromkeys(search_exercises(2 if beam == 1 else 1), f"evaluation.beam_size is {beam}")
    if config.model.attention == "fused":
        reasons |= dict.fromkeys(LESSONS.get("01-attention", ()), "model.attention is fused")
    if not config.model.tie_embeddings:
        reasons["tie_embeddings"] = "model.tie_embeddings is false"
    if config.training.schedule != "paper":
        names = LESSONS.get("07-schedule", ())
        reasons |= dict.fromkeys(names, f"training.schedule is {config.training.schedule}")
    return {name: f"{_NOT_USED}{reason}" for name, reason in reasons.items()}


def _refusal(faults: dict[str, str]) -> str:
    lesson_of = {name: lesson for lesson, names in LESSONS.items() for name in names}
    messages = [
        # The message of a cell that cannot be used begins with the lesson.
        fault if fault.startswith(lesson_of[name]) else f"{name} ({lesson_of[name]}): {fault}"
        for name, fault in faults.items()
    ]
    more = f"; and {len(messages) - 3} more" if len(messages) > 3 else ""
    return (
        f"--parts: these parts don't compute what the reference does: {'; '.join(messages[:3])}{more}. Fix "
        "them (the checks of their lessons explain more) and save the notebooks, or add "
        "--parts-unequal=reference to train with the reference's parts instead."
    )


@contextlib.contextmanager
def failing_cell_named(parts: Parts, distributed: DistributedInfo) -> Iterator[None]:
    """Within the block, convert exceptions in a student's code to an UpdateFailedError that names the cell.

    If another rank has exited, the error refers to the other rank's message. A PartsError becomes a
    BadInputError. Other exceptions propagate.
    """
    try:
        with lost_peers_reported(distributed):
            yield
    except PartsError as error:
        raise BadInputError(str(error)) from None
    except BadInputError:
        raise
    except LostPeerError:
        raise UpdateFailedError(
            "Another process has ended, so this one ends too. See the other process's message."
        ) from None
    except Exception as error:
        where = _innermost_cell(error.__traceback__, parts)
        if where is None:
            raise
        # Truncate the message, because torch's may be long.
        message = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")[:_MAX_MESSAGE]
        raise UpdateFailedError(
            f"{where}: your code raised {message}. Fix it, run the check of its lesson, save the notebook, "
            "and choose another run_folder, because changed code needs a new run."
        ) from None


def _innermost_cell(trace: TracebackType | None, parts: Parts) -> str | None:
    cells = {source.location for source in parts.students_sources}
    found = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in cells:
            found = f"{trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return found
