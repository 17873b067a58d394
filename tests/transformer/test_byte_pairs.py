"""`learn_merges`, as the contract specifies it, compared with a version that recounts all pairs."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from course_lib.transformer.byte_pairs import learn_merges


def merged(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    if len(symbols) < 2:
        return symbols
    if (symbols[0], symbols[1]) == pair:
        return [symbols[0] + symbols[1], *merged(symbols[2:], pair)]
    return [symbols[0], *merged(symbols[1:], pair)]


def slow_merges(words: dict[str, int], count: int) -> list[tuple[str, str]]:
    spelt = [(list(word), times) for word, times in words.items()]
    merges: list[tuple[str, str]] = []
    while len(merges) < count:
        pairs = Counter(pair for symbols, times in spelt for pair in list(pairwise(symbols)) * times)
        if not pairs:
            break
        merges.append(sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[0][0])
        spelt = [(merged(symbols, merges[-1]), times) for symbols, times in spelt]
    return merges


def test_the_example_of_sennrich_et_al() -> None:
    words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    assert learn_merges(words, 4) == [("e", "s"), ("es", "t"), ("l", "o"), ("lo", "w")]


def test_ties_go_to_the_smallest_pair() -> None:
    assert learn_merges({"ba": 1, "ab": 1, "cd": 2}, 3) == [("c", "d"), ("a", "b"), ("b", "a")]


def test_a_run_of_one_letter_is_merged_from_the_left() -> None:
    assert learn_merges({"aaaaa": 1}, 5) == [("a", "a"), ("aa", "a"), ("aa", "aaa")]


def test_it_ends_where_no_pair_is_left() -> None:
    assert learn_merges({"ab": 3, "c": 9, "": 1}, 10) == [("a", "b")]
    assert learn_merges({}, 10) == []
    assert learn_merges({"ab": 3}, 0) == []


@given(st.dictionaries(st.text("abc", max_size=7), st.integers(1, 5), max_size=6), st.integers(0, 8))
def test_it_agrees_with_recounting_every_time(words: dict[str, int], count: int) -> None:
    kept = dict(words)
    assert learn_merges(words, count) == slow_merges(words, count)
    assert words == kept
