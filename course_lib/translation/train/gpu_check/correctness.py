"""Tests of a device's results against the CPU and the reference, in one process and in several."""

import contextlib
import copy
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_lib.transformer import LabelSmoothingLoss, causal_mask, scaled_dot_product_attention
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.model.fused import fused_smoothed_loss
from course_lib.translation.model.precision import has_bfloat16, resolve_precision
from course_lib.translation.train.gpu_check.workload import REHEARSAL, SMALL, new_trainer, run_config
from course_lib.translation.train.trainer import COMPILING_FAILED, Trainer

UPDATES = 6
#: The timeout in seconds for a run in several processes. It usually takes about a tenth of that.
TIMEOUT = 240
#: The relative tolerance for losses in mixed precision.
MIXED_TOLERANCE = 5e-3
#: The relative tolerance for attention, which allows for rounding to 16 bits.
ATTENTION_TOLERANCE = 0.02


class CheckFailedError(AssertionError):
    """The error raised if a test fails on a device. The message describes the result."""


def difference(found: Tensor, expected: Tensor) -> float:
    """Return the norm of the difference, relative to the norm of the expected values.

    If a found value isn't finite, return infinity.
    """
    found, expected = found.detach().double().cpu(), expected.detach().double().cpu()
    if not torch.isfinite(found).all():
        return math.inf
    return float((found - expected).norm() / expected.norm().clamp(min=1e-12))


def require_near(found: Tensor, expected: Tensor, within: float) -> str:
    """Return the relative difference as text. Raises CheckFailedError if it is larger than `within`."""
    distance = difference(found, expected)
    if not distance <= within:
        raise CheckFailedError(f"relative difference {distance:.1e}, expected at most {within:.0e}")
    return f"relative difference {distance:.1e}"


def weights_of(trainer: Trainer) -> Tensor:
    """Return the weights of a trainer's model, without the keys' biases, as one vector in float64 on the CPU.

    A key's bias adds the same number to all scores of a query, which the softmax cancels. So the gradient of
    that bias consists only of rounding errors. Adam divides them by their own size, so the biases differ
    between any two devices.
    """
    state = trainer.model.state_dict()
    return _flat([state[name].double().cpu() for name in state if not name.endswith("key_projection.bias")])


def _flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([each.flatten() for each in tensors])


def _update(trainer: Trainer, first: int = 0, end: int = UPDATES) -> None:
    for batches in trainer.plan()[first:end]:
        trainer.update(batches)


def trained(config: RunConfig, device: torch.device, updates: int = UPDATES) -> Tensor:
    """Train on synthetic sentences for `updates` updates, and return the weights.

    The initial weights are the same on all devices.
    """
    trainer = new_trainer(config, REHEARSAL, device)
    initial = new_trainer(config, REHEARSAL, torch.device("cpu"))
    trainer.load_weights(initial.model.state_dict())
    _update(trainer, end=updates)
    return weights_of(trainer)


def _config(**training: object) -> RunConfig:
    model = SMALL.model_copy(update={"dropout": 0.0})
    defaults = {"tokens_per_batch": 400, "batches_per_update": 3, "warmup_steps": 20}
    return run_config(model, REHEARSAL, **{**defaults, **training})


def equals_cpu_in_float64(device: torch.device) -> str:
    """Check that six updates in float64 produce the same weights as on the CPU, up to rounding."""
    return _equals_cpu(device, "float64", within=1e-9)


def equals_cpu_in_float32(device: torch.device) -> str:
    """Check that six updates in float32 produce the same weights as on the CPU, up to rounding."""
    # The gradient of a weight can be close to zero, and Adam's step then depends on its rounding. With TF32,
    # the difference would be about 2e-3.
    return _equals_cpu(device, "float32", within=1e-3)


def _equals_cpu(device: torch.device, precision: str, within: float) -> str:
    config = _config(precision=precision)
    return require_near(trained(config, device), trained(config, torch.device("cpu")), within)


def mixed_precision_is_near(device: torch.device) -> str:
    """Check that the weights after six updates with `precision: auto` are close to those in float32."""
    precision = resolve_precision("auto", device)
    found, expected = (trained(_config(precision=each), device) for each in (precision, "float32"))
    return f"{precision}: {require_near(found, expected, 0.05)}"


def splits_are_exact(device: torch.device) -> str:
    """Check in float64 that the order of the batches within an update doesn't change the weights."""
    config = _config(precision="float64")
    trainer = new_trainer(config, REHEARSAL, device)
    reversed_order = new_trainer(config, REHEARSAL, device)
    for batches in trainer.plan()[:UPDATES]:
        trainer.update(batches)
        reversed_order.update(batches[::-1])
    return require_near(weights_of(reversed_order), weights_of(trainer), 1e-10)


