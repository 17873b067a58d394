"""The command that prepares the data for a config before training, so that GPUs don't wait for it.

    python -m course_lib.translation.train.prepare_data wmt14-base prepared/wmt14
    sbatch train.sbatch wmt14-base data.prepared=prepared/wmt14

It needs no GPU. Several runs with the same data settings can share the folder.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from course_lib.errors import BadInputError, ExitCode
from course_lib.file_locks import try_lock
from course_lib.translation.configs.loader import load_config, provided_configs
from course_lib.translation.data.preparation import prepare, refuse_other_data
from course_lib.translation.data.prepared import VOCABULARY
from course_lib.translation.train.setup import load_starting_run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return its exit code: 0 on success, 2 on bad input, 130 if interrupted."""
    parser = argparse.ArgumentParser(
        prog="course prepare",
        description="Learn the vocabulary of a config and write its corpus as token ids into FOLDER. Train "
        "with data.prepared=FOLDER.",
    )
    parser.add_argument(
        "config", metavar="CONFIG", help=f"a YAML file, or one of {', '.join(provided_configs())}"
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the folder to write")
    parser.add_argument(
        "overrides",
        metavar="section.key=value",
        nargs="*",
        default=[],  # Otherwise argparse lists it among the required arguments.
        help="values that replace those of the config",
    )
    options = parser.parse_intermixed_args(arguments)
    try:
        config = load_config(options.config, options.overrides)
        start = load_starting_run(config)
        with _locked(options.folder):
            refuse_other_data(config.data, options.folder)
            data = prepare(
                config.data,
                options.folder,
                options.folder / VOCABULARY,
                learn=True,
                reused=start.vocabulary if start else None,
            )
    except OSError as error:
        print(f"prepare: {BadInputError.of(error)}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    except BadInputError as error:
        print(f"prepare: {error}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again.", file=sys.stderr)
        return ExitCode.KEYBOARD
    for note in data.notes:
        print(f"Data: {note}.")
    print(f"Prepared {len(data.train):,} training pairs. Train with data.prepared={options.folder}.")
    return 0


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create and lock the folder, and remove incomplete files that a killed process has left in it.

    Raises BadInputError if another process prepares data in it, and OSError if it can't be used.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        if hasattr(os, "O_DIRECTORY"):  # Windows can't open folders.
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, descriptor)
            if not try_lock(descriptor):
                raise BadInputError(
                    f"{folder}: another process is preparing data in this folder. Wait until it has "
                    "finished, or choose another folder."
                )
        for path in folder.glob(".*.tmp"):
            path.unlink(missing_ok=True)
        try:
            yield
        except BaseException:
            if is_new and not any(folder.iterdir()):
                folder.rmdir()
            raise


if __name__ == "__main__":
    sys.exit(main())
