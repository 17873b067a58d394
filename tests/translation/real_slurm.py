"""A real SLURM from Debian's packages, with two nodes that have two simulated GPUs each.

It has its own folders, ports and keys. Both nodes run on this machine. Root is required, because SLURM needs
it to start jobs for its users.
"""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.free_ports import free_ports

DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("sbatch", "scancel", "scontrol", "squeue", "srun")
SECONDS = 300

CONFIG = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=2
FirstJobId={job}
NodeName=node1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={node1} CPUs={cores} Gres=gpu:2 State=UNKNOWN
NodeName=node2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={node2} CPUs={cores} Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str | None:
    """Return why no SLURM can be started here, or None if one can."""
    if missing := [name for name in (*DAEMONS, *COMMANDS) if _program(name) is None]:
        return f"{', '.join(missing)} not installed (Debian: slurm-wlm, munge)"
    return None if os.geteuid() == 0 else "SLURM's daemons need root"


class Slurm:
    """A running SLURM and its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def command(self, name: str, *arguments: str, may_fail: bool = False, **environment: str) -> str:
        """Run a SLURM command, and return its output."""
        done = subprocess.run(
            [name, *arguments],
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert may_fail or done.returncode == 0, f"{name} {' '.join(arguments)}: {done.stderr}"
        return done.stdout.strip()

    def state(self, job: str) -> str:
        """Return the state of a job, such as RUNNING."""
        return self.command("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")

    def start_now(self, job: str) -> None:
        """Start a requeued job immediately, because SLURM would wait two minutes after cleaning up."""
        deadline = time.monotonic() + SECONDS
        self.wait_for(job, "PENDING")
        _until(lambda: _idle(self) == 2)  # Otherwise the first attempt's end would count as the second's.
        time.sleep(2)  # A node doesn't start a job in the second in which it ended it.
        while self.state(job) == "PENDING":
            assert time.monotonic() < deadline, self.command("scontrol", "show", "job", job)
            # This fails if the job has just started. The next query of its state shows that.
            self.command("scontrol", "update", f"JobId={job}", "StartTime=now", may_fail=True)
            time.sleep(1)

    def wait_for(self, job: str, state: str) -> None:
        """Wait until a job is in this state."""
        deadline = time.monotonic() + SECONDS
        while (now := self.state(job)) != state:
            gave_up = now == "FAILED" or time.monotonic() > deadline
            assert not gave_up, f"job {job} is {now}, not {state}\n{self._told(job)}"
            time.sleep(0.1)

    def _told(self, job: str) -> str:
        """Return SLURM's own messages about a job that failed to reach the expected state."""
        logs = [f"{path.name}:\n{path.read_text()[-3000:]}" for path in sorted(self.folder.glob("*.out"))]
        return "\n".join([self.command("scontrol", "show", "job", job), *logs])


@contextmanager
def real_slurm() -> Iterator[Slurm]:
    """Run the daemons until the block ends. Then stop them and everything that they have started."""
    with ExitStack() as stack:
        # The path must be short enough for a socket.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        ports = free_ports(3)
        # A script's processes meet at a port that depends on the job's number. If two people run the tests on
        # one machine, the numbers on their clusters must differ.
        values = {"job": 1 + secrets.randbelow(9_000), "cores": os.cpu_count(), "folder": folder}
        values |= {"controller": ports[0], "node1": ports[1], "node2": ports[2]}
        (folder / "slurm.conf").write_text(CONFIG.format(**values))
        # SLURM counts these devices as GPUs and assigns them to jobs.
        (folder / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")
        (folder / "state").mkdir()
        config = str(folder / "slurm.conf")
        commands = [
            ["munged", "--foreground", "--force", f"--key-file={key}", f"--seed-file={folder}/munge.seed"]
        ]
        commands[0] += [f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid"]
        commands[0] += [f"--log-file={folder}/munged.log"]
        commands += [["slurmctld", "-D", "-c", "-f", config]]
        commands += [["slurmd", "-D", "-N", node, "-f", config] for node in ("node1", "node2")]
        slurm = Slurm(folder)
        for command in commands:
            stack.enter_context(_daemon(command, folder / f"{command[0]}.out", slurm.environment))
            if command[0] == "munged":
                _until((folder / "munge.socket").exists)
        stack.callback(_cancel_everything, slurm)
        _until(lambda: _idle(slurm) == 2)
        yield slurm


@contextmanager
def _daemon(command: list[str], output: Path, environment: dict[str, str]) -> Iterator[None]:
    program = _program(command[0])
    assert program is not None
    with output.open("ab") as file:
        process = subprocess.Popen(
            [program, *command[1:]], stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _cancel_everything(slurm: Slurm) -> None:
    slurm.command("scancel", "--full", "--signal=KILL", "--user=root")
    slurm.command("scancel", "--user=root")
    _until(lambda: not slurm.command("squeue", "--noheader"))


def _idle(slurm: Slurm) -> int:
    # The command fails until the daemons answer.
    return slurm.command("sinfo", "--noheader", "--Node", "--format=%t", may_fail=True).split().count("idle")


def _until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, "SLURM did not reach the expected state"
        time.sleep(0.05)


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
