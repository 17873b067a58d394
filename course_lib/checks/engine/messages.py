"""What a student reads: a verdict in words, short enough for one screen."""

import textwrap
from collections.abc import Iterable
from difflib import get_close_matches

from course_lib.checks.engine.diagnosis import Verdict
from course_lib.checks.engine.misconceptions import WrongNumber

_WIDTH = 100


def success(name: str, probes: int) -> str:
    """Say that all is well."""
    return f"✓ {name}: right, in all {probes} things that were tried."


def failure(verdict: Verdict) -> str:
    """Say what went wrong, where, why, and what to do next."""
    name = verdict.exercise
    if verdict.unwritten:
        return f"○ {verdict.unwritten}"
    if not verdict.failures:
        used = " and ".join(verdict.forbidden)
        return _lines(
            f"✗ {name}: it gives the right answer, but by calling {used}, which is the whole exercise.",
            "Next: build it from smaller parts; the hints above say which.",
        )
    assert verdict.difference is not None
    tried = f"Tried: {verdict.failures[0].says}."
    if verdict.named:
        return _lines(
            f"✗ {name}: {'; and '.join(mistake.statement for mistake in verdict.named)}.",
            tried,
            verdict.difference.facts,
            *(f"Why: {mistake.hint}" for mistake in verdict.named),
            f"Read: {'; '.join(dict.fromkeys(mistake.source for mistake in verdict.named))}.",
        )
    return _lines(
        f"✗ {name}: something does not hold yet.",
        tried,
        verdict.difference.facts,
        "Next: this is none of the mistakes that the check knows by name. Open the next hint above, or try "
        "the function on an example small enough to work out by hand.",
    )


def not_there(name: str, names: Iterable[str]) -> str:
    """Say that nothing has the name of the exercise, and which of the other names may be meant for it."""
    near = get_close_matches(name, names, n=1, cutoff=0.8)
    renamed = [f"There is `{near[0]}`: if that is yours, give it the name `{name}` back."] if near else []
    return _lines(
        f"✗ {name}: there is nothing of this name.",
        *renamed,
        f"Next: run the cell above that defines `{name}`; where it shows an error, mend that first. Where "
        "the cell is missing, get the notebook anew and copy your code into it.",
    )


def wrong_prediction(name: str, wrong: WrongNumber | str) -> str:
    """Say what speaks against a prediction, without giving the answer away."""
    if isinstance(wrong, WrongNumber):
        return _lines(f"✗ {name}: {wrong.value:g} is a common answer, but not it.", f"Why: {wrong.hint}")
    return _lines(f"✗ {name}: {wrong}")


def accepted(name: str, says: str, whole: bool) -> str:
    """Say what a file that was handed in is worth."""
    return _lines(f"{'✓' if whole else '◐'} {name}: {says}")


def not_handed_in(name: str, says: str) -> str:
    """Say what is missing, or wrong with a file."""
    return _lines(f"✗ {name}: {says}")


def _lines(first: str, *more: str) -> str:
    return "\n".join([*_wrapped([first], ""), *_wrapped(more, "  ")])


def _wrapped(paragraphs: Iterable[str], indent: str) -> list[str]:
    return [
        line
        for paragraph in paragraphs
        for line in textwrap.wrap(
            paragraph, _WIDTH, initial_indent=indent, subsequent_indent="    ", break_on_hyphens=False
        )
    ]
