"""Gradients reduced in buckets while the backward pass is still running.

This is the method of Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel
Training" (arXiv 2006.15704), section 3.2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn


class GradientBuckets:
    """Buckets of gradients, summed over all ranks while the backward pass is still running.

    The backward pass computes the gradients of the last layers first, so parameters are put into buckets in
    the reverse order of `model.parameters()`. A bucket is reduced as soon as all its gradients are ready and
    the buckets before it have been launched. It has gradients of one dtype and at most `bucket_bytes` bytes;
    a larger gradient gets its own bucket, and a shared parameter counts once. A new bucket begins only if the
    next gradient does not fit or has another dtype.

        buckets = GradientBuckets(model, bucket_bytes)
        with buckets.no_sync():
            loss_of_a_micro_batch.backward()  # only accumulates
        loss_of_the_last_micro_batch.backward()  # reduces what is complete
        buckets.finish()  # now every gradient is the sum over all ranks

    Without a process group, gradients are not changed.
    """

    def __init__(self, model: nn.Module, bucket_bytes: int) -> None:
        self.buckets: list[list[nn.Parameter]] = []
        room = 0
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for parameter in reversed(trained):
            if not self.buckets or parameter.nbytes > room or parameter.dtype != self.buckets[-1][0].dtype:
                self.buckets.append([])
                room = bucket_bytes
            self.buckets[-1].append(parameter)
            room -= parameter.nbytes
            parameter.register_post_accumulate_grad_hook(self._on_gradient)
        self.ready: set[Tensor] = set()
        self.in_flight: list[tuple[Tensor, dist.Work]] = []
        self.synchronizing = True

    def _on_gradient(self, parameter: Tensor) -> None:
        """Launch, in order, all complete buckets. Autograd calls this when it has accumulated a gradient."""
        if self.synchronizing and dist.is_initialized():
            self.ready.add(parameter)
            while len(self.in_flight) < len(self.buckets) and self.ready.issuperset(self._next_bucket()):
                self._launch()

    def _next_bucket(self) -> list[nn.Parameter]:
        """Return the first bucket that has not been launched."""
        return self.buckets[len(self.in_flight)]

    def _launch(self) -> None:
        """Start reducing the next bucket, without waiting. A missing gradient is replaced by zeros."""
        gradients = [
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for parameter in self._next_bucket()
        ]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        self.in_flight.append((flat, dist.all_reduce(flat, async_op=True)))

    def finish(self) -> None:
        """Launch the remaining buckets, wait for all buckets, and replace each gradient with its sum."""
        if not dist.is_initialized():
            return
        while len(self.in_flight) < len(self.buckets):
            self._launch()
        for bucket, (flat, work) in zip(self.buckets, self.in_flight, strict=True):
            work.wait()
            sums = flat.split([parameter.numel() for parameter in bucket])
            for parameter, total in zip(bucket, sums, strict=True):
                parameter.grad = total.view_as(parameter)
        self.ready.clear()
        self.in_flight.clear()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Only accumulate gradients inside this context.

        Use it for every micro-batch of an update except the last.
        """
        self.synchronizing = False
        try:
            yield
        finally:
            self.synchronizing = True
