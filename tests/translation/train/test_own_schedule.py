"""A student's schedule resumes where it stopped, however it is implemented."""

from typing import Any

import pytest
import torch
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LambdaLR, MultiplicativeLR

from course_lib.translation.train.student_code.adapters import StudentSchedule


def counting_by_itself(optimizer: Optimizer) -> Any:
    done = iter(range(1, 1000))
    return LambdaLR(optimizer, lambda _: 1 / next(done))


def rate_upon_rate(optimizer: Optimizer) -> Any:
    return MultiplicativeLR(optimizer, lambda done: 0.5 + 0.1 * (done % 3))


def no_scheduler_of_torchs(optimizer: Optimizer) -> Any:
    class Mine:
        def __init__(self) -> None:
            self.n = 0

        def step(self) -> None:
            self.n += 1
            optimizer.param_groups[0]["lr"] = float(self.n)

    return Mine()


@pytest.mark.parametrize("make", [counting_by_itself, rate_upon_rate, no_scheduler_of_torchs])
def test_it_resumes_where_it_stopped(make: Any, recwarn: pytest.WarningsRecorder) -> None:
    def started() -> tuple[Optimizer, StudentSchedule]:
        optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        return optimizer, StudentSchedule(optimizer, lambda: make(optimizer))

    def rates(optimizer: Optimizer, schedule: StudentSchedule, updates: int) -> list[Any]:
        seen = []
        for _ in range(updates):
            seen.append(schedule.get_last_lr()[0])
            optimizer.step()
            schedule.step()
        return seen

    optimizer, schedule = started()
    rates(optimizer, schedule, 4)
    kept = schedule.state_dict(), optimizer.state_dict()
    expected = rates(optimizer, schedule, 4)
    optimizer, schedule = started()
    optimizer.load_state_dict(kept[1])
    schedule.load_state_dict(kept[0])
    assert rates(optimizer, schedule, 4) == expected
    assert len(set(expected)) > 1
    assert not recwarn.list
