"""The command that fetches a published corpus into a mirror folder, for machines that have no internet.

    python -m course_lib.translation.fetch wmt14 data
    COURSE_DATA=data sbatch ...

One that was stopped goes on where it was: give the same command again.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from course_lib.errors import BadInputError
from course_lib.translation.data.corpora import PUBLISHED

BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code: 0 done, 2 no success (one line says why), 130 interrupted."""
    parser = argparse.ArgumentParser(
        prog="course fetch",
        description="Fetch a published corpus into FOLDER/CORPUS. What is there already is only checked.",
    )
    parser.add_argument("corpus", metavar="CORPUS", choices=PUBLISHED, help=", ".join(PUBLISHED))
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="what COURSE_DATA is to name")
    parser.add_argument("--url", help="the folder to download from, if not each file's own home")
    given = parser.parse_args(arguments)
    try:
        paths = PUBLISHED[given.corpus].fetch(given.folder, given.url)
    except BadInputError as error:
        print(f"fetch: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on from there.", file=sys.stderr)
        return INTERRUPTED
    for path in paths.values():
        print(path)
    print(f"All there. Set COURSE_DATA={given.folder.resolve()} where there is no internet.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
