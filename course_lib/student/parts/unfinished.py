"""See in a solution cell's code what is still a stub, without running it."""

import ast
from collections.abc import Iterator

from course_lib.student.unwritten import UNWRITTEN


def stubs(tree: ast.AST) -> Iterator[str]:
    """Give the messages of the stubs that can be reached; one left standing behind a `return` can't."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(tree, field, []):
            if isinstance(statement, ast.Raise) and (message := _message(statement)):
                yield message
            yield from stubs(statement)
            if _leaves(statement):
                break


def _leaves(statement: ast.stmt) -> bool:
    """Say whether nothing behind a statement is ever reached, as far as can be told without running it."""
    match statement:
        case ast.Return() | ast.Raise():
            return True
        case ast.If(body=body, orelse=orelse):
            return _any_leaves(body) and _any_leaves(orelse)
        case ast.With(body=body):
            return _any_leaves(body)
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody):
            whole = _any_leaves(body) or _any_leaves(orelse)
            return _any_leaves(finalbody) or (whole and all(_any_leaves(each.body) for each in handlers))
        case ast.While(test=ast.Constant(value=True)):
            return not any(isinstance(inside, ast.Break) for inside in ast.walk(statement))
    return False


def _any_leaves(block: list[ast.stmt]) -> bool:
    return any(_leaves(statement) for statement in block)


def _message(statement: ast.Raise) -> str:
    call = statement.exc
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or not call.args:
        return ""
    text = call.args[0]
    if call.func.id != "NotImplementedError" or not isinstance(text, ast.Constant):
        return ""
    return str(text.value) if UNWRITTEN in str(text.value) else ""
