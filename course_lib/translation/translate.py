"""The command that translates text with a trained run, one sentence per line.

    python -m course_lib.translation.translate RUN [FILE] [--beam 5] [--n-best 3] ...

Without FILE, it reads standard input: line by line from a keyboard, and in batches from a pipe.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from course_lib.atomic_files import atomic_write
from course_lib.errors import BadInputError, ExitCode
from course_lib.translation.checkpoints.provided import find_run, provided_models
from course_lib.translation.checkpoints.run_folder import MODEL_KINDS, RunFolder
from course_lib.translation.configs.schema import MAX_BEAM, Direction
from course_lib.translation.data.prepared import validation_split
from course_lib.translation.decoding.search_settings import save_settings
from course_lib.translation.decoding.translator import DecodingPrecision, Translator, load_translator
from course_lib.translation.distributed import SINGLE_PROCESS
from course_lib.translation.train.evaluation import Evaluator
from course_lib.translation.train.progress_bar import reading_bar

#: The direction for each target language, and the source language of each direction.
_DIRECTIONS: dict[str, Direction] = {"english": "de-en", "german": "en-de"}
_SOURCE = {"de-en": "German", "en-de": "English"}
#: The maximum number of bytes per read, about 900 captions. Larger reads don't make translation faster.
READ_BYTES = 1 << 16


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    0: success. 1: the reader of the output closed the pipe. 2: bad input. 130: interrupted with Ctrl-C.
    """
    options = _parser().parse_intermixed_args(arguments)
    # If stderr was closed, `print(file=None)` would write messages between the translations.
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it stays open
    try:
        _run(options)
    except BadInputError as error:
        print(f"translate: {error}", file=sys.stderr, flush=True)
        return ExitCode.BAD_INPUT
    except BrokenPipeError:
        _discard_output()  # The reader of the translations has closed the pipe.
        return 1
    except OSError as error:
        print(f"translate: {BadInputError.of(error)}", file=sys.stderr, flush=True)
        return ExitCode.BAD_INPUT
    except KeyboardInterrupt:
        return ExitCode.KEYBOARD
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="course translate", description="Translate text with a trained run, one sentence per line."
    )
    parser.add_argument(
        "run",
        metavar="RUN",
        help=f"the folder of a trained run, or a model that comes with the course: "
        f"{', '.join(provided_models())}",
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="the text to translate; default: standard input"
    )
    parser.add_argument(
        "--to",
        choices=_DIRECTIONS,
        help="the language to translate into, for a model trained in both directions",
    )
    parser.add_argument(
        "--beam", type=int, help=f"hypotheses kept at every step, from 1 (greedy) to {MAX_BEAM}"
    )
    parser.add_argument("--alpha", type=float, help="exponent of the length penalty")
    parser.add_argument(
        "--n-best",
        type=int,
        metavar="N",
        help="print the N best translations of each line, as rows of line number, score, log-probability and "
        "text, separated by tabs",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="WHICH",
        help=f"{', '.join(MODEL_KINDS)}, or the file of a model; default: the one named in the run's config",
    )
    parser.add_argument(
        "--with",
        dest="ensemble_with",
        action="append",
        default=[],
        metavar="RUN_FOLDER",
        help="another run with the same vocabulary, whose model decodes together with the first; may be "
        "given several times",
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument(
        "--precision",
        choices=get_args(DecodingPrecision),
        help="precision of decoding; bfloat16 is faster on processors with AMX and may change translations; "
        "default: depends on the run's config, the device and the size of the model",
    )
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write the translations to this file, once all are done"
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help="tune the length penalty for BLEU on the validation split and, without --with, save it in the "
        "run's folder; without FILE, do nothing else",
    )
    return parser


def _run(options: argparse.Namespace) -> None:
    translator = load_translator(
        options.run,
        options.checkpoint,
        options.device,
        options.ensemble_with,
        _DIRECTIONS[options.to] if options.to else None,
        options.precision,
    )
    default = translator.settings
    try:
        translator.settings = default.override(options.beam, options.alpha, options.n_best)
    except ValueError as error:
        raise BadInputError(f"{error}.") from None
    if options.tune:
        folder, is_provided = find_run(options.run)
        if is_provided:
            raise BadInputError(
                "--tune: the length penalty of a provided model is already tuned. Leave out --tune."
            )
        _tune(translator, folder)
        if not options.ensemble_with:
            # Don't save an ensemble's length penalty, which isn't the best one for its first run alone.
            with _write_errors_reported(folder.search):
                save_settings(folder.search, replace(default, alpha=translator.settings.alpha))
        if options.file is None:
            return
    if options.output is None and sys.stdout is None:
        raise BadInputError("standard output is closed. Name a file with --output.")
    _translate(translator, options)


def _translate(translator: Translator, options: argparse.Namespace) -> None:
    """Translate the input line by line, and write the translations."""
    on_screen = options.output is None and sys.stdout.isatty()
    with (
        _opened(options.file, translator.direction) as descriptor,
        _writer(options.output) as write,
        reading_bar(descriptor, quiet=on_screen) as advance,
    ):
        done = 0
        for lines in arriving_lines(descriptor, options.file or "standard input"):
            for index, length in translator.too_long(lines).items():
                print(
                    f"translate: line {done + index + 1} has {length} tokens, and only the first "
                    f"{translator.config.data.max_length} are translated",
                    file=sys.stderr,
                )
            for index in translator.mostly_unknown(lines):
                print(
                    f"translate: line {done + index + 1} consists mostly of characters that the model "
                    "doesn't know, so its translation is meaningless",
                    file=sys.stderr,
                )
            write(_rows(translator, lines, done, options.n_best))
            done += len(lines)
            advance()


