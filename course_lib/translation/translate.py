"""The command that translates: one German sentence a line in, one English sentence a line out.

    python -m course_lib.translation.translate RUN_FOLDER [FILE] [--beam 5] [--n-best 3] ...

Without FILE it reads standard input: from a keyboard it answers line by line, from a pipe in batches.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from course_lib.atomic_files import atomic_write
from course_lib.errors import BadInputError
from course_lib.translation.data.prepared import open_prepared
from course_lib.translation.decoding import SearchSettings
from course_lib.translation.decoding.attention_file import SUFFIXES, write_attention
from course_lib.translation.decoding.line_stream import arriving_lines
from course_lib.translation.decoding.saved_settings import write_search
from course_lib.translation.decoding.translator import AttentionMaps, Translator, load_translator
from course_lib.translation.training.checkpoints.trained_run import USES
from course_lib.translation.training.distributed import Place
from course_lib.translation.training.evaluation import Evaluator
from course_lib.translation.training.progress_bar import reading_bar
from course_lib.translation.training.run_folder import RunFolder

BAD_INPUT = 2
INTERRUPTED = 130
#: Pictures are for a few sentences; the weights of a corpus would fill the memory.
MOST_PICTURED = 200

ALONE = Place(rank=0, world_size=1, local_rank=0, local_world_size=1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code: 0 done, 2 bad input (one line says what), 130 interrupted."""
    given = _parser().parse_intermixed_args(arguments)
    try:
        _run(given)
    except BadInputError as error:
        print(f"translate: {error}", file=sys.stderr, flush=True)
        return BAD_INPUT
    except BrokenPipeError:
        # Whoever read the translations has seen enough. Python would complain when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="course translate",
        description="Translate German into English with a trained run, one sentence a line.",
    )
    parser.add_argument("run_folder", metavar="RUN_FOLDER", help="the folder that training has written")
    parser.add_argument("file", metavar="FILE", nargs="?", help="what to translate; else standard input")
    parser.add_argument("--beam", type=int, help="beginnings kept at every step; 1 is greedy")
    parser.add_argument("--alpha", type=float, help="exponent of the length penalty")
    parser.add_argument(
        "--n-best",
        type=int,
        metavar="N",
        help="the N best translations of each line, as rows of line number, score, log-probability and "
        "text, with tabs between",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="WHICH",
        help=f"{', '.join(USES)}, or a model's file; without it, what the run's config says",
    )
    parser.add_argument(
        "--with",
        dest="together_with",
        action="append",
        default=[],
        metavar="RUN_FOLDER",
        help="another run of the same vocabulary, to decide on each word together with the first; may be "
        "given several times",
    )
    parser.add_argument(
        "--attention",
        metavar="FILE",
        type=Path,
        help="write the attention weights of all layers and heads of the first run there, as "
        f"{' or '.join(SUFFIXES)}",
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        help="write there, once all is translated, and not on the screen",
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help="choose the length penalty anew, by BLEU on the validation split, and keep it with the run, "
        "unless there are others; without FILE, do only that",
    )
    return parser


def _run(given: argparse.Namespace) -> None:
    if given.attention is not None and given.attention.suffix not in SUFFIXES:
        raise BadInputError(f"--attention: expected a name that ends on {' or '.join(SUFFIXES)}")
    translator = load_translator(given.run_folder, given.checkpoint, given.device, given.together_with)
    translator.settings = _settings(translator.settings, given)
    if given.tune:
        folder = RunFolder(Path(given.run_folder))
        _tune(translator, folder)
        if not given.together_with:
            # What suits several models together is not the one run's own.
            _keep(folder.search, lambda: write_search(folder.search, translator.settings))
        if given.file is None:
            return
    maps: list[AttentionMaps] = []
    on_screen = given.output is None and sys.stdout.isatty()
    with (
        _opened(given.file) as descriptor,
        _writer(given.output) as write,
        reading_bar(descriptor, quiet=on_screen) as advance,
    ):
        done = 0
        for lines in arriving_lines(descriptor, given.file or "standard input"):
            for place, length in translator.too_long(lines).items():
                print(
                    f"translate: line {done + place + 1} has {length} tokens, and the model reads "
                    f"{translator.config.data.max_length}: the rest of it is not translated",
                    file=sys.stderr,
                )
            write(_rows(translator, lines, done, given.n_best))
            done += len(lines)
            advance()
            if given.attention is not None:
                if done > MOST_PICTURED:
                    raise BadInputError(f"--attention: expected at most {MOST_PICTURED} lines, came more")
                maps += [translator.attention(line) for line in lines]
        if given.attention is not None:
            _keep(given.attention, lambda: write_attention(given.attention, maps))


