"""Assemble the parts of a model from a student's code and the reference.

Each part uses the parts before it, whether they are the student's or the reference's.
"""

import hashlib
import inspect
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, Literal

from torch import nn

from course_lib import transformer
from course_lib.curriculum import public_curriculum
from course_lib.student.parts.cell import UnwrittenError, describe, run_cell, setup_namespace
from course_lib.student.parts.notebook import PartsError, PartSource, keep_sources, kept_sources, read_sources
from course_lib.transformer import TransformerConfig, scaled_dot_product_attention

#: The parts, by lesson: the exercises for which the lab can use the student's code. Each part builds on the
#: earlier ones, and has the same name as its exercise and its solution cell.
LESSONS = public_curriculum().parts
#: The time limit of a cell, in seconds.
_TIMEOUT = 10.0


@dataclass(frozen=True)
class Part:
    """A function or class of the model, written by the student or taken from the reference."""

    source: PartSource
    origin: Literal["student", "reference"]
    value: Any
    problem: str = ""
    """The reason why the student's code isn't used, or an empty string if there is no problem."""
    unwritten: bool = False
    """Whether the student's cell still contains its stub."""


@dataclass(frozen=True)
class Parts:
    """The parts of a model, in the order of the lessons. Each part uses the parts that come before it."""

    parts: Mapping[str, Part]
    """The parts by exercise."""
    names: Mapping[str, Any]
    """Names that every cell's namespace contains in addition to its lesson's imports."""

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts.values())

    def __contains__(self, exercise: object) -> bool:
        return exercise in self.parts

    def __getitem__(self, exercise: str) -> Any:
        """Return the function or class of an exercise.

        It is the reference's if the course has no such part. Raises PartsError if there is none.
        """
        if exercise in transformer.__all__ and not any(exercise in names for names in LESSONS.values()):
            return getattr(transformer, exercise)
        return self.part(exercise).value

    def part(self, exercise: str) -> Part:
        """Return the part of an exercise. Raises PartsError if there is none."""
        if exercise not in self.parts:
            raise PartsError(f"there is no part {exercise!r}; choose from: {', '.join(self.parts)}")
        return self.parts[exercise]

    @property
    def yours(self) -> list[str]:
        """The exercises for which the student's part is used."""
        return [source.exercise for source in self.students_sources]

    @property
    def students_sources(self) -> list[PartSource]:
        """The sources of the exercises for which the student's part is used."""
        return [part.source for part in self if part.origin == "student"]

    @property
    def problems(self) -> list[str]:
        """The reasons why the student's parts can't be used, without duplicates.

        Unwritten parts are not included.
        """
        return list(dict.fromkeys(part.problem for part in self if part.problem and not part.unwritten))

    @property
    def fingerprints(self) -> dict[str, str]:
        """The SHA-256 hashes of the student's cells, keyed by exercise. The reference's parts are omitted."""
        return {
            source.exercise: hashlib.sha256((source.code or "").encode()).hexdigest()
            for source in self.students_sources
        }

    def table(self, notes: Mapping[str, str] | None = None) -> str:
        """Return a table of all parts and their origins, followed by the problems.

        `notes` maps exercises to remarks, which are shown next to the student's parts.
        """
        notes = notes or {}
        numbers = {problem: number for number, problem in enumerate(self.problems, start=1)}
        lines = [f"{'lesson':<24}{'part':<30}whose"]
        for part in self:
            source = part.source
            if part.origin == "student":
                whose, remark = "yours", notes.get(source.exercise)
            else:
                whose = "the reference's"
                number = numbers.get(part.problem)
                remark = "not written yet" if part.unwritten else f"see [{number}]" if number else None
            if remark is not None:
                whose += f" ({remark})"
            lines.append(f"{source.lesson:<24}{source.exercise:<30}{whose}")
        lines += [f"[{number}] {problem}" for problem, number in numbers.items()]
        return "\n".join(lines)

    def only(self, exercises: Collection[str]) -> "Parts":
        """Return parts that use the student's code only for `exercises`, and the reference for all others."""
        sources = [
            part.source if part.source.exercise in exercises else replace(part.source, code=None)
            for part in self
        ]
        return _assemble(sources, self.names)

    def without(self, reasons: Mapping[str, str]) -> "Parts":
        """Return parts that use the reference for some of the student's exercises.

        `reasons` maps each of these exercises to the reason, which `table()` shows.
        """
        sources = [
            replace(source, code=None, problem=reason) if (reason := reasons.get(source.exercise)) else source
            for source in (part.source for part in self)
        ]
        return _assemble(sources, self.names)

    def keep(self, path: Path) -> None:
        """Write a copy of the student's code to a file, because the notebooks may change later.

        `load_parts` can load the file. Raises OSError if it can't be written.
        """
        keep_sources(self.students_sources, path)


