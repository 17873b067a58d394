"""Problems with a GPU, such as an old driver or too little memory, are reported before training starts."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import ProfilerActivity

from course_lib.errors import BadInputError, ExitCode
from course_lib.translation.configs.loader import load_config
from course_lib.translation.configs.schema import ModelConfig, Precision, RunConfig, TrainingConfig
from course_lib.translation.distributed import SINGLE_PROCESS, DistributedInfo
from course_lib.translation.model import devices
from course_lib.translation.model.loss import LossSum
from course_lib.translation.model.memory import estimate_memory
from course_lib.translation.model.seq2seq import REFERENCE, build_model
from course_lib.translation.train import setup
from course_lib.translation.train.__main__ import main
from course_lib.translation.train.evaluation import Evaluator
from course_lib.translation.train.experiment import train
from course_lib.translation.train.profiling import UpdateProfiler
from course_lib.translation.train.trainer import Trainer
from tests.translation.real_processes import in_processes
from tests.translation.train.micro_training import new_trainer

CPU = torch.device("cpu")
Configs = Callable[..., RunConfig]

NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@NO_GPU
def test_a_gpu_that_pytorch_cannot_use_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert devices.choose_device(TrainingConfig(epochs=1), SINGLE_PROCESS) == CPU
    driver = tmp_path / "version"
    driver.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  450.80.02\nGCC version: 9\n")
    monkeypatch.setattr(devices, "DRIVER", driver)
    for device in ("auto", "cuda"):
        config = TrainingConfig.model_validate({"epochs": 1, "device": device})
        with pytest.raises(BadInputError, match=r"there is no GPU that PyTorch can use \(.*450\.80\.02"):
            devices.choose_device(config, SINGLE_PROCESS)
    assert devices.choose_device(TrainingConfig(epochs=1, device="cpu"), SINGLE_PROCESS) == CPU


@NO_GPU
def test_a_job_without_gpus_runs_on_the_cpu_of_a_node_with_gpus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_device() -> None:
        raise RuntimeError("No CUDA GPUs are available")

    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05\n")
    monkeypatch.setattr(devices, "DRIVER", tmp_path / "version")
    monkeypatch.setattr(torch.cuda, "init", no_device)
    assert devices.choose_device(TrainingConfig(epochs=1), SINGLE_PROCESS) == CPU
    with pytest.raises(BadInputError, match=r"no GPU that PyTorch can use \(none was found\)"):
        devices.choose_device(TrainingConfig(epochs=1, device="cuda"), SINGLE_PROCESS)


def test_a_gpu_that_is_too_old_for_this_build_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "is_available": True,
        "device_count": 1,
        "get_arch_list": ["sm_75", "sm_80", "sm_90", "compute_90"],
        "get_device_capability": (7, 0),
        "get_device_name": "Tesla V100-SXM2-16GB",
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    expected = (
        r"device: Tesla V100-SXM2-16GB has compute capability 7\.0, .* needs at least 7\.5\. Install PyTorch "
        r"2\.14 or older for CUDA 12\.6"
    )
    with pytest.raises(BadInputError, match=expected):
        devices.choose_device(TrainingConfig(epochs=1), SINGLE_PROCESS)


def test_the_estimate_is_what_a_forward_pass_saves() -> None:
    config = ModelConfig(layers=2, d_model=64, heads=2, d_ff=128, attention="fused")
    model = build_model(config, 500, 500)
    loss_sum = LossSum(model, REFERENCE.loss(500, 0, 0.1), "bfloat16")
    loss_sum.use_fast_layers(CPU)
    loss_sum.refresh()
    estimate = estimate_memory(loss_sum, 8, 24, CPU)
    saved: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        tokens = torch.ones(8, 25, dtype=torch.int64)
        loss_sum.train()(tokens[:, :24], tokens, torch.arange(8 * 24))
    own = {parameter.untyped_storage()._cdata for parameter in loss_sum.parameters()}
    measured = sum(each.untyped_storage().nbytes() for key, each in saved.items() if key not in own)
    assert estimate.activations == pytest.approx(measured, rel=0.2)
    count = sum(parameter.numel() for parameter in loss_sum.parameters())
    assert (estimate.weights, estimate.gradients, estimate.optimiser) == (4 * count, 4 * count, 8 * count)


@pytest.mark.parametrize(
    ("precision", "compiled", "matrices"),
    [("float32", False, 4), ("bfloat16", False, 2 + 4 + 2), ("float32", True, 8), ("bfloat16", True, 4)],
)
def test_the_estimate_contains_the_logits_of_a_chunk(
    precision: Precision, compiled: bool, matrices: int
) -> None:
    model = build_model(ModelConfig(layers=1, d_model=16, heads=2, d_ff=16), 500, 500)
    loss_sum = LossSum(model, REFERENCE.loss(500, 0, 0.1), precision, compiled=compiled)
    columns = 512 if compiled else 500  # Compiled code pads them to a multiple of 64.
    assert loss_sum.logits_bytes(100, CPU) == 100 * columns * matrices
    largest = loss_sum.logits_bytes(10**9, torch.device("cuda"))
    assert 2**28 - columns < largest / matrices <= 2**28
    loss_sum.stop_compiling()
    eager = LossSum(model, REFERENCE.loss(500, 0, 0.1), precision)
    assert loss_sum.logits_bytes(100, CPU) == eager.logits_bytes(100, CPU)


@pytest.mark.slow
def test_the_advice_for_a_card_with_too_little_memory_is_accepted_and_fits(
    tiny_config: Callable[..., RunConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = ("data.max_length=60", "training.tokens_per_batch=1000")
    config = tiny_config(*sizes)
    trainer = new_trainer(config)

    def needed(trainer: Trainer, tokens: int | None = None) -> int:
        estimate = trainer.estimate_memory(tokens)
        assert estimate is not None
        return estimate.total - estimate.weights

    def refusal(free: int) -> str:
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 0))
        with pytest.raises(BadInputError) as refused:
            setup.require_enough_memory(trainer, config, SINGLE_PROCESS, CPU)
        return str(refused.value)

    for sentences in (1, 3, 14):
        free = needed(trainer, sentences * 60)
        message = refusal(free)
        assert f"At most {sentences * 60} tokens fit" in message
        advice = re.findall(r"training\.\w+=\d+", message)
        advised = tiny_config(*sizes, *advice)
        assert needed(new_trainer(advised)) <= free
        size = advised.training.tokens_per_batch * advised.training.batches_per_update
        assert size == pytest.approx(1000 * config.training.batches_per_update, rel=0.03)
    # The rank with the least memory decides.
    least = needed(trainer, 180)
    with monkeypatch.context() as patch:
        patch.setattr(setup, "global_max", lambda distributed, number: max(number, -least))
        assert "At most 180 tokens fit" in refusal(1000 * least)
    message = refusal(needed(trainer, 60) - 1)
    assert "Not even a batch with one sentence of data.max_length=60 tokens fits. Choose a smaller" in message


def require_memory_with_ddp(distributed: DistributedInfo, config: RunConfig) -> None:
    """Check that a run is accepted if it fits exactly, and rejected if one byte is missing."""
    trainer = new_trainer(config, distributed)
    estimate = trainer.estimate_memory()
    assert estimate is not None
    assert estimate.gradients == estimate.weights
    free = estimate.total - estimate.weights - estimate.gradients
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 0))
        setup.require_enough_memory(trainer, config, distributed, CPU)
        patch.setattr(torch.cuda, "mem_get_info", lambda device: (free - 1, 0))
        with pytest.raises(BadInputError):
            setup.require_enough_memory(trainer, config, distributed, CPU)


def test_the_gradients_that_ddp_has_allocated_are_not_counted_again(tiny_config: Configs) -> None:
    in_processes(1, require_memory_with_ddp, tiny_config("training.batches_per_update=1"))


def test_a_trainer_estimates_its_longest_batches(tiny_config: Configs) -> None:
    trainers = [new_trainer(tiny_config(f"training.tokens_per_batch={n}")) for n in (400, 1600)]
    estimates = [trainer.estimate_memory() for trainer in trainers]
    one, two = (each.activations for each in estimates if each is not None)
    assert 2 < two / one < 5


class BooleanIndexing(nn.Module):
    """A loss as many students write it: it selects the real labels, so its shapes depend on their number."""

    def __init__(self, vocab_size: int, pad_id: int, smoothing: float) -> None:
        super().__init__()
        self.pad_id = pad_id

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        real = labels != self.pad_id
        return nn.functional.cross_entropy(logits[real], labels[real])


def test_nothing_is_estimated_for_code_that_fake_tensors_cannot_run(
    tiny_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config()
    components = replace(REFERENCE, loss=BooleanIndexing)
    trainer = new_trainer(config, components=components)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (0, 0))
    setup.require_enough_memory(trainer, config, SINGLE_PROCESS, CPU)
    with pytest.raises(BadInputError, match=r"but only 0\.0 GiB are free"):
        setup.require_enough_memory(new_trainer(config), config, SINGLE_PROCESS, CPU)
    trainer.update(trainer.plan()[0])


#: PyTorch's message when a GPU's memory is full.
FULL = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.25 "
    "GiB is free. Process 5 has 77.85 GiB memory in use. Of the allocated memory 70.00 GiB is by PyTorch."
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("full", "overrides", "advice"),
    [
        (
            "update",
            ("training.tokens_per_batch=300",),
            "Set training.tokens_per_batch=150 training.batches_per_update=6",
        ),
        (
            "update",
            ("training.tokens_per_batch=16", "data.max_length=16"),
            "Choose a smaller model or a smaller data.max_length.",
        ),
        ("compile", ("training.compile=true",), "Set training.tokens_per_batch="),
        ("validation", (), "Set evaluation.tokens_per_batch="),
        ("test", (), "Set evaluation.tokens_per_batch="),
        (
            "test",
            ("evaluation.tokens_per_batch=40",),
            "Choose a smaller model or a smaller data.max_length.",
        ),
    ],
)
def test_a_full_memory_is_reported_with_smaller_sizes(
    full: str,
    overrides: tuple[str, ...],
    advice: str,
    tiny_config: Configs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError(FULL)

    where, method = {
        "update": (LossSum, "forward"),
        "compile": (LossSum, "forward"),
        "validation": (Evaluator, "loss"),
        "test": (Evaluator, "translate"),
    }[full]
    monkeypatch.setattr(where, method, fail)
    config = tiny_config("evaluation.bleu_every=0", "training.updates=2", *overrides)
    with pytest.raises(BadInputError) as refused:
        train(config, SINGLE_PROCESS)
    message = str(refused.value)
    section = "evaluation" if full in ("validation", "test") else "training"
    assert message.startswith(
        f"{section}.tokens_per_batch: the memory of the GPU is full (CUDA out of memory. Tried to allocate "
        "2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.25 GiB is free). If other programs use "
        f"this GPU, end them. {advice}"
    )


def test_a_profile_that_does_not_begin_is_reported(
    tiny_config: Configs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tiny_config("training.profile=2", "training.updates=5", "evaluation.bleu_every=0"), SINGLE_PROCESS)
    assert "training.profile: nothing was profiled, because the first 5 updates" in capsys.readouterr().out
    assert not (tmp_path / "run" / "profile").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("wanted", "profiled"), [(2, 2), (50, 3)])
def test_a_profile_is_written_while_training(
    wanted: int, profiled: int, tiny_config: Configs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny_config(f"training.profile={wanted}", "training.updates=8", "evaluation.bleu_every=0")
    train(config, SINGLE_PROCESS)
    assert f"Profile of {profiled} updates: {tmp_path / 'run' / 'profile'}" in capsys.readouterr().out
    assert "aten::addmm" in (tmp_path / "run" / "profile" / "operations.txt").read_text()
    assert (tmp_path / "run" / "profile" / "trace.json").stat().st_size > 1000


def test_a_profile_on_the_cpu_does_not_use_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = {ProfilerActivity.CPU, ProfilerActivity.CUDA}
    monkeypatch.setattr("torch.profiler.profiler.supported_activities", lambda: both)
    profiler = UpdateProfiler(tmp_path, 1, print)
    profiler.step()
    assert profiler._profiler is not None
    assert profiler._profiler.activities == {ProfilerActivity.CPU}
    profiler.end()


def test_only_rank_0_needs_the_packages_of_dashboards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    training = load_config("captions", ["training.tensorboard=true"]).training
    ranks = [DistributedInfo(rank, 2, rank, 2) for rank in range(2)]
    with pytest.raises(BadInputError, match="the package tensorboard is not installed"):
        setup.require_dashboards(training, ranks[0])
    setup.require_dashboards(training, ranks[1])


@pytest.mark.parametrize(("package", "value"), [("tensorboard", "true"), ("wandb", "course")])
def test_a_missing_package_is_asked_for_before_training(
    config_file: Path,
    package: str,
    value: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert main([str(config_file), f"training.{package}={value}"]) == ExitCode.BAD_INPUT
    assert f"the package {package} is not installed" in capsys.readouterr().err
