"""The folder of a run and the files in it."""

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from course_lib.translation.configs.schema import ModelKind

MODEL_KINDS: tuple[ModelKind, ...] = get_args(ModelKind)


@dataclass
class RunFolder:
    """The paths of a run's files."""

    path: Path

    def __post_init__(self) -> None:
        path = self.path
        self.config = path / "config.yaml"
        """The config file with every key, including overrides."""
        self.vocabulary = path / "vocabulary.json"
        """The file of the vocabulary, or of both vocabularies."""
        self.data = path / "data"
        """The folder of the prepared data: all sentences as token ids."""
        self.metrics = path / "metrics.jsonl"
        """The file of the metrics, one JSON object per line."""
        self.checkpoints = path / "checkpoints"
        """The folder of checkpoints: weights, optimiser, schedule and position in the data."""
        self.snapshots = path / "snapshots"
        """The folder of the snapshots of the weights to be averaged."""
        self.models = path / "models"
        """The folder of the trained models."""
        self.parts = path / "parts.json"
        """The copy of the student's code, which exists only for a run with `--parts`."""
        self.search = path / "search.json"
        """The file of the search settings, including the tuned length penalty."""
        self.translations = path / "translations.txt"
        """The file of the translations of the test split, one sentence per line."""

    def model(self, kind: ModelKind) -> Path:
        """Return the path of the trained model of a kind, whether it exists or not."""
        return self.models / f"{kind}.pt"

    def remove_temporary_files(self) -> None:
        """Remove incomplete files left by a killed process."""
        for folder in (self.path, self.data, self.checkpoints, self.snapshots, self.models):
            for path in folder.glob(".*.tmp"):
                path.unlink(missing_ok=True)
