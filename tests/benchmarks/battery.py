"""Check answers whose authors knew only the contracts: `python -m tests.benchmarks.battery`.

A hash assigns each answer to one of two halves. Misconceptions and messages may be developed with the `open`
half. The `held-out` half is only counted, never read. `--show TIER` prints answers of the open half, and
`--sample 100` prints 100 random wrong ones, so that a person can look for false statements in the messages.
"""

import argparse
import collections
import copy
import hashlib
import linecache
import math
import os
import random
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAXTYPING_DISABLE", "1")

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from course_lib import transformer
from course_lib.checks.engine import messages
from course_lib.checks.engine.diagnosis import examine
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.versions import compiled, known_versions
from course_lib.checks.exercises.registry import catalogue
from course_lib.curriculum.course_file import load_curriculum

COURSE = Path(__file__).parents[2]
FOLDER = COURSE / "tests" / "checks" / "battery"
HALVES = ("open", "held-out")
TIERS = ("exact", "partial", "structural", "numbers")


@dataclass(frozen=True)
class Answer:
    """One answer to one exercise."""

    exercise: str
    code: str
    right: bool
    style: str = ""
    slips: list[str] = field(default_factory=list)
    excluded: str = ""
    """Why the answer isn't counted: for example, its author misread the contract. Empty if it is counted."""
    was_read: bool = False
    """Whether a developer has read the answer's file, in which case none of its answers can be held out."""

    @property
    def half(self) -> str:
        """The half of the battery: `open`, which may be used for development, or `held-out`."""
        digest = hashlib.sha256((self.exercise + self.code).encode()).hexdigest()
        return HALVES[0 if self.was_read else int(digest[-1], 16) % 2]


@dataclass(frozen=True)
class Outcome:
    """The verdict of a check on an answer."""

    passed: bool
    tier: str
    message: str
    seconds: float
    """The CPU time of the check, in a process that has cached nothing about the exercise."""


def answers() -> list[Answer]:
    """Read the answers to the course's exercises. Identical answers by several people count as one."""
    files = sorted(FOLDER.glob("*.toml"))
    tables = [tomllib.loads(file.read_text()) for file in files]
    read = [
        Answer(**answer, was_read=table.get("was_read", False))
        for table in tables
        for answer in table["answer"]
    ]
    distinct = {(answer.exercise, answer.code): answer for answer in read}
    return [answer for answer in distinct.values() if answer.exercise in catalogue()]


def outcome(answer: Answer) -> Outcome:
    """Define an answer as a notebook cell would, and check it."""
    exercise = catalogue()[answer.exercise]
    assert isinstance(exercise, ExerciseCheck)
    names: dict[str, Any] = {
        "math": math,
        "copy": copy,
        "random": random,
        "np": np,
        "torch": torch,
        "nn": torch.nn,
        "Tensor": torch.Tensor,
        "F": torch.nn.functional,
        "dist": torch.distributed,
        "Counter": Counter,
        "defaultdict": collections.defaultdict,
        "dataclass": dataclass,
        **vars(transformer),
        **{name: entry.reference for name, entry in catalogue().items() if isinstance(entry, ExerciseCheck)},
        "__name__": "__main__",
    }
    # Register the code as IPython does, so that a message can quote the line that raised.
    linecache.cache["<cell>"] = (len(answer.code), None, answer.code.splitlines(keepends=True), "<cell>")
    try:
        exec(compile(answer.code, "<cell>", "exec"), names)
    except Exception as error:
        return Outcome(False, "structural", f"its cell raises {type(error).__name__}: {error}", 0.0)
    forbidden = tuple(_forbidden().get(answer.exercise, ()))
    known_versions.cache_clear()
    compiled.cache_clear()
    start = time.process_time()
    verdict = examine(exercise, LocalBackend(names[answer.exercise], forbidden), "practice")
    seconds = time.process_time() - start
    return Outcome(verdict.passed, verdict.tier, "" if verdict.passed else messages.failure(verdict), seconds)


@cache
def _forbidden() -> dict[str, list[str]]:
    lessons = load_curriculum(COURSE).lessons
    return {exercise.name: exercise.may_not_call for lesson in lessons for exercise in lesson.exercises}


