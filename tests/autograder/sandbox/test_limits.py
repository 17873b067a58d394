import dataclasses
import re

import pytest

from autograder.sandbox.limits import Limits

pytestmark = pytest.mark.sandbox


@pytest.mark.parametrize("value", [0, -1, True, None, "60", float("nan"), float("inf"), 2**63])
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
def test_only_positive_numbers_are_limits(name: str, value: object) -> None:
    with pytest.raises(
        ValueError, match=rf"limit {name}: expected a positive .*, got {re.escape(repr(value))}"
    ):
        Limits(**{name: value})


def test_a_size_is_a_whole_number() -> None:
    with pytest.raises(ValueError, match=r"memory_bytes: expected a positive whole number, got 0\.5"):
        Limits(memory_bytes=0.5)
