"""The length penalty is tuned on the hypotheses of a single search."""

from course_lib.translation.decoding.search_settings import Hypothesis
from course_lib.translation.train.scoring import ALPHAS, best_candidate, tune_alpha

SHORT = ("A dog runs off.", Hypothesis([7] * 3, -3.0, 0.0))
LONG = ("Some dogs are running over the grass.", Hypothesis([7] * 9, -4.0, 0.0))


def test_a_larger_exponent_prefers_longer_translations() -> None:
    # -3 / (8/6)^alpha against -4 / (14/6)^alpha: they are equal at alpha = ln(4/3) / ln(14/8) = 0.514.
    assert best_candidate([SHORT, LONG], 0.5) == SHORT
    assert best_candidate([SHORT, LONG], 0.52) == LONG


def test_the_best_by_bleu_is_chosen_and_the_smallest_of_equal_ones() -> None:
    for wanted, alpha in ((SHORT, 0.0), (LONG, 0.6)):
        tuned = tune_alpha([[SHORT, LONG]] * 4, [wanted[0]] * 4)
        assert tuned.alpha == alpha
        assert tuple(tuned.bleu) == ALPHAS
        assert tuned.bleu[alpha] > 99
        assert [tuned.bleu[each] > 99 for each in ALPHAS] == [
            (each < 0.514) == (wanted is SHORT) for each in ALPHAS
        ]
