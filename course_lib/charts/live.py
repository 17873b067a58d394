"""A picture that moves while something runs: here, under a bar that says how far it is, or elsewhere."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape

from course_lib.charts.theme import Picture, as_svg


@dataclass(frozen=True)
class Frame:
    """One state of the display: so many steps done, and the picture of that moment."""

    done: int
    steps: int
    svg: str = ""

    def __repr__(self) -> str:
        return f"{self.done:,} of {self.steps:,}"

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self.done}" max="{self.steps}" style="width: 300px"></progress>'
        return f"<div><label>{bar} {self!r}</label></div>{self.svg}"


def watched(steps: int, picture: Callable[[], Picture], *, every: int = 20) -> Iterator[int]:
    """Count from 1 to `steps` for a `for` loop; in a notebook, show a progress bar and a moving picture.

    After each `every` steps, and after the last, `picture` is called and drawn in place of the one before.
    Where there is no notebook, a line says how far it is. Raises ValueError for counts below 1.
    """
    for name, number in (("steps", steps), ("every", every)):
        if number < 1:
            raise ValueError(f"{name}: expected 1 or more, got {number}.")
    return _counted(steps, picture, every)


def _counted(steps: int, picture: Callable[[], Picture], every: int) -> Iterator[int]:
    from IPython.display import DisplayHandle

    place = DisplayHandle()
    place.display(Frame(0, steps))
    for step in range(1, steps + 1):
        yield step
        if step % every == 0 or step == steps:
            place.update(Frame(step, steps, as_svg(picture())))


@dataclass(frozen=True)
class Still:
    """One state of something that runs elsewhere: a line about it, and the picture of that moment."""

    says: str
    svg: str = ""

    def __repr__(self) -> str:
        return self.says

    def _repr_html_(self) -> str:
        return f"<div>{escape(self.says)}</div>{self.svg}"


def followed(
    picture: Callable[[], Picture],
    goes_on: Callable[[], bool],
    *,
    says: Callable[[], str] = lambda: "",
    every: float = 1.0,
    at_most: float = math.inf,
) -> None:
    """Draw a picture anew, `every` so many seconds, as long as something goes on, and once when it has ended.

    After `at_most` so many seconds the watching ends in any case, and the cells below can run.
    `says` gives a line to stand above it. Where there is no notebook, that line is printed when it changes.
    The notebook's stop button ends the watching, not what is watched. Raises ValueError for a negative time.
    """
    end = time.monotonic() + at_most
    if every < 0:
        raise ValueError(f"every: expected seconds, 0 or more, got {every:g}.")
    from IPython.display import DisplayHandle

    place = DisplayHandle()
    place.display(Still(says()))
    drawn = ""
    try:
        while True:
            # Asked first, so that the last picture shows the end.
            more = goes_on() and time.monotonic() < end
            svg = as_svg(picture())
            if svg != drawn or not more:
                place.update(Still(says(), svg))
                drawn = svg
            if not more:
                return
            time.sleep(every)
    except KeyboardInterrupt:
        place.update(Still(f"{says()} (no longer watched)", drawn))
