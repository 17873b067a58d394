"""The charts of lesson 10: lengths, merges, tokens, padding and batches."""

from collections.abc import Callable

import pytest

from course_lib.charts import (
    Picture,
    batch_tables,
    length_histograms,
    merge_steps,
    sentence_pieces,
)
from course_lib.charts.translation_data import JOINED, LETTER, NEW

TextsOf = Callable[[Picture], list[str]]
WORDS = ["hut", "gut"]
SPELLINGS = [
    [["h", "u", "t"], ["g", "u", "t"]],
    [["h", "ut"], ["g", "ut"]],
    [["hut"], ["g", "ut"]],
]
MERGES = [("u", "t"), ("h", "ut")]


def test_lengths_say_mean_and_longest(texts_of: TextsOf) -> None:
    chart = length_histograms({"words": [2, 4, 4, 6], "pieces": [8, 9]})
    texts = texts_of(chart)
    assert {"words", "mean 4.0, longest 6", "pieces", "mean 8.5, longest 9"} <= set(texts)
    assert texts.count("sentences") == 2  # the titles of the y axes
    assert chart.description == (
        "How many tokens does a sentence have? words: mean 4.0, longest 6; pieces: mean 8.5, longest 9."
    )


@pytest.mark.parametrize(
    ("start", "symbols", "line"),
    [
        (0, ["h", "u", "t", "g", "u", "t"], "no merge yet"),
        (1, ["h", "ut", "g", "ut"], "merge 1: u + t"),
        (2, ["hut", "g", "ut"], "merge 2: h + ut"),
    ],
)
def test_a_step_shows_its_symbols(texts_of: TextsOf, start: int, symbols: list[str], line: str) -> None:
    texts = texts_of(merge_steps(WORDS, SPELLINGS, MERGES, start=start))
    for symbol in set(symbols) - set(WORDS):
        assert texts.count(symbol) == symbols.count(symbol)
    assert line in texts
    assert f"{len(symbols)} symbols, repetitions included" in texts


def test_the_newest_symbol_has_a_colour_of_its_own() -> None:
    data = merge_steps(WORDS, SPELLINGS, MERGES).to_dict()["datasets"].values()
    boxes = next(rows for rows in data if rows and "symbol" in rows[0])
    kinds = {(box["step"], box["symbol"]): box["kind"] for box in boxes}
    assert kinds[1, "ut"] == NEW
    assert kinds[2, "ut"] == JOINED
    assert kinds[2, "hut"] == NEW
    assert kinds[2, "g"] == LETTER


def test_merges_are_told() -> None:
    told = str(merge_steps(WORDS, SPELLINGS, MERGES).description)
    assert "in this order: ut, hut. At the end: hut: hut; gut: g ut." in told


def test_a_start_after_the_last_merge_is_refused() -> None:
    with pytest.raises(ValueError, match="start: expected a step from 0 to 2, got 3"):
        merge_steps(WORDS, SPELLINGS, MERGES, start=3)


def test_pieces_are_counted_and_unknown_ones_marked(texts_of: TextsOf) -> None:
    cuts = {"words": [["ein"], ["Schneehut"]], "pieces": [["ein"], ["Schnee", "hut"]]}
    chart = sentence_pieces(cuts, unknown=["Schneehut"])
    texts = texts_of(chart)
    assert {"Schneehut ?", "Schnee", "hut", "2 tokens", "3 tokens"} <= set(texts)
    assert any("not in the vocabulary" in text for text in texts)
    assert str(chart.description).endswith("words: ein Schneehut; pieces: ein Schnee+hut.")


def test_pieces_are_adjacent_and_words_are_separated() -> None:
    data = sentence_pieces({"cut": [["a", "b"], ["c"]]}).to_dict()["datasets"].values()
    first, second, third = next(rows for rows in data if rows and "symbol" in rows[0])
    assert first["to"] == second["from"]
    assert second["to"] < third["from"]


def test_without_unknown_pieces_nothing_is_said_of_them(texts_of: TextsOf) -> None:
    assert not any("vocabulary" in text for text in texts_of(sentence_pieces({"cut": [["a"]]})))


def test_a_batch_says_its_tokens_and_its_padding(texts_of: TextsOf) -> None:
    rows = [["<start>", "ein", "Hund", "<end>"], ["<start>", "ja", "<end>", "<pad>"]]
    texts = texts_of(batch_tables({"source": rows}))
    assert {"ein", "Hund", "×", "source: 2 rows of 4 tokens, 12% of them padding"} <= set(texts)
    assert "<pad>" not in texts


def test_a_wide_batch_is_drawn_without_words(texts_of: TextsOf) -> None:
    texts = texts_of(batch_tables({"source": [["wort"] * 40, ["wort"] * 39 + ["<pad>"]]}))
    assert "wort" not in texts
