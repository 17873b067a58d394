"""The part of the curriculum that students may see."""

import json
from pathlib import Path

from course_lib.curriculum import CURRICULUM, INSTRUCTORS_ONLY, public_curriculum, public_json
from course_lib.curriculum.course_file import load_curriculum

COURSE = Path(__file__).parents[1]


def test_the_committed_file_is_what_course_toml_gives() -> None:
    assert CURRICULUM.read_text(encoding="utf-8") == public_json(load_curriculum(COURSE))


def test_it_gives_nothing_away() -> None:
    def keys(entry: object) -> set[str]:
        if isinstance(entry, dict):
            return entry.keys() | {key for value in entry.values() for key in keys(value)}
        return {key for item in entry for key in keys(item)} if isinstance(entry, list) else set()

    found = keys(json.loads(CURRICULUM.read_text(encoding="utf-8")))
    assert not found & INSTRUCTORS_ONLY
    assert found == {
        *("title", "lessons", "name", "minutes", "points", "does", "part", "file"),
        *("predictions", "exercises", "explanations", "hand_ins"),
    }


def test_it_has_the_lessons_exercises_and_points_of_course_toml() -> None:
    for public, whole in zip(public_curriculum().lessons, load_curriculum(COURSE).lessons, strict=True):
        assert (public.name, public.title, public.points) == (whole.name, whole.title, whole.points)
        assert all(exercise.hints == [] for exercise in public.exercises)
    assert public_curriculum().parts == load_curriculum(COURSE).parts


def test_the_exercises_on_the_map() -> None:
    blocks = public_curriculum().blocks
    first = [name for name, (lesson, _) in blocks.items() if int(lesson.name[:2]) <= 1]
    assert first == ["attention_scores", "attention_weights", "scaled_dot_product_attention"]
