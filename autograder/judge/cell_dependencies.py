"""Which cells of a notebook have to run for a grade.

Cells that show a picture or train a demonstration take most of the time of a notebook, and few of them matter
to what is graded. One has to run only if it binds, or writes into, a name that code which runs uses. The
lesson as it was released says which cells may be left out, so a student cannot.
"""

import ast
import builtins
import symtable
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

#: Code with these can bind or change any name.
_ANYTHING = {"exec", "eval", "globals", "locals", "vars", "setattr", "delattr", "get_ipython", "__import__"}


#: What a cell that a person has written stays below, in letters and in signs that can begin a magic.
_LONGEST, _MOST_MAGICS = 50_000, 100


@dataclass(frozen=True)
class _Names:
    """What a cell does with names."""

    used: frozenset[str]
    bound: frozenset[str]
    """Also those that it writes into, such as `x` in `x.size = 3`."""


def needed(
    cells: Sequence[NotebookNode],
    may_be_left_out: Collection[str],
    judged: Collection[str] = (),
    graded: Collection[str] = (),
) -> list[bool]:
    """Say for each cell whether it has to run. Those whose id is not in `may_be_left_out` always do.

    Cells whose id is in `judged` never do: they are run elsewhere, and look at the names in `graded`. Where
    code that runs can use names that cannot be read from it, as with `eval`, or is too long to be read, all
    cells run.
    """
    students = [cell.cell_type == "code" and cell.get("id") not in judged for cell in cells]
    if any(own and _takes_long(cell.source) for cell, own in zip(cells, students, strict=True)):
        return students
    names = [_names(cell.source) if own else None for cell, own in zip(cells, students, strict=True)]
    runs = [
        what is not None and cell.get("id") not in may_be_left_out
        for cell, what in zip(cells, names, strict=True)
    ]
    while True:
        used = frozenset(graded).union(
            *(what.used for what, run in zip(names, runs, strict=True) if what and run)
        )
        if used & _ANYTHING:
            return [what is not None for what in names]
        used -= vars(builtins).keys()
        more = [
            run or (what is not None and bool(what.bound & used))
            for what, run in zip(names, runs, strict=True)
        ]
        if more == runs:
            return runs
        runs = more


def _takes_long(source: str) -> bool:
    """Say whether it could take long to read the names in it: IPython reads all of it once for each magic."""
    return len(source) > _LONGEST or sum(source.count(mark) for mark in "%!?") > _MOST_MAGICS


def _names(source: str) -> _Names:
    try:
        source = TransformerManager().transform_cell(source)
        table, tree = symtable.symtable(source, "cell", "exec"), ast.parse(source)
    except (SyntaxError, ValueError, RuntimeError, MemoryError):
        return _Names(frozenset(), frozenset())  # it would bind nothing
    used = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    bound = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    for inner in _inner(table):
        for symbol in inner.get_symbols():
            if symbol.is_global():
                used |= {symbol.get_name()} if symbol.is_referenced() else set()
                bound |= {symbol.get_name()} if symbol.is_assigned() else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            bound |= _root(node)
    return _Names(frozenset(used), frozenset(bound))


def _inner(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _inner(child)


def _root(node: ast.expr) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()
