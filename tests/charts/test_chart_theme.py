import re
from collections.abc import Callable

import altair as alt
import pytest
import torch
from altair.jupyter import JupyterChart

from course_lib.charts import (
    Picture,
    as_svg,
    as_table,
    attention_heatmap,
    found_beside_expected,
    heads_overview,
    show_offline,
)
from course_lib.charts.theme import FONT, NAME


def _heatmap() -> Picture:
    return attention_heatmap(torch.eye(3), list("abc"), list("abc"))


@pytest.mark.slow
@pytest.mark.usefixtures("altair_restored")
def test_show_offline_shows_a_widget_that_loads_nothing_from_outside() -> None:
    show_offline()
    bundle = _heatmap()._repr_mimebundle_()
    shown = bundle[0] if isinstance(bundle, tuple) else bundle
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert alt.theme.active == NAME
    script = str(JupyterChart._esm)
    assert len(script) > 500_000  # contains Vega itself
    assert not re.search(r'import[^;]{0,200}from\s*"https?:', script)


@pytest.mark.usefixtures("altair_restored")
def test_a_chart_may_have_more_values_than_altair_allows() -> None:
    words = [str(number) for number in range(30)]
    chart = heads_overview(torch.full((3, 2, 30, 30), 1 / 30), words, words)
    assert len(as_table(chart)) == 5_400
    show_offline()
    assert chart.to_dict()


def test_svg_does_not_change_the_theme_of_the_session() -> None:
    before = alt.theme.active
    as_svg(_heatmap())
    assert alt.theme.active == before


def test_svgs_on_one_page_share_no_id() -> None:
    differs = torch.ones(9, 9, dtype=torch.bool)
    first = as_svg(_heatmap())
    second = as_svg(found_beside_expected(torch.randn(9, 9), torch.randn(9, 9), differs))
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (first, second)]
    assert all(ids)
    assert not ids[0] & ids[1]
    for svg, own in zip((first, second), ids, strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)", svg)) <= own


def test_svg_names_the_font_once() -> None:
    assert as_svg(_heatmap()).count("font-family") == 1
    assert FONT in as_svg(_heatmap())


def test_svg_escapes_what_callers_write(texts_of: Callable[[Picture], list[str]]) -> None:
    word = '<b>"&'
    chart = attention_heatmap(torch.eye(2), [word, "b"], [word, "b"], title=f"Where does {word} look?")
    assert word in texts_of(chart)
    assert f"Where does {word} look?" in texts_of(chart)
    assert "<b>" not in as_svg(chart)


def test_pictures_stay_small_enough_for_feedback() -> None:
    differs = torch.ones(16, 16, dtype=torch.bool)
    largest = found_beside_expected(torch.randn(16, 16), torch.randn(16, 16), differs)
    assert len(as_svg(largest)) < 150_000
