"""The fast layers launch fewer operations and convert weights once per update; batches have few shapes."""

import pytest

from course_lib.translation.configs.loader import load_config
from tests.benchmarks.operations import counted, distinct_shapes

CONFIG = load_config("wmt14-base")


@pytest.mark.slow
def test_fewer_operations_and_hardly_any_casts() -> None:
    plain, fast = (counted(CONFIG, 106, 32, fast, layers=2) for fast in (False, True))
    assert fast.flops == plain.flops > 0
    assert fast.operations < 0.6 * plain.operations
    assert fast.casts < 0.1 * plain.casts
    assert fast.moved < plain.moved
    # Attention is one kernel a sublayer, and masks are not converted for each.
    assert fast.kinds["aten::_scaled_dot_product_flash_attention_for_cpu"] == 6
    assert fast.kinds["aten::where"] == 0


def test_buckets_leave_sixteen_shapes() -> None:
    assert distinct_shapes(CONFIG, buckets=True) <= 16 < distinct_shapes(CONFIG, buckets=False)
