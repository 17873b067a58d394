"""Training with the code that a student wrote in the lessons, wherever it computes what the reference does.

Every process reads the notebooks. All must have found the same code, and it is compared with the reference
before the run: so a mistake is named by its lesson, and not by a BLEU score the next morning.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from course_lib.errors import BadInputError
from course_lib.student.parts import (
    LESSONS,
    Parts,
    PartsError,
    build_transformer,
    load_parts,
    unequal_parts,
)
from course_lib.transformer import Transformer, TransformerConfig
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.model.components import Pieces
from course_lib.translation.student_code.code import KeptBack
from course_lib.translation.student_code.lesson_12 import unequal_in_lesson_12
from course_lib.translation.student_code.schedule import OwnSchedule
from course_lib.translation.student_code.search import parts_of_search
from course_lib.translation.training.distributed import (
    Place,
    first_decides,
    gather,
    raise_on_all,
    refuse_differences,
)

Unequal = Literal["refuse", "reference"]
UNEQUAL: tuple[Unequal, ...] = ("refuse", "reference")

_LAST_LESSON = 12
_WRITES = "writes the test's translations"
#: Other code of these makes no other weights.
_AFTER_TRAINING = ("greedy_decode", *LESSONS["11-decoding"])
_AVERAGED = "not used: a run averages its snapshots file by file"


@dataclass(frozen=True)
class PartsChoice:
    """Where a student's code is, and what to do with a part that does not compute what the reference does."""

    folder: str
    """The lessons' folder, or the `parts.json` that a run has kept."""
    unequal: Unequal = "refuse"


