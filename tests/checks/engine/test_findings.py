"""A `record` block collects findings."""

from course_lib.checks.engine.findings import Finding, emit, record


def test_nothing_is_collected_outside_the_block() -> None:
    first, second, third = (Finding(name, "right") for name in ("first", "second", "third"))
    emit(first)
    with record() as findings:
        emit(second)
    emit(third)
    assert findings == [second]
