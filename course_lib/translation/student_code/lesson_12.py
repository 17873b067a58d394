"""Are a student's `shard` and `global_token_mean` what the reference's are, among these processes?"""

from typing import Any

import torch

from course_lib.student.parts import Parts
from course_lib.transformer.data_parallel import global_token_mean, shard
from course_lib.translation.training.distributed import Place, gather


def unequal_in_lesson_12(parts: Parts, place: Place) -> dict[str, str]:
    """Say which of the two differ, and how. All processes call it together, and get the same answer."""
    found: list[dict[str, str]] = [{}]
    for name, differs in (("shard", _shard_differs), ("global_token_mean", _mean_differs)):
        if name in parts.yours:
            how = ""
            try:
                how = differs(parts[name], place)
            except Exception as error:
                how = f"it raises {type(error).__name__}: {error}"
            found[0][name] = how
    everywhere = gather(place, found)
    # The first process that saw a difference speaks for all.
    return {name: how for answers in reversed(everywhere) for name, how in answers.items() if how}


def _shard_differs(own: Any, place: Place) -> str:
    for world_size in range(1, 5):
        for count in range(8):
            batches = [[number] for number in range(count)]
            dealt = [list(own(batches, rank, world_size)) for rank in range(world_size)]
            expected = [list(shard(batches, rank, world_size)) for rank in range(world_size)]
            if dealt != expected:
                return (
                    f"{count} batches for {world_size} processes: {expected} is expected, and it is {dealt}"
                )
            if batches != [[number] for number in range(count)]:
                return "it changes the batches that it is given"
    return ""


def _mean_differs(own: Any, place: Place) -> str:
    """Give each process a sum and a count of its own."""
    total, count = 7.0 * place.rank + 2.0, 3 * place.rank + 1
    for dtype in (torch.float32, torch.float64):
        loss_sum, token_count = torch.tensor(total, dtype=dtype), torch.tensor(count)
        expected = global_token_mean(loss_sum, token_count)
        found = own(loss_sum, token_count)
        if float(loss_sum) != total or int(token_count) != count:
            return "it changes its arguments"
        if not torch.allclose(torch.as_tensor(found, dtype=torch.float64), expected.double(), rtol=1e-6):
            return f"{float(expected):.4g} is expected, and it is {float(found):.4g}"
    return ""
