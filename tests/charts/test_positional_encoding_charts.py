"""The charts of lesson 05: waves, a heat map and clocks."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from course_lib.charts import Picture, clock_hands, number_field, position_waves
from course_lib.transformer import sinusoids

TextsOf = Callable[[Picture], list[str]]


def _field(values: Any) -> Picture:
    return number_field(values, rows="position", columns="feature", title="What is where?")


@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (70, 70), (1, 5_000), (9, 512), (512, 9), (5_000, 1)])
def test_fields_of_many_shapes_fit_the_page(shape: tuple[int, int]) -> None:
    chart = _field(torch.rand(shape))
    assert chart.width <= 570
    assert chart.height <= 360


def test_waves_say_how_long_a_turn_takes(texts_of: TextsOf) -> None:
    chart = position_waves(sinusoids(20, 8), [0, 2])
    assert {"columns 0, 1", "a turn in 6.3 positions", "columns 4, 5", "a turn in 628 positions"} <= set(
        texts_of(chart)
    )
    assert "20 positions; columns 0 and 1: a full turn in 6.3 positions" in str(chart.description)


def test_a_constant_wave_is_drawn() -> None:
    assert "infinitely many positions" in str(
        position_waves(torch.ones(3, 2) * torch.tensor([0, 1]), [0]).description
    )


@pytest.mark.parametrize(
    ("table", "pairs", "message"),
    [
        (torch.zeros(1, 4), [0], r"^table: expected two or more positions, .* \(1, 4\)\."),
        (torch.full((3, 4), math.nan), [0], "^table: expected finite numbers"),
        (torch.zeros(3), [0], "^table: expected 2 axes"),
        (torch.zeros(3, 5), [2], r"^pairs: expected one or more numbers from 0 to 1, got \[2\]"),
        (torch.zeros(3, 4), [], r"^pairs: expected one or more numbers from 0 to 1, got \[\]"),
    ],
)
def test_waves_that_cannot_be_drawn(table: torch.Tensor, pairs: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        position_waves(table, pairs)


def test_a_field_tells_its_size_and_ends(texts_of: TextsOf) -> None:
    chart = _field(torch.tensor([[0.0, -2.0], [0.5, 1.0], [0.0, 0.0]]))
    assert {"position", "feature", "value"} <= set(texts_of(chart))
    told = "3 rows (position) by 2 columns (feature); value from -2 to 1."
    assert told in str(chart.description)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (torch.zeros(51, 100), "at most 5,000 numbers, got 5,100"),
        (torch.full((2, 2), math.inf), "finite numbers"),
        (torch.zeros(2), "expected 2 axes"),
    ],
)
def test_fields_that_cannot_be_drawn(values: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=f"^values: .*{message}"):
        _field(values)


def test_clocks_turn_by_the_same_angle_wherever_they_start(texts_of: TextsOf) -> None:
    for start in (0, 7):
        chart = clock_hands(sinusoids(20, 8), [0, 1], 3, start=start)
        assert {"turned by 172°", "turned by 17°", str(start), str(start + 3)} <= set(texts_of(chart))
        assert f"From position {start} to {start + 3}: columns 0 and 1 by 172 degrees" in str(
            chart.description
        )


@pytest.mark.parametrize(
    ("pairs", "offset", "start", "message"),
    [
        ([4], 1, 0, r"^pairs: expected 1 to 4 numbers from 0 to 3, got \[4\]"),
        ([], 1, 0, r"^pairs: .*got \[\]"),
        ([0, 1, 2, 3, 0], 1, 0, "^pairs: "),
        ([0], 0, 0, "^offset: expected 1 to 9, within the table, got 0"),
        ([0], 10, 0, "^offset: .*got 10"),
        ([0], 4, 6, r"^start: expected 0 to 5, so that start \+ offset is in the table, got 6"),
    ],
)
def test_clocks_that_cannot_be_drawn(pairs: list[int], offset: int, start: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        clock_hands(sinusoids(10, 8), pairs, offset, start=start)


def test_clocks_of_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^table: expected finite numbers"):
        clock_hands(torch.full((4, 2), math.nan), [0], 1)
