"""The charts of lesson 11: the tree of beam search, and decoding word by word."""

import math
from collections.abc import Callable

import pytest

from course_lib.charts import Picture, beam_tree, word_by_word

TextsOf = Callable[[Picture], list[str]]

BEGINNINGS = {
    ("a",): -0.5,
    ("the",): -0.9,
    ("a", "dog"): -1.4,
    ("the", "dog"): -1.0,
    ("the", "dog", "runs"): -1.3,
    ("a", "dog", "<end>"): -1.9,
    ("the", "dog", "runs", "<end>"): -1.5,
}
WINNER = ["the", "dog", "runs", "<end>"]
GREEDY = ["a", "dog", "sleeps", "<end>"]


def _tree(further: dict | None = None) -> Picture:
    return beam_tree(BEGINNINGS | (further or {}), WINNER, greedy=GREEDY)


def test_each_beginning_has_a_box_with_its_word_and_total(texts_of: TextsOf) -> None:
    texts = [" ".join(text.split()) for text in texts_of(_tree())]
    expected = {
        "a −0.50",
        "the −0.90",
        "dog −1.00",
        "dog −1.40",
        "runs −1.30",
        "<end> −1.90 ■",
        "<end> −1.50 ■",
    }
    assert expected <= set(texts)
    assert {"step 1", "step 4"} <= set(texts)
    assert not any(text.endswith("×") for text in texts)


def test_what_was_dropped_carries_a_cross(texts_of: TextsOf) -> None:
    texts = [" ".join(text.split()) for text in texts_of(_tree({("the", "cat"): -3.0}))]
    assert "cat −3.00 ×" in texts


def test_the_likeliest_prefix_of_a_step_is_on_the_left() -> None:
    chart = _tree()
    nodes = chart.layer[1].data
    assert nodes[nodes["step"] == 2].sort_values("column")["prefix"].tolist() == ["the dog", "a dog"]


def test_the_winner_is_told() -> None:
    told = str(_tree().description)
    assert "? Returned: the dog runs <end>, with a log-probability of -1.50." in told
    assert "7 prefixes in 4 steps, of which 0 were dropped" in told


def test_the_greedy_sentence_is_framed_as_far_as_the_beam_kept_it(texts_of: TextsOf) -> None:
    chart = _tree()
    nodes = chart.layer[1].data
    assert nodes.loc[nodes["greedy"], "prefix"].tolist() == ["a", "a dog"]
    assert any("which the beam kept for 2 of its 4 words" in text for text in texts_of(chart))
    assert "kept the sentence of greedy decoding to the end" in str(
        beam_tree(BEGINNINGS, WINNER, greedy=WINNER).description
    )


def test_a_sentence_may_be_cut_off_without_its_end() -> None:
    prefixes = {("go",): -1.0, ("go", "on"): -2.0, ("stop",): -1.5, ("stop", "<end>"): -1.6}
    chart = beam_tree(prefixes, ["go", "on"], greedy=GREEDY)
    nodes = chart.layer[1].data.set_index("prefix")["fate"]
    assert nodes["stop <end>"] == "ended"
    assert nodes["go"] == nodes["go on"] == "winner"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({("a", "cat", "runs"): -3.0}, "prefixes: 'a cat runs' extends 'a cat', which is missing"),
        ({("a", "cat"): 0.5}, "prefixes: expected finite log-probabilities .* got 0.5 for 'a cat'"),
        ({("a", "cat"): -math.inf}, "prefixes: expected finite log-probabilities .* got -inf"),
        ({("a", "cat"): math.nan}, "prefixes: expected finite log-probabilities .* got nan"),
        ({(letter,): -4.0 for letter in "bcdefgh"}, "prefixes: expected at most 8 in a step, got 9"),
    ],
)
def test_bad_beginnings(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        _tree(change)


def test_a_winner_that_was_not_kept() -> None:
    with pytest.raises(ValueError, match="winner: expected one of the prefixes, got 'a cat'"):
        beam_tree(BEGINNINGS, ["a", "cat"], greedy=GREEDY)


def test_a_hypothesis_that_ended_stays_in_the_beam(texts_of: TextsOf) -> None:
    kept = {("a", "dog", "<end>", "<end>"): -1.9, (*WINNER, "<end>"): -1.5}
    chart = _tree(kept)
    fates = chart.layer[1].data.set_index("prefix")["fate"]
    assert fates["a dog <end> <end>"] == "waiting"
    assert fates["the dog runs <end> <end>"] == "winner"
    assert "−1.90 ■" in [text.strip() for text in texts_of(chart)]


STEPS = [{"the": 0.7, "a": 0.2}, {"dog": 0.9, "cat": 0.05}]


def test_each_step_shows_its_candidates_and_where_it_looks(texts_of: TextsOf) -> None:
    chart = word_by_word(STEPS, ["the", "cat"], [("der", 0.8), ("Hund", 0.61)])
    assert {"the 0.70", "a 0.20", "dog 0.90", "cat 0.05", "der (0.80)", "Hund (0.61)"} <= set(texts_of(chart))
    assert "step 2: cat at 0.05, attending most to Hund (0.61)" in str(chart.description)


def test_each_step_needs_a_word() -> None:
    with pytest.raises(ValueError, match=r"written: expected 2 words, .* got 1"):
        word_by_word(STEPS, ["the"], [("der", 0.8), ("Hund", 0.61)])
