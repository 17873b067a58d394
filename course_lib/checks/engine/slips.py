"""Small slips, such as `*` for `**`: misconceptions that are generated from the source of a reference.

Each slip is one small change to the source. A message says what kind of change it is, but doesn't quote the
source, because that is the solution.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from course_lib.checks.engine.misconceptions import Misconception

_PRECEDENCE = "Python computes `**` before `*` and `/`, and these before `+` and `-`."
_ORDER = "the Python documentation, expressions: operator precedence"
_OPERATORS = "the Python documentation, the module operator: mapping operators to functions"
_CALLS = "the documentation of the functions that you call: their arguments"

#: For each operator, the symbols that are confused with it, and what is wrong then.
_CONFUSED: dict[type[ast.AST], tuple[tuple[str, str], ...]] = {
    ast.Pow: (("*", "`*` is used instead of `**`"),),
    ast.Mult: (("/", "something is divided instead of multiplied"),),
    ast.Div: (
        ("*", "something is multiplied instead of divided"),
        ("//", "`//` is used instead of `/`, so the result is rounded down"),
    ),
    ast.FloorDiv: (("/", "`/` is used instead of `//`"),),
    ast.MatMult: (("*", "`*` is used instead of `@`"),),
    ast.Add: (("-", "something is subtracted instead of added"),),
    ast.Sub: (("+", "something is added instead of subtracted"),),
    ast.Lt: (("<=", "`<=` is used instead of `<`"),),
    ast.LtE: (("<", "`<` is used instead of `<=`"),),
    ast.Gt: ((">=", "`>=` is used instead of `>`"),),
    ast.GtE: ((">", "`>` is used instead of `>=`"),),
    ast.Eq: (("!=", "`!=` is used instead of `==`"),),
    ast.NotEq: (("==", "`==` is used instead of `!=`"),),
}

#: The precedence of each operator.
_BINDING = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2, ast.FloorDiv: 2, ast.MatMult: 2, ast.Pow: 3}

#: Names before the dot of a function that takes the value to compute with as its first argument.
_OWNERS = ("torch", "math", "nn", "F", "self")


class _Slip(NamedTuple):
    """A slip: the parts of the source to replace, each as (start, end, new text), and its description."""

    name: str
    edits: tuple[tuple[int, int, bytes], ...]
    statement: str
    hint: str
    source: str


@cache
def slips_in(source: str, target: str) -> tuple[Misconception, ...]:
    """Return the slips in `source`, the code of a function or class, as misconceptions that replace `target`.

    There are none if a slip could make the code wait forever: if it has a `while` loop, or calls collectives.
    """
    found: dict[str, Misconception] = {}
    if re.search(r"\bwhile\b|\bdist\.", source):
        return ()
    text = source.encode()
    for slip in _Finder(source).slips():
        changed = text
        for start, end, new in sorted(slip.edits, reverse=True):
            changed = changed[:start] + new + changed[end:]
        # The student's code may be written differently, so state only what its results show.
        statement = f"the results are those of the course's code with this slip: {slip.statement}"
        replaced = ((target, changed.decode()),)
        found.setdefault(
            changed.decode(),
            Misconception(slip.name, statement, slip.hint, slip.source, replaced, exclusive=True),
        )
    return tuple(found.values())


class _Finder:
    """A finder of the possible slips in a source."""

    def __init__(self, source: str) -> None:
        self._text = source.encode()
        self._lines = [0]
        for line in self._text.split(b"\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)
        self._tree = ast.parse(source)
        self._nodes = list(ast.walk(self._tree))

    def slips(self) -> Iterator[_Slip]:
        """Yield all slips, outer expressions before inner ones, and those that concern several calls last."""
        for node in self._nodes:
            if isinstance(node, ast.BinOp):
                yield from self._of_operator(node.left, node.right, type(node.op))
                yield from self._of_parentheses(node)
            elif isinstance(node, ast.Compare) and len(node.ops) == 1:
                yield from self._of_operator(node.left, node.comparators[0], type(node.ops[0]))
            elif isinstance(node, ast.UnaryOp):
                yield from self._of_sign(node)
            elif isinstance(node, ast.Call):
                yield from self._of_call(node)
            elif isinstance(node, ast.AugAssign):
                edit = (self._end(node.target), self._start(node.value), b" = ")
                yield _Slip(
                    "plain_assignment", (edit,), "a value is replaced instead of updated", "", _OPERATORS
                )
        yield from self._of_keyword("dim", [node for node in self._nodes if isinstance(node, ast.Call)])
        yield from self._of_all_powers()

    def _of_operator(self, left: ast.expr, right: ast.expr, kind: type[ast.AST]) -> Iterator[_Slip]:
        start, end = self._end(left), self._start(right)
        between = self._text[start:end]
        # The parentheses of the operands are also between them.
        opened, closed = between.count(b"("), between.count(b")")
        for symbol, statement in _CONFUSED.get(kind, ()):
            new = b")" * closed + b" " + symbol.encode() + b" " + b"(" * opened
            yield _Slip("other_operator", ((start, end, new),), statement, "", _OPERATORS)

    def _of_all_powers(self) -> Iterator[_Slip]:
        """Yield the slip that every `**` is another operator, if there are several."""
        powers = [
            node for node in self._nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
        ]
        for slips in zip(
            *(self._of_operator(node.left, node.right, ast.Pow) for node in powers), strict=True
        ):
            if len(slips) > 1:
                yield slips[0]._replace(edits=tuple(edit for slip in slips for edit in slip.edits))

    def _of_parentheses(self, node: ast.BinOp) -> Iterator[_Slip]:
        """Yield the slips in which parentheses around an operand of `node` are missing.

        The operand may be a variable, because a student may have written its value in place of it.
        """
        for operand in (node.left, node.right):
            start, end = self._start(operand), self._end(operand)
            value, new = operand, self._text[start:end]
            if isinstance(operand, ast.Name):
                assigned = self._assigned(operand.id)
                if assigned is None:
                    continue
                value = assigned
                new = self._text[self._start(value) : self._end(value)]
            elif self._text[start - 1 : start] == b"(" and self._text[end : end + 1] == b")":
                start, end = start - 1, end + 1
            else:
                continue
            if not isinstance(value, ast.BinOp):
                continue
            inner, outer = _BINDING.get(type(value.op), 9), _BINDING.get(type(node.op), 0)
            if inner < outer or (inner == outer and operand is node.right):
                statement = "a pair of parentheses is missing, so the order of the operations is wrong"
                yield _Slip("parentheses_missing", ((start, end, new),), statement, _PRECEDENCE, _ORDER)

    def _assigned(self, name: str) -> ast.expr | None:
        """Return the value of a variable that is assigned once and used once, or None."""
        values = [
            node.value
            for node in self._nodes
            if isinstance(node, ast.Assign)
            and [target.id for target in node.targets if isinstance(target, ast.Name)] == [name]
        ]
        uses = [node for node in self._nodes if isinstance(node, ast.Name) and node.id == name]
        return values[0] if len(values) == 1 and len(uses) == 2 else None

    def _of_sign(self, node: ast.UnaryOp) -> Iterator[_Slip]:
        names = {
            ast.USub: "a minus sign is missing",
            ast.Invert: "`~` is missing",
            ast.Not: "`not` is missing",
        }
        if type(node.op) in names:
            edit = (self._start(node), self._start(node.operand), b"")
            yield _Slip("sign_missing", (edit,), names[type(node.op)], "", _OPERATORS)

    def _of_call(self, node: ast.Call) -> Iterator[_Slip]:
        for one, other in pairwise(map(self._span, node.args)):
            edits = ((*one, self._text[slice(*other)]), (*other, self._text[slice(*one)]))
            yield _Slip(
                "arguments_swapped", edits, "two arguments of a call are in the wrong order", "", _CALLS
            )
        for keyword in node.keywords:
            if keyword.arg not in (None, "dim"):
                yield from self._of_keyword(str(keyword.arg), [node])
        if not isinstance(node.func, ast.Attribute):
            return
        # Leave out the step: `x.step(...)` becomes `x`, and so do `torch.step(x, ...)` and `self.step(x)`.
        kept = node.func.value
        if isinstance(kept, ast.Name) and kept.id in _OWNERS:
            if not node.args:
                return
            kept = node.args[0]
        edit = (*self._span(node), self._text[slice(*self._span(kept))])
        yield _Slip("step_missing", (edit,), f"a step such as `{node.func.attr}` is missing", "", _CALLS)

    def _of_keyword(self, name: str, calls: Iterable[ast.Call]) -> Iterator[_Slip]:
        """Yield the slip that calls lack the keyword `name`. Without `dim`, `keepdim` is missing as well."""
        edits: list[tuple[int, int, bytes]] = []
        for call in calls:
            arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
            kept = [
                each
                for each in arguments
                if not (
                    isinstance(each, ast.keyword)
                    and (each.arg == name or (each.arg == "keepdim" and name == "dim"))
                )
            ]
            if len(kept) < len(arguments) and any(each.arg == name for each in call.keywords):
                texts = [self._text[slice(*self._span(each))] for each in kept]
                edits.append((self._start(arguments[0]), self._end(arguments[-1]), b", ".join(texts)))
        if edits:
            statement = f"`{name}` is not given where it is needed"
            yield _Slip("keyword_missing", tuple(edits), statement, "", _CALLS)

    def _start(self, node: ast.expr | ast.keyword) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.keyword) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset

    def _span(self, node: ast.expr | ast.keyword) -> tuple[int, int]:
        return self._start(node), self._end(node)
