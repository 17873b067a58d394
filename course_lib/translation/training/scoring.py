"""BLEU, with the signature that says how it was counted."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU


@dataclass(frozen=True)
class Score:
    """A BLEU score, 0 to 100, and sacrebleu's signature: only scores of one signature compare."""

    bleu: float
    signature: str


def score(translations: Sequence[str], references: Sequence[str], lowercase: bool = False) -> Score:
    """Score plain translations against one reference each (Post 2018, arXiv 1804.08771).

    Case counts. With `lowercase` it doesn't, as in some published scores; the signature then says so.
    """
    metric = BLEU(lowercase=lowercase)
    bleu = metric.corpus_score(list(translations), [list(references)]).score
    return Score(float(bleu), str(metric.get_signature()))
