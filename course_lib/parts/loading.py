"""From a folder of lessons to parts."""

from pathlib import Path

from course_lib.parts.assembly import Parts, Recipe, assemble
from course_lib.parts.errors import PartsError
from course_lib.parts.lessons import LESSONS, lessons_through
from course_lib.parts.notebook import read_notebook


def load_parts(folder: str | Path, *, through: int = len(LESSONS), seconds: float = 10.0) -> Parts:
    """Read a student's parts of lessons 1 to `through` from the notebooks in a folder.

    Only solution cells are run, each for so many `seconds` at most, and of the setup cells the imports. What
    is missing, unfinished or broken is named in `Parts.table()`, and the reference's part takes its place.
    Raises PartsError where there is no such folder or lesson.
    """
    root = Path(folder)
    if _is_missing(root):
        raise PartsError(f"{root}: there is no such folder; give the one that holds the lessons' folders")
    recipes = [
        recipe
        for lesson, exercises in lessons_through(through).items()
        for recipe in _recipes(root, lesson, exercises)
    ]
    return assemble(recipes, seconds)


def _is_missing(root: Path) -> bool:
    try:
        return not root.is_dir()
    except OSError:  # there is something, and it may not be looked at: the notebooks will say so
        return False


def _recipes(root: Path, lesson: str, exercises: tuple[str, ...]) -> list[Recipe]:
    try:
        notebook = read_notebook(root, lesson)
    except PartsError as error:
        return [Recipe(lesson, exercise, why=str(error)) for exercise in exercises]
    recipes = []
    for exercise in exercises:
        place = f"{notebook.place}, cell {exercise}"
        try:
            code, why = notebook.solution(exercise), ""
        except PartsError as error:
            code, why = None, str(error)
        recipes.append(Recipe(lesson, exercise, place, notebook.setup, code, why))
    return recipes
