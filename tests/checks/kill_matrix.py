"""The kill matrix: which probes reject which misconception, and what the student is told.

`kill_matrix.toml` summarizes it for reviewers. `make kill-matrix` rewrites that file, and `python -m
tests.checks.kill_matrix NAME...` rewrites only the sections of the named exercises. `test_kill_matrix.py`
compares the file with the checks.
"""

import json
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations, islice
from pathlib import Path
from pkgutil import iter_modules
from typing import Any
from zlib import crc32

from course_lib.checks.engine.diagnosis import examine
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.misconceptions import Misconception
from course_lib.checks.engine.outcomes import first_difference
from course_lib.checks.engine.probe import Probe
from course_lib.checks.engine.search import Search, can_be_combined
from course_lib.checks.engine.versions import Versions
from course_lib.checks.exercises.registry import catalogue
from tests.checks import variants

FILE = Path(__file__).with_suffix(".toml")
SEED = "kill matrix"
MAX_PAIRS = 12
HEADER = """\
# The kill matrix, summarized. `make kill-matrix` rewrites this file; review its diff. For each exercise:
#   counts of misconceptions, of tested pairs of them (at most 12), and of correct variants;
#   pairs_named_otherwise: pairs whose output another explanation gives as well;
#   idle_probes: probes that reject no misconception;
#   rejected_only_by: misconceptions that a single probe rejects, by probe.
# Misconceptions or pairs that pass or are not named, and correct answers that fail, would be listed too.
"""

VARIANTS: dict[str, tuple[Callable[..., Any], ...]] = {
    name: answers
    for module in iter_modules(variants.__path__, f"{variants.__name__}.")
    for name, answers in import_module(module.name).VARIANTS.items()
}

Summary = dict[str, Any]


def exercises() -> list[ExerciseCheck]:
    """Return every exercise of the course."""
    return [entry for entry in catalogue().values() if isinstance(entry, ExerciseCheck)]


@dataclass(frozen=True)
class Killed:
    """The results of the probes and of the search when misconceptions are applied to the reference."""

    failures: tuple[Probe, ...]
    """The probes that fail."""
    named: tuple[Misconception, ...]
    """The misconceptions that the search finds."""


def kill(exercise: ExerciseCheck, mistakes: tuple[Misconception, ...], seed: str) -> Killed:
    """Run all probes on the reference with these misconceptions, and search for an explanation."""
    # The search below reuses these cached outcomes, but its own `Versions` counts the effort from 0.
    run = Versions(exercise, seed)
    found = [run.outcome(mistakes, number) for number in range(len(exercise.probes))]
    versions = Versions(exercise, seed)
    differences = {
        number: difference
        for number, probe in enumerate(exercise.probes)
        if (difference := first_difference(probe, versions.reference(number), found[number])) is not None
    }
    if not differences:
        return Killed((), ())
    explanation = Search(exercise, versions, found, differences).explanation(combine=True)
    return Killed(tuple(exercise.probes[number] for number in differences), explanation.named)


def summary(exercise: ExerciseCheck) -> Summary:
    """Run an exercise's kill matrix and return its counts and the cells that a reviewer should see."""
    right = (exercise.reference, *VARIANTS[exercise.name])
    single = {mistake.name: kill(exercise, (mistake,), SEED) for mistake in exercise.misconceptions}
    pairs = {_joined(pair): pair for pair in islice(_pairs(exercise), MAX_PAIRS)}
    paired = {name: kill(exercise, pair, SEED) for name, pair in pairs.items()}
    only: defaultdict[str, list[str]] = defaultdict(list)
    for name, found in single.items():
        if len(found.failures) == 1:
            only[found.failures[0].description].append(name)
    rejecting = {probe.description for found in single.values() for probe in found.failures}
    lists = {
        "correct_but_rejected": [
            one.__name__ for one in right if not examine(exercise, LocalBackend(one), SEED).passed
        ],
        "not_rejected": [name for name, found in (single | paired).items() if not found.failures],
        "not_named": [name for name, found in single.items() if _named(found) != name]
        + [name for name, found in paired.items() if not found.named],
        "idle_probes": [probe.description for probe in exercise.probes if probe.description not in rejecting],
    }
    return {
        "misconceptions": len(single),
        "pairs": len(paired),
        "pairs_named_otherwise": sum(_named(found) not in ("", name) for name, found in paired.items()),
        "variants": len(VARIANTS[exercise.name]),
        **{key: names for key, names in lists.items() if names},
        **({"rejected_only_by": dict(only)} if only else {}),
    }


def _pairs(exercise: ExerciseCheck) -> Iterator[tuple[Misconception, ...]]:
    """Yield the pairs that can be combined, in an order that depends only on their names."""
    pairs = combinations(exercise.misconceptions, 2)
    for pair in sorted(pairs, key=lambda pair: crc32(_joined(pair).encode())):
        if can_be_combined(exercise, pair):
            yield pair


def _joined(mistakes: Iterable[Misconception]) -> str:
    return " + ".join(mistake.name for mistake in mistakes)


def _named(found: Killed) -> str:
    return _joined(found.named)


def written(summaries: dict[str, Summary]) -> str:
    """Return the contents of `kill_matrix.toml` for these summaries."""
    sections = [HEADER]
    for exercise, found in summaries.items():
        only = found.get("rejected_only_by", {})
        counts = [f"{key} = {value}" for key, value in found.items() if isinstance(value, int)]
        lists = [f"{key} = {_array(value)}" for key, value in found.items() if isinstance(value, list)]
        cells = [
            f"{json.dumps(probe, ensure_ascii=False)} = {_array(names)}" for probe, names in only.items()
        ]
        sections.append("\n".join([f"[{exercise}]", *counts, *lists]) + "\n")
        if cells:
            sections.append("\n".join([f"[{exercise}.rejected_only_by]", *cells]) + "\n")
    return "\n".join(sections)


def kept() -> dict[str, Summary]:
    """Read the summaries from `kill_matrix.toml`."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def _array(names: Iterable[str]) -> str:
    return f"[{', '.join(map(_string, names))}]"


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def main(names: Sequence[str]) -> None:
    """Rewrite `kill_matrix.toml`. If names are given, recompute only these exercises.

    Raises SystemExit, before anything is computed, if there is no exercise with one of the names.
    """
    if unknown := set(names) - {exercise.name for exercise in exercises()}:
        raise SystemExit(f"There is no exercise named {', '.join(sorted(unknown))}.")
    known = kept() if names else {}
    found = {
        exercise.name: summary(exercise) if not names or exercise.name in names else known[exercise.name]
        for exercise in exercises()
    }
    FILE.write_text(written(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
