"""Validate a `metrics.jsonl`: well-formed rows, steps in order, a falling loss and a test score."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: The minimum number of rows with a training loss.
LEAST_ROWS = 8


#: The maximum of each validated number in a row; the minimum is 0. Version 0.1.0 wrote "rate" for "lr".
_MOST = {"loss": 1e6, "validation_loss": 1e6, "lr": 1e6, "rate": 1e6, "tokens_per_second": 1e12}
_MOST |= {"padded": 1.0, "bleu": 100.1, "test_bleu": 100.1}


class MetricsError(ValueError):
    """An error for invalid metrics. The message says what was expected and, if it is known, in which line."""


@dataclass(frozen=True)
class Metrics:
    """The training losses, the last step and the test score of a finished run."""

    losses: Sequence[float]
    last_step: int
    test_bleu: float

    @property
    def in_words(self) -> str:
        """A summary of the metrics for the student."""
        return (
            f"After {self.last_step:,} updates, the loss has fallen from {self.losses[0]:.2f} to "
            f"{self.losses[-1]:.2f}, and the test score is {self.test_bleu:.1f}"
        )


def read_metrics(content: bytes) -> Metrics:
    """Read and validate a run's metrics.

    Raises MetricsError if the content isn't UTF-8, if a row is invalid, if there are too few losses, if the
    loss doesn't fall, or if the run hasn't finished.
    """
    rows = _rows(content)
    step = 0
    for number, row in enumerate(rows, start=1):
        here = row.get("step")
        if not isinstance(here, int) or isinstance(here, bool) or not 0 <= here <= 1e12:
            raise MetricsError(f'line {number}: expected an integer "step", found {_shown(here)}')
        if here < step:
            raise MetricsError(f"line {number}: expected rising steps, but {here} follows {step}")
        step = here
        _check_numbers(number, row)
    losses = [float(row["loss"]) for row in rows if "loss" in row]
    if len(losses) < LEAST_ROWS:
        raise MetricsError(
            f"expected at least {LEAST_ROWS} rows with a loss, found {len(losses)}. Train longer, or "
            "write rows more often: training.log_every"
        )
    fifth = max(1, len(losses) // 5)
    first, last = sum(losses[:fifth]) / fifth, sum(losses[-fifth:]) / fifth
    if last >= first:
        raise MetricsError(f"expected a falling loss, but it goes from {first:.2f} to {last:.2f}")
    scores = [row["test_bleu"] for row in rows if "test_bleu" in row]
    if not scores:
        raise MetricsError(
            "expected a last row with the test score, but there is none: the run has not finished. "
            "Start it again with the same command to resume it"
        )
    return Metrics(losses, step, float(scores[-1]))


def final_bleu(content: bytes) -> float | None:
    """Return the test score that a run reports in its metrics, or None if they are invalid."""
    try:
        return read_metrics(content).test_bleu
    except MetricsError:
        return None


def _rows(content: bytes) -> list[dict[str, Any]]:
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise MetricsError(f"expected UTF-8, but byte {error.start} is invalid") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise MetricsError(f"line {number}: expected one JSON object, found {_shown(line)}") from None
        if not isinstance(row, dict):
            raise MetricsError(f"line {number}: expected one JSON object, found {_shown(row)}")
        rows.append(row)
    return rows


def _check_numbers(number: int, row: dict[str, Any]) -> None:
    """Raise MetricsError for an impossible number, such as NaN, a negative loss, or a BLEU above 100."""
    for name, most in _MOST.items():
        value = row.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise MetricsError(
                f'line {number}: expected "{name}" to be from 0 to {most:g}, found {_shown(value)}'
            )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
