"""Real attempts to break out of a sandbox, which must fail, and ordinary code, which must still work."""

import errno
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autograder.sandbox import bubblewrap
from autograder.sandbox.confinement import MECHANISMS
from autograder.sandbox.limits import Limits
from tests.autograder.sandbox.confined import WAYS, as_root, run

pytestmark = pytest.mark.sandbox

ways = pytest.mark.parametrize("mechanisms", WAYS, ids="+".join)


@dataclass(frozen=True)
class Outside:
    """The targets outside a sandbox, which must stay unchanged."""

    folder: Path
    process: subprocess.Popen[bytes]
    tcp: socket.socket
    udp: socket.socket
    stream: socket.socket
    datagrams: socket.socket

    @property
    def names(self) -> dict[str, object]:
        """The paths, the ports and the process id of the targets, for the code inside."""
        return {
            "folder": self.folder,
            "secret": self.folder / "secret.txt",
            "process": self.process.pid,
            "tcp": self.tcp.getsockname()[1],
            "udp": self.udp.getsockname()[1],
            "stream": self.folder / "stream",
            "datagrams": self.folder / "datagrams",
        }

    @property
    def state(self) -> tuple[object, ...]:
        """Everything that code inside might have changed."""
        file = self.folder / "secret.txt"
        status = file.stat()
        return (
            sorted(path.name for path in self.folder.iterdir()),
            file.read_text(),
            status.st_mode,
            status.st_mtime_ns,
            status.st_nlink,
            self.process.poll(),
        )

    @property
    def reached(self) -> list[str]:
        """The names of the sockets that were reached."""
        found = []
        for name, listener in (
            ("tcp", self.tcp),
            ("udp", self.udp),
            ("stream", self.stream),
            ("datagrams", self.datagrams),
        ):
            listener.setblocking(False)
            try:
                listener.accept() if name in ("tcp", "stream") else listener.recv(100)
                found.append(name)
            except BlockingIOError:
                pass
        return found


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("hidden tests")
    process = subprocess.Popen(["sleep", "600"])
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as stream,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
    ):
        udp.bind(("127.0.0.1", 0))
        stream.bind(str(folder / "stream"))
        stream.listen()
        datagrams.bind(str(folder / "datagrams"))
        try:
            yield Outside(folder, process, tcp, udp, stream, datagrams)
        finally:
            process.kill()
            process.wait()


