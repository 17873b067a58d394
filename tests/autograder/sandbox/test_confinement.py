import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.sandbox import bubblewrap
from autograder.sandbox.confinement import (
    WITHOUT,
    Confinement,
    _probe,
    _unavailable_reason,
    attempt,
    probe,
    require,
)
from autograder.sandbox.fork_server import ForkServer
from course_lib.curriculum.course_file import CourseError
from tests.autograder.sandbox.confined import skip_where_missing

pytestmark = pytest.mark.sandbox


def test_with_nothing_on_all_attempts_come_through() -> None:
    """Show that the probe's attempts succeed without confinement. Linux itself may refuse to trace."""
    assert attempt([]) >= {"read", "list", "write", "tcp", "udp", "unix", "signal"}


@pytest.mark.parametrize("left_out", [{"bubblewrap"}, {"landlock"}, {"seccomp"}, {"bubblewrap", "landlock"}])
def test_what_is_left_out_is_off_and_says_why(left_out: set[str]) -> None:
    confinement = _probe(frozenset(left_out))
    reasons = dict(confinement.reasons)
    assert all("is disabled by" in reasons[name] for name in left_out)
    assert confinement.bubblewrap == ("bubblewrap" not in reasons)
    assert (confinement.landlock_abi > 0) == ("landlock" not in reasons)
    assert confinement.seccomp == ("seccomp" not in reasons)


def test_the_environment_variable_leaves_out_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WITHOUT, "bubblewrap, seccomp")
    assert probe() == _probe(frozenset({"bubblewrap", "seccomp"}))
    assert not probe().seccomp


def test_an_unknown_mechanism_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WITHOUT, "chroot")
    with pytest.raises(ValueError, match=r"unknown confinement mechanism chroot .*; choose from bubblewrap"):
        probe()


def test_a_bubblewrap_that_does_not_work_is_off_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulate Ubuntu, for example, which denies ordinary users the namespaces that bubblewrap needs."""
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    reason = _unavailable_reason("bubblewrap", frozenset())
    assert reason.startswith("bubblewrap does not work here: bwrap: setting up uid map: Permission denied")


def test_a_bubblewrap_that_confines_nothing_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    false = tmp_path / "bwrap"
    false.write_text('#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done\nshift\nexec "$@"\n')
    false.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "SCRATCH", tmp_path / "scratch")
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    reason = _unavailable_reason("bubblewrap", frozenset())
    assert reason.startswith("bubblewrap is not effective here")
    assert "read" in reason


_REFUSED = {"bubblewrap": ("clone", "unshare"), "landlock": ("landlock_create_ruleset",)}


@pytest.mark.parametrize("refused", ["bubblewrap", "landlock"])
def test_what_a_seccomp_profile_refuses_is_off_and_the_reason_names_it(refused: str) -> None:
    """In a container, Docker's filter denies new namespaces, and earlier versions also deny Landlock."""
    pytest.importorskip("pyseccomp")
    skip_where_missing([refused])
    program = f"""
import pyseccomp
from autograder.sandbox import confinement
rules = pyseccomp.SyscallFilter(defaction=pyseccomp.ALLOW)
for name in {_REFUSED[refused]}:
    number = 444 if name.startswith("landlock") else pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
    flags = [pyseccomp.Arg(0, pyseccomp.MASKED_EQ, 1 << 28, 1 << 28)] if name == "clone" else []
    rules.add_rule(pyseccomp.ERRNO(1), number, *flags)
rules.load()
print(confinement._unavailable_reason({refused!r}, frozenset()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "seccomp profile" in done.stdout, done.stdout + done.stderr


def test_no_bubblewrap_is_off_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (
        _unavailable_reason("bubblewrap", frozenset())
        == "bubblewrap is not installed: there is no program bwrap."
    )


@pytest.mark.parametrize(
    ("confinement", "name", "sufficient"),
    [
        (Confinement(True, 7, True), "bubblewrap + Landlock (ABI 7) + seccomp + rlimits", True),
        (Confinement(True, 0, True), "bubblewrap + seccomp + rlimits", True),
        (Confinement(False, 1, True), "Landlock (ABI 1) + seccomp + rlimits", True),
        (Confinement(True, 7, False), "bubblewrap + Landlock (ABI 7) + rlimits", False),
        (Confinement(False, 7, False), "Landlock (ABI 7) + rlimits", False),
        (Confinement(False, 0, True), "seccomp + rlimits", False),
        (Confinement(False, 0, False), "rlimits", False),
        (Confinement(True, 0, True, exposed=(Path("/usr/lib"),)), "bubblewrap + seccomp + rlimits", False),
    ],
)  # fmt: skip
def test_what_is_sufficient(confinement: Confinement, name: str, sufficient: bool) -> None:
    assert confinement.name == name
    assert confinement.sufficient == sufficient
    assert {confinement, pickle.loads(pickle.dumps(confinement))} == {confinement}
    require(confinement, allow_unconfined=True)
    if sufficient:
        require(confinement, allow_unconfined=False)
    else:
        with pytest.raises(
            CourseError, match=r"bubblewrap(.|\n)*c\.SandboxedExecute\.allow_unconfined = True"
        ):
            require(confinement, allow_unconfined=False)


@pytest.mark.parametrize(
    ("confinement", "gap"),
    [
        (Confinement(False, 7, True), "can see names, sizes and times of outside files"),
        (Confinement(False, 7, True), "other processes, mounts and network connections exist"),
        (Confinement(False, 0, True), "can read and write all files that the grader can"),
        (Confinement(False, 7, False), "The network is open: UDP and unix sockets"),
        (Confinement(False, 3, False), "The network is open: TCP, UDP and unix sockets"),
        (Confinement(True, 0, True), "Kernels use the same scratch folder"),
        (
            Confinement(True, 7, True, exposed=(Path("/opt/python"),)),
            "/opt/python is part of the Python environment",
        ),
    ],
)
def test_gaps_are_named(confinement: Confinement, gap: str) -> None:
    assert gap in "\n".join(confinement.gaps)
    assert gap not in "\n".join(Confinement(True, 7, True).gaps)


def test_the_course_is_no_part_of_the_environment() -> None:
    environment = bubblewrap.environment_paths()
    course = Path(__file__).parents[3]
    assert not [path for path in environment if course.is_relative_to(path)]
    assert not [path for path in environment if path in (course / "course_lib", course / "solutions")]


def test_only_the_folder_of_a_killed_owner_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process ids differ between containers, so an owner that is running may seem not to exist."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with monkeypatch.context() as container:
        container.setattr("os.getpid", lambda: 2**22 + 1)
        running = ForkServer(probe())
        running.begin()
        (tmp_path / f"course-sandbox-{2**22 + 1}-killed").mkdir()
    another = ForkServer(probe())
    another.begin()
    assert set(tmp_path.iterdir()) == {running.folder, another.folder}
    for server in (running, another):
        server.close()
    assert list(tmp_path.iterdir()) == []
