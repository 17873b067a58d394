"""The models and the synthetic sentences for the checks, so that no corpus is needed."""

from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer, models

from course_lib.translation.configs.schema import ModelConfig, RunConfig
from course_lib.translation.data.token_pairs import IdPair, TokenPairs
from course_lib.translation.data.vocabulary import Vocabulary
from course_lib.translation.distributed import SINGLE_PROCESS
from course_lib.translation.train.batches import BatchLoader
from course_lib.translation.train.setup import require_enough_memory
from course_lib.translation.train.trainer import Trainer

#: The paper's models (table 3).
MODELS = {
    "base": ModelConfig(dropout=0.1, inner_dropout=0, attention="fused"),
    "big": ModelConfig(d_model=1024, heads=16, d_ff=4096, dropout=0.3, inner_dropout=0, attention="fused"),
}
#: A model for rehearsals on a CPU.
SMALL = ModelConfig(layers=2, d_model=32, heads=4, d_ff=64, inner_dropout=0, attention="fused")


@dataclass(frozen=True)
class Scale:
    """The size of the checks: full size for a GPU, or small for a rehearsal."""

    models: dict[str, ModelConfig]
    vocabulary: int
    tokens_per_batch: int
    sentences: int
    """The number of sentence pairs to draw."""
    seconds: float
    """The duration of each measurement."""


GPU = Scale(MODELS, vocabulary=37_000, tokens_per_batch=27_200, sentences=60_000, seconds=15.0)
REHEARSAL = Scale({"small": SMALL}, vocabulary=300, tokens_per_batch=800, sentences=400, seconds=0.3)


def number_vocabulary(size: int) -> Vocabulary:
    """Return a vocabulary of `size` tokens, in which each token is the text of its own id."""
    ids = {str(number): number for number in range(size)}
    return Vocabulary(Tokenizer(models.WordLevel(ids, unk_token="3")))


def sentence_pairs(scale: Scale) -> list[IdPair]:
    """Draw sentence pairs whose lengths are distributed as in news text: 3 to 100 tokens, 27 on average.

    A target is its source with every id increased by one, so a model can learn to translate. The result is
    the same in every call with the same scale.
    """
    random = np.random.RandomState(1)
    lengths = random.lognormal(3.1, 0.6, scale.sentences).clip(3, 100).astype(int)
    pairs = []
    for length in lengths:
        source = random.randint(4, scale.vocabulary - 1, length)
        pairs.append((source.tolist(), (source + 1).tolist()))
    return pairs


def run_config(model: ModelConfig, scale: Scale, **training: object) -> RunConfig:
    """Return a config for training a model with the batch size of `scale`.

    The keyword arguments replace keys of the section `training`.
    """
    return RunConfig.model_validate(
        {
            "run_folder": "unused",
            "data": {"corpus": "captions", "max_length": 104},
            "model": model.model_dump(),
            "training": {"updates": 1000, "tokens_per_batch": scale.tokens_per_batch, **training},
        }
    )


def new_trainer(config: RunConfig, scale: Scale, device: torch.device) -> Trainer:
    """Return a trainer for a config and the synthetic sentences.

    Raises BadInputError if training won't fit into the GPU's memory.
    """
    pairs, vocabulary = TokenPairs.of(sentence_pairs(scale)), number_vocabulary(scale.vocabulary)
    trainer = Trainer(BatchLoader(config, pairs, vocabulary, SINGLE_PROCESS, device))
    if device.type == "cuda":
        require_enough_memory(trainer, config, SINGLE_PROCESS, device)
    if config.training.compile:
        trainer.compile()
    return trainer
