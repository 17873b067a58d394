"""Open JupyterLab on the lessons, with a start page that shows your progress.

If the folder doesn't exist, it is created with a copy of the lessons. Options that aren't listed here are
passed to JupyterLab, which is set up to render Markdown files and not to fetch news from the internet.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from course_lib.student.progress import ProgressError, nearest_lessons
from course_lib.student.progress.start_page import LABEXTENSIONS, PAGE, SETTINGS, after_saving, write_page


def installed_lessons() -> Path:
    """Return the folder of the lessons that came with the course, from its clone or its wheel.

    Raises ProgressError if there are none.
    """
    clone = Path(__file__).parents[3] / "lessons"
    if (clone / "AGENTS.md").is_file():
        return clone
    try:
        listed = files("build-the-transformer") or []
    except PackageNotFoundError:
        listed = []
    for file in listed:
        if file.match("build-the-transformer/lessons/AGENTS.md"):
            return Path(str(file.locate())).resolve().parent
    raise ProgressError(
        "The course is installed without its lessons. Install its wheel, "
        "or copy `lessons` from its repository."
    )


def copy_lessons(folder: Path) -> None:
    """Copy the installed lessons to a new folder, which only appears once it is complete.

    Hidden files, the start page and the lab's runs are not copied. Raises ProgressError if no lessons are
    installed.
    """
    incomplete = folder.with_name(f".{folder.name}.incomplete")
    shutil.rmtree(incomplete, ignore_errors=True)
    shutil.copytree(installed_lessons(), incomplete, ignore=shutil.ignore_patterns(PAGE, "runs", ".*"))
    incomplete.rename(folder)


def command(folder: Path, options: Sequence[str] = ()) -> list[str]:
    """Return the command that starts JupyterLab in `folder`, with further `options` for JupyterLab.

    The user's own Jupyter configuration applies as well.
    """
    return [
        *(sys.executable, "-m", "jupyterlab"),
        f"--notebook-dir={folder}",
        f"--LabApp.app_settings_dir={SETTINGS}",
        f"--LabApp.extra_labextensions_path={LABEXTENSIONS}",
        f"--LabApp.default_url=/lab/tree/{PAGE}",
        f"--FileContentsManager.post_save_hook={after_saving.__module__}.{after_saving.__name__}",
        *options,
    ]


def with_values(arguments: Sequence[str]) -> list[str]:
    """Join JupyterLab's options with their values: `--port 9000` becomes `--port=9000`.

    Otherwise, argparse would take the value for the folder.
    """
    from jupyterlab.labapp import LabApp

    joined: list[str] = []
    for argument in arguments:
        option = joined[-1] if joined and joined[-1].startswith("-") and "=" not in joined[-1] else ""
        if option.strip("-") and option.lstrip("-") not in LabApp.flags and not argument.startswith("-"):
            joined[-1] = f"{option}={argument}"
        else:
            joined.append(argument)
    return joined


def main(arguments: Sequence[str] | None = None) -> int:
    """Open the lessons in JupyterLab, and return an exit code: 1 if the folder can't be prepared.

    Otherwise, JupyterLab replaces this process. On Windows, it is started as a new process, and its exit code
    is returned.
    """
    parser = argparse.ArgumentParser(prog="course lab", description=__doc__)
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        help="the lessons' folder (default: lessons, otherwise this folder or its parent)",
    )
    options, for_jupyter = parser.parse_known_args(
        with_values(sys.argv[1:] if arguments is None else arguments)
    )
    folder = options.folder or nearest_lessons()
    try:
        if not folder.exists():
            copy_lessons(folder)
            print(f"{folder}: copied the lessons to this new folder.", file=sys.stderr)
        write_page(folder)
    except (ProgressError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    jupyter = command(folder.resolve(), for_jupyter)
    # On Windows, execv doesn't quote spaces, and the shell doesn't wait for the new process.
    if sys.platform == "win32":
        return subprocess.call(jupyter)
    return os.execv(jupyter[0], jupyter)


if __name__ == "__main__":
    sys.exit(main())
