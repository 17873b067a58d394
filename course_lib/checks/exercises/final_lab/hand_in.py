"""Files that a student hands in beside a notebook: what a run said of itself, and what it translated.

In a student's notebook they are read from its folder. Where a submission is graded, the judge says what was
handed in (`handed_in`), so nothing that the student's code writes while it runs is looked at.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from course_lib.checks.engine.findings import Kind
from course_lib.checks.engine.misconceptions import Misconception
from course_lib.checks.exercises.final_lab.run_metrics import MetricsError, final_bleu, read_metrics
from course_lib.checks.exercises.final_lab.translation_score import TranslationsError, score_lines

#: What a file may have at most. The translations of WMT14's 3,003 test sentences have half a megabyte.
MOST_BYTES = 4 * 2**20

#: By corpus, the BLEU scores that count, each with the points for it.
Levels = Mapping[str, Sequence[Sequence[float]]]

_submitted: ContextVar[Mapping[str, bytes] | None] = ContextVar("submitted", default=None)


@dataclass(frozen=True)
class Handed:
    """What was found out about a file."""

    says: str
    """In a sentence or two, for the student."""
    share: float
    """Of the points, between 0 and 1."""
    kind: Kind = "wrong"
    """What it is where `share` is not 1: "wrong", "missing", or "error" where it could not be looked at."""
    look_at: str = ""
    """What a person should look at, in words."""


@dataclass(frozen=True)
class HandIn:
    """A file that is to be handed in."""

    name: str
    file: str
    """What it is called."""
    judge: Callable[[bytes, Levels], Handed]
    misconceptions: Sequence[Misconception] = ()
    """None: each entry of the checks' catalogue has such a list."""


@contextmanager
def handed_in(files: Mapping[str, bytes]) -> Iterator[None]:
    """Inside the `with`, look at these files and at no others: paths beside the notebook, and contents."""
    token = _submitted.set(files)
    try:
        yield
    finally:
        _submitted.reset(token)


def look(entry: HandIn, levels: Levels) -> Handed:
    """Find out about a file that was handed in, or was not."""
    content = _content(entry.file)
    return content if isinstance(content, Handed) else entry.judge(content, levels)


def _content(name: str) -> bytes | Handed:
    """Give what a file holds, or say why that cannot be looked at."""
    submitted = _submitted.get()
    if submitted is None:
        path = Path(name)
        if not path.is_file():
            return Handed(f"There is no file {name} beside this notebook yet.", 0.0, "missing")
        if path.stat().st_size > MOST_BYTES:
            return _too_large(name, path.stat().st_size)
        return path.read_bytes()
    if name not in submitted:
        return Handed(f"No file {name} was handed in beside the notebook.", 0.0, "missing")
    if len(submitted[name]) > MOST_BYTES:
        return _too_large(name, len(submitted[name]))
    return submitted[name]


def _too_large(name: str, size: int) -> Handed:
    return Handed(
        f"The file {name} has {size / 1e6:.1f} MB, and more than {MOST_BYTES / 1e6:.1f} MB is not read. "
        "It holds one short line for each sentence, or for each row: is it the right file?",
        0.0,
    )


def _judge_metrics(content: bytes, levels: Levels) -> Handed:
    try:
        return Handed(read_metrics(content).in_words, 1.0)
    except MetricsError as error:
        return Handed(f"In metrics.jsonl: {error}.", 0.0)


def _judge_translations(content: bytes, levels: Levels) -> Handed:
    try:
        corpus, score = score_lines(content, list(levels))
    except TranslationsError as error:
        return Handed(f"In translations.txt: {error}.", 0.0, error.kind, error.look_at)
    reached = [points for least, points in levels[corpus] if score.bleu >= least]
    most = max(points for _, points in levels[corpus])
    points = max(reached, default=0.0)
    further = [f"{least:g} for {more:g}" for least, more in levels[corpus] if more > points]
    more = f" There would be: BLEU {', '.join(further)}." if further else ""
    says = f"BLEU {score.bleu:.1f} on {corpus} ({score.signature}): {points:g} of {most:g} points.{more}"
    return Handed(says, points / most, look_at=_odd(score.bleu))


def _odd(bleu: float) -> str:
    """Say what is odd about a score: nobody translates exactly as somebody else did."""
    if bleu > 99.5:
        return f"translations.txt is the reference, word for word (BLEU {bleu:.1f}): did a model write it?"
    metrics = _content(METRICS.file)
    own = None if isinstance(metrics, Handed) else final_bleu(metrics)
    if own is not None and bleu > own + 10:
        return f"translations.txt has BLEU {bleu:.1f}, and its run says of itself {own:.1f} in metrics.jsonl"
    return ""


METRICS = HandIn("hand_in_metrics", "metrics.jsonl", _judge_metrics)
TRANSLATIONS = HandIn("hand_in_translations", "translations.txt", _judge_translations)
