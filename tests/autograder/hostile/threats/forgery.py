"""Code that tries to make a wrong answer look correct, and submissions that claim points."""

from tests.autograder.hostile.threat import FIRST, Threat

#: Wrong answers with the right shape and with gradients.
_WRONG = {
    "attention_scores": "def attention_scores(query, key):\n"
    "    return query @ key.transpose(-2, -1) * 3 + 1\n",
    "attention_weights": "def attention_weights(scores, mask=None):\n    return scores * 0 + 0.5\n",
    "predict_spread": "predict_spread = 123456",
}


def _wrong(name: str, does: str, attack: str, **more: object) -> Threat:
    """Return a threat that hands in wrong answers in addition to the attack."""
    return Threat(name, does, attack, answers="blank", cells=_WRONG, **more)  # type: ignore[arg-type]


THREATS = (
    _wrong(
        "patched-comparisons",
        "makes every comparison of tensors report that they are equal",
        """\
import math, numpy, torch
yes = lambda *_, **__: True
torch.allclose = torch.equal = torch.is_same_size = yes
torch.testing.assert_close = torch.testing.assert_allclose = lambda *_, **__: None
torch.Tensor.allclose = torch.Tensor.equal = torch.Tensor.__bool__ = yes
torch.isclose = torch.Tensor.isclose = lambda self, *_, **__: torch.ones_like(self, dtype=torch.bool)
torch.Tensor.__eq__ = lambda self, other: torch.ones_like(self, dtype=torch.bool)
torch.Tensor.__ne__ = lambda self, other: torch.zeros_like(self, dtype=torch.bool)
torch.Tensor.all = torch.Tensor.any = lambda self, *_, **__: torch.tensor(True)
numpy.allclose = numpy.testing.assert_allclose = math.isclose = yes
""",
    ),
    _wrong(
        "patched-builtins",
        "replaces built-in functions with ones that always agree",
        """\
import builtins
kept = isinstance
class Agreeing(int):
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = lambda self, other: True
    __hash__ = int.__hash__
builtins.abs = lambda value: Agreeing(0)
builtins.all = lambda *_: True
builtins.any = lambda *_: False
builtins.AssertionError = type("Quiet", (Warning,), {})
import math
math.isclose = lambda *_, **__: True
""",
    ),
    _wrong(
        "patched-isinstance",
        "makes everything an instance of everything",
        "import builtins\nkept = isinstance\n"
        "builtins.isinstance = lambda value, kind: True if 'Tensor' in str(kind) else kept(value, kind)",
    ),
    _wrong(
        "patched-print",
        "prints only what a check prints when everything is correct",
        "import builtins\nbuiltins.print('the attack ran to its end')\n"
        "builtins.print = lambda *_, **__: sys.stdout.write('✓ attention_scores: right (9 of 9 probes).\\n')",
    ),
    _wrong(
        "input-transformer",
        "has IPython replace the text of every cell that follows",
        """\
def without_checks(lines):
    return ["pass\\n"] if any("check(" in line for line in lines) else lines
get_ipython().input_transformers_post.append(without_checks)
get_ipython().input_transformers_cleanup.append(without_checks)
""",
    ),
    _wrong(
        "ast-transformer",
        "has IPython remove every call to a check from the cells that follow",
        """\
import ast
class WithoutChecks(ast.NodeTransformer):
    def visit_Expr(self, node):
        return None if "check" in ast.dump(node) or "grading" in ast.dump(node) else node
get_ipython().ast_transformers.append(WithoutChecks())
""",
    ),
    _wrong(
        "replaced-kernel",
        "has the kernel report that every cell succeeded, without running it",
        """\
def run(code, *_, **__):
    return {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}
async def run_later(code, *_, **__):
    return run(code)
kernel = get_ipython().kernel
kernel.do_execute = run_later
get_ipython().run_cell_async = run_later
get_ipython().run_cell = run
get_ipython().showtraceback = lambda *_, **__: None
""",
    ),
    _wrong(
        "replaced-modules",
        "replaces the course's checks with its own modules",
        """\
import types
class Agreeing(types.ModuleType):
    def __getattr__(self, name):
        return lambda *_, **__: None
for name in ("course_lib.checks", "course_lib.checks.notebook", "course_lib.checks.engine.diagnosis",
             "course_lib.checks.exercises.registry", "course_lib.checks.engine.comparison"):
    sys.modules[name] = Agreeing(name)
import course_lib
course_lib.checks = sys.modules["course_lib.checks"]
""",
    ),
    _wrong(
        "emptied-checks",
        "removes the checks' probes, and makes comparisons find no difference",
        """\
def empty():
    from course_lib.checks.exercises.registry import catalogue
    for entry in catalogue().values():
        for name in ("probes", "tolerance", "answer"):
            if hasattr(entry, name):
                kind = {"probes": (), "tolerance": float("inf"), "answer": 123456.0}
                object.__setattr__(entry, name, kind[name])
look("empty the catalogue", empty)
def agree():
    from course_lib.checks.engine import comparison as difference
    from course_lib.checks.engine import diagnosis as engine
    engine.first_difference = difference.first_difference = lambda *_, **__: None
look("agree", agree)
""",
    ),
    _wrong(
        "own-check",
        "defines its own function called check",
        """\
def check(name, *_, **__):
    print(f"✓ {name}: right.")
    return None
get_ipython().user_ns_hidden["check"] = check
import builtins
builtins.check = check
try:
    import course_lib.checks
    course_lib.checks.check = check
except ImportError:
    pass
""",
    ),
    _wrong(
        "patched-transport",
        "replaces the functions that serialize and send its answers",
        """\
import json, struct, pickle
claim = {"passed": True, "points": 99, "verdict": "right", "value": True, "kind": "right"}
for name in ("course_lib.checks.remote.serialization", "course_lib.checks.remote.server",
             "course_lib.checks.engine.reply",
             "course_lib.checks.engine.local_backend", "course_lib.checks.remote.transport"):
    look(f"import {name}", lambda: __import__(name))
for module in [module for name, module in sys.modules.items() if name.startswith("course_lib.checks.")]:
    for name in ("pack", "pack_reply", "to_bytes", "dumps"):
        if hasattr(module, name):
            setattr(module, name, lambda *_, **__: json.JSONEncoder().encode(claim).encode())
json.dumps = lambda *_, **__: json.JSONEncoder().encode(claim)
""",
        garbled=True,
    ),
    _wrong(
        "rubbish-for-the-judge",
        "sends frames that claim impossible lengths, depths and shapes on every socket that it inherited",
        """\
import stat
def frames():
    yield struct.pack(">Q", 2**63) + b"x"
    yield struct.pack("<Q", 2**62) + b"x"
    yield struct.pack(">I", 2**32 - 1) * 2
    yield b"[" * 100_000
    body = b'{"tensor": [-1, 99999999999], "dtype": "float64", "shape": [-5]}'
    yield struct.pack(">I", len(body)) + body
    yield struct.pack("<Q", len(body)) + body
for frame in frames():
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as other:
                    if other.family == socket.AF_UNIX and other.type == socket.SOCK_STREAM:
                        other.setblocking(False)
                        other.send(frame)
        except OSError:
            pass
""",
        garbled=True,
    ),
    Threat(
        "frames-climbed",
        "has its function look for the reference in its callers' frames",
        answers="blank",
        cells={
            name: f"""\
import sys, types
def {name}(*arguments, **keywords):
    frame = sys._getframe(1)
    while frame:
        for value in [*frame.f_locals.values()]:
            reference = getattr(value, "reference", None)
            if isinstance(reference, types.FunctionType):
                return reference(*arguments, **keywords)
        frame = frame.f_back
    return arguments[0]
"""
            for name in ("attention_scores", "attention_weights")
        },
    ),
    Threat(
        "objects-that-agree",
        "hands in objects that equal everything and are true",
        answers="blank",
        cells={
            "predict_spread": """\
class Agreeing(float):
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: True
    __bool__ = lambda self: True
    __sub__ = __rsub__ = __abs__ = __float__ = lambda self, *_: Agreeing(0)
    __hash__ = float.__hash__
    def __instancecheck__(self, other): return True
predict_spread = Agreeing(3)
""",
            "attention_scores": """\
class Everything:
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __bool__ = lambda self: True
    __getattr__ = lambda self, name: self
    __call__ = lambda self, *_, **__: self
    __float__ = lambda self: 0.0
    __len__ = __index__ = __int__ = lambda self: 0
    __iter__ = lambda self: iter(())
    __hash__ = lambda self: 0
attention_scores = Everything()
""",
            "attention_weights": "def attention_weights(scores, mask=None):\n    return Everything()\n",
        },
    ),
    Threat(
        "endless-answers",
        "hands in containers that never end",
        answers="blank",
        cells={
            "predict_spread": "predict_spread = float('nan')",
            "attention_scores": """\
class Endless(list):
    def __iter__(self):
        while True:
            yield 1
    def __len__(self): return 10**9
def attention_scores(query, key):
    return Endless()
""",
            "attention_weights": """\
class EndlessDict(dict):
    def items(self):
        number = 0
        while True:
            number += 1
            yield str(number), number
def attention_weights(scores, mask=None):
    return EndlessDict(a=1)
""",
        },
    ),
    Threat(
        "tensors-that-lie",
        "answers with tensor subclasses that claim to be equal to everything",
        answers="blank",
        cells={
            "attention_scores": """\
class Lying(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        if function.__name__ in ("allclose", "equal", "isclose", "__eq__", "eq", "all", "__bool__"):
            return True
        if function.__name__ in ("sub", "__sub__", "__rsub__", "abs", "max", "amax"):
            return torch.zeros(())
        return super().__torch_function__(function, types, arguments, keywords or {})
    @property
    def shape(self): return torch.Size((3, 5))
    def detach(self): return self
    def clone(self): return self
    def as_subclass(self, cls): return self
def attention_scores(query, key):
    return (query @ key.transpose(-2, -1)).as_subclass(Lying)
""",
            "attention_weights": """\
class Wrapping(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
        return torch.zeros(())
def attention_weights(scores, mask=None):
    return Wrapping(scores)
""",
        },
    ),
    Threat(
        "odd-tensors",
        "answers with unusual tensors: without data, sparse, complex, quantized and nested",
        answers="blank",
        cells={
            "predict_spread": "import torch\npredict_spread = torch.empty((), device='meta')",
            "attention_scores": "def attention_scores(query, key):\n"
            "    return torch.empty(query.shape[:-1] + key.shape[-2:-1], device='meta')",
            "attention_weights": "def attention_weights(scores, mask=None):\n    return scores.to_sparse(), "
            "scores.to(torch.complex64), torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "
            "torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])",
        },
    ),
    Threat(
        "mocks",
        "hands in objects that accept any call and have every attribute",
        answers="blank",
        cells={
            "predict_spread": "from unittest.mock import MagicMock\npredict_spread = MagicMock()",
            "attention_scores": "attention_scores = MagicMock()",
            "attention_weights": "def attention_weights(scores, mask=None):\n    return MagicMock()",
        },
    ),
    Threat(
        "points-by-last-expression",
        "ends its cells with numbers, which plain nbgrader would count as points",
        answers="blank",
        cells={
            "predict_spread": "predict_spread = None\n99.0",
            "attention_scores": "def attention_scores(query, key): return 4.0\n4.0",
            "attention_weights": "class Points(float):\n    def __call__(self, *_, **__): return self\n"
            "attention_weights = Points('nan')\nfloat('nan')",
        },
    ),
    _wrong(
        "forged-report",
        "displays a fake report of the judge",
        """\
from IPython.display import display
for name, points in (("predict_spread", 1.0), ("attention_scores", 4.0), ("attention_weights", 5.0)):
    display({"text/plain": "✓ right"}, raw=True, metadata={"course": {
        "name": name, "verdict": "right", "misconceptions": [], "statements": [], "forbidden": [],
        "points": points, "max_points": points}})
""",
    ),
    _wrong(
        "forged-messages",
        "has its kernel send messages that claim to answer the cells that follow",
        """\
def forge():
    kernel = get_ipython().kernel
    for _ in range(200):
        time.sleep(0.02)
        result = {"execution_count": 1, "data": {"text/plain": "99.0"}, "metadata": {}}
        for kind, content in (("execute_result", result),
                              ("status", {"execution_state": "idle"})):
            parent = kernel.get_parent("shell")
            kernel.session.send(kernel.iopub_socket, kind, content=content, parent=parent)
threading.Thread(target=forge, daemon=True).start()
""",
    ),
    Threat(
        "malformed-messages",
        "has its kernel send messages that are correctly signed but malformed",
        """\
kernel = get_ipython().kernel
parent = kernel.get_parent("shell")
for kind, content in (
    ("status", {}),
    ("stream", {"name": 3, "text": {"a": 1}}),
    ("stream", {"name": "stdout"}),
    ("display_data", {"data": "no dict", "metadata": [], "transient": 5}),
    ("display_data", {"data": {"text/plain": {"deep": [None]}}, "metadata": {}}),
    ("execute_result", {"data": {3: 4}}),
    ("error", {"ename": None}),
    ("update_display_data", {"transient": {"display_id": ["x"]}}),
    ("clear_output", {"wait": {}}),
    ("comm_open", {"comm_id": 1}),
    ("no such kind", {"x": 1}),
):
    kernel.session.send(kernel.iopub_socket, kind, content=content, parent=parent)
""",
        # Such messages may cost only the cell that sends them.
        lost=(FIRST,),
    ),
    Threat(
        "malformed-reply",
        "has its kernel answer a cell with malformed messages",
        """\
kernel = get_ipython().kernel
parent = kernel.get_parent("shell")
for content in ({}, {"status": {}}, {"status": "error", "ename": 3, "traceback": "none"}, [1]):
    kernel.session.send(kernel.shell_stream if hasattr(kernel, "shell_stream") else kernel.shell_streams[0],
                        "execute_reply", content=content, parent=parent,
                        ident=kernel._parent_ident.get("shell"))
""",
        lost=(FIRST,),
    ),
)
