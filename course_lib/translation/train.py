"""The command that trains a translator, alone or under torchrun.

    python -m course_lib.translation.train CONFIG [section.key=value ...]
    torchrun --nproc-per-node=2 -m course_lib.translation.train CONFIG [section.key=value ...]

A run that was stopped goes on where it was: give the same command again. With `--parts lessons/` it trains
with the code that a student wrote in the lessons.
"""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence

from course_lib.errors import BadInputError
from course_lib.translation.configs.loader import describe_keys, load_config, provided_configs
from course_lib.translation.student_code.code import EndedAloneError
from course_lib.translation.student_code.parts import UNEQUAL, PartsChoice
from course_lib.translation.training.distributed import (
    FirstRefusedError,
    Place,
    end_process,
    end_together,
    first_then_rest,
    has_lost_another,
    process_group,
)
from course_lib.translation.training.experiment import Result, train
from course_lib.translation.training.interruption import Interrupted, Interruption

BAD_INPUT = 2
LOST_ANOTHER = 1
#: All are told to stop, though not at the same moment: whoever has lost another may be told right after.
_SECONDS_UNTIL_TOLD = 5.0
SAMPLES = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code.

    0 done; 2 bad input, and one line says what; 75 told to stop by SIGTERM or SIGUSR1, to be started again;
    130 stopped from the keyboard; 1 another process has gone, and nobody has told this one to stop.
    """
    given = _parser().parse_intermixed_args(arguments)
    place: Place | None = None
    with Interruption() as interruption:
        # Whoever ends early leaves the group by an exception: see `process_group`.
        try:
            with process_group() as place, _told_rather_than_lost(interruption):
                _train(given, place, interruption)
        except BadInputError as error:
            _refuse(error, place)
            return BAD_INPUT
        except Interrupted as stopped:
            if place is not None and place.is_first:
                print(
                    f"\nStopped by {stopped}. The same command goes on from the latest checkpoint.",
                    file=sys.stderr,
                    flush=True,
                )
            return stopped.exit_code
        except RuntimeError as error:
            if place is None or not has_lost_another(error):
                raise
            print(
                f"train, process {place.rank}: another process has gone, so this one ends. The same command "
                "goes on from the latest checkpoint.",
                file=sys.stderr,
                flush=True,
            )
            return LOST_ANOTHER
    return 0


def _train(given: argparse.Namespace, place: Place, interruption: Interruption) -> None:
    config = first_then_rest(place, lambda: load_config(given.config, given.overrides))
    choice = PartsChoice(given.parts, given.parts_unequal) if given.parts else None
    result = train(config, place, interruption, choice)
    if place.is_first:
        print(_summary(result))


@contextlib.contextmanager
def _told_rather_than_lost(interruption: Interruption) -> Iterator[None]:
    """Raise Interrupted for the loss of another process, where this one is told to stop as well."""
    try:
        yield
    except RuntimeError as error:
        if has_lost_another(error):
            interruption.expect(_SECONDS_UNTIL_TOLD)
        raise


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="course train",
        description="Train a German-English translator. A run that was stopped goes on where it was.",
        epilog=f"keys [default]:\n{describe_keys()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "config",
        metavar="CONFIG",
        help=f"a YAML file, or the name of a provided config: {', '.join(provided_configs())}",
    )
    parser.add_argument(
        "overrides", metavar="section.key=value", nargs="*", help="values that replace those of the config"
    )
    parser.add_argument(
        "--parts",
        metavar="FOLDER",
        help="train with the parts that you wrote: the folder that holds the lessons, or the parts.json that "
        "a run has kept",
    )
    parser.add_argument(
        "--parts-unequal",
        choices=UNEQUAL,
        default=UNEQUAL[0],
        help="where a part does not compute what the reference does: refuse the run (the default), or take "
        "the reference's in its place",
    )
    return parser


def _refuse(error: BadInputError, place: Place | None) -> None:
    if not isinstance(error, FirstRefusedError):
        speaker = "train" if place is None or place.is_first else f"train, process {place.rank}"
        print(f"{speaker}: {error}", file=sys.stderr, flush=True)
    if place is not None and not isinstance(error, EndedAloneError):
        end_together(place)


def _summary(result: Result) -> str:
    lines = []
    for source, translation, reference in list(
        zip(result.sources, result.translations, result.references, strict=True)
    )[:SAMPLES]:
        lines += [f"  German:     {source}", f"  translated: {translation}", f"  reference:  {reference}", ""]
    lines += [
        f"BLEU {result.score.bleu:.1f} on {len(result.sources)} test sentences ({result.score.signature})",
        f"Translations: {result.folder.translations}",
        f"Metrics:      {result.folder.metrics}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    end_process(main())
