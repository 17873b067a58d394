"""Trainers with a model so small that a test can train and compare many of them."""

from collections.abc import Callable
from typing import Any

import torch

from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.corpora import load_corpus
from course_lib.translation.data.token_pairs import TokenPairs
from course_lib.translation.data.vocabulary import Vocabulary
from course_lib.translation.distributed import SINGLE_PROCESS, DistributedInfo
from course_lib.translation.model.seq2seq import REFERENCE, Components
from course_lib.translation.train.batches import BatchLoader
from course_lib.translation.train.trainer import Trainer


def material(config: RunConfig) -> tuple[TokenPairs, Vocabulary]:
    train = load_corpus(config.data).train
    vocabulary = Vocabulary.learn([*train.german, *train.english], config.data.vocab_size)
    pairs = zip(vocabulary.encode(train.german), vocabulary.encode(train.english), strict=True)
    return TokenPairs.of(pairs), vocabulary


def new_trainer(
    config: RunConfig,
    distributed: DistributedInfo = SINGLE_PROCESS,
    compile_backend: str | Callable[..., Any] = "inductor",
    components: Components = REFERENCE,
) -> Trainer:
    loader = BatchLoader(config, *material(config), distributed, torch.device("cpu"), components)
    trainer = Trainer(loader, compile_backend)
    if config.training.compile:
        trainer.compile()
    return trainer


def weights(trainer: Trainer) -> dict[str, list[float]]:
    return {name: value.flatten().tolist() for name, value in trainer.model.state_dict().items()}


def assert_equal_weights(
    got: dict[str, list[float]], expected: dict[str, list[float]], within: float
) -> None:
    assert got.keys() == expected.keys()
    for name, values in expected.items():
        torch.testing.assert_close(
            torch.tensor(got[name], dtype=torch.float64),
            torch.tensor(values, dtype=torch.float64),
            rtol=within,
            atol=within,
            msg=lambda message, name=name: f"{name}: {message}",
        )
