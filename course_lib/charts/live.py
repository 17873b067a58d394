"""Charts that are redrawn while something runs: a loop in this notebook, or a run in another process."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape

from IPython.display import DisplayHandle

from course_lib.charts.theme import Picture, as_svg


@dataclass(frozen=True)
class Frame:
    """One state of a display: a line of text, a progress bar if the number of steps is known, and a chart."""

    text: str
    chart: str = ""
    done: int = 0
    steps: int = 0

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        text = escape(self.text)
        if self.steps:
            bar = f'<progress value="{self.done}" max="{self.steps}" style="width: 300px"></progress>'
            text = f"<label>{bar} {text}</label>"
        return f"<div>{text}</div>{self.chart}"


def live_progress(steps: int, picture: Callable[[], Picture], *, every: int = 20) -> Iterator[int]:
    """Yield the numbers from 1 to `steps` for a loop, and show the loop's progress with a bar and a chart.

    After every `every` steps, and after the last, `picture` is called and its chart replaces the previous
    one. Outside a notebook, only a line of text is printed.
    """
    display = DisplayHandle()
    display.display(Frame(f"0 of {steps:,}", steps=steps))
    for step in range(1, steps + 1):
        yield step
        if step % every == 0 or step == steps:
            display.update(Frame(f"{step:,} of {steps:,}", _drawn(picture()), step, steps))


def _drawn(chart: Picture) -> str:
    """Return the chart as SVG or, if this machine can't draw, an HTML paragraph with the reason.

    A failure to draw must not end a run.
    """
    try:
        return as_svg(chart)
    except RuntimeError as error:
        return f"<p>{escape(str(error))}</p>"


def watch_live(
    picture: Callable[[], Picture],
    is_running: Callable[[], bool],
    *,
    status: Callable[[], str] = lambda: "",
    every: float = 1.0,
    timeout: float = math.inf,
) -> None:
    """Redraw the chart of `picture()` every `every` seconds while `is_running` returns True, and at the end.

    The function returns after `timeout` seconds at the latest, so that the cells below can run. `status`
    returns a line to show above the chart; outside a notebook, only this line is printed. The notebook's stop
    button stops the redrawing, but not the run itself.
    """
    end = time.monotonic() + timeout
    display = DisplayHandle()
    shown = Frame(status())
    display.display(shown)
    try:
        while True:
            # Check whether to continue before drawing, so that the last chart shows the final state.
            more = is_running() and time.monotonic() < end
            frame = Frame(status(), _drawn(picture()))
            if frame != shown:
                display.update(frame)
                shown = frame
            if not more:
                return
            time.sleep(min(every, max(0.0, end - time.monotonic())))
    except KeyboardInterrupt:
        display.update(Frame(f"{status()} (no longer watched)", shown.chart))
