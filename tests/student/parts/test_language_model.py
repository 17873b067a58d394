"""The language model at the end of lesson 06, which must learn and produce known words."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from autograder.release.source import read_source
from course_lib.curriculum.course_file import load_curriculum

COURSE = Path(__file__).parents[3]
STEPS = 80


@pytest.fixture
def lesson(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that section 7 of the lesson defines, with the reference in place of a student's parts."""
    monkeypatch.chdir(COURSE / "lessons" / "06-the-transformer")
    lesson = load_curriculum(COURSE).lessons[6]
    names: dict[str, Any] = {}
    for cell in read_source(COURSE, lesson):
        # Run each of these cells up to the point where it uses its definitions.
        for start, end in (
            ("import torch", None),
            ("seen = []", "torch.manual_seed(0)"),
            ("from course_lib.student.parts", "print("),
            ("import re", None),
            ("def train", "threads = "),
            ("def write", "torch.manual_seed(1)"),
        ):
            if cell.role in ("given", "see") and start in cell.text.partition("(")[0]:
                exec(cell.text.partition(end)[0] if end else cell.text, names)
    return names


@pytest.mark.slow
def test_it_learns_more_than_the_frequency_of_words(lesson: dict[str, Any]) -> None:
    corpus = lesson["corpus"]
    torch.manual_seed(0)
    losses = lesson["train"](lesson["writer"], corpus, STEPS)
    counts = Counter(corpus[:, 1:].flatten().tolist())
    del counts[0]
    total = sum(counts.values())
    entropy = -sum(count / total * math.log(count / total) for count in counts.values())
    assert losses[0] > entropy
    assert sum(losses[-10:]) / 10 < 0.8 * entropy

    caption = lesson["write"](lesson["writer"], ["The", "girl"])
    assert caption[:2] == ["The", "girl"]
    assert set(caption) <= set(lesson["vocabulary"][3:])


def test_it_does_not_see_the_future(lesson: dict[str, Any]) -> None:
    tokens = lesson["corpus"][:1, :10].clone()
    with torch.no_grad():
        before = lesson["writer"](tokens)
        tokens[0, 6] = 5
        after = lesson["writer"](tokens)
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.equal(before[:, 6:], after[:, 6:])
