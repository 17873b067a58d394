"""Prepare the judge's information about a lesson, and the files that its kernels can import."""

import ast
import compileall
import contextlib
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode

from autograder.judge.lesson_source import LessonSource
from autograder.judge.lesson_view import lesson_view
from autograder.sandbox.archive import pack_files, whole_course


@dataclass(frozen=True)
class LessonContext:
    """The judge's information about a lesson."""

    archive: int
    """The descriptor of a tar file with the modules that the lesson's kernels can import."""
    trusted: Mapping[str, object]
    """The values that locked cells can use in addition to the student's, keyed by name."""
    may_not_call: Mapping[str, Sequence[str]]
    """The functions that each exercise prohibits, keyed by the exercise's name."""
    imports: tuple[str, ...] = ()
    """The modules that the fork server imports, because the lesson's cells use them."""


def prepare_lesson_context(source: LessonSource, available: Collection[str] = ()) -> LessonContext:
    """Return the context of a lesson, or of an instructor's own assignment, which isn't in the curriculum.

    Kernels can import the course's code for the lesson's exercises only if they are in `available`. The
    kernels of an instructor's own assignment can import all of `course_lib`. The caller must close the
    descriptor `archive`.
    """
    lesson = source.lesson
    view = _compiled(lesson_view(source.curriculum, lesson, available)) if lesson else {}
    may_not_call = source.may_not_call
    return LessonContext(
        pack_files({f"course/{path}": content for path, content in view.items()} or whole_course()),
        # Leave out the checked names: they must refer to the student's objects, even if a cell imports the
        # reference under the same name.
        {
            name: value
            for name, value in imports_of(cell.source for cell in source.cells).items()
            if name not in may_not_call
        },
        may_not_call,
        modules_of(cell.source for cell in source.cells if "see" not in cell.tags),
    )


def imports_of(sources: Iterable[str]) -> dict[str, object]:
    """Execute the imports in a released lesson's cells, and return the imported objects for its locked cells.

    The objects are keyed by the names that they are bound to. Imports that fail, and cells with syntax
    errors, are ignored.
    """
    names: dict[str, object] = {}
    for source in sources:
        with contextlib.suppress(SyntaxError):
            for statement in ast.parse(source).body:
                if isinstance(statement, ast.Import | ast.ImportFrom):
                    with contextlib.suppress(ImportError):
                        exec(compile(ast.Module([statement], []), "<imports>", "exec"), names)
    names.pop("__builtins__", None)
    return names


def modules_of(sources: Iterable[str]) -> tuple[str, ...]:
    """Return the modules that cells import or refer to, such as `torch.optim`, except those of the course."""
    found: set[str] = set()
    for source in sources:
        with contextlib.suppress(SyntaxError):
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Import):
                    found |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    found.add(node.module)
                elif isinstance(node, ast.Attribute) and (name := ast.unparse(node)) in sys.modules:
                    found.add(name)
    return tuple(sorted(name for name in found if name.partition(".")[0] != "course_lib"))


def _compiled(view: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a lesson's view with their bytecode, so that kernels don't have to compile them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, content in view.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
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
