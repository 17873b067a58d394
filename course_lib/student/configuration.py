"""Write the Jupyter configuration that students need to fetch, validate and hand in lessons.

An administrator runs this once for everyone (`--into /etc/jupyter`), or students run it in their own
accounts. Fetched lessons are stored in a folder with the course's name in the student's home. JupyterLab
opens a start page there, which shows the student's progress and is updated while they work.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from course_lib.atomic_files import atomic_write_text

#: The course's name in `autograder/nbgrader_config.py`.
COURSE_ID = "build-the-transformer"

#: The first line of each file. A later run overwrites a file only if it begins with this line.
_HEADER = "# Written by `course student-config`; run it again to change this file."

_NBGRADER = """\
{header}
c = get_config()
c.CourseDirectory.course_id = {course_id!r}
# The folder from which lessons are fetched and to which they are handed in.
c.Exchange.root = {exchange!r}
c.Exchange.path_includes_course = True
# The time limit of a cell during validation, in seconds. Importing torch can be slow on a busy machine.
c.Execute.timeout = 180
"""

_SERVER = """\
{header}
from pathlib import Path

from course_lib.student.progress.start_page import LABEXTENSIONS, SETTINGS, after_saving, first_page

c = get_config()
c.FileContentsManager.post_save_hook = after_saving
c.LabApp.app_settings_dir = str(SETTINGS)
c.LabApp.extra_labextensions_path = [str(LABEXTENSIONS)]
c.LabApp.default_url = first_page(Path.home(), {course_id!r})
"""


def write_configuration(into: Path, exchange: Path, course_id: str = COURSE_ID) -> list[Path]:
    """Write nbgrader's and Jupyter's configuration to the folder `into`, and return the paths of the files.

    The folder is created if necessary. `exchange` is the folder of nbgrader's exchange, and `course_id` is
    the name of the course. Raises ValueError, and writes nothing, if one of the files exists and wasn't
    written by this command.
    """
    texts = {
        into / name: text.format(header=_HEADER, course_id=course_id, exchange=str(exchange))
        for name, text in (("nbgrader_config.py", _NBGRADER), ("jupyter_server_config.py", _SERVER))
    }
    for path in texts:
        if path.exists() and not path.read_text(encoding="utf-8").startswith(_HEADER):
            raise ValueError(
                f"{path} exists and was not written by this command: move it away, or merge the settings "
                "by hand"
            )
    into.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        atomic_write_text(path, text)
        path.chmod(0o644)
    return list(texts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 on success, 1 after an error, which is printed."""
    parser = argparse.ArgumentParser(prog="course student-config", description=__doc__)
    parser.add_argument("exchange", type=Path, help="the exchange's folder, as instructors configure it")
    parser.add_argument("--course-id", default=COURSE_ID, help="the course's name (default: %(default)s)")
    parser.add_argument(
        "--into", type=Path, default=Path.home() / ".jupyter", help="the folder (default: ~/.jupyter)"
    )
    options = parser.parse_args(arguments)
    try:
        if not options.exchange.is_absolute():
            raise ValueError(f"{options.exchange} is a relative path; pass the exchange's absolute path")
        if options.course_id in ("", "..") or "/" in options.course_id:
            raise ValueError(f"--course-id: expected the name of a folder, got {options.course_id!r}")
        for path in write_configuration(options.into, options.exchange, options.course_id):
            print(f"wrote {path}")
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
