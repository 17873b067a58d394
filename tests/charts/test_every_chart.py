"""Tests of every chart in the course. New charts must be added to EXAMPLES, or to TABLES."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, get_type_hints
from xml.etree import ElementTree

import altair as alt
import pandas as pd
import pytest
import torch

from course_lib import charts
from course_lib.charts import Picture, as_svg, as_table
from course_lib.charts.theme import NAME

WORDS = ["the", "animal", "crossed", "the", "street"]
MAX_WIDTH = 760


def _weights(*shape: int) -> torch.Tensor:
    return torch.softmax(torch.randn(shape, generator=torch.Generator().manual_seed(0)), dim=-1)


def _hands() -> torch.Tensor:
    """Return two clock hands, one slower than the other: a sine and a cosine for each."""
    angle = torch.arange(12.0).unsqueeze(1) * torch.tensor([1.0, 0.3])
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


TABLES: dict[str, tuple[Callable[[pd.DataFrame], Picture], pd.DataFrame]] = {
    "calibration_curves": (
        charts.calibration_curves,
        pd.DataFrame({"model": "plain", "confidence": [0.8] * 30, "right": [True, False, True] * 10}),
    ),
    "communication_timeline": (
        charts.communication_timeline,
        pd.DataFrame(
            {
                "plan": "buckets",
                "row": ["backward", "network"],
                "name": ["layer 1", "bucket 1"],
                "start": [0.0, 1.0],
                "end": [1.0, 3.0],
            }
        ),
    ),
    "layer_costs": (
        partial(charts.layer_costs, {"network": 2, "attention": 1}),
        pd.DataFrame(
            {
                "length": [2, 8, 2, 8],
                "part": ["network", "network", "mean", "mean"],
                "multiplications": [3, 3, 2, 8],
            }
        ),
    ),
    "named_bars": (
        partial(charts.named_bars, title="How large are the parts?", across="bytes", unit="B", shares=True),
        pd.DataFrame({"panel": "base", "bar": "words", "kind": ["table", "state"], "size": [5_000_000, 900]}),
    ),
    "named_lines": (
        partial(charts.named_lines, across="depth", up="size", title="How a size goes with depth"),
        pd.DataFrame(
            {"line": ["one", "one", "other", "other"], "x": [0, 1, 0, 1], "y": [1.0, 2.0, 1.0, 1.5]}
        ),
    ),
    "softmax_saturation": (
        charts.softmax_saturation,
        pd.DataFrame(
            {
                "d_k": [1, 16, 256] * 2,
                "divided": [True] * 3 + [False] * 3,
                "largest_weight": [0.3, 0.29, 0.28, 0.5, 0.9, 0.99],
                "gradient": [0.3, 0.3, 0.3, 0.3, 0.02, 0.001],
            }
        ),
    ),
}
"""The charts that are drawn from a table: each function, with an example table."""

EXAMPLES: dict[str, Callable[[], Picture]] = {
    "architecture_map": lambda: charts.architecture_map(["attention_scores"], current="attention_weights"),
    "attention_heatmap": lambda: charts.attention_heatmap(_weights(5, 5), WORDS, WORDS),
    "attention_over_sentence": lambda: charts.attention_over_sentence(_weights(5, 5), WORDS, WORDS),
    "attention_steps": lambda: charts.attention_steps(
        torch.eye(2), torch.eye(2), torch.ones(2, 3), WORDS[:2], WORDS[:2]
    ),
    "aligned_shapes": lambda: charts.aligned_shapes({"scores": (2, 8, 5, 5), "mask": (2, 1, 1, 5)}),
    "broadcast_tables": lambda: charts.broadcast_tables([[1], [2]], [3, 4], [[3, 4], [6, 8]]),
    "batch_tables": lambda: charts.batch_tables({"source": [WORDS, [*WORDS[:3], "<pad>", "<pad>"]]}),
    "beam_tree": lambda: charts.beam_tree(
        {("the",): -0.5, ("a",): -1.0, ("the", "dog"): -1.5, ("the", "dog", "</s>"): -1.6},
        ["the", "dog", "</s>"],
        greedy=["the", "cat", "</s>"],
    ),
    "clock_hands": lambda: charts.clock_hands(_hands(), [0, 1], 2),
    "features_in_heads": lambda: charts.features_in_heads({"cut": torch.arange(12).view(2, 3, 2)}, WORDS[:3]),
    "heads_overview": lambda: charts.heads_overview(_weights(2, 3, 4, 5), WORDS[:4], WORDS),
    "found_beside_expected": lambda: charts.found_beside_expected(
        _weights(16, 16), _weights(16, 16).T, _weights(16, 16) != _weights(16, 16).T
    ),
    "decoding_steps": lambda: charts.decoding_steps(_weights(4, 5), WORDS, [1, 0, 2, 4]),
    "leak_probe": lambda: charts.leak_probe({"right": [0, 0, 0.5], "none": [0.1, 0.2, 0.5]}, WORDS[:3], 2),
    "mask_panels": lambda: charts.mask_panels({"padding": torch.tensor([[True, True, False]])}, WORDS[:3]),
    "mask_effect": lambda: charts.mask_effect(
        torch.randn(5, 5), torch.ones(5, 5, dtype=torch.bool), _weights(5, 5)
    ),
    "position_waves": lambda: charts.position_waves(_hands(), [0, 1]),
    "layers_and_heads": lambda: charts.layers_and_heads(
        _weights(2, 3, 4, 5), WORDS[:4], WORDS, title="Where does each word look?"
    ),
    "length_histograms": lambda: charts.length_histograms({"words": [3, 4, 4, 9], "subwords": [6, 8]}),
    "merge_steps": lambda: charts.merge_steps(
        ["hut"], [[["h", "u", "t"]], [["h", "ut"]], [["hut"]]], [("u", "t"), ("h", "ut")]
    ),
    "normalisation_effect": lambda: charts.normalisation_effect(
        5 * torch.randn(5, 16), torch.randn(5, 16), WORDS
    ),
    "number_field": lambda: charts.number_field(
        torch.randn(20, 30), rows="position", columns="column", title="What is in the table?"
    ),
    "run_progress": lambda: charts.run_progress(
        [
            {"step": 10, "loss": 5.0, "lr": 1e-4, "tokens_per_second": 4000.0, "padded": 0.1},
            {"step": 20, "loss": 4.0, "lr": 2e-4, "tokens_per_second": 4100.0, "padded": 0.0},
            {"step": 20, "validation_loss": 3.5},
        ]
    ),
    "score_spread": lambda: charts.score_spread({1: torch.arange(9.0), 64: 8 * torch.arange(9.0)}),
    "sentence_pieces": lambda: charts.sentence_pieces(
        {"words": [[word] for word in WORDS], "pieces": [["the"], ["ani", "mal"]]}, unknown=["animal"]
    ),
    "shape_flow": lambda: charts.shape_flow(
        [("tokens", (2, 5)), ("memory", (2, 5, 8))],
        [("tokens", (2, 4)), ("cross-attention", (2, 4, 8)), ("logits", (2, 4, 30))],
        memory_to=["cross-attention"],
    ),
    "softmax_temperature": lambda: charts.softmax_temperature(torch.randn(5), WORDS),
    "target_distributions": lambda: charts.target_distributions(_weights(3, 5), WORDS[:3], WORDS),
    "token_counts": lambda: charts.token_counts(
        {"a mean": torch.ones(2, 3)}, torch.tensor([[True] * 3, [True, False, False]]), ["long", "short"]
    ),
    "word_by_word": lambda: charts.word_by_word(
        [{"the": 0.7, "a": 0.2}, {"dog": 0.9}], ["the", "dog"], [("der", 0.8), ("Hund", 0.9)]
    ),
    **{name: partial(draw, table) for name, (draw, table) in TABLES.items()},
}


def _chart_functions() -> Iterator[str]:
    for module_info in pkgutil.iter_modules(charts.__path__):
        module = importlib.import_module(f"course_lib.charts.{module_info.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            own = function.__module__ == module.__name__ and not name.startswith("_")
            if own and get_type_hints(function).get("return") == Picture:
                yield name


def _themed(chart: Picture) -> dict[str, Any]:
    with alt.theme.enable(NAME):
        return chart.to_dict()


def _find(spec: Any, key: str) -> Iterator[Any]:
    if isinstance(spec, dict):
        for name, value in spec.items():
            if name == key:
                yield value
            yield from _find(value, key)
    elif isinstance(spec, list):
        for value in spec:
            yield from _find(value, key)


@cache
def example(name: str) -> Picture:
    """Draw a function's example, which all tests share and must not change."""
    return EXAMPLES[name]()


