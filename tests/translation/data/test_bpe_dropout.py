"""BPE dropout splits as its paper describes, and each epoch's splits depend only on seed and epoch."""

import copy
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.translation.configs.schema import DataConfig, RunConfig
from course_lib.translation.data.bpe_dropout import split_with_dropout
from course_lib.translation.data.corpora import load_corpus
from course_lib.translation.data.preparation import prepare
from course_lib.translation.data.prepared import PreparedData, open_run_data
from course_lib.translation.data.subwords import Subwords
from course_lib.translation.distributed import SINGLE_PROCESS, DistributedInfo
from course_lib.translation.train.batches import BatchLoader
from course_lib.translation.train.trainer import Trainer
from tests.translation.phrases import phrase_pairs
from tests.translation.real_processes import in_processes

SENTENCES = [sentence for pair in phrase_pairs(200, seed=0) for sentence in pair]
LEARNT = Subwords.learn(SENTENCES, 400)
RANKS, IDS = LEARNT.merge_ranks(), LEARNT.ids()


def split(sentence: str, rate: float, seed: int = 0) -> list[list[str]]:
    rng = random.Random(seed)
    return [split_with_dropout(word, RANKS, rate, rng) for word in LEARNT.split_words([sentence])[0]]


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(SENTENCES))
def test_at_rate_0_it_is_byte_pair_encoding(sentence: str) -> None:
    parts = [part for word in split(sentence, 0.0) for part in word]
    assert [IDS[part] for part in parts] == LEARNT.encode([sentence])[0]


@given(st.sampled_from(SENTENCES), st.sampled_from([0.1, 0.5, 1.0]), st.integers(0, 99))
def test_what_comes_out_spells_the_same(sentence: str, rate: float, seed: int) -> None:
    parts = [part for word in split(sentence, rate, seed) for part in word]
    assert LEARNT.decode([[IDS[part] for part in parts]]) == [sentence]
    if rate == 1:
        assert all(len(part) == 1 for part in parts)


def test_merges_are_passed_over_at_the_rate() -> None:
    # "abc" with (a, b) before (b, c): the second is merged only if the first is skipped.
    ranks = {("a", "b"): 0, ("b", "c"): 1, ("ab", "c"): 2}
    rng, rate, draws = random.Random(0), 0.3, 20_000
    seen = Counter("|".join(split_with_dropout("abc", ranks, rate, rng)) for _ in range(draws))
    kept = 1 - rate
    expected = {"abc": kept * kept, "ab|c": kept * rate, "a|bc": rate * kept, "a|b|c": rate * rate}
    assert seen.keys() == expected.keys()
    for parts, probability in expected.items():
        assert seen[parts] / draws == pytest.approx(probability, abs=0.015)


def prepared(config: RunConfig, folder: Path) -> PreparedData:
    return prepare(config.data, folder / "data", folder / "vocabulary.json", learn=True)


def all_epochs(distributed: DistributedInfo, folder: Path, epochs: tuple[int, ...]) -> list[list[object]]:
    data = open_run_data(folder / "data", folder / "vocabulary.json")
    return [list(data.train.of_epoch(3, epoch)) for epoch in epochs]


@pytest.mark.parametrize("tokens", ["joint-bpe", "separate-bpe", "both directions"])
def test_every_epoch_has_the_same_sentences_split_in_its_own_way(
    tiny_config: Callable[..., RunConfig], tmp_path: Path, tokens: str
) -> None:
    both = tokens == "both directions"
    kind = (
        ("data.both_directions=true",) if both else (f"data.tokenizer={tokens}", "model.tie_embeddings=false")
    )
    config = tiny_config("data.bpe_dropout=0.2", "data.max_length=18", "data.too_long=drop", *kind)
    data = prepared(config, tmp_path)
    text = load_corpus(config.data).train
    assert len(data.train) < len(text) * (1 + both), "the data must lack dropped pairs, so that indices shift"
    first, second = data.train.of_epoch(1, 0), data.train.of_epoch(1, 1)
    source, target = data.vocabularies.source, data.vocabularies.target
    for distributed in (0, 7, len(data.train) - 1):
        for epoch in (first, second):
            assert source.decode([epoch[distributed][0]]) == source.decode([data.train[distributed][0]])
            assert target.decode([epoch[distributed][1]]) == target.decode([data.train[distributed][1]])
            assert not both or epoch[distributed][0][0] == data.train[distributed][0][0]
    assert len(first) == len(second) == len(data.train)
    assert list(first) != list(second)
    assert first.lengths.mean() > data.train.lengths.mean() * 1.05


@pytest.mark.parametrize("too_long", ["drop", "truncate"])
def test_no_random_split_is_truncated(
    tiny_config: Callable[..., RunConfig], tmp_path: Path, too_long: str
) -> None:
    """A random split may be longer than the maximum, and training would cut it off silently."""
    config = tiny_config("data.bpe_dropout=0.5", "data.max_length=18", f"data.too_long={too_long}")
    data = prepared(config, tmp_path)
    epoch = data.train.of_epoch(1, 0)
    assert epoch.lengths.max() <= 16
    assert list(epoch) != list(data.train)
    for side, vocabulary in enumerate((data.vocabularies.source, data.vocabularies.target)):
        plain, random_splits = ([pair[side] for pair in pairs] for pairs in (data.train, epoch))
        assert vocabulary.decode(random_splits) == vocabulary.decode(plain)


def test_an_epoch_depends_on_seed_and_epoch_alone(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    train = prepared(tiny_config("data.bpe_dropout=0.2"), tmp_path).train
    random.seed(99)
    expected = [list(train.of_epoch(3, epoch)) for epoch in (4, 2)]
    # A different process, which drew different epochs first, must get the same pairs.
    ((*_, two, four),) = in_processes(1, all_epochs, tmp_path, (1, 2, 4))
    assert [four, two] == expected
    assert list(train.of_epoch(4, 4)) != expected[0]


def test_training_resumes_with_exactly_the_same_split(
    tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    config = tiny_config("data.bpe_dropout=0.2")
    data = prepared(config, tmp_path)

    def trainer() -> Trainer:
        cpu = torch.device("cpu")
        return Trainer(BatchLoader(config, data.train, data.vocabularies, SINGLE_PROCESS, cpu))

    whole = trainer()
    for batches in whole.plan()[:2]:
        whole.update(batches)
    whole.end_epoch()
    later = trainer()
    later.load(copy.deepcopy(whole.state()))
    assert later.plan() == whole.plan() != trainer().plan()
    for each in (whole, later):
        for batches in each.plan()[:2]:
            each.update(batches)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(later.model.state_dict()[name], value), name


def test_words_have_no_merges_to_pass_over() -> None:
    with pytest.raises(ValueError, match="bpe_dropout: needs subwords"):
        DataConfig(corpus="captions", tokenizer="words", bpe_dropout=0.1)
