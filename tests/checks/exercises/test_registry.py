import pytest

from course_lib.checks.exercises.registry import Check, catalogue, find, probes_of
from course_lib.curriculum import Lesson, public_curriculum


@pytest.mark.parametrize("lesson", public_curriculum().lessons, ids=lambda lesson: lesson.name)
def test_a_lesson_has_exactly_the_checks_of_the_curriculum(lesson: Lesson) -> None:
    defined = vars(probes_of(lesson)).items()
    checks = [entry.name or variable.lower() for variable, entry in defined if isinstance(entry, Check)]
    assert sorted(checks) == sorted(lesson.checked)


def test_the_catalogue_has_every_check_of_the_curriculum() -> None:
    assert list(catalogue()) == [name for lesson in public_curriculum().lessons for name in lesson.checked]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'attension'.*attention_scores"):
        find("attension")