@cache
def svg(name: str) -> str:
    """Render a function's example as SVG. It is cached, because rendering takes most of these tests' time."""
    return as_svg(example(name))


def test_every_chart_function_is_public_and_has_an_example() -> None:
    found = set(_chart_functions())
    assert found == set(EXAMPLES)
    assert found <= vars(charts).keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_valid_with_title_description_and_tooltips(name: str) -> None:
    spec = _themed(example(name))  # to_dict validates against the Vega-Lite schema
    assert len(spec["title"]["text"]) > 15
    assert len(spec["description"]) > len(spec["title"]["text"])
    assert any(_find(spec, "tooltip"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_asks_nobody_for_data(name: str) -> None:
    spec = _themed(example(name))
    spec.pop("$schema")
    assert "http" not in str(spec)
    assert not list(_find(spec, "url"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_draws_in_the_width_of_a_notebook(name: str) -> None:
    root = ElementTree.fromstring(svg(name))
    assert 200 < float(root.attrib["width"]) <= MAX_WIDTH


@pytest.mark.parametrize("name", EXAMPLES)
def test_says_its_description_in_the_svg(name: str) -> None:
    chart = example(name)
    root = ElementTree.fromstring(svg(name))
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == chart.description
    nameless = [
        part for part in root.iter() if part.get("role") == "graphics-symbol" and not part.get("aria-label")
    ]
    assert nameless == []


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.nightly
def test_can_be_rebuilt_from_its_specification(name: str) -> None:
    """The documentation rebuilds a chart from its specification before it draws it."""
    spec = example(name).to_dict()
    assert alt.Chart.from_dict(spec).to_dict() == spec


@pytest.mark.parametrize("name", TABLES)
def test_a_table_stays_as_it_was(name: str) -> None:
    draw, table = TABLES[name]
    before = table.copy()
    draw(table)
    pd.testing.assert_frame_equal(table, before)


@pytest.mark.parametrize("name", EXAMPLES)
def test_is_available_as_a_table(name: str) -> None:
    table = as_table(example(name))
    assert len(table.columns) >= 2
    assert len(table) >= 1


def test_the_table_has_the_values_of_the_chart() -> None:
    weights = torch.tensor([[0.25, 0.75], [1.0, 0.0]])
    table = as_table(charts.attention_heatmap(weights, ["a", "b"], ["c", "d"]))
    assert [str(value) for value in table.iloc[:, -1]] == ["0.25", "0.75", "1", "0"]
    assert list(table.iloc[:, 0]) == ["a", "a", "b", "b"]
    assert list(table.iloc[:, 1]) == ["c", "d", "c", "d"]


def test_a_chart_without_tooltips_has_no_table() -> None:
    with pytest.raises(ValueError, match="no values with tooltips"):
        as_table(alt.Chart(pd.DataFrame({"x": [1]})).mark_point())


def table(**columns: object) -> pd.DataFrame:
    return pd.DataFrame(columns)


NAN = float("nan")


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: charts.named_bars(table(bar=["all", "all"], size=[9, -2]), title="How large?"),
            "expected sizes of 0 or more, got size -2 in row 1",
        ),
        (
            lambda: charts.calibration_curves(table(model=["a"], confidence=[NAN], right=[True])),
            "expected finite confidences, got confidence nan in row 0",
        ),
        (
            lambda: charts.softmax_saturation(
                table(d_k=[2], divided=[True], largest_weight=[NAN], gradient=[0.1])
            ),
            "expected finite numbers, got largest_weight nan in row 0",
        ),
        (lambda: charts.decoding_steps([[NAN, 0.5]], ["a", "b"], [0]), "probabilities: expected finite"),
        (lambda: charts.decoding_steps([[3.0, 0.5]], ["a", "b"], [0]), "Apply softmax to the logits first"),
        (lambda: charts.merge_steps(["a"], [[["a"]]], []), "merges: expected at least one"),
        (lambda: charts.sentence_pieces({"words": []}), "at least one token"),
        (lambda: charts.length_histograms({str(n): [1] for n in range(7)}), "expected 1 to 6 names, got 7"),
        (
            lambda: charts.word_by_word([dict.fromkeys("abcdef", 0.1)], ["a"], [("b", 0.5)]),
            "expected 1 to 5 words at each step, got 6",
        ),
        (
            lambda: charts.layer_costs(
                dict.fromkeys("abcde", 1), table(length=[1], part=["a"], multiplications=[2])
            ),
            "expected 1 to 4 parts, got 5",
        ),
    ],
)
def test_numbers_that_a_students_code_can_cause_are_refused(draw: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()
