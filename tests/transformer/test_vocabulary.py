"""`build_vocabulary`, as the exercises' contract specifies it."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from course_lib.transformer.vocabulary import build_vocabulary

SENTENCES = st.lists(st.lists(st.text("abcä", min_size=1, max_size=2), max_size=6), max_size=8)


def test_specials_then_frequent_then_by_spelling() -> None:
    sentences = [["b", "a", "b"], ["c", "b", "a", "ä"], ["c"]]
    assert build_vocabulary(sentences, 1, ["<pad>", "<unk>"]) == {
        "<pad>": 0,
        "<unk>": 1,
        "b": 2,
        "a": 3,
        "c": 4,
        "ä": 5,
    }


def test_rare_words_stay_out_and_specials_stay_once() -> None:
    assert build_vocabulary([["x", "x", "y", "<pad>", "<pad>"]], 2, ["<pad>"]) == {"<pad>": 0, "x": 1}


def test_no_sentences_give_the_specials() -> None:
    assert build_vocabulary([], 1, ["<pad>"]) == {"<pad>": 0}


@given(SENTENCES, st.integers(1, 4))
def test_order_and_membership(sentences: list[list[str]], min_count: int) -> None:
    counts = Counter(word for sentence in sentences for word in sentence)
    vocabulary = build_vocabulary(iter(sentences), min_count, ["<s>"])
    assert list(vocabulary.values()) == list(range(len(vocabulary)))
    words = list(vocabulary)[1:]
    assert set(words) == {word for word, count in counts.items() if count >= min_count}
    assert words == sorted(words, key=lambda word: (-counts[word], word))
