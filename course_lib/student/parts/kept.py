"""A copy of a student's code as one file, since the notebooks that it came from go on changing."""

import json
from pathlib import Path

from course_lib.atomic_files import atomic_write_text
from course_lib.student.parts.assembly import Parts, Recipe
from course_lib.student.parts.errors import PartsError

_KEPT = ("lesson", "exercise", "place", "setup", "code")


def keep_parts(parts: Parts, path: Path) -> None:
    """Write the code of the parts that are the student's, whole or not at all. Raises OSError."""
    recipes = [
        {name: getattr(recipe, name) for name in _KEPT}
        for recipe in parts.recipes
        if recipe.exercise in parts.yours
    ]
    atomic_write_text(path, json.dumps({"parts": recipes}, indent=1, ensure_ascii=False) + "\n")


def kept_recipes(path: Path, lessons: dict[str, tuple[str, ...]]) -> list[Recipe]:
    """Read what `keep_parts` wrote; what was not the student's then is not now. Raises PartsError."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["parts"]
        kept = {entry["exercise"]: _recipe(*(str(entry[name]) for name in _KEPT)) for entry in entries}
    except OSError as error:
        raise PartsError(f"{path}: it cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise PartsError(
            f"{path}: expected the folder that holds the lessons, or the parts.json that a run has kept, and "
            "it is neither"
        ) from None
    return [
        kept.get(exercise, Recipe(lesson, exercise))
        for lesson, names in lessons.items()
        for exercise in names
    ]


def _recipe(lesson: str, exercise: str, place: str, setup: str, code: str) -> Recipe:
    return Recipe(lesson, exercise, place, setup, code)
