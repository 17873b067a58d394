import dataclasses
import pickle
import re

import pytest

from autograder.sandbox.limits import Limits

pytestmark = pytest.mark.sandbox


def test_they_come_back_from_json() -> None:
    limits = Limits(cell_seconds=1.5, processes=3)
    assert Limits.from_json(limits.to_json()) == limits
    assert pickle.loads(pickle.dumps(limits)) == limits


def test_what_is_not_given_is_as_usual() -> None:
    assert Limits.from_json({"restarts": 2}) == Limits(restarts=2)


def test_an_unknown_limit_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"unknown limit memory_byte; choose from .*memory_bytes"):
        Limits.from_json({"memory_byte": 1, "restarts": 2})


@pytest.mark.parametrize("value", [0, -1, True, None, "60", float("nan"), float("inf"), 2**63])
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
def test_only_positive_numbers_are_limits(name: str, value: object) -> None:
    with pytest.raises(
        ValueError, match=rf"limit {name}: expected a positive .*, got {re.escape(repr(value))}"
    ):
        Limits.from_json({name: value})


def test_a_size_is_a_whole_number() -> None:
    with pytest.raises(ValueError, match=r"memory_bytes: expected a positive whole number, got 0\.5"):
        Limits.from_json({"memory_bytes": 0.5})
