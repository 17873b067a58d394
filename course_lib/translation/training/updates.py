"""Updates of the weights, over any number of processes, exact to the same result, and able to start again.

Three things make a run the same however it is split and whenever it is killed. The plan of an epoch depends
on the seed and the epoch alone. The loss of an update is the sum over all its real tokens divided by their
number, wherever its batches are computed. And dropout is drawn anew for each batch from (seed, update, number
of the batch), so no generator's state has to be kept or shared.
"""

import contextlib
import hashlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Adam, AdamW, Optimizer

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import RunConfig, TrainingConfig
from course_lib.translation.data.device_batch import DeviceBatch, move_batch
from course_lib.translation.data.epoch_plan import IdPair, epoch_plan
from course_lib.translation.data.token_pairs import collate_batch, pair_lengths, pairs_of_epoch
from course_lib.translation.data.vocabularies import Vocabularies
from course_lib.translation.model.compiled import compiled_or_not
from course_lib.translation.model.components import REFERENCE, Pieces
from course_lib.translation.model.flops import matrix_rate
from course_lib.translation.model.fused import use_kernels
from course_lib.translation.model.trainable import LossSum, build_transformer, real_places
from course_lib.translation.training.distributed import Place, global_sum
from course_lib.translation.training.metrics import Window
from course_lib.translation.training.schedules import build_scheduler

# The one buffer holds the sinusoids, which every process has. The switch has a new name since torch 2.13.
_BUFFERS_STAY: dict[str, Any] = (
    {"forward_sync_buffers": False}
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
    else {"broadcast_buffers": False}
)

#: What torch.compile makes kernels with.
BACKEND = "inductor"


