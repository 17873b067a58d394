"""The messages of checks: a verdict in words, short enough for one screen."""

import textwrap
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from course_lib.checks.engine.comparison import claim_in
from course_lib.checks.engine.diagnosis import Verdict
from course_lib.checks.engine.example import Example
from course_lib.checks.engine.exceptions import shortened
from course_lib.checks.engine.misconceptions import Misconception, WrongNumber
from course_lib.checks.engine.prediction import UNANSWERED
from course_lib.checks.engine.probe import Probe
from course_lib.checks.engine.search import Resemblance

_WIDTH = 100

_NEXT = "Next: compare each step of your code with the worked example above it, or open the next hint."

_NEXT_FOR_SHAPES = (
    "Next: print the shape after each step of your code, and compare it with the shapes in the signature."
)


def line(sign: str, name: str, sentence: str) -> str:
    """Return a message of one sentence about the check called `name`, with a sign in front."""
    return _lines(f"{sign} {name}: {sentence}")


def failure(verdict: Verdict, wrong_parts: Sequence[str] = (), variables: Sequence[str] = ()) -> str:
    """Return the message for a failed exercise: what is wrong, where it shows, why, and what to read.

    `wrong_parts` are other exercises whose solutions the answer uses and which fail their own checks, and
    `variables` those of the notebook's variables that the answer reads.
    """
    name = verdict.exercise.name
    if verdict.unwritten:
        return f"○ {verdict.unwritten}"
    if not verdict.failures:
        used = " and ".join(each.removesuffix(".__init__") for each in verdict.forbidden)
        return _lines(
            f"✗ {name}: the result is correct, but this exercise doesn't allow {used}, or an operator that "
            "does the same.",
            "Next: build it from smaller parts. The hints above say which.",
        )
    assert verdict.difference is not None
    test: tuple[str, ...] = (f"Test: {verdict.failures[0].description}.", verdict.difference.facts)
    if wrong_parts:
        parts = " and ".join(f"`{part}`" for part in wrong_parts)
        fails = "fails its own check" if len(wrong_parts) == 1 else "fail their own checks"
        first = f"First correct {parts}, which your code uses and which {fails}. Then run this check again."
        test = (first, *test)
    if variables and not verdict.explanation.named:
        listed = ", ".join(f"`{variable}`" for variable in variables)
        which = "variable" if len(variables) == 1 else "variables"
        test = (
            *test,
            f"Your code reads the notebook's {which} {listed}, set outside your code. Is that intended?",
        )
    words = shortened(" ".join(verdict.printed.split()))
    printed = [f"Printed in this test: {words}"] if words else []
    named, similar = verdict.explanation.named, verdict.explanation.similar
    is_clear = similar is not None and not _is_vague(similar, verdict.failures[0])
    why = dict.fromkeys(
        f"Why: {mistake.hint}"
        for mistake in (similar.mistakes if similar is not None and is_clear else named)
        if mistake.hint and mistake.hint not in verdict.difference.facts
    )
    if named:
        sources = "; ".join(dict.fromkeys(mistake.source for mistake in named))
        summary = _statements(named)
        alike: tuple[str, ...] = ()
        if verdict.explanation.named_by_error:
            failed = len(verdict.failures)
            tests = _all_failing(failed) if failed > 1 else "this test"
            with_it = "With these mistakes" if len(named) > 1 else "With this mistake"
            summary = f"the likely cause is that {summary}"
            alike = (
                f"{with_it}, the course's code raises the same error in {tests}. "
                "Other mistakes could cause it, too.",
            )
        return _lines(f"✗ {name}: {summary}.", *test, *alike, *printed, *why, f"Read: {sources}.")
    if similar is not None:
        summary, resemblance = _similar(similar, verdict.failures)
        after = [] if is_clear or similar.is_likely else [_NEXT]
        return _lines(f"✗ {name}: {summary}.", *test, *verdict.facts, *resemblance, *why, *printed, *after)
    if verdict.tier == "structural":
        has_wrong_shape = verdict.difference.found is not None and verdict.difference.wrong is None
        next_step = _NEXT_FOR_SHAPES if has_wrong_shape else _NEXT
        return _lines(f"✗ {name}: incorrect.", *test, *verdict.facts, *printed, next_step)
    example = _lines_of_example(verdict.example) if verdict.example else []
    unknown = "The check doesn't recognise this mistake."
    return _lines(f"✗ {name}: incorrect.", *test, *printed, *_successes(verdict), *example, unknown, _NEXT)


