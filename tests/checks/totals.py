"""Print the totals of the kill matrix in one line: `python -m tests.checks.totals`."""

from dataclasses import dataclass

from tests.checks.kill_matrix import kept
from tests.checks.unrelated import UNRELATED


@dataclass(frozen=True)
class Totals:
    """Counts over all exercises."""

    exercises: int
    misconceptions: int
    named: int
    """Misconceptions that are named alone and correctly."""
    pairs: int
    variants: int
    unrelated: int
    false_accusations: int
    """Correct answers that are rejected."""

    def __str__(self) -> str:
        return (
            f"The kill matrix: {self.exercises} exercises; {self.misconceptions} misconceptions, of which "
            f"{self.named} are named correctly; {self.pairs} pairs; {self.variants} correct variants and "
            f"{self.unrelated} unrelated wrong answers; {self.false_accusations} false accusations."
        )


def totals() -> Totals:
    """Add up the counts in `kill_matrix.toml`, which another test compares with the checks."""
    found = kept().values()
    misconceptions = sum(one["misconceptions"] for one in found)
    return Totals(
        exercises=len(found),
        misconceptions=misconceptions,
        named=misconceptions - sum(" + " not in name for one in found for name in one.get("not_named", ())),
        pairs=sum(one["pairs"] for one in found),
        variants=sum(one["variants"] for one in found),
        unrelated=sum(len(answers) for answers in UNRELATED.values()),
        false_accusations=sum(len(one.get("correct_but_rejected", ())) for one in found),
    )


if __name__ == "__main__":
    print(totals())
