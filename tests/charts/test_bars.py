from collections.abc import Callable

import pandas as pd
import pytest

from course_lib.charts import Picture, named_bars

TextsOf = Callable[[Picture], list[str]]


def _parts() -> pd.DataFrame:
    rows = [
        ("base", "words", 56_869_000),
        ("base", "norm", 30_720),
        ("base", "feed-forward", 20_000_000),
        ("base", "feed-forward", 5_196_544),
        ("tied", "words", 18_981_000),
        ("tied", "feed-forward", 25_196_544),
    ]
    return pd.DataFrame(rows, columns=["panel", "bar", "size"])


def _plans() -> pd.DataFrame:
    rows = [("one rank", "weights", 4e9), ("one rank", "state", 8e9), ("four", "state", 3.0)]
    return pd.DataFrame(rows, columns=["bar", "kind", "size"])


def test_equal_names_are_added_up_and_shares_are_of_the_panel(texts_of: TextsOf) -> None:
    chart = named_bars(_parts(), title="Where are they?", across="parameters", shares=True)
    texts = texts_of(chart)
    assert {"base: 82.1M", "tied: 44.2M", "25.2M, 31%", "25.2M, 57%", "30.7k, under 1%"} <= set(texts)
    assert chart.description == (
        "Where are they? base: 82.1M. words: 56.9M, 69%; norm: 30.7k, under 1%; feed-forward: 25.2M, 31%. "
        "tied: 44.2M. words: 19M, 43%; feed-forward: 25.2M, 57%."
    )


@pytest.mark.parametrize("across", ["", "parameters"])
def test_panels_have_one_scale_if_they_share_an_axis(across: str, texts_of: TextsOf) -> None:
    chart = named_bars(_parts(), title="Where are they?", across=across)
    first, second = chart.to_dict()["vconcat" if across else "hconcat"]
    ends = [panel["layer"][0]["encoding"]["x"]["scale"]["domain"][1] for panel in (first, second)]
    assert ends == [56_869_000, 56_869_000 if across else 25_196_544]
    assert any("own scale" in text for text in texts_of(chart)) == (not across)


def test_parts_of_a_bar_show_their_size_if_it_fits(texts_of: TextsOf) -> None:
    texts = texts_of(named_bars(_plans(), title="How much memory?", across="bytes", unit="B"))
    assert {"4 GB", "8 GB", "12 GB", "weights", "state", "one rank", "four"} <= set(texts)
    assert texts.count("3 B") == 1  # at the end of the bar, but not in it


def test_a_note_replaces_the_size(texts_of: TextsOf) -> None:
    texts = texts_of(named_bars(_plans().assign(note="in 3 batches"), title="How much?", pale=["state"]))
    assert texts.count("in 3 batches") == 2
    assert "12G" not in texts


@pytest.mark.parametrize("size", [999, 999.6, 999_600, 0])
def test_sizes_have_three_digits(size: float, texts_of: TextsOf) -> None:
    shown = {999: "999", 999.6: "1k", 999_600: "1M", 0: "0"}[size]
    assert shown in texts_of(named_bars(pd.DataFrame({"bar": ["one"], "size": [size]}), title="How much?"))


def test_too_many_kinds_are_refused() -> None:
    table = pd.DataFrame({"bar": "one", "kind": list("abcdefgh"), "size": 1})
    with pytest.raises(ValueError, match="table: expected 1 to 7 kinds, got 8"):
        named_bars(table, title="How much?")
