"""Count the operations of an update without a GPU: `python -m tests.benchmarks.operations`.

The real model and loss run under FakeTensorMode: shapes are computed, numbers are not. Each operation of
PyTorch that isn't a view is one kernel launch in eager mode, except that a GPU's dropout is one kernel. A
roofline adds up, for each operation, the time that an H100 needs for its matrix products or to move its
inputs and outputs, whichever is longer.
"""

import argparse
import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from course_lib.transformer import (
    FeedForward,
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    tie_embeddings,
)
from course_lib.translation.configs.loader import load_config
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.epoch_plan import bucket_lengths, epoch_plan
from course_lib.translation.model import fused
from course_lib.translation.model.fused import BlockDropout, fused_attention, use_fused_layers
from course_lib.translation.model.loss import LossSum
from course_lib.translation.model.seq2seq import REFERENCE

#: An H100 SXM: the bytes and bfloat16 operations per second that programs reach, the published rate, and the
#: time that PyTorch takes to launch an operation.
BANDWIDTH, REACHED, PUBLISHED, LAUNCH = 3.0e12, 650e12, 989e12, 9e-6
VOCABULARY = 37_000
#: Operations that launch no kernel, and two of the three operations of dropout on a CPU.
_NO_KERNEL = {"aten::detach", "aten::empty", "aten::empty_like", "aten::new_empty"}
_NO_KERNEL |= {"aten::bernoulli_", "aten::div_", "prim::device", "aten::promote_types"}


@dataclass
class Count:
    """The operations of a forward and a backward pass."""

    kinds: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    moved: int = 0
    flops: int = 0

    @property
    def operations(self) -> int:
        """The number of kernels launched."""
        return sum(self.kinds.values())

    @property
    def casts(self) -> int:
        """The number of conversions between dtypes."""
        return self.kinds["aten::_to_copy"] + self.kinds["aten::copy_"]


class Counting(TorchDispatchMode):
    """A mode that counts the operations in its block, the bytes that they move and their time."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = Count()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation and count it."""
        result = func(*args, **(kwargs or {}))
        name = func.name().split(".")[0]
        if func.is_view or name in _NO_KERNEL:
            return result
        tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, Tensor)]
        moved = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        packet = func.overloadpacket
        flops = (
            flop_registry[packet](*args, **(kwargs or {}), out_val=result) if packet in flop_registry else 0
        )
        self.count.kinds[name] += 1
        self.count.moved += moved
        self.count.flops += flops
        self.count.seconds += max(moved / BANDWIDTH, flops / REACHED)
        return result


def counted(config: RunConfig, sentences: int, length: int, fast: bool, layers: int | None = None) -> Count:
    """Count a forward and a backward pass over one batch without padding."""
    sizes = config.model if layers is None else config.model.model_copy(update={"layers": layers})
    # Use chunks of logits of the same size as on a GPU.
    chunks = patch.dict(fused._LOGITS_PER_CHUNK, cpu=fused._LOGITS_PER_CHUNK["cuda"])
    with chunks, FakeTensorMode(allow_non_fake_inputs=True):
        device = torch.device("cpu")
        # Without build_model, because a fake model cannot be moved to a device.
        shape = TransformerConfig(
            sizes.layers, sizes.d_model, sizes.heads, sizes.d_ff, sizes.dropout, attention=fused_attention
        )
        model = tie_embeddings(Transformer(VOCABULARY, VOCABULARY, shape))
        for module in model.modules():
            if isinstance(module, MultiHeadAttention | FeedForward) and sizes.inner_dropout is not None:
                module.dropout.p = sizes.inner_dropout
        loss_sum = LossSum(model, REFERENCE.loss(VOCABULARY, 0, 0.1), "bfloat16")
        if fast:
            loss_sum.use_fast_layers(device)
            loss_sum.refresh()
        else:
            use_fused_layers(loss_sum)
        _use_plain_dropout(loss_sum)
        source = torch.ones(sentences, length, dtype=torch.int64, device=device)
        target = torch.ones(sentences, length + 1, dtype=torch.int64, device=device)
        positions = torch.arange(sentences * length, device=device)
        # Gradients of an earlier batch exist, so that this batch is added to them.
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        with Counting() as counting:
            loss_sum(source, target, positions).backward()
    return counting.count


def _use_plain_dropout(model: nn.Module) -> None:
    """Replace `BlockDropout`, which is for CPUs, with PyTorch's dropout, which a GPU would use."""
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if isinstance(module, BlockDropout):
                setattr(parent, name, nn.Dropout(module.p))


def distinct_shapes(config: RunConfig, buckets: bool) -> int:
    """Count the shapes of the batches of an epoch, for lengths distributed like those of WMT 2014."""
    random = np.random.RandomState(1)
    longest = config.data.max_length
    mean = np.clip(random.lognormal(3.2, 0.6, 150_000), 3, longest)
    lengths = np.stack([mean, mean * random.lognormal(0, 0.15, len(mean))], 1).round().astype(int)
    lengths = lengths.clip(3, longest)
    training = config.training
    allowed = bucket_lengths(longest, training.length_buckets or 16) if buckets else []
    plan = epoch_plan(lengths, training.tokens_per_batch, 1, seed=1, epoch=0, buckets=allowed)
    shapes = set()
    for [batch] in plan:
        source, target = lengths[batch].max(0)
        if buckets:
            source = target = allowed[int(np.searchsorted(allowed, max(source, target)))]
            shapes.add((training.tokens_per_batch // source, source, target))
        else:
            shapes.add((len(batch), source, target))
    return len(shapes)


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    console = Console(highlight=False, width=110)
    table = Table(title="One batch, forward and backward, bfloat16, eager")
    for column in [
        "model",
        "tokens",
        "layers",
        "operations",
        "casts",
        "moved",
        "work",
        "GPU",
        "launches",
        "share",
    ]:
        table.add_column(column, justify="right")
    for name in ("wmt14-base", "wmt14-big"):
        for tokens, fast in itertools.product((3400, 27_200), (False, True)):
            count = counted(load_config(name), tokens // 32, 32, fast)
            launches = count.operations * LAUNCH
            table.add_row(
                *(name, f"{tokens:,}", "fast" if fast else "plain"),
                *(f"{count.operations:,}", str(count.casts)),
                *(f"{count.moved / 2**30:.1f} GiB", f"{count.flops / 1e12:.2f} T"),
                *(f"{1e3 * count.seconds:.1f} ms", f"{1e3 * launches:.1f} ms"),
                f"{count.flops / max(count.seconds, launches) / PUBLISHED:.0%}",
            )
    console.print(table)
    console.print(
        f"GPU: roofline of {REACHED / 1e12:.0f} TFLOP/s and {BANDWIDTH / 1e12:.1f} TB/s. Launches: "
        f"{1e6 * LAUNCH:.0f} us each, at the same time as the GPU computes. Share: of {PUBLISHED / 1e12:.0f} "
        "TFLOP/s, without the optimiser and communication."
    )
    config = load_config("wmt14-base")
    for buckets in (False, True):
        kind = f"{config.training.length_buckets} length buckets" if buckets else "no buckets"
        console.print(f"Distinct shapes in an epoch, {kind}: {distinct_shapes(config, buckets)}")


if __name__ == "__main__":
    main()