def _successes(verdict: Verdict) -> list[str]:
    """Return a line about the tests that the code passes, because they narrow down an unknown mistake."""
    successes = verdict.successes
    shown = " and ".join(f"“{probe.description}”" for probe in successes[:2])
    count = f"{len(successes)} of the {len(verdict.exercise.probes)} tests"
    link = ", including" if len(successes) > 2 else ":"
    return [f"Your code passes {count}{link} {shown}."] if shown else []


def _statements(mistakes: Iterable[Misconception]) -> str:
    *others, last = [mistake.statement for mistake in mistakes]
    return "; ".join([*others, f"and {last}"]) if others else last


def _similar(similar: Resemblance, failures: Sequence[Probe]) -> tuple[str, list[str]]:
    """Return the summary and the lines about misconceptions that explain some results, or a part of one."""
    statement, count, failed = _statements(similar.mistakes), similar.others + 1, len(failures)
    if similar.is_likely:
        most = f"This mistake explains {count} of the {failed} failing tests."
        rest = "The other one" if failed - count == 1 else "The others"
        return f"the likely cause is that {statement}", [f"{most} {rest} may have a different cause."]
    is_vague = _is_vague(similar, failures[0])
    names = [name for name in similar.parts if not claim_in(name) and name != "the result"]
    parts = [name.removeprefix("the ") for name in names]
    where, result = "this test", f"{' and '.join(parts)} as your code" if parts else "result as your code"
    if similar.probe is not failures[0]:
        where = f"another test ({similar.probe.description})"
    elif similar.others:
        where += f" and {similar.others} other{'s' if similar.others > 1 else ''}"
        result = "results as your code"
    action = f"gives the same {result}"
    if similar.is_error:
        action = "has the same effect as yours" if similar.others else "raises the same error"
    subject, it = "a known mistake", "it"
    if len(similar.mistakes) > 1:
        subject, it = f"a combination of {len(similar.mistakes)} known mistakes", "this combination"
    instance = "for instance, " if is_vague else ""
    resemblance = f"In {where}, {instance}{subject} {action}: {statement}."
    if similar.unexplained is None:
        return "incorrect", [resemblance, f"But {it} doesn't explain the rest of your result."]
    other = f"the test “{similar.unexplained.description}”"
    if similar.unexplained not in failures:
        but = f"But {it} would also fail {other}, which your code passes. Yours may be a variant of it."
    elif any(mistake.patch or mistake.result for mistake in similar.mistakes):
        but = f"But {it} doesn't explain {other}. Yours may be a variant of it, or not the only mistake."
    else:
        but = f"But {other} fails in a different way."
    if not is_vague and count == failed > 1:
        return f"in {_all_failing(failed)}, {statement}", [but]
    return "incorrect", [resemblance, but]


def _all_failing(count: int) -> str:
    return "both failing tests" if count == 2 else f"all {count} failing tests"


def _lines_of_example(example: Example) -> list[str]:
    is_short = len(example.code) == 1
    code = [f"Try (rounded inputs): {example.code[0]}"] if is_short else ["Try:", *example.code]
    return [*code, f"expected: {example.expected}", f"returned: {example.found}"]


def _is_vague(similar: Resemblance, first_failure: Probe) -> bool:
    """Return whether similar misconceptions are only some of the possible causes.

    This is the case if they explain only an exception, a part of a result, or a probe other than the first
    failing one, or if other misconceptions explain just as many results.
    """
    is_elsewhere = similar.probe is not first_failure
    return bool(similar.parts) or is_elsewhere or similar.is_ambiguous or similar.is_error


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


def wrong_prediction(name: str, wrong: WrongNumber | str) -> str:
    """Return the message for a wrong prediction. It doesn't reveal the answer."""
    if isinstance(wrong, WrongNumber):
        return _lines(f"✗ {name}: incorrect.", f"Why: {wrong.hint}")
    return line("○" if wrong == UNANSWERED else "✗", name, wrong)


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
