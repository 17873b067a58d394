from itertools import combinations, pairwise

import altair as alt
import numpy as np
import pytest

from course_lib.charts import as_svg
from course_lib.charts.architecture import CURRENT, FILLS, OPEN_FILLS, TO_COME
from course_lib.charts.theme import (
    ALARM_FILL,
    ALARM_INK,
    AMOUNTS,
    CATEGORIES,
    EQUAL_FILL,
    INK,
    MASKED_FILL,
    MASKED_INK,
    QUIET_INK,
    SIGNED,
    contrast,
    ink_on,
    luminance,
    on_ramp,
    red_green_blue,
)

READABLE = 4.5
"""The minimum contrast of text in WCAG 2.2 (level AA)."""

DISTINCT = 12
"""The minimum CIELAB distance between two lines in one picture. Closer colours are easily confused."""

# How colour-blind eyes see linear RGB: Machado, Oliveira and Fernandes (2009), severity 1.
SIGHTS = {
    "full": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def _lab(colour: str, sight: np.ndarray) -> np.ndarray:
    """Return an sRGB colour in CIELAB as a person with this kind of vision perceives it."""
    channels = np.array(red_green_blue(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    seen = np.clip(sight @ linear, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ seen / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def _distance(one: str, other: str, sight: np.ndarray) -> float:
    return float(np.linalg.norm(_lab(one, sight) - _lab(other, sight)))


@pytest.mark.parametrize("sight", SIGHTS)
def test_categories_differ_for_every_sight(sight: str) -> None:
    nearest = min(_distance(one, other, SIGHTS[sight]) for one, other in combinations(CATEGORIES, 2))
    assert nearest > DISTINCT


def test_the_rule_would_catch_red_and_green() -> None:
    assert _distance("#b05000", "#6b6b00", SIGHTS["full"]) > 2 * DISTINCT
    assert _distance("#b05000", "#6b6b00", SIGHTS["deuteranopia"]) < DISTINCT


@pytest.mark.parametrize("sight", SIGHTS)
def test_ends_of_the_signed_ramp_differ_for_every_sight(sight: str) -> None:
    for step in (0, 1, 2):
        assert _distance(SIGNED[step], SIGNED[-1 - step], SIGHTS[sight]) > 2 * DISTINCT


def test_ramps_read_in_grey() -> None:
    light = [luminance(colour) for colour in AMOUNTS]
    assert all(a > b for a, b in pairwise(light))
    negative, positive = [luminance(c) for c in SIGNED[:4]], [luminance(c) for c in SIGNED[3:]]
    assert all(a < b for a, b in pairwise(negative))
    assert all(a > b for a, b in pairwise(positive))


@pytest.mark.parametrize("ramp", [AMOUNTS, SIGNED])
def test_values_are_readable_on_every_shade(ramp: tuple[str, ...]) -> None:
    fills = [on_ramp(ramp, step / 200) for step in range(201)]
    assert min(contrast(fill, ink_on(fill)) for fill in fills) >= READABLE


def test_words_are_readable_on_their_grounds() -> None:
    pairs = [(INK, "#ffffff"), (QUIET_INK, "#ffffff"), (ALARM_INK, "#ffffff"), (ALARM_INK, ALARM_FILL)]
    pairs += [(MASKED_INK, MASKED_FILL), (QUIET_INK, EQUAL_FILL), (CATEGORIES[0], "#ffffff")]
    pairs += [
        (QUIET_INK if state == TO_COME else INK, fill)
        for fills in (FILLS, OPEN_FILLS)
        for state, fill in fills.items()
    ]
    assert CURRENT in FILLS
    assert {pair: contrast(*pair) for pair in pairs if contrast(*pair) < READABLE} == {}


@pytest.mark.parametrize("fraction", [0.0, 0.13, 0.5, 0.77, 1.0])
@pytest.mark.parametrize("ramp", [AMOUNTS, SIGNED])
def test_mixes_like_vega(ramp: tuple[str, ...], fraction: float) -> None:
    chart = (
        alt.Chart(alt.Data(values=[{"value": fraction}]))
        .mark_rect()
        .encode(fill=alt.Fill("value:Q", scale=alt.Scale(domain=[0, 1], range=list(ramp)), legend=None))
    )
    red, green, blue = (round(255 * channel) for channel in red_green_blue(on_ramp(ramp, fraction)))
    near = [
        f'fill="rgb({red + a}, {green + b}, {blue + c})"'
        for a in (-1, 0, 1)
        for b in (-1, 0, 1)
        for c in (-1, 0, 1)
    ]
    assert any(fill in as_svg(chart) for fill in near)


def test_contrast_of_black_and_white() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#777777") == pytest.approx(1)