def load_parts(
    folder: str | Path,
    *,
    through: int | None = None,
    names: Mapping[str, Any] | None = None,
) -> Parts:
    """Load a student's parts from the notebooks in a folder.

    Only solution cells, and the imports and type variables of setup cells, are executed. If an exercise is
    missing, unwritten or broken, the reference's part is used, and `Parts.table()` says why.

    Args:
        folder: the folder that contains the lessons, or a file written by `Parts.keep`.
        through: the number of the last lesson to load; by default, all of them.
        names: additional names in the namespace of every cell.

    Raises:
        PartsError: if there is no such folder, or if the file can't be read or wasn't written by
            `Parts.keep`.
    """
    root = Path(folder)
    try:
        missing = not root.exists()
    except OSError:  # The path isn't accessible. Reading the notebooks reports that.
        missing = False
    if missing:
        raise PartsError(f"{root}: there is no such folder; pass the folder that contains the lessons")
    lessons = {
        lesson: parts for lesson, parts in LESSONS.items() if through is None or int(lesson[:2]) <= through
    }
    # Unlike Path.is_file, os.path.isfile returns False for a path that can't be accessed.
    sources = kept_sources(root, lessons) if os.path.isfile(root) else read_sources(root, lessons)
    return _assemble(sources, names or {})


def build_transformer(
    parts: Parts, source_vocab: int, target_vocab: int, config: TransformerConfig
) -> nn.Module:
    """Build a Transformer from these parts.

    `source_vocab` and `target_vocab` are the sizes of the vocabularies. If the config has the reference's
    attention, which is the default, the parts' attention replaces it. Raises PartsError if the parts can't
    build the model.
    """
    if config.attention is scaled_dot_product_attention:
        config = replace(config, attention=parts["scaled_dot_product_attention"])
    try:
        model = parts["Transformer"](source_vocab, target_vocab, config)
    except Exception as error:
        raise PartsError(
            f"can't build the model from these parts: Transformer raised {describe(error)}; run the "
            "checks of the lessons, or call unequal_parts to find the faulty part"
        ) from None
    if not isinstance(model, nn.Module):
        raise PartsError(
            f"Transformer should be an nn.Module, got an object of type {type(model).__name__}; "
            "run its check in lesson 06"
        )
    return model


def _assemble(sources: Iterable[PartSource], names: Mapping[str, Any]) -> Parts:
    """Build the parts in order. The reference replaces parts that can't be used."""
    values: dict[str, Any] = {}
    parts: dict[str, Part] = {}
    namespaces: dict[str, dict[str, Any]] = {}
    for source in sources:
        problem, unwritten, value = source.problem, False, None
        if source.code is not None:
            if source.lesson not in namespaces:
                namespaces[source.lesson] = {**setup_namespace(source.setup, values), **values, **names}
            namespace = namespaces[source.lesson]
            try:
                value = run_cell(source.code, source.exercise, source.location, namespace, _TIMEOUT)
            except PartsError as error:
                problem, unwritten = str(error), isinstance(error, UnwrittenError)
        if value is not None:
            part = Part(source, "student", value)
        else:
            value = getattr(transformer, source.exercise)
            if any(before.origin == "student" for before in parts.values()):
                value = _rebind(value, source, values)
            part = Part(source, "reference", value, problem, unwritten)
        values[source.exercise] = value
        if source.lesson in namespaces:
            namespaces[source.lesson][source.exercise] = value
        parts[source.exercise] = part
    return Parts(parts, names)


def _rebind(value: Any, source: PartSource, values: dict[str, Any]) -> Any:
    """Redefine the reference's part so that it uses the earlier parts in `values`, and return it."""
    namespace = vars(sys.modules[value.__module__]) | values
    exec(_reference_code(source.exercise), namespace)
    return namespace[source.exercise]


@cache
def _reference_code(exercise: str) -> CodeType:
    definition = inspect.unwrap(getattr(transformer, exercise))
    return compile(inspect.getsource(definition), definition.__module__, "exec")
