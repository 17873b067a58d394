"""The charts of lesson 12 refuse tables that they can't draw, and say why."""

import pandas as pd
import pytest

from course_lib.charts import communication_timeline, memory_per_rank


def work(plans: int, rows: int) -> pd.DataFrame:
    return pd.DataFrame(
        {"plan": f"plan {plan}", "row": f"row {row}", "name": "work", "start": float(row), "end": row + 1.0}
        for plan in range(plans)
        for row in range(rows)
    )


@pytest.mark.parametrize(
    ("plans", "rows", "message"),
    [
        (5, 2, "table: expected 1 to 4 plans, got 5"),
        (1, 4, "table: expected 1 to 3 different rows, got 4"),
        (1, 8, "table: expected 1 to 3 different rows, got 8"),
    ],
)
def test_a_timeline_with_too_many_plans_or_rows_is_refused(plans: int, rows: int, message: str) -> None:
    communication_timeline(work(4, 3))
    with pytest.raises(ValueError, match=message):
        communication_timeline(work(plans, rows))


@pytest.mark.parametrize(("plans", "kinds", "what"), [(9, 1, "8 plans, got 9"), (1, 5, "4 kinds, got 5")])
def test_memory_with_too_many_plans_or_kinds_is_refused(plans: int, kinds: int, what: str) -> None:
    table = pd.DataFrame(
        {"plan": f"plan {plan}", "kind": f"kind {kind}", "gigabytes": 1.0}
        for plan in range(plans)
        for kind in range(kinds)
    )
    with pytest.raises(ValueError, match=f"table: expected 1 to {what}"):
        memory_per_rank(table)
