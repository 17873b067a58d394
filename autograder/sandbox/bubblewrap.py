"""Bubblewrap: a view of the machine with no network, no other processes and hardly any files.

https://github.com/containers/bubblewrap, version 0.7 or later.
"""

import os
import shutil
import site
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

#: The one folder inside that can be written to, besides that of the sockets. In memory, and empty at first.
SCRATCH = Path("/scratch")

# Not all of /usr: people keep their work in /usr/src and /usr/local.
_SYSTEM = (
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/share"),
    *("/usr/local/bin", "/usr/local/lib", "/usr/local/lib64", "/bin", "/sbin", "/lib", "/lib32", "/lib64"),
    *("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/localtime", "/nix/store", "/sys/devices/system/cpu", "/sys/devices/system/node"),
)
_COURSE = Path(__file__).resolve().parents[2]

#: All the environment variables inside, where nothing else is asked for.
VARIABLES = {
    "HOME": str(SCRATCH), "TMPDIR": str(SCRATCH), "USER": "student", "PATH": os.defpath, "LANG": "C.UTF-8",
    "PYTHONPATH": str(_COURSE), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    # Else the C library sets 64 MiB of addresses aside for each thread, up to eight times the processors: on
    # a large machine a few threads would come to the limit of memory.
    "MALLOC_ARENA_MAX": "2",
}  # fmt: skip


def environment() -> tuple[Path, ...]:
    """Give the files and folders that Python with its packages needs: those that are there, each one once.

    Not the course itself, which is installed as editable.
    """
    prefixes = {
        Path(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    }
    # What these hold of the environment stands in _SYSTEM.
    prefixes -= {Path("/"), Path("/usr"), Path("/usr/local")}
    packages = {Path(site.getusersitepackages())} if site.ENABLE_USER_SITE else set()
    paths = {*map(Path, _SYSTEM), *prefixes, *packages, *_hops(Path(sys.executable))}
    return tuple(sorted(path for path in paths if path.exists()))


def command(
    program: Sequence[str],
    readable: Iterable[Path],
    writable: Iterable[Path],
    socket_folder: Path | None,
    scratch_bytes: int,
    variables: Mapping[str, str] = VARIABLES,
) -> list[str]:
    """Give the command that runs a program inside.

    It sees `readable`, may change `writable` and `socket_folder`, and has `scratch_bytes` for files in
    SCRATCH. Each path is where it is outside. It ends with the process that started it.
    """
    # By its full path: the program that starts it may have been given another PATH.
    inside = [
        shutil.which("bwrap") or "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
    ]
    inside += ["--hostname", "sandbox", "--clearenv"]
    for name, value in variables.items():
        inside += ["--setenv", name, value]
    for option, source, place in _binds(readable):
        inside += [option, source, place]
    inside += ["--proc", "/proc", "--dev", "/dev", "--dir", "/tmp"]
    inside += ["--size", str(scratch_bytes), "--tmpfs", str(SCRATCH)]
    for path in (*writable, *([socket_folder] if socket_folder else ())):
        inside += ["--bind", str(path), str(path)]
    # These two are made of memory, which nobody would count.
    inside += ["--remount-ro", "/dev", "--remount-ro", "/"]
    return [*inside, "--chdir", str(SCRATCH), "--", *program]


def _binds(readable: Iterable[Path]) -> Iterator[tuple[str, str, str]]:
    """Give the options that show paths, with links as links: outer folders first, nothing twice."""
    waiting = sorted(Path(os.path.abspath(path)) for path in readable)
    shown: list[Path] = []
    while waiting:
        path = waiting.pop(0)
        if any(path.is_relative_to(other) for other in shown) or not path.exists():
            continue
        shown.append(path)
        if path.is_symlink():
            link = os.readlink(path)
            yield "--symlink", link, str(path)
            waiting.append(Path(os.path.normpath(path.parent.resolve() / link)))
            continue
        yield "--ro-bind", str(path), str(path)
        if path.resolve() != path:  # a folder further up is a link
            waiting.append(path.resolve())


def _hops(path: Path) -> Iterator[Path]:
    """Give a path and all that it leads to by links."""
    yield path
    while path.is_symlink():
        path = Path(os.path.normpath(path.parent.resolve() / os.readlink(path)))
        yield path
