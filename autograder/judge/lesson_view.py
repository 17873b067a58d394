"""Build an answer-free copy of `course_lib` that a submission can import while it is graded.

The answers are not hidden by permissions: the copied files don't contain them.
"""

import ast
import importlib
import inspect
from collections.abc import Collection, Iterator
from pathlib import Path

import course_lib
from autograder.judge.lesson_source import withheld_exercises
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.exercises import fixtures, shared_requests
from course_lib.checks.exercises.registry import catalogue, probes_of
from course_lib.curriculum import Curriculum, Lesson, public_curriculum

PACKAGE = Path(course_lib.__file__).parent

#: The files and whole folders of `course_lib` that a view contains.
INCLUDED = (
    "__init__.py",
    "atomic_files.py",
    "charts",
    "checks/engine/__init__.py",
    "checks/engine/call_recorder.py",
    "checks/engine/candidate.py",
    "checks/engine/kept_values.py",
    "checks/engine/local_backend.py",
    "checks/engine/reply.py",
    "checks/engine/tracebacks.py",
    "checks/exercises/__init__.py",
    "checks/exercises/fixtures/__init__.py",
    "checks/remote/__init__.py",
    "checks/remote/serialization.py",
    "checks/remote/server.py",
    "checks/remote/transport.py",
    "curriculum/__init__.py",
    "curriculum/curriculum.json",
    "curriculum/stubs.py",
    "errors.py",
    "simulated_ranks.py",
    "student/__init__.py",
    "student/parts",
    "student/progress/__init__.py",
    "student/tutor.py",
    "time_limit.py",
    "transformer",
    # Lessons read sentences with these parts of the translation lab. The rest of the lab repeats code that
    # students write, such as batches, weight updates, attention and decoding. Review a file for such code
    # before adding it here.
    "translation/__init__.py",
    "translation/configs",
    "translation/data/__init__.py",
    "translation/data/corpora",
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.ClassDef


def lesson_view(curriculum: Curriculum, lesson: Lesson, available: Collection[str] = ()) -> dict[str, bytes]:
    """Return the files of `course_lib` for a lesson, keyed by path, such as `course_lib/time_limit.py`.

    In the exercises of this lesson and of all later ones, function bodies are replaced by a statement that
    raises NotImplementedError, except in the exercises called `available`. Signatures and docstrings, which
    students know, remain. Only the part of the
    checks that serves the judge's requests is included. The result is deterministic.
    """
    withheld = _withheld(curriculum, lesson, available)
    view: dict[str, bytes] = {}
    for path in _included_files(_fixtures(lesson)):
        file = path.relative_to(PACKAGE.parent)
        module = ".".join(file.with_suffix("").parts)
        view[file.as_posix()] = without_bodies(path.read_bytes(), withheld.get(module, {}))
    replacement = Path(__file__).with_name("checks_in_the_view.py")
    view[f"{PACKAGE.name}/checks/__init__.py"] = replacement.read_bytes()
    return dict(sorted(view.items()))


def _withheld(
    curriculum: Curriculum, lesson: Lesson, available: Collection[str]
) -> dict[str, dict[str, str]]:
    """Return the error messages of withheld definitions, keyed by module and then by name."""
    withheld: dict[str, dict[str, str]] = {}
    for exercise, its_lesson in withheld_exercises(curriculum, lesson).items():
        entry = catalogue().get(exercise)
        if isinstance(entry, ExerciseCheck) and exercise not in available:
            definition = inspect.unwrap(entry.reference)
            number = its_lesson.partition("-")[0]
            when = "is being graded" if its_lesson == lesson.name else "comes later"
            withheld.setdefault(definition.__module__, {})[definition.__name__] = (
                f"{exercise} belongs to lesson {number}, which {when}, so the reference is not available here"
            )
    return withheld


def _fixtures(lesson: Lesson) -> set[str]:
    """Return the names of the fixture modules that this lesson's checks need, directly or through others."""
    names = {entry.name for entry in lesson.exercises}
    lessons = [known for known in public_curriculum().lessons if not names.isdisjoint(known.checked)]
    sources = [inspect.getsource(probes_of(known)) for known in lessons]
    found: set[str] = set()
    while sources:
        for statement in ast.parse(sources.pop()).body:
            if isinstance(statement, ast.ImportFrom):
                module = statement.module or ""
                is_fixture = module.startswith(f"{fixtures.__name__}.")
                if (is_fixture or module == shared_requests.__name__) and module not in found:
                    found.add(module)
                    sources.append(inspect.getsource(importlib.import_module(module)))
    return {module.rpartition(".")[2] for module in found - {shared_requests.__name__}}


def _included_files(names: set[str]) -> Iterator[Path]:
    for root in (*INCLUDED, *(f"checks/exercises/fixtures/{name}.py" for name in sorted(names))):
        path = PACKAGE / root
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                yield file


def without_bodies(content: bytes, withheld: dict[str, str]) -> bytes:
    """Replace the bodies of withheld definitions, and remove imports and private names that only they use.

    `withheld` maps the name of each function or class to the message of the NotImplementedError that the
    function, or each method of the class, raises instead. If it is empty, the content is returned unchanged.
    Otherwise the module is regenerated from its syntax tree, which also removes comments: they may describe
    the answer.
    """
    if not withheld:
        return content
    tree = ast.parse(content)
    used_before = _used(tree)
    for node in tree.body:
        if isinstance(node, _Definition) and node.name in withheld:
            for function in [node] if isinstance(node, _Function) else node.body:
                if isinstance(function, _Function):
                    _replace_body(function, withheld[node.name])
    _remove_unused(tree, used_before)
    return (ast.unparse(ast.fix_missing_locations(tree)) + "\n").encode()


def _replace_body(function: _Function, message: str) -> None:
    docstring = function.body[:1] if ast.get_docstring(function, clean=False) is not None else []
    error = ast.Call(ast.Name("NotImplementedError", ast.Load()), [ast.Constant(message)], [])
    function.body = [*docstring, ast.Raise(error)]


def _remove_unused(tree: ast.Module, used_before: set[str]) -> None:
    """Remove the imports and private definitions of names in `used_before` that are no longer used."""
    while True:
        unused = used_before - _used(tree)
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                node.names = [alias for alias in node.names if (alias.asname or alias.name) not in unused]
        kept = [node for node in tree.body if not _is_unused(node, unused)]
        if len(kept) == len(tree.body):
            return
        tree.body = kept


def _is_unused(node: ast.stmt, unused: set[str]) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return not node.names
    names = _private_names(node)
    return bool(names) and names <= unused


def _used(tree: ast.Module) -> set[str]:
    return {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _private_names(node: ast.stmt) -> set[str]:
    """Return the names that a definition or an assignment binds, or an empty set if any of them is public."""
    if isinstance(node, _Definition):
        names = {node.name}
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    else:
        return set()
    return names if all(name.startswith("_") for name in names) else set()
