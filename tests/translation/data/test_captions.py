"""The built-in corpus is the pinned one, and its README counts its phenomena correctly."""

import csv
import re
from collections import Counter
from hashlib import sha256

import pytest

from course_lib.translation.data.corpora import CAPTIONS, load_captions
from course_lib.translation.data.corpora.parallel_text import Corpus, ParallelText

#: The hash of the text behind every page, figure, example and score of the course.
PINNED = "09013bbc1a2876a1ff1de02c5bc8607444923b8f4ff6de08de6e6bdb143f7dd9"


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_captions()


def splits(corpus: Corpus) -> dict[str, ParallelText]:
    return {"train": corpus.train, "validation": corpus.validation, "test": corpus.test}


def annotations() -> list[dict[str, str]]:
    with (CAPTIONS / "test.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_the_text_is_the_pinned_one(corpus: Corpus) -> None:
    lines = (
        f"{name}\t{german}\t{english}\n"
        for name, text in splits(corpus).items()
        for german, english in zip(text.german, text.english, strict=True)
    )
    content = "".join(lines) + (CAPTIONS / "test.tsv").read_text("utf-8")
    assert sha256(content.encode()).hexdigest() == PINNED
    assert [len(text) for text in splits(corpus).values()] == [6000, 300, 300]


def test_the_readme_counts_the_phenomena_of_the_test_split(corpus: Corpus) -> None:
    counts = Counter(name for row in annotations() for name in row["phenomena"].split("; ") if name)
    readme = (CAPTIONS / "README.md").read_text("utf-8")
    assert dict(re.findall(r"^\| ([a-z-]+) \| .* \| (\d+) \|$", readme, re.MULTILINE)) == {
        name: str(count) for name, count in counts.items()
    }
