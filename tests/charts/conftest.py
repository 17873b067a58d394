from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

import altair as alt
import pytest

from course_lib.charts import Picture, as_svg


@pytest.fixture
def texts_of() -> Callable[..., list[str]]:
    """A function that returns all lines of text in a picture, in the order of its SVG.

    Its keyword arguments set the chart's parameters, as a student would with sliders and lists.
    """

    def read(chart: Picture, **chosen: Any) -> list[str]:
        if chosen:
            spec = chart.to_dict()
            parameters = {parameter["name"]: parameter for parameter in spec["params"]}
            for name, value in chosen.items():
                parameters[name]["value"] = value
            chart = alt.Chart.from_dict(spec)
        root = ElementTree.fromstring(as_svg(chart))
        return [line for node in root.iter("{http://www.w3.org/2000/svg}text") for line in node.itertext()]

    return read


@pytest.fixture
def altair_restored() -> Iterator[None]:
    """Restore altair's theme, renderer and limit on rows after a test that changes them."""
    theme, renderer, data = alt.theme.active, alt.renderers.active, alt.data_transformers.active
    options = dict(alt.renderers.options)
    yield
    alt.theme.enable(theme)
    alt.renderers.enable(renderer, **options)
    alt.data_transformers.enable(data)
