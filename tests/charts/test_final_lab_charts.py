"""The charts of the final lab: a run's metrics, live, and the attention of any layer and head."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from course_lib.charts import Picture, layers_and_heads, run_progress, watch_live
from course_lib.charts.live import Frame, _drawn

pytestmark = pytest.mark.slow

TextsOf = Callable[..., list[str]]

KEYS = ["<start>", "ein", "Hund", "schläft", "<end>"]
QUERIES = ["<start>", "a", 'dog"s', "it's"]


def maps() -> torch.Tensor:
    scores = 2 * torch.randn(3, 2, 4, 5, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return torch.softmax(scores, dim=-1)


def weights_in(texts: list[str]) -> list[str]:
    return [text for text in texts if len(text) == 4 and text.startswith(("0.", "1."))]


def written(table: torch.Tensor) -> list[str]:
    return [f"{weight:.2f}" for weight in table.flatten().tolist() if weight >= 0.005]


@pytest.mark.parametrize(("layer", "head"), [(1, 2), (2, 2), (3, 1)])
def test_the_chosen_layer_and_head_are_shown(layer: int, head: int, texts_of: TextsOf) -> None:
    texts = texts_of(layers_and_heads(maps(), QUERIES, KEYS), chosen=[{"layer": layer, "head": head}])
    assert weights_in(texts) == written(maps()[layer - 1, head - 1])


def test_head_zero_is_the_mean(texts_of: TextsOf) -> None:
    texts = texts_of(layers_and_heads(maps(), QUERIES, KEYS), chosen=[{"layer": 2, "head": 0}])
    assert weights_in(texts) == written(maps()[1].mean(dim=0))


def test_the_most_focused_head_is_shown_first(texts_of: TextsOf) -> None:
    sharp = maps()
    sharp[1, 1] = torch.eye(5)[:4]
    assert weights_in(texts_of(layers_and_heads(sharp, QUERIES, KEYS))) == ["1.00"] * 4
    assert "Largest weights of layer 2, head 2" in str(layers_and_heads(sharp, QUERIES, KEYS).description)


def test_words_of_all_kinds_are_next_to_the_cells(texts_of: TextsOf) -> None:
    texts = texts_of(layers_and_heads(maps(), QUERIES, KEYS))
    assert {*QUERIES, *KEYS} <= set(texts)


def test_words_with_characters_that_python_escapes_are_written_as_in_javascript() -> None:
    spec = layers_and_heads(maps(), QUERIES, ["<start>", "\U000f0000", "Hund", "schläft", "<end>"]).to_dict()
    [key] = [
        step["calculate"] for step in spec["vconcat"][0]["layer"][0]["transform"] if step.get("as") == "key"
    ]
    words = json.loads(key.removesuffix("[datum.column]"))
    assert words[1] == "\U000f0000"


def test_a_subword_that_is_a_single_space_can_be_seen(texts_of: TextsOf) -> None:
    assert "(space)" in texts_of(
        layers_and_heads(maps(), QUERIES, ["<start>", " ", "Hund", "schläft", "<end>"])
    )


def test_a_model_of_the_papers_size_is_small_enough_for_a_notebook() -> None:
    weights = torch.softmax(torch.randn(6, 8, 40, 40), dim=-1)
    chart = layers_and_heads(weights, ["word"] * 40, ["Wort"] * 40)
    assert len(str(chart.to_dict())) < 1_500_000


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.full((2, 2, 3, 3), 1.5), "expected numbers from 0 to 1"),
        (torch.full((2, 3, 3), 0.3), "weights: expected 4 axes"),
        (torch.full((2, 2, 2, 3), 0.3), "queries: expected 2 words"),
    ],
)
def test_bad_attention(weights: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layers_and_heads(weights, ["a", "b", "c"], ["d", "e", "f"])


ROWS: list[dict[str, Any]] = [
    {"step": 50, "epoch": 1, "loss": 6.25, "lr": 1e-4, "tokens_per_second": 4000.0, "padded": 0.125},
    {"step": 100, "epoch": 1, "loss": 3.5, "lr": 2e-4, "tokens_per_second": 5000.0, "padded": 0.25},
    {"step": 100, "epoch": 1, "validation_loss": 4.125, "bleu": 12.0},
    {"step": 100, "epoch": 1, "test_bleu": 11.0, "signature": "nrefs:1"},
]


def test_the_newest_numbers_are_written_in_the_panels(texts_of: TextsOf) -> None:
    texts = texts_of(run_progress(ROWS))
    assert {"3.500", "0.0002", "5,000", "25.0%", "12.0"} <= set(texts)
    assert "After update 100. Blue line: training. Vermilion dots: validation." in texts


def test_curves_are_told_in_words() -> None:
    told = str(run_progress(ROWS).description)
    assert "loss (training): 6.25 to 3.5" in told
    assert "loss (validation): 4.12 to 4.12" in told


def test_bleu_has_a_panel_only_if_it_was_measured(texts_of: TextsOf) -> None:
    title = "BLEU on the validation split"
    assert title in texts_of(run_progress(ROWS))
    assert title not in texts_of(run_progress(ROWS[:2]))


@pytest.mark.parametrize("rows", [[], [{"step": 1, "loss": math.nan}]])
def test_before_the_first_number_one_line_says_so(rows: list[dict[str, Any]], texts_of: TextsOf) -> None:
    chart = run_progress(rows, title="The run in runs/mine")
    assert texts_of(chart) == ["No metrics have been written yet.", "The run in runs/mine"]
    assert chart.description == "The run in runs/mine. No metrics have been written yet."


def test_a_panel_without_a_number_is_empty(texts_of: TextsOf) -> None:
    texts = texts_of(run_progress([{"step": 10, "loss": 5.0}]))
    assert {"Learning rate", "Target tokens per second"} <= set(texts)


def test_numbers_that_are_none_are_left_out(texts_of: TextsOf) -> None:
    broken = {"step": 150, "loss": math.nan, "lr": None, "tokens_per_second": math.inf, "padded": "much"}
    assert "3.500" in texts_of(run_progress([*ROWS, broken]))


def test_a_run_is_drawn_until_it_has_ended(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = []
    drawn: list[int] = []

    def picture() -> Picture:
        drawn.append(len(rows))
        return run_progress(rows)

    def is_running() -> bool:
        rows.extend(ROWS[len(rows) : len(rows) + 1])
        return len(rows) < 3

    watch_live(picture, is_running, status=lambda: f"{len(rows)} rows", every=0.0)
    assert drawn == [1, 2, 3]
    assert capsys.readouterr().out.splitlines()[-1] == "3 rows"


def test_where_nothing_can_be_drawn_the_line_still_changes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(chart: Picture) -> str:
        raise RuntimeError("drawing needs more address space")

    monkeypatch.setattr("course_lib.charts.live.as_svg", refuse)
    lines = iter(["", "epoch 1", "epoch 1", "epoch 2"])
    asked = iter([True, True, False])
    watch_live(lambda: run_progress(ROWS), lambda: next(asked), status=lambda: next(lines), every=0.0)
    assert capsys.readouterr().out.split() == ["epoch", "1", "epoch", "2"]
    assert "<p>drawing needs more address space</p>" in Frame("", _drawn(run_progress(ROWS)))._repr_html_()


def test_the_stop_button_ends_the_watching(capsys: pytest.CaptureFixture[str]) -> None:
    asked = iter([True, True])

    def is_running() -> bool:
        try:
            return next(asked)
        except StopIteration:
            raise KeyboardInterrupt from None

    watch_live(lambda: run_progress(ROWS), is_running, status=lambda: "at work", every=0.0)
    assert "at work (no longer watched)" in capsys.readouterr().out


def test_the_mean_of_heads_keeps_rows_that_sum_to_one() -> None:
    chart = layers_and_heads(maps(), QUERIES, KEYS)
    table = next(iter(chart.to_dict()["datasets"].values()))
    assert [(row["layer"], row["head"]) for row in table] == [(n, h) for n in (1, 2, 3) for h in (0, 1, 2)]
    for row in table:
        np.testing.assert_allclose(np.reshape(row["weight"], (4, 5)).sum(axis=1), 1, atol=1e-3)
