"""Find passages in student code that a person should review. They don't affect the grade."""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from autograder.judge.cell_dependencies import without_ipython_syntax
from autograder.judge.job import Cell

#: Modules that no lesson needs: for processes, the network, raw memory or Python's internals.
UNUSUAL_MODULES = frozenset(
    (
        *("_thread", "builtins", "code", "ctypes", "faulthandler", "gc", "http", "importlib"),
        *("inspect", "ipykernel", "mmap", "multiprocessing", "nbgrader", "pickle", "pty", "requests"),
        *("resource", "shutil", "signal", "socket", "subprocess", "threading", "urllib", "webbrowser"),
        "zmq",
    )
)

#: Names and attributes that code could use to manipulate a check or search for hidden objects.
UNUSUAL_NAMES = frozenset(
    (
        *("DisableTorchFunction", "TorchDispatchMode", "TorchFunctionMode", "__builtins__", "__eq__"),
        *("__getattribute__", "__subclasses__", "__torch_dispatch__", "__torch_function__"),
        *("_getframe", "ast_transformers", "get_objects", "input_transformers_cleanup"),
        *("input_transformers_post", "setprofile", "settrace", "jit", "_pop_mode", "exec", "eval"),
    )
)


def static_warnings(
    cells: Sequence[Cell], forbidden: Mapping[str, Sequence[str]], observed: Collection[str] = ()
) -> list[str]:
    """Return one sentence for each passage that a person should review, without duplicates.

    `forbidden` contains the functions that each exercise prohibits. Mentions of these functions are reported
    too, unless they are in `observed`, which contains the functions whose calls the checks recorded. Locked
    cells and cells unchanged since the release are skipped.
    """
    unobserved = {
        name.rpartition(".")[2] for names in forbidden.values() for name in names if name not in observed
    }
    warnings = {
        f"cell {cell.id}: {what}"
        for cell in cells
        if not (cell.judged or cell.released)
        for what in _unusual(cell.source, unobserved)
    }
    return sorted(warnings)


def _unusual(source: str, forbidden: Collection[str]) -> Iterator[str]:
    try:
        tree = ast.parse(without_ipython_syntax(source))
    except SyntaxError:
        return  # Code that can't be parsed doesn't run either.
    except (ValueError, RuntimeError, MemoryError):
        yield "it is too long or too deeply nested to be searched for unusual code"
        return
    for node in ast.walk(tree):
        modules: list[str] = []
        names: list[str] = []
        # Names of members of a module or an object. A bare name proves nothing, because a prohibited function
        # can have the same name as the exercise.
        qualified: list[str] = []
        match node:
            case ast.Import(aliases):
                modules = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), names=aliases):
                modules = [module, *(f"{module}.{alias.name}" for alias in aliases)]
                names = [alias.name for alias in aliases]
                qualified = names if module.partition(".")[0] == "torch" else []
            case ast.Name(name) | ast.FunctionDef(name):
                names = [name]
            case ast.Attribute(attr=name) | ast.Constant(str(name)):
                names = qualified = [name.rpartition(".")[2]]
        for module in modules:
            if module.partition(".")[0] in UNUSUAL_MODULES:
                yield f"it imports {module.partition('.')[0]}"
            if module.startswith("course_lib.checks.") and module != "course_lib.checks.check":
                yield f"it imports {module}"
        yield from (f"it uses {name}" for name in names if name in UNUSUAL_NAMES)
        for name in qualified:
            if name in forbidden:
                yield f"it mentions {name}, which an exercise prohibits, but no call to it was recorded"
