"""Word vocabularies: split by spaCy, learned from the training split, and decoded without a detokeniser."""

import subprocess
import sys
from pathlib import Path

import pytest
import spacy

from course_lib.transformer.vocabulary import build_vocabulary
from course_lib.translation.data.corpora.published import MULTI30K
from course_lib.translation.data.subwords import SPECIALS
from course_lib.translation.data.words import Words

ENGLISH = [
    "He isn't here, is he?",
    "They aren't (all) here.",
    "Isn't it (all) here?",
    "It is (not) here, isn't it?",
    "We are here.",
    "Are they here, too?",
]


def test_the_words_are_those_of_lesson_10() -> None:
    tokenizer = spacy.blank("en").tokenizer
    split = [[token.text for token in tokenizer(sentence)] for sentence in ENGLISH]
    expected = build_vocabulary(split, 2, SPECIALS)
    words = Words.learn(ENGLISH, "en", min_count=2)
    assert len(words) == len(expected)
    rows = [[expected.get(word, 3) for word in sentence] for sentence in split]
    assert words.encode(ENGLISH) == rows
    assert 3 in rows[0], "a rare word is unknown"


def test_known_words_come_back_with_the_spaces_that_people_put() -> None:
    words = Words.learn(ENGLISH, "en", min_count=1)
    assert words.decode(words.encode(ENGLISH)) == ENGLISH
    # A sentence that wasn't in the training data.
    assert words.decode(words.encode(["Aren't they (too) here?"])) == ["Aren't they (too) here?"]


def test_captions_come_back_letter_by_letter(published: Path) -> None:
    corpus = MULTI30K.load(published)
    words = Words.learn(corpus.train.english, "en", min_count=2)
    rows = zip(corpus.test.english, words.encode(corpus.test.english), strict=True)
    known = [(sentence, ids) for sentence, ids in rows if words.unknown_id not in ids]
    assert len(known) > 700
    back = words.decode([ids for _, ids in known])
    assert sum(text == sentence for text, (sentence, _) in zip(back, known, strict=True)) > 0.99 * len(known)


def test_german_and_english_have_tokenizers_of_their_own() -> None:
    abbreviated = "Er kam z.B. gestern."
    words = Words.learn([abbreviated], "de", min_count=1)
    assert len(words.encode([abbreviated])[0]) == 5
    assert words.decode(words.encode([abbreviated])) == [abbreviated]


@pytest.mark.parametrize(
    "text", ["", "日本 ☃", "<pad> <start> <end> <unknown>", "two  spaces\tand a tab", "he " * 10_000]
)
def test_any_text_becomes_words_and_never_a_special_symbol(text: str) -> None:
    words = Words.learn(ENGLISH, "en", min_count=1)
    (ids,) = words.encode([text])
    assert not set(ids) & {words.pad_id, words.start_id, words.end_id}
    (back,) = words.decode([ids])
    assert back.count("<unknown>") == ids.count(words.unknown_id)


def test_decoding_leaves_out_start_end_and_padding() -> None:
    words = Words.learn(ENGLISH, "en", min_count=1)
    (ids,) = words.encode(["We are here."])
    assert words.decode([[words.start_id, *ids, words.end_id, words.pad_id]]) == ["We are here."]


def test_without_spacy_words_are_refused_and_subwords_are_not() -> None:
    code = """
import sys
sys.modules["spacy"] = None
from course_lib.translation.configs.schema import DataConfig
from course_lib.errors import BadInputError
from course_lib.translation.data.corpora.parallel_text import ParallelText
from course_lib.translation.data.vocabularies import learn_vocabularies
text = ParallelText(["eins"], ["one"])
print(len(learn_vocabularies(text, DataConfig(corpus="captions")).source))
try:
    learn_vocabularies(text, DataConfig(corpus="captions", tokenizer="words"))
except BadInputError as error:
    print(error)
"""
    lines = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    size, message = lines.splitlines()
    assert int(size) > 256
    assert message.startswith("data.tokenizer: 'words' needs spaCy, which is not installed; install it")
