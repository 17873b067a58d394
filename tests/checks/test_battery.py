"""A fixed sample of the battery: answers whose authors knew only the exercises' contract."""

import hashlib

import pytest

from tests.benchmarks.battery import Answer, answers, outcome

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


def chosen(answer: Answer) -> bool:
    return hashlib.sha256(answer.code.encode()).digest()[0] % 128 == 0


#: One in 128 answers of the open half.
SAMPLE = [
    pytest.param(answer, id=f"{answer.exercise}-{answer.style}")
    for answer in answers()
    if answer.half == "open" and not answer.excluded and chosen(answer)
]


@pytest.mark.parametrize("answer", SAMPLE)
@pytest.mark.slow
def test_a_strangers_answer_gets_the_right_verdict(answer: Answer) -> None:
    found = outcome(answer)
    assert found.passed == answer.right, found.message or answer.slips
    assert found.passed or found.message.startswith(("✗", "○", "its cell raises"))


def test_every_answer_of_the_battery_has_what_it_needs() -> None:
    read = answers()
    assert {answer.half for answer in read} == {"open", "held-out"}
    assert all(answer.right or answer.slips for answer in read)
