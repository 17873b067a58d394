"""Wrong answers that match no known misconception: the checks must not name one."""

from collections.abc import Callable
from typing import Any

from tests.checks.unrelated import (
    attention,
    broadcasting,
    data_parallel,
    decoding,
    label_smoothing,
    masks,
    multi_head,
    positions,
    schedule,
    sublayers,
    the_transformer,
    training,
    translation_data,
)

UNRELATED: dict[str, tuple[Callable[..., Any], ...]] = {
    **broadcasting.UNRELATED,
    **attention.UNRELATED,
    **multi_head.UNRELATED,
    **sublayers.UNRELATED,
    **masks.UNRELATED,
    **positions.UNRELATED,
    **the_transformer.UNRELATED,
    **schedule.UNRELATED,
    **label_smoothing.UNRELATED,
    **training.UNRELATED,
    **translation_data.UNRELATED,
    **decoding.UNRELATED,
    **data_parallel.UNRELATED,
}
