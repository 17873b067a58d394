"""Run the code of one solution cell, and describe errors in one line."""

import ast
import io
import traceback
import warnings
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from course_lib.curriculum.stubs import reachable_stubs
from course_lib.student.parts.notebook import PartsError
from course_lib.time_limit import OutOfTime, time_limit

_MAX_ERROR_LENGTH = 160


class UnwrittenError(PartsError):
    """The error raised for a cell that still contains its stub."""


def setup_namespace(setup: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Build a namespace from the imports of a setup cell, with `parts` in place of the reference's versions.

    Only imports and type variables (`Item = TypeVar("Item")`) are executed. Imports that fail are skipped: a
    cluster node doesn't have the packages for charts, for example. Nothing is executed if the cell isn't
    valid Python.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}  # This is the name in a notebook.
    try:
        statements = ast.parse(setup).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return namespace
    for statement in statements:
        match statement:
            case ast.Import() | ast.ImportFrom() | ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
                try:
                    exec(compile(ast.Module([statement], []), "<setup>", "exec"), namespace)
                except (Exception, SystemExit):  # A student's own module can raise anything when imported.
                    continue
        match statement:
            case ast.ImportFrom(module=str(module)) if module.startswith("course_lib.transformer"):
                for alias in statement.names:
                    if alias.name in parts:
                        namespace[alias.asname or alias.name] = parts[alias.name]
    return namespace


def run_cell(code: str, name: str, location: str, namespace: dict[str, Any], timeout: float) -> Any:
    """Run a solution cell and return the function or class that it defines as `name`.

    The cell runs in `namespace`, which keeps its definitions. Its output is discarded. `location` is the name
    of the cell for messages.

    Raises:
        UnwrittenError: if the cell still contains its stub.
        PartsError: if the cell isn't valid Python, raises an exception, takes longer than `timeout` seconds,
            or doesn't define a function or class `name`.
    """
    tree = _parse(code, location)
    namespace.pop(name, None)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
            time_limit(timeout),
        ):
            warnings.simplefilter("ignore")
            exec(compile(tree, location, "exec"), namespace)
    except OutOfTime:
        raise PartsError(
            f"{location}: stopped after {timeout:g} seconds. Is there an endless loop outside {name}? "
            "A solution cell should only define it"
        ) from None
    except (Exception, SystemExit) as error:
        if isinstance(error, NameError):
            advice = (
                f"only solution cells and the setup cell are read, so move what {name} needs into this cell"
            )
        elif isinstance(error, ImportError):
            advice = "use only modules that the setup cell imports"
        else:
            advice = f"a solution cell should only define {name}"
        raise PartsError(f"{_failing_line(error, location)}: raised {describe(error)}; {advice}") from None
    if name not in namespace:
        defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        found = f"the cell defines {' and '.join(defined)}" if defined else "the cell defines nothing"
        raise PartsError(f"{location}: {name} is missing, and {found}; restore the name {name}")
    if not callable(namespace[name]):
        raise PartsError(
            f"{location}: {name} should be a function or a class, got an object of type "
            f"{type(namespace[name]).__name__}; define it as in the stub"
        )
    return namespace[name]


def describe(error: BaseException) -> str:
    """Return an exception's type and message on one line. Long messages are truncated."""
    message = " ".join(str(error).split())
    if len(message) > _MAX_ERROR_LENGTH:
        message = message[: _MAX_ERROR_LENGTH - 1] + "…"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _parse(code: str, location: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
            compile(tree, location, "exec")
            message = next(reachable_stubs(code), "")
    except SyntaxError as error:
        lines = code.split("\n")  # `splitlines` would count a form feed as the end of a line.
        number = error.lineno or 0
        line = lines[number - 1].strip() if 1 <= number <= len(lines) else ""
        if line.startswith(("%", "!", "?")):
            problem = f"{line!r} is a Jupyter command, not Python; remove it from the solution cell"
        else:
            problem = f"not valid Python ({error.msg}); correct it, run the cell, and save"
        raise PartsError(f"{location}, line {error.lineno}: {problem}") from None
    except (ValueError, RecursionError, MemoryError):
        raise PartsError(
            f"{location}: not valid Python; download the notebook again and copy your code into it"
        ) from None
    if message:
        raise UnwrittenError(f"{location}: not written yet ({message})")
    return tree


def _failing_line(error: BaseException, location: str) -> str:
    """Return the location of an error: the cell and, if the traceback shows it, the line of the cell.

    If the traceback has several frames of the cell, this is the line of the outermost one.
    """
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == location:
            return f"{location}, line {line}"
    return location