def restarts_are_exact(device: torch.device) -> str:
    """Check that a trainer restored from a saved state ends with the same weights as an uninterrupted one."""
    config = _config(precision="auto", batches_per_update=1)
    whole, later = (new_trainer(config, REHEARSAL, device) for _ in range(2))
    _update(whole, end=3)
    later.load(copy.deepcopy(whole.state()))
    for trainer in (whole, later):
        _update(trainer, first=3)
    return require_near(weights_of(later), weights_of(whole), 1e-5)


def dropout_follows_the_seed(device: torch.device) -> str:
    """Check that dropout changes the weights, and is the same for the same seed and update."""
    config, without = (
        run_config(model, REHEARSAL, tokens_per_batch=400, warmup_steps=20)
        for model in (SMALL, SMALL.model_copy(update={"dropout": 0.0}))
    )
    one, same, other = (trained(each, device, updates=2) for each in (config, config, without))
    if not difference(other, one) > 1e-3:
        raise CheckFailedError("the weights are the same without dropout")
    return require_near(same, one, 1e-5)


def attention_kernels(device: torch.device) -> str:
    """Compare each attention kernel and its gradients with the reference, with causal and padding masks."""
    if device.type == "cuda":
        # `choose_kernels` disables the other kernels.
        backends = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        dtype = torch.bfloat16 if has_bfloat16(device) else torch.float16
    else:
        backends, dtype = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], torch.bfloat16
    worst = 0.0
    torch.manual_seed(1)
    for backend in backends:
        for causal in (True, False):
            worst = max(worst, _attention_difference(device, dtype, backend, causal))
    if worst > ATTENTION_TOLERANCE:
        raise CheckFailedError(f"relative difference {worst:.1e}, expected at most {ATTENTION_TOLERANCE}")
    names = ", ".join(backend.name.lower() for backend in backends)
    return f"{names}: relative difference at most {worst:.1e}"


def _attention_difference(
    device: torch.device, dtype: torch.dtype, backend: SDPBackend, causal: bool
) -> float:
    """Return the largest relative difference of a kernel's output and gradients from the reference's.

    The mask is causal if `causal` is true, and masks padding otherwise.
    """
    inputs = torch.randn(3, 4, 8, 40, 64, device=device).to(dtype)
    lengths = torch.tensor([[40], [23], [8], [31]], device=device)
    padding = (torch.arange(40, device=device) < lengths)[:, None, None]
    mask = causal_mask(40).to(device) if causal else padding
    exact = inputs.double().requires_grad_()
    expected, _ = scaled_dot_product_attention(exact[0], exact[1], exact[2], mask)
    given = inputs.clone().requires_grad_()
    bias = None if causal else torch.zeros_like(padding, dtype=dtype).masked_fill(~padding, -math.inf)
    with sdpa_kernel(backend):
        found = nn.functional.scaled_dot_product_attention(
            given[0], given[1], given[2], bias, is_causal=causal
        )
    outer = torch.randn_like(expected)
    (gradient,) = torch.autograd.grad(found, given, outer.to(dtype))
    (exact_gradient,) = torch.autograd.grad(expected, exact, outer)
    return max(difference(found, expected), difference(gradient, exact_gradient))


def loss_kernel(device: torch.device) -> str:
    """Check that the gradients of `fused_smoothed_loss` are close to those of `LabelSmoothingLoss`."""
    torch.manual_seed(1)
    hidden = torch.randn(50, 32, device=device, dtype=torch.float64, requires_grad=True)
    generator = nn.Linear(32, 77, device=device, dtype=torch.float64)
    labels = torch.randint(1, 77, (50,), device=device)
    given = (hidden, generator.weight, generator.bias)
    expected = LabelSmoothingLoss(77, 0, 0.1)(generator(hidden), labels) * 50
    found = fused_smoothed_loss(*given, labels, 0.1, torch.float64)
    theirs, ours = torch.autograd.grad(expected, given), torch.autograd.grad(found, given)
    return require_near(_flat(ours), _flat(theirs), 1e-6)


