"""BLEU is sacrebleu's, cased, with its signature."""

import pytest

from course_lib.translation.train.scoring import score

REFERENCES = ["A man in a red coat sleeps.", "Two dogs are running."]


def test_the_same_sentences_score_a_hundred() -> None:
    result = score(REFERENCES, REFERENCES)
    assert result.bleu == pytest.approx(100)
    assert result.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_case_counts() -> None:
    assert score([text.lower() for text in REFERENCES], REFERENCES).bleu < 90


def test_lowercased_it_does_not_and_the_signature_says_so() -> None:
    result = score([text.lower() for text in REFERENCES], REFERENCES, lowercase=True)
    assert result.bleu == pytest.approx(100)
    assert result.signature.startswith("nrefs:1|case:lc|")
