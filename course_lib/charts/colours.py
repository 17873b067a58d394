"""The colours of all pictures, and which ink is readable on them.

Categories are those of Okabe and Ito (2008), made for colour-blind readers; yellow is left out, as it fades
on white. Ramps change in lightness all along, so that they also read in grey.
"""

from collections.abc import Sequence
from itertools import pairwise

CATEGORIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Blue, vermilion, green, purple, orange, sky blue, black: a line or a group takes them in this order."""

AMOUNTS = ("#f7fbff", "#c6dbef", "#6baed6", "#2171b5", "#08306b")
"""From nothing to much, for amounts such as attention weights."""

SIGNED = ("#7f3b08", "#c8691b", "#f3b775", "#f7f7f7", "#9ecae1", "#2b7bba", "#08306b")
"""From negative (brown) over zero (near white) to positive (blue), for signed numbers such as scores."""

INK = "#1f2328"
QUIET_INK = "#59636e"
LINE = "#d0d7de"
MASKED_FILL = "#e4e4e4"
EQUAL_FILL = "#f3f5f7"
MASKED_INK = "#5c5c5c"
ALARM_FILL = "#fbd9c4"
ALARM_INK = "#a33f00"
NO_NUMBER_FILL = "#1a1a1a"


def red_green_blue(colour: str) -> tuple[float, float, float]:
    """The three channels of "#rrggbb", each from 0 to 1."""
    return tuple(int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))  # type: ignore[return-value]


def on_ramp(ramp: Sequence[str], fraction: float) -> str:
    """The colour at `fraction` (0 to 1, clamped) of a ramp, mixed as Vega does, straight between stops."""
    place = min(max(fraction, 0.0), 1.0) * (len(ramp) - 1)
    step = min(int(place), len(ramp) - 2)
    low, high = (red_green_blue(stop) for stop in list(pairwise(ramp))[step])
    mixed = (a + (b - a) * (place - step) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in mixed)


def luminance(colour: str) -> float:
    """Relative luminance from 0 (black) to 1 (white), as WCAG 2.2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in red_green_blue(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, from 1 (none) to 21; text needs 4.5 (WCAG 2.2, level AA)."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def ink_on(fill: str) -> str:
    """Black or white, whichever reads better on `fill`."""
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, fill))
