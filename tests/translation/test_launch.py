"""The lab's torchrun restarts dead processes, forwards signals, and returns the processes' exit codes."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from course_lib.errors import ExitCode
from tests.translation.real_processes import SECONDS, start_command
from tests.translation.train.same_run import assert_same_run

pytestmark = pytest.mark.slow

LAUNCH = [sys.executable, "-m", "course_lib.translation.launch", "--nproc-per-node=2"]
#: The launcher, with a shorter wait for a program that listens at the rendezvous endpoint but doesn't answer.
IMPATIENT = """
import sys
from course_lib.translation import launch
launch._SECONDS_TO_ANSWER = 1
sys.exit(launch.main())
"""
Launch = Callable[..., "subprocess.Popen[bytes]"]
TRAIN = ["-m", "course_lib.translation.train"]


@pytest.fixture
def launch() -> Iterator[Launch]:
    """A function that starts the launcher. Processes that a failed test leaves running are terminated."""
    started: list[subprocess.Popen[bytes]] = []

    def start(output: Path, *arguments: str, launcher: Sequence[str] = LAUNCH) -> subprocess.Popen[bytes]:
        with output.open("wb") as file:
            started.append(
                subprocess.Popen(
                    [*launcher, *arguments],
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                )
            )
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.terminate()
            process.wait(SECONDS)


def wait_for_text(output: Path, text: str) -> None:
    deadline = time.monotonic() + SECONDS
    while text not in output.read_text("utf-8"):
        assert time.monotonic() < deadline, f"{text!r} is not in {output.read_text('utf-8')}"
        time.sleep(0.02)


def children(process: int) -> list[int]:
    """Return the processes that a process has started, oldest first."""
    listed = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8").split()
    return [int(number) for number in listed]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads the processes of Linux")
@pytest.mark.nightly
def test_a_process_that_dies_is_started_again_and_a_signal_is_passed_on(
    launch: Launch, config_file: Path, tmp_path: Path
) -> None:
    """Kill one process, so that torchrun restarts both; send torchrun SIGUSR1; then finish the run."""
    said = tmp_path / "said"
    arguments = [str(config_file), "training.epochs=15", "evaluation.bleu_every=0", "evaluation.beam_size=1"]
    arguments += ["checkpoints.stop_check_every=2"]
    # One restart is expected. Two more are allowed if another program takes the port that torchrun chose.
    running = launch(said, "--standalone", "--max-restarts=3", *TRAIN, *arguments)
    wait_for_text(said, "step 4 ")
    os.kill(children(running.pid)[1], signal.SIGKILL)
    wait_for_text(said, "resuming after update")
    start = said.read_text("utf-8").index("resuming after update")
    while "\nstep " not in said.read_text("utf-8")[start:]:
        assert running.poll() is None, said.read_text("utf-8")
        time.sleep(0.02)
    running.send_signal(signal.SIGUSR1)
    assert running.wait(SECONDS) == ExitCode.RESTART, said.read_text("utf-8")
    assert "Stopped by SIGUSR1. Run the same command again to resume" in said.read_text("utf-8")
    assert "Traceback" not in said.read_text("utf-8")
    assert not (tmp_path / "run" / "translations.txt").exists(), "the run was not stopped early"

    for folder in ("run", "whole"):
        for process in start_command(2, [*arguments, f"run_folder={tmp_path / folder}"]):
            process.join(SECONDS)
            assert process.exitcode == 0
    assert_same_run(tmp_path / "run", tmp_path / "whole")


EXIT_3_WHEN_STOPPED = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))"


@pytest.mark.parametrize(
    ("at_start", "second", "code"),
    [("pass", "2", 2), ("pass", "signal.pause()", 2), (EXIT_3_WHEN_STOPPED, "signal.pause()", 1)],
)
def test_the_code_of_the_processes_that_ended_by_themselves(
    launch: Launch, tmp_path: Path, at_start: str, second: str, code: int
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, pathlib, signal, sys, time\n"
        f"{at_start}\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "(folder / os.environ['RANK']).touch()\n"
        "while len(list(folder.iterdir())) < 2: time.sleep(0.01)\n"
        f"sys.exit(2 if os.environ['RANK'] == '0' else {second})"
    )
    (folder := tmp_path / "started").mkdir()
    said = tmp_path / "said"
    assert launch(said, "--standalone", str(script), str(folder)).wait(SECONDS) == code


def test_the_usual_cause_of_a_signal_is_reported(launch: Launch, tmp_path: Path) -> None:
    script, said = tmp_path / "script.py", tmp_path / "said"
    script.write_text("import os; os.abort()")
    assert launch(said, "--standalone", str(script)).wait(SECONDS) == 1
    assert "was killed by SIGABRT, on a GPU often because NCCL lost another process." in said.read_text()


UNKNOWN_HOST = [
    *("unshare", "--user", "--map-root-user", "--uts"),
    *("sh", "-c", 'hostname unknown-host && exec "$@"', "sh"),
]


@pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*UNKNOWN_HOST, "true"], check=False).returncode != 0,
    reason="this machine's name can't be changed in a namespace",
)
def test_processes_find_each_other_on_a_machine_whose_name_cannot_be_resolved(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "one = torch.ones(1)\n"
        "dist.all_reduce(one)\n"
        "assert one == 2\n"
        # Otherwise gloo's threads may still run when Python ends, which aborts the process.
        "dist.destroy_process_group()\n"
    )
    command = [*UNKNOWN_HOST, *LAUNCH, "--standalone", str(script)]
    assert subprocess.run(command, timeout=SECONDS, check=False).returncode == 0


@pytest.mark.parametrize(
    ("meet", "advice"),
    [
        (["--master-port={port}"], "Choose another one, or start with --standalone."),
        # Here torchrun would wait forever for the other program's answer.
        (["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:{port}"], "Choose another one."),
    ],
)
def test_a_port_in_use_is_one_line(meet: list[str], advice: str, launch: Launch, tmp_path: Path) -> None:
    said = tmp_path / "said"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = ["--nproc-per-node=2", "--nnodes=1", *(each.format(port=port) for each in meet)]
        running = launch(said, *options, *TRAIN, "captions", launcher=[sys.executable, "-c", IMPATIENT])
        assert running.wait(SECONDS) == ExitCode.RENDEZVOUS_FAILED
    lines = said.read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("launch:")] == [
        f"launch: the rendezvous of the processes failed: port {port} is in use. {advice}"
    ]
    assert "Traceback" not in said.read_text("utf-8")


def test_an_invalid_config_starts_no_process(launch: Launch, tmp_path: Path) -> None:
    launched = launch(tmp_path / "output", "--max-restarts=3", *TRAIN, "captions", "training.epoch=3")
    assert launched.wait(SECONDS) == ExitCode.BAD_INPUT
    assert (tmp_path / "output").read_text("utf-8") == (
        'launch: captions: there is no key "training.epoch"; did you mean "training.epochs"?\n'
    )


@pytest.mark.parametrize(("option", "says"), [("--nproc-per-node", "nproc_per_node"), ("--nnodes", "'x'")])
def test_an_invalid_option_is_reported_without_a_traceback(
    launch: Launch, tmp_path: Path, option: str, says: str
) -> None:
    process = launch(tmp_path / "said", option, "x", "script.py")
    assert process.wait(SECONDS) == ExitCode.BAD_INPUT
    said = (tmp_path / "said").read_text("utf-8")
    assert says in said
    assert "Traceback" not in said


def test_the_guide_explains_every_exit_code() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "lab-guide.md").read_text("utf-8")
    _, _, table = guide.partition("| Exit code | Meaning |\n|---|---|\n")
    listed = [int(row.split("|")[1]) for row in table.partition("\n\n")[0].splitlines()]
    assert listed == [0, *ExitCode]