def arriving_lines(descriptor: int, origin: str) -> Iterator[list[str]]:
    """Read UTF-8 lines until the end of the input. Yield lists of the lines that are available together.

    Each list contains at least one line, and the reader never waits for more: a user at a keyboard gets an
    answer after each line, and a slow caller gets many lines of a pipe in one list. Only a line feed ends
    a line, and surrounding whitespace is removed. If a line isn't valid UTF-8, BadInputError is raised after
    the lines before it have been yielded. The message names `origin` and the line. BadInputError is also
    raised if the input cannot be read.
    """
    number, rest = 1, b""
    while True:
        try:
            content = os.read(descriptor, READ_BYTES)
        except OSError as error:
            raise BadInputError(f"{origin}: this file cannot be read ({error.strerror}).") from None
        *complete, rest = (rest + content).split(b"\n")
        if not content and rest:
            complete, rest = [*complete, rest], b""
        lines: list[str] = []
        for line in complete:
            try:
                # Some editors begin a file with a byte order mark.
                lines.append(line.decode("utf-8-sig" if number == 1 else "utf-8").strip())
            except UnicodeDecodeError:
                if lines:
                    yield lines
                raise BadInputError(
                    f"{origin}, line {number}: not valid UTF-8. Convert the text to UTF-8."
                ) from None
            number += 1
        if lines:
            yield lines
        if not content:
            return


def _tune(translator: Translator, folder: RunFolder) -> None:
    if translator.settings.beam == 1:
        raise BadInputError(
            "--tune: expected a beam of 2 or more, because one hypothesis leaves nothing to choose."
        )
    if translator.direction != translator.config.data.direction:
        raise BadInputError(
            f"--tune: the validation split of this run is prepared for {translator.config.data.direction}. "
            "Leave out --to."
        )
    source_ids, references = validation_split(
        translator.config.data, folder.data, folder.vocabulary, translator.vocabulary
    )
    evaluator = Evaluator(translator.config, translator.vocabulary, SINGLE_PROCESS, translator.device)
    tuned = evaluator.tune(translator.model, source_ids, references, translator.settings.beam)
    for alpha, bleu in tuned.bleu.items():
        chosen = "  <- chosen" if alpha == tuned.alpha else ""
        print(f"alpha {alpha:.1f}  validation BLEU {bleu:.2f}{chosen}", file=sys.stderr)
    translator.settings = replace(translator.settings, alpha=tuned.alpha)


def _discard_output() -> None:
    """Redirect standard output to the null device. Otherwise Python would try to write the rest on exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _rows(translator: Translator, lines: list[str], done: int, n_best: int | None) -> list[str]:
    if n_best is None:
        return [_one_line(text) for text in translator.translate(lines)]
    return [
        f"{number}\t{each.score:.4f}\t{each.log_probability:.4f}\t{_one_line(each.text)}"
        for number, found in enumerate(translator.n_best(lines, n_best), start=done + 1)
        for each in found
    ]


def _one_line(text: str) -> str:
    # A line feed inside a translation would shift all sentences after it, and a tab would shift columns.
    return text.replace("\n", " ").replace("\t", " ")


@contextlib.contextmanager
def _opened(file: str | None, direction: Direction) -> Iterator[int]:
    if file is None:
        if sys.stdin is None:
            raise BadInputError("standard input is closed. Pass the file to translate.")
        if sys.stdin.isatty():
            print(
                f"Type {_SOURCE[direction]}, one sentence per line. Press Ctrl-D to finish.", file=sys.stderr
            )
        yield sys.stdin.fileno()
        return
    with open(file, "rb") as opened:
        yield opened.fileno()


@contextlib.contextmanager
def _writer(output: Path | None) -> Iterator[Callable[[list[str]], None]]:
    if output is None:

        def show(rows: list[str]) -> None:
            try:
                sys.stdout.writelines(f"{row}\n" for row in rows)
                sys.stdout.flush()
            except BrokenPipeError:
                raise
            except OSError as error:
                _discard_output()
                raise BadInputError(f"standard output cannot be written ({error.strerror}).") from None

        yield show
        return
    if output.is_dir():
        raise BadInputError(f"--output {output}: this is a folder. Name a file.")
    output = output.resolve()  # Replace the target of a link rather than the link.
    # A special file, such as /dev/null, must not be replaced.
    is_special = output.exists() and not output.is_file()
    with (
        _write_errors_reported(output),
        output.open("wb") if is_special else atomic_write(output) as file,
    ):
        yield lambda rows: file.writelines(f"{row}\n".encode() for row in rows)


@contextlib.contextmanager
def _write_errors_reported(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInputError(f"{path}: this file cannot be written ({error.strerror}).") from None


if __name__ == "__main__":
    sys.exit(main())
