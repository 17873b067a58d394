"""Detection of copied answers among answers that people wrote independently."""

import re
import tomllib
from pathlib import Path

import pytest

from autograder.reports.class_report.records import ClassRecords, SubmissionRecord
from autograder.reports.class_report.similarity import LISTED_FROM, REFERENCE, similar_answers
from course_lib.checks.exercises.registry import catalogue

pytestmark = pytest.mark.slow

BATTERY = Path(__file__).parents[2] / "checks" / "battery"


def submission(student: str, exercise: str, code: str) -> SubmissionRecord:
    return SubmissionRecord("10-data", student, True, 0.0, None, None, (), {exercise: code}, None, False)


def class_of(exercise: str) -> list[SubmissionRecord]:
    """Return a class whose correct answers were written independently."""
    answers = [
        answer["code"]
        for path in sorted(BATTERY.glob("10-*.toml"))
        for answer in tomllib.loads(path.read_text(encoding="utf-8"))["answer"]
        if answer["exercise"] == exercise and answer["right"]
    ]
    assert len(answers) >= 5
    return [submission(f"s{number}", exercise, code) for number, code in enumerate(answers)]


@pytest.mark.parametrize("exercise", ["token_batches", "collate"])
def test_a_copy_with_other_names_and_a_pasted_reference_are_found(exercise: str) -> None:
    students = class_of(exercise)
    assert not [row for row in similar_answers(ClassRecords(submissions=students)) if row["similarity"] == 1]

    code = students[0].answers[exercise]
    assigned = set(re.findall(r"^ +(\w+) = ", code, re.MULTILINE))
    renamed = re.sub(rf"\b({'|'.join(assigned)})\b", r"my_\1", code)
    assert renamed != code
    pasted = "# my own work\n" + catalogue()[exercise].source  # type: ignore[union-attr]
    copies = [submission("copycat", exercise, renamed), submission("paster", exercise, pasted)]
    found = similar_answers(ClassRecords(submissions=[*students, *copies]))
    same = [(row["students"], row["other"]) for row in found if row["similarity"] == 1]
    assert same == [(["paster"], [REFERENCE]), (["s0", "copycat"], [])]


def test_a_reworded_explanation_is_found() -> None:
    texts = {
        "ann": "Each score is a sum of d products, so its variance grows with d. Dividing by the square root "
        "of d keeps the variance at one, whatever the width, and the softmax stays away from its flat ends.",
        "ben": "Each score is a sum of d products, and so its variance grows with d. If we divide by the "
        "root of d, the variance stays at one, for any width, and the softmax stays away from its flat ends.",
        "cem": "Without the factor, wide queries would give large scores. The softmax of large scores is "
        "nearly one-hot, and there its gradient vanishes. So training would be slow at the beginning.",
        "dan": "Because the dot product of random vectors gets larger if they have more components, and the "
        "softmax would then choose a single key. After the division, this no longer depends on d.",
        "eva": "*Write your answer here.*",
    }
    students = [submission(name, "explain_scaling", text) for name, text in texts.items()]
    [row] = similar_answers(ClassRecords(submissions=students))
    assert (row["students"], row["other"]) == (["ann"], ["ben"])
    assert (row["answer"], row["other_answer"]) == (texts["ann"], texts["ben"])
    assert row["usual"] < 0.6 < LISTED_FROM <= row["similarity"] < 1


def test_code_that_cannot_be_parsed_is_left_out() -> None:
    students = [submission(name, "collate", "def collate(:\n") for name in ("ann", "ben")]
    assert similar_answers(ClassRecords(submissions=students)) == []