def compiled_is_near_eager(device: torch.device) -> str:
    """Check that the weights after six updates with compiled layers are close to those without.

    Both float32 and `precision: auto` are tested. If the layers can't be compiled, the test fails.
    """
    results = []
    for precision in dict.fromkeys(("float32", resolve_precision("auto", device))):
        found: list[Tensor] = []
        for compiled in (True, False):
            config = _config(precision=precision, compile=compiled)
            trainer = new_trainer(config, REHEARSAL, device)
            _update(trainer)
            if trainer.notes:
                raise CheckFailedError(trainer.notes[0])
            found.append(weights_of(trainer))
        distance = require_near(found[0], found[1], 1e-3 if precision == "float32" else 0.05)
        results.append(f"{precision}: {distance}")
    return "; ".join(results)


def several_processes(device: torch.device) -> str:
    """Check that training in several processes, with a restart, yields the same losses as in one process.

    On GPUs, the processes communicate with NCCL. If there is only one GPU, or if the GPUs are of different
    models, torchrun starts a single process, which calls the same collectives.
    """
    count = 2
    if device.type == "cuda":
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        count = len(names) if len(set(names)) == 1 else 1
    found = launched_equals_one(device, count)
    return found if count > 1 else f"{found}; testing more than one needs several identical GPUs"


def launched_equals_one(device: torch.device, count: int) -> str:
    """Check that `count` processes under torchrun compute the same losses as one process without it.

    Each update has two batches for each process, and an additional one for one of them. The last update of
    an epoch has a single batch, so the other processes have none. The first comparison is in float64. The
    second one uses the usual settings: fused attention, `precision: auto` and, on a GPU, compiled layers.
    """
    batches, length, pairs = 2 * count + 1, 8, 20
    common = f"""captions training.device={device.type} training.epochs=null
        training.batches_per_update={batches} training.tokens_per_batch={pairs * length}
        training.warmup_steps=10 training.log_every=1 data.max_length={length}
        data.train_pairs={(2 * batches + 1) * pairs} data.vocab_size=600
        evaluation.bleu_every=0 evaluation.beam_size=1 evaluation.tokens_per_batch=20000
        model.dropout=0 model.layers=1 model.d_model=32 model.heads=4""".split()
    exact, usual = ["training.precision=float64"], ["training.precision=auto", "model.attention=fused"]
    if device.type == "cuda":
        usual.append("training.compile=true")
    found = [
        require_near(_losses(count, [*common, *settings]), _losses(None, [*common, *settings]), within)
        for settings, within in ((exact, 1e-9), (usual, MIXED_TOLERANCE))
    ]
    return f"processes under torchrun: {count}, {found[0]}; in mixed precision, {found[1]}"


def _losses(processes: int | None, arguments: list[str]) -> Tensor:
    """Train for two updates, resume for three more, and return the loss of each update."""
    with tempfile.TemporaryDirectory() as folder:
        for updates in (2, 5):
            _train(processes, [*arguments, f"training.updates={updates}", f"run_folder={folder}/run"])
        rows = [json.loads(line) for line in (Path(folder) / "run/metrics.jsonl").open(encoding="utf-8")]
    return torch.tensor([row["loss"] for row in rows if "loss" in row], dtype=torch.float64)


def _train(processes: int | None, arguments: list[str]) -> None:
    """Run the training command, in `processes` processes under torchrun.

    If `processes` is None, run it without torchrun. Raises CheckFailedError if the command fails, doesn't end
    in time, or trains without compiled layers because the compiler failed.
    """
    launcher = ["-m", "course_lib.translation.launch", "--standalone", f"--nproc-per-node={processes}"]
    command = [sys.executable, *(launcher if processes is not None else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*command, "-m", "course_lib.translation.train", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            output, errors = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.terminate()  # The launcher ends the processes of all ranks, within two minutes.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=150)
            process.kill()
            raise CheckFailedError(
                f"training in {processes or 1} processes didn't end in {TIMEOUT} seconds; they may be "
                "unable to reach each other (with GPUs, NCCL_DEBUG=INFO shows more)"
            ) from None
    if process.returncode:
        raise CheckFailedError(f"exit code {process.returncode}: {(errors or output)[-500:]}")
    if failure := next((line for line in f"{output}\n{errors}".splitlines() if COMPILING_FAILED in line), ""):
        raise CheckFailedError(failure)


#: The tests, in order. Each returns a description of its result, or raises CheckFailedError.
TESTS: tuple[Callable[[torch.device], str], ...] = (
    several_processes,  # This is first, because in exclusive mode, a GPU serves one process at a time.
    equals_cpu_in_float64,
    equals_cpu_in_float32,
    mixed_precision_is_near,
    splits_are_exact,
    restarts_are_exact,
    dropout_follows_the_seed,
    attention_kernels,
    loss_kernel,
    compiled_is_near_eager,
)
