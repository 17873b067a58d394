"""A picture that moves while something runs, under a bar that says how far it is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
