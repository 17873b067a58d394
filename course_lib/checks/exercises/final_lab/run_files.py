"""Judge the files that a run writes: whether its configuration was edited and its metrics are plausible."""

import json
from typing import TYPE_CHECKING, Any

from course_lib.checks.engine.findings import VerdictName
from course_lib.errors import BadInputError

if TYPE_CHECKING:
    from course_lib.translation.configs.schema import RunConfig

#: Settings that don't count as an edit: a different seed, or a different way to compute the same model.
_NO_EDIT = {"seed", "training.precision", "training.compile"}
#: Settings that count as an edit, although they may also change when a run is resumed.
_EDIT = {"training.epochs", "training.updates"}

#: The maximum size of a configuration. A run writes a few thousand bytes.
_MAX_CONFIG_BYTES = 2**16

#: The minimum number of rows with a training loss.
MIN_ROWS = 8

#: The maximum of each validated number in a row; the minimum is 0.
_MAXIMA = {"loss": 1e6, "validation_loss": 1e6, "lr": 1e6, "tokens_per_second": 1e12}
_MAXIMA |= {"padded": 1.0, "bleu": 100.1, "test_bleu": 100.1}


class FileError(ValueError):
    """The error raised if a submitted file can't be judged. The message states the reason.

    `verdict` and `review` have the same meaning as in `FileVerdict`.
    """

    def __init__(self, message: str, verdict: VerdictName = "wrong", review: str = "") -> None:
        super().__init__(message)
        self.verdict = verdict
        self.review = review


def decoded(content: bytes) -> str:
    """Decode the content of a submitted file. Raises FileError if it isn't UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise FileError(f"expected UTF-8, but line {line} has invalid bytes") from None


def read_config(content: bytes) -> "RunConfig":
    """Read a run's configuration. Raises FileError if it is invalid or too long."""
    # Import this only when needed, because it is slow and the checks of all lessons import this module.
    from course_lib.translation.configs.loader import parse_config

    if len(content) > _MAX_CONFIG_BYTES:
        raise FileError(f"expected at most {_MAX_CONFIG_BYTES:,} bytes, found {len(content):,}")
    try:
        return parse_config("run configuration", decoded(content))
    except BadInputError as error:
        text = str(error).rstrip(".")
        raise FileError(text if len(text) <= 500 else f"{text[:499]}…") from None


def repeated_config(content: bytes) -> str | None:
    """Return the name of the provided configuration that a run used unchanged, or None.

    Only settings that affect what the model learns are compared: the data, model and training settings.
    Raises FileError if the file isn't a valid configuration.
    """
    from course_lib.translation.configs.loader import parse_config, provided_configs

    own = _settings(read_config(content))
    for name, text in provided_configs().items():
        if _settings(parse_config(name, text)) == own:
            return name
    return None


def _settings(config: object) -> dict[str, object]:
    """Return the settings whose change counts as an edit, by name."""
    from course_lib.translation.configs.schema import MayChangeMarker, Section

    found: dict[str, object] = {}
    for section in ("data", "model", "training"):
        values = getattr(config, section)
        assert isinstance(values, Section)
        for key, field in type(values).model_fields.items():
            name = f"{section}.{key}"
            marked = MayChangeMarker in field.metadata
            if name in _EDIT or not (marked or name in _NO_EDIT):
                found[name] = getattr(values, key)
    return found


def read_metrics(content: bytes) -> tuple[float, str]:
    """Validate a run's metrics. Return the test score, and a summary of all metrics for the student.

    Raises FileError if the content isn't UTF-8, if a row is invalid, if there are too few losses, if the
    loss doesn't fall, or if the run hasn't finished.
    """
    rows = _rows(content)
    step = 0
    for number, row in enumerate(rows, start=1):
        here = row.get("step")
        if not isinstance(here, int) or isinstance(here, bool) or not 0 <= here <= 1e12:
            raise FileError(f'line {number}: expected an integer "step", found {_shown(here)}')
        if here < step:
            raise FileError(f"line {number}: expected rising steps, but {here} follows {step}")
        step = here
        _check_numbers(number, row)
    losses = [float(row["loss"]) for row in rows if "loss" in row]
    if len(losses) < MIN_ROWS:
        raise FileError(
            f"expected at least {MIN_ROWS} rows with a loss, found {len(losses)}. Train longer, or "
            "write rows more often: training.log_every"
        )
    fifth = max(1, len(losses) // 5)
    first, last = sum(losses[:fifth]) / fifth, sum(losses[-fifth:]) / fifth
    if last >= first:
        raise FileError(
            f"expected a falling loss, but its mean is {first:.2f} in the first fifth of the rows, and "
            f"{last:.2f} in the last"
        )
    scores = [row["test_bleu"] for row in rows if "test_bleu" in row]
    if not scores:
        raise FileError(
            "expected a last row with the test score, but there is none: the run has not finished. "
            "Start it again with the same command to resume it"
        )
    bleu = float(scores[-1])
    summary = (
        f"After {step:,} updates, the mean loss has fallen from {first:.2f} in the first fifth of the run to "
        f"{last:.2f} in the last, and the test score is {bleu:.1f}"
    )
    return bleu, summary


def final_bleu(content: bytes) -> float | None:
    """Return the test score that a run reports in its metrics, or None if they are invalid."""
    try:
        bleu, _ = read_metrics(content)
        return bleu
    except FileError:
        return None


def _rows(content: bytes) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(decoded(content).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise FileError(f"line {number}: expected one JSON object, found {_shown(line)}") from None
        if not isinstance(row, dict):
            raise FileError(f"line {number}: expected one JSON object, found {_shown(row)}")
        rows.append(row)
    return rows


def _check_numbers(number: int, row: dict[str, Any]) -> None:
    """Raise FileError for an impossible number, such as NaN, a negative loss, or a BLEU above 100."""
    for name, maximum in _MAXIMA.items():
        value = row.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= maximum:
            raise FileError(
                f'line {number}: expected "{name}" to be from 0 to {maximum:g}, found {_shown(value)}'
            )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
