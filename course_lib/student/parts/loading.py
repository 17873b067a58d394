"""From a folder of lessons to parts."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_lib.student.parts.assembly import Parts, Recipe, assemble
from course_lib.student.parts.errors import AbsentError, PartsError
from course_lib.student.parts.kept import kept_recipes
from course_lib.student.parts.lessons import THROUGH_TRAINING, lessons_through
from course_lib.student.parts.notebook import read_notebook


def load_parts(
    folder: str | Path,
    *,
    through: int = THROUGH_TRAINING,
    seconds: float = 10.0,
    names: Mapping[str, Any] | None = None,
) -> Parts:
    """Read a student's parts of lessons 1 to `through` from the notebooks in a folder.

    The folder may be a file instead, as `keep_parts` writes it. `names` stand in the namespace of every cell.
    Only solution cells are run, each for so many `seconds` at most, and of the setup cells the imports. What
    is missing, unfinished or broken is named in `Parts.table()`, and the reference's part takes its place.
    Raises PartsError where there is no such folder or lesson.
    """
    root = Path(folder)
    if _is_missing(root):
        raise PartsError(f"{root}: there is no such folder; give the one that holds the lessons' folders")
    lessons = lessons_through(through)
    if os.path.isfile(root):  # Unlike its namesake, it says no to what may not be looked at.
        recipes = kept_recipes(root, lessons)
    else:
        recipes = [
            recipe for lesson, exercises in lessons.items() for recipe in _recipes(root, lesson, exercises)
        ]
    return assemble(recipes, seconds, names=names)


def _is_missing(root: Path) -> bool:
    try:
        return not root.exists()
    except OSError:  # there is something, and it may not be looked at: the notebooks will say so
        return False


def _recipes(root: Path, lesson: str, exercises: tuple[str, ...]) -> list[Recipe]:
    try:
        notebook = read_notebook(root, lesson)
    except PartsError as error:
        absent = isinstance(error, AbsentError)
        return [Recipe(lesson, exercise, why=str(error), absent=absent) for exercise in exercises]
    recipes = []
    for exercise in exercises:
        place = f"{notebook.place}, cell {exercise}"
        try:
            code, why = notebook.solution(exercise), ""
        except PartsError as error:
            code, why = None, str(error)
        recipes.append(Recipe(lesson, exercise, place, notebook.setup, code, why))
    return recipes
