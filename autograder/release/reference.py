"""Extract the code of an exercise from the reference, and mark the part that students write."""

import ast
import importlib.util
import tokenize
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from course_lib.curriculum.course_file import CourseError

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef


def marked_source(reference: str, write: Sequence[str] = ()) -> str:
    """Return the source of `package.module:name`, with nbgrader's markers around the students' part.

    In a function, students write the body below the docstring; in a class, they write the bodies of the
    methods in `write`. Comments and blank lines are kept. Nothing is imported.

    Raises CourseError if there is no such module or definition, if a function or method has no body below its
    docstring, if `write` contains an unknown method or is empty for a class, or if it is not empty for a
    function.
    """
    module, _, name = reference.partition(":")
    text = _file_of(module).read_text(encoding="utf-8")
    lines = text.splitlines()
    definitions = {node.name: node for node in ast.parse(text).body if isinstance(node, Definition)}
    if name not in definitions:
        known = ", ".join(definitions) or "nothing"
        raise CourseError(f"{module} does not define {name!r}. It defines: {known}")
    definition = definitions[name]
    if isinstance(definition, ast.ClassDef):
        methods = {node.name: node for node in definition.body if isinstance(node, Function)}
        _refuse_unknown(reference, write, methods)
        to_write = {f"{reference}.{name}": node for name, node in methods.items() if name in write}
    elif write:
        raise CourseError(
            f"{reference} is a function, whose whole body students write. Remove `write` from {name} in "
            "course.toml."
        )
    else:
        to_write = {reference: definition}
    marked = lines[: definition.end_lineno]
    # Insert the markers from the bottom up, because each one changes the numbers of the lines below it.
    for marker, function in reversed(to_write.items()):
        given = _end_of_given_part(function, lines)
        body = lines[given : function.end_lineno]
        if not body:
            raise CourseError(
                f"{marker} has no body for students to write. Put it on separate lines, below the header "
                "and the docstring."
            )
        indent = min((line[: len(line) - len(line.lstrip())] for line in body if line.strip()), key=len)
        marked[given : function.end_lineno] = [
            f"{indent}### BEGIN SOLUTION {marker}",
            *body,
            f"{indent}### END SOLUTION",
        ]
    first = min([definition.lineno, *(decorator.lineno for decorator in definition.decorator_list)])
    return "\n".join(marked[first - 1 :])


def _end_of_given_part(function: Function, lines: list[str]) -> int:
    """Return the number of the line that ends a function's docstring or, if it has none, its header.

    Comments below the header belong to the body.
    """
    if ast.get_docstring(function, clean=False) is not None:
        return function.body[0].end_lineno or 0
    rest = iter(line + "\n" for line in lines[function.lineno - 1 :])
    for token in tokenize.generate_tokens(lambda: next(rest, "")):
        if token.type == tokenize.NEWLINE:
            return function.lineno + token.start[0] - 1
    raise AssertionError("every function has a header")


def _refuse_unknown(reference: str, write: Sequence[str], methods: dict[str, Function]) -> None:
    known = ", ".join(methods) or "none"
    if not write:
        raise CourseError(
            f"{reference} is a class: in course.toml, list the methods that students write, as in "
            f'`write = ["forward"]`. It has: {known}'
        )
    for method in write:
        if method not in methods:
            raise CourseError(f"{reference} has no method {method!r}. It has: {known}")


def _file_of(module: str) -> Path:
    package, *inner = module.split(".")
    spec = importlib.util.find_spec(package) if package else None
    for name in inner:
        # Unlike `find_spec`, this doesn't import the module's parents.
        spec = PathFinder.find_spec(name, spec.submodule_search_locations or []) if spec else None
    if spec is None or spec.origin is None or not spec.has_location:
        raise CourseError(f"there is no module {module!r}. A reference has the form package.module:name")
    return Path(spec.origin)
