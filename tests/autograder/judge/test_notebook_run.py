"""A notebook in a real sandbox, judged from outside: ending the kernel costs only the cell that did it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest

from autograder.judge.job import NotComputedError, Result
from tests.autograder.judge.worker_run import Classroom, classroom_of

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="submissions are graded on Linux"),
    pytest.mark.sandbox,
]

RIGHT = "def attention_scores(q, k):\n    return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5"
CHECK = """\
# judged
from course_lib.checks import check
check("attention_scores", globals(), grading={"points": 4, "seed": 3})
"""


@pytest.fixture(scope="module")
def classroom() -> Iterator[Classroom]:
    with classroom_of("an-assignment-of-ones-own") as made:
        yield made


def said(result: Result) -> list[str]:
    """Return a short form of each cell's output."""
    return [
        " | ".join(str(output.get("text") or output.get("evalue") or output.get("data")) for output in cell)
        for cell in result.outputs
    ]


def test_cells_share_names_and_outputs_are_kept(classroom: Classroom) -> None:
    result = classroom.run("x = 20", "print(x)\nx + 1", "1 / 0", RIGHT, CHECK)
    first, shown, failed, _, judged = said(result)
    assert first == ""
    assert shown == "20\n | {'text/plain': '21'}"
    assert failed == "division by zero"
    assert judged.startswith("✓ attention_scores: correct")
    assert result.findings["cell-4"]["verdict"] == "right"
    assert result.violations == []
    assert result.outputs[1][1].execution_count == 2


WRONG = RIGHT.replace("** 0.5", "** 0.4")
WEIGHTS = """\
import torch
def attention_weights(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(~mask, 0)
"""
USES_BOTH = """\
def scaled_dot_product_attention(query, key, value, mask=None, dropout=None):
    weights = attention_weights(attention_scores(query, key), mask)
    return (weights if dropout is None else dropout(weights)) @ value, weights
"""
CHECK_USES = CHECK.replace('"attention_scores"', '"scaled_dot_product_attention"')
CHECK_WEIGHTS = CHECK.replace('"attention_scores"', '"attention_weights"')


@pytest.mark.parametrize(
    ("scores", "later"),
    [
        (WRONG, ""),
        ("def attention_scores(q, k:", ""),
        ("def attention_scores(q, k):\n    raise NotImplementedError", ""),
        ("def attention_scores(q, k):\n    import os\n    os._exit(1)", ""),
        (RIGHT, f"{WRONG}\nattention_scores.missing"),
    ],
)
def test_an_earlier_mistake_does_not_cost_the_points_of_a_later_answer(
    classroom: Classroom, scores: str, later: str
) -> None:
    cells = (scores, later, CHECK, WEIGHTS, CHECK_WEIGHTS, USES_BOTH, CHECK_USES)
    result = classroom.run(*cells, lesson="01-attention")
    first, second, third = (result.findings[f"cell-{place}"] for place in (2, 4, 6))
    assert first["verdict"] != "right"
    assert (second["verdict"], second["replaced"]) == ("right", [])
    assert (third["verdict"], third["replaced"]) == ("right", ["attention_scores"])
    assert said(result)[6] == (
        "✓ scaled_dot_product_attention: correct: all 15 tests passed.\n | This code was checked with the "
        "course's `attention_scores`, because yours fails its own check.\n"
    )


def test_a_later_answer_is_judged_by_its_own_mistakes(classroom: Classroom) -> None:
    no_mask = USES_BOTH.replace(", mask)", ", None)")
    cells = (WRONG, CHECK, WEIGHTS, CHECK_WEIGHTS, no_mask, CHECK_USES)
    result = classroom.run(*cells, lesson="01-attention")
    finding = result.findings["cell-5"]
    assert (finding["verdict"], finding["replaced"]) == ("wrong", ["attention_scores"])
    assert finding["misconceptions"] == ["mask_not_passed"]
    alone = classroom.run(RIGHT, *cells[1:], lesson="01-attention")
    assert alone.findings["cell-5"] == finding | {"replaced": []}
    assert alone.outputs[5] == result.outputs[5][:-1]


