"""The folder of a run and the files in it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

#: The models that a run keeps: its latest weights, the best on the validation split, and an average.
ModelKind = Literal["last", "best", "averaged"]
MODEL_KINDS: tuple[ModelKind, ...] = ("last", "best", "averaged")


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run's files."""

    path: Path

    @property
    def config(self) -> Path:
        """The config with every key, overrides included."""
        return self.path / "config.yaml"

    @property
    def vocabulary(self) -> Path:
        """The vocabulary, or both of them."""
        return self.path / "vocabulary.json"

    @property
    def data(self) -> Path:
        """The folder of all sentences as token ids."""
        return self.path / "data"

    @property
    def metrics(self) -> Path:
        """The metrics, one JSON object a line."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints: weights, optimiser, schedule and position in the data."""
        return self.path / "checkpoints"

    @property
    def snapshots(self) -> Path:
        """The folder of the weights to average."""
        return self.path / "snapshots"

    def model(self, kind: ModelKind) -> Path:
        """Return the path of one of the trained models."""
        return self.path / "models" / f"{kind}.pt"

    @property
    def parts(self) -> Path:
        """A copy of the student's code that is trained; only with `--parts`."""
        return self.path / "parts.json"

    @property
    def search(self) -> Path:
        """The search settings, including the tuned length penalty."""
        return self.path / "search.json"

    @property
    def translations(self) -> Path:
        """The translations of the test split, one sentence a line."""
        return self.path / "translations.txt"

    def remove_temporary_files(self) -> None:
        """Remove the unfinished files of a killed process, so that they don't fill the disk."""
        for folder in (self.path, self.data, self.checkpoints, self.snapshots, self.path / "models"):
            for path in folder.glob(".*.tmp"):
                path.unlink(missing_ok=True)
