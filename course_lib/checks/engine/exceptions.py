"""Explain exceptions in a student's code in plain sentences."""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from course_lib.checks.engine.misconceptions import Misconception
from course_lib.checks.engine.reply import (
    LEFTOVER_STUB,
    MISSING_PARAMETER,
    OUT_OF_TIME,
    RESULT_TOO_LARGE,
    WRONG_SHAPE,
    Raised,
)

#: A function that explains an exception, given the match of the exception's pattern and the student's line.
_Explain = Callable[[re.Match[str], str], str]


def error_line(raised: Raised) -> str:
    """Return the class of an exception and the first line of its message, cut to at most 200 characters."""
    message = raised.message
    if raised.kind == "KeyError" and "\\n" in message:
        message = message.replace("\\n", "\n").lstrip("\"'")  # str(KeyError) is the repr of its argument.
    first_line = shortened(message.strip().split("\n")[0])
    return f"{raised.kind}: {first_line}" if first_line else raised.kind


def shortened(line: str) -> str:
    """Cut a line to at most 200 characters."""
    return line if len(line) <= 200 else f"{line[:199]}…"


def location(raised: Raised) -> str:
    """Return a sentence that quotes the student's line that raised the exception, or "" if it is unknown."""
    return f" This happened in your line `{raised.line}`." if raised.line else ""


def explained(raised: Raised) -> str:
    """Describe an unexpected exception: what it is, where it was raised, and what it usually means."""
    where = location(raised)
    if raised.kind == OUT_OF_TIME:
        return f"Stopped: {raised.message}. Is there a loop that never ends?{where}"
    if raised.note == LEFTOVER_STUB:
        return "Your code raised NotImplementedError."
    if raised.kind == MISSING_PARAMETER:
        return f"{raised.message}. {raised.note}.{_meaning(raised)}"
    if raised.kind in (WRONG_SHAPE, RESULT_TOO_LARGE):
        return f"{raised.message}.{_meaning(raised)}"
    error = error_line(raised)
    stop = "" if error.endswith((".", "…", "!", "?")) else "."
    return f"Your code raised {error}{stop}{where}{_meaning(raised)}"


def _meaning(raised: Raised) -> str:
    """Return the meaning of an exception, or an empty string if its class and message aren't well known."""
    known = _known(raised)
    text = known[0].of(known[1], raised.line) if known else ""
    return f" {text}" if text else ""


def named(raised: Raised) -> Misconception | None:
    """Return the mistake that caused an exception, or None if its class and message leave any doubt."""
    known = _known(raised)
    if known is None or not known[0].statement:
        return None
    meaning, match = known
    by_attribute = meaning.explained_by == "attribute"
    statement = _unassigned(match, raised.line) if by_attribute else match.expand(meaning.statement)
    return Misconception(
        # Don't use the name of the exception's class, because a student's own class may have any name.
        name=f"raises_{meaning.kind or 'an_exception'}",
        statement=statement,
        hint=meaning.of(match, raised.line),
        source=meaning.source or f"the Python documentation, built-in exceptions: {raised.kind}",
        patch=(),
        exclusive=True,
    )


def _unassigned(match: re.Match[str], line: str) -> str:
    """Describe the use of an attribute that doesn't exist.

    `match` holds the type of the object and the name of the attribute. `line` is the student's line that
    raised the exception, or an empty string.
    """
    if not line:
        return rf"`{match[1]}` has no attribute or method `{match[2]}`"
    # The line may assign to an attribute of the same name: `self.heads = config.heads`.
    used_on = set(re.findall(rf"([\w.\])]+)\.{match[2]}\b(?!\s*=[^=])", line))
    if used_on == {"self"}:
        return rf"`self.{match[2]}` is used before anything is assigned to it"
    if not used_on:
        return rf"a function gets an object of type {match[1]}, but needs one with the attribute `{match[2]}`"
    if match[1].startswith("_"):  # The type belongs to the check, such as a replacement for a model.
        return rf"`.{match[2]}` is used on an object that has no such attribute"
    return rf"`.{match[2]}` is used on an object of type {match[1]}, which has no such attribute"


def _known(raised: Raised) -> "tuple[_Meaning, re.Match[str]] | None":
    """Return the first meaning that matches an exception, and the match of its pattern."""
    return next(((one, match) for one in _meanings() if (match := one.match(raised))), None)


