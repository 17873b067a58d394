"""seccomp: irrevocably deny system calls to a process and its children.

The filter is created with libseccomp, through pyseccomp. System calls that aren't listed here are allowed: an
allow list is impractical, because torch and Python use many calls, which differ between versions.
"""

import errno
import os
from collections.abc import Iterator
from typing import Any

#: System calls that are denied regardless of their arguments.
_DENIED = (
    # Sockets. Socket pairs, and accepting on existing sockets, are allowed.
    *("socket", "connect", "bind", "listen"),
    # Other processes.
    *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_open", "pidfd_getfd"),
    *("pidfd_send_signal", "process_madvise", "process_mrelease", "tkill", "migrate_pages", "move_pages"),
    *("setpriority", "ioprio_set", "sched_setattr"),
    # Namespaces, mounts and identities.
    *("mount", "umount", "umount2", "mount_setattr", "move_mount", "open_tree", "open_tree_attr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "pivot_root", "chroot", "unshare", "setns"),
    *("setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid"),
    *("setgroups", "capset", "personality", "open_by_handle_at", "mknod", "mknodat"),
    # Watching files that can't be read.
    *("inotify_init", "inotify_init1", "inotify_add_watch", "fanotify_init", "fanotify_mark"),
    # Memory that doesn't count towards any limit, or that outlives the process.
    *("memfd_create", "memfd_secret", "shmget", "shmat", "semget", "msgget", "mq_open"),
    # The Linux kernel itself, and ways to bypass this filter.
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("add_key", "request_key", "keyctl", "init_module", "finit_module", "delete_module", "kexec_load"),
    *("kexec_file_load", "reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog"),
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname"),
    *("iopl", "ioperm", "modify_ldt", "vhangup", "lookup_dcookie", "nfsservctl", "vmsplice"),
)

#: Calls that change a file without writing to it.
_ATTRIBUTES = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "utimensat", "futimesat", "truncate", "file_setattr"),
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
)

#: Calls that older versions of libseccomp don't know. From 424 on, numbers are the same on x86-64, ARM64 and
#: most other architectures.
_NEW_CALLS = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_open": 434, "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447, "process_mrelease": 448,
    "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "open_tree_attr": 467, "file_setattr": 469,
}  # fmt: skip

_LOW_WORD = 0xFFFFFFFF  # Linux ignores the high word of int arguments, so a filter must not compare it.

# linux/sched.h: new namespaces (cgroup, uts, ipc, user, pid, net, mount), and CLONE_PARENT
_CLONE_FLAGS = (1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30, 1 << 17, 1 << 15)
# TIOCSTI and TIOCLINUX (insert input into a terminal), FIOSETOWN and SIOCSPGRP (receiver of a descriptor's
# signals)
_IOCTLS = (0x5412, 0x541C, 0x8901, 0x8902)
_ATTRIBUTE_IOCTLS = (0x40086602, 0x401C5820)  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR
# F_SETOWN, F_SETSIG, F_SETOWN_EX (receiver and number of a descriptor's signals), F_SETLEASE, F_NOTIFY
_FCNTLS = (8, 10, 15, 1024, 1026)
_FAST_OPEN = 0x20000000  # MSG_FASTOPEN: connects while sending
_SOCKET_TYPE = 0xF
_AF_UNIX, _SOCK_DGRAM, _SOCK_RAW = 1, 2, 3

Rule = tuple[int, str, list[Any]]


def unavailable_reason() -> str | None:
    """Return None if filters can be created, otherwise the reason why not."""
    try:
        import pyseccomp  # type: ignore[import-untyped, unused-ignore]  # noqa: F401
    except ImportError:
        return "the Python package pyseccomp is not installed"
    except RuntimeError:
        return "libseccomp is not installed (Debian and Ubuntu: libseccomp2; Fedora: libseccomp)"
    return None


def deny_system_calls() -> None:
    """Irrevocably deny system calls that no lesson needs, in all threads of this process and in its children.

    Most of the denied calls create or connect sockets, signal or inspect other processes, change namespaces,
    mounts or identities, or change the mode, owner or times of files, which Landlock doesn't cover. They fail
    with EPERM, except for a few calls whose callers need a different result. Raises OSError if the filter
    can't be loaded, and ImportError if pyseccomp is missing.
    """
    import pyseccomp as seccomp

    rules = seccomp.SyscallFilter(defaction=seccomp.ALLOW)
    rules.set_attr(seccomp.Attr.CTL_TSYNC, 1)
    rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    for error, name, conditions in _rules():
        number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
        if number < 0:  # The call is missing on this architecture or in this version of libseccomp.
            number = _NEW_CALLS.get(name, -1)
        if number >= 0:
            rules.add_rule(seccomp.ERRNO(error), number, *conditions)
    rules.load()


def _rules() -> Iterator[Rule]:
    import pyseccomp as seccomp

    def equal(argument: int, value: int, mask: int = _LOW_WORD) -> Any:
        return seccomp.Arg(argument, seccomp.MASKED_EQ, mask, value)

    def not_equal(argument: int, value: int) -> Any:
        return seccomp.Arg(argument, seccomp.NE, value)

    for name in (*_DENIED, *_ATTRIBUTES):
        yield errno.EPERM, name, []
    # The flags of clone3 are in memory, where a filter can't read them. After ENOSYS, libraries
    # fall back to clone.
    yield errno.ENOSYS, "clone3", []
    # Let these calls succeed without an effect, because ZeroMQ aborts if its threads can't make them.
    for name in ("sched_setscheduler", "sched_setparam"):
        yield 0, name, []
    for flag in _CLONE_FLAGS:
        yield errno.EPERM, "clone", [equal(0, flag, mask=flag)]
    for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        yield errno.EPERM, name, [not_equal(0, os.getpid())]
    for name in ("prlimit64", "sched_setaffinity"):
        yield errno.EPERM, name, [not_equal(0, 0)]
    # A datagram socket can send to any address, even if it belongs to a pair.
    yield errno.EPERM, "socketpair", [not_equal(0, _AF_UNIX)]
    for kind in (_SOCK_DGRAM, _SOCK_RAW):
        yield errno.EPERM, "socketpair", [equal(1, kind, mask=_SOCKET_TYPE)]
    yield errno.EPERM, "sendto", [not_equal(4, 0)]
    for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        yield errno.EPERM, name, [equal(flags, _FAST_OPEN, mask=_FAST_OPEN)]
    for request in (*_IOCTLS, *_ATTRIBUTE_IOCTLS):
        yield errno.EPERM, "ioctl", [equal(1, request)]
    for request in _FCNTLS:
        yield errno.EPERM, "fcntl", [equal(1, request)]
    # O_RDONLY | O_TRUNC truncates a file, but older versions of Landlock only check for read access. The
    # flags of openat2 are in memory, where a filter can't read them, so deny all of its calls.
    yield errno.ENOSYS, "openat2", []
    for name, flags in (("open", 1), ("openat", 2)):
        yield errno.EPERM, name, [equal(flags, os.O_RDONLY | os.O_TRUNC, mask=os.O_ACCMODE | os.O_TRUNC)]
