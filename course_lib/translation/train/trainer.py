"""Weight updates that don't depend on the number of processes or on restarts.

Three properties ensure this. The plan of an epoch depends only on the seed and the epoch. The loss of an
update is the sum over all its real tokens, divided by their number, regardless of which rank computes which
batch. And the dropout of a batch is seeded by (seed, update, number of the batch), so that no generator's
state has to be saved or shared.
"""

import contextlib
import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.errors import BadInputError
from course_lib.translation.distributed import global_max, global_sum
from course_lib.translation.model.flops import measure_matmul_rate
from course_lib.translation.model.loss import LossSum
from course_lib.translation.model.memory import MemoryEstimate, estimate_memory
from course_lib.translation.model.precision import resolve_precision
from course_lib.translation.model.seq2seq import REFERENCE, build_model
from course_lib.translation.train.batches import BatchLoader, DeviceBatch, UpdatePlan, example_batches
from course_lib.translation.train.metrics import MetricsWindow
from course_lib.translation.train.optimization import make_optimizer, make_scheduler

#: The beginning of a note that layers run uncompiled.
COMPILING_FAILED = "torch.compile failed"

#: Options of DDP. It doesn't synchronise buffers: the only one holds the positional encoding, which is equal
#: on all ranks. It copies gradients into a bucket all at once instead of one by one.
_DDP_OPTIONS: dict[str, Any] = {"gradient_as_bucket_view": True}
if "batched_grad_copy" in inspect.signature(DistributedDataParallel).parameters:  # since torch 2.13
    _DDP_OPTIONS |= {"forward_sync_buffers": False, "batched_grad_copy": True}
else:
    _DDP_OPTIONS |= {"broadcast_buffers": False}


