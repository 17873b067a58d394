"""The fast layers launch fewer operations and convert weights once per update."""

import pytest
import torch

from course_lib.translation.configs.loader import load_config
from tests.benchmarks.operations import FusedKernels, counted, predicted

CONFIG = load_config("wmt14-base")


@pytest.mark.slow
def test_fewer_operations_and_hardly_any_casts() -> None:
    plain, fast = (counted(CONFIG, 106, 32, fast, layers=2) for fast in (False, True))
    assert fast.flops == plain.flops > 0
    assert fast.operations < 0.45 * plain.operations
    assert fast.casts < 0.1 * plain.casts
    assert fast.moved < plain.moved
    # Attention is one kernel per sublayer, and masks aren't converted for each of them.
    assert fast.kinds["aten::_scaled_dot_product_flash_attention_for_cpu"] == 6
    assert fast.kinds["aten::where"] == 0


@pytest.mark.slow
def test_compiling_replaces_everything_but_products_and_attention() -> None:
    config = CONFIG.model_copy(update={"model": CONFIG.model.model_copy(update={"layers": 2})})
    eager = counted(config, 106, 32, fast=True)
    no_kernels = FusedKernels(number=0, fixed=0, per_token=0)
    compiled = predicted(config, 106, no_kernels, no_kernels)
    assert compiled.flops == eager.flops
    for kind in ("aten::addmm", "aten::mm", "aten::_scaled_dot_product_flash_attention_for_cpu"):
        assert compiled.kinds[kind] == eager.kinds[kind] > 0
    for kind in ("aten::native_layer_norm", "aten::relu", "aten::exp_"):
        assert compiled.kinds[kind] == 0 < eager.kinds[kind]
    assert min(compiled.kinds.values()) >= 0
    with_kernels = predicted(config, 106, FusedKernels(50, 1e6, 1e3), no_kernels)
    assert with_kernels.operations == compiled.operations + 2 * 50
    assert with_kernels.moved == compiled.moved + 2 * (10**6 + 106 * 32 * 10**3)


@pytest.mark.slow
def test_bytes_of_a_fused_kernel() -> None:
    kernels = FusedKernels.of(lambda tokens: _three_operations(torch.zeros(tokens, 64)), constant_kernels=0)
    assert (kernels.number, kernels.fixed, kernels.per_token) == (1, 0, 2 * 64 * 4)


@torch.compile(dynamic=False)
def _three_operations(x: torch.Tensor) -> torch.Tensor:
    return (2 * x + 1).relu()
