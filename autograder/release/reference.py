"""Extract the code of an exercise from the reference, and mark the part that students write."""

import ast
import importlib.util
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.curriculum.course_file import CourseError

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Region:
    """A range of lines that students write, counted from 1, both ends included."""

    first: int
    last: int
    name: str
    """The reference in the region's marker: `package.module:function` or `package.module:Class.method`."""


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
    definition = _find(ast.parse(text), reference)
    if isinstance(definition, ast.ClassDef):
        methods = {node.name: node for node in definition.body if isinstance(node, Function)}
        _refuse_unknown(reference, write, methods)
        regions = [
            _region(methods[method], f"{reference}.{method}", lines) for method in methods if method in write
        ]
    elif write:
        raise CourseError(
            f"{reference} is a function, whose whole body students write. Remove `write` from {name} in "
            "course.toml."
        )
    else:
        regions = [_region(definition, reference, lines)]
    first = min([definition.lineno, *(decorator.lineno for decorator in definition.decorator_list)])
    assert definition.end_lineno is not None
    return _marked(lines, first, definition.end_lineno, regions)


def _marked(lines: list[str], first: int, last: int, regions: list[Region]) -> str:
    opened = {region.first: region for region in regions}
    closed = {region.last: region for region in regions}
    marked: list[str] = []
    indent = ""
    for number in range(first, last + 1):
        line = lines[number - 1]
        if number in opened:
            body = lines[number - 1 : opened[number].last]
            indent = min((text[: len(text) - len(text.lstrip())] for text in body if text.strip()), key=len)
            marked.append(f"{indent}### BEGIN SOLUTION {opened[number].name}")
        marked.append(line)
        if number in closed:
            marked.append(f"{indent}### END SOLUTION")
    return "\n".join(marked)


def _region(function: Function, name: str, lines: list[str]) -> Region:
    has_docstring = ast.get_docstring(function, clean=False) is not None
    given_until = function.body[0].end_lineno if has_docstring else _end_of_header(function, lines)
    assert given_until is not None
    assert function.end_lineno is not None
    if given_until >= function.end_lineno:
        raise CourseError(
            f"{name} has no body for students to write. Put it on lines of its own, below the header and the "
            "docstring."
        )
    return Region(given_until + 1, function.end_lineno, name)


def _end_of_header(function: Function, lines: list[str]) -> int:
    """Return the number of the line that ends a function's header. Comments below it belong to the body."""
    rest = iter(line + "\n" for line in lines[function.lineno - 1 :])
    for token in tokenize.generate_tokens(lambda: next(rest, "")):
        if token.type == tokenize.NEWLINE:
            return function.lineno + token.start[0] - 1
    raise AssertionError("every function has a header")


def _find(tree: ast.Module, reference: str) -> Definition:
    module, _, name = reference.partition(":")
    definitions = {node.name: node for node in tree.body if isinstance(node, Definition)}
    if name not in definitions:
        known = ", ".join(definitions) or "nothing"
        raise CourseError(f"{module} does not define {name!r}. It defines: {known}")
    return definitions[name]


def _refuse_unknown(reference: str, write: Sequence[str], methods: dict[str, Function]) -> None:
    known = ", ".join(methods) or "none"
    if not write:
        raise CourseError(
            f"{reference} is a class: list the methods that students write in course.toml, as in "
            f'`write = ["forward"]`. It has: {known}'
        )
    for method in write:
        if method not in methods:
            raise CourseError(f"{reference} has no method {method!r}. It has: {known}")


def _file_of(module: str) -> Path:
    # Only the top package is looked up: to find a module inside it, Python would import its parents.
    package, *inner = module.split(".")
    spec = importlib.util.find_spec(package) if package else None
    if spec is not None:
        folders = spec.submodule_search_locations or []
        candidates = [Path(folder, *inner) for folder in folders]
        files = [
            file for path in candidates for file in (path.parent / f"{path.name}.py", path / "__init__.py")
        ]
        if not inner and spec.origin is not None:
            files.append(Path(spec.origin))
        for file in files:
            if file.is_file():
                return file
    raise CourseError(f"there is no module {module!r}. A reference has the form package.module:name")
