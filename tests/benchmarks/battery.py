"""Check answers by people who knew only the exercises' contract: `python -m tests.benchmarks.battery`.

The answers are split by a hash of their code. Misconceptions and messages may be developed with the `open`
half. The `held-out` half is only counted, never looked at. `--show TIER` prints answers of the open half.
"""

import argparse
import collections
import copy
import hashlib
import math
import os
import random
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAXTYPING_DISABLE", "1")

import numpy as np
import torch

from course_lib import transformer
from course_lib.checks.engine import messages
from course_lib.checks.engine.diagnosis import examine
from course_lib.checks.engine.exercise import Exercise
from course_lib.checks.engine.local_backend import LocalBackend
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
    """Why it isn't counted, for instance since its author misread the contract."""

    @property
    def half(self) -> str:
        """Whether one may learn from this answer."""
        digest = hashlib.sha256((self.exercise + self.code).encode()).hexdigest()
        return HALVES[int(digest[-1], 16) % 2]


@dataclass(frozen=True)
class Outcome:
    """What a check says about an answer."""

    passed: bool
    tier: str
    message: str
    seconds: float


def answers() -> list[Answer]:
    """Read the answers to exercises that the course has."""
    files = sorted(FOLDER.glob("*.toml"))
    read = [Answer(**table) for file in files for table in tomllib.loads(file.read_text())["answer"]]
    return [answer for answer in read if answer.exercise in catalogue()]


def outcome(answer: Answer) -> Outcome:
    """Define an answer as a notebook cell would, and check it."""
    exercise = catalogue()[answer.exercise]
    assert isinstance(exercise, Exercise)
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
        **{name: entry.reference for name, entry in catalogue().items() if isinstance(entry, Exercise)},
        "__name__": "__main__",
    }
    start = time.perf_counter()
    try:
        exec(compile(answer.code, "<cell>", "exec"), names)
    except Exception as error:
        return Outcome(False, "structural", f"its cell raises {type(error).__name__}: {error}", 0.0)
    forbidden = _forbidden().get(answer.exercise, ())
    verdict = examine(exercise, LocalBackend(names[answer.exercise], tuple(forbidden)), "practice")
    seconds = time.perf_counter() - start
    return Outcome(verdict.passed, verdict.tier, "" if verdict.passed else messages.failure(verdict), seconds)


def _forbidden() -> dict[str, list[str]]:
    lessons = load_curriculum(COURSE).lessons
    return {exercise.name: exercise.may_not_call for lesson in lessons for exercise in lesson.exercises}


def outcomes(chosen: list[Answer], workers: int) -> Iterator[tuple[Answer, Outcome]]:
    """Check answers in parallel processes."""
    with ProcessPoolExecutor(workers) as pool:
        yield from zip(chosen, pool.map(outcome, chosen, chunksize=8), strict=True)


def main() -> None:
    """Print a table of both halves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="only this exercise")
    parser.add_argument(
        "--show",
        nargs="*",
        choices=[*TIERS, "accepted", "rejected"],
        default=[],
        help="print open answers with this outcome",
    )
    arguments = parser.parse_args()
    chosen = [a for a in answers() if not a.excluded and arguments.only in ("", a.exercise)]
    counts: Counter[tuple[str, str]] = Counter()
    slowest = 0.0
    for answer, found in outcomes(chosen, arguments.workers):
        kind = "right" if answer.right else "wrong"
        result = ("accepted" if found.passed else "rejected") if answer.right or found.passed else found.tier
        counts[answer.half, kind] += 1
        counts[answer.half, f"{kind} {result}"] += 1
        slowest = max(slowest, found.seconds)
        surprising = (result == "accepted" and not answer.right) or result == "rejected"
        if answer.half == "open" and (result in arguments.show) and (surprising or not answer.right):
            print(
                f"--- {answer.exercise}: {kind} {result}; {'; '.join(answer.slips)} ({found.seconds:.1f} s)"
            )
            print(answer.code.strip(), "\n", found.message, "\n", sep="")
    for half in HALVES:
        wrong, right = counts[half, "wrong"], counts[half, "right"]
        rejected = wrong - counts[half, "wrong accepted"]
        shares = {tier: counts[half, f"wrong {tier}"] / max(rejected, 1) for tier in TIERS}
        tiers = ", ".join(f"{tier} {share:.1%}" for tier, share in shares.items())
        accepted = counts[half, "right accepted"]
        print(f"{half}: {rejected} of {wrong} wrong rejected, {accepted} of {right} right accepted; {tiers}")
    print(f"slowest: {slowest:.1f} s")


if __name__ == "__main__":
    main()
