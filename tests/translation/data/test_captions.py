"""The built-in corpus is the pinned one, and its splits satisfy the guarantees in their README."""

import csv
import re
from collections import Counter
from hashlib import sha256

import pytest

from course_lib.translation.data.corpora import CAPTIONS, load_captions
from course_lib.translation.data.corpora.parallel_text import Corpus, ParallelText

#: Every page, figure, example and score of the course was made with this text.
PINNED = "7d55bf504019d7c10430a85b5f764943f25a3cc29a2e88c9acbf1b90af3fe326"


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_captions()


def splits(corpus: Corpus) -> dict[str, ParallelText]:
    return {"train": corpus.train, "validation": corpus.validation, "test": corpus.test}


def words(sentence: str) -> set[str]:
    return set(sentence.removesuffix(".").replace(",", "").split())


def annotations() -> list[dict[str, str]]:
    with (CAPTIONS / "test.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_the_text_is_the_pinned_one(corpus: Corpus) -> None:
    lines = (
        f"{name}\t{german}\t{english}\n"
        for name, text in splits(corpus).items()
        for german, english in zip(text.german, text.english, strict=True)
    )
    assert sha256("".join(lines).encode()).hexdigest() == PINNED
    assert [len(text) for text in splits(corpus).values()] == [6000, 300, 300]


@pytest.mark.parametrize("side", ["german", "english"])
def test_no_sentence_occurs_twice(corpus: Corpus, side: str) -> None:
    sentences = [sentence for text in splits(corpus).values() for sentence in getattr(text, side)]
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("side", ["german", "english"])
def test_every_word_of_validation_and_test_occurs_in_training(corpus: Corpus, side: str) -> None:
    known = set().union(*map(words, getattr(corpus.train, side)))
    for text in (corpus.validation, corpus.test):
        assert set().union(*map(words, getattr(text, side))) <= known


def test_every_test_pair_has_a_combination_that_is_held_out_from_the_other_splits(corpus: Corpus) -> None:
    rows = annotations()
    assert len(rows) == len(corpus.test)
    elsewhere = "\n".join([*corpus.train.german, *corpus.validation.german])
    kinds: Counter[str] = Counter()
    for row, sentence in zip(rows, corpus.test.german, strict=True):
        for held_out in row["held out"].split("; "):
            kind, first, second = re.fullmatch(r"(\w+ \+ \w+): (.+) \+ (.+)", held_out).groups()  # type: ignore[union-attr]
            kinds[kind] += 1
            if kind == "adjective + noun":
                inflected = rf"\b{first}(e|e[mnrs])? {second}(e?[ns])?\b"
                assert not re.search(inflected, elsewhere), sentence
    assert min(kinds.values()) >= 50
    assert kinds.keys() == {"adjective + noun", "verb + object", "subject + place"}


def test_the_readme_counts_the_phenomena_of_the_test_split(corpus: Corpus) -> None:
    counts = Counter(name for row in annotations() for name in row["phenomena"].split("; ") if name)
    readme = (CAPTIONS / "README.md").read_text("utf-8")
    assert dict(re.findall(r"^\| ([a-z-]+) \| .* \| (\d+) \|$", readme, re.MULTILINE)) == {
        name: str(count) for name, count in counts.items()
    }
