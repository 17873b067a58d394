"""Count the operations of an update without a GPU: `python -m tests.benchmarks.operations`.

The real model and loss run under FakeTensorMode: shapes are computed, numbers are not. Each operation of
PyTorch that isn't a view is one kernel launch in eager mode, except that dropout, which is three operations
on a CPU, is one kernel on a GPU. A roofline adds up, for each operation, the time that an H100 needs for its
matrix products or to move its inputs and outputs, whichever is longer.

A second table predicts compiled layers and a compiled loss. Their matrix products and attention are the same
as in eager mode. The operations between them are fused: PyTorch's compiler compiles a small batch for the CPU
and records how many bytes each of its kernels moves.
"""

import argparse
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch._functorch import config as autograd_config
from torch._inductor import compile_fx, metrics
from torch._inductor import config as inductor_config
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
from course_lib.translation.configs.schema import ModelConfig, RunConfig
from course_lib.translation.model import fused
from course_lib.translation.model.fast_layers import hidden_with_fused_attention, refresh, use_fast_layers
from course_lib.translation.model.fused import BlockDropout, fused_attention, use_fused_layers
from course_lib.translation.model.loss import LossSum
from course_lib.translation.model.seq2seq import REFERENCE
from course_lib.translation.train.trainer import add_gradients

#: An H100 SXM: the bytes and bfloat16 operations per second that programs reach, the published rate, and the
#: time that PyTorch takes to launch an operation on a fast CPU (46 us on the measured virtual machine).
BANDWIDTH, REACHED, PUBLISHED, LAUNCH = 3.0e12, 650e12, 989e12, 9e-6
VOCABULARY = 37_000
#: The length of each sentence, close to the mean of WMT 2014.
LENGTH = 32
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

    def plus(self, other: "Count", times: int = 1) -> "Count":
        """Return the sum of this count and a multiple of another one."""
        return Count(
            Counter(
                {kind: self.kinds[kind] + times * other.kinds[kind] for kind in {*self.kinds, *other.kinds}}
            ),
            self.seconds + times * other.seconds,
            self.moved + times * other.moved,
            self.flops + times * other.flops,
        )


class Counting(TorchDispatchMode):
    """A mode that counts the operations in its block, the bytes that they move and their time.

    `products` counts only matrix products and attention.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = Count()
        self.products = Count()

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
        one = Count(
            Counter({name: _launches(name, args)}), max(moved / BANDWIDTH, flops / REACHED), moved, flops
        )
        self.count = self.count.plus(one)
        # Recognise attention by its name, because the registry has no entry for attention on CPUs.
        if packet in flop_registry or "attention" in name:
            self.products = self.products.plus(one)
        return result


def _launches(name: str, arguments: Sequence[Any]) -> int:
    """Return the number of kernels that an operation launches.

    PyTorch's operations on lists launch one kernel per 320 blocks of 65,536 elements, or one per 64 tensors,
    whichever is more.
    """
    if not name.startswith("aten::_foreach"):
        return 1
    tensors = arguments[0]
    blocks = sum(-(-tensor.numel() // 65_536) for tensor in tensors)
    return max(-(-blocks // 320), -(-len(tensors) // 64))


def counted(config: RunConfig, sentences: int, length: int, fast: bool, layers: int | None = None) -> Count:
    """Count a forward and a backward pass over one batch without padding."""
    return _counting(config, sentences, length, fast, layers).count


def _counting(
    config: RunConfig, sentences: int, length: int, fast: bool, layers: int | None = None
) -> Counting:
    sizes = config.model if layers is None else config.model.model_copy(update={"layers": layers})
    # Use chunks of logits of the same size as on a GPU.
    chunks = patch.dict(fused._LOGITS_PER_CHUNK, cpu=fused._LOGITS_PER_CHUNK["cuda"])
    with chunks, FakeTensorMode(allow_non_fake_inputs=True):
        device = torch.device("cpu")
        model = _transformer(sizes, VOCABULARY)
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
        # Create gradients, as if by an earlier batch, so that this batch's gradients are added to them.
        parameters = list(model.parameters())
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        with Counting() as counting:
            loss = loss_sum(source, target, positions)
            add_gradients(loss, parameters) if fast else loss.backward()
    return counting


def _transformer(sizes: ModelConfig, vocabulary: int) -> Transformer:
    # build_model can't be used, because a fake model can't be moved to a device.
    shape = TransformerConfig(
        sizes.layers, sizes.d_model, sizes.heads, sizes.d_ff, sizes.dropout, attention=fused_attention
    )
    model = tie_embeddings(Transformer(vocabulary, vocabulary, shape))
    for module in model.modules():
        if isinstance(module, MultiHeadAttention | FeedForward) and sizes.inner_dropout is not None:
            module.dropout.p = sizes.inner_dropout
    return model


def _use_plain_dropout(model: nn.Module) -> None:
    """Replace `BlockDropout`, which is for CPUs, with PyTorch's dropout, which a GPU would use."""
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if isinstance(module, BlockDropout):
                setattr(parent, name, nn.Dropout(module.p))


