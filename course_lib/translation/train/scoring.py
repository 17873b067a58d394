"""BLEU scores, and tuning of the length penalty for BLEU."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU

from course_lib.transformer import length_penalty
from course_lib.translation.decoding.search_settings import Hypothesis

#: The text of a translation found by a search, and its hypothesis.
Candidate = tuple[str, Hypothesis]
#: The candidate exponents of the length penalty.
ALPHAS = tuple(tenths / 10 for tenths in range(0, 21, 2))


@dataclass(frozen=True)
class Score:
    """A BLEU score from 0 to 100, with sacreBLEU's signature. Compare only scores with the same signature."""

    bleu: float
    signature: str


def score(translations: Sequence[str], references: Sequence[str]) -> Score:
    """Compute the BLEU score of translations with one reference each (Post 2018, arXiv 1804.08771)."""
    metric = BLEU()
    bleu = metric.corpus_score(list(translations), [list(references)]).score
    return Score(float(bleu), str(metric.get_signature()))


def tokenized_score(translations: Sequence[str], references: Sequence[str], language: str) -> Score:
    """Compute the BLEU score after tokenising the text and splitting compounds, as in table 2 of the paper.

    Published scores for WMT 2014 were computed on the tokens of Moses' tokenizer, with "text-book" split into
    "text", "-" and "book". These tokens are easier to match than sacreBLEU's, so the score is usually 0.5 to
    1 higher. The two kinds of scores must not be compared. `language` is the code of the target language.
    """
    from sacremoses import MosesTokenizer  # Imported here because only the end of a run needs it.

    moses = MosesTokenizer(language)

    def tokens(text: str) -> str:
        words: str = moses.tokenize(text, escape=False, return_str=True)
        return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", words)

    metric = BLEU(tokenize="none", force=True)
    sides = [[tokens(text) for text in side] for side in (translations, references)]
    bleu = metric.corpus_score(sides[0], [sides[1]]).score
    return Score(float(bleu), f"{metric.get_signature()}|moses|compounds:split")


@dataclass(frozen=True)
class TunedAlpha:
    """The exponent of the length penalty with the best BLEU, and the BLEU of every candidate exponent."""

    alpha: float
    bleu: dict[float, float]


def tune_alpha(found: Sequence[Sequence[Candidate]], references: Sequence[str]) -> TunedAlpha:
    """Select the exponent of the length penalty with the best BLEU; if several are equal, the smallest.

    `found` holds all candidates of a full beam for each sentence. The penalty only ranks the candidates at
    the end of a search, so a single search is enough to compare all exponents.
    """
    bleu: dict[float, float] = {}
    scored: dict[tuple[str, ...], float] = {}
    for alpha in ALPHAS:
        chosen = tuple(best_candidate(candidates, alpha)[0] for candidates in found)
        if chosen not in scored:
            scored[chosen] = score(chosen, references).bleu
        bleu[alpha] = scored[chosen]
    return TunedAlpha(max(ALPHAS, key=lambda alpha: bleu[alpha]), bleu)


def best_candidate(candidates: Sequence[Candidate], alpha: float) -> Candidate:
    """Return the candidate with the highest log-probability divided by its length penalty."""

    def penalised(candidate: Candidate) -> float:
        _, hypothesis = candidate
        return hypothesis.log_probability / float(length_penalty(len(hypothesis.ids), alpha))

    return max(candidates, key=penalised)