FILES = {
    "read a file": "open(secret).read()",
    "read through /proc/self/root": "open('/proc/self/root' + secret).read()",
    "read through a link": "os.symlink(secret, 'link'); open('link').read()",
    "read through a hard link": "os.link(secret, 'link'); open('link').read()",
    "read from an opened folder": "os.open('secret.txt', 0, dir_fd=os.open(folder, os.O_PATH))",
    "list a folder": "os.listdir(folder)",
    "list the home folder": "os.listdir(os.path.dirname(folder))",
    "create a file": "open(folder + '/more', 'w')",
    "create a folder": "os.mkdir(folder + '/more')",
    "create a link": "os.symlink('/', folder + '/more')",
    "append to a file": "open(secret, 'a').write('!')",
    "empty a file": "os.truncate(secret, 0)",
    "empty a file while reading": "os.open(secret, os.O_RDONLY | os.O_TRUNC)",
    "delete a file": "os.remove(secret)",
    "rename a file": "os.rename(secret, secret + '.old')",
    "move a file in": "os.rename(secret, 'taken')",
    "move a file out": "open('own', 'w').close(); os.rename('own', folder + '/own')",
    "change a mode": "os.chmod(secret, 0o700)",
    "change a time": "os.utime(secret, (0, 0))",
    "watch a folder": "check(libc.inotify_add_watch(check(libc.inotify_init()), folder.encode(), 0xFFF))",
    "write into Python": "open(os.__file__ + '.txt', 'w'); os.remove(os.__file__ + '.txt')",
    "write into shared memory": "open('/dev/shm/course-test', 'w'); os.remove('/dev/shm/course-test')",
    "write into /tmp": "open('/tmp/course-test', 'w'); os.remove('/tmp/course-test')",
}
NETWORK = {
    "TCP": "socket.create_connection(('127.0.0.1', tcp), 5)",
    "UDP": "socket.socket(type=socket.SOCK_DGRAM).sendto(b'!', ('127.0.0.1', udp))",
    "a unix socket": "socket.socket(socket.AF_UNIX).connect(stream)",
    "a unix socket, from a pair": "socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'!', datagrams)",
    "a message to a unix socket, from a pair": (
        "socket.socketpair(type=socket.SOCK_DGRAM)[0].sendmsg([b'!'], [], 0, datagrams)"
    ),
    # An existing socket is shut down, so that it can connect again in the call that sends.
    "TCP, on sending": (
        "inherited.shutdown(socket.SHUT_RDWR); inherited.sendmsg([b'!'], [], 0x20000000, ('127.0.0.1', tcp))"
    ),
    "a raw socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "a netlink socket": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "a server": "socket.create_server(('127.0.0.1', 0))",
    "a pair with names": "socket.socketpair()[0].bind(os.getcwd() + '/name')",
}
PROCESSES = {
    "signal another process": "os.kill(process, 0)",
    "signal all": "os.kill(-1, 0)",
    "signal the parent": "os.kill(os.getppid(), 0)",
    "signal through a descriptor": "import fcntl; fcntl.fcntl(socket.socketpair()[0], 8, os.getppid())",
    "open another process": "os.pidfd_open(os.getppid())",
    "trace another process": "check(libc.ptrace(0x4206, os.getppid(), None, None))",
    "read another process's variables": "open(f'/proc/{process}/environ', 'rb').read()",
    "list another process's descriptors": "os.listdir(f'/proc/{process}/fd')",
    "another process's limits": "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU)",
    "slow down others": "os.setpriority(os.PRIO_PROCESS, process, 19)",
    "a file system of its own": "check(libc.unshare(0x00020000))",
    "users of its own": "check(libc.unshare(0x10000000))",
    "another user": "os.setuid(os.getuid())",
    "memory that is a file": "os.memfd_create('memory')",
    "memory that stays": "check(libc.shmget(0, 4096, 0o1600))",
    "a device": "os.mknod('device', 0o20666, os.makedev(1, 3))",
}
EVERYTHING = {
    f"{kind}: {name}": code
    for kind, attempts in (("files", FILES), ("network", NETWORK), ("processes", PROCESSES))
    for name, code in attempts.items()
}
#: Attempts that Linux itself may refuse: to ordinary users, in containers, or because of its settings.
NOT_EVERYWHERE = {
    *("network: a raw socket", "network: TCP, on sending", "processes: trace another process"),
    *("processes: a file system of its own", "processes: users of its own", "processes: a device"),
    *("files: write into Python", "files: write into shared memory"),
}


#: Try everything, and print the names of the attempts that succeed.
_TRY_ALL = """
for name, attempt in everything.items():
    try:
        exec(attempt, dict(globals()))
        print(name)
    except OSError:
        pass
"""


@ways
def test_nothing_comes_through(mechanisms: tuple[str, ...], outside: Outside, tmp_path: Path) -> None:
    before = outside.state
    done = run(_TRY_ALL, mechanisms, tmp_path, everything=EVERYTHING, **outside.names)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert outside.state == before
    assert outside.reached == []


@pytest.mark.parametrize("name", EVERYTHING)
def test_all_of_it_comes_through_where_nothing_confines(name: str, outside: Outside, tmp_path: Path) -> None:
    """Show that the attempts above succeed without confinement."""
    if name in NOT_EVERYWHERE:
        pytest.skip("Linux itself refuses this on some machines")
    done = run(EVERYTHING[name], (), tmp_path, **outside.names)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@ways
