"""The folder that keeps a run, and what lies where in it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunFolder:
    """The files of a run."""

    path: Path

    @property
    def config(self) -> Path:
        """The config with every key, overrides included."""
        return self.path / "config.yaml"

    @property
    def vocabulary(self) -> Path:
        """The vocabulary, or the two of them."""
        return self.path / "vocabulary.json"

    @property
    def data(self) -> Path:
        """All sentences as ids."""
        return self.path / "data"

    @property
    def metrics(self) -> Path:
        """One JSON object a line."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Weights, optimiser, schedule and position, after several updates: what a run goes on from."""
        return self.path / "checkpoints"

    @property
    def snapshots(self) -> Path:
        """The weights that are to be averaged."""
        return self.path / "snapshots"

    @property
    def models(self) -> Path:
        """The trained models: last, best and averaged."""
        return self.path / "models"

    @property
    def parts(self) -> Path:
        """A copy of the code of a student's own that is trained; there is none without `--parts`."""
        return self.path / "parts.json"

    @property
    def search(self) -> Path:
        """How translations are searched for, the tuned length penalty among it."""
        return self.path / "search.json"

    @property
    def translations(self) -> Path:
        """The test split in English, one sentence a line."""
        return self.path / "translations.txt"

    def remove_leftovers(self) -> None:
        """Remove files that a killed process had begun to write, so that they don't fill the disk."""
        for folder in (self.path, self.data, self.checkpoints, self.snapshots, self.models):
            for path in folder.glob(".*.tmp"):
                path.unlink(missing_ok=True)
