"""What in a student's code a person should look at. It changes no grade: much of it has innocent reasons."""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from autograder.judge.job import Cell

#: What no lesson needs: other processes, the network, the memory of the process, the machinery of Python.
MODULES = frozenset(
    (
        *("_thread", "builtins", "code", "ctypes", "faulthandler", "gc", "http", "importlib"),
        *("inspect", "ipykernel", "mmap", "multiprocessing", "nbgrader", "pickle", "pty", "requests"),
        *("resource", "shutil", "signal", "socket", "subprocess", "threading", "urllib", "webbrowser"),
        "zmq",
    )
)

#: Attributes and names by which code changes what a check would see, or looks for what it should not.
NAMES = frozenset(
    (
        *("DisableTorchFunction", "TorchDispatchMode", "TorchFunctionMode", "__builtins__", "__eq__"),
        *("__getattribute__", "__subclasses__", "__torch_dispatch__", "__torch_function__"),
        *("_getframe", "ast_transformers", "get_objects", "input_transformers_cleanup"),
        *("input_transformers_post", "setprofile", "settrace", "jit", "_pop_mode", "exec", "eval"),
    )
)


def suspicions(
    cells: Sequence[Cell], forbidden: Mapping[str, Sequence[str]], seen: Collection[str] = ()
) -> list[str]:
    """Give sentences on what a person should look at, each once.

    `forbidden` are the functions that each exercise of the lesson rules out, `seen` those of them that were
    called while calls were watched. Cells that came with the lesson and the judge's own are not looked at.
    """
    unseen = {name.rpartition(".")[2] for names in forbidden.values() for name in names if name not in seen}
    told = {
        f"cell {cell.id}: {what}"
        for cell in cells
        if not (cell.judged or cell.released)
        for what in _odd(cell.source, unseen)
    }
    return sorted(told)


def _odd(source: str, forbidden: Collection[str]) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        modules: list[str] = []
        names: list[str] = []
        # A function that the exercise rules out can have the name of the exercise: that is no sign by itself.
        elsewhere: list[str] = []
        match node:
            case ast.Import(aliases):
                modules = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), names=aliases):
                modules = [module, *(f"{module}.{alias.name}" for alias in aliases)]
                names = [alias.name for alias in aliases]
                elsewhere = names if module.partition(".")[0] == "torch" else []
            case ast.Name(name) | ast.FunctionDef(name):
                names = [name]
            case ast.Attribute(attr=name) | ast.Constant(str(name)):
                names = elsewhere = [name.rpartition(".")[2]]
        for module in modules:
            if module.partition(".")[0] in MODULES:
                yield f"it imports {module.partition('.')[0]}"
            if module.startswith("course_lib.checks.") and module != "course_lib.checks.check":
                yield f"it imports {module}"
        yield from (f"it uses {name}" for name in names if name in NAMES)
        for name in elsewhere:
            if name in forbidden:
                yield f"it names {name}, which an exercise rules out, and no call of it was seen"
