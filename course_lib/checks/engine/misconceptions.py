"""Misconceptions as data: read and validate a lesson's `misconceptions.toml`.

Each exercise or prediction has an array of tables. A misconception of an exercise patches the reference:

    [[attention_scores]]
    name = "not_scaled"
    statement = "the dot products are not divided by the square root of d"
    hint = "An explanation for students."
    source = "the paper, section 3.2.1, equation 1"
    patch = [{ find = " / math.sqrt(query.shape[-1])", replace = "" }]

`source` is the text that a student should read. The table `sources` holds a default for each exercise, for
misconceptions without a `source`. `exclusive = true` keeps a misconception from being combined with others. A
wrong answer to a prediction has a `name`, a `value` and a `hint`. If a reference is hard to patch, the table
`equivalents` contains the source code of a simpler version that returns the same results; the patches of that
exercise then apply to it.

`common.toml` next to this module contains the misconceptions that apply to every exercise. Instead of a
patch, each has a Python expression, `result`, whose value replaces the reference's result. In the expression,
the variable `result` is the value that the reference returns or, in the table `tensor`, each returned tensor
in turn.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

_EQUIVALENTS = "equivalents"
_SOURCES = "sources"
_COMMON = Path(__file__).with_name("common.toml")


class MisconceptionError(ValueError):
    """The error raised if a file of misconceptions is invalid. The message lists every problem."""


class PatchError(Exception):
    """The error raised if misconceptions can't be applied.

    The reference has changed, or the misconceptions can't be combined.
    """


@dataclass(frozen=True)
class Misconception:
    """A plausible wrong version of a reference: a patch on its source, or an expression for its result."""

    name: str
    statement: str
    """What is wrong, as a clause that follows the exercise's name: "the scores are not divided"."""
    hint: str
    """An explanation for students: why the result is wrong, and where to look."""
    source: str
    """The text to read, such as a section of the paper."""
    patch: tuple[tuple[str, str], ...]
    """Pairs of a text that must occur exactly once in the source, and the text that replaces it."""
    exclusive: bool = False
    """Whether this misconception is never combined with others."""
    result: str = ""
    """An expression that replaces the `result` of the function, or of the module's `forward`."""
    of_tensors: bool = False
    """Whether `result` stands for each returned tensor in turn, instead of the whole returned value."""

    def apply(self, source: str) -> str:
        """Return the source code with this misconception applied, as a patch or as a replaced result.

        Raises PatchError if a text to replace doesn't occur exactly once.
        """
        for text, replacement in self.patch:
            if (count := source.count(text)) != 1:
                raise PatchError(f"the patch looks for {text!r}, which occurs {count} times, not once")
            source = source.replace(text, replacement)
        if not self.result:
            return source
        kind = "torch.Tensor" if self.of_tensors else "object"
        return source + _REPLACED_RESULT.format(name=_callable_in(source), result=self.result, kind=kind)


_REPLACED_RESULT = """

def _replaced(*arguments, _original={name}, **keywords):
    import torch
    result = _original(*arguments, **keywords)
    if isinstance(result, {kind}):
        return {result}
    if isinstance(result, tuple):
        return tuple({result} if isinstance(result, {kind}) else result for result in result)
    return result
{name} = _replaced
"""


def _callable_in(source: str) -> str:
    """Return the name of the function that `source` defines, or `Name.forward` if it defines a class Name."""
    definition = re.search(r"^(class|def) (\w+)", source, re.MULTILINE)
    assert definition is not None
    return definition[2] + (".forward" if definition[1] == "class" else "")


@dataclass(frozen=True)
class WrongNumber:
    """A plausible wrong answer to a prediction."""

    name: str
    value: float
    hint: str

    @property
    def statement(self) -> str:
        """What is wrong, as a clause."""
        return f"{shown_number(self.value)} is a plausible wrong answer"


def shown_number(number: float) -> str:
    """Format a number as a student would type it.

    Integers below 1e15 are written in full, and other numbers with at most six significant digits.
    """
    is_whole = math.isfinite(number) and number == int(number) and abs(number) < 1e15
    return str(int(number)) if is_whole else f"{number:g}"


_Known = TypeVar("_Known", Misconception, WrongNumber)

_TYPES: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "statement": (str,),
    "hint": (str,),
    "source": (str,),
    "patch": (list,),
    "exclusive": (bool,),
    "find": (str,),
    "replace": (str,),
    "value": (int, float),
}


