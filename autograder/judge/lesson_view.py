"""The `course_lib` that a submission sees while it is graded: without what would give the answers away.

Nothing is hidden by permissions: what students are to write themselves is not in these files.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import course_lib
from course_lib.checks.engine.exercise import Exercise
from course_lib.checks.exercises import fixtures
from course_lib.checks.exercises.registry import catalogue, probes_of
from course_lib.curriculum import Curriculum, Lesson, public_curriculum

PACKAGE = Path(course_lib.__file__).parent

#: What a view holds of `course_lib`: files, and folders with all that is in them.
SHOWN = (
    "__init__.py",
    "atomic_files.py",
    "charts",
    "checks/engine/__init__.py",
    "checks/engine/candidate.py",
    "checks/engine/local_backend.py",
    "checks/engine/reply.py",
    "checks/exercises/__init__.py",
    "checks/exercises/fixtures/__init__.py",
    "checks/remote/__init__.py",
    "checks/remote/serialization.py",
    "checks/remote/server.py",
    "checks/remote/transport.py",
    "curriculum/__init__.py",
    "curriculum/curriculum.json",
    "curriculum/lessons.py",
    "errors.py",
    "student/__init__.py",
    "student/parts",
    "student/stubs.py",
    "time_limit.py",
    "transformer",
)

#: What else it holds: of the lab's engine, what lessons read their sentences and batches with. The rest isn't
#: there, since much stands again in it that students write: updates of the weights, attention, decoding. All
#: that is shown was read, and repeats no exercise.
SHOWN_OF_THE_LAB = tuple(
    f"translation/{name}"
    for name in (
        "__init__.py",
        "configs",
        "data/__init__.py",
        "data/corpora",
        "data/epoch_plan.py",
    )
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.ClassDef


def lesson_view(curriculum: Curriculum, lesson: Lesson) -> dict[str, bytes]:
    """Give the files of `course_lib` for one lesson, by their paths, such as `course_lib/time_limit.py`.

    The bodies of this lesson's exercises and of all later ones' raise NotImplementedError; signatures and
    docstrings, which students are given as well, stay. Of the checks only that is there which hands objects
    over to the judge. The same course gives the same bytes.
    """
    withheld = _withheld(curriculum, lesson)
    files = {path: path.read_bytes() for path in _shown(_fixtures(lesson))}
    view = {
        f"{PACKAGE.name}/{path.relative_to(PACKAGE).as_posix()}": without_bodies(
            content, withheld.get(_module(path), {})
        )
        for path, content in files.items()
    }
    view[f"{PACKAGE.name}/checks/__init__.py"] = (
        Path(__file__).with_name("checks_in_the_view.py").read_bytes()
    )
    return dict(sorted(view.items()))


def withheld_exercises(curriculum: Curriculum, lesson: Lesson) -> dict[str, str]:
    """Give the exercises of this lesson and of later ones, none of which is shown, each with its lesson."""
    first = [one.name for one in curriculum.lessons].index(lesson.name)
    return {entry.name: one.name for one in curriculum.lessons[first:] for entry in one.exercises}


def _withheld(curriculum: Curriculum, lesson: Lesson) -> dict[str, dict[str, str]]:
    """Say for each module which of its definitions are withheld, and what they raise instead."""
    lesson_of = withheld_exercises(curriculum, lesson)
    places = {
        f"{found.__module__}:{found.__name__}": exercise
        for exercise in lesson_of
        if isinstance(entry := catalogue().get(exercise), Exercise)
        for found in [inspect.unwrap(entry.reference)]
    }
    withheld: dict[str, dict[str, str]] = {}
    for place, exercise in places.items():
        module, _, name = place.partition(":")
        number = lesson_of[exercise].partition("-")[0]
        is_now = "is being graded" if lesson_of[exercise] == lesson.name else "comes later"
        withheld.setdefault(module, {})[name] = (
            f"{exercise} is part of lesson {number}, which {is_now}: the course's own version is not here"
        )
    return withheld


def _fixtures(lesson: Lesson) -> set[str]:
    """Name the modules of fixtures that this lesson's probes hand over: those that its checks import."""
    names = {entry.name for entry in lesson.exercises}
    found: set[str] = set()
    for known in public_curriculum().lessons:
        if names.isdisjoint(known.checked):
            continue
        for statement in ast.parse(inspect.getsource(probes_of(known))).body:
            if isinstance(statement, ast.ImportFrom):
                package, _, module = (statement.module or "").rpartition(".")
                found |= {module} if package == fixtures.__name__ else set()
    return found


def _shown(names: set[str]) -> Iterator[Path]:
    roots = [*SHOWN, *SHOWN_OF_THE_LAB, *(f"checks/exercises/fixtures/{name}.py" for name in sorted(names))]
    for root in roots:
        path = PACKAGE / root
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                yield file


def _module(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def without_bodies(content: bytes, withheld: dict[str, str]) -> bytes:
    """Take the bodies of some definitions out of a module, and what nothing else uses.

    The module is written anew from its syntax tree: so comments, which may speak of the answer, go too.
    """
    if not withheld:
        return content
    tree = ast.parse(content)
    before = _used(tree)
    for node in tree.body:
        if isinstance(node, _Definition) and node.name in withheld:
            for function in [node] if isinstance(node, _Function) else node.body:
                if isinstance(function, _Function):
                    _empty(function, withheld[node.name])
    _drop(tree, before)
    return (ast.unparse(ast.fix_missing_locations(tree)) + "\n").encode()


def _empty(function: _Function, instead: str) -> None:
    given = function.body[:1] if ast.get_docstring(function, clean=False) is not None else []
    error = ast.Call(ast.Name("NotImplementedError", ast.Load()), [ast.Constant(instead)], [])
    function.body = [*given, ast.Raise(error)]


def _drop(tree: ast.Module, before: set[str]) -> None:
    """Drop the imports and the private definitions that were used before, and now are not."""
    while True:
        idle = before - _used(tree)
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                node.names = [alias for alias in node.names if (alias.asname or alias.name) not in idle]
        kept = [node for node in tree.body if not _is_idle(node, idle)]
        if len(kept) == len(tree.body):
            return
        tree.body = kept


def _is_idle(node: ast.stmt, idle: set[str]) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return not node.names
    private = _private(node)
    return bool(private) and private <= idle


def _used(tree: ast.Module) -> set[str]:
    return {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _private(node: ast.stmt) -> set[str]:
    """Give the names that a statement of a module defines, where all of them are private."""
    if isinstance(node, _Definition):
        names = {node.name}
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    else:
        return set()
    return names if all(name.startswith("_") for name in names) else set()
