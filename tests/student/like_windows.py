"""Imitate Python on Windows, as far as Linux allows, by hiding what Windows lacks.

`install()` changes what the modules of `course_lib` and of the tests import from then on: `os`, `signal`,
`socket`, `select`, `time` and `sys` are views without the names that Windows lacks, and Unix modules can't be
imported. Opening a file as text without an encoding is an error. Other packages, which have their own code
for Windows, are not affected. As a pytest plugin, this module runs tests in this way:

    pytest -p tests.student.like_windows tests/checks tests/student

The following can't be imitated: a file system that ignores case and forbids replacing an open file, paths
with backslashes, and PyTorch's own behaviour.
"""

import builtins
import multiprocessing
import warnings
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

#: Modules that exist on Unix only.
ABSENT = frozenset("crypt fcntl grp nis posix pty pwd readline resource spwd syslog termios tty".split())  # noqa: SIM905

#: The functions and variables of `os` that exist on Windows, according to Python's documentation.
_OS = """
    abc abort access altsep chdir chmod close closerange cpu_count curdir defpath device_encoding
    devnull dup dup2 environ error execl execle execlp execlpe execv execve execvp execvpe extsep fdopen
    fsdecode fsencode fspath fstat fsync ftruncate get_exec_path get_inheritable get_terminal_size
    getcwd getcwdb getenv getlogin getpid getppid isatty kill linesep link listdir lseek lstat makedirs
    mkdir name open pardir path pathsep pipe popen putenv read readlink remove removedirs rename renames
    replace rmdir scandir sep set_inheritable spawnl spawnle spawnv spawnve stat stat_result strerror
    supports_bytes_environ supports_dir_fd supports_effective_ids supports_fd supports_follow_symlinks
    symlink system terminal_size times times_result truncate umask unlink unsetenv urandom utime waitpid
    waitstatus_to_exitcode walk write DirEntry PathLike F_OK R_OK W_OK X_OK O_APPEND O_CREAT O_EXCL
    O_RDONLY O_RDWR O_TRUNC O_WRONLY P_NOWAIT P_NOWAITO P_WAIT SEEK_CUR SEEK_END SEEK_SET
"""
_SIGNAL = """
    SIGABRT SIGFPE SIGILL SIGINT SIGSEGV SIGTERM SIG_DFL SIG_IGN Handlers Signals default_int_handler
    getsignal raise_signal set_wakeup_fd signal strsignal valid_signals
"""
#: The names that Windows has in some modules, and those that it lacks in others.
_PRESENT = {"os": frozenset(_OS.split()), "signal": frozenset(_SIGNAL.split())}
_LACKING = {
    "select": frozenset("poll epoll devpoll kqueue".split()),  # noqa: SIM905
    "socket": frozenset("AF_UNIX AF_NETLINK socketpair send_fds recv_fds SO_REUSEPORT SO_PEERCRED".split()),  # noqa: SIM905
    "sys": frozenset("setdlopenflags getdlopenflags abiflags".split()),  # noqa: SIM905
    "time": frozenset("tzset clock_gettime clock_getres clock_settime pthread_getcpuclockid".split()),  # noqa: SIM905
}
_DIFFERENT: Mapping[str, Mapping[str, Any]] = {"sys": {"platform": "win32"}, "os": {"name": "nt"}}


class WindowsView(ModuleType):
    """A view of a standard library module, without the names that it lacks on Windows."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__["_module"] = module

    def __getattr__(self, name: str) -> Any:
        """Return the module's attribute with this name, if Windows has it."""
        module, here = self.__dict__["_module"], self.__name__
        if name in _DIFFERENT.get(here, {}):
            return _DIFFERENT[here][name]
        absent = name in _LACKING.get(here, ()) or name not in _PRESENT.get(here, {name})
        if absent and not name.startswith("__"):
            raise AttributeError(f"module '{here}' has no attribute '{name}' on Windows")
        return getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the module itself, such as `sys.argv`."""
        setattr(self.__dict__["_module"], name, value)


def install(packages: Sequence[str] = ("course_lib", "tests")) -> None:
    """Make modules of these packages import the views from now on. Call this before importing them."""
    genuine = builtins.__import__

    def import_(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        importer = str((globals or {}).get("__package__") or (globals or {}).get("__name__", ""))
        if level or importer.partition(".")[0] not in packages:
            return genuine(name, globals, locals, fromlist or (), level)
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named '{name}' on Windows", name=name)
        module = genuine(name, globals, locals, fromlist or (), level)
        return WindowsView(module) if name in (*_PRESENT, *_LACKING) else module

    builtins.__import__ = import_  # type: ignore[assignment]
    multiprocessing.set_start_method("spawn", force=True)
    for package in packages:
        warnings.filterwarnings("error", category=EncodingWarning, module=rf"{package}(\.|$)")


def pytest_configure() -> None:
    """Install the views if this module is used as a plugin."""
    install()
