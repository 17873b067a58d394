"""The charts of lesson 09: the learning curve, the live display, and how much each token counts."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from course_lib.charts import Picture, learning_curve, live_progress, token_counts

TextsOf = Callable[[Picture], list[str]]

COUNTS = {"over tokens": torch.ones(2, 3), "of means": torch.tensor([[0.75, 0.75, 0.75], [1.5, 1.5, 1.5]])}
REAL = torch.tensor([[True, True, True], [True, True, False]])


def test_the_curve_says_where_it_is(texts_of: TextsOf) -> None:
    texts = texts_of(learning_curve([2.5, 1.75, 1.25], 40, levels={"lowest": 0.5}))
    assert {"1.25", "lowest: 0.50", "The number is the loss of update 3."} <= set(texts)


def test_the_axis_is_fixed_while_the_curve_grows(texts_of: TextsOf) -> None:
    ticks = [
        {text for text in texts_of(learning_curve(losses, 40)) if text.isdigit()}
        for losses in ([2.0], [2.0, 1.0, 0.5])
    ]
    assert ticks[0] == ticks[1]
    assert "40" in ticks[0]


def test_the_curve_is_told() -> None:
    chart = learning_curve([2.5, 1.0], 9, levels={"lowest": 0.5}, title="It learns")
    assert chart.description == "It learns. From 2.50 at update 1 to 1.00 at update 2; lowest: 0.50."


@pytest.mark.parametrize("loss", [math.nan, math.inf, -1.0])
def test_bad_losses(loss: float) -> None:
    with pytest.raises(ValueError, match=f"losses: expected finite, non-negative numbers, got {loss}"):
        learning_curve([1.0, loss], 3)


class _Display:
    """A replacement for the notebook's display that records everything it is given to show."""

    shown: list[Any]

    def __init__(self) -> None:
        type(self).shown = []

    def display(self, frame: Any) -> None:
        self.shown.append(frame)

    def update(self, frame: Any) -> None:
        self.shown.append(frame)


def test_the_bar_and_the_picture_move_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course_lib.charts.live.DisplayHandle", _Display)
    losses: list[float] = []
    steps = []
    for step in live_progress(5, lambda: learning_curve(losses, 5), every=2):
        steps.append(step)
        losses.append(1.0 / step)
    assert steps == [1, 2, 3, 4, 5]
    frames = _Display.shown
    assert [repr(frame) for frame in frames] == ["0 of 5", "2 of 5", "4 of 5", "5 of 5"]
    assert "<svg" not in frames[0]._repr_html_()
    for frame, number in zip(frames[1:], ("0.50", "0.25", "0.20"), strict=True):
        html = frame._repr_html_()
        assert f'value="{frame.done}" max="5"' in html
        assert f">{number}<" in html


def test_where_there_is_no_notebook_a_line_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in live_progress(2, lambda: learning_curve([1.0], 2)):
        pass
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["0 of 2", "2 of 2"]
    assert printed.err == ""


def test_a_loop_that_is_left_early_shows_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course_lib.charts.live.DisplayHandle", _Display)
    for step in live_progress(9, lambda: learning_curve([1.0], 9), every=1):
        if step == 3:
            break
    assert repr(_Display.shown[-1]) == "2 of 9"


def test_each_token_says_what_it_counts(texts_of: TextsOf) -> None:
    texts = texts_of(token_counts(COUNTS, REAL, ["long", "short"]))
    assert texts.count("1") >= 5
    assert texts.count("0.8") == 3
    assert texts.count("1.5") >= 2
    assert texts.count("×") == 2
    assert {"over tokens", "of means", "long", "short"} <= set(texts)


def test_padding_is_only_explained_where_there_is_some(texts_of: TextsOf) -> None:
    texts = texts_of(token_counts(COUNTS, torch.ones(2, 3, dtype=torch.bool), ["a", "b"]))
    assert not any("padding" in text for text in texts)


def test_what_tokens_count_is_told() -> None:
    told = str(token_counts(COUNTS, REAL, ["long", "short"]).description)
    assert "of means: a token of long 0.75, short 1.50." in told


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"one": torch.ones(3)}, "one: expected 2 axes"),
        ({"one": torch.ones(3, 3)}, "mask: expected a shape that broadcasts"),
    ],
)
def test_bad_counts(counts: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        token_counts(counts, REAL, ["long", "short"])
