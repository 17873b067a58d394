"""The length penalty that suits a model, chosen on sentences that are neither learnt from nor tested on."""

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.transformer import length_penalty
from course_lib.translation.training.scoring import score

#: The exponents to choose from.
GRID = tuple(tenths / 10 for tenths in range(0, 21, 2))


@dataclass(frozen=True)
class Candidate:
    """One of the translations that a search has kept to its end."""

    text: str
    length: int
    """Tokens, the end symbol counted."""
    log_probability: float


@dataclass(frozen=True)
class Tuned:
    """The exponent with the best score, and what the others scored."""

    alpha: float
    bleu: dict[float, float]
    """BLEU of each exponent that was tried."""


def tune_alpha(found: Sequence[Sequence[Candidate]], references: Sequence[str]) -> Tuned:
    """Choose the exponent of the length penalty by BLEU; of equal ones the smallest.

    `found` holds, for each sentence, all that a search of full beam ends on. The penalty only chooses among
    these at the end, and the search itself doesn't know it: so one search tells what each would give.
    """
    bleu: dict[float, float] = {}
    scored: dict[tuple[str, ...], float] = {}
    for alpha in GRID:
        chosen = tuple(best(candidates, alpha).text for candidates in found)
        if chosen not in scored:
            scored[chosen] = score(chosen, references).bleu
        bleu[alpha] = scored[chosen]
    return Tuned(max(GRID, key=lambda alpha: bleu[alpha]), bleu)


def best(candidates: Sequence[Candidate], alpha: float) -> Candidate:
    """Choose the translation with the highest log-probability over its length penalty."""
    return max(candidates, key=lambda each: each.log_probability / length_penalty(each.length, alpha))
