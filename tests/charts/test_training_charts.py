"""The charts of lesson 09: the live display, and how much each token counts."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch

from course_lib.charts import Picture, live_progress, named_lines, token_counts

TextsOf = Callable[[Picture], list[str]]

COUNTS = {"over tokens": torch.ones(2, 3), "of means": torch.tensor([[0.75, 0.75, 0.75], [1.5, 1.5, 1.5]])}
REAL = torch.tensor([[True, True, True], [True, True, False]])


def _curve(losses: list[float]) -> Picture:
    table = pd.DataFrame({"line": f"loss: {losses[-1]:.2f}", "x": range(len(losses)), "y": losses})
    return named_lines(table, across="update", up="loss", title="A model learns")


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
    for step in live_progress(5, lambda: _curve(losses), every=2):
        steps.append(step)
        losses.append(1.0 / step)
    assert steps == [1, 2, 3, 4, 5]
    frames = _Display.shown
    assert [repr(frame) for frame in frames] == ["0 of 5", "2 of 5", "4 of 5", "5 of 5"]
    assert "<svg" not in frames[0]._repr_html_()
    for frame, number in zip(frames[1:], ("0.50", "0.25", "0.20"), strict=True):
        html = frame._repr_html_()
        assert f'value="{frame.done}" max="5"' in html
        assert f">loss: {number}<" in html


def test_where_there_is_no_notebook_a_line_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in live_progress(2, lambda: _curve([1.0])):
        pass
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["0 of 2", "2 of 2"]
    assert printed.err == ""


def test_a_loop_that_is_left_early_shows_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course_lib.charts.live.DisplayHandle", _Display)
    for step in live_progress(9, lambda: _curve([1.0]), every=1):
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
