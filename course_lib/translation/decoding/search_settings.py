"""The settings of a search, which a run saves in its folder, and the hypotheses that a search returns."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import MAX_BEAM
from course_lib.translation.model.seq2seq import TransformerModel


@dataclass(frozen=True)
class SearchSettings:
    """The settings of greedy decoding or beam search. Raises ValueError if a value is unusable."""

    beam: int = 1
    """The number of hypotheses kept at every step, at most `MAX_BEAM`; 1 is greedy decoding."""
    alpha: float = 0.0
    """The exponent of the length penalty; 0 favours short translations."""
    n_best: int = 1
    """The number of translations returned for each sentence, at most `beam`."""

    def __post_init__(self) -> None:
        for name in ("beam", "n_best"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{name}: expected a whole number, got {getattr(self, name)}")
        if not 1 <= self.beam <= MAX_BEAM:
            raise ValueError(f"beam: expected a number from 1 to {MAX_BEAM}, got {self.beam}")
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha: expected 0 or more, got {self.alpha}")
        if not 1 <= self.n_best <= self.beam:
            raise ValueError(
                f"n_best: expected a number from 1 to the beam, which is {self.beam}, got {self.n_best}"
            )

    def override(self, beam: int | None, alpha: float | None, n_best: int | None) -> "SearchSettings":
        """Return a copy with the given values. None keeps the current value, but for `n_best` it means 1.

        If `beam` is None, the beam is raised to `n_best` if necessary and possible. Raises ValueError if a
        value is out of range.
        """
        if beam is None:
            beam = max(self.beam, min(n_best or 1, MAX_BEAM))
        return SearchSettings(beam, self.alpha if alpha is None else alpha, 1 if n_best is None else n_best)


@dataclass(frozen=True)
class Hypothesis:
    """A translation found by a search, as token ids."""

    ids: list[int]
    """The tokens after the start token.

    The last one is the end token, unless the length limit was reached.
    """
    log_probability: float
    """The log-probability in nats, including the end token."""
    score: float
    """The log-probability divided by the length penalty: higher is better."""


#: A function that decodes a batch. It takes a model, sentences of token ids, and settings, and returns the
#: hypotheses of each sentence, the best first.
DecodeFunction = Callable[[TransformerModel, Sequence[Sequence[int]], SearchSettings], list[list[Hypothesis]]]


def save_settings(path: Path, settings: SearchSettings) -> None:
    """Write the settings as JSON, atomically."""
    atomic_write_text(path, json.dumps(asdict(settings)) + "\n")


def load_settings(path: Path) -> SearchSettings | None:
    """Load the settings written by `save_settings`. Return None if there is no such file.

    Raises OSError if the file cannot be read, and BadInputError if it doesn't contain valid search settings.
    """
    try:
        return SearchSettings(**json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise BadInputError(
            f"{path}: this file doesn't contain valid search settings. Remove it, and tune again with --tune."
        ) from None
