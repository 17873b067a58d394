"""The chart of lesson 07: learning-rate schedules."""

from collections.abc import Callable

import pandas as pd
import pytest

from course_lib.charts import Picture, schedule_curves

TextsOf = Callable[[Picture], list[str]]


def _table() -> pd.DataFrame:
    rows = [("short", step, 0.02 / max(step, 3)) for step in range(1, 9)]
    rows += [("long", step, 0.001 * step) for step in range(1, 9)]
    return pd.DataFrame(rows, columns=["schedule", "step", "rate"])


def test_each_schedule_is_named_and_its_peak_numbered(texts_of: TextsOf) -> None:
    texts = texts_of(schedule_curves(_table()))
    assert texts.count("short") == texts.count("long") == 1
    assert {"0.0067", "0.008"} <= set(texts)


def test_the_peaks_are_told() -> None:
    told = str(schedule_curves(_table(), title="Which of them is higher?").description)
    assert told == "Which of them is higher? Peaks: short: 0.0067 at step 1; long: 0.008 at step 8."


def test_rates_of_zero_can_be_drawn(texts_of: TextsOf) -> None:
    assert "short" in texts_of(schedule_curves(_table().assign(rate=0.0)))


def test_too_many_schedules_are_refused() -> None:
    table = _table()
    with pytest.raises(ValueError, match="table: expected 1 to 6 schedules, got 16"):
        schedule_curves(table.assign(schedule=table.index.astype(str)))
