"""Recognise the stub of an exercise that a student hasn't started, without running it."""

import ast
import dis
from collections.abc import Iterator
from types import CodeType

#: A phrase in the message of the NotImplementedError that every stub raises.
UNWRITTEN = "is yours to write"


def reachable_stubs(code: str) -> Iterator[str]:
    """Yield the message of each reachable stub in a cell's code, which must be valid Python.

    A stub after a `return`, for example, is unreachable. Python's compiler leaves such code out of the
    bytecode.
    """
    tree = _BodiesAfterWith().visit(ast.parse(code))
    yield from _messages(compile(tree, "<cell>", "exec"))


class _BodiesAfterWith(ast.NodeTransformer):
    """Put the body of each `with` statement after the statement.

    A context manager can suppress exceptions, so the compiler would keep a stub after a `with` statement even
    if the body of that statement always returns.
    """

    def visit_With(self, node: ast.With) -> list[ast.stmt]:
        self.generic_visit(node)
        body, node.body = node.body, [ast.copy_location(ast.Pass(), node)]
        return [node, *body]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        # An expression contains no statements, and it can be nested too deeply for this recursion.
        return node if isinstance(node, ast.expr) else super().generic_visit(node)


def _messages(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        value = instruction.argval
        if isinstance(value, str) and UNWRITTEN in value:
            yield value
        elif isinstance(value, CodeType):
            yield from _messages(value)
