"""Open JupyterLab on the lessons: `python -m course_lib.student.progress.lab [FOLDER] [OPTIONS]`.

It shows the start page first, keeps it up to date, asks for no news from the internet, and shows Markdown
files as text to read.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from course_lib.student.progress.notebooks import ProgressError
from course_lib.student.progress.page import PAGE, after_saving, write_page

_SETTINGS = Path(__file__).parent / "jupyterlab"


def command(folder: Path, options: Sequence[str] = ()) -> list[str]:
    """Give the command that starts JupyterLab; what stands in a user's own configuration holds as well."""
    return [
        *(sys.executable, "-m", "jupyterlab"),
        f"--notebook-dir={folder}",
        f"--LabApp.app_settings_dir={_SETTINGS}",
        f"--LabApp.default_url=/lab/tree/{PAGE}",
        f"--FileContentsManager.post_save_hook={after_saving.__module__}.{after_saving.__name__}",
        *options,
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line. JupyterLab takes this process's place."""
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.student.progress.lab", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("folder", type=Path, nargs="?", default=Path("lessons"), help="default: lessons")
    options, for_jupyter = parser.parse_known_args(arguments)
    try:
        write_page(options.folder)
    except (ProgressError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    started = command(options.folder.resolve(), for_jupyter)
    if sys.platform == "win32":  # Its execv quotes no spaces, and hands the terminal back at once.
        return subprocess.call(started)
    return os.execv(started[0], started)


if __name__ == "__main__":
    sys.exit(main())
