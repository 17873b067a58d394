"""The fixtures of lesson 10: they convert lists to facts that don't depend on a student's free choices."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import Raised, Returned
from course_lib.checks.exercises.fixtures.sentences import UNCHANGED, batching, on_lists
from course_lib.transformer.batching import token_batches

LENGTHS = tuple(3 + (7 * place) % 38 for place in range(150))
ALONE = tuple((place,) for place in range(150))


def told(found: Callable[..., Any], *arguments: Any) -> Any:
    student = Candidate(LocalBackend(found))
    reply = student.fixture(on_lists(student)).call(*arguments)
    return reply.value if isinstance(reply, Returned) else reply


def facts(found: Callable[..., Any], lengths: tuple[int, ...] = LENGTHS, budget: int = 200) -> Any:
    student = Candidate(LocalBackend(found))
    plan = token_batches(lengths, budget) if len(lengths) >= 100 else []
    size = sum(max(lengths[index] for index in batch) * len(batch) for batch in plan), len(plan)
    reply = student.fixture(batching(student, packed=size if plan else None)).call(lengths, budget)
    return reply.value if isinstance(reply, Returned) else reply


def differing(
    found: Callable[..., Any], lengths: tuple[int, ...] = LENGTHS, budget: int = 200
) -> dict[str, str]:
    right, given = facts(token_batches, lengths, budget), facts(found, lengths, budget)
    assert right.keys() == given.keys()
    return {name: given[name] for name in right if right[name] != given[name]}


def test_tuples_arrive_as_lists_and_pairs_as_pairs() -> None:
    kinds = told(lambda pairs: repr(pairs), (((4, 5), (6,)),))
    assert kinds == {"the result": "[([4, 5], [6])]", UNCHANGED: True}
    assert told(lambda words: repr(words), (("a",), ("b",)))["the result"] == "[['a'], ['b']]"


def test_a_change_far_inside_is_seen() -> None:
    assert told(lambda pairs: pairs[0][0].append(1), (((4, 5), (6,)),))[UNCHANGED] is False


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int64])
def test_all_whole_numbers_are_alike(dtype: torch.dtype) -> None:
    assert told(lambda: torch.tensor([[1, 2]], dtype=dtype))["the result"].dtype == torch.int64


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_other_dtypes_stay(dtype: torch.dtype) -> None:
    assert told(lambda: torch.ones(2, 2, dtype=dtype))["the result"].dtype == dtype


@pytest.mark.parametrize("choose", [min, max])
def test_the_smallest_of_nothing_is_one_error(choose: Callable[..., Any]) -> None:
    error = told(lambda words: choose({}), ())
    assert isinstance(error, Raised)
    assert error.message == "min() or max() of an empty sequence"
    assert "choose({})" in error.line


def test_other_errors_stay() -> None:
    error = told(lambda words: int("x"), ())
    assert isinstance(error, Raised)
    assert "invalid literal" in error.message


def test_the_order_of_batches_and_in_batches_is_free() -> None:
    def turned(lengths: list[int], max_tokens: int) -> list[tuple[int, ...]]:
        return [tuple(reversed(batch)) for batch in reversed(token_batches(lengths, max_tokens))]

    assert differing(turned) == {}


@pytest.mark.parametrize(
    ("change", "name", "fact"),
    [
        (lambda batches: batches[1:], "the number of sentences in no batch", "24 (indices 0, 6, 11, 17"),
        (lambda batches: [*batches, [3]], "the number of sentences in several batches", "1 (index 3)"),
        (lambda batches: [*batches, [150]], "the number of indices without a sentence", "1 (index 150)"),
        (lambda batches: [*batches, []], "the number of empty batches", "1"),
        (
            lambda batches: [[*batches[0], *batches[-1]], *batches[1:-1]],
            "the number of batches over the budget",
            "1, with ",
        ),
        (lambda batches: ALONE, "the number of batches", "150, where sorting gives 18"),
        (lambda batches: {0: [1]}, "the result", "dict"),
        (lambda batches: [0, 1], "the result", "a different list"),
        (lambda batches: [[0.0], [1.0]], "the result", "a different list"),
    ],
)
def test_each_fault_is_told(change: Callable[[Any], Any], name: str, fact: str) -> None:
    found = differing(lambda lengths, max_tokens: change(token_batches(lengths, max_tokens)))
    assert found[name].startswith(fact)


def test_padding_is_told_where_it_is_too_much() -> None:
    def in_order(lengths: list[int], max_tokens: int) -> list[list[int]]:
        return [list(range(start, start + 5)) for start in range(0, 150, 5)]

    found = differing(in_order)
    assert set(found) == {"the share of padding", "the number of batches"}
    assert "where sorting gives" in found["the share of padding"]


def test_sorting_in_place_is_told() -> None:
    def sort(lengths: list[int], max_tokens: int) -> list[list[int]]:
        batches = token_batches(lengths, max_tokens)
        lengths.sort()
        return batches

    assert differing(sort) == {UNCHANGED: False}


def _refuse(message: str, kind: type[Exception] = ValueError) -> Callable[..., Any]:
    def refuse(lengths: list[int], max_tokens: int) -> list[list[int]]:
        raise kind(message)

    return refuse


@pytest.mark.parametrize(
    ("found", "fact"),
    [
        (lambda lengths, max_tokens: [[0], [1], [2]], None),
        (_refuse("sentence 1 is too long: 57 tokens"), None),
        (_refuse("sentence 1 is too long"), "rejected with a ValueError without 57 in its message"),
        (_refuse("sentence 11 has 57 tokens"), "rejected with a ValueError without 1 in its message"),
        (_refuse("too long"), "rejected with a ValueError without 1 and 57 in its message"),
        (_refuse("1 has 57", RuntimeError), "rejected with an exception of type RuntimeError"),
        (lambda lengths, max_tokens: [[0], [2]], "in no batch"),
        (lambda lengths, max_tokens: [[0, 1], [2]], "in a batch with 1 more"),
    ],
)
def test_a_sentence_over_the_budget(found: Callable[..., Any], fact: str | None) -> None:
    expected = {} if fact is None else {"the sentence over the budget": fact}
    assert differing(found, lengths=(3, 57, 4), budget=40) == expected


def test_an_accident_is_no_refusal() -> None:
    assert isinstance(facts(lambda lengths, max_tokens: lengths[57], (3, 57, 4), 40), Raised)


def test_an_error_where_nothing_is_too_long_is_an_error() -> None:
    assert isinstance(facts(_refuse("no"), lengths=(3, 4), budget=40), Raised)
