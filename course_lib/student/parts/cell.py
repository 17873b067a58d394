"""Run the code of one cell in a namespace, and say in one line what is wrong with it."""

import ast
import io
import warnings
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from course_lib.student.parts.errors import PartsError
from course_lib.student.parts.unfinished import stubs
from course_lib.time_limit import OutOfTime, time_limit

_REFERENCE = "course_lib.transformer"
_LONGEST = 160


class UnwrittenError(PartsError):
    """The cell still holds its stub."""


def parsed(code: str, place: str) -> ast.Module:
    """Parse a solution cell. Raises PartsError where it is no Python, UnwrittenError where it is a stub."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
            compile(tree, place, "exec")
    except SyntaxError as error:
        line = _line_of(code, error.lineno)
        if line.startswith(("%", "!", "?")):
            raise PartsError(
                f"{place}, line {error.lineno}: {line!r} is a command for Jupyter, no Python; take it out of "
                "the solution cell"
            ) from None
        raise PartsError(
            f"{place}, line {error.lineno}: this is no valid Python ({error.msg}); mend it, run the cell, "
            "and save"
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise PartsError(
            f"{place}: this is no valid Python; get the cell anew and copy your code in"
        ) from None
    if message := next(stubs(tree), ""):
        raise UnwrittenError(f"{place}: not written yet ({message})")
    return tree


def _line_of(code: str, number: int | None) -> str:
    lines = code.splitlines()
    return lines[number - 1].strip() if number is not None and 1 <= number <= len(lines) else ""


def imported(setup: str, made: Mapping[str, Any]) -> dict[str, Any]:
    """Make a namespace from the imports of a setup cell; `made` stands in for the reference's parts.

    Nothing is run but imports, and what makes a name for annotations: `Item = TypeVar("Item")`. What is not
    installed here (charts need more than a cluster node has) is left out.
    """
    # As in a notebook, where code runs as the main program.
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        statements = ast.parse(setup).body
    except (SyntaxError, ValueError):
        return names
    for statement in statements:
        if not isinstance(statement, ast.Import | ast.ImportFrom) and not _names_a_type(statement):
            continue
        try:
            exec(compile(ast.Module([statement], []), "<setup>", "exec"), names)
        except (ImportError, NameError):
            continue
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(_REFERENCE):
            for alias in statement.names:
                if alias.name in made:
                    names[alias.asname or alias.name] = made[alias.name]
    return names


def _names_a_type(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return False
    called = statement.value.func
    return isinstance(called, ast.Name) and called.id == "TypeVar"


def run_cell(code: str, name: str, place: str, names: dict[str, Any], seconds: float) -> Any:
    """Run a solution cell and give what it defines under a name. What it prints is not shown.

    Raises PartsError where that cannot be done, UnwrittenError where the cell is still a stub.
    """
    tree = parsed(code, place)
    names.pop(name, None)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
            time_limit(seconds),
        ):
            warnings.simplefilter("ignore")
            exec(compile(tree, place, "exec"), names)
    except OutOfTime:
        raise PartsError(
            f"{place}: it was stopped after {seconds:g} seconds; is there an endless loop outside of {name}? "
            "A solution cell should only define it"
        ) from None
    except (Exception, SystemExit) as error:
        raise PartsError(
            f"{place}{_line(error, place)}: it raised {said(error)}; {_advice(error, name)}"
        ) from None
    if name not in names:
        defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        raise PartsError(
            f"{place}: it defines {' and '.join(defined) or 'nothing'}, but no {name}; give it its name back"
        )
    if not callable(names[name]):
        raise PartsError(
            f"{place}: {name} should be a function or a class, and is of type {type(names[name]).__name__}; "
            "define it as in the stub"
        )
    return names[name]


def said(error: BaseException) -> str:
    """Put an exception into one short line."""
    message = " ".join(str(error).split())
    short = message if len(message) <= _LONGEST else message[: _LONGEST - 1] + "…"
    return f"{type(error).__name__}: {short}" if short else type(error).__name__


def _advice(error: BaseException, name: str) -> str:
    if isinstance(error, NameError):
        return "only solution cells and the setup cell are read, so move what it needs into this cell"
    if isinstance(error, ImportError):
        return "use what the setup cell imports"
    return f"a solution cell should only define {name}"


def _line(error: BaseException, place: str) -> str:
    """Say in which line of the cell an exception began its way."""
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == place:
            return f", line {step.tb_lineno}"
        step = step.tb_next
    return ""
