"""See in a solution cell's code what is still a stub, without running it."""

import ast
from collections.abc import Iterator

from course_lib.unwritten import UNWRITTEN


def stubs(tree: ast.AST) -> Iterator[str]:
    """Give the messages of the stubs that can be reached; one left standing behind a `return` can't."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(tree, field, []):
            if isinstance(statement, ast.Raise) and (message := _message(statement)):
                yield message
            yield from stubs(statement)
            if isinstance(statement, ast.Return | ast.Raise):
                break


def _message(statement: ast.Raise) -> str:
    call = statement.exc
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or not call.args:
        return ""
    text = call.args[0]
    if call.func.id != "NotImplementedError" or not isinstance(text, ast.Constant):
        return ""
    return str(text.value) if UNWRITTEN in str(text.value) else ""
