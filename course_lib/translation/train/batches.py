"""The batches of updates: planned for an epoch, divided among the ranks, collated, and copied to a device."""

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from course_lib.transformer.batching import token_batches
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.token_pairs import TokenPairs
from course_lib.translation.data.vocabulary import Vocabulary
from course_lib.translation.distributed import DistributedInfo
from course_lib.translation.model.flops import training_flops
from course_lib.translation.model.loss import real_positions
from course_lib.translation.model.seq2seq import REFERENCE, Components
from course_lib.translation.train.metrics import BatchCounts

#: The batches of an update on all ranks, each a list of indices of pairs, as in `epoch_plan`.
UpdatePlan = Sequence[Sequence[int]]


def epoch_plan(
    lengths: ArrayLike, max_tokens: int, batches_per_update: int, seed: int, epoch: int
) -> list[list[list[int]]]:
    """Plan an epoch: a list of updates, each a list of batches, each a list of indices of pairs.

    `lengths`, of shape (pairs, 2), holds the lengths of both sides; the longer one is the length of the pair.
    The pairs are grouped by `token_batches` of lesson 10, with at most `max_tokens` tokens in a batch. Each
    update has `batches_per_update` batches, except the last one, which may have fewer. Pairs of the same
    length are shuffled before they are put into batches, and the batches are shuffled too. The random choices
    depend only on the seed and the epoch, so the plan is the same for any number of processes and for a
    resumed run. Raises ValueError if a pair is longer than `max_tokens`.
    """
    longer = np.asarray(lengths, np.int64).reshape(-1, 2).max(axis=1)
    # NumPy guarantees that the numbers of RandomState, unlike those of its newer generators, never change
    # between versions.
    digest = hashlib.sha256(f"{seed}, epoch {epoch}".encode()).digest()
    rng = np.random.RandomState(np.frombuffer(digest, "<u4"))
    order = rng.permutation(len(longer))
    # Both sorts are stable. Sorting here makes `token_batches` faster, because its input is then sorted.
    order = order[np.argsort(longer[order], kind="stable")]
    batches = [order[batch].tolist() for batch in token_batches(longer[order].tolist(), max_tokens)]
    shuffled = [batches[number] for number in rng.permutation(len(batches))]
    return [
        shuffled[first : first + batches_per_update] for first in range(0, len(shuffled), batches_per_update)
    ]


class DeviceBatch(NamedTuple):
    """A batch of token ids on a device. Its counts are computed on the CPU, so they don't wait for a GPU."""

    number: int
    """The position of the batch in its update."""
    source: Tensor
    target: Tensor
    positions: Tensor
    """The positions of the labels that are not padding, as `LossSum` expects them."""
    counts: BatchCounts


@dataclass
class BatchLoader:
    """A loader of this rank's batches. It can prefetch the batches of one update in a thread.

    Use it in a `with` block, which ends the thread.
    """

    config: RunConfig
    pairs: TokenPairs
    vocabulary: Vocabulary
    distributed: DistributedInfo
    device: torch.device
    components: Components = REFERENCE

    def __post_init__(self) -> None:
        # The length of each source and target after truncation, with start and end tokens.
        self._lengths = np.minimum(self.pairs.lengths + 2, self.config.data.max_length)
        self._prefetched: tuple[UpdatePlan, Future[list[DeviceBatch]]] | None = None
        # Select the GPU in the new thread, whose current device would otherwise be the first GPU.
        on_device = partial(torch.cuda.set_device, self.device) if self.device.index is not None else None
        self._thread = ThreadPoolExecutor(1, "prefetch", on_device)

    def __enter__(self) -> "BatchLoader":
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()

    def plan(self, epoch: int) -> list[list[list[int]]]:
        """Return the plan of an epoch: a list of updates, as returned by `epoch_plan`."""
        training = self.config.training
        sizes = training.tokens_per_batch, training.batches_per_update
        return epoch_plan(self._lengths, *sizes, self.config.seed, epoch)

    def label_count(self, batches: UpdatePlan) -> int:
        """Count the labels of an update on all ranks, without communication: every rank knows the plan."""
        # The start token of a target is not a label.
        return sum(int((self._lengths[batch, 1] - 1).sum()) for batch in batches)

    def load(self, batches: UpdatePlan) -> list[DeviceBatch]:
        """Return this rank's share of the batches of an update, on its device."""
        prefetched, self._prefetched = self._prefetched, None
        if prefetched is not None and prefetched[0] == batches:
            return prefetched[1].result()
        return self._load_share(batches)

    def prefetch(self, batches: UpdatePlan) -> None:
        """Start loading batches that the next call to `load` will probably request."""
        self._prefetched = batches, self._thread.submit(self._load_share, batches)

    def _load_share(self, batches: UpdatePlan) -> list[DeviceBatch]:
        rank, world_size = self.distributed.rank, self.distributed.world_size
        share = self.components.shard(list(enumerate(batches)), rank, world_size)
        return [self._load_batch(number, batch) for number, batch in share]

    def _load_batch(self, number: int, batch: Sequence[int]) -> DeviceBatch:
        """Collate a batch, count its tokens, and start copying it to the device."""
        ids, config, device = self.vocabulary, self.config, self.device
        source, target = self.pairs.collate(
            batch, ids.pad_id, ids.start_id, ids.end_id, config.data.max_length
        )
        positions = real_positions(target, ids.pad_id, self.components)
        source_lengths, target_lengths = (source != ids.pad_id).sum(1), (target != ids.pad_id).sum(1)
        counts = BatchCounts(
            target_tokens=len(positions),
            tokens=int(source_lengths.sum() + target_lengths.sum()),
            tokens_with_padding=source.numel() + target.numel(),
            # The decoder's input is one token shorter than the target.
            flops=training_flops(config.model, len(ids), source_lengths, target_lengths - 1),
        )

        def move(matrix: Tensor) -> Tensor:
            # Only copies from pinned memory overlap with computation.
            return (matrix.pin_memory() if device.type == "cuda" else matrix).to(device, non_blocking=True)

        return DeviceBatch(number, move(source), move(target), move(positions), counts)


def example_batches(config: RunConfig, token: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield two artificial batches of one repeated token, with different numbers of sentences and tokens.

    The batches are input for the compiler, which optimises its code for the sizes of the second one. So the
    second one is about as large as a real batch.
    """
    # Use an odd length: for an even one, the compiled code for masks could rely on a divisor of the length.
    length = max(7, config.data.max_length // 2 | 1)
    for size in ((3, 5), (max(4, config.training.tokens_per_batch // length), length)):
        batch = torch.full(size, token, device=device)
        yield batch, batch