@dataclass
class FusedKernels:
    """The kernels of compiled code that are neither a matrix product nor attention.

    For N tokens, they move `fixed` + N `per_token` bytes.
    """

    number: int
    fixed: float
    per_token: float

    @classmethod
    def of(cls, run: Callable[[int], object], constant_kernels: int) -> "FusedKernels":
        """Compile what `run` calls for two small numbers of tokens, and extrapolate linearly.

        `constant_kernels` is the number of kernels whose work doesn't depend on the tokens. In a layer, they
        convert the gradients of the weights. PyTorch schedules one for each weight on a CPU, but one for each
        layer on a GPU, so the caller passes their number. Drawing a graph's random seed isn't counted.
        """
        # At this level, the compiler adds the kernels that it schedules to `metrics`.
        compile_fx.inductor_metrics_log.setLevel(logging.INFO)
        compile_fx.inductor_metrics_log.propagate = False
        few, many = 8 * LENGTH, 12 * LENGTH
        scheduled = []
        for tokens in (few, many):
            torch.compiler.reset()
            metrics.reset()
            # Disable the caches, because code from a cache isn't scheduled.
            with (
                inductor_config.patch(fx_graph_cache=False),
                autograd_config.patch(enable_autograd_cache=False),
            ):
                run(tokens)
            kernels = [(node, 4 * words) for node, words in metrics.nodes_num_elem if words]
            scheduled.append([moved for node, moved in kernels if not node.is_extern()])
        growing = sum(less < more for less, more in zip(*scheduled, strict=True))
        less, more = map(sum, scheduled)
        per_token = (more - less) / (many - few)
        return cls(growing + constant_kernels, less - few * per_token, per_token)

    def count(self, tokens: int) -> Count:
        """Return the kernels, bytes and time for a number of tokens."""
        moved = round(self.fixed + self.per_token * tokens)
        return Count(Counter(fused=self.number), moved / BANDWIDTH, moved)


