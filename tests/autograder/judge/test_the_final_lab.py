"""Lessons 12 and 13 in a real sandbox: ranks that communicate, and files that were handed in.

These tests use a sandbox without bubblewrap, which has no network of its own. `test_every_lesson` uses the
strongest sandbox available.
"""

import inspect
import sys
from collections.abc import Iterator

import pytest

from autograder.example_class import example_files
from autograder.judge.job import Result
from autograder.release.build import COURSE
from course_lib.curriculum.course_file import load_curriculum
from course_lib.transformer.data_parallel import global_token_mean, shard
from tests.autograder.judge.worker_run import Classroom, classroom_of

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="submissions are graded on Linux"),
    pytest.mark.sandbox,
]

PARALLEL, LESSON = load_curriculum(COURSE).lessons[-2:]
FILES = example_files(LESSON)
SETUP = """
from collections.abc import Sequence
from typing import TypeVar
import torch
import torch.distributed as dist
from jaxtyping import Float, Int
from torch import Tensor
from course_lib.checks import check
Item = TypeVar("Item")
"""
#: A cell that looks for a reference solution, which the kernel's view of the course must not contain.
LOOKS = """
try:
    from course_lib.transformer.data_parallel import shard as reference
    reference([], 0, 1)
except Exception as error:
    print(type(error).__name__)
"""
#: A cell that rewrites the files to hand in. Files that are written during grading must not count.
REWRITES = """
import os
for name in ("config.yaml", "metrics.jsonl", "translations.txt"):
    with open(name, "w") as file:
        file.write("{}")
"""


def judged(name: str, points: float, **options: object) -> str:
    given = "".join(f", {key}={value!r}" for key, value in options.items())
    return (
        f"# judged\nfrom course_lib.checks import check\n"
        f'check("{name}", globals(){given}, grading={{"points": {points}, "seed": 7}})'
    )


@pytest.fixture(scope="module")
def classroom() -> Iterator[Classroom]:
    with classroom_of(LESSON.name, without=("bubblewrap",)) as made:
        yield made


def verdicts(result: Result) -> list[str]:
    return [finding["verdict"] for finding in result.findings.values()]


def test_right_answers_get_all_points(classroom: Classroom) -> None:
    result = classroom.run(
        SETUP,
        LOOKS,
        inspect.getsource(shard),
        judged("shard", 3),
        inspect.getsource(global_token_mean),
        judged("global_token_mean", 5),
        lesson=PARALLEL.name,
    )
    assert result.outputs[1][0]["text"] == "NotImplementedError\n"
    assert verdicts(result) == ["right", "right"]
    assert result.violations == []


def test_a_good_run_gets_all_points(classroom: Classroom) -> None:
    result = classroom.run(
        REWRITES,
        judged("hand_in_metrics", 1),
        judged("hand_in_translations", 8, levels=LESSON.hand_ins[-1].levels),
        files=tuple(FILES.items()),
    )
    assert verdicts(result) == ["right", "right"]
    assert result.violations == []


def test_what_the_code_writes_is_no_hand_in(classroom: Classroom) -> None:
    forges = f"open('translations.txt', 'wb').write({FILES['translations.txt']!r})"
    result = classroom.run(
        SETUP,
        forges,
        judged("hand_in_translations", 8, levels=LESSON.hand_ins[-1].levels),
    )
    assert verdicts(result) == ["missing"]


def test_a_known_mistake_is_named(classroom: Classroom) -> None:
    result = classroom.run(
        SETUP,
        "def shard(batches, rank, world_size):\n    return batches[rank:]",
        judged("shard", 3),
        lesson=PARALLEL.name,
    )
    assert verdicts(result) == ["wrong"]
    assert result.findings["cell-2"]["misconceptions"] == ["from_rank_on"]


def test_copied_references_are_for_a_person_to_look_at(classroom: Classroom) -> None:
    from course_lib.translation.data.corpora import load_captions

    copied = "".join(f"{line}\n" for line in load_captions().test.english).encode()
    check = judged("hand_in_translations", 8, levels=LESSON.hand_ins[-1].levels)
    result = classroom.run(
        check,
        f"{check}\n{judged('hand_in_metrics', 1)}",
        files=(("config.yaml", FILES["config.yaml"]), ("translations.txt", copied)),
    )
    assert verdicts(result) == ["right", "missing"]
    # The second cell contains a second check, which must not hide the first check's warning.
    assert (
        result.warnings
        == ["translations.txt is the reference, word for word (BLEU 100.0): did a model write it?"] * 2
    )