def test_an_answer_that_allows_for_the_students_own_mistake_keeps_its_points(classroom: Classroom) -> None:
    squared = RIGHT.replace("** 0.5", "** 1.0")
    allows = USES_BOTH.replace(
        "attention_scores(query, key)", "attention_scores(query, key) * query.shape[-1] ** 0.5"
    )
    cells = (squared, CHECK, WEIGHTS, CHECK_WEIGHTS, allows, CHECK_USES)
    finding = classroom.run(*cells, lesson="01-attention").findings["cell-5"]
    assert (finding["verdict"], finding["replaced"]) == ("right", [])


def test_only_the_code_of_the_wrong_exercise_is_available(classroom: Classroom) -> None:
    takes = """\
from course_lib.transformer import attention
def scaled_dot_product_attention(*arguments, **options):
    return attention.scaled_dot_product_attention(*arguments, **options)
"""
    reads = """\
def scaled_dot_product_attention(*arguments, **options):
    names = attention_scores.__globals__
    return names["scaled_dot_product_attention"](*arguments, **options)
"""
    for answer in (takes, reads):
        cells = (WRONG, CHECK, WEIGHTS, CHECK_WEIGHTS, answer, CHECK_USES)
        result = classroom.run(*cells, lesson="01-attention")
        assert result.findings["cell-5"]["verdict"] in ("wrong", "unwritten"), said(result)[5]


def test_the_same_job_gives_the_same_result(classroom: Classroom) -> None:
    sources = (
        "import random, torch\nprint(random.random(), torch.rand(2), hash('x'))",
        "object()",
        "{'b', 'a'}",
        "raise ValueError(object())",
        CHECK,
    )
    one, other = classroom.run(*sources), classroom.run(*sources)
    assert one.outputs == other.outputs
    assert "0x…" in said(one)[1]


@pytest.mark.parametrize(
    ("fatal", "cell_seconds"),
    [
        ("import os\nos._exit(3)", 60),
        ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", 3),
    ],
)
def test_after_a_cell_that_ends_the_kernel_the_other_cells_run(
    classroom: Classroom, fatal: str, cell_seconds: int
) -> None:
    result = classroom.run("x = 3", fatal, "print(x)", RIGHT, CHECK, cell_seconds=cell_seconds)
    assert said(result)[2] == "3\n"
    assert said(result)[4].startswith("✓ attention_scores: correct")


def test_a_cell_that_ended_the_kernel_says_so(classroom: Classroom) -> None:
    result = classroom.run("import os\nos._exit(3)", "print(1)")
    assert said(result) == ["the kernel ended with exit status 3", "1\n"]
    assert result.violations == ["cell cell-0: the kernel ended with exit status 3"]


def test_a_judged_function_that_does_not_come_back_costs_its_own_points_only(classroom: Classroom) -> None:
    stubborn = "def attention_scores(q, k):\n    import os\n    os._exit(1)"
    result = classroom.run(stubborn, CHECK, RIGHT, CHECK)
    assert "KernelDied" in said(result)[1]
    assert result.findings["cell-1"]["verdict"] == "kernel-died"
    assert said(result)[3].startswith("✓ attention_scores: correct")


def test_an_instructors_own_assertions_call_the_students_code(classroom: Classroom) -> None:
    result = classroom.run(
        "import torch\ndef double(x):\n    return 2 * x",
        "# judged\nimport torch\nassert double(3) == 6\nassert double(torch.ones(2)).tolist() == [2.0, 2.0]",
        "# judged\nassert double(3) == 7, 'not seven'",
        "def double(x):\n    raise ValueError('of my own')",
        "# judged\ndouble(1)",
    )
    assert said(result)[1:3] == ["", "not seven"]
    assert said(result)[4] == "ValueError: of my own"


