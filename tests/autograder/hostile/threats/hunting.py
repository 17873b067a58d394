"""Code that looks for the answers instead of giving its own."""

from tests.autograder.hostile.threat import Threat

_NAMES = ("attention_scores", "attention_weights")

#: Code that uses a function or source found under a name as the answer, unless it is a stub.
_TAKE = """
def take(name, found):
    import math, torch
    from torch import Tensor
    from collections.abc import Callable
    function = found
    if isinstance(found, str):
        start = found.index(f"def {name}(")
        lines = found[start:].split("\\n")
        head = next(number for number, line in enumerate(lines) if line.rstrip().endswith(":"))
        after = [number for number, line in enumerate(lines) if number > head and line[:1].strip()]
        end = min([*after, len(lines)])
        new_head = f"def {name}(query, key=None):\\n"
        source = re.sub(r"^def .*?:\\n", new_head, "\\n".join(lines[:end]), count=1, flags=re.S)
        source = source.replace("scores.", "query.").replace("mask", "key")
        space = {"math": math, "torch": torch}
        exec(source, space)
        function = space[name]
    try:
        given = (torch.ones(2, 4), torch.ones(3, 4)) if name == "attention_scores" else (torch.ones(2, 4),)
        if function(*given) is not None:
            globals()[name] = function
            return "found"
    except NotImplementedError:
        pass
    raise LookupError("only a stub")
"""


def _hunt(name: str, does: str, code: str) -> Threat:
    """Return a threat whose cell binds whatever it finds to the exercises' names."""
    return Threat(
        name,
        does,
        f"NAMES = {_NAMES!r}\n{_TAKE}\n{code}",
        answers="blank",
        # These cells define nothing, so that the names keep what was found.
        cells=dict.fromkeys(_NAMES, "pass"),
        confined=True,
    )


