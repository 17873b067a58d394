"""Run programs in bubblewrap, with no access to the network, to other processes or to most files.

Requires bubblewrap 0.7 or later: https://github.com/containers/bubblewrap
"""

import os
import shutil
import site
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

#: The only writable folder inside the sandbox, apart from the one for sockets. It is in memory, and initially
#: empty.
SCRATCH = Path("/scratch")

# Don't list all of /usr, because people keep their own files in /usr/src and /usr/local.
_SYSTEM = (
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/share"),
    *("/usr/local/bin", "/usr/local/lib", "/usr/local/lib64", "/bin", "/sbin", "/lib", "/lib32", "/lib64"),
    *("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/localtime", "/nix/store", "/sys/devices/system/cpu", "/sys/devices/system/node"),
)

#: The folder that contains the package `autograder`.
COURSE = Path(__file__).resolve().parents[2]

#: The environment variables inside the sandbox.
VARIABLES = {
    "HOME": str(SCRATCH), "TMPDIR": str(SCRATCH), "USER": "student", "PATH": os.defpath, "LANG": "C.UTF-8",
    "PYTHONPATH": str(COURSE), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    # By default, the C library reserves 64 MiB of address space per thread, for up to eight threads per
    # processor. On a large machine, a few dozen threads would reach the memory limit.
    "MALLOC_ARENA_MAX": "2",
}  # fmt: skip


def environment_paths() -> tuple[Path, ...]:
    """Return the existing files and folders that Python and its packages need, without duplicates.

    The course itself is not included if it is an editable installation outside these folders.
    """
    prefixes = {
        Path(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    }
    # Don't make these folders visible as a whole: their relevant parts are in _SYSTEM.
    prefixes -= {Path("/"), Path("/usr"), Path("/usr/local")}
    packages = {Path(site.getusersitepackages())} if site.ENABLE_USER_SITE else set()
    paths = {*map(Path, _SYSTEM), *prefixes, *packages, *_link_chain(Path(sys.executable))}
    return tuple(sorted(path for path in paths if path.exists()))


def command(
    program: Sequence[str],
    readable: Iterable[Path],
    socket_folder: Path | None,
    scratch_bytes: int,
) -> list[str]:
    """Return the command that runs a program inside bubblewrap's sandbox.

    The program can read `readable`, write to `socket_folder` if it is not None, and store at most
    `scratch_bytes` in SCRATCH, its working folder. Paths are the same inside and outside. Its environment
    contains only VARIABLES. The program is killed when its parent process ends.
    """
    # Use the full path, because the parent process may have a different PATH.
    inside = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
    inside += ["--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv"]
    for name, value in VARIABLES.items():
        inside += ["--setenv", name, value]
    for option, source, target in _binds(readable):
        inside += [option, source, target]
    inside += ["--proc", "/proc", "--dev", "/dev", "--dir", "/tmp"]
    inside += ["--size", str(scratch_bytes), "--tmpfs", str(SCRATCH)]
    if socket_folder is not None:
        inside += ["--bind", str(socket_folder), str(socket_folder)]
    # Make these read-only: they are file systems in memory, whose contents count towards no limit.
    inside += ["--remount-ro", "/dev", "--remount-ro", "/"]
    return [*inside, "--chdir", str(SCRATCH), "--", *program]


def likely_obstacle() -> str:
    """Return the likely reason why bubblewrap fails on this machine, or an empty string if none is found."""
    if _read("/proc/sys/user/max_user_namespaces") == "0":
        return "The setting user.max_user_namespaces is 0."
    if _read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "Ubuntu's AppArmor restricts namespaces: bwrap needs a profile that permits `userns`."
    if "Seccomp:\t2" in _read("/proc/self/status"):
        return "This process has a seccomp profile. The profile of a container usually denies namespaces."
    return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _binds(readable: Iterable[Path]) -> Iterator[tuple[str, str, str]]:
    """Yield the option, source and target of each mount that makes these paths visible in bubblewrap.

    Outer folders come first, nothing is mounted twice, symbolic links stay links, and missing paths are
    skipped.
    """
    pending = sorted(Path(os.path.abspath(path)) for path in readable)
    mounted: list[Path] = []
    while pending:
        path = pending.pop(0)
        if any(path.is_relative_to(other) for other in mounted) or not path.exists():
            continue
        mounted.append(path)
        if path.is_symlink():
            link = os.readlink(path)
            yield "--symlink", link, str(path)
            pending.append(Path(os.path.normpath(path.parent.resolve() / link)))
            continue
        yield "--ro-bind", str(path), str(path)
        if path.resolve() != path:  # A parent folder is a link.
            pending.append(path.resolve())


def _link_chain(path: Path) -> Iterator[Path]:
    """Yield a path and, if it is a symbolic link, each further path in its chain of links."""
    yield path
    while path.is_symlink():
        path = Path(os.path.normpath(path.parent.resolve() / os.readlink(path)))
        yield path
