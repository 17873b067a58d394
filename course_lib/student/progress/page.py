"""Keep the start page up to date: it is written before JupyterLab starts, and after each notebook saved."""

from pathlib import Path
from typing import Any

from course_lib.atomic_files import atomic_write_text
from course_lib.student.progress.notebooks import ProgressError, read_lessons
from course_lib.student.progress.table import start_page

#: The page's name, in the folder of the lessons.
PAGE = "start.md"


def write_page(folder: Path) -> Path:
    """Write the start page of a folder of lessons, and give its path."""
    path = folder / PAGE
    atomic_write_text(path, start_page(read_lessons(folder)))
    return path


def after_saving(*, model: dict[str, Any], contents_manager: Any, **_: Any) -> None:
    """Write the page anew. Jupyter's `post_save_hook`, which takes these names.

    Where that fails, the notebook is saved all the same, and the page stays as it was.
    """
    if model.get("type") != "notebook":
        return
    try:
        write_page(Path(contents_manager.root_dir))
    except (OSError, ProgressError) as error:
        contents_manager.log.warning("The start page is not up to date: %s", error)
