"""Fixtures for the lab's tests: a small corpus in files, and a config that trains on it in a second."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from phrases import write_corpus

from course_lib.translation.configs.loader import load_config
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.decoding.translator import Translator, load_translator
from course_lib.translation.distributed import SINGLE_PROCESS
from course_lib.translation.train.experiment import train

# The tests start processes of their own; more threads would only wait for each other.
torch.set_num_threads(1)

CONFIG = """
run_folder: {run}
data: {{corpus: folder, folder: {corpus}, vocab_size: 320, max_length: 40}}
model: {{layers: 1, d_model: 16, heads: 2, d_ff: 32, dropout: 0.1}}
training:
  {{epochs: 2, tokens_per_batch: 400, batches_per_update: 3, warmup_steps: 20, device: cpu, threads: 1,
    precision: float32, log_every: 4, checkpoint_every: 3}}
evaluation: {{tokens_per_batch: 1000, beam_size: 1}}
"""


@pytest.fixture
def corpus_folder(tmp_path: Path) -> Path:
    """A folder with train, validation and test files in German and English."""
    folder = tmp_path / "corpus"
    write_corpus(folder)
    return folder


@pytest.fixture
def config_file(tmp_path: Path, corpus_folder: Path) -> Path:
    """A config file for the corpus, whose run folder `run` is next to it."""
    path = tmp_path / "tiny.yaml"
    path.write_text(CONFIG.format(run=tmp_path / "run", corpus=corpus_folder), "utf-8")
    return path


@pytest.fixture
def tiny_config(config_file: Path) -> Callable[..., RunConfig]:
    """A function that loads the config with overrides."""

    def read(*overrides: str) -> RunConfig:
        return load_config(str(config_file), overrides)

    return read


@pytest.fixture(scope="session")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run that has learned a little. The corpus is next to it."""
    distributed = tmp_path_factory.mktemp("lab")
    write_corpus(distributed / "corpus")
    config = distributed / "tiny.yaml"
    config.write_text(CONFIG.format(run=distributed / "run", corpus=distributed / "corpus"), "utf-8")
    overrides = ["training.epochs=3", "training.batches_per_update=1", "model.d_model=32"]
    overrides += ["training.average_last=2", "evaluation.beam_size=3", "evaluation.bleu_every=0"]
    train(load_config(str(config), overrides), SINGLE_PROCESS)
    return distributed / "run"


@pytest.fixture(scope="session")
def translator(trained_folder: Path) -> Translator:
    """The translator of the finished run."""
    return load_translator(trained_folder)