class Trainer:
    """A model in training, with its optimiser, its schedule and its progress.

    `step` counts all updates, `epochs_done` the complete epochs, and `updates_done` the updates made in the
    current epoch. `loader` loads the batches; use it in a `with` block, which ends its thread.
    `compile_backend` is the backend of torch.compile. Backends other than inductor don't compile the loss.
    """

    def __init__(self, loader: BatchLoader, compile_backend: str | Callable[..., Any] = "inductor") -> None:
        self.loader = loader
        self._config = config = loader.config
        self._vocabulary = vocabulary = loader.vocabulary
        self._distributed = distributed = loader.distributed
        self._device = device = loader.device
        self._components = components = loader.components
        self._compile_backend = compile_backend
        training = config.training

        #: Messages for the user, one line each.
        self.notes: list[str] = []

        torch.manual_seed(config.seed)
        size = len(vocabulary)
        self.model = build_model(config.model, size, size, training.precision, device, components)
        loss = components.loss(size, vocabulary.pad_id, training.label_smoothing)
        self._model_and_loss = LossSum(
            self.model,
            loss,
            training.precision,
            components,
            training.simcut_alpha,
            training.simcut_p,
            compiled=training.compile and compile_backend == "inductor",
        )
        self._model_and_loss.use_fast_layers(device)
        self._loss_sum: nn.Module = self._model_and_loss
        if distributed.has_process_group:
            self._loss_sum = DistributedDataParallel(self._loss_sum, **_DDP_OPTIONS)
        # Gradients in float16 would underflow without a scaler. Other precisions need none.
        precision = resolve_precision(training.precision, device)
        self._scaler = torch.amp.GradScaler(device.type, enabled=precision == "float16")
        self._modules = list(self._loss_sum.modules())
        self._parameters = list(self.model.parameters())
        self._optimizer = make_optimizer(self._parameters, training)
        self._scheduler = make_scheduler(self._optimizer, training, config.model.d_model, components)
        self.window = MetricsWindow(distributed)
        self.step = self.epochs_done = self.updates_done = 0

    def compile(self) -> None:
        """Compile the layers and the loss. If that fails on any rank, add a note and don't compile.

        Each layer is compiled separately, because DDP sends a layer's gradients as soon as its backward pass
        has finished, and because layers of the same class share the compiled code. PyTorch compiles during
        forward and backward passes, first for exactly the sizes of the first example batch. For the second
        one, it compiles again, now with a dynamic size wherever the two batches differ. Compiling each shape
        separately would take several seconds per shape.

        Must be called on every rank, before the first update. Raises torch.OutOfMemoryError if a batch
        doesn't fit into the GPU's memory.
        """
        # These settings stay in effect, because PyTorch also compiles during later updates. Within DDP, it
        # would split each graph, so that gradients are sent before the backward pass ends. Layers are small
        # enough without that, and a split would only separate operations that could be fused.
        torch._dynamo.config.optimize_ddp = False
        # PyTorch compiles a few more versions, for example for a single sentence. After 8 versions, which is
        # the default limit, a layer would silently run uncompiled.
        torch._dynamo.config.recompile_limit = 64
        # In torch 2.13.0, this launcher may use a kernel whose code has been unloaded (PyTorch's pull request
        # 188607).
        if hasattr(torch._inductor.config, "use_fast_triton_launcher"):
            torch._inductor.config.use_fast_triton_launcher = False
        whole = self._model_and_loss.train()
        whole.refresh()
        layers = [*self.model.encoder_layers, *self.model.decoder_layers]
        reason = None
        try:
            options = _layer_options() if self._compile_backend == "inductor" else None
            for layer in layers:
                layer.compile(backend=self._compile_backend, options=options)
            for source, target in example_batches(self._config, self._vocabulary.end_id, self._device):
                # Call the model outside DDP, so that these gradients are not sent to other ranks.
                whole(source, target).backward()
        except torch.OutOfMemoryError:
            raise  # Without the compiler, training would need even more memory.
        except Exception as error:  # Each backend raises its own exceptions.
            torch.compiler.reset()
            first_line = next(iter(str(error).splitlines()), "")
            reason = f"{COMPILING_FAILED} ({type(error).__name__}: {first_line[:120]}); training without it"
        whole.zero_grad()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        # Compile on all ranks or on none: otherwise their results would differ by rounding.
        if global_max(self._distributed, int(reason is not None)):
            whole.stop_compiling()
            for layer in layers:
                layer.compile(disable=True)
            self.notes.append(reason or f"{COMPILING_FAILED} on another rank; training without it")

    def plan(self) -> list[list[list[int]]]:
        """Return the plan of the current epoch: a list of updates, as returned by `epoch_plan`."""
        return self.loader.plan(self.epochs_done)

    def update(self, batches: UpdatePlan, upcoming: UpdatePlan | None = None) -> float:
        """Run one update on batches, which are divided among the ranks. Return its learning rate.

        `upcoming`, the batches of the next update in the epoch, are prefetched. Must be called on every rank.
        """
        own = self.loader.load(batches)
        if upcoming is not None:
            self.loader.prefetch(upcoming)
        # DDP averages the gradients over the ranks; the world size turns that average into a sum.
        scale = self._distributed.world_size / self.loader.label_count(batches)

        # Call `train` only if necessary, because it takes a millisecond, even if nothing changes.
        if not all(module.training for module in self._modules):
            self._loss_sum.train()
        self._model_and_loss.refresh()
        self._optimizer.zero_grad()
        if not own:
            self._contribute_zero_gradients()
        for batch in own:
            self._backpropagate(batch, scale, is_last=batch is own[-1])
        if self._config.training.max_grad_norm is not None:
            self._scaler.unscale_(self._optimizer)
            # By now, the gradients are sums over all ranks, so all ranks compute the same norm.
            nn.utils.clip_grad_norm_(self.model.parameters(), self._config.training.max_grad_norm)
        learning_rate = float(self._scheduler.get_last_lr()[0])
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._scheduler.step()
        self.step += 1
        self.updates_done += 1
        return learning_rate

    def _contribute_zero_gradients(self) -> None:
        """Backpropagate zeros on a rank that has no batch, because the all-reduce needs all ranks."""
        empty = torch.tensor([[self._vocabulary.start_id, self._vocabulary.end_id]], device=self._device)
        first = torch.zeros(1, dtype=torch.int64, device=self._device)
        # Run eagerly, because the layers would be compiled again for a single sentence.
        with torch.compiler.set_stance("force_eager"):
            # Scale this loss too, because a scaler that has scaled no loss raises an error in `step`.
            self._scaler.scale(self._loss_sum(empty, empty, first) * 0.0).backward()

    def _backpropagate(self, batch: DeviceBatch, scale: float, is_last: bool) -> None:
        """Add the gradients of one of this rank's batches. With `is_last`, then sum them over all ranks."""
        torch.manual_seed(_dropout_seed(self._config.seed, self.step, batch.number))
        ddp = self._loss_sum if isinstance(self._loss_sum, DistributedDataParallel) else None
        # DDP requires the forward pass to be inside `no_sync` as well.
        with ddp.no_sync() if ddp is not None and not is_last else contextlib.nullcontext():
            loss_sum = self._loss_sum(batch.source, batch.target, batch.positions)
            loss = self._scaler.scale(loss_sum * scale)
            if ddp is not None and is_last:
                loss.backward()
            else:
                add_gradients(loss, self._parameters)
        self.window.add(loss_sum, batch.counts)

    @property
    def loss_scale(self) -> float:
        """The factor that keeps gradients in float16 from underflowing; 1 in other precisions."""
        return self._scaler.get_scale()

    def end_epoch(self) -> None:
        """Count the current epoch as complete."""
        self.epochs_done += 1
        self.updates_done = 0

    def state(self) -> dict[str, Any]:
        """Return everything needed to resume training. Must be called on every rank."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scheduler": self._scheduler.state_dict(),
            "scaler": self._scaler.state_dict(),
            "window": self.window.state(),
            "step": self.step,
            "epochs_done": self.epochs_done,
            "updates_done": self.updates_done,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state returned by `state()`."""
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._scheduler.load_state_dict(state["scheduler"])
        self._scaler.load_state_dict(state["scaler"])
        self.window.load(state["window"])
        self.step = state["step"]
        self.epochs_done = state["epochs_done"]
        self.updates_done = state["updates_done"]

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Start from the weights of another run. Raises BadInputError if they don't fit the model."""
        try:
            self.model.load_state_dict(weights)
        except RuntimeError:
            raise BadInputError(
                f"training.init_from: the weights of {self._config.training.init_from} don't fit this run's "
                "model: their names or shapes differ. Choose a run with the same model settings and "
                "vocabularies."
            ) from None

    def measure_machine(self) -> None:
        """Measure the total matmul rate of all ranks' devices, which is the basis of MFU.

        This takes about 0.3 seconds. Must be called on every rank.
        """
        rate = measure_matmul_rate(self._device, self._config.training.precision)
        total = global_sum(self._distributed, torch.tensor(rate, dtype=torch.float64, device=self._device))
        self.window.matmul_rate = float(total)
        if self._device.type == "cuda":
            # The matrices of the measurement must not count towards the peak memory of training.
            torch.cuda.reset_peak_memory_stats(self._device)

    def estimate_memory(self, tokens: int | None = None) -> MemoryEstimate | None:
        """Estimate the memory that training needs on this rank's device; None with a student's code.

        `tokens` replaces the config's `training.tokens_per_batch`. The estimate runs the model on fake
        tensors, for which a student's code isn't prepared: it may read the values of a tensor, which a fake
        tensor doesn't have, or keep a tensor for later batches.
        """
        if self._components is not REFERENCE:
            return None
        tokens = tokens or self._config.training.tokens_per_batch
        # Assume the longest sentences, for which attention stores the most for the backward pass.
        length = min(self._config.data.max_length, tokens)
        estimate = estimate_memory(self._model_and_loss, max(1, tokens // length), length, self._device)
        if self._distributed.has_process_group and (
            self._config.training.batches_per_update > self._distributed.world_size
        ):
            # Count the gradients twice: the sums of earlier batches are kept next to DDP's buckets.
            return replace(estimate, gradients=2 * estimate.gradients)
        return estimate


def _dropout_seed(seed: int, step: int, number: int) -> int:
    digest = hashlib.sha256(f"dropout {seed} {step} {number}".encode()).digest()
    return int.from_bytes(digest[:7])


def add_gradients(loss: Tensor, parameters: Sequence[nn.Parameter]) -> None:
    """Backpropagate from `loss`, and add the gradients to the parameters' existing ones in one operation.

    The result is the same as with `loss.backward()`, which adds one parameter's gradient at a time and so
    launches hundreds of small kernels on a GPU. DDP's hooks don't run.
    """
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    sums = [parameter.grad for parameter in trainable if parameter.grad is not None]
    if len(sums) < len(trainable):  # In the first batch of an update, there is nothing to add to.
        loss.backward()
        return
    gradients = torch.autograd.grad(loss, trainable, materialize_grads=True)
    torch._foreach_add_(sums, list(gradients))


def _layer_options() -> dict[str, bool]:
    """Return the options for compiling a layer with PyTorch's compiler.

    By default, PyTorch computes all gradients of a layer normalisation in one kernel. On an H200, one kernel
    for the input's gradient and another for the gradients of scale and shift take half the time. For the
    loss, where the gradient is summed in the same way, one kernel is faster.
    """
    option = "triton.mix_order_reduction"
    return {option: False} if option in torch._inductor.list_options() else {}
