"""Subwords are lossless and reproducible, and text is never encoded as special tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.translation.data.vocabulary import Vocabulary
from course_lib.translation.distributed import SINGLE_PROCESS, DistributedInfo
from tests.translation.phrases import phrase_pairs
from tests.translation.real_processes import in_processes

SENTENCES = [sentence for pair in phrase_pairs(200, seed=0) for sentence in pair]
LEARNT = Vocabulary.learn(SENTENCES, 400)


def fingerprint(distributed: DistributedInfo, sentences: list[str]) -> str:
    return Vocabulary.learn(sentences, 400).fingerprint


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: not text.startswith(" ")))
)
def test_any_text_comes_back(texts: list[str]) -> None:
    assert LEARNT.decode(LEARNT.encode(texts)) == texts


@pytest.mark.parametrize("text", ["<pad>", "zwei <end> drei", "<start><unknown>", "日本 ☃ 𝕏"])
def test_text_never_becomes_a_special_symbol(text: str) -> None:
    ids = LEARNT.encode([text])[0]
    specials = {LEARNT.pad_id, LEARNT.start_id, LEARNT.end_id, LEARNT.unknown_id}
    assert specials == {0, 1, 2, 3}
    assert not specials & set(ids)
    assert LEARNT.decode([ids]) == [text]


def test_decoding_leaves_out_start_end_and_padding() -> None:
    ids = LEARNT.encode(["zwei rote Hunde."])[0]
    row = [LEARNT.start_id, *ids, LEARNT.end_id, LEARNT.end_id, LEARNT.pad_id]
    assert LEARNT.decode([row]) == ["zwei rote Hunde."]


def test_frequent_words_are_single_subwords_wherever_they_stand() -> None:
    first, later = LEARNT.encode(["Hunde", "zwei Hunde"])
    assert len(first) == 1
    assert later[-1:] == first


def test_the_size_is_a_limit() -> None:
    assert len(Vocabulary.learn(SENTENCES, 300)) == 300
    assert 260 < len(Vocabulary.learn(["ab ab ab"], 1000)) < 270


def test_the_same_sentences_give_the_same_subwords_in_every_process() -> None:
    assert set(in_processes(2, fingerprint, SENTENCES)) == {LEARNT.fingerprint}
    assert fingerprint(SINGLE_PROCESS, SENTENCES[:100]) != LEARNT.fingerprint