def _names(match: re.Match[str], _: str) -> str:
    """Explain why a module lacks a parameter that the exercise requires, or return "" if it isn't clear why.

    `match` holds the name of the parameter and the names of those that the module has.
    """
    name, there = match[1], match[2].split(", ")
    if match[2] == "none":
        return (
            "The module has no parameters. Create them in `__init__`, and assign them to attributes, as "
            "layers such as nn.Linear or with nn.Parameter: a plain tensor isn't a parameter."
        )
    attribute, own = name.split(".")[0], list(dict.fromkeys(other.split(".")[0] for other in there))
    if attribute in own:
        part = ".".join(name.split(".")[:-1])
        same = [other for other in there if other.startswith(f"{part}.")]
        last = name.split(".")[-1]
        if part in there:
            return f"`{part}` is itself a parameter, but should be a module with the parameter `{last}`."
        return f"`{part}` has no {last}." if same else ""
    return (
        f"The exercise requires the attribute `{attribute}`, but your module has only {_listed(own)}. Assign "
        "it in `__init__`, as a module or an nn.Parameter: a plain tensor or list isn't registered."
    )


def _listed(names: list[str]) -> str:
    shown = [f"`{name}`" for name in names[:6]]
    return ", ".join(shown) + (", …" if len(names) > 6 else "")


def _attribute(match: re.Match[str], line: str) -> str:
    """Explain the use of an attribute that doesn't exist, or return "" if its cause isn't clear.

    `match` holds the type of the object and the name of the attribute. `line` is the student's line that
    raised the exception, or an empty string.
    """
    owner, name = match[1], match[2]
    # If another function uses the attribute, the student's line doesn't contain the expression before it.
    in_line = re.search(rf"\.{name}\b", line)
    the_object = f"The object in front of `.{name}`" if in_line else f"The object that lacks `.{name}`"
    if owner == "NoneType" and re.search(rf"\.grad\.{name}\b", line):
        return (
            "`.grad` is None before the backward pass, after `zero_grad()`, if the backward pass did not "
            "reach the parameter, or if the parameter is frozen."
        )
    if owner == "NoneType":
        return (
            f"{the_object} is None. Was it set to None, does a function that you call lack a `return`, or "
            "does this test not pass an optional argument?"
        )
    own = _TENSOR_NAMES if owner == "Tensor" else _file()["names"]
    near = get_close_matches(name, own, n=1, cutoff=0.75)
    if near and near[0] != name:
        return f"Did you mean `{near[0]}`?"
    kinds = {
        "int": "a number",
        "float": "a number",
        "list": "a list",
        "tuple": "a tuple",
        "dict": "a dict",
        "generator": "a generator",
        "function": "a function",
        "str": "a string",
        "Tensor": "a tensor",
    }
    if owner not in kinds:
        return ""
    other = next((kind for known, kind in _WITH_METHODS.items() if hasattr(known, name)), "")
    instead = f", not {other}" if other and other != kinds[owner] else ""
    return f"{the_object} is {kinds[owner]} here{instead}."


#: Types that a student may have expected of an object that lacks one of their attributes.
_WITH_METHODS: Mapping[type, str] = {Tensor: "a tensor", str: "a string", list: "a list", dict: "a dict"}


def _key(match: re.Match[str], line: str) -> str:
    """Explain a KeyError.

    Return an empty string if its message is a sentence, or if a student's `raise` statement raised it.
    """
    key, note = match[1], match[2]
    if note or " " in key:
        return ""
    return f"The set has no element {key}." if ".remove(" in line else f"The dict has no key {key}."


#: Attributes of tensors.
_TENSOR_NAMES = ("shape", "size", "transpose", "permute", "reshape", "unsqueeze", "squeeze", "masked_fill")


_EXPLAINED_BY: Mapping[str, _Explain] = {"attribute": _attribute, "key": _key, "names": _names}


@dataclass(frozen=True)
class _Meaning:
    """The meaning of a well-known exception, which is recognised by its class and message."""

    pattern: str
    meaning: str = ""
    kind: str = ""
    explained_by: str = ""
    line: str = ""
    """A regular expression that must be found in the student's line."""
    statement: str = ""
    """What is wrong, if that is certain, as a clause like the `statement` of a misconception."""
    source: str = ""
    """What to read, if `statement` is given; by default, Python's description of the exception."""

    def match(self, raised: Raised) -> re.Match[str] | None:
        fits = self.kind in ("", raised.kind) and re.search(self.line, raised.line)
        return re.search(self.pattern, f"{raised.message}. {raised.note}") if fits else None

    def of(self, match: re.Match[str], line: str) -> str:
        r"""Return the meaning. References such as \1 in it are replaced with the groups of the match."""
        explain = _EXPLAINED_BY.get(self.explained_by)
        return explain(match, line) if explain else match.expand(self.meaning)


@cache
def _meanings() -> tuple[_Meaning, ...]:
    return tuple(_Meaning(**table) for table in _file()["meanings"])


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
