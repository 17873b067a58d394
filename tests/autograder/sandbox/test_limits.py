import dataclasses
import re
from itertools import product

import pytest

from autograder.sandbox.limits import Limits

pytestmark = pytest.mark.sandbox


NAMES = [field.name for field in dataclasses.fields(Limits)]
VALUES = (0, -1, True, None, "60", float("nan"), float("inf"), 2**63)


@pytest.mark.parametrize(
    ("name", "value"),
    [*product(["cell_seconds", "restarts"], VALUES), *((name, 0) for name in NAMES)],
)
def test_only_positive_numbers_are_limits(name: str, value: object) -> None:
    with pytest.raises(
        ValueError, match=rf"limit {name}: expected a positive .*, got {re.escape(repr(value))}"
    ):
        Limits(**{name: value})


def test_a_size_is_a_whole_number() -> None:
    with pytest.raises(ValueError, match=r"memory_bytes: expected a positive whole number, got 0\.5"):
        Limits(memory_bytes=0.5)