def _start() -> None:
    """Warm up torch, so that no answer's time includes work that torch does once per process."""
    torch.set_num_threads(1)
    outcome(Answer("LayerNorm", "from course_lib.transformer import LayerNorm", True))


def outcomes(chosen: list[Answer], workers: int) -> Iterator[tuple[Answer, Outcome]]:
    """Check answers in parallel processes."""
    with ProcessPoolExecutor(workers, initializer=_start) as pool:
        yield from zip(chosen, pool.map(outcome, chosen, chunksize=8), strict=True)


def result(answer: Answer, found: Outcome) -> str:
    """Return `accepted`, `rejected` if a right answer failed, or the tier of the verdict on a wrong one."""
    return ("accepted" if found.passed else "rejected") if answer.right or found.passed else found.tier


def table(found: list[tuple[Answer, Outcome]]) -> Table:
    """Summarise the results for both halves in a table."""
    half = Counter(answer.half for answer, _ in found)
    title = f"Answers by strangers: {half['open']} open, {half['held-out']} held out"
    shown = Table("", *HALVES, title=title)
    for column in shown.columns[1:]:
        column.justify = "right"
    counts = Counter((answer.half, answer.right, result(answer, one)) for answer, one in found)

    def total(half: str, right: bool) -> int:
        return sum(count for (of, is_right, _), count in counts.items() if (of, is_right) == (half, right))

    def row(name: str, right: bool, *results: str) -> None:
        shown.add_row(
            name,
            *(
                f"{(part := sum(counts[half, right, one] for one in results))} of {total(half, right)} "
                f"({part / max(total(half, right), 1):6.1%})"
                for half in HALVES
            ),
        )

    row("right answers accepted", True, "accepted")
    row("wrong answers rejected", False, *TIERS)
    row("  named exactly", False, "exact")
    row("  exactly or partially", False, "exact", "partial")
    row("  with structural facts", False, "exact", "partial", "structural")
    row("  only numbers", False, "numbers")
    for name, kinds in {
        "right": ("accepted",),
        "named exactly": ("exact",),
        "all others": ("partial", "structural", "numbers"),
    }.items():
        shown.add_row(
            f"seconds, {name}: 95th percentile, maximum",
            *(
                _times([one.seconds for a, one in found if a.half == half and result(a, one) in kinds])
                for half in HALVES
            ),
        )
    return shown


def _times(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"{ordered[int(0.95 * (len(ordered) - 1))]:.2f}, {ordered[-1]:.2f}" if ordered else ""


def main() -> None:
    """Check the answers, print those that were asked for, and print a summary of both halves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="only this exercise")
    parser.add_argument(
        "--one-in", type=int, default=1, help="check one in this many answers, chosen by a hash"
    )
    parser.add_argument(
        "--show",
        nargs="*",
        choices=[*TIERS, "accepted", "rejected"],
        default=[],
        help="print open answers with this outcome",
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=0,
        help="print this many random wrong answers of the open half for a person to judge",
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed of the sample")
    arguments = parser.parse_args()
    chosen = [
        answer
        for answer in answers()
        if not answer.excluded
        and arguments.only in ("", answer.exercise)
        and hashlib.sha256(answer.code.encode()).digest()[1] % arguments.one_in == 0
    ]
    found = list(outcomes(chosen, arguments.workers))
    wrong = [(a, one) for a, one in found if a.half == "open" and not a.right and not one.passed]
    shown = random.Random(arguments.seed).sample(wrong, min(arguments.sample, len(wrong)))
    for answer, one in found:
        kind = result(answer, one)
        surprising = (kind == "accepted" and not answer.right) or kind == "rejected"
        if answer.half == "open" and kind in arguments.show and (surprising or not answer.right):
            shown.append((answer, one))
    for answer, one in shown:
        slips = "; ".join(answer.slips)
        print(f"--- {answer.exercise}: {result(answer, one)}; {slips} ({one.seconds:.1f} s)")
        print(answer.code.strip(), "\n", one.message, "\n", sep="")
    Console(highlight=False).print(table(found))


if __name__ == "__main__":
    main()