def test_the_usual_still_works(mechanisms: tuple[str, ...], tmp_path: Path) -> None:
    done = run(
        """
import asyncio, subprocess, threading, tempfile, time, random, shutil
import torch
layer = torch.nn.Linear(4, 4)
layer(torch.ones(2, 4)).sum().backward()
torch.save(layer.state_dict(), "weights.pt")
layer.load_state_dict(torch.load("weights.pt"))
os.mkdir("folder")
os.rename("weights.pt", "folder/weights.pt")
shutil.rmtree("folder")
with tempfile.TemporaryFile() as file:
    file.write(b"own")
threads = [threading.Thread(target=torch.ones(10).sum) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
child = os.fork()
if not child:
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert asyncio.run(asyncio.sleep(0, "waited")) == "waited"
one, other = socket.socketpair()
one.send(b"said")
assert other.recv(10) == b"said"
assert subprocess.run(["true"]).returncode == 0
assert len(os.urandom(8)) == 8
open("/dev/null", "w").write("gone")
import signal
signal.signal(signal.SIGUSR1, lambda *_: print("signalled"))
os.kill(os.getpid(), signal.SIGUSR1)
signal.raise_signal(signal.SIGUSR1)
print(os.listdir())
""",
        mechanisms,
        tmp_path,
    )
    assert done.stdout.splitlines() == ["signalled", "signalled", "[]"], done.stderr
    # torch would print a warning to stderr if it couldn't read something about the machine.
    assert done.stderr == ""


@ways
def test_memory_has_an_end(mechanisms: tuple[str, ...], tmp_path: Path) -> None:
    code = """
import mmap
for much in (lambda: bytearray(2**30), lambda: mmap.mmap(-1, 2**30)):
    try:
        much()
        print("came through")
    except (OSError, MemoryError) as error:
        print(type(error).__name__)
bytearray(2**20)
"""
    done = run(code, mechanisms, tmp_path, Limits(memory_bytes=2**29))
    assert done.stdout.split() == ["MemoryError", "OSError"], done.stderr


@ways
def test_files_have_an_end(mechanisms: tuple[str, ...], tmp_path: Path) -> None:
    limits = Limits(file_bytes=2**16)
    done = run(
        "file = open('long', 'wb', 0); [file.write(bytes(2**15)) for _ in range(3)]",
        mechanisms,
        tmp_path,
        limits,
    )
    assert f"[Errno {errno.EFBIG}]" in done.stdout, done.stderr


def test_all_files_together_have_an_end_in_bubblewrap(tmp_path: Path) -> None:
    code = "for number in range(100): open(f'{number}', 'wb').write(bytes(2**16))"
    done = run(code, MECHANISMS, tmp_path, scratch_bytes=2**20)
    assert f"[Errno {errno.ENOSPC}]" in done.stdout, done.stderr


@ways
def test_processor_time_has_an_end(mechanisms: tuple[str, ...], tmp_path: Path) -> None:
    done = run("while True: pass", mechanisms, tmp_path, Limits(cpu_seconds=1))
    # Bubblewrap reports its child's signal as a shell does.
    assert done.returncode in (-signal.SIGXCPU, 128 + signal.SIGXCPU), done.stderr


@ways
def test_limits_cannot_be_raised_again(mechanisms: tuple[str, ...], tmp_path: Path) -> None:
    code = """
import resource
for which in (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE):
    soft, hard = resource.getrlimit(which)
    try:
        resource.setrlimit(which, (hard + 1, hard + 1))
        print("came through")
    except ValueError as error:
        pass
"""
    done = run(code, mechanisms, tmp_path)
    assert (done.stdout, done.stderr) == ("", "")


@ways
def test_processes_have_an_end(mechanisms: tuple[str, ...], tmp_path: Path) -> None:
    if "bubblewrap" not in mechanisms:
        pytest.skip("Linux counts all of the user's processes, so the fork server checks this limit")
    if as_root():
        pytest.skip("Linux does not limit root's processes, so the fork server checks this limit")
    code = """
import time
for _ in range(1000):
    if not os.fork():
        time.sleep(600)
"""
    done = run(code, mechanisms, tmp_path, Limits(processes=10))
    assert f"[Errno {errno.EAGAIN}]" in done.stdout, done.stderr


def test_a_program_reached_through_links_starts_in_bubblewrap(tmp_path: Path) -> None:
    """In a virtual environment, Python is often a chain of links, and folders may be links too."""
    real = tmp_path / "real folder" / "bin"
    real.mkdir(parents=True)
    shutil.copy("/bin/echo", real / "echo")
    (tmp_path / "linked").symlink_to("real folder")
    (tmp_path / "one").symlink_to("linked/bin/echo")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    readable = (*bubblewrap.environment_paths(), tmp_path / "two", tmp_path / "linked" / "bin")
    for program in (tmp_path / "two", tmp_path / "linked" / "bin" / "echo"):
        command = bubblewrap.command([str(program), "started"], readable, None, 2**20)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout == "started\n", done.stderr
