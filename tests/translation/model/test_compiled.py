"""If torch.compile works, it is used for all lengths; otherwise training continues without it.

The tests run in processes in which shapes are not checked at every call, because the compiler would have to
compile these checks as well.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.distributed import DistributedInfo
from course_lib.translation.model.fused import BlockDropout, fused_smoothed_loss
from course_lib.translation.train.batches import example_batches
from course_lib.translation.train.experiment import train
from course_lib.translation.train.interruption import Interrupted, Interruption
from course_lib.translation.train.trainer import Trainer
from tests.translation.real_processes import in_processes
from tests.translation.train.micro_training import assert_equal_weights, new_trainer, weights

pytestmark = pytest.mark.slow

Outcome = tuple[list[str], dict[str, list[float]], dict[str, float]]


def trained(config: RunConfig, distributed: DistributedInfo, backend: str = "inductor") -> Outcome:
    """Make four updates. Return the notes, the weights and the compiler's counts."""
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    trainer = new_trainer(config, distributed, backend)
    for batches in trainer.plan()[:4]:
        trainer.update(batches)
    counts = {**counters["graph_break"], "graphs": counters["stats"]["unique_graphs"]}
    return trainer.notes, weights(trainer), counts


def without_a_compiler(distributed: DistributedInfo, *configs: RunConfig) -> list[Outcome]:
    import torch._inductor.config as inductor

    inductor.cpp.cxx = ("no-such-compiler",)
    inductor.force_disable_caches = True
    inductor.compile_threads = 1
    return [trained(config, distributed) for config in configs]


def test_without_a_c_compiler_training_continues_on_all_processes(
    tiny_config: Callable[..., RunConfig],
) -> None:
    configs = tiny_config("training.compile=true"), tiny_config()
    for (notes, got, _), (no_notes, expected, _) in in_processes(2, without_a_compiler, *configs):
        assert no_notes == []
        (note,) = notes
        assert note.startswith("torch.compile failed (InductorError: ")
        assert "compiler" in note.partition(":")[2]
        assert note.endswith("; training without it")
        assert "\n" not in note
        assert got == expected


def with_the_front_end(distributed: DistributedInfo, *configs: RunConfig) -> list[Outcome]:
    """Train with only the compiler's front end, because its backend takes half a minute."""
    return [trained(config, distributed, "eager") for config in configs]


@pytest.mark.parametrize("attention", ["plain", "fused"])
def test_each_kind_of_layer_is_compiled_twice_for_all_shapes(
    tiny_config: Callable[..., RunConfig], attention: str
) -> None:
    exact = ("training.precision=float64", "model.dropout=0", "model.layers=2")
    exact += (f"model.attention={attention}",)
    configs = tiny_config("training.compile=true", *exact), tiny_config(*exact)
    for (notes, got, counts), (_, expected, _) in in_processes(1, with_the_front_end, *configs):
        assert notes == []
        graphs = counts.pop("graphs")
        assert counts == {}, "no part of a layer is left uncompiled"
        # One graph for an encoder layer and one for a decoder layer: first for one batch, then for all sizes.
        assert graphs == 2 * 2
        assert_equal_weights(got, expected, within=1e-9)


def test_the_first_layer_of_a_stack_shares_the_code_of_the_others_in_mixed_precision(
    tiny_config: Callable[..., RunConfig],
) -> None:
    config = tiny_config(
        "training.compile=true",
        "training.precision=bfloat16",
        "model.attention=fused",
        "model.layers=2",
        "model.dropout=0",
    )
    [[(notes, _, counts)]] = in_processes(1, with_the_front_end, config)
    assert notes == []
    assert counts["graphs"] == 2 * 2


@pytest.mark.parametrize(("longest", "tokens"), [(3, 3), (4, 4), (20, 20), (20, 30), (128, 4096)])
def test_the_example_batches_have_no_size_in_common(
    tiny_config: Callable[..., RunConfig], longest: int, tokens: int
) -> None:
    settings = f"data.max_length={longest}", f"training.tokens_per_batch={tokens}"
    [(first, _), (second, _)] = example_batches(tiny_config(*settings), 1, torch.device("cpu"))
    (rows, length), (other_rows, other_length) = first.shape, second.shape
    assert 1 < rows < other_rows
    assert 2 < length < other_length
    assert other_length % 2 == 1


def graphs_of_several_processes(distributed: DistributedInfo, config: RunConfig) -> tuple[int, int]:
    """Return how many graphs the front end found and how many the backend compiled."""
    compiled: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        compiled.append(graph)
        return graph

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    trainer = new_trainer(config, distributed, backend)
    trainer.update(trainer.plan()[0])
    return torch._dynamo.utils.counters["stats"]["unique_graphs"], len(compiled)


