"""Updates of the weights, over any number of processes, exact to the same result, and able to start again.

Three things make a run the same however it is split and whenever it is killed. The plan of an epoch depends
on the seed and the epoch alone. The loss of an update is the sum over all its real tokens divided by their
number, wherever its batches are computed. And dropout is drawn anew for each batch from (seed, update, number
of the batch), so no generator's state has to be kept or shared.
"""

import contextlib
import hashlib
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Adam, AdamW, Optimizer

from course_lib.translation.batches import IdPair, collate, epoch_plan
from course_lib.translation.config import RunConfig, TrainingConfig
from course_lib.translation.distributed import Place, global_sum
from course_lib.translation.metrics import Window
from course_lib.translation.model import LossSum, build_transformer
from course_lib.translation.pieces import REFERENCE, Pieces
from course_lib.translation.subwords import Subwords

# The one buffer holds the sinusoids, which every process has. The switch has a new name since torch 2.13.
_BUFFERS_STAY: dict[str, Any] = (
    {"forward_sync_buffers": False}
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
    else {"broadcast_buffers": False}
)


class Trainer:
    """A model in training: its weights, optimiser and schedule, and how far it has come.

    `step` counts all updates made, `epochs_done` the whole epochs, `updates_done` those made in the epoch
    after them.
    """

    def __init__(
        self,
        config: RunConfig,
        pairs: Sequence[IdPair],
        subwords: Subwords,
        place: Place,
        device: torch.device,
        pieces: Pieces = REFERENCE,
    ) -> None:
        self._pieces = pieces
        self._config = config
        self._pairs = pairs
        self._subwords = subwords
        self._place = place
        self._device = device
        training = config.training

        torch.manual_seed(config.seed)
        self.model = build_transformer(config.model, len(subwords), len(subwords), pieces).to(device)
        if training.precision == "float64":
            self.model.double()
        loss = pieces.loss(len(subwords), subwords.pad_id, training.label_smoothing)
        self._loss_sum: nn.Module = LossSum(self.model, loss, training.precision, pieces)
        if place.world_size > 1:
            self._loss_sum = DistributedDataParallel(
                self._loss_sum, gradient_as_bucket_view=True, **_BUFFERS_STAY
            )
        self._optimizer = make_optimizer(self.model, training)
        self._scheduler = pieces.make_scheduler(
            self._optimizer, config.model.d_model, training.warmup, training.factor
        )
        self.window = Window(place)
        self.step = self.epochs_done = self.updates_done = 0

    def plan(self) -> list[list[list[int]]]:
        """Plan the current epoch: updates of batches of indices of pairs."""
        longest, training = self._config.data.max_length, self._config.training
        lengths = [(min(len(a) + 2, longest), min(len(b) + 2, longest)) for a, b in self._pairs]
        return epoch_plan(
            lengths,
            training.tokens_per_batch,
            training.batches_per_update,
            self._config.seed,
            self.epochs_done,
        )

    def update(self, batches: Sequence[Sequence[int]]) -> float:
        """Make one update from these batches, dealt to the processes, and give the rate it was made at."""
        mine = self._pieces.shard(list(enumerate(batches)), self._place.rank, self._place.world_size)
        matrices = [self._collate(batch) for _, batch in mine]
        tokens = [self._real(target[:, 1:]) for _, target in matrices]
        all_tokens = global_sum(self._place, torch.tensor(sum(tokens), device=self._device))
        # DDP averages the gradients over the processes: times their number, that is the sum.
        scale = self._place.world_size / all_tokens.double()

        self._loss_sum.train()
        self._optimizer.zero_grad()
        if not mine:
            self._join_in()
        for (number, _), (source, target), count in zip(mine, matrices, tokens, strict=True):
            torch.manual_seed(_dropout_seed(self._config.seed, self.step, number))
            # Gradients travel once an update, with the last batch.
            with self._keep_gradients_here(number != mine[-1][0]):
                loss_sum = self._loss_sum(source.to(self._device), target.to(self._device))
                (loss_sum * scale).backward()
            real_places = self._real(source) + self._real(target)
            self.window.add(loss_sum, count, real_places, source.numel() + target.numel())
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

    def _collate(self, batch: Sequence[int]) -> tuple[Tensor, Tensor]:
        ids = self._subwords
        pairs = [self._pairs[index] for index in batch]
        return collate(pairs, ids.pad_id, ids.start_id, ids.end_id, self._config.data.max_length)

    def _real(self, tokens: Tensor) -> int:
        return int((tokens != self._subwords.pad_id).sum())

    def _join_in(self) -> None:
        """Hand in gradients of zero, which the other processes wait for: this one has no batch."""
        nothing_said = torch.tensor([[self._subwords.start_id, self._subwords.end_id]], device=self._device)
        (self._loss_sum(nothing_said, nothing_said) * 0.0).backward()

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
