"""Determine which cells of a notebook have to run for grading.

Cells that show a picture or train a demonstration take most of a notebook's time, and few of them affect a
grade. Such a cell only has to run if it binds or modifies a name that other running code uses. The released
lesson says which cells are optional, so students can't change that.
"""

import ast
import builtins
import symtable
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

#: Code that uses one of these can access any name.
_DYNAMIC = {"exec", "eval", "globals", "locals", "vars", "setattr", "delattr", "get_ipython", "__import__"}

#: Limits on the length of a cell, and on the number of its characters that can start a magic. Cells that
#: people write are shorter.
_MAX_LENGTH, _MAX_MAGICS = 50_000, 100


@dataclass(frozen=True)
class _Names:
    """The global names that a cell uses, and those that it binds."""

    used: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    """Names that the cell binds or modifies, such as `x` in `x.size = 3`."""


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
    cell uses. If these names can't be determined, for example because a running cell calls `eval` or a cell
    is too long to analyse, all code cells except the judged ones run.
    """
    students = [cell.cell_type == "code" and cell.get("id") not in judged for cell in cells]
    code = {index: cells[index] for index, student in enumerate(students) if student}
    if any(_is_too_long(cell.source) for cell in code.values()):
        return students
    names = {index: _names(cell.source) for index, cell in code.items()}
    running = {index for index, cell in code.items() if cell.get("id") not in optional}
    while True:
        used = frozenset(graded).union(*(names[index].used for index in running))
        if used & _DYNAMIC:
            return students
        used -= vars(builtins).keys()
        more = {index for index, found in names.items() if found.bound & used} - running
        if not more:
            return [index in running for index in range(len(cells))]
        running |= more


def _is_too_long(source: str) -> bool:
    # IPython processes the whole source for each possible magic.
    return len(source) > _MAX_LENGTH or sum(source.count(mark) for mark in "%!?") > _MAX_MAGICS


def _names(source: str) -> _Names:
    try:
        source = TransformerManager().transform_cell(source)
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
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            root: ast.expr = node
            while isinstance(root, ast.Attribute | ast.Subscript):
                root = root.value
            bound |= {root.id} if isinstance(root, ast.Name) else set()
    return _Names(frozenset(used), frozenset(bound))


def _inner_scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _inner_scopes(child)
