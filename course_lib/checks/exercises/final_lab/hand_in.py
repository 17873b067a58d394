"""Files that a student hands in with a notebook: a run's configuration, its metrics, and its translations.

When a student runs the notebook, the files are read from the notebook's folder. During grading, `handed_in`
supplies the submitted files, so that files written by the student's code while it runs are ignored.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from course_lib.checks.engine.findings import VerdictName
from course_lib.checks.engine.misconceptions import Misconception
from course_lib.checks.exercises.final_lab.run_files import (
    FileError,
    final_bleu,
    read_config,
    read_metrics,
    repeated_config,
)
from course_lib.checks.exercises.final_lab.translation_score import score_lines, share_of_provided

#: The maximum size of a file. The translations of WMT14's 3,003 test sentences take half a megabyte.
MAX_BYTES = 4 * 2**20

#: A translations file is suspicious if at least this share of its lines matches the provided model's output.
SUSPICIOUS_SHARE = 0.7

#: The BLEU thresholds of each corpus, with the points for each.
Levels = Mapping[str, Sequence[Sequence[float]]]

_submitted: ContextVar[Mapping[str, bytes] | None] = ContextVar("submitted", default=None)


@dataclass(frozen=True)
class FileVerdict:
    """The result of judging one submitted file."""

    message: str
    """A sentence or two for the student."""
    share: float
    """The share of the points, between 0 and 1."""
    verdict: VerdictName = "wrong"
    """The verdict if `share` is below 1: "missing", "error" if the file could not be scored, or "wrong"."""
    review: str = ""
    """A description of what a person should review; empty if there is nothing."""


@dataclass(frozen=True)
class FileCheck:
    """The check of a file that students hand in."""

    name: str
    file: str
    """The name of the file."""
    judge: Callable[[bytes, Levels], FileVerdict]
    misconceptions: Sequence[Misconception] = ()
    """Always empty. The attribute exists because all other checks have it, too."""


@contextmanager
def handed_in(files: Mapping[str, bytes]) -> Iterator[None]:
    """Judge only these files inside the `with` block, regardless of what the notebook's folder contains.

    `files` maps each path, relative to the notebook, to the content of the file.
    """
    token = _submitted.set(files)
    try:
        yield
    finally:
        _submitted.reset(token)


def judge_file(entry: FileCheck, levels: Levels) -> FileVerdict:
    """Judge a file and return the result, which also reports a missing, oversized or invalid file."""
    content = _content(entry.file)
    if isinstance(content, FileVerdict):
        return content
    try:
        return entry.judge(content, levels)
    except FileError as error:
        return FileVerdict(f"In {entry.file}: {error}.", 0.0, error.verdict, error.review)


def _content(name: str) -> bytes | FileVerdict:
    """Return the content of a file, or a verdict that reports that it is missing or too large."""
    submitted = _submitted.get()
    if submitted is None:
        path = Path(name)
        if not path.is_file():
            return FileVerdict(f"There is no file {name} next to this notebook yet.", 0.0, "missing")
        size = path.stat().st_size
    else:
        if name not in submitted:
            return FileVerdict(f"No file {name} was handed in with the notebook.", 0.0, "missing")
        size = len(submitted[name])
    if size > MAX_BYTES:
        return FileVerdict(
            f"The file {name} is {size / 1e6:.1f} MB, but the limit is {MAX_BYTES / 1e6:.1f} MB. "
            "It should have one short line for each sentence or row. Is it the right file?",
            0.0,
        )
    return path.read_bytes() if submitted is None else submitted[name]


def _judge_config(content: bytes, levels: Levels) -> FileVerdict:
    if (repeated := repeated_config(content)) is not None:
        return FileVerdict(
            "The model, data and training settings in config.yaml match the provided configuration "
            f"{repeated}. A run earns points only if you changed something that affects what the model "
            "learns. A different seed or folder doesn't count, nor do logging or evaluation settings.",
            0.0,
        )
    return FileVerdict("The settings differ from all provided configurations", 1.0)


def _judge_metrics(content: bytes, levels: Levels) -> FileVerdict:
    config = judge_file(CONFIG, {})
    if config.share == 0:
        return config
    _, summary = read_metrics(content)
    return FileVerdict(summary, 1.0)


def _judge_translations(content: bytes, levels: Levels) -> FileVerdict:
    config = judge_file(CONFIG, {})
    if config.share == 0:
        return config
    run = _content(CONFIG.file)
    assert isinstance(run, bytes), "the configuration has just been judged"
    direction = read_config(run).data.direction
    corpus, score = score_lines(content, list(levels), direction)
    reached = [points for least, points in levels[corpus] if score.bleu >= least]
    max_points = max(points for _, points in levels[corpus])
    points = max(reached, default=0.0)
    further = [f"{least:g} for {more:g}" for least, more in levels[corpus] if more > points]
    more = f" For more points you need BLEU {', '.join(further)}." if further else ""
    into = " into German" if direction == "en-de" else ""
    earned = f"{points:g} of {max_points:g} points"
    message = f"BLEU {score.bleu:.1f} on {corpus}{into} ({score.signature}): {earned}.{more}"
    return FileVerdict(message, points / max_points, review=_odd(content, score.bleu))


def _odd(content: bytes, bleu: float) -> str:
    """Return a sentence that explains why these translations are suspicious, or an empty string."""
    if (share := share_of_provided(content)) >= SUSPICIOUS_SHARE:
        return f"{share:.0%} of translations.txt matches the output of the model that comes with the course"
    if bleu > 99.5:
        return f"translations.txt is the reference, word for word (BLEU {bleu:.1f}): did a model write it?"
    metrics = _content(METRICS.file)
    own = None if isinstance(metrics, FileVerdict) else final_bleu(metrics)
    if own is not None and bleu > own + 10:
        return f"translations.txt has BLEU {bleu:.1f}, but metrics.jsonl reports {own:.1f}"
    return ""


CONFIG = FileCheck("hand_in_config", "config.yaml", _judge_config)
METRICS = FileCheck("hand_in_metrics", "metrics.jsonl", _judge_metrics)
TRANSLATIONS = FileCheck("hand_in_translations", "translations.txt", _judge_translations)