class Trainer:
    """A model in training: its weights, optimiser and schedule, and how far it has come.

    `step` counts all updates made, `epochs_done` the whole epochs, `updates_done` those made in the epoch
    after them.
    """

    def __init__(
        self,
        config: RunConfig,
        pairs: Sequence[IdPair],
        vocabularies: Vocabularies,
        place: Place,
        device: torch.device,
        pieces: Pieces = REFERENCE,
    ) -> None:
        self._pieces = pieces
        self._config = config
        self._pairs = pairs
        self._vocabularies = vocabularies
        self._place = place
        self._device = device
        training = config.training

        #: What the user should know, a line each.
        self.notes: list[str] = []

        torch.manual_seed(config.seed)
        target_size = len(vocabularies.target)
        self.model = build_transformer(config.model, len(vocabularies.source), target_size, pieces)
        self.model.to(device)
        if training.precision == "float64":
            self.model.double()
        loss = pieces.loss(target_size, vocabularies.pad_id, training.label_smoothing)
        self._loss_sum: nn.Module = LossSum(
            self.model, loss, training.precision, pieces, training.simcut_alpha, training.simcut_p
        )
        if training.compile:
            self._compile()
        else:
            use_kernels(self.model)
        if place.world_size > 1:
            self._loss_sum = DistributedDataParallel(
                self._loss_sum, gradient_as_bucket_view=True, **_BUFFERS_STAY
            )
        self._optimizer = make_optimizer(self.model, training)
        self._scheduler = build_scheduler(self._optimizer, training, config.model.d_model, pieces)
        self.window = Window(place)
        self.step = self.epochs_done = self.updates_done = 0

    def plan(self) -> list[list[list[int]]]:
        """Plan the current epoch: updates of batches of indices of pairs."""
        longest, training = self._config.data.max_length, self._config.training
        lengths = np.minimum(pair_lengths(self._pairs_now()) + 2, longest)
        return epoch_plan(
            lengths,
            training.tokens_per_batch,
            training.batches_per_update,
            self._config.seed,
            self.epochs_done,
        )

    def _pairs_now(self) -> Sequence[IdPair]:
        """Give the pairs as the current epoch splits them into subwords."""
        return pairs_of_epoch(self._pairs, self._config.seed, self.epochs_done)

    def update(self, batches: Sequence[Sequence[int]]) -> float:
        """Make one update from these batches, dealt to the processes, and give the rate it was made at."""
        mine = self._pieces.shard(list(enumerate(batches)), self._place.rank, self._place.world_size)
        moved = [(number, self._on_device(batch)) for number, batch in mine]
        tokens = sum(batch.target_tokens for _, batch in moved)
        all_tokens = global_sum(self._place, torch.full((), tokens, device=self._device))
        # DDP averages the gradients over the processes: times their number, that is the sum.
        scale = self._place.world_size / all_tokens.double()

        self._loss_sum.train()
        self._optimizer.zero_grad()
        if not moved:
            self._join_in()
        for number, batch in moved:
            torch.manual_seed(_dropout_seed(self._config.seed, self.step, number))
            # Gradients travel once an update, with the last batch.
            with self._keep_gradients_here(number != moved[-1][0]):
                loss_sum = self._loss_sum(batch.source, batch.target, batch.places)
                (loss_sum * scale).backward()
            self.window.add(loss_sum, batch)
        if self._config.training.max_grad_norm is not None:
            # Each process holds the gradients of all by now, so all find the same norm.
            nn.utils.clip_grad_norm_(self.model.parameters(), self._config.training.max_grad_norm)
        rate = float(self._scheduler.get_last_lr()[0])
        self._optimizer.step()
        self._scheduler.step()
        self.step += 1
        self.updates_done += 1
        return rate

    def end_epoch(self) -> None:
        """Count an epoch as done."""
        self.epochs_done += 1
        self.updates_done = 0

    def state(self) -> dict[str, Any]:
        """Give all that a later process needs to go on from here. All processes call it together."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scheduler": self._scheduler.state_dict(),
            "window": self.window.state(),
            "step": self.step,
            "epochs_done": self.epochs_done,
            "updates_done": self.updates_done,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._scheduler.load_state_dict(state["scheduler"])
        self.window.load(state["window"])
        self.step = state["step"]
        self.epochs_done = state["epochs_done"]
        self.updates_done = state["updates_done"]

    def begin_with(self, weights: Mapping[str, Tensor]) -> None:
        """Take over weights that were learnt before. Raises BadInputError where they don't fit the model."""
        try:
            self.model.load_state_dict(weights)
        except RuntimeError:
            raise BadInputError(
                "training.init_from: expected weights by the names and of the sizes of this run's model, "
                "came others"
            ) from None

    def measure_machine(self) -> None:
        """Measure what MFU is a share of, in a third of a second. All processes call it together."""
        rate = matrix_rate(self._device, self._config.training.precision)
        total = global_sum(self._place, torch.tensor(rate, dtype=torch.float64, device=self._device))
        self.window.matrix_rate = float(total)

    def _on_device(self, batch: Sequence[int]) -> DeviceBatch:
        ids, config = self._vocabularies, self._config
        source, target = collate_batch(
            self._pairs_now(), batch, ids.pad_id, ids.start_id, ids.end_id, config.data.max_length
        )
        return move_batch(
            source, target, self._device, config.model, len(ids.target), ids.pad_id, self._pieces
        )

    def _nothing_said(self) -> Tensor:
        """Make a batch of one sentence with no words."""
        return torch.tensor([[self._vocabularies.start_id, self._vocabularies.end_id]], device=self._device)

    def _join_in(self) -> None:
        """Hand in gradients of zero, which the other processes wait for: this one has no batch."""
        nothing_said = self._nothing_said()
        place = torch.zeros(1, dtype=torch.int64, device=self._device)
        (self._loss_sum(nothing_said, nothing_said, place) * 0.0).backward()

    def _compile(self) -> None:
        # Different lengths and a few rows: what is equal by chance, or one, would be compiled in.
        source, target = self._nothing_said().repeat(3, 2), self._nothing_said().repeat(3, 3)
        places = real_places(target, self._vocabularies.pad_id, self._pieces)
        compiled, why_not = compiled_or_not(self._loss_sum, (source, target, places), BACKEND)
        # All or none: processes that compute differently would give another run.
        failed = global_sum(self._place, torch.tensor(int(why_not is not None), device=self._device))
        if int(failed):
            use_kernels(self.model)
            self.notes.append(why_not or "torch.compile does not work for another process; training without")
        else:
            self._loss_sum = compiled

    def _keep_gradients_here(self, keep: bool) -> contextlib.AbstractContextManager[None]:
        if keep and isinstance(self._loss_sum, DistributedDataParallel):
            # It has to cover the forward pass too.
            return self._loss_sum.no_sync()
        return contextlib.nullcontext()


def make_optimizer(model: nn.Module, config: TrainingConfig) -> Optimizer:
    """Build the optimiser with the constants of section 5.3 and a rate of 1.0, which the schedule scales."""
    if config.optimizer == "adamw":
        return AdamW(
            model.parameters(), 1.0, betas=(0.9, 0.98), eps=1e-9, weight_decay=config.weight_decay, fused=True
        )
    return Adam(model.parameters(), 1.0, betas=(0.9, 0.98), eps=1e-9, fused=True)


def _dropout_seed(seed: int, step: int, number: int) -> int:
    digest = hashlib.sha256(f"dropout {seed} {step} {number}".encode()).digest()
    return int.from_bytes(digest[:7])
