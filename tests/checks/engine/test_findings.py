"""Findings reach every active recorder, nested ones too."""

from course_lib.checks.engine.findings import Finding, emit, record


def test_nested_recorders_both_collect() -> None:
    first, second, third = (Finding(name, "right") for name in ("first", "second", "third"))
    with record() as outer:
        emit(first)
        with record() as inner:
            emit(second)
        emit(third)
    assert outer == [first, second, third]
    assert inner == [second]


def test_nested_recorders_that_hold_the_same_are_told_apart() -> None:
    """Leaving the inner of two recorders with equal findings must not remove the outer one."""
    with record() as outer:
        with record() as inner:
            pass
        emit(Finding("later", "right"))
    assert len(outer) == 1
    assert inner == []


def test_nothing_is_collected_after_the_block() -> None:
    with record() as findings:
        pass
    emit(Finding("later", "right"))
    assert findings == []
