"""Fixtures for the lab's tests: a small corpus in files, and a config that trains on it in a second."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from course_lib.translation.configs.loader import load_config
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.corpora import downloads
from course_lib.translation.decoding.translator import Translator, load_translator
from course_lib.translation.distributed import SINGLE_PROCESS
from course_lib.translation.train import trainer
from course_lib.translation.train.experiment import train
from tests.made_once import made_once
from tests.translation.phrases import write_corpus
from tests.translation.web_server import Answer, serving

# The tests start their own processes, so more threads would only compete for the cores.
torch.set_num_threads(1)

CONFIG = """
run_folder: {run}
data: {{corpus: folder, folder: {corpus}, vocab_size: 320, max_length: 40}}
model: {{layers: 1, d_model: 16, heads: 2, d_ff: 32, dropout: 0.1}}
training:
  {{epochs: 2, tokens_per_batch: 400, batches_per_update: 3, warmup_steps: 20, device: cpu, threads: 1,
    precision: float32, log_every: 4, checkpoint_every: 3}}
# The models of most tests have learned so little that their translations don't end, so limit the length.
evaluation: {{tokens_per_batch: 1000, beam_size: 1, length_factor: 0.3, length_extra: 4}}
"""


@pytest.fixture
def corpus_folder(tmp_path: Path) -> Path:
    """A folder with train, validation and test files in German and English."""
    folder = tmp_path / "corpus"
    write_corpus(folder)
    return folder


@pytest.fixture
def config_file(tmp_path: Path, corpus_folder: Path) -> Path:
    """A config file for the corpus. Its run folder `run` is next to it."""
    path = tmp_path / "tiny.yaml"
    path.write_text(CONFIG.format(run=tmp_path / "run", corpus=corpus_folder), "utf-8")
    return path


@pytest.fixture
def tiny_config(config_file: Path) -> Callable[..., RunConfig]:
    """A function that loads the config with overrides."""

    def read(*overrides: str) -> RunConfig:
        return load_config(str(config_file), overrides)

    return read


@pytest.fixture
def published() -> Path:
    """The folder with the published files of Multi30k."""
    if "COURSE_DATA" not in os.environ:
        pytest.skip("COURSE_DATA names no mirror folder, so Multi30k's published files are missing")
    mirror = Path(os.environ["COURSE_DATA"])
    return mirror / "multi30k" if (mirror / "multi30k").is_dir() else mirror


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], str]]:
    """A function that starts a web server with the given answers, and returns its address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(downloads, "PAUSE", 0.01)
    with ExitStack() as servers:
        yield lambda answer: servers.enter_context(serving(answer))


@pytest.fixture(scope="module", autouse=True)
def _machine_not_measured() -> Iterator[None]:
    """Replace the measurement at each start of training, which takes 0.3 seconds, with a constant."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "measure_matmul_rate", lambda *_: 1e11)
        yield


@pytest.fixture(scope="session")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run that has learned a little. The corpus is next to it."""

    def make() -> Path:
        lab = tmp_path_factory.mktemp("lab")
        write_corpus(lab / "corpus")
        config = lab / "tiny.yaml"
        config.write_text(CONFIG.format(run=lab / "run", corpus=lab / "corpus"), "utf-8")
        overrides = ["training.epochs=3", "training.batches_per_update=1", "model.d_model=32"]
        overrides += ["training.average_last=2", "evaluation.beam_size=3", "evaluation.bleu_every=0"]
        overrides += ["evaluation.length_factor=1.2", "evaluation.length_extra=10"]
        train(load_config(str(config), overrides), SINGLE_PROCESS)
        return lab

    # Some tests change files of the run and restore them, so each process has a copy.
    copy = tmp_path_factory.mktemp("lab") / "copy"
    shutil.copytree(made_once(tmp_path_factory, "trained_folder", make), copy)
    return copy / "run"


@pytest.fixture(scope="session")
def translator(trained_folder: Path) -> Translator:
    """The translator of the finished run."""
    return load_translator(trained_folder)
