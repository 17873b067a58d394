"""Grading on a Dask cluster produces the local results, and uses only workers with a sandbox."""

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from autograder.judge.job import Cell, Job, NotebookNode
from autograder.judge.lesson_source import load_lesson_source
from autograder.release.build import COURSE
from autograder.results.local_executor import LocalExecutor
from autograder.results.results import Results
from autograder.results.store import ResultStore
from autograder.results.version import checks_version
from autograder.results.worker import initialize
from autograder.sandbox.confinement import WITHOUT, probe
from autograder.sandbox.limits import Limits
from course_lib.curriculum.course_file import CourseError
from tests.autograder.nbgrader.classroom import RIGHT, Classroom, solved
from tests.autograder.small_course import LESSON, cell_of
from tests.free_ports import free_ports
from tests.translation.real_slurm import real_slurm, why_not

pytest.importorskip("distributed")
from autograder.results.cluster import SandboxPlugin, _wait_for_sandboxes, connect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sandbox,
    pytest.mark.skipif(not probe().sufficient, reason="nothing here can confine code"),
]

SOURCE = load_lesson_source(COURSE, "an-assignment-of-ones-own")
LOG = logging.getLogger("cluster")
NO_PROFILER = {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False"}  # as in docs/clusters.md


class Cluster:
    """A scheduler and its workers, each in its own process, as on several machines."""

    def __init__(self, folder: Path, *options: str, scheme: str = "tcp") -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"{scheme}://127.0.0.1:{free.getsockname()[1]}"
        self._folder, self._options = folder, options
        self._processes: list[subprocess.Popen[bytes]] = []
        port = self.address.rpartition(":")[2]
        host = f"{scheme}://127.0.0.1"
        self._start("scheduler", "--host", host, "--port", port, "--no-dashboard", "--no-show")

    def add_worker(self, **variables: str) -> subprocess.Popen[bytes]:
        """Start a worker that runs one notebook at a time."""
        options = ("--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--death-timeout", "60")
        return self._start("worker", self.address, *options, "--no-dashboard", **variables)

    def close(self) -> None:
        """End all processes."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()

    def _start(self, *command: str, **variables: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [Path(sys.executable).with_name("dask"), *command, *self._options],
            cwd=self._folder,
            env=os.environ | NO_PROFILER | variables,
            stdout=subprocess.DEVNULL,
            stderr=(self._folder / f"{command[0]}-{len(self._processes)}.log").open("wb"),
        )
        self._processes.append(process)
        return process


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.close()


def job(number: int, seconds: float = 0.0) -> Job:
    sources = (
        f"import time\ntime.sleep({seconds})\nprint({number})",
        "import torch\ntorch.ones(2).softmax(0)",
        "1 / 0",
    )
    cells = tuple(Cell(f"cell-{place}", text, False, False) for place, text in enumerate(sources))
    return Job(SOURCE.name, cells, (("a.txt", b"x"),), Limits(), version=checks_version(SOURCE))


def bodies(store: ResultStore) -> dict[str, bytes]:
    """Return the stored results without the time that each took."""
    return {path.name: path.read_bytes().split(b"\n", 1)[1] for path, _ in store.entries()}


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_workers_killed_in_mid_run_change_no_byte(cluster: Cluster, tmp_path: Path) -> None:
    first = cluster.add_worker()
    jobs = [job(number, seconds=0.5) for number in range(5)]
    here, there = ResultStore(tmp_path / "here"), ResultStore(tmp_path / "there")
    local = LocalExecutor(1, initialize, (os.getpid(), probe()))
    results = Results(here, local, LOG)
    expected = [results.get(SOURCE, each) for each in jobs]
    local.shutdown()

    executor = connect(cluster.address, False, False, LOG)
    assert executor.workers == 1
    results = Results(there, executor, LOG)
    for each in jobs:
        results.request(SOURCE, each)
    wait_for(lambda: bodies(there))
    first.send_signal(signal.SIGKILL)
    assert len(bodies(there)) < len(jobs)
    cluster.add_worker()
    found = [results.get(SOURCE, each) for each in jobs]
    executor.shutdown()
    assert [result.outputs for result in found] == [result.outputs for result in expected]
    assert bodies(there) == bodies(here)


def test_workers_without_a_sandbox_get_nothing(cluster: Cluster) -> None:
    unconfined = {WITHOUT: "bubblewrap,landlock,seccomp"}
    refused = cluster.add_worker(**unconfined)
    with pytest.raises(CourseError, match="No worker of the cluster can run students' code") as error:
        connect(cluster.address, False, False, LOG)
    assert "Students' code can't be confined on this machine" in str(error.value)
    assert refused.wait(60) == 0
    good = cluster.add_worker()
    executor = connect(cluster.address, False, False, LOG)
    second = cluster.add_worker(**unconfined)
    while second.poll() is None:
        calls = [executor.submit(os.getppid) for _ in range(4)]  # more calls than a worker runs at a time
        assert {call.result(timeout=120) for call in calls} == {good.pid}
    executor.shutdown()


def test_a_worker_with_another_version_gets_nothing(cluster: Cluster, tmp_path: Path) -> None:
    shutil.copytree(COURSE / "course_lib", tmp_path / "other/course_lib")
    shutil.copytree(COURSE / "autograder", tmp_path / "other/autograder", ignore=lambda *_: {"submitted"})
    with (tmp_path / "other/course_lib/checks/engine/comparison.py").open("a") as file:
        file.write("# another version\n")
    cluster.add_worker(PYTHONPATH=str(tmp_path / "other"))
    with pytest.raises(CourseError, match="its version of the course"):
        connect(cluster.address, False, False, LOG)


def test_nobody_listens_to_a_cluster_in_the_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.results.cluster._CONNECT_TIMEOUT", 1)
    with pytest.raises(CourseError, match="without TLS"):
        connect("tcp://192.0.2.1:8786", False, False, LOG)
    for address in ("grader:8786", "tcp://[::1:8786"):
        with pytest.raises(CourseError, match="expected the address"):
            connect(address, False, False, LOG)
    with pytest.raises(CourseError, match="is not known"):
        connect(f"tcp://{'a' * 70}:8786", False, False, LOG)
    with pytest.raises(CourseError, match="no Dask scheduler answers"):
        connect("tcp://127.0.0.1:9", False, False, LOG)


def test_a_refused_worker_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Simulate a rejected worker next to one whose sandbox is ready only at the third check."""

    class Scheduler:
        """A stand-in for the client of a scheduler that has rejected a worker."""

        sandboxes = iter([0, 0, 1])

        def run(self, *_: object, **__: object) -> dict[str, int]:
            return {"tcp://other": next(self.sandboxes)}

        def get_events(self, topic: str) -> list[tuple[float, dict[str, str]]]:
            return [(0.0, {"worker": "tcp://refused", "problem": "it is too old"})]

    monkeypatch.setattr("autograder.results.cluster.time.sleep", lambda _: None)
    assert _wait_for_sandboxes(Scheduler(), SandboxPlugin("1", False), 0, LOG) == 1
    assert caplog.text.count("The worker tcp://refused was refused: it is too old") == 1


@pytest.fixture
def class_of_three(released_course: Path, tmp_path: Path) -> Classroom:
    classroom = Classroom(shutil.copytree(released_course, tmp_path / "course"))
    for number in range(3):
        classroom.hand_in(f"student-{number}", answered(classroom, number))
    return classroom


def answered(classroom: Classroom, number: int) -> NotebookNode:
    notebook = solved(classroom.released)
    cell_of(notebook, "attention_scores").source = f"{RIGHT}  # {number}"
    return notebook


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure Dask with a certificate that every role of a cluster uses."""
    if not shutil.which("openssl"):
        pytest.skip("creating the certificate needs openssl")
    certificate, key = tmp_path / "grading.pem", tmp_path / "grading.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=grading",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    files = {"CA_FILE": certificate}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        files |= {f"{role}__CERT": certificate, f"{role}__KEY": key}
    for name, path in files.items():
        monkeypatch.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{name}", str(path))


def start_grading(classroom: Classroom, address: str) -> subprocess.Popen[str]:
    """Run `nbgrader autograde` on a cluster."""
    return subprocess.Popen(
        [Path(sys.executable).with_name("nbgrader"), "autograde", LESSON],
        cwd=classroom.course / "autograder",
        env=os.environ | {"COURSE_CLUSTER": address},
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slurm
@pytest.mark.nightly
def test_slurm_starts_the_workers_and_replaces_one_that_is_killed(
    class_of_three: Classroom, tmp_path: Path, tls: None
) -> None:
    if reason := why_not():
        pytest.skip(reason)
    pytest.importorskip("dask_jobqueue")
    shutil.copytree(class_of_three.course, tmp_path / "clustered/course")
    clustered = Classroom(tmp_path / "clustered/course")
    store = clustered.course / "autograder/result_store"
    [port] = free_ports(1)
    # SLURM doesn't know how much memory its nodes have here, so a job may not ask for it.
    jobs = {"CORES": "1", "MEMORY": "4GB", "JOB_DIRECTIVES_SKIP": "['--mem']", "LOG_DIRECTORY": str(tmp_path)}
    site = NO_PROFILER | {f"DASK_JOBQUEUE__SLURM__{name}": value for name, value in jobs.items()}
    with real_slurm() as slurm:
        service = subprocess.Popen(
            [sys.executable, COURSE / "docs/slurm_cluster.py", "--host", "127.0.0.1", "--port", str(port),
             "--jobs", "1"],
            cwd=tmp_path,
            env=slurm.environment | site,
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        try:
            assert service.stdout is not None
            address = service.stdout.readline().strip().removeprefix("COURSE_CLUSTER=")
            assert address == f"tls://127.0.0.1:{port}"
            run = start_grading(clustered, address)
            wait_for(lambda: list(store.rglob("*.jsonl")))
            [first] = slurm.command("squeue", "--noheader", "--format=%i", "--states=RUNNING").split()
            slurm.command("scancel", "--full", "--signal=KILL", first)
            _, said = run.communicate()
            [second] = slurm.command("squeue", "--noheader", "--format=%i", "--states=RUNNING").split()
        finally:
            service.terminate()
            service.wait(60)
            # Here SLURM finds a job's processes through their parents, so it loses a worker when the job
            # script ends.
            for process in psutil.process_iter(["cmdline"]):
                if address in (process.info["cmdline"] or []):
                    process.kill()
    assert run.returncode == 0, said
    assert second != first
    assert class_of_three.autograde() == []
    assert clustered.state() == class_of_three.state()
    assert clustered.scores("student-0") == {
        "check_predict_spread": 1,
        "check_attention_scores": 4,
        "explain_root": None,
    }
