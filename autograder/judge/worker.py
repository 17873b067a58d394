"""What a worker process does: it holds a sandbox, and what the judge knows of each lesson."""

import compileall
import contextlib
import ctypes
import faulthandler
import os
import signal
import tempfile
from functools import lru_cache
from pathlib import Path
from py_compile import PycInvalidationMode

import nbformat
import torch

from autograder.judge.job import Job, Result
from autograder.judge.lesson_view import lesson_view
from autograder.judge.locked_cells import imports_of, modules_of
from autograder.judge.notebook_run import LessonSide, run
from autograder.sandbox.archive import pack_files, whole_course
from autograder.sandbox.fork_server import Nursery
from course_lib.curriculum.course_file import LESSONS, SOURCES, load_curriculum

_DIES_WITH_PARENT = 1  # prctl(PR_SET_PDEATHSIG)

#: Seconds that a job may take beyond twice what its notebook may.
_LATE = 300.0

_nursery: Nursery | None = None


def prepare(owner: int, nursery: Nursery) -> None:
    """Make this process a worker of the process `owner`. Its sandbox may still be starting."""
    global _nursery
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != owner:
        os._exit(0)  # it has ended already
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the owner, who then ends the workers
    os.environ["IPYTHONDIR"] = str(nursery.folder / "ipython")  # not the instructor's own
    torch.set_num_threads(1)
    _nursery = nursery
    _nursery.start()


def grade(course: Path, job: Job) -> Result:
    """Run and judge one notebook."""
    assert _nursery is not None
    # Every wait has an end. Should one have none after all, this process ends, and its owner starts another.
    faulthandler.dump_traceback_later(2 * job.limits.notebook_seconds + _LATE, exit=True)
    try:
        return run(job, _lesson_side(course, job.lesson), _nursery)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _lesson_side(course: Path, name: str) -> LessonSide:
    """Give what is known of a lesson, or of an assignment that an instructor has added."""
    toml = course / SOURCES / "course.toml"
    released = tuple(sorted((course / LESSONS / name).glob("*.ipynb")))
    return _read(course, name, tuple((path, path.stat().st_mtime_ns) for path in (toml, *released)))


@lru_cache(maxsize=50)
def _read(course: Path, name: str, written: tuple[tuple[Path, int], ...]) -> LessonSide:
    curriculum = load_curriculum(course)
    cells = [cell for path, _ in written[1:] for cell in nbformat.read(path, as_version=4).cells]
    lesson = next((lesson for lesson in curriculum.lessons if lesson.name == name), None)
    view = _compiled(lesson_view(curriculum, lesson)) if lesson else {}
    to_write = lesson.written if lesson else {}
    return LessonSide(
        pack_files({f"course/{path}": content for path, content in view.items()} or whole_course()),
        # What is checked is never one of ours, even where a cell imports the reference under the same name.
        {name: value for name, value in imports_of(cells).items() if name not in to_write},
        {name: getattr(entry, "may_not_call", ()) for name, entry in to_write.items()},
        modules_of(cell for cell in cells if "see" not in cell.metadata.get("tags", [])),
    )


def _compiled(view: dict[str, bytes]) -> dict[str, bytes]:
    """Add the bytecode, which else each kernel would make anew."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, content in view.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        with contextlib.redirect_stdout(None):
            compileall.compile_dir(
                folder,
                quiet=2,
                stripdir=name,
                prependdir="/course",
                invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
            )
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
