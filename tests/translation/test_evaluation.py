"""Loss and translations are those of the sentences one by one, in their order."""

from collections.abc import Callable

import pytest
import torch

from course_lib.transformer import Transformer, decoder_mask, greedy_decode, padding_mask, shift_target
from course_lib.translation.batches import IdPair, collate
from course_lib.translation.config import RunConfig
from course_lib.translation.corpora import load_corpus
from course_lib.translation.distributed import Place
from course_lib.translation.evaluation import Evaluator
from course_lib.translation.model import build_transformer
from course_lib.translation.subwords import Subwords

ALONE = Place(rank=0, world_size=1, local_rank=0, local_world_size=1)
PAD, START, END = Subwords.pad_id, Subwords.start_id, Subwords.end_id


@pytest.fixture
def setting(tiny_config: Callable[..., RunConfig]) -> tuple[Evaluator, Transformer, Subwords, list[IdPair]]:
    config = tiny_config("training.precision=float64", "evaluation.tokens_per_batch=90", "model.dropout=0.5")
    validation = load_corpus(config.data).validation
    subwords = Subwords.learn([*validation.german, *validation.english], config.data.vocabulary_size)
    torch.manual_seed(3)
    model = build_transformer(config.model, len(subwords), len(subwords)).double()
    for parameter in model.parameters():
        parameter.data *= 1.5  # Livelier than a fresh model, so that translations end and differ.
    pairs = list(zip(subwords.encode(validation.german), subwords.encode(validation.english), strict=True))
    return Evaluator(config, subwords, ALONE, torch.device("cpu")), model, subwords, pairs[:8]


def test_the_loss_is_the_mean_over_tokens(
    setting: tuple[Evaluator, Transformer, Subwords, list[IdPair]],
) -> None:
    evaluator, model, _, pairs = setting
    model.train()
    total, count = 0.0, 0
    for pair in pairs:
        source, target = collate([pair], PAD, START, END, 40)
        decoder_input, labels = shift_target(target)
        model.eval()
        with torch.no_grad():
            logits = model(source, padding_mask(source, PAD), decoder_input, decoder_mask(decoder_input, PAD))
        model.train()
        total += torch.nn.functional.cross_entropy(logits[0], labels[0], reduction="sum").item()
        count += labels.numel()
    assert evaluator.loss(model, pairs) == pytest.approx(total / count, rel=1e-9)
    assert model.training, "the mode is given back"


def test_translations_are_those_of_single_sentences(
    setting: tuple[Evaluator, Transformer, Subwords, list[IdPair]],
) -> None:
    evaluator, model, subwords, pairs = setting
    expected = []
    for ids, _ in pairs:
        source, _ = collate([(ids, [])], PAD, START, END, 40)
        longest = int(1.2 * source.shape[1]) + 10
        expected += subwords.decode(
            greedy_decode(model, source, padding_mask(source, PAD), longest, START, END).tolist()
        )
    got = evaluator.translate(model, [ids for ids, _ in pairs])
    # A batch allows all its sentences the length of its longest one; a cut may fall amid a letter's bytes.
    assert all(text.startswith(alone.rstrip("\ufffd")) for text, alone in zip(got, expected, strict=True))
    assert len(set(got)) > 3
    assert model.training
