"""The folder of a run and the files in it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

#: The models that a run saves: the latest weights, the best on the validation split, and an average.
ModelKind = Literal["last", "best", "averaged"]
MODEL_KINDS: tuple[ModelKind, ...] = ("last", "best", "averaged")


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run's files."""

    path: Path

    @property
    def config(self) -> Path:
        """The config file with every key, including overrides."""
        return self.path / "config.yaml"

    @property
    def vocabulary(self) -> Path:
        """The file of the vocabulary, or of both vocabularies."""
        return self.path / "vocabulary.json"

    @property
    def data(self) -> Path:
        """The folder of all sentences as token ids."""
        return self.path / "data"

    @property
    def metrics(self) -> Path:
        """The file of the metrics, one JSON object per line."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints: weights, optimiser, schedule and position in the data."""
        return self.path / "checkpoints"

    @property
    def snapshots(self) -> Path:
        """The folder of the snapshots of the weights to be averaged."""
        return self.path / "snapshots"

    def model(self, kind: ModelKind) -> Path:
        """Return the path of one of the trained models."""
        return self.path / "models" / f"{kind}.pt"

    @property
    def parts(self) -> Path:
        """The copy of the student's code, which exists only for a run with `--parts`."""
        return self.path / "parts.json"

    @property
    def search(self) -> Path:
        """The file of the search settings, including the tuned length penalty."""
        return self.path / "search.json"

    @property
    def translations(self) -> Path:
        """The file of the translations of the test split, one sentence per line."""
        return self.path / "translations.txt"

    def remove_temporary_files(self) -> None:
        """Remove incomplete files left by a killed process, so that they don't fill the disk."""
        for folder in (self.path, self.data, self.checkpoints, self.snapshots, self.path / "models"):
            for path in folder.glob(".*.tmp"):
                path.unlink(missing_ok=True)
