"""Determine which cells of a notebook have to run for grading.

Cells that draw a picture or train a model as a demonstration take most of a notebook's time, and few of them
affect a grade. Such a cell only has to run if it binds or modifies a name that other running code uses. The
released lesson says which cells are optional, so students can't change that.
"""

import ast
import builtins
import symtable
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

#: Names that give code access to any other name.
_DYNAMIC = {"exec", "eval", "globals", "locals", "vars", "setattr", "delattr", "get_ipython", "__import__"}

#: Limits on the length of a cell, and on the number of its characters that can start a magic. Cells written
#: by people stay below both.
_MAX_LENGTH, _MAX_MAGICS = 50_000, 100


@dataclass(frozen=True)
class _Names:
    """The global names that a cell uses, and those that it binds."""

    used: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    """Names that the cell binds or modifies, such as `x` in `x.size = 3`."""
    called: frozenset[str] = frozenset()
    """Names whose methods the cell calls, such as `x` in `x.append(3)`, which may modify them."""
    imported: frozenset[str] = frozenset()
    """Names that the cell imports."""
    anything: bool = False
    """Whether the cell could bind any name, for example with `from x import *`, `exec` or a magic."""


def cells_to_run(
    cells: Sequence[NotebookNode],
    optional: Collection[str],
    judged: Collection[str] = (),
    graded: Collection[str] = (),
) -> list[bool]:
    """Return for each cell whether it has to run in the student's kernel.

    Cells whose id is in `judged` never run there: the judge runs them in its own process, where they use the
    names in `graded`. Other code cells always run, unless their id is in `optional`. An optional cell runs
    only if it binds or modifies a name, other than a builtin, that is in `graded` or that another running
    cell uses, or if it could bind any name. If the names that running cells use can't be determined, for
    example because one calls `eval` or a cell is too long to analyse, all code cells except the judged ones
    run. Calling a method of an imported module doesn't count as modifying it.
    """
    students = [cell.cell_type == "code" and cell.get("id") not in judged for cell in cells]
    code = {index: cells[index] for index, student in enumerate(students) if student}
    if any(_is_too_long(cell.source) for cell in code.values()):
        return students
    names = {index: _names(cell.source) for index, cell in code.items()}
    imported = frozenset[str]().union(*(found.imported for found in names.values()))
    running = {index for index, cell in code.items() if cell.get("id") not in optional}
    running |= {index for index, found in names.items() if found.anything}
    while True:
        used = frozenset(graded).union(*(names[index].used for index in running))
        if used & _DYNAMIC:
            return students
        used -= vars(builtins).keys()
        more = {index for index, found in names.items() if (found.bound | (found.called - imported)) & used}
        more -= running
        if not more:
            return [index in running for index in range(len(cells))]
        running |= more


def _is_too_long(source: str) -> bool:
    # IPython processes the whole source once for each possible magic, which takes quadratic time.
    return len(source) > _MAX_LENGTH or sum(source.count(mark) for mark in "%!?") > _MAX_MAGICS


def without_ipython_syntax(source: str) -> str:
    """Return a cell's source as Python, in which magics are calls to `get_ipython`.

    Raises SyntaxError, ValueError, RuntimeError or MemoryError if that fails, and ValueError if the cell is
    too long to analyse.
    """
    if _is_too_long(source):
        raise ValueError("the cell is too long to analyse")
    return str(TransformerManager().transform_cell(source))


def _names(source: str) -> _Names:
    try:
        source = without_ipython_syntax(source)
        table, tree = symtable.symtable(source, "cell", "exec"), ast.parse(source)
    except (SyntaxError, ValueError, RuntimeError, MemoryError):
        return _Names()  # A cell that can't be compiled binds nothing.
    used = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    bound = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    for scope in _inner_scopes(table):
        for symbol in scope.get_symbols():
            if symbol.is_global():
                used |= {symbol.get_name()} if symbol.is_referenced() else set()
                bound |= {symbol.get_name()} if symbol.is_assigned() else set()
    imported = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_imported()}
    called: set[str] = set()
    anything = bool(used & _DYNAMIC)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                bound |= _root(node)
            case ast.Call(func=ast.Attribute() as method):
                called |= _root(method)
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                anything = True
    return _Names(frozenset(used), frozenset(bound), frozenset(called), frozenset(imported), anything)


def _root(node: ast.expr) -> set[str]:
    """Return a set with the name at the root of an expression, such as `x` in `x.y[0].z`, or an empty set."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _inner_scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _inner_scopes(child)