@dataclass(frozen=True)
class OwnParts:
    """The parts that a run is made of, the student's among them."""

    parts: Parts
    notes: dict[str, str]
    """A word on some of the student's parts, for the table."""

    @property
    def used(self) -> dict[str, str]:
        """The hashes of the student's cells that shape the weights."""
        hashes = self.parts.fingerprints
        return {
            name: hashes[name]
            for name in hashes
            if name not in _AFTER_TRAINING and not self.notes.get(name, "").startswith("not used")
        }

    @property
    def fingerprint(self) -> str:
        """A hash that two runs share only where they are made of the same code of a student's."""
        return hashlib.sha256(repr(sorted(self.used.items())).encode()).hexdigest()

    def table(self) -> str:
        """Say of each part whose it is, and how many of those that a run uses are the student's."""
        unused = sum(note.startswith("not used") for note in self.notes.values())
        summary = f"{len(self.parts.yours) - unused} of the {len(list(self.parts))} parts are yours and used."
        return f"{self.parts.table(self.notes)}\n{summary}"

    def keep(self, path: Path) -> None:
        """Keep a copy of the code, for the notebooks go on changing. Raises OSError."""
        self.parts.keep(path)

    def pieces(self) -> Pieces:
        """Put the parts in for what the lab takes from the lessons."""
        parts = self.parts
        return Pieces(
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

    def _transformer(self, source_vocab: int, target_vocab: int, config: TransformerConfig) -> nn.Module:
        model = build_transformer(self.parts, source_vocab, target_vocab, config)
        # A weight that the lessons do not have learns nothing, as was seen: DDP would wait for its gradient.
        known = model.state_dict(keep_vars=True)
        with torch.device("meta"):
            names = Transformer(source_vocab, target_vocab, config).state_dict()
        kept = {id(known[name]) for name in names if name in known}
        for parameter in model.parameters():
            parameter.requires_grad_(id(parameter) in kept)
        return model

    def _scheduler(self, optimizer: Optimizer, d_model: int, warmup: int, factor: float) -> LRScheduler:
        make = self.parts["make_scheduler"]
        return OwnSchedule(optimizer, lambda: make(optimizer, d_model, warmup, factor))


def own_parts(choice: PartsChoice, config: RunConfig, place: Place, device: torch.device) -> OwnParts:
    """Read the student's parts on every process, and let those pass that compute what the reference does.

    All processes call it together. Raises BadInputError on all of them where there is no such folder, or
    nothing in it is written; where they have not the same code; and, unless the choice is to take the
    reference's in their place, where parts are broken or unequal.
    """
    printed = KeptBack()
    parts = _read(choice.folder, place, printed)
    code = dict.fromkeys((name for names in LESSONS.values() for name in names), "of the reference")
    refuse_differences(
        place, {f"the code of {name}": value for name, value in (code | _short(parts.fingerprints)).items()}
    )
    unused = _unused(config)
    faults = {
        part.exercise: part.problem
        for part in parts
        if part.problem and not part.unwritten and not part.notebook_missing
    }
    # Without those that are wrong by themselves, others may still be wrong together.
    while True:
        found = first_decides(place, lambda parts=parts: unequal_parts(_of_use(parts, unused), device))  # type: ignore[misc]
        found |= unequal_in_lesson_12(parts, place)
        if not found:
            break
        faults |= found
        parts = parts.without({name: f"it is left out: {how}" for name, how in found.items()})
    if faults and choice.unequal == "refuse":
        raise_on_all(place, _refusal(faults))
    notes = dict.fromkeys(parts_of_search(config.evaluation.beam_size), _WRITES) | unused
    notes = {name: why for name, why in notes.items() if name in parts.yours}
    for source in parts.sources:
        if source.location in printed.cells and source.exercise in parts.yours:
            notes.setdefault(source.exercise, "what it prints is not shown")
    return OwnParts(parts, notes)


def refuse_other_parts(path: Path, kept: Path, before: str | None, now: OwnParts | None) -> None:
    """Raise BadInputError where a checkpoint was made with other code; `kept` is the run's copy of it."""
    if before == (now.fingerprint if now else None):
        return
    if now is None:
        raise BadInputError(
            f"{path} was made with parts of a student's own: give --parts {kept} to go on with these, or "
            "choose another run_folder"
        )
    if before is None:
        raise BadInputError(
            f"{path} was made with the reference's parts: leave --parts out to go on with it, or choose "
            "another run_folder to train your own"
        )
    try:
        before_used = OwnParts(load_parts(kept, through=_LAST_LESSON), now.notes).used
        differing = [name for name in before_used | now.used if before_used.get(name) != now.used.get(name)]
    except PartsError:
        differing = []
    raise BadInputError(
        f"{path} was made with other code of {', '.join(differing) or 'yours'}: give --parts {kept} to go on "
        "with what it was made with, or choose another run_folder to train the code that you have now"
    )


def _read(folder: str, place: Place, printed: KeptBack) -> Parts:
    parts, wrong = None, ""
    try:
        parts = load_parts(folder, through=_LAST_LESSON, names={"print": printed})
        if not parts.yours:
            first = next((part.problem for part in parts if part.problem), "")
            wrong = f"{folder}: expected parts of your own, but none can be used; the first: {first}"
    except PartsError as error:
        wrong = str(error)
    told = gather(place, [wrong])
    for rank, line in enumerate(told):
        if line:
            raise_on_all(place, f"--parts: {line}" if rank == 0 else f"--parts, on process {rank}: {line}")
    assert parts is not None, "else something was wrong"
    return parts


def _short(hashes: dict[str, str]) -> dict[str, str]:
    return {name: value[:12] for name, value in hashes.items()}


def _of_use(parts: Parts, unused: dict[str, str]) -> Parts:
    return parts.only(
        [name for name in parts.yours if name not in unused and name not in LESSONS["12-final-lab"]]
    )


def _unused(config: RunConfig) -> dict[str, str]:
    """Say of which parts a run makes no use, and why."""
    beam = config.evaluation.beam_size
    unused = {"average_checkpoints": _AVERAGED}
    for name in parts_of_search(2 if beam == 1 else 1):
        unused[name] = f"not used: evaluation.beam_size is {beam}"
    if config.model.attention == "fused":
        for name in LESSONS["01-attention"]:
            unused[name] = "not used: model.attention is fused"
    if not config.model.tie_embeddings:
        unused["tie_embeddings"] = "not used: model.tie_embeddings is false"
    if config.training.schedule != "paper":
        for name in LESSONS["07-schedule"]:
            unused[name] = f"not used: training.schedule is {config.training.schedule}"
    return unused


def _refusal(faults: dict[str, str]) -> str:
    lesson_of = {name: lesson for lesson, names in LESSONS.items() for name in names}
    told = [
        # What cannot even be used names its cell already.
        how if how.startswith(lesson_of[name]) else f"{name} ({lesson_of[name]}): {how}"
        for name, how in faults.items()
    ]
    more = f"; and {len(told) - 3} more" if len(told) > 3 else ""
    return (
        "--parts: expected parts that compute what the reference does, came others: "
        f"{'; '.join(told[:3])}{more}. Mend them (the checks of their lessons tell more) and save, or give "
        "--parts-unequal=reference to train with the reference's in their place"
    )
