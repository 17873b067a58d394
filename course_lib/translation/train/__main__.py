"""The command that trains a translator, in a single process or under torchrun.

    python -m course_lib.translation.train CONFIG [section.key=value ...]
    torchrun --nproc-per-node=2 -m course_lib.translation.train CONFIG [section.key=value ...]

Run the same command again to resume a run that was stopped. With `--parts lessons/`, it trains with the
student's code from the lessons.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import get_args

from course_lib.errors import BadInputError, ExitCode
from course_lib.translation.configs.loader import describe_keys, load_config, provided_configs
from course_lib.translation.distributed import (
    DistributedInfo,
    LostPeerError,
    RankZeroError,
    RendezvousFailedError,
    end_process,
    process_group,
    rank_zero_first,
    wait_for_peers,
)
from course_lib.translation.train.experiment import Result, train
from course_lib.translation.train.interruption import Interrupted, Interruption
from course_lib.translation.train.student_code.parts import UnequalParts, UpdateFailedError

#: How long a rank that has lost a peer waits for its own signal. A cluster may signal the ranks at different
#: times.
_SECONDS_UNTIL_SIGNAL = 5.0
_SAMPLES = 3
_RESUME = "Run the same command again to resume from the latest checkpoint."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    0: success. 2: bad input, explained in one line. 69: the processes could not connect to each other. 75:
    stopped by SIGTERM or SIGUSR1; should be restarted. 130: interrupted from the keyboard. 1: another process
    has exited or is frozen, and this process received no signal.
    """
    options = parser().parse_intermixed_args(arguments)
    distributed: DistributedInfo | None = None
    with Interruption() as interruption:
        # An error must leave `process_group` as an exception, so that the group isn't destroyed.
        try:
            try:
                with process_group() as distributed:
                    _train(options, distributed, interruption)
            except LostPeerError:
                interruption.wait(_SECONDS_UNTIL_SIGNAL)
                raise
            except OSError as error:
                raise BadInputError.of(error) from error
        except BadInputError as error:
            if not isinstance(error, RankZeroError):
                rank = distributed.rank if distributed else 0
                _report(f"train{f', process {rank}' if rank else ''}: {error}")
            if distributed is not None and not isinstance(error, UpdateFailedError):
                wait_for_peers(distributed)
            failed = isinstance(error, RendezvousFailedError)
            return ExitCode.RENDEZVOUS_FAILED if failed else ExitCode.BAD_INPUT
        except Interrupted as stopped:
            if distributed is not None and distributed.is_rank_zero:
                _report(f"\nStopped by {stopped}. {_RESUME}")
            return stopped.exit_code
        except LostPeerError as lost:
            assert distributed is not None, "a single process has no peers"
            _report(f"train, process {distributed.rank}: {lost}, so this one stops. {_RESUME}")
            return ExitCode.FAILED
    return 0


def _train(options: argparse.Namespace, distributed: DistributedInfo, interruption: Interruption) -> None:
    config = rank_zero_first(distributed, lambda: load_config(options.config, options.overrides))
    result = train(config, distributed, interruption, options.parts, options.parts_unequal)
    if distributed.is_rank_zero:
        print(_summary(result))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        prog="course train",
        description="Train a translator between German and English. To resume a run, repeat its command.",
        epilog=f"keys [default]:\n{describe_keys()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "config",
        metavar="CONFIG",
        help=f"a YAML file, or the name of a provided config: {', '.join(provided_configs())}",
    )
    parser.add_argument(
        "overrides",
        metavar="section.key=value",
        nargs="*",
        default=[],  # Otherwise argparse lists it among the required arguments.
        help="values that replace those of the config",
    )
    parser.add_argument(
        "--parts",
        metavar="FOLDER",
        help="train with the parts that you wrote: the folder of the lessons, or the parts.json of a run",
    )
    parser.add_argument(
        "--parts-unequal",
        choices=get_args(UnequalParts),
        default="refuse",
        help="what to do if a part doesn't compute what the reference does: refuse to start (the default), "
        "or use the reference's part",
    )
    return parser


def _report(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _summary(result: Result) -> str:
    lines = []
    samples = list(zip(result.sources, result.translations, result.references, strict=True))[:_SAMPLES]
    for source, translation, reference in samples:
        lines += [f"  source:     {source}", f"  translated: {translation}", f"  reference:  {reference}", ""]
    lines += [
        f"BLEU {result.score.bleu:.1f} on {len(result.sources)} test sentences ({result.score.signature})",
        f"BLEU {result.tokenized_score.bleu:.1f} on Moses' tokens with compounds split, as in table 2 of the "
        "paper. It is usually higher. Compare published scores only with scores computed in the same way.",
        f"Translations: {result.folder.translations}",
        f"Metrics:      {result.folder.metrics}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    end_process(main())
