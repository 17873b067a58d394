"""The messages of checks: a verdict in words, short enough for one screen."""

import textwrap
from collections.abc import Iterable
from difflib import get_close_matches

from course_lib.checks.engine.diagnosis import Verdict
from course_lib.checks.engine.misconceptions import WrongNumber

_WIDTH = 100


def success(name: str, probes: int) -> str:
    """Return the message for a correct answer to an exercise that has `probes` tests."""
    return f"✓ {name}: correct: all {probes} tests passed."


def failure(verdict: Verdict) -> str:
    """Return the message for a failed exercise: what is wrong, where it shows, why, and what to read."""
    name = verdict.exercise
    if verdict.unwritten:
        return f"○ {verdict.unwritten}"
    if not verdict.failures:
        used = " and ".join(verdict.forbidden)
        return _lines(
            f"✗ {name}: the result is correct, but it comes from {used}, which solves the whole exercise.",
            "Next: build it from smaller parts. The hints above say which.",
        )
    assert verdict.difference is not None
    test = (f"Test: {verdict.failures[0].says}.", verdict.difference.facts)
    printed = [f"Printed in this test: {_one_line(verdict.printed)}"] if verdict.printed.strip() else []
    why = dict.fromkeys(
        f"Why: {mistake.hint}"
        for mistake in (*verdict.named, *(() if _is_vague(verdict) else verdict.similar))
        if mistake.hint not in verdict.difference.facts
    )
    if verdict.named:
        sources = "; ".join(dict.fromkeys(mistake.source for mistake in verdict.named))
        statement = "; and ".join(mistake.statement for mistake in verdict.named)
        return _lines(f"✗ {name}: {statement}.", *test, *printed, *why, f"Read: {sources}.")
    if verdict.similar:
        return _lines(f"✗ {name}: incorrect.", *test, *verdict.facts, *_similar(verdict), *why, *printed)
    if verdict.tier == "structural":
        return _lines(f"✗ {name}: incorrect.", *test, *verdict.facts, *printed)
    tried = verdict.example
    example = (
        (f"Try: {tried.call}", f"expected: {tried.expected}", f"returned: {tried.found}") if tried else ()
    )
    return _lines(
        f"✗ {name}: incorrect.",
        *test,
        *printed,
        *example,
        "Next: the check doesn't recognise this mistake. Compare the values with a calculation by hand, or "
        "open the next hint above.",
    )


def _similar(verdict: Verdict) -> list[str]:
    """Return the lines about misconceptions that explain some of the results, or a part of one."""
    assert verdict.similar_in is not None
    what = (verdict.similar_part or "your result").replace("the result", "your result")
    what += " are" if " and " in what else " is"
    where = "this test"
    if verdict.similar_in is not verdict.failures[0]:
        where = f"another test ({verdict.similar_in.says})"
    elif verdict.similar_others:
        where += f" and {verdict.similar_others} other{'s' if verdict.similar_others > 1 else ''}"
        what = "your results are"
    what += " what you get, for instance," if _is_vague(verdict) else " what you get"
    statement = "; and ".join(mistake.statement for mistake in verdict.similar)
    resemblance = f"In {where}, {what} if {statement}."
    if verdict.dissimilar_in is None:
        return [resemblance, "That does not explain the rest of your result."]
    other = f"the test “{verdict.dissimilar_in.says}”"
    if verdict.dissimilar_in not in verdict.failures:
        return [resemblance, f"But the check's example of this mistake fails in {other}, and yours doesn't."]
    found = f"{other} fails in another way"
    if any(mistake.patch or mistake.result for mistake in verdict.similar):
        found = f"the check's example of this one doesn't fail like yours in {other}"
    return [resemblance, f"There may be a second mistake: {found}."]


def _is_vague(verdict: Verdict) -> bool:
    """Return whether the misconceptions in `similar` are only some of the possible causes.

    This is the case if they explain only a part of a result, or a probe other than the first failing one, or
    if others explain as many results.
    """
    elsewhere = verdict.similar_in not in verdict.failures[:1]
    return bool(verdict.similar_part) or elsewhere or verdict.is_ambiguous


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:199]}…"


def missing(name: str, names: Iterable[str]) -> str:
    """Return the message for an exercise or a prediction if nothing called `name` is defined.

    It suggests the most similar of the defined `names`, if one is similar enough.
    """
    near = get_close_matches(name, names, n=1, cutoff=0.8)
    renamed = [f"There is `{near[0]}`. If that is your answer, rename it to `{name}`."] if near else []
    return _lines(
        f"✗ {name}: nothing with this name is defined.",
        *renamed,
        f"Next: run the cell above that defines `{name}`. If that cell shows an error, fix it first. If the "
        "cell is missing, get a new copy of the notebook and copy your code into it.",
    )


def right_prediction(name: str) -> str:
    """Return the message for a correct prediction."""
    return f"✓ {name}: correct."


def wrong_prediction(name: str, wrong: WrongNumber | str) -> str:
    """Return the message for a wrong prediction. It doesn't reveal the answer."""
    if isinstance(wrong, WrongNumber):
        return _lines(f"✗ {name}: {wrong.value:g} is a common wrong answer.", f"Why: {wrong.hint}")
    return _lines(f"✗ {name}: {wrong}")


def accepted(name: str, says: str, whole: bool) -> str:
    """Return the message for a submitted file that earns points: all if `whole` is True, otherwise some."""
    return _lines(f"{'✓' if whole else '◐'} {name}: {says}")


def not_handed_in(name: str, says: str) -> str:
    """Return the message for a submitted file that is missing or invalid."""
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
