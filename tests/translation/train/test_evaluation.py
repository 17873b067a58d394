"""Losses and translations equal those of single sentences, in the same order."""

from collections.abc import Callable

import pytest
import torch

from course_lib.transformer import (
    Transformer,
    TransformerConfig,
    beam_search,
    decoder_mask,
    greedy_decode,
    padding_mask,
    shift_target,
)
from course_lib.transformer.batching import collate
from course_lib.translation.configs.schema import EvaluationConfig, RunConfig
from course_lib.translation.data.corpora import load_corpus
from course_lib.translation.data.token_pairs import IdPair
from course_lib.translation.data.vocabulary import Vocabulary
from course_lib.translation.decoding.search_settings import SearchSettings
from course_lib.translation.distributed import SINGLE_PROCESS
from course_lib.translation.model.seq2seq import build_model
from course_lib.translation.train.evaluation import Evaluator
from course_lib.translation.train.scoring import score

pytestmark = pytest.mark.slow

PAD, START, END = Vocabulary.pad_id, Vocabulary.start_id, Vocabulary.end_id


@pytest.fixture
def setting(tiny_config: Callable[..., RunConfig]) -> tuple[Evaluator, Transformer, Vocabulary, list[IdPair]]:
    config = tiny_config(
        "training.precision=float64",
        "evaluation.tokens_per_batch=90",
        "evaluation.beam_size=2",
        "evaluation.length_factor=1.2",
        "evaluation.length_extra=10",
        "model.dropout=0.5",
    )
    validation = load_corpus(config.data).validation
    subwords = Vocabulary.learn([*validation.german, *validation.english], config.data.vocab_size)
    torch.manual_seed(3)
    model = build_model(config.model, len(subwords), len(subwords)).double()
    for parameter in model.parameters():
        parameter.data *= 1.5  # Enlarge the initial weights, so that translations end and differ.
    pairs = list(zip(subwords.encode(validation.german), subwords.encode(validation.english), strict=True))
    evaluator = Evaluator(config, subwords, SINGLE_PROCESS, torch.device("cpu"))
    return evaluator, model, subwords, pairs[:6]


def test_the_loss_is_the_mean_over_tokens(
    setting: tuple[Evaluator, Transformer, Vocabulary, list[IdPair]],
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
    assert model.training, "training mode is restored"


def test_translations_are_those_of_single_sentences(
    setting: tuple[Evaluator, Transformer, Vocabulary, list[IdPair]],
) -> None:
    evaluator, model, subwords, pairs = setting
    sources = [source for source, _ in pairs]
    for beam, alpha in ((1, 0.0), (3, 0.6)):
        expected = []
        for ids in sources:
            source, _ = collate([(ids, [])], PAD, START, END, 40)
            mask, longest = padding_mask(source, PAD), EvaluationConfig().max_target_length(source.shape[1])
            target = (
                greedy_decode(model, source, mask, longest, START, END)
                if beam == 1
                else beam_search(model, source, mask, beam, longest, START, END, alpha)
            )
            expected += subwords.decode(target.tolist())
        got = evaluator.translate(model, sources, SearchSettings(beam, alpha))
        assert got == expected
        assert len(set(got)) > 3
    assert model.training


@pytest.mark.parametrize("beam", [1, 3])
def test_batches_side_by_side_find_what_they_find_one_after_the_other(
    setting: tuple[Evaluator, Transformer, Vocabulary, list[IdPair]], beam: int
) -> None:
    evaluator, model, _, pairs = setting
    sources = [source for source, _ in pairs] * 3
    expected = evaluator.translate(model, sources, SearchSettings(beam))
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        assert evaluator.translate(model, sources, SearchSettings(beam)) == expected
    finally:
        torch.set_num_threads(threads)
    assert model.training, "training mode is restored"


def test_a_sentence_without_a_token_has_an_empty_translation(
    setting: tuple[Evaluator, Transformer, Vocabulary, list[IdPair]],
) -> None:
    evaluator, model, _, pairs = setting
    source, _ = pairs[0]
    assert evaluator.translate(model, [[], source, []]) == ["", *evaluator.translate(model, [source]), ""]


def test_the_tuned_penalty_is_the_one_whose_translations_score_best(
    setting: tuple[Evaluator, Transformer, Vocabulary, list[IdPair]],
) -> None:
    evaluator, model, _, pairs = setting
    sources = [source for source, _ in pairs]
    # One penalty reproduces these references, so that tuning has something to find.
    references = evaluator.translate(model, sources, SearchSettings(3, 1.0))
    tuned = evaluator.tune(model, sources, references, beam=3)
    assert tuned.bleu[1.0] == pytest.approx(100)
    assert tuned.bleu[tuned.alpha] == max(tuned.bleu.values())
    for alpha in (0.0, 2.0):
        translations = evaluator.translate(model, sources, SearchSettings(3, alpha))
        assert score(translations, references).bleu == pytest.approx(tuned.bleu[alpha])


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["evaluation.beam_size=1"], SearchSettings()),
        (["evaluation.beam_size=2", "evaluation.alpha=0.3"], SearchSettings(2, 0.3)),
    ],
)
def test_the_config_says_how_to_search(
    overrides: list[str], expected: SearchSettings, tiny_config: Callable[..., RunConfig]
) -> None:
    vocabulary = Vocabulary.learn(["ein Hund"], 300)
    evaluator = Evaluator(tiny_config(*overrides), vocabulary, SINGLE_PROCESS, torch.device("cpu"))
    model = Transformer(9, 9, TransformerConfig(layers=1, d_model=8, heads=2, d_ff=8))
    assert evaluator.settings(model, [], []) == expected, "without looking at the model"


def test_left_open_it_is_tuned(
    setting: tuple[Evaluator, Transformer, Vocabulary, list[IdPair]],
) -> None:
    evaluator, model, _, pairs = setting
    sources = [source for source, _ in pairs]
    references = evaluator.translate(model, sources, SearchSettings(2, 2.0))
    tuned = evaluator.tune(model, sources, references, 2)
    assert evaluator.settings(model, sources, references) == SearchSettings(2, tuned.alpha)
