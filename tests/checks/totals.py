"""What the kill matrices in the repo hold, in one line: `python -m tests.checks.totals`."""

import csv
from collections import Counter
from dataclasses import dataclass

from course_lib.checks.engine.exercise import Exercise
from tests.checks.kill_matrix import FOLDER, exercises
from tests.checks.unrelated import UNRELATED


@dataclass(frozen=True)
class Totals:
    """Counts over all exercises."""

    exercises: int
    misconceptions: int
    named: int
    """Misconceptions for which the student is told just that one."""
    pairs: int
    variants: int
    unrelated: int
    false_accusations: int
    """Right answers for which a mistake is named."""

    def __str__(self) -> str:
        return (
            f"The kill matrix: {self.exercises} exercises; {self.misconceptions} misconceptions, of which "
            f"{self.named} are named correctly; {self.pairs} pairs; {self.variants} right variants and "
            f"{self.unrelated} unrelated wrong answers; {self.false_accusations} false accusations."
        )


def kept_rows(exercise: Exercise) -> list[dict[str, str]]:
    """Read an exercise's matrix as it stands in the repo."""
    with (FOLDER / f"{exercise.name}.csv").open(encoding="utf-8", newline="") as kept:
        return list(csv.DictReader(kept))


def totals() -> Totals:
    """Count. That the matrices are true, and nobody is named for an unrelated answer, is tested elsewhere."""
    rows = [row for exercise in exercises() for row in kept_rows(exercise)]
    kinds = Counter(row["kind"] for row in rows)
    return Totals(
        exercises=kinds["reference"],
        misconceptions=kinds["misconception"],
        named=sum(row["kind"] == "misconception" and row["told"] == row["name"] for row in rows),
        pairs=kinds["pair"],
        variants=kinds["variant"],
        unrelated=sum(len(answers) for answers in UNRELATED.values()),
        false_accusations=sum(row["kind"] in ("reference", "variant") and bool(row["told"]) for row in rows),
    )


if __name__ == "__main__":
    print(totals())