def _settings(usual: SearchSettings, given: argparse.Namespace) -> SearchSettings:
    """Put in what the command line says. Raises BadInputError where that cannot be."""
    beam = given.beam if given.beam is not None else max(usual.beam, given.n_best or 1)
    alpha = given.alpha if given.alpha is not None else usual.alpha
    try:
        SearchSettings(beam, alpha, 1 if given.n_best is None else given.n_best)
    except ValueError as error:
        raise BadInputError(str(error)) from None
    return replace(usual, beam=beam, alpha=alpha)


def _tune(translator: Translator, folder: RunFolder) -> None:
    if translator.settings.beam == 1:
        raise BadInputError("--tune: expected a beam of 2 or more, since one translation leaves no choice")
    validation = open_prepared(folder.data, folder.vocabulary).validation
    evaluator = Evaluator(translator.config, translator.vocabularies, ALONE, translator.device)
    tuned = evaluator.tune(
        translator.model,
        [source for source, _ in validation.pairs],
        validation.text.english,
        translator.settings.beam,
    )
    for alpha, bleu in tuned.bleu.items():
        chosen = "  <- chosen" if alpha == tuned.alpha else ""
        print(f"alpha {alpha:.1f}  validation BLEU {bleu:.2f}{chosen}", file=sys.stderr)
    translator.settings = replace(translator.settings, alpha=tuned.alpha)


def _rows(translator: Translator, lines: list[str], done: int, n_best: int | None) -> list[str]:
    if n_best is None:
        return [_one_line(text) for text in translator.translate(lines)]
    return [
        f"{number}\t{each.score:.4f}\t{each.log_probability:.4f}\t{_one_line(each.text)}"
        for number, found in enumerate(translator.translate(lines, n_best=n_best), start=done + 1)
        for each in found
    ]


def _one_line(text: str) -> str:
    # A line feed inside a translation would shift all sentences after it, and a tab the columns.
    return text.replace("\n", " ").replace("\t", " ")


@contextlib.contextmanager
def _opened(file: str | None) -> Iterator[int]:
    if file is None:
        if sys.stdin.isatty():
            print("German, one sentence a line; Ctrl-D ends.", file=sys.stderr)
        yield sys.stdin.fileno()
        return
    with contextlib.ExitStack() as stack:
        try:
            opened = stack.enter_context(Path(file).open("rb"))
        except OSError as error:
            raise BadInputError(
                f"{file}: expected sentences, one a line, but it cannot be read ({error.strerror})"
            ) from None
        yield opened.fileno()


@contextlib.contextmanager
def _writer(output: Path | None) -> Iterator[Callable[[list[str]], None]]:
    if output is None:

        def show(rows: list[str]) -> None:
            sys.stdout.write("".join(f"{row}\n" for row in rows))
            sys.stdout.flush()

        yield show
        return
    try:
        with atomic_write(output) as file:

            def collect(rows: list[str]) -> None:
                file.write("".join(f"{row}\n" for row in rows).encode())

            yield collect
    except OSError as error:
        raise BadInputError(f"{output}: the translations cannot be kept there ({error.strerror})") from None


def _keep(path: Path, write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as error:
        raise BadInputError(f"{path}: it cannot be written there ({error.strerror})") from None


if __name__ == "__main__":
    sys.exit(main())
