"""Correct answers that call a forbidden function, most of them in ways that hide the call."""

from tests.autograder.hostile.threat import Threat

#: The threats that must be detected. The others may evade detection, but then a person must get a note.
_WATCHED = (
    "forbidden-call",
    "forbidden-by-name",
    "forbidden-operator",
    "forbidden-overload",
    "forbidden-in-exec",
    "forbidden-below",
)


def _calls(name: str, does: str, product: str, before: str = "", body: str = "") -> Threat:
    """Return a threat with a correct attention_scores, whose result is `product` divided by the root of d."""
    code = f"""\
import torch
{before}
def attention_scores(query, key):
{body}
    return {product} / math.sqrt(query.shape[-1])
"""
    return Threat(
        name,
        does,
        cells={"attention_scores": code},
        lost=("attention_scores",),
        verdicts={"attention_scores": "forbidden"},
        hidden="" if name in _WATCHED else "attention_scores: .*(einsum|imports|uses)",
    )


_EQUATION = '"...qd,...kd->...qk"'
_PLAIN = f"torch.einsum({_EQUATION}, query, key)"
_OPERATOR = f"torch.ops.aten.einsum({_EQUATION}, [query, key])"

THREATS = (
    _calls("forbidden-call", "calls it directly", _PLAIN),
    _calls(
        "forbidden-by-name",
        "calls it by a name assembled at run time",
        f'getattr(torch, "ein" + "sum")({_EQUATION}, query, key)',
    ),
    _calls("forbidden-operator", "calls the operator behind it", _OPERATOR),
    _calls(
        "forbidden-overload",
        "calls one of the operator's overloads",
        _OPERATOR.replace("einsum(", "einsum.default("),
    ),
    _calls(
        "forbidden-in-exec",
        "calls it in code compiled from text",
        "made()",
        body=f"""\
    space = {{"torch": torch, "query": query, "key": key}}
    exec("found = torch.e" + 'insum({_EQUATION}, query, key)', space)
    made = lambda: space["found"]
""",
    ),
    _calls(
        "forbidden-below",
        "calls it below what can be watched in Python",
        f"torch._C._VariableFunctions.einsum({_EQUATION}, [query, key])",
    ),
    _calls(
        "forbidden-unwatched",
        "calls it with the watching switched off",
        "made",
        body=f"""\
    with torch._C.DisableTorchFunction():
        made = {_OPERATOR}
""",
    ),
    _calls(
        "forbidden-unwatched-subclasses",
        "calls it with all overriding switched off",
        "made",
        body=f"""\
    with torch._C.DisableTorchFunctionSubclass(), torch.overrides._no_torch_function_mode() \\
            if hasattr(torch.overrides, "_no_torch_function_mode") else torch._C.DisableTorchFunction():
        made = {_PLAIN}
""",
    ),
    _calls(
        "forbidden-without-the-mode",
        "calls it with the watching mode removed",
        "made",
        body=f"""\
    from torch.overrides import _pop_mode, _push_mode
    modes = []
    while torch._C._len_torch_function_stack():
        modes.append(_pop_mode())
    made = {_PLAIN}
    for mode in reversed(modes):
        _push_mode(mode)
""",
    ),
    _calls(
        "forbidden-in-a-thread",
        "calls it in a thread that is not watched",
        "made[0]",
        body=f"""\
    import threading
    made = []
    thread = threading.Thread(target=lambda: made.append({_PLAIN}))
    thread.start()
    thread.join()
""",
    ),
    _calls(
        "forbidden-compiled",
        "calls it in compiled code",
        "compiled(query, key)",
        before=f"""\
import linecache, types
source = '''def product(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    return torch.einsum({_EQUATION}, [query, key])
'''
linecache.cache["compiled.py"] = (len(source), None, source.splitlines(True), "compiled.py")
space = {{"torch": torch, "__name__": "__main__"}}
exec(compile(source, "compiled.py", "exec"), space)
compiled = torch.jit.script(space["product"])
""",
    ),
    _calls(
        "forbidden-unreported",
        "makes the watcher forget what it has seen",
        _PLAIN,
        before="""\
import sys
for module in [module for name, module in sys.modules.items() if name.startswith("course_lib.checks")]:
    for name, watch in [*vars(module).items()]:
        if name == "Watch":
            watch.seen = property(lambda self: (), lambda self, value: None)
            watch.__torch_function__ = lambda self, function, types, arguments=(), keywords=None: function(
                *arguments, **(keywords or {}))
""",
    ),
    _calls(
        "forbidden-renamed",
        "calls it under a name that it was given before watching started",
        f"kept({_EQUATION}, query, key)",
        before="""\
class Renamed:
    def __call__(self, *arguments): return type(self).function(*arguments)
kept = torch.einsum
kept.__name__ = kept.__qualname__ = "multiply"
""",
    ),
    _calls(
        "forbidden-in-a-process",
        "has another process call it",
        "Product.apply(query, key)",
        before=f"""\
import mmap, os
class Product(torch.autograd.Function):
    @staticmethod
    def forward(context, query, key):
        context.save_for_backward(query, key)
        shape = query.shape[:-1] + key.shape[-2:-1]
        shared = mmap.mmap(-1, shape.numel() * query.dtype.itemsize)
        made = torch.frombuffer(shared, dtype=query.dtype).reshape(shape)
        child = os.fork()
        if child == 0:
            try:
                made.copy_({_PLAIN})
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        return made
    @staticmethod
    def backward(context, toward):
        query, key = context.saved_tensors
        return toward @ key, toward.transpose(-2, -1) @ query
""",
    ),
)
