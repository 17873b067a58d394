"""What the lab's tests share: a small corpus in files, and a config that trains on it in a second."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from phrases import phrase_pairs

from course_lib.translation.config import RunConfig, load_config

# The tests start processes of their own; more threads would only wait for each other.
torch.set_num_threads(1)

CONFIG = """
run_folder: {run}
data: {{corpus: folder, folder: {corpus}, vocabulary_size: 320, max_length: 40}}
model: {{layers: 1, d_model: 16, heads: 2, d_ff: 32, dropout: 0.1}}
training:
  {{epochs: 2, tokens_per_batch: 400, batches_per_update: 3, warmup: 20, device: cpu,
    precision: float32, log_every: 4, checkpoint_every: 3}}
evaluation: {{tokens_per_batch: 1000}}
"""


def write_split(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.de").write_text("".join(f"{german}\n" for german, _ in pairs), "utf-8")
    (folder / f"{name}.en").write_text("".join(f"{english}\n" for _, english in pairs), "utf-8")


@pytest.fixture
def corpus_folder(tmp_path: Path) -> Path:
    """A folder with train, validation and test in German and English."""
    folder = tmp_path / "corpus"
    for seed, (name, count) in enumerate({"train": 240, "validation": 31, "test": 23}.items()):
        write_split(folder, name, phrase_pairs(count, seed))
    return folder


@pytest.fixture
def config_file(tmp_path: Path, corpus_folder: Path) -> Path:
    """A config for that folder, with the run in `run` beside it."""
    path = tmp_path / "tiny.yaml"
    path.write_text(CONFIG.format(run=tmp_path / "run", corpus=corpus_folder), "utf-8")
    return path


@pytest.fixture
def tiny_config(config_file: Path) -> Callable[..., RunConfig]:
    """The same config, read, with overrides."""

    def read(*overrides: str) -> RunConfig:
        return load_config(str(config_file), overrides)

    return read
