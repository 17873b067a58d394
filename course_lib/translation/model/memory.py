"""The memory that training needs on a device, estimated before training starts."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks

from course_lib.translation.model.loss import LossSum

GIB = 2**30


@dataclass(frozen=True)
class MemoryEstimate:
    """An estimate, in bytes, of the memory that training needs for each purpose."""

    weights: int
    gradients: int
    optimiser: int
    """The two running means that Adam keeps for each weight."""
    activations: int
    """The tensors saved for the backward pass, among them the converted copies of the weights."""
    logits: int
    """The logits that are in memory at the same time, with their exponentials and gradients."""

    @property
    def total(self) -> int:
        """The sum of all parts, plus 10% for temporary results and fragmentation."""
        return int(1.1 * sum(vars(self).values()))

    @property
    def description(self) -> str:
        """The total and its parts, in GiB, as text."""
        parts = ", ".join(f"{name} {size / GIB:.2f}" for name, size in vars(self).items())
        return f"about {self.total / GIB:.1f} GiB ({parts})"


def estimate_memory(loss_sum: LossSum, sentences: int, length: int, device: torch.device) -> MemoryEstimate:
    """Estimate the memory for training on `device` with batches of `sentences` sentences of `length` tokens.

    The activations are all tensors that the forward pass saves for the backward pass. The forward pass runs
    under FakeTensorMode, which allocates no memory.
    """
    parameters = list(loss_sum.parameters())
    weights = sum(each.numel() * each.element_size() for each in parameters)
    kept = {each.untyped_storage()._cdata for each in parameters}
    saved: dict[int, tuple[Tensor, int]] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        # Views share one storage. Keep a reference to the tensor, so that its address isn't reused.
        if storage._cdata not in kept:
            saved[storage._cdata] = tensor, storage.nbytes()
        return tensor

    was_training = loss_sum.training
    stance = torch.compiler.set_stance("force_eager")
    with FakeTensorMode(allow_non_fake_inputs=True), stance, saved_tensors_hooks(pack, lambda each: each):
        source = torch.ones(sentences, length, dtype=torch.int64, device=device)
        target = torch.ones(sentences, length + 1, dtype=torch.int64, device=device)
        positions = torch.arange(sentences * length, device=device)
        loss_sum.train()(source, target, positions)
        activations = sum(size for _, size in saved.values())
    loss_sum.train(was_training)
    logits = loss_sum.logits_bytes(len(positions), device)
    return MemoryEstimate(weights, weights, 2 * weights, activations, logits)
