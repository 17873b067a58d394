"""The folder of a run and the files in it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from course_lib.errors import BadInputError
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
#: The names of files that may be in a folder before a run is started in it.
_BEFORE_A_RUN = re.compile(r"\..*|.*\.(log|out|err)|.*log.*\.txt|nccl-trace-rank-\d+")


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
        self.output = path / "output.txt"
        """The output of a run that a notebook has started in the background."""
        self.process = path / "process.txt"
        """The process id of such a run, and the name of its machine."""

    def model(self, kind: ModelKind) -> Path:
        """Return the path of the trained model of a kind, whether it exists or not."""
        return self.models / f"{kind}.pt"

    def require_run_or_empty(self) -> None:
        """Raise BadInputError if the folder contains files, but not the one that every run creates first.

        Logs and hidden files may be in the folder before the run.
        """
        if self.metrics.exists() or not self.path.is_dir():
            return
        expected = {self.output.name, self.process.name}
        names = {path.name for path in self.path.iterdir()} - expected
        if others := [name for name in names if not _BEFORE_A_RUN.fullmatch(name)]:
            raise BadInputError(
                f"run_folder: {self.path} contains files, but isn't the folder of a run (it contains "
                f"{min(others)}). Choose a new folder."
            )

    def remove_temporary_files(self) -> None:
        """Remove incomplete files left by a killed process."""
        for folder in (self.path, self.data, self.checkpoints, self.snapshots, self.models):
            for path in folder.glob(".*.tmp"):
                path.unlink(missing_ok=True)

    def other_files(self) -> list[str]:
        """Return the relative paths of all files that no run writes."""
        files = (self.config, self.vocabulary, self.metrics, self.parts, self.search, self.translations)
        known = {path.name for path in (*files, self.output, self.process)}
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
