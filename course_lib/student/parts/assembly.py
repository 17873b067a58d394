"""Put parts together, the student's and the reference's, so that each uses those that came before it."""

import hashlib
import inspect
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import CodeType
from typing import Any, Literal

from course_lib.student.parts.cell import UnwrittenError, imported, run_cell
from course_lib.student.parts.errors import PartsError
from course_lib.student.parts.lessons import reference

Whose = Literal["yours", "reference"]


@dataclass(frozen=True)
class Recipe:
    """What one part is made from."""

    lesson: str
    exercise: str
    place: str = ""
    """The notebook and the cell, as messages name them."""
    setup: str = ""
    """The code of the lesson's setup cell."""
    code: str | None = None
    """The code of the student's solution cell; None where there is none to be used."""
    why: str = ""
    """Why there is none."""
    absent: bool = False
    """Whether that is because the whole notebook is not there."""


@dataclass(frozen=True)
class Part:
    """A function or class of the model, and whose it is."""

    lesson: str
    exercise: str
    whose: Whose
    found: Any
    why: str = ""
    """Where it is the reference's: why, in one line."""
    unwritten: bool = False
    """Whether that is because the student has not written it yet."""
    absent: bool = False
    """Whether that is because its notebook is not there."""


@dataclass(frozen=True)
class Parts:
    """All parts of some lessons, in their order. Each uses the ones before it, whosever they are."""

    parts: tuple[Part, ...]
    recipes: tuple[Recipe, ...]
    seconds: float
    """How long a cell may run."""
    names: Mapping[str, Any] = field(default_factory=dict)
    """What every cell finds under these names, beside what its lesson imports."""

    def __iter__(self) -> Iterator[Part]:
        """Go through the parts."""
        return iter(self.parts)

    def __contains__(self, exercise: object) -> bool:
        """Say whether a part of this name is among them."""
        return any(part.exercise == exercise for part in self.parts)

    def __getitem__(self, exercise: str) -> Any:
        """Give the function or class of this name. Raises PartsError for a name that is none of theirs."""
        return self.part(exercise).found

    def part(self, exercise: str) -> Part:
        """Give the part of this name. Raises PartsError for a name that is none of theirs."""
        for part in self.parts:
            if part.exercise == exercise:
                return part
        known = ", ".join(part.exercise for part in self.parts)
        raise PartsError(f"no part is called {exercise!r}; there are: {known}")

    @property
    def yours(self) -> list[str]:
        """The names of those that the student has written."""
        return [part.exercise for part in self.parts if part.whose == "yours"]

    @property
    def problems(self) -> list[str]:
        """What is wrong with those that cannot be used, each said once; parts not begun are no problem."""
        return list(dict.fromkeys(part.why for part in self.parts if part.why and not part.unwritten))

    @property
    def fingerprints(self) -> dict[str, str]:
        """A hash of the code of each part that is the student's."""
        yours = set(self.yours)
        return {
            recipe.exercise: hashlib.sha256((recipe.code or "").encode()).hexdigest()
            for recipe in self.recipes
            if recipe.exercise in yours
        }

    def table(self, notes: Mapping[str, str] | None = None) -> str:
        """Say of each part whose it is, and below why some are not the student's.

        `notes` has a word to add to some of the student's.
        """
        notes = notes or {}
        numbers = {problem: number for number, problem in enumerate(self.problems, start=1)}
        lines = [f"{'lesson':<24}{'part':<30}whose"]
        for part in self.parts:
            whose = f"yours ({notes[part.exercise]})" if part.exercise in notes else "yours"
            if part.whose == "reference":
                why = (
                    "not written yet" if part.unwritten else f"see [{numbers[part.why]}]" if part.why else ""
                )
                whose = f"the reference's ({why})" if why else "the reference's"
            lines.append(f"{part.lesson:<24}{part.exercise:<30}{whose}")
        lines += [f"[{number}] {problem}" for problem, number in numbers.items()]
        return "\n".join(lines)

    def only(self, exercises: Collection[str]) -> "Parts":
        """Take these of the student's parts, and the reference's in place of all others."""
        return assemble(self.recipes, self.seconds, exercises, self.names)

    def without(self, exercises: Mapping[str, str]) -> "Parts":
        """Take the reference's parts in place of these, each for a reason that the table gives."""
        recipes = [
            replace(recipe, code=None, why=exercises[recipe.exercise])
            if recipe.exercise in exercises
            else recipe
            for recipe in self.recipes
        ]
        return assemble(recipes, self.seconds, names=self.names)


def assemble(
    recipes: Sequence[Recipe],
    seconds: float,
    yours: Collection[str] | None = None,
    names: Mapping[str, Any] | None = None,
) -> Parts:
    """Make the parts in order. Of the student's only those named in `yours` are used; None means all.

    `names` stand in every cell's namespace. Where the student's cannot be used, the reference's takes its
    place.
    """
    given = names or {}
    made: dict[str, Any] = {}
    parts: list[Part] = []
    namespaces: dict[str, dict[str, Any]] = {}
    for recipe in recipes:
        part: Part | None = None
        if recipe.code is None:
            part = _reference(recipe, made, parts, recipe.why)
        elif yours is not None and recipe.exercise not in yours:
            part = _reference(recipe, made, parts)
        else:
            if recipe.lesson not in namespaces:
                namespaces[recipe.lesson] = {**imported(recipe.setup, made), **made, **given}
            namespace = namespaces[recipe.lesson]
            try:
                found = run_cell(recipe.code, recipe.exercise, recipe.place, namespace, seconds)
                part = Part(recipe.lesson, recipe.exercise, "yours", found)
            except UnwrittenError as error:
                part = _reference(recipe, made, parts, str(error), unwritten=True)
            except PartsError as error:
                part = _reference(recipe, made, parts, str(error))
        made[recipe.exercise] = part.found
        if recipe.lesson in namespaces:
            namespaces[recipe.lesson][recipe.exercise] = part.found
        parts.append(part)
    return Parts(tuple(parts), tuple(recipes), seconds, given)


@cache
def _code(lesson: str, exercise: str) -> CodeType:
    """Compile the definition of a reference's part anew, so that it can be run among other parts."""
    found = inspect.unwrap(reference(lesson, exercise))
    return compile(inspect.getsource(found), found.__module__, "exec")


def _reference(
    recipe: Recipe, made: dict[str, Any], before: Sequence[Part], why: str = "", unwritten: bool = False
) -> Part:
    """Take the reference's part, and let it use what was made before it."""
    found = reference(recipe.lesson, recipe.exercise)
    if any(part.whose == "yours" for part in before):
        names = vars(sys.modules[found.__module__]) | made
        exec(_code(recipe.lesson, recipe.exercise), names)
        found = names[recipe.exercise]
    return Part(recipe.lesson, recipe.exercise, "reference", found, why, unwritten, recipe.absent)
