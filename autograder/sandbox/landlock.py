"""Landlock: a process gives up, for itself and all it starts, the files that it does not need.

Linux 5.13 or later; no privileges needed. Not covered by it: the names, sizes, modes and times of files, and
connections other than TCP. https://docs.kernel.org/userspace-api/landlock.html
"""

import ctypes
import errno
import os
import platform
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

# The same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GIVE_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38  # prctl(PR_SET_NO_NEW_PRIVS)

# linux/landlock.h
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK = 1 << 6, 1 << 7, 1 << 8, 1 << 9
_MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = 1 << 10, 1 << 11, 1 << 12
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_CONNECT_TCP = 1 << 1
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1

#: The rights over files that came with each version of Landlock.
_SINCE = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = (
    _READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _REMOVE_DIR | _REMOVE_FILE
    | _MAKE_DIR | _MAKE_REG | _MAKE_SOCK | _MAKE_FIFO | _MAKE_SYM | _REFER
)  # fmt: skip
_SOCKETS = _READ_DIR | _MAKE_SOCK | _REMOVE_FILE

#: What Python, torch and ipykernel read of the machine.
_MACHINE = (
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


def abi() -> int:
    """Give the version of Landlock that this kernel has; 0 where it has none, or has it switched off."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return 0
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_GIVE_VERSION))
    except OSError:
        return 0


def restrict(readable: Iterable[Path], writable: Iterable[Path], socket_folders: Iterable[Path]) -> None:
    """Leave this process nothing but these files and folders, for good.

    Below `readable` it may read and execute, below `writable` do everything but execute and make devices,
    and in `socket_folders` only list, bind unix sockets and remove them. What is not there is skipped. From
    Landlock 4 on the process can open no TCP connection, from 6 on it can reach no process outside by a
    signal or an abstract unix socket. Call it while the process has one thread. Raises OSError.
    """
    version = abi()
    if not version:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock")
    files = sum(rights for since, rights in _SINCE.items() if since <= version)
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
            ([*readable, *map(Path, _MACHINE)], _READ),
            ([*writable], _WRITE),
            ([*socket_folders], _SOCKETS),
            ([*map(Path, _DEVICES)], _READ_FILE | _WRITE_FILE | _TRUNCATE),
        ):
            for path in paths:
                _allow(rules, path, rights & files)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "new privileges could not be given up")
        _call(_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
    finally:
        os.close(rules)


def _allow(rules: int, path: Path, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_A_FILE
        rule = _PathBeneath(rights, place)
        _call(
            _ADD_RULE,
            ctypes.c_int(rules),
            ctypes.c_int(_PATH_BENEATH),
            ctypes.byref(rule),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(place)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"Landlock: {os.strerror(error)}")
    return int(result)
