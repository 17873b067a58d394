"""The interactive charts: what the browser computes, and how it reacts to clicks and sliders."""

import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from course_lib.charts import Picture, attention_over_sentence, layers_and_heads, softmax_temperature

pytestmark = pytest.mark.browser

if TYPE_CHECKING:
    from playwright.sync_api import Page

TextsOf = Callable[..., list[str]]

WORDS = ["the", "cat", "saw", "the", "dog"]
SCORES = torch.tensor([1.5, -0.5, 0.25, 2.0, 0.0], dtype=torch.float64)


def _weights() -> torch.Tensor:
    return torch.softmax(3 * torch.randn(5, 5, generator=torch.Generator().manual_seed(3)), dim=-1)


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 4.0, 8.0])
def test_slider_computes_softmax_and_its_gradient(factor: float, texts_of: TextsOf) -> None:
    weights = torch.softmax(factor * SCORES, dim=0)
    jacobian = torch.autograd.functional.jacobian(
        lambda scores: torch.softmax(scores, dim=0), factor * SCORES
    )
    texts = Counter(texts_of(softmax_temperature(SCORES, WORDS), score_factor=factor))
    for text, count in Counter(f"{weight:.2f}" for weight in weights.tolist()).items():
        assert texts[text] >= count
    assert texts[f"{float(jacobian.norm()):.3f}"] == 1


@pytest.mark.parametrize("size", [1e3, 1e-3])
def test_slider_copes_with_huge_and_tiny_scores(size: float, texts_of: TextsOf) -> None:
    texts = texts_of(softmax_temperature(size * SCORES, WORDS), score_factor=8)
    assert not any("NaN" in text or "nan" in text for text in texts)
    assert ("1.00" if size > 1 else "0.20") in texts


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (torch.tensor([1.0, -math.inf]), "expected finite numbers"),
        (torch.zeros(2, 2), "scores: expected 1 axes"),
        (torch.zeros(3), "keys: expected 3 words"),
    ],
)
def test_bad_slider(scores: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        softmax_temperature(scores, ["a", "dog"])


@pytest.mark.parametrize("query", range(5))
def test_sentence_shows_the_chosen_querys_weights(query: int, texts_of: TextsOf) -> None:
    expected = Counter(f"{weight:.2f}" for weight in _weights()[query].tolist())
    for texts in (
        texts_of(attention_over_sentence(_weights(), WORDS, WORDS, start=query)),
        texts_of(attention_over_sentence(_weights(), WORDS, WORDS), chosen_query=[{"query": query}]),
    ):
        written = Counter(text for text in texts if text.startswith(("0.", "1.0")) and len(text) == 4)
        assert written == expected


def test_keys_and_queries_can_be_different_words(texts_of: TextsOf) -> None:
    texts = texts_of(
        attention_over_sentence(torch.full((2, 3), 1 / 3), ["das", "Tier"], ["the", "animal", "."])
    )
    assert {"das", "Tier", "the", "animal", "."} <= set(texts)
    assert texts.count("0.33") == 3


@pytest.mark.parametrize(
    ("weights", "start", "message"),
    [
        (torch.full((5, 5), 1.5), 0, "expected numbers from 0 to 1"),
        (torch.full((5, 5), math.nan), 0, "expected numbers from 0 to 1"),
        (torch.full((5, 5), -0.1), 0, "expected numbers from 0 to 1"),
        (torch.full((5, 5), 0.2), 5, "start: expected a query from 0 to 4, got 5"),
        (torch.full((4, 5), 0.2), 0, "queries: expected 4 words"),
        (torch.full((1, 5, 5), 0.2), 0, "weights: expected 2 axes"),
    ],
)
def test_bad_sentences(weights: torch.Tensor, start: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attention_over_sentence(weights, WORDS, WORDS, start=start)


@pytest.fixture(scope="module")
def page() -> Iterator["Page"]:
    """A page in Chromium without internet access."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = browser.new_context(offline=True)
        context.set_default_timeout(120_000)  # two busy cores are slow
        yield context.new_page()
        browser.close()


def _open(page: "Page", chart: Picture, folder: Path) -> None:
    file = folder / "picture.html"
    chart.save(str(file), format="html", inline=True, embed_options={"renderer": "svg"})
    page.goto(file.as_uri())
    page.wait_for_selector("svg.marks")


def _wait_for(page: "Page", words: list[str]) -> None:
    """Wait until the picture shows all these texts, each at least as often as it occurs in the list."""
    page.wait_for_function(
        """words => {
            const shown = Array.from(document.querySelectorAll("svg.marks text"), node => node.textContent);
            const count = (list, word) => list.filter(other => other === word).length;
            return words.every(word => count(shown, word) >= count(words, word));
        }""",
        arg=words,
    )


def test_a_click_on_a_word_and_the_list_choose_the_query(page: "Page", tmp_path: Path) -> None:
    rows = [[f"{weight:.2f}" for weight in row] for row in _weights().tolist()]
    _open(page, attention_over_sentence(_weights(), WORDS, WORDS, start=0), tmp_path)
    _wait_for(page, rows[0])
    page.locator("svg.marks text", has_text="saw").last.click()  # the queries are drawn after the keys
    _wait_for(page, rows[2])
    assert page.locator("select").input_value() == "2"
    page.locator("select").select_option("4")
    _wait_for(page, rows[4])


def test_the_lists_choose_a_layer_and_a_head(page: "Page", tmp_path: Path) -> None:
    maps = torch.softmax(torch.randn(2, 2, 2, 3, generator=torch.Generator().manual_seed(1)), dim=-1)
    _open(page, layers_and_heads(maps, ["a", "dog"], ["ein", "Hund", "."]), tmp_path)
    lists = page.locator("select")
    chosen = (("2", "1", maps[1, 0]), ("2", "2", maps[1, 1]), ("1", "mean of all", maps[0].mean(dim=0)))
    for layer, head, shown in chosen:
        lists.nth(0).select_option(label=layer)
        lists.nth(1).select_option(label=head)
        _wait_for(page, [f"{weight:.2f}" for weight in shown.flatten().tolist()])


def test_the_slider_moves_the_bars(page: "Page", tmp_path: Path) -> None:
    _open(page, softmax_temperature(SCORES, WORDS), tmp_path)
    page.locator("input[type=range]").fill("0")
    _wait_for(page, ["0.20"] * 5)
