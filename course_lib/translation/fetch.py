"""The command that downloads a published corpus into a mirror folder, for machines without internet access.

    python -m course_lib.translation.fetch wmt14 data
    COURSE_DATA=data sbatch ...

To resume an interrupted download, run the same command again.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from course_lib.errors import BadInputError, ExitCode
from course_lib.translation.data.corpora import PUBLISHED


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return its exit code: 0 on success, 2 on bad input, 130 if interrupted."""
    parser = argparse.ArgumentParser(
        prog="course fetch",
        description="Download a published corpus into FOLDER/CORPUS. Existing files are only checked.",
    )
    parser.add_argument("corpus", metavar="CORPUS", choices=PUBLISHED, help=", ".join(PUBLISHED))
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the mirror folder, for COURSE_DATA")
    parser.add_argument("--url", help="the address to download from (default: each file's publisher)")
    options = parser.parse_args(arguments)
    try:
        paths = PUBLISHED[options.corpus].fetch(options.folder, options.url)
    except BadInputError as error:
        print(f"fetch: {error}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to resume.", file=sys.stderr)
        return ExitCode.KEYBOARD
    for path in paths.values():
        print(path)
    print(f"Complete. On machines without internet access, set COURSE_DATA={options.folder.resolve()}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
