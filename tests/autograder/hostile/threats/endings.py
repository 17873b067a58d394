"""Code that never returns, or that ends the process that runs it."""

from tests.autograder.hostile.threat import FIRST, Threat

#: The body of a function that no exception in Python can stop.
_FOR_EVER = """\
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
"""


def _scores(body: str, before: str = "") -> dict[str, str]:
    """Return an attention_scores with this body."""
    return {"attention_scores": f"{before}\ndef attention_scores(query, key):\n{body}"}


THREATS = (
    Threat("endless-loop", "loops for ever", "while True: pass", lost=(FIRST,)),
    Threat(
        "endless-loop-that-catches",
        "loops for ever, and catches every exception that would stop it",
        "def loop():\n" + _FOR_EVER + "loop()",
        lost=(FIRST,),
    ),
    Threat(
        "endless-sleep",
        "ignores every signal that can be ignored, and sleeps",
        """\
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: time.sleep(1000)
""",
        lost=(FIRST,),
    ),
    Threat(
        "endless-in-c",
        "computes in C code that handles no signals",
        # This takes minutes, and half a gigabyte.
        "7 ** (10 ** 9)",
        lost=(FIRST,),
    ),
    Threat(
        "stopped",
        "stops its own process, which then no longer responds",
        "os.kill(os.getpid(), signal.SIGSTOP)",
        lost=(FIRST,),
    ),
    Threat(
        "judged-loop",
        "loops for ever when its function is called",
        cells=_scores("    while True: pass\n"),
        lost=("attention_scores",),
        verdicts={"attention_scores": "out-of-time"},
    ),
    Threat(
        "judged-loop-that-catches",
        "loops for ever when its function is called, and catches what would stop it",
        cells=_scores(_FOR_EVER),
        lost=("attention_scores",),
        verdicts={"attention_scores": "out-of-time"},
    ),
    Threat(
        "judged-loop-without-alarm",
        "loops for ever when its function is called, with the alarm switched off",
        cells=_scores(
            "    signal.signal(signal.SIGALRM, signal.SIG_IGN)\n    signal.setitimer(signal.ITIMER_REAL, 0)\n"
            + _FOR_EVER,
            "import signal",
        ),
        lost=("attention_scores",),
        verdicts={"attention_scores": "out-of-time"},
    ),
    Threat(
        "loop-in-a-thread",
        "leaves a thread that loops for ever",
        "def loop():\n" + _FOR_EVER + "threading.Thread(target=loop).start()",
    ),
    Threat(
        "loop-at-exit",
        "loops for ever when its process is told to end",
        "def loop(*_):\n" + _FOR_EVER + "atexit.register(loop)\nthreading._register_atexit(loop)\n"
        "signal.signal(signal.SIGTERM, loop)",
    ),
    Threat(
        "loop-at-deletion",
        "loops for ever when an object is deleted, at the end of its process",
        "class Kept:\n    def __del__(self):\n"
        + "\n".join(f"    {line}" for line in _FOR_EVER.split("\n"))
        + "\nsys.kept = Kept()\nsys.kept.itself = sys.kept",
    ),
    Threat("sys-exit", "calls sys.exit", "sys.exit(0)", lost=(FIRST,)),
    Threat("os-exit", "ends its process on the spot", "os._exit(0)", lost=(FIRST,)),
    Threat("exit", "calls exit(), which ends a kernel", "exit()"),
    Threat("quit", "calls quit(), which ends a kernel", "quit()"),
    Threat(
        "keyboard-interrupt", "raises the stop button's exception", "raise KeyboardInterrupt", lost=(FIRST,)
    ),
    Threat("kills-itself", "kills its own process", "os.kill(os.getpid(), signal.SIGKILL)", lost=(FIRST,)),
    Threat("crash", "reads unmapped memory", "ctypes.string_at(0)", lost=(FIRST,)),
    Threat(
        "endless-recursion",
        "recurses until the stack is full",
        "sys.setrecursionlimit(10**9)\ndef deeper(): return [*map(lambda _: deeper(), [0])]\ndeeper()",
        lost=(FIRST,),
    ),
    Threat(
        "half-of-it-exits",
        "forks, and ends while the copy keeps everything open",
        "if os.fork(): os._exit(0)\nnamed_process(); time.sleep(300); os._exit(0)",
        lost=(FIRST,),
    ),
    Threat(
        "judged-os-exit",
        "ends its process when its function is called",
        cells=_scores("    import os; os._exit(0)\n"),
        lost=("attention_scores",),
        verdicts={"attention_scores": "kernel-died"},
    ),
    Threat(
        "judged-sys-exit",
        "raises SystemExit when its function is called",
        cells=_scores("    raise SystemExit(0)\n"),
        lost=("attention_scores",),
    ),
    Threat(
        "judged-keyboard-interrupt",
        "raises KeyboardInterrupt when its function is called",
        cells=_scores("    raise KeyboardInterrupt\n"),
        lost=("attention_scores",),
    ),
    Threat(
        "ends-again-and-again",
        "ends its process in every cell, and whenever it is called",
        cells={
            FIRST: "import os\npredict_spread = 32\nos._exit(0)",
            "attention_scores": "import os\nos._exit(0)",
            "attention_weights": "import os\ndef attention_weights(scores, mask=None):\n    os._exit(0)",
        },
        lost=(FIRST, "attention_scores", "attention_weights"),
    ),
)
