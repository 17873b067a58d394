"""seccomp: a process gives up, for itself and all it starts, the system calls that it does not need.

The filter is libseccomp's, through pyseccomp. What is not named here stays allowed: torch and Python use too
many calls, which differ from version to version, for a list of what they may.
"""

import errno
import os
import sys
from collections.abc import Iterator
from typing import Any

#: Refused whatever they are asked.
_REFUSED = (
    # Sockets. Pairs, and accepting on sockets that are there, stay.
    *("socket", "connect", "bind", "listen"),
    # Other processes.
    *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_open", "pidfd_getfd"),
    *("pidfd_send_signal", "process_madvise", "process_mrelease", "tkill", "migrate_pages", "move_pages"),
    *("setpriority", "ioprio_set", "sched_setattr"),
    # Names, mounts and identities.
    *("mount", "umount", "umount2", "mount_setattr", "move_mount", "open_tree", "open_tree_attr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "pivot_root", "chroot", "unshare", "setns"),
    *("setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid"),
    *("setgroups", "capset", "personality", "open_by_handle_at", "mknod", "mknodat"),
    # Watching files that cannot be read.
    *("inotify_init", "inotify_init1", "inotify_add_watch", "fanotify_init", "fanotify_mark"),
    # Memory that no limit counts, or that stays behind.
    *("memfd_create", "memfd_secret", "shmget", "shmat", "semget", "msgget", "mq_open"),
    # The kernel itself, and ways around this filter.
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("add_key", "request_key", "keyctl", "init_module", "finit_module", "delete_module", "kexec_load"),
    *("kexec_file_load", "reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog"),
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname"),
    *("iopl", "ioperm", "modify_ldt", "vhangup", "lookup_dcookie", "nfsservctl", "vmsplice"),
)

#: What changes a file without writing to it.
_ATTRIBUTES = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "utimensat", "futimesat", "truncate", "file_setattr"),
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
)

#: Calls younger than many a libseccomp. From 424 on, numbers are the same on every architecture.
_YOUNG = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_open": 434, "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447, "process_mrelease": 448,
    "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "open_tree_attr": 467, "file_setattr": 469,
}  # fmt: skip

_LOW_WORD = 0xFFFFFFFF  # what Linux looks at where an argument is an int, and all that a filter may compare

# linux/sched.h: namespaces (cgroup, uts, ipc, user, pid, net, mount), and a child for one's parent
_CLONE_FLAGS = (1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30, 1 << 17, 1 << 15)
# Put characters into a terminal (two), and say who gets a descriptor's signals (two).
_IOCTLS = (0x5412, 0x541C, 0x8901, 0x8902)
_ATTRIBUTE_IOCTLS = (0x40086602, 0x401C5820)  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR
# Who gets a descriptor's signals, and which (F_SETOWN, F_SETSIG, F_SETOWN_EX); leases and watches.
_FCNTLS = (8, 10, 15, 1024, 1026)
_FAST_OPEN = 0x20000000  # MSG_FASTOPEN: sending that connects
_SOCKET_TYPE = 0xF
_AF_UNIX, _SOCK_DGRAM, _SOCK_RAW = 1, 2, 3

Rule = tuple[int, str, list[Any]]


def available() -> str | None:
    """Give None where filters can be made, else the reason why not, as a sentence."""
    if sys.platform != "linux":
        return "seccomp is a part of Linux"
    try:
        import pyseccomp  # type: ignore[import-untyped, unused-ignore]  # noqa: F401
    except ImportError:
        return "the Python package pyseccomp is not installed"
    except RuntimeError:
        return "libseccomp is not installed (Debian and Ubuntu: libseccomp2; Fedora: libseccomp)"
    return None


def refuse_system_calls(*, attributes: bool = True) -> None:
    """Refuse, with EPERM, what no lesson needs: to all threads of this process and all it starts, for good.

    No new socket and no connection; no signal to anyone but this very process; no look into other processes;
    no namespaces, mounts or identities. With `attributes`, also no change of modes, owners and times of
    files, not even of own ones: Landlock does not cover them, so leave it out only where other files are not
    there at all.
    Raises OSError, and ImportError where pyseccomp is missing.
    """
    import pyseccomp as seccomp

    rules = seccomp.SyscallFilter(defaction=seccomp.ALLOW)
    rules.set_attr(seccomp.Attr.CTL_TSYNC, 1)
    rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    for error, name, conditions in _rules(attributes):
        number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
        if number < 0:  # not on this architecture, or unknown to this libseccomp
            number = _YOUNG.get(name, -1)
        if number >= 0:
            rules.add_rule(seccomp.ERRNO(error), number, *conditions)
    rules.load()


def _rules(attributes: bool) -> Iterator[Rule]:
    import pyseccomp as seccomp

    def is_(argument: int, value: int, mask: int = _LOW_WORD) -> Any:
        return seccomp.Arg(argument, seccomp.MASKED_EQ, mask, value)

    def is_not(argument: int, value: int) -> Any:
        return seccomp.Arg(argument, seccomp.NE, value)

    refused = errno.EPERM
    for name in _REFUSED:
        yield refused, name, []
    # Its flags lie in memory, where no filter sees them. Libraries then use clone.
    yield errno.ENOSYS, "clone3", []
    # Without effect, and no error: ZeroMQ ends the process where its threads cannot call this.
    for name in ("sched_setscheduler", "sched_setparam"):
        yield 0, name, []
    for flag in _CLONE_FLAGS:
        yield refused, "clone", [is_(0, flag, mask=flag)]
    for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        yield refused, name, [is_not(0, os.getpid())]
    for name in ("prlimit64", "sched_setaffinity"):
        yield refused, name, [is_not(0, 0)]
    # A socket for datagrams can send to any address, pair or not.
    yield refused, "socketpair", [is_not(0, _AF_UNIX)]
    for kind in (_SOCK_DGRAM, _SOCK_RAW):
        yield refused, "socketpair", [is_(1, kind, mask=_SOCKET_TYPE)]
    yield refused, "sendto", [is_not(4, 0)]
    for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        yield refused, name, [is_(flags, _FAST_OPEN, mask=_FAST_OPEN)]
    for request in _IOCTLS:
        yield refused, "ioctl", [is_(1, request)]
    for request in _FCNTLS:
        yield refused, "fcntl", [is_(1, request)]
    if attributes:
        for name in _ATTRIBUTES:
            yield refused, name, []
        for request in _ATTRIBUTE_IOCTLS:
            yield refused, "ioctl", [is_(1, request)]
        # Opening for reading and emptying at once: older versions of Landlock see the reading only.
        yield errno.ENOSYS, "openat2", []
        for name, flags in (("open", 1), ("openat", 2)):
            yield refused, name, [is_(flags, os.O_RDONLY | os.O_TRUNC, mask=os.O_ACCMODE | os.O_TRUNC)]