THREATS = (
    Threat(
        "imports-the-reference",
        "imports the course's own solution",
        answers="blank",
        cells={
            name: f"from course_lib.transformer.attention import {name}\n"
            f"from course_lib.transformer import {name}"
            for name in _NAMES
        },
    ),
    _hunt(
        "wraps-the-reference",
        "calls the course's own solution, directly and through the whole attention",
        """\
import importlib, pkgutil, sys
from unittest.mock import MagicMock
import course_lib
sys.modules.update(altair=MagicMock(), pandas=MagicMock())  # slow to import, and without a solution
for module in pkgutil.walk_packages(course_lib.__path__, "course_lib."):
    if "__main__" in module.name or module.name.endswith((".train", ".lab")):
        continue
    try:
        found = importlib.import_module(module.name)
    except BaseException as error:
        continue
    for name in NAMES:
        for other in (name, f"_{name}", f"reference_{name}", f"{name}_reference"):
            if hasattr(found, other):
                attempt(f"{module.name}.{other}", lambda: take(name, getattr(found, other)))
from course_lib.transformer.attention import scaled_dot_product_attention
import torch
def by_attention(query, key=None):
    return scaled_dot_product_attention(query, torch.eye(3), torch.eye(3))[1]
attempt("by the whole attention", lambda: take("attention_weights", by_attention))
def by_attention(query, key):
    # The logarithm of the weights equals the scores up to a constant in each row.
    return scaled_dot_product_attention(query, key, torch.ones(3, 2))[1].log()
attempt("by the whole attention", lambda: take("attention_scores", by_attention))
""",
    ),
    _hunt(
        "hunts-in-memory",
        "looks for the course's own solution among all objects in memory, and in the sources of modules",
        """\
import inspect, linecache, types
attempt("import", lambda: __import__("course_lib.checks.exercises.attention.probes"))
for name in NAMES:
    for found in gc.get_objects():
        if isinstance(found, types.FunctionType) and found.__name__ == name:
            attempt(f"a function called {name}", lambda: take(name, found))
        elif isinstance(found, types.CodeType) and found.co_name == name:
            attempt(f"code called {name}", lambda: take(name, types.FunctionType(found, {})))
    for module in [*sys.modules.values()]:
        if getattr(module, "__name__", "").startswith("course_lib"):
            try:
                source = inspect.getsource(module)
            except Exception:
                continue
            if f"def {name}(" in source:
                attempt(f"the source of {module.__name__}", lambda: take(name, source))
""",
    ),
    _hunt(
        "hunts-in-files",
        "looks for the course's own solution in all files: sources, notebooks, byte code, git, caches",
        """\
import importlib.metadata, itertools, marshal, types, zlib
roots = {"/"} | {path for path in sys.path if path}
def editable():
    told = importlib.metadata.distribution("build-the-transformer").read_text("direct_url.json")
    path = json.loads(told)["url"].removeprefix("file://")
    roots.add(path)
    roots.add(f"{path}/solutions")
    return os.listdir(path)
look("where the course is installed from", editable)
roots |= {COURSE, f"{COURSE}/..", os.path.expanduser("~"), HOME, "/work", "/tmp", "/srv", "/opt", "/mnt"}
def files():
    end = time.monotonic() + 2.5
    for root in sorted(roots, key=len, reverse=True):
        for folder, below, names in os.walk(root):
            below[:] = [name for name in below if (folder, name) not in {("/", "proc"), ("/", "sys")}
                        and name not in ("torch", "pandas", "sympy", "scipy", "numpy", "spacy", "test")]
            for name in names:
                if name.startswith("attention") or name.endswith((".ipynb", ".db")) or "/objects/" in folder:
                    yield Path(folder, name)
            if time.monotonic() > end:
                return
seen = 0
for path in files():
    seen += 1
    try:
        content = path.read_bytes()
        if "/objects/" in str(path):
            content = zlib.decompress(content)
    except Exception:
        continue
    for name in NAMES:
        if path.suffix == ".pyc":
            def code():
                found = [item for item in marshal.loads(content[16:]).co_consts
                         if isinstance(item, types.CodeType) and item.co_name == name]
                space = {"math": __import__("math"), "torch": __import__("torch")}
                return take(name, types.FunctionType(found[0], space))
            if name.encode() in content:
                attempt(f"{name} in {path}", code)
        elif f"def {name}(".encode() in content and "math.sqrt(query" in content.decode(errors="replace"):
            text = content.decode(errors="replace")
            attempt(f"{name} in {path}", lambda: take(name, text.encode().decode("unicode_escape")
                                                      if path.suffix == ".ipynb" else text))
look("the number of files", lambda: seen)
""",
    ),
    Threat(
        "hunts-for-predictions",
        "looks for the number that is asked for in the checks, the sources and course.toml",
        """\
def from_catalogue():
    from course_lib.checks.exercises.registry import catalogue
    return catalogue()["predict_spread"].answer
def from_lesson():
    from course_lib.checks.exercises.attention import probes as attention
    return attention.PREDICT_SPREAD.answer
def from_files():
    import course_lib
    for root in (*course_lib.__path__, COURSE):
        for path in [*Path(root).rglob("*.py"), *Path(root).rglob("*.ipynb")]:
            found = re.search(r"PREDICT_SPREAD.{0,300}?answer=([0-9.]+)", path.read_text(), re.S)
            if found:
                return float(found[1])
    raise LookupError("nowhere")
answers = []
for action in (from_catalogue, from_lesson, from_files):
    attempt(action.__name__, lambda: answers.append(action()))
""",
        answers="blank",
        cells={"predict_spread": "predict_spread = answers[0] if answers else 1"},
        confined=True,
    ),
    Threat(
        "hunts-in-the-package-index",
        "downloads a package from the package index",
        """\
command = [sys.executable, "-m", "pip", "download", "--no-deps", "--timeout=1", "--retries=0", "six"]
attempt("install", lambda: subprocess.run(command, check=True, capture_output=True, timeout=4).stdout)
""",
        answers="blank",
        confined=True,
    ),
)
