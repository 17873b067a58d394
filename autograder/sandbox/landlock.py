"""Landlock: irrevocably restrict the files that a process and its children can access.

It needs Linux 5.13 or later, but no privileges. It doesn't restrict access to the names, sizes, modes and
times of files, or connections other than TCP. https://docs.kernel.org/userspace-api/landlock.html
"""

import ctypes
import errno
import os
import platform
import stat
from collections.abc import Iterable
from pathlib import Path

# System call numbers, which are the same on x86-64 and ARM64.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38  # prctl(PR_SET_NO_NEW_PRIVS)

# These constants are from linux/landlock.h.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK = 1 << 6, 1 << 7, 1 << 8, 1 << 9
_MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = 1 << 10, 1 << 11, 1 << 12
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_CONNECT_TCP = 1 << 1
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1

#: The file access rights added by each ABI version of Landlock.
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = (
    _READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _REMOVE_DIR | _REMOVE_FILE
    | _MAKE_DIR | _MAKE_REG | _MAKE_SOCK | _MAKE_FIFO | _MAKE_SYM | _REFER
)  # fmt: skip
_SOCKETS = _READ_DIR | _MAKE_SOCK | _REMOVE_FILE

#: System files that Python, torch and ipykernel read.
_SYSTEM_FILES = (
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/version"),
    *("/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/cap_last_cap"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/dev/random", "/dev/urandom"),
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


#: The reasons why the ABI version can't be read, keyed by the error number of the system call.
_REASONS = {
    errno.ENOSYS: "this Linux kernel has no Landlock (it needs 5.13 or later), or a container engine doesn't "
    "know its system calls",
    errno.EOPNOTSUPP: "Landlock was disabled when Linux started (add landlock to the lsm= boot parameter)",
    errno.EPERM: "the system calls of Landlock are denied, usually by a container engine's seccomp profile",
}


def abi() -> int:
    """Return the ABI version of Landlock in this Linux kernel.

    Raises OSError, with the reason as its message, if Landlock can't be used.
    """
    if platform.machine() not in ("x86_64", "aarch64"):
        raise OSError(f"the course uses it only with x86-64 and ARM64 processors, not {platform.machine()}")
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_CREATE_RULESET_VERSION))
    except OSError as error:
        raise OSError(_REASONS.get(error.errno or 0, str(error))) from None


def restrict(readable: Iterable[Path], writable: Iterable[Path], socket_folders: Iterable[Path]) -> None:
    """Irrevocably restrict this process to these files and folders.

    Below `readable`, it may read and execute files. Below `writable`, it may do anything except execute files
    and create devices. In `socket_folders`, it may list the contents, and bind and remove unix sockets. It
    may also read the system files that Python needs. Paths that don't exist or can't be opened are skipped.
    From ABI version 4 on, the process can't open TCP connections. From version 6 on, it can't send signals to
    processes outside its restrictions, or connect to their abstract unix sockets.

    Must be called while the process has a single thread. Raises OSError if Landlock can't be used.
    """
    version = abi()
    files = sum(rights for since, rights in _RIGHTS_BY_VERSION.items() if since <= version)
    ruleset = _Ruleset(
        files,
        _CONNECT_TCP if version >= 4 else 0,
        _ABSTRACT_SOCKETS | _SIGNALS if version >= 6 else 0,
    )
    rules = _call(
        _CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(ctypes.sizeof(ruleset)), ctypes.c_uint32(0)
    )
    try:
        for paths, rights in (
            ([*readable, *map(Path, _SYSTEM_FILES)], _READ),
            ([*writable], _WRITE),
            ([*socket_folders], _SOCKETS),
            ([*map(Path, _DEVICES)], _READ_FILE | _WRITE_FILE | _TRUNCATE),
        ):
            for path in paths:
                _allow(rules, path, rights & files)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "setting no_new_privs failed")
        _call(_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
    finally:
        os.close(rules)


def _allow(rules: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_RIGHTS
        rule = _PathBeneath(rights, descriptor)
        _call(
            _ADD_RULE,
            ctypes.c_int(rules),
            ctypes.c_int(_PATH_BENEATH),
            ctypes.byref(rule),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"Landlock: {os.strerror(error)}")
    return int(result)
