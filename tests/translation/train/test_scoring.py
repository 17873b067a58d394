"""BLEU is computed by sacreBLEU, is case-sensitive, and comes with a signature."""

import pytest

from course_lib.translation.train.scoring import score, tokenized_score

REFERENCES = ["A man in a red coat sleeps.", "Two dogs are running."]


def test_the_same_sentences_score_a_hundred() -> None:
    result = score(REFERENCES, REFERENCES)
    assert result.bleu == pytest.approx(100)
    assert result.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_case_counts() -> None:
    assert score([text.lower() for text in REFERENCES], REFERENCES).bleu < 90


def test_the_score_of_table_2_splits_compounds_on_both_sides() -> None:
    reference, half_right = ["Er kauft heute ein rot-grünes Auto."], ["Er kauft heute ein blau-grünes Auto."]
    assert tokenized_score(reference, reference, "de").bleu == pytest.approx(100)
    # By hand: 8 of 9 tokens, 6 of 8 pairs, 4 of 7 triples and 2 of 6 quadruples match.
    expected = 100 * (8 / 9 * 6 / 8 * 4 / 7 * 2 / 6) ** 0.25
    result = tokenized_score(half_right, reference, "de")
    assert result.bleu == pytest.approx(expected, abs=0.01)
    assert result.bleu > score(half_right, reference).bleu
    assert result.signature.endswith("|moses|compounds:split")
