"""Vocabularies are learned from the training split and saved in one file."""

import json
from pathlib import Path

import pytest

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.provided import find_run
from course_lib.translation.configs.schema import DataConfig
from course_lib.translation.data.corpora.parallel_text import ParallelText
from course_lib.translation.data.subwords import Subwords
from course_lib.translation.data.vocabularies import Vocabularies, learn_vocabularies, load_vocabularies
from tests.translation.phrases import phrase_pairs

PAIRS = phrase_pairs(150, seed=0)
#: The fingerprint of the provided model's vocabulary when the model was trained.
FINGERPRINT = "359e3d948bd91c33a7a58c306d6900f060e9cf2f1bf5b27a520c0456da8cd271"
TRAIN = ParallelText([german for german, _ in PAIRS], [english for _, english in PAIRS])


def learn(**keys: object) -> Vocabularies:
    config = {"corpus": "captions", "vocab_size": 330, **keys}
    return learn_vocabularies(TRAIN, DataConfig.model_validate(config))


@pytest.mark.parametrize("both_directions", [False, True])
def test_vocabularies_are_written_and_read_back(tmp_path: Path, both_directions: bool) -> None:
    path = tmp_path / "vocabulary.json"
    vocabularies = learn(both_directions=both_directions)
    vocabularies.save(path)
    again = load_vocabularies(path)
    assert again.direction == vocabularies.direction == ("de-en" if both_directions else None)
    assert again.fingerprint == vocabularies.fingerprint == learn(both_directions=both_directions).fingerprint
    for mine, other, sentences in (
        (vocabularies.source, again.source, TRAIN.german),
        (vocabularies.target, again.target, TRAIN.english),
    ):
        assert mine.encode([*sentences, "<pad> zwei"]) == other.encode([*sentences, "<pad> zwei"])
        assert other.decode(mine.encode(sentences)) == sentences
    assert [entry.name for entry in tmp_path.iterdir()] == ["vocabulary.json"]


def test_both_languages_share_the_subwords() -> None:
    vocabularies = learn()
    assert vocabularies.source is vocabularies.target
    assert vocabularies.fingerprint == Subwords.learn([*TRAIN.german, *TRAIN.english], 330).fingerprint


def test_the_format_of_the_file_and_the_fingerprint_have_not_changed(tmp_path: Path) -> None:
    provided = find_run("multi30k")[0].vocabulary
    vocabularies = load_vocabularies(provided)
    vocabularies.save(tmp_path / "vocabulary.json")
    assert json.loads((tmp_path / "vocabulary.json").read_bytes()) == json.loads(provided.read_bytes())
    assert vocabularies.fingerprint == FINGERPRINT


def test_directed_subwords_say_into_which_language_and_come_back(tmp_path: Path) -> None:
    vocabularies = learn(both_directions=True)
    vocabularies.save(tmp_path / "vocabulary.json")
    again = load_vocabularies(tmp_path / "vocabulary.json")
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


def test_vocabularies_of_one_direction_have_none_to_select() -> None:
    vocabularies = learn()
    assert vocabularies.in_direction("en-de") is vocabularies


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
