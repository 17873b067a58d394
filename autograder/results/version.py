"""Compute the version of the code that judges a lesson, as a hash of files and package versions."""

import contextlib
import hashlib
import importlib.metadata
import sys
from functools import cache
from pathlib import Path

import course_lib
from autograder.judge.lesson_source import LessonSource
from course_lib.curriculum import public_curriculum

_COURSE_LIB = Path(course_lib.__file__).parent
_AUTOGRADER = Path(__file__).parents[1]

#: Packages that compute results or write them as text.
_PACKAGES = (
    *("torch", "numpy", "sacrebleu", "spacy", "tokenizers", "pydantic", "pyyaml", "pandas"),
    *("ipykernel", "IPython", "nbclient", "altair", "vl-convert-python", "jaxtyping"),
)

#: Parts of `course_lib` that affect only the results of the final lab, except for those in `_JUDGING`, which
#: affect the results of all lessons.
_NOT_JUDGING = ("__main__.py", "curriculum/curriculum.json", "student/progress", "translation")
_JUDGING = ("translation/__init__.py", "translation/configs", "translation/data")
_FINAL_LAB = "final_lab"


def checks_version(source: LessonSource) -> str:
    """Return a hash of everything on this machine that determines how a lesson is judged.

    The checks of other lessons don't affect it, except for those of the final lab.
    """
    package = source.lesson.package if source.lesson else None
    return hashlib.sha256(f"{_code_version(package)} {source.digest}".encode()).hexdigest()


def installed_version() -> str:
    """Return a hash of the code and package versions on this machine that can affect any results."""
    return _code_version(None)


@cache
def _code_version(package: str | None) -> str:
    text = "".join(f"\0{name} {version}" for name, version in _versions_for(package).items())
    return hashlib.sha256(text.encode()).hexdigest()


def _versions_for(package: str | None) -> dict[str, str]:
    """Return the versions of everything that can affect the checks in `package`, or any if it is None."""
    return {
        name: version
        for name, version in _versions().items()
        if package is None
        or not name.startswith(f"{_COURSE_LIB.name}/")
        or _judges(name.partition("/")[2], package)
    }


@cache
def _versions() -> dict[str, str]:
    """Return the versions of Python and of packages, and the hashes of files, by name.

    All are read together, soon after the process starts, because a process that runs during an update of the
    course continues to use the old code.
    """
    versions = {"Python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    for root in (_COURSE_LIB, _AUTOGRADER / "judge", _AUTOGRADER / "sandbox"):
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = f"{root.name}/{path.relative_to(root).as_posix()}"
                versions[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return versions


def _judges(name: str, package: str) -> bool:
    """Return whether the file `name` of `course_lib` can affect the results of the checks in `package`."""
    others = {lesson.package for lesson in public_curriculum().lessons} - {package, _FINAL_LAB}
    if any(_is_in(name, f"checks/exercises/{other}") for other in others):
        return False
    if package == _FINAL_LAB or any(_is_in(name, folder) for folder in _JUDGING):
        return True
    return not any(_is_in(name, folder) for folder in _NOT_JUDGING)


def _is_in(name: str, folder: str) -> bool:
    return name == folder or name.startswith(f"{folder}/")
