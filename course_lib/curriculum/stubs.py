"""Recognise the stub of an exercise that a student hasn't started, without running it."""

import ast
from collections.abc import Iterator

#: This phrase is part of the NotImplementedError that every stub raises.
UNWRITTEN = "is yours to write"


def reachable_stubs(tree: ast.AST) -> Iterator[str]:
    """Yield the message of each reachable stub in a syntax tree.

    A stub after a `return`, for example, is unreachable.
    """
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(tree, field, []):
            if isinstance(statement, ast.Raise) and (message := _stub_message(statement)):
                yield message
            yield from reachable_stubs(statement)
            if _always_exits(statement):
                break


def _always_exits(statement: ast.stmt) -> bool:
    """Return whether static analysis shows that no statement after this one in its block can run."""
    match statement:
        case ast.Return() | ast.Raise():
            return True
        case ast.If(body=body, orelse=orelse):
            return _any_exits(body) and _any_exits(orelse)
        case ast.With(body=body):
            return _any_exits(body)
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody):
            without_exception = _any_exits(body) or _any_exits(orelse)
            after_exception = all(_any_exits(handler.body) for handler in handlers)
            return _any_exits(finalbody) or (without_exception and after_exception)
        case ast.While(test=ast.Constant(value=True), body=body):
            return not any(map(_breaks, body))
        case ast.Match(cases=[*_, ast.match_case(pattern=ast.MatchAs(pattern=None), guard=None)] as cases):
            # The last case, `case _` or `case name`, matches anything.
            return all(_any_exits(case.body) for case in cases)
    return False


def _breaks(node: ast.AST) -> bool:
    """Return whether a node in a loop contains a `break` that ends this loop and not an inner one."""
    match node:
        case ast.Break():
            return True
        case ast.For(orelse=orelse) | ast.AsyncFor(orelse=orelse) | ast.While(orelse=orelse):
            return any(map(_breaks, orelse))
    return any(map(_breaks, ast.iter_child_nodes(node)))


def _any_exits(block: list[ast.stmt]) -> bool:
    return any(_always_exits(statement) for statement in block)


def _stub_message(statement: ast.Raise) -> str:
    match statement.exc:
        case ast.Call(
            func=ast.Name(id="NotImplementedError"), args=[ast.Constant(value=str(message)), *_]
        ) if UNWRITTEN in message:
            return message
    return ""