def misconceptions_of(file: Path, exercise: str, source: str) -> tuple[Misconception, ...]:
    """Return the misconceptions of an exercise, whose patches apply to `source`.

    Raises MisconceptionError if the file isn't valid TOML, or if the exercise's entry isn't an array of
    tables. All other problems are listed in one MisconceptionError: unknown or missing keys, values of the
    wrong type, duplicate names, and patches that can't be applied.
    """
    problems: list[str] = []
    known: list[Misconception] = []
    sources = _read(file).get(_SOURCES, {})
    shared = {"source": sources[exercise]} if exercise in sources else {}
    for number, own in enumerate(_tables(file, exercise), start=1):
        table = shared | own
        where = f"{_label(file)}: {exercise}, {table.get('name', f'misconception {number}')}"
        found = _problems(table, where, ("name", "statement", "hint", "source", "patch"), ("exclusive",))
        pieces = table.get("patch", []) if not found else []
        for piece in pieces:
            found += _problems(piece, f"{where}, patch", ("find", "replace"))
        problems += found
        if found:
            continue
        patch = tuple((piece["find"], piece["replace"]) for piece in pieces)
        known.append(Misconception(**(table | {"patch": patch})))
        try:
            known[-1].apply(source)
        except PatchError as error:
            problems.append(f"{where}: {error}")
    return _valid(file, exercise, known, problems)


@cache
def common_misconceptions() -> tuple[Misconception, ...]:
    """Return the misconceptions that apply to every exercise, such as a missing result or swapped axes."""
    return tuple(
        # A result of None hides all other mistakes, so it isn't combined with them.
        Misconception(**table, patch=(), of_tensors=kind == "tensor", exclusive=table["result"] == "None")
        for kind in ("any", "tensor")
        for table in _tables(_COMMON, kind)
    )


@cache
def special_misconception(kind: Literal["stub", "more", "kept"]) -> Misconception:
    """Return a misconception that the check recognises without a version of the reference.

    "stub" is that a finished function still contains the stub's `raise`, "more" that a function returns
    other values together with the result, and "kept" that a result depends on values of earlier calls.
    """
    return Misconception(**_tables(_COMMON, kind)[0], patch=())


def wrong_numbers_of(file: Path, prediction: str) -> tuple[WrongNumber, ...]:
    """Return the known wrong answers to a prediction.

    Raises MisconceptionError if the file isn't valid TOML or if any of the answers is invalid. The message
    lists all invalid ones.
    """
    problems: list[str] = []
    known: list[WrongNumber] = []
    for number, table in enumerate(_tables(file, prediction), start=1):
        where = f"{_label(file)}: {prediction}, {table.get('name', f'wrong answer {number}')}"
        problems += (found := _problems(table, where, ("name", "value", "hint")))
        if not found:
            known.append(WrongNumber(table["name"], float(table["value"]), table["hint"]))
    return _valid(file, prediction, known, problems)


def equivalent_of(file: Path, exercise: str) -> str | None:
    """Return the source code of the simpler version of the reference to which an exercise's patches apply.

    Return None if they apply to the reference itself.
    """
    return _read(file).get(_EQUIVALENTS, {}).get(exercise)


@cache
def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise MisconceptionError(f"{_label(file)}: not valid TOML: {error}") from None


def _tables(file: Path, name: str) -> list[dict[str, Any]]:
    tables = _read(file).get(name, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise MisconceptionError(f"{_label(file)}: {name}: expected a list of tables, each headed [[{name}]]")
    return tables


def _problems(
    table: Mapping[str, Any], where: str, required: Sequence[str], optional: Sequence[str] = ()
) -> list[str]:
    allowed = (*required, *optional)
    problems = [
        f"{where}: unknown key {key!r}; known keys: {', '.join(allowed)}"
        for key in table
        if key not in allowed
    ]
    problems += [f"{where}: the key {key!r} is missing" for key in required if key not in table]
    problems += [
        f"{where}: {key}: expected {_TYPES[key][0].__name__}, got {value!r}"
        for key, value in table.items()
        if key in allowed and type(value) not in _TYPES[key]
    ]
    return problems


def _valid(file: Path, name: str, known: Sequence[_Known], problems: list[str]) -> tuple[_Known, ...]:
    problems += [
        f"{_label(file)}: {name}: expected unique names, but {mistake!r} is used {count} times"
        for mistake, count in Counter(one.name for one in known).items()
        if count > 1
    ]
    if problems:
        raise MisconceptionError("\n".join(problems))
    return tuple(known)


def _label(file: Path) -> str:
    return f"{file.parent.name}/{file.name}"
