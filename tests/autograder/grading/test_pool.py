"""Workers: each result goes to whom it belongs, and a worker that ends is replaced."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.judge.job import Cell, Job
from autograder.release.build import COURSE
from autograder.results.pool import Pool
from autograder.sandbox.confinement import probe
from autograder.sandbox.limits import Limits
from course_lib.curriculum.course_file import CourseError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="submissions are graded on Linux")


def job(source: str) -> Job:
    return Job("an-assignment-of-ones-own", (Cell("only", source, False, False),), (), Limits())


def text(result) -> str:
    return result.outputs[0][0].text


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    if not probe().sufficient:
        pytest.skip("nothing here can confine code")
    made = Pool(COURSE, 2, probe())
    yield made
    made.close()


def test_each_gets_its_own_result_in_any_order(pool: Pool) -> None:
    jobs = [job(f"print({number})") for number in range(5)]
    pool.begin(jobs)
    assert [text(pool.result(each)) for each in reversed(jobs)] == [
        f"{number}\n" for number in (4, 3, 2, 1, 0)
    ]
    assert pool.progress == "5 of 5 notebooks have run"
    assert text(pool.result(job("print('not begun')"))) == "not begun\n"


def test_a_result_is_a_copy(pool: Pool) -> None:
    pool.result(job("print(1)")).outputs[0].clear()
    assert text(pool.result(job("print(1)"))) == "1\n"


def test_the_digest_of_a_job_says_all_that_matters() -> None:
    one = job("1")
    others = [
        job("2"),
        replace(one, lesson="another"),
        replace(one, files=(("a.txt", b"x"),)),
        replace(one, limits=Limits(cell_seconds=1)),
        replace(one, everything=True),
        job("1\ud800"),
    ]
    assert len({each.digest for each in (one, *others)}) == 7
    assert one.digest == job("1").digest


def test_a_worker_that_ends_is_replaced(pool: Pool) -> None:
    jobs = [job(f"import time\ntime.sleep(0.3)\nprint({number})") for number in range(4)]
    pool.begin(jobs)
    pool.result(jobs[0])
    assert pool._executor is not None
    for process in list(pool._executor._processes.values()):
        process.kill()
    assert [text(pool.result(each)) for each in jobs] == [f"{number}\n" for number in range(4)]


OWNER = """
import sys, time
from pathlib import Path
from autograder.results.pool import Pool
from autograder.judge.job import Cell, Job
from autograder.sandbox.confinement import probe
from autograder.sandbox.limits import Limits
if __name__ == "__main__":
    pool = Pool(Path(sys.argv[1]), 1, probe())
    pool.result(Job("an-assignment", (Cell("only", "1", False, False),), (), Limits()))
    print(*[process.pid for process in pool._executor._processes.values()], flush=True)
    time.sleep(600)
"""


def test_workers_and_sandboxes_end_with_their_owner(tmp_path: Path) -> None:
    if not probe().sufficient:
        pytest.skip("nothing here can confine code")
    script = tmp_path / "owner.py"
    script.write_text(OWNER)
    owner = subprocess.Popen([sys.executable, script, COURSE], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    worker = int(owner.stdout.readline())
    children = [int(each) for each in Path(f"/proc/{worker}/task/{worker}/children").read_text().split()]
    assert children
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    deadline = time.monotonic() + 30
    while any(_lives(pid) for pid in (worker, *children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in (worker, *children) if _lives(pid)] == []


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_owns_the_gradebook_needs_no_torch() -> None:
    code = "import sys, autograder.nbgrader.sandboxed_execute; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == 0


def grade_or_die(course: Path, job: Job) -> str:
    """Stands in for a worker's work, where one job ends the worker."""
    source = job.cells[0].source
    if source == "die":
        os._exit(9)
    time.sleep(0.1)
    return source


def begin_work(*_: object) -> None:
    """Stands in for what a worker does first."""


@pytest.mark.parametrize("place", [0, 3, 9])
def test_nobody_else_is_blamed_for_a_job_that_ends_its_worker(
    monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    monkeypatch.setattr("autograder.results.pool.grade", grade_or_die)
    monkeypatch.setattr("autograder.results.pool.prepare", begin_work)
    sources = [str(number) for number in range(12)]
    sources[place] = "die"
    pool = Pool(COURSE, 2, None)  # type: ignore[arg-type]
    try:
        pool.begin(job(source) for source in sources)
        for source in sources:
            if source == "die":
                with pytest.raises(CourseError, match="ended before it was done, twice"):
                    pool.result(job(source))
            else:
                assert pool.result(job(source)) == source
        assert pool.progress.startswith("11 of 12 notebooks have run")
    finally:
        pool.close()
