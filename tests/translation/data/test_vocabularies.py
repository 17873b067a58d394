"""Shared or separate vocabularies, learned from the training split and saved in one file."""

from pathlib import Path

import pytest

from course_lib.errors import BadInputError
from course_lib.translation.configs.loader import load_config
from course_lib.translation.configs.schema import DataConfig
from course_lib.translation.data.corpora.parallel_text import ParallelText
from course_lib.translation.data.subwords import BidirectionalSubwords, Subwords
from course_lib.translation.data.vocabularies import (
    SeparateVocabularies,
    Vocabularies,
    learn_vocabularies,
    load_vocabularies,
)
from tests.translation.phrases import phrase_pairs

PAIRS = phrase_pairs(150, seed=0)
TRAIN = ParallelText([german for german, _ in PAIRS], [english for _, english in PAIRS])
KINDS = ("joint-bpe", "separate-bpe")


def learn(tokens: str, size: int = 330) -> Vocabularies:
    config = {"corpus": "captions", "tokenizer": tokens, "vocab_size": size}
    return learn_vocabularies(TRAIN, DataConfig.model_validate(config))


@pytest.mark.parametrize("tokens", KINDS)
def test_every_kind_is_written_and_read_back(tmp_path: Path, tokens: str) -> None:
    path = tmp_path / "vocabulary.json"
    vocabularies = learn(tokens)
    vocabularies.save(path)
    again = load_vocabularies(path)
    assert type(again) is type(vocabularies)
    assert again.fingerprint == vocabularies.fingerprint == learn(tokens).fingerprint
    for mine, other, sentences in (
        (vocabularies.source, again.source, TRAIN.german),
        (vocabularies.target, again.target, TRAIN.english),
    ):
        assert mine.encode([*sentences, "<pad> zwei"]) == other.encode([*sentences, "<pad> zwei"])
        assert other.decode(mine.encode(sentences)) == sentences
    assert [entry.name for entry in tmp_path.iterdir()] == ["vocabulary.json"]


def test_joint_subwords_are_the_same_on_both_sides() -> None:
    vocabularies = learn("joint-bpe")
    assert isinstance(vocabularies, Subwords)
    assert vocabularies.source is vocabularies.target is vocabularies
    assert vocabularies.fingerprint == Subwords.learn([*TRAIN.german, *TRAIN.english], 330).fingerprint


def test_directed_subwords_say_into_which_language_and_come_back(tmp_path: Path) -> None:
    config = DataConfig(corpus="captions", vocab_size=330, both_directions=True)
    vocabularies = learn_vocabularies(TRAIN, config)
    assert isinstance(vocabularies, BidirectionalSubwords)
    vocabularies.save(tmp_path / "vocabulary.json")
    again = load_vocabularies(tmp_path / "vocabulary.json")
    assert isinstance(again, BidirectionalSubwords)
    assert again.fingerprint == vocabularies.fingerprint
    other = again.in_direction("en-de")
    assert (again.direction, other.direction, other.fingerprint) == ("de-en", "en-de", again.fingerprint)
    (forth,), (back,) = again.source.encode(["Hunde"]), other.source.encode(["Hunde"])
    assert forth[1:] == back[1:] == again.target.encode(["Hunde"])[0]
    assert len({forth[0], back[0], *range(4)}) == 6
    assert again.source.decode([forth]) == again.target.decode([forth]) == ["Hunde"]
    assert len(again.source) == len(again.target) == 330
    assert again.source.encode([""]) == [[]]
    # Text that looks like the direction's token is encoded as text.
    assert forth[0] not in again.target.encode(["<to-english>"])[0]


def test_two_vocabularies_cannot_serve_both_directions() -> None:
    with pytest.raises(ValueError, match="both_directions: needs one vocabulary for both languages"):
        DataConfig(corpus="captions", tokenizer="separate-bpe", both_directions=True)


@pytest.mark.parametrize("tokens", KINDS)
def test_vocabularies_of_one_direction_have_none_to_select(tokens: str) -> None:
    config = DataConfig(corpus="captions", vocab_size=300, tokenizer=tokens)
    vocabularies = learn_vocabularies(TRAIN, config)
    assert vocabularies.direction is None
    assert vocabularies.in_direction("en-de") is vocabularies


def test_separate_ones_know_their_own_language() -> None:
    vocabularies = learn("separate-bpe")
    assert isinstance(vocabularies, SeparateVocabularies)
    (hunde,), (dogs,) = vocabularies.source.encode(["Hunde"]), vocabularies.target.encode(["dogs"])
    assert len(hunde) == len(dogs) == 1
    assert len(vocabularies.source.encode(["dogs"])[0]) > 1


def test_two_vocabularies_cannot_be_tied() -> None:
    with pytest.raises(BadInputError) as refused:
        load_config("captions", ["data.tokenizer=separate-bpe"])
    assert str(refused.value) == (
        "captions: model.tie_embeddings: needs one vocabulary for both languages, but "
        "data.tokenizer=separate-bpe makes two; set data.tokenizer=joint-bpe or model.tie_embeddings=false"
    )
    config = load_config("captions", ["data.tokenizer=separate-bpe", "model.tie_embeddings=false"])
    assert config.data.tokenizer == "separate-bpe"


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"kind": "runes"}', '{"kind": "words", "source": {}, "target": {}}', "\0"]
)
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_text(content)
    with pytest.raises(BadInputError, match=r"vocabulary\.json: not a vocabulary written by a run"):
        load_vocabularies(path)


def test_a_missing_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot read the run's vocabulary"):
        load_vocabularies(tmp_path / "vocabulary.json")