def test_several_processes_compile_a_layer_as_a_whole(tiny_config: Callable[..., RunConfig]) -> None:
    # The weights of a layer are larger than DDP's first bucket, so PyTorch would split its graph by default.
    large = ("model.d_model=256", "model.d_ff=512", "model.dropout=0")
    for found, compiled in in_processes(
        2, graphs_of_several_processes, tiny_config("training.compile=true", *large)
    ):
        assert found == compiled > 0


def differences_of_the_compiled_loss(
    distributed: DistributedInfo, batches: Sequence[tuple[int, torch.dtype]]
) -> list[float]:
    """Return relative differences between the compiled and the eager loss, and between their gradients.

    `batches` holds the number of rows and the dtype of each batch.
    """
    torch.manual_seed(0)
    generator = nn.Linear(32, 300)
    found = []
    for rows, dtype in batches:
        inputs = (torch.randn(rows, 32, requires_grad=True), generator.weight, generator.bias)
        labels = torch.randint(300, (rows,))
        sides = []
        for compiled in (True, False):
            loss = fused_smoothed_loss(*inputs, labels, 0.1, dtype, compiled)
            sides.append([loss.detach(), *torch.autograd.grad(loss, inputs)])
        found += [float((ours - theirs).norm() / theirs.norm()) for ours, theirs in zip(*sides, strict=True)]
    return found


def compiling_after_a_signal(distributed: DistributedInfo, config: RunConfig) -> list[bool]:
    """Signal rank 1 in its first update, and train until the run stops.

    Return for each update whether PyTorch would compile in this process alone.
    """
    import torch._inductor.config as inductor

    inductor.compile_threads = 4
    alone: list[bool] = []

    def update(trainer: Trainer, *_: Any) -> float:
        alone.append(inductor.compile_threads == 1)
        if distributed.rank == 1 and trainer.step == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
        trainer.step += 1
        trainer.updates_done += 1
        return 0.1

    with pytest.MonkeyPatch.context() as patch, Interruption() as interruption:
        patch.setattr(Trainer, "compile", lambda _: None)
        patch.setattr(Trainer, "update", update)
        with pytest.raises(Interrupted):
            train(config, distributed, interruption)
    return alone


def test_a_process_compiles_alone_after_a_signal_has_ended_the_compiler_s_processes(
    tiny_config: Callable[..., RunConfig],
) -> None:
    config = tiny_config("training.compile=true", "checkpoints.stop_check_every=3", "training.log_every=100")
    assert in_processes(2, compiling_after_a_signal, config) == [[False] * 3, [False, True, True]]


#: A program that prints the number of processes that PyTorch's compiler uses for one of two ranks.
COMPILER_PROCESSES = """
from course_lib.translation.configs.schema import TrainingConfig
from course_lib.translation.distributed import DistributedInfo
from course_lib.translation.train.setup import share_cores

share_cores(TrainingConfig(epochs=1, threads=1), DistributedInfo(0, 2, 0, 2))
from torch._inductor import config
print(config.compile_threads)
"""


def test_the_ranks_of_a_machine_share_its_cores_for_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_COMPILE_THREADS", raising=False)
    done = subprocess.run(
        [sys.executable, "-c", COMPILER_PROCESSES], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == max(1, len(os.sched_getaffinity(0)) // 2)


@pytest.mark.parametrize(
    ("batches", "tolerance"),
    [
        # Each takes 15 seconds to compile.
        ([(70, torch.float32)], 1e-5),
        pytest.param([(50, torch.float32), (70, torch.float32)], 1e-5, marks=pytest.mark.nightly),
        pytest.param([(70, torch.bfloat16)], 5e-3, marks=pytest.mark.nightly),
    ],
    ids=["float32", "two sizes", "bfloat16"],
)
def test_the_compiled_loss_equals_the_eager_loss(
    batches: list[tuple[int, torch.dtype]], tolerance: float
) -> None:
    [differences] = in_processes(1, differences_of_the_compiled_loss, batches)
    assert max(differences) < tolerance


def dropped_by_compiled_dropout(distributed: DistributedInfo) -> list[float]:
    """Return the share of zeros for two sizes in bfloat16. The second size compiles for variable sizes."""
    torch.manual_seed(0)
    dropout = torch.compile(BlockDropout(0.25), backend="aot_eager")
    inputs = (torch.ones(rows, 20, 32, dtype=torch.bfloat16) for rows in (30, 70))
    return [float((dropout(each) == 0).float().mean()) for each in inputs]


def test_the_fast_dropout_of_cpus_can_be_compiled() -> None:
    [dropped] = in_processes(1, dropped_by_compiled_dropout)
    assert dropped == pytest.approx([0.25, 0.25], abs=0.02)
