"""Code that uses more than its share of a resource, up to a limit in case nothing else stops it."""

from tests.autograder.hostile.threat import FIRST, Threat


def _answer(value: str) -> dict[str, str]:
    """Return an attention_scores that always returns this value."""
    return {"attention_scores": f"made = {value}\ndef attention_scores(query, key):\n    return made\n"}


_SCORES = ("attention_scores",)

THREATS = (
    Threat(
        "fork-storm",
        "forks 200 processes, each of which ends by itself after twenty seconds",
        """\
def storm():
    for _ in range(200):
        if os.fork() == 0:
            named_process()
            time.sleep(20)
            os._exit(0)
attempt("start 200 processes", storm)
""",
        lost=(FIRST,),
        noted="simultaneous processes",
        confined=True,
    ),
    Threat(
        "thread-storm",
        "starts 2000 threads, which wait until there are no more",
        """\
def storm():
    over, started = threading.Event(), []
    try:
        for _ in range(2000):
            started.append(threading.Thread(target=over.wait, daemon=True))
            started[-1].start()
    finally:
        over.set()
        for thread in started[:-1]:
            thread.join()
attempt("start 2000 threads", storm)
""",
        confined=True,
    ),
    Threat(
        "memory-of-bytes",
        "fills eight gigabytes with bytes",
        """\
def fill():
    kept = [b"x" * 2**26 for _ in range(128)]
attempt("fill 8 GiB", fill)
""",
        confined=True,
    ),
    Threat(
        "memory-of-tensors",
        "fills eight gigabytes with tensors",
        """\
import torch
def fill():
    kept = [torch.empty(2**26).fill_(1) for _ in range(32)]
attempt("fill 8 GiB", fill)
""",
        confined=True,
    ),
    Threat(
        "memory-of-many",
        "fills two gigabytes, shared out among eight processes which end by themselves",
        """\
def fill():
    (full, is_full), (over, hold) = os.pipe(), os.pipe()
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            named_process()
            try:
                os.close(hold)
                kept = b"x" * 2**28
                os.close(is_full)
                os.read(over, 1)  # Keep the memory until all are full, however busy the machine is.
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    os.close(is_full)
    os.read(full, 1)
    time.sleep(2)
    os.close(hold)
    ends = [os.waitpid(child, 0)[1] for child in children]
    assert not any(ends), f"ended with {ends}"
attempt("fill 2 GiB in eight processes", fill)
""",
        lost=(FIRST,),
        noted="memory",
        confined=True,
    ),
    Threat(
        "memory-that-is-shared",
        "fills eight gigabytes of shared memory, which belongs to no process",
        """\
import mmap
def share():
    kept = mmap.mmap(-1, 2**33)
    for _ in range(128):
        kept.write(b"x" * 2**26)
def nameless_file():
    with open(os.memfd_create("kept"), "wb", buffering=0) as file:
        for _ in range(128):
            assert file.write(b"x" * 2**26) == 2**26
attempt("fill 8 GiB of shared memory", share)
attempt("fill 8 GiB of a nameless file", nameless_file)
""",
        confined=True,
    ),
    Threat(
        "disk",
        "writes four gigabytes wherever it may write",
        """\
def fill(folder):
    paths = [Path(folder, f"{MARK}-{number}") for number in range(64)]
    try:
        for path in paths:
            with path.open("wb", buffering=0) as file:
                for _ in range(4):
                    assert file.write(b"x" * 2**24) == 2**24, "written in part"
    finally:
        for path in paths:
            path.unlink(missing_ok=True)
for folder in ("/tmp", "/dev/shm", "/var/tmp"):
    attempt(f"write 4 GiB in {folder}", lambda: fill(folder))
fill(".")
print("DONE write 4 GiB")
""",
        lost=(FIRST,),
        confined=True,
    ),
    Threat(
        "one-large-file",
        "writes a sparse file of four gigabytes, which uses no space on the disk",
        """\
def write():
    try:
        with open("sparse", "wb") as file:
            file.truncate(2**32)
            assert os.path.getsize("sparse") == 2**32
    finally:
        os.remove("sparse")
attempt("write a file of 4 GiB", write)
""",
        confined=True,
    ),
    Threat("output-in-one-line", "prints 200 MB in one line", 'print("x" * 200_000_000)\nprint()'),
    Threat(
        "output-in-many-lines",
        "prints 200 MB in two million lines",
        'for _ in range(200): print(("x" * 99 + "\\n") * 10_000)',
    ),
    Threat(
        "output-as-display",
        "displays 20 MB",
        'from IPython.display import HTML, display\ndisplay(HTML("x" * 20_000_000))',
    ),
    Threat(
        "output-in-small-displays",
        "displays 2000 small things",
        "from IPython.display import HTML, display\nfor _ in range(2000): display(HTML('x' * 1000))",
    ),
    Threat(
        "output-past-the-notebook",
        "writes without end to the standard output and error of the kernel's process",
        """\
while True:
    for descriptor in (1, 2):
        os.write(descriptor, b"x" * 1_000_000)
""",
        lost=(FIRST,),
    ),
    Threat(
        "output-when-judged",
        "prints 200 MB when its function is called",
        cells={"attention_scores": 'def attention_scores(query, key): print("x" * 200_000_000)'},
        lost=_SCORES,
    ),
    Threat(
        "reply-of-1-gb",
        "answers with a tensor of a gigabyte",
        cells=_answer("torch.ones(2**28)"),
        lost=_SCORES,
    ),
    Threat(
        "reply-that-looks-small",
        "answers with 8 GiB that take four bytes in its own process",
        cells=_answer("torch.ones(1).expand(2**31)"),
        lost=_SCORES,
    ),
    Threat(
        "reply-of-many-tensors",
        "answers with sixty thousand empty tensors",
        cells=_answer("tuple(torch.empty(0) for _ in range(60_000))"),
        lost=_SCORES,
    ),
    Threat(
        "reply-that-is-deep",
        "answers with a tuple a million levels deep",
        cells={
            "attention_scores": """\
deep = ()
for _ in range(1_000_000):
    deep = (deep,)
def attention_scores(query, key):
    return deep
"""
        },
        lost=_SCORES,
    ),
    Threat(
        "reply-that-holds-itself",
        "answers with a list that contains itself",
        cells={
            "attention_scores": "held = []\nheld.append(held)\ndef attention_scores(query, key): return held"
        },
        lost=_SCORES,
    ),
    Threat(
        "reply-of-many-keys",
        "answers with a million keys",
        cells=_answer("dict.fromkeys(map(str, range(1_000_000)))"),
        lost=_SCORES,
    ),
    Threat(
        "reply-of-a-string", "answers with a gigabyte of text", cells=_answer('"x" * 2**30'), lost=_SCORES
    ),
    Threat(
        "reply-of-digits",
        "answers with a number of a million digits",
        cells=_answer("10 ** 1_000_000"),
        lost=_SCORES,
    ),
    Threat(
        "reply-with-odd-text",
        "answers with a lone surrogate and control characters",
        cells=_answer(r'"\ud800\x00\x1b]0;title\x07" * 5'),
        lost=_SCORES,
    ),
    Threat(
        "error-that-says-too-much",
        "raises an error of 200 MB",
        cells={
            "attention_scores": 'def attention_scores(query, key):\n    raise ValueError("x" * 200_000_000)'
        },
        lost=_SCORES,
    ),
    Threat(
        "error-that-cannot-be-said",
        "raises an error that raises when it is read",
        cells={
            "attention_scores": """\
class Unspeakable(Exception):
    def __str__(self): raise SystemExit
    __repr__ = __str__
def attention_scores(query, key):
    raise Unspeakable
"""
        },
        lost=_SCORES,
    ),
    Threat(
        "many-warnings",
        "issues ten thousand warnings when its function is called",
        cells={
            "attention_scores": """\
import warnings
def attention_scores(query, key):
    for number in range(10_000):
        warnings.warn(f"{number}" * 100)
    return query
"""
        },
        lost=_SCORES,
    ),
)