def fused_layers(config: RunConfig) -> FusedKernels:
    """Compile an encoder layer and a decoder layer."""

    def run(tokens: int) -> None:
        model = _transformer(config.model.model_copy(update={"layers": 1}), 2)
        use_fused_layers(model)
        weights, memory_weights = use_fast_layers(model, torch.bfloat16)
        assert memory_weights is not None, "attention is fused"
        refresh(weights)
        for layer in (*model.encoder_layers, *model.decoder_layers):
            layer.compile(dynamic=False)
        source = torch.ones(tokens // LENGTH, LENGTH, dtype=torch.int64)
        mask = REFERENCE.padding_mask(source, 0)
        inputs = source, mask, source, torch.bfloat16
        hidden_with_fused_attention(model, *inputs, memory_weights).sum().backward()

    return FusedKernels.of(run, constant_kernels=2)


def fused_softmax() -> FusedKernels:
    """Compile the softmax step of the loss."""

    def run(tokens: int) -> None:
        fused.compiled_softmax_step(VOCABULARY)(*_softmax_arguments(tokens))

    return FusedKernels.of(run, constant_kernels=1)


def _softmax_arguments(tokens: int) -> tuple[Tensor, Tensor, float, torch.dtype, bool]:
    logits = torch.zeros(tokens, VOCABULARY, dtype=torch.bfloat16)
    return logits, torch.zeros(tokens, 1, dtype=torch.int64), 0.1, torch.float32, True


def predicted(config: RunConfig, sentences: int, layers: FusedKernels, softmax: FusedKernels) -> Count:
    """Predict what `counted` would return with compiled layers and a compiled loss."""
    one, two = (_counting(config, sentences, LENGTH, True, layers=number) for number in (1, 2))
    tokens = sentences * LENGTH
    result = one.count
    # Replace the eager softmax step with the compiled one.
    rows = fused._LOGITS_PER_CHUNK["cuda"] // VOCABULARY
    for first in range(0, tokens, rows):
        chunk = min(rows, tokens - first)
        with FakeTensorMode():
            arguments = _softmax_arguments(chunk)
            with Counting() as counting:
                fused._softmax_step(*arguments)
        result = result.plus(counting.count, -1).plus(softmax.count(chunk))
    # Replace the eager encoder and decoder layers with compiled ones.
    result = result.plus(two.count.plus(one.count, -1), -1)
    layer = two.products.plus(one.products, -1).plus(layers.count(tokens))
    # Gradients are added to those of earlier batches outside compiled code. Each addition reads two numbers
    # and writes one. Its launch is already part of `one`.
    with FakeTensorMode():
        model = _transformer(config.model.model_copy(update={"layers": 1}), 2)
    sizes = [
        each.numel() for each in (*model.encoder_layers.parameters(), *model.decoder_layers.parameters())
    ]
    moved = 3 * 4 * sum(sizes)
    # For all decoder layers together, the gradients of keys and values are concatenated and summed, and those
    # of their weights are converted. The launches of this are part of `one` as well.
    width = 2 * config.model.d_model
    moved += (4 + 2) * tokens * width + (2 + 4) * config.model.d_model * width
    layer = layer.plus(Count(Counter(), moved / BANDWIDTH, moved))
    return result.plus(layer, config.model.layers)


_HEADINGS = ["operations", "moved", "work", "GPU", "launches", "published", "reached"]


def _cells(count: Count) -> list[str]:
    """Return the table's cells for a count, in the order of `_HEADINGS`."""
    launches = count.operations * LAUNCH
    rate = count.flops / max(count.seconds, launches)
    return [
        *(f"{count.operations:,}", f"{count.moved / 2**30:.1f} GiB", f"{count.flops / 1e12:.2f} T"),
        *(f"{1e3 * count.seconds:.1f} ms", f"{1e3 * launches:.1f} ms"),
        *(f"{rate / PUBLISHED:.0%}", f"{rate / REACHED:.0%}"),
    ]


def main() -> None:
    """Print both tables."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    console = Console(highlight=False, width=120)
    title = "One batch, forward and backward, bfloat16"
    eager = Table(
        "model", "tokens", "layers", *_HEADINGS[:1], "casts", *_HEADINGS[1:], title=f"{title}, eager"
    )
    compiled = Table("model", "tokens", *_HEADINGS, title=f"{title}, compiled: predicted")
    softmax = fused_softmax()
    for name in ("base", "big"):
        config = load_config(f"wmt14-{name}")
        layers = fused_layers(config)
        for tokens in (3400, 27_200):
            for fast in (False, True):
                count = counted(config, tokens // LENGTH, LENGTH, fast)
                operations, *rest = _cells(count)
                kind = "fast" if fast else "plain"
                eager.add_row(name, f"{tokens:,}", kind, operations, str(count.casts), *rest)
            count = predicted(config, tokens // LENGTH, layers, softmax)
            compiled.add_row(name, f"{tokens:,}", *_cells(count))
    for table in (eager, compiled):
        for column in table.columns:
            column.justify = "right"
        console.print(table)
    console.print(
        f"GPU: roofline of {REACHED / 1e12:.0f} TFLOP/s and {BANDWIDTH / 1e12:.1f} TB/s. Launches: "
        f"{1e6 * LAUNCH:.0f} us each, while the GPU computes. Shares: of the "
        f"published {PUBLISHED / 1e12:.0f} and the reached {REACHED / 1e12:.0f} TFLOP/s, without the "
        "optimiser and communication."
    )


if __name__ == "__main__":
    main()