def test_kernels_are_not_started_for_ever(classroom: Classroom) -> None:
    fatal = "import os\nos._exit(3)"
    result = classroom.run(fatal, fatal, RIGHT, CHECK, restarts=1)
    assert said(result)[3] == "the kernel ended 2 times"


def test_a_kernel_that_ends_before_it_answers_is_not_waited_for(classroom: Classroom) -> None:
    # One of the files can't be unpacked. Waiting for the kernel would take longer than the notebook's limit.
    files = (("a", b"a file"), ("a/b", b"a file in it"))
    result = classroom.run(RIGHT, CHECK, files=files, restarts=1, notebook_seconds=50)
    reason = "no kernel starts with the files next to the notebook, but one starts without them"
    assert said(result)[1] == reason
    assert result.findings["cell-1"]["verdict"] == "kernel-died"
    assert reason in result.violations


def test_a_kernel_that_never_starts_gives_no_result(classroom: Classroom) -> None:
    with pytest.raises(NotComputedError, match="the kernel didn't start, and the files"):
        classroom.run(RIGHT, CHECK, files=(("note.txt", b"harmless"),), restarts=1, memory_bytes=1_000_000)


def test_a_notebook_has_an_end(classroom: Classroom) -> None:
    nap = "import time\ntime.sleep(3)"
    result = classroom.run(nap, nap, nap, RIGHT, CHECK, notebook_seconds=2)
    assert said(result)[4] == "the notebook took longer than 2 seconds"


@contextmanager
def busy_core() -> Iterator[None]:
    """Make all grading processes share one core with five busy processes."""
    here = os.sched_getaffinity(0)
    core = {min(here)}
    workers = psutil.Process().children(recursive=True)
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(5)]
    try:
        for pid in [process.pid for process in (*workers, *burners)]:
            os.sched_setaffinity(pid, core)
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
        for worker in workers:
            with suppress(ProcessLookupError):
                os.sched_setaffinity(worker.pid, here)


def test_waiting_for_a_core_costs_no_points(classroom: Classroom) -> None:
    classroom.run("ready = True")  # starts the worker
    work = "import time\nstart = time.process_time()\nwhile time.process_time() < start + 1.4: pass"
    with busy_core():
        since = time.monotonic()
        result = classroom.run(work, "print('done')", RIGHT, CHECK, cell_seconds=2)
        assert time.monotonic() - since > 2.0  # otherwise nothing had to wait
    assert said(result)[:2] == ["", "done\n"]
    assert said(result)[3].startswith("✓ attention_scores: correct")
    assert result.violations == []


def test_output_is_cut_where_it_is_too_long(classroom: Classroom) -> None:
    result = classroom.run("print('x' * 30_000_000)", "print('y')", output_bytes=1000)
    long, short = said(result)
    assert long.startswith("x" * 900)
    assert len(long) < 1100
    assert "Only the first 1,000 bytes of the output are kept." in long
    assert short == "y\n"


def test_files_of_the_assignment_are_next_to_the_notebook(classroom: Classroom) -> None:
    files = (("data/words.txt", b"old dog"), ("own_module.py", b"answer = 42"))
    result = classroom.run(
        "import own_module\nprint(open('data/words.txt').read(), own_module.answer)", files=files
    )
    assert said(result) == ["old dog 42\n"]


def test_cells_that_only_show_are_left_out(classroom: Classroom) -> None:
    result = classroom.run("# shows\nprint(1)", "# shows\nsize = 2", "print(size)")
    assert said(result) == ["", "", "2\n"]


def test_nothing_is_left_of_a_kernel(classroom: Classroom) -> None:
    left = "import os\nif os.fork() == 0:\n    os.setsid()\n    import time\n    time.sleep(600)"
    classroom.run(left, "open('note', 'w').write('x')")
    result = classroom.run(
        "import os\nprint(os.path.exists('note'))",
        "import os\nprint(len([name for name in os.listdir('/proc') if name.isdigit()]))",
    )
    assert said(result)[0] == "False\n"
