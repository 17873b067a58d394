"""A fixed sample of the battery: answers by people who knew only the exercises' contract."""

import hashlib

import pytest

from tests.benchmarks.battery import Answer, answers, outcome

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


def is_sampled(answer: Answer) -> bool:
    """Return whether an answer of the open half is among the one in 30 that every test run checks."""
    digest = hashlib.sha256(answer.code.encode()).digest()
    return answer.half == "open" and not answer.excluded and digest[0] % 30 == 0


@pytest.mark.parametrize(
    "answer", filter(is_sampled, answers()), ids=lambda answer: f"{answer.exercise}-{answer.style}"
)
def test_a_strangers_answer_gets_the_right_verdict(answer: Answer) -> None:
    found = outcome(answer)
    assert found.passed == answer.right, found.message or answer.slips
    assert found.passed or found.message.startswith(("✗", "○", "its cell raises"))


def test_every_answer_of_the_battery_has_what_it_needs() -> None:
    read = answers()
    assert {answer.half for answer in read} == {"open", "held-out"}
    assert all(answer.right or answer.slips for answer in read)
