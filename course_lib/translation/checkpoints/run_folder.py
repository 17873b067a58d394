"""The folder of a run and the files in it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from course_lib.translation.configs.schema import ModelKind

MODEL_KINDS: tuple[ModelKind, ...] = get_args(ModelKind)

#: The subfolders of a run folder, each with a regular expression for the paths of the files in it.
_SUBFOLDERS = {
    "data": r"(train|validation|test)\.(ids|offsets|json)|contents\.json",
    "checkpoints": r"step-\d+\.pt",
    "snapshots": r"step-\d+\.pt",
    "models": rf"({'|'.join(MODEL_KINDS)})\.pt",
    "profile": r"trace\.json|operations\.txt|memory\.pickle",
    "tensorboard": r"events\.out\.tfevents\..*",
    "wandb": r".*",
}
_TEMPORARY = r"\..*\.tmp"


@dataclass
class RunFolder:
    """The paths of a run's files."""

    path: Path

    def __post_init__(self) -> None:
        path = self.path
        self.config = path / "config.yaml"
        """The config file, with every key and with all overrides applied."""
        self.vocabulary = path / "vocabulary.json"
        """The file of the vocabulary."""
        self.data = path / "data"
        """The folder of the prepared data: all sentences as token ids."""
        self.metrics = path / "metrics.jsonl"
        """The file of the metrics, one JSON object per line."""
        self.checkpoints = path / "checkpoints"
        """The folder of checkpoints: weights, optimiser, schedule and position in the data."""
        self.snapshots = path / "snapshots"
        """The folder of snapshots, whose weights are averaged at the end."""
        self.models = path / "models"
        """The folder of the trained models."""
        self.parts = path / "parts.json"
        """The copy of the student's code, which exists only for a run with `--parts`."""
        self.search = path / "search.json"
        """The file of the search settings, including the tuned length penalty."""
        self.translations = path / "translations.txt"
        """The translations of the test split, one sentence per line."""

    def model(self, kind: ModelKind) -> Path:
        """Return the path of the trained model of a kind, whether it exists or not."""
        return self.models / f"{kind}.pt"

    def remove_temporary_files(self) -> None:
        """Remove incomplete files left by a killed process."""
        for folder in (self.path, self.data, self.checkpoints, self.snapshots, self.models):
            for path in folder.glob(".*.tmp"):
                path.unlink(missing_ok=True)

    def other_files(self, *besides: str) -> list[str]:
        """Return the relative paths of all files that no run writes, except those named in `besides`."""
        files = (self.config, self.vocabulary, self.metrics, self.parts, self.search, self.translations)
        known = {*besides, *(path.name for path in files)}
        others = []
        for path in self.path.iterdir():
            if path.name in _SUBFOLDERS and path.is_dir():
                files_in_it = (each for each in path.rglob("*") if not each.is_dir())
                expected = re.compile(f"{_SUBFOLDERS[path.name]}|{_TEMPORARY}")
                others += [
                    each for each in files_in_it if not expected.fullmatch(each.relative_to(path).as_posix())
                ]
            elif path.name not in known and not re.fullmatch(_TEMPORARY, path.name):
                others.append(path)
        return sorted(str(path.relative_to(self.path)) for path in others)
