"""A vocabulary is learned from the training split and saved in a file."""

import json
from pathlib import Path

import pytest

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.provided import find_run
from course_lib.translation.configs.schema import Direction
from course_lib.translation.data.corpora.parallel_text import ParallelText
from course_lib.translation.data.vocabulary import Vocabulary
from tests.translation.phrases import phrase_pairs

PAIRS = phrase_pairs(150, seed=0)
#: The fingerprint of the provided model's vocabulary when the model was trained.
FINGERPRINT = "359e3d948bd91c33a7a58c306d6900f060e9cf2f1bf5b27a520c0456da8cd271"
TRAIN = ParallelText([german for german, _ in PAIRS], [english for _, english in PAIRS])


def learn(direction: Direction | None = None) -> Vocabulary:
    return Vocabulary.learn([*TRAIN.german, *TRAIN.english], 330, direction)


@pytest.mark.parametrize("direction", [None, "de-en"])
def test_a_vocabulary_is_written_and_read_back(tmp_path: Path, direction: Direction | None) -> None:
    path = tmp_path / "vocabulary.json"
    vocabulary = learn(direction)
    vocabulary.save(path)
    again = Vocabulary.load(path)
    assert again.direction == vocabulary.direction == direction
    assert again.fingerprint == vocabulary.fingerprint == learn(direction).fingerprint
    for mine, other, sentences in (
        (vocabulary.encode_source, again.encode_source, TRAIN.german),
        (vocabulary.encode, again.encode, TRAIN.english),
    ):
        assert mine([*sentences, "<pad> zwei"]) == other([*sentences, "<pad> zwei"])
        assert again.decode(mine(sentences)) == sentences
    assert [entry.name for entry in tmp_path.iterdir()] == ["vocabulary.json"]


def test_without_tags_both_sides_are_encoded_alike() -> None:
    vocabulary = learn()
    assert vocabulary.encode_source(TRAIN.german) == vocabulary.encode(TRAIN.german)


def test_the_format_of_the_file_and_the_fingerprint_have_not_changed(tmp_path: Path) -> None:
    provided = find_run("multi30k")[0].vocabulary
    vocabulary = Vocabulary.load(provided)
    vocabulary.save(tmp_path / "vocabulary.json")
    assert json.loads((tmp_path / "vocabulary.json").read_bytes()) == json.loads(provided.read_bytes())
    assert vocabulary.fingerprint == FINGERPRINT


def test_directed_subwords_say_into_which_language_and_come_back(tmp_path: Path) -> None:
    vocabulary = learn("de-en")
    vocabulary.save(tmp_path / "vocabulary.json")
    again = Vocabulary.load(tmp_path / "vocabulary.json")
    assert again.fingerprint == vocabulary.fingerprint
    other = again.in_direction("en-de")
    assert (again.direction, other.direction, other.fingerprint) == ("de-en", "en-de", again.fingerprint)
    (forth,), (back,) = again.encode_source(["Hunde"]), other.encode_source(["Hunde"])
    assert forth[1:] == back[1:] == again.encode(["Hunde"])[0]
    assert len({forth[0], back[0], *range(4)}) == 6
    assert again.decode([forth]) == ["Hunde"]
    assert len(again) == 330
    assert again.encode_source([""]) == [[]]
    # Text that looks like the direction's token is encoded as text.
    assert forth[0] not in again.encode(["<to-english>"])[0]


def test_vocabularies_of_one_direction_have_none_to_select() -> None:
    vocabulary = learn()
    assert vocabulary.in_direction("en-de") is vocabulary


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"kind": "runes"}', '{"kind": "words", "source": {}, "target": {}}', "\0"]
)
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_text(content)
    with pytest.raises(BadInputError, match=r"vocabulary\.json: not a vocabulary written by a run"):
        Vocabulary.load(path)


def test_a_missing_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot read the run's vocabulary"):
        Vocabulary.load(tmp_path / "vocabulary.json")
