"""A run's folder is sufficient to translate as the run did."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.checkpoints.trained_model import load_model, save_model
from course_lib.translation.data.vocabulary import END, START, TAGS, Vocabulary
from course_lib.translation.decoding import translator as decoding_translator
from course_lib.translation.decoding.search_settings import SearchSettings, load_settings, save_settings
from course_lib.translation.decoding.translator import (
    DecodingPrecision,
    Translator,
    load_translator,
    token_texts,
)
from course_lib.translation.model.precision import has_bfloat16

GERMAN = ["zwei rote Hunde.", "drei große Bäume und vier schöne Züge."]


def test_it_translates_the_test_split_as_the_run_did(trained_folder: Path, translator: Translator) -> None:
    run = RunFolder(trained_folder)
    german = (trained_folder.parent / "corpus" / "test.de").read_text("utf-8").splitlines()
    assert translator.translate(german) == run.translations.read_text("utf-8").splitlines()
    last = json.loads(run.metrics.read_text("utf-8").splitlines()[-1])
    assert translator.settings == SearchSettings(last["beam"], last["alpha"]) == load_settings(run.search)


def test_each_sentence_keeps_its_place(translator: Translator) -> None:
    alone = [translator.translate([sentence])[0] for sentence in GERMAN]
    assert alone[0] != alone[1]
    mixed = ["", GERMAN[1], " \t", GERMAN[0], GERMAN[1], ""]
    assert translator.translate(mixed) == ["", alone[1], "", alone[0], alone[1], ""]
    assert translator.translate([]) == []


def test_n_best_come_with_scores_and_tokens(translator: Translator) -> None:
    for sentence, found in zip(GERMAN, translator.n_best(GERMAN, 3, beam=4), strict=True):
        assert len(found) == 3
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
        assert found[0].text == translator.translate([sentence], beam=4)[0]
        for each in found:
            assert each.log_probability <= each.score < 0
            words = each.tokens[:-1] if each.tokens[-1] == "<end>" else each.tokens
            assert "".join(words).replace("+", "") == each.text.replace(" ", "")
    ((only,),) = translator.n_best([""], 1)
    assert (only.text, only.score, only.tokens) == ("", 0.0, [])


def test_more_are_asked_for_than_the_run_has_beams(translator: Translator) -> None:
    (found,) = translator.n_best(GERMAN[:1], 6)
    assert len({tuple(each.tokens) for each in found}) == 6
    with pytest.raises(ValueError, match="n_best: expected a number from 1 to the beam, which is 2, got 3"):
        translator.n_best(GERMAN, 3, beam=2)


def test_long_sentences_and_strange_letters_are_no_harm(translator: Translator) -> None:
    long, strange = "Hunde " * 10_000, "\U0001f600 \u4f60\u597d \x00 <pad>"
    translations = translator.translate([long, strange, GERMAN[0]])
    assert translations[2] == translator.translate(GERMAN[:1])[0]
    ((place, length),) = translator.too_long([strange[:4], long]).items()
    assert place == 1
    assert length >= 10_000
    # Only the beginning of a long sentence is translated, so the rest makes no difference.
    assert translator.translate([long + "Züge."])[0] == translations[0]


def test_attention_of_a_sentence_and_its_translation(translator: Translator) -> None:
    maps = translator.attention(GERMAN[0])
    source, target = len(maps.source_tokens), len(maps.target_tokens)
    assert maps.source_tokens[0] == maps.target_tokens[0] == "<start>"
    assert maps.source_tokens[-1] == maps.predicted_tokens[-1] == "<end>"
    assert maps.target_tokens[1:] == maps.predicted_tokens[:-1]
    read, written = ("".join(each).replace("+", "") for each in (maps.source_tokens, maps.predicted_tokens))
    assert read == f"<start>{GERMAN[0].replace(' ', '')}<end>"
    assert written == f"{translator.translate(GERMAN[:1])[0].replace(' ', '')}<end>"
    assert maps.encoder_self.shape == (1, 2, source, source)
    assert maps.decoder_self.shape == (1, 2, target, target)
    assert maps.cross.shape == (1, 2, target, source)
    torch.testing.assert_close(maps.cross.sum(-1), torch.ones(1, 2, target))


def test_attention_of_a_translation_that_is_given(translator: Translator) -> None:
    maps = translator.attention(GERMAN[0], "two dogs")
    assert " ".join(maps.predicted_tokens).replace(" +", "") == "two dogs <end>"
    empty = translator.attention("", "")
    assert (empty.source_tokens, empty.target_tokens) == (["<start>", "<end>"], ["<start>"])


def test_the_model_that_is_asked_for_is_taken(trained_folder: Path, translator: Translator) -> None:
    def weight(checkpoint: str | None) -> torch.Tensor:
        return load_translator(trained_folder, checkpoint).model.generator.weight

    last, averaged = weight("last"), weight("averaged")
    assert not torch.equal(last, averaged)
    assert torch.equal(weight(None), last), "the config uses the last"
    assert torch.equal(weight(str(RunFolder(trained_folder).model("averaged"))), averaged)


def test_a_source_starts_with_the_target_language() -> None:
    vocabulary = Vocabulary.learn(["ein Hund", "a dog"], 300, "de-en")
    (ids,) = vocabulary.encode_source(["ein Hund"])
    texts = token_texts(vocabulary, [vocabulary.start_id, *ids, vocabulary.end_id])
    assert (texts[:2], texts[-1]) == ([START, TAGS["de-en"]], END)
    assert " ".join(texts[2:-1]).replace(" +", "") == "ein Hund"


def test_tokens_inside_a_word_are_marked() -> None:
    subwords = Vocabulary.learn(["ein Hund", "a dog"], 300)
    (ids,) = subwords.encode(["dogs, (Hunde) aü a2."])
    texts = [text for text in token_texts(subwords, ids) if text]  # a space may be a separate token
    assert " ".join(texts).replace(" +", "") == "dogs , ( Hunde ) a\ufffd\ufffd a2 ."


def test_without_the_runs_settings_the_configs_hold(trained_folder: Path) -> None:
    kept = RunFolder(trained_folder).search
    content = kept.read_text("utf-8")
    try:
        kept.unlink()
        assert load_translator(trained_folder).settings == SearchSettings(3, 0.6)
        save_settings(kept, SearchSettings(2, 1.5))
        assert load_translator(trained_folder).settings == SearchSettings(2, 1.5)
        for invalid in ('{"beam": -1}', '{"beam": 2.5}', '{"beam": 2, "n_best": "1"}', '{"alpha": "1"}'):
            kept.write_text(invalid, "utf-8")
            with pytest.raises(BadInputError, match="this file doesn't contain valid search settings"):
                load_translator(trained_folder)
    finally:
        kept.write_text(content, "utf-8")


def test_a_settings_file_that_cannot_be_read_is_not_called_invalid(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        load_settings(tmp_path)


def test_what_is_not_there_is_refused(trained_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="there is no such folder"):
        load_translator(tmp_path / "nowhere")
    with pytest.raises(BadInputError, match="A run can translate after its first epoch"):
        load_translator(tmp_path)
    with pytest.raises(BadInputError, match="the run has no averaged model; it has none yet"):
        load_translator(tmp_path, "averaged")
    with pytest.raises(BadInputError, match=r"model\.pt: there is no such file"):
        load_translator(trained_folder, str(tmp_path / "model.pt"))
    with pytest.raises(BadInputError, match="device: expected cpu, cuda or auto, got toaster"):
        load_translator(trained_folder, device="toaster")
    if not torch.cuda.is_available():
        with pytest.raises(BadInputError, match="there is no GPU on this machine"):
            load_translator(trained_folder, device="cuda")


def test_the_precision_of_decoding(trained_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def log_probabilities(precision: DecodingPrecision | None) -> list[float]:
        found = load_translator(trained_folder, precision=precision).n_best(GERMAN, 1, beam=1)
        return [best.log_probability for (best,) in found]

    exact = log_probabilities("float32")
    assert log_probabilities(None) == exact, "this model is small and was trained in float32"
    if has_bfloat16(torch.device("cpu")):
        assert log_probabilities("bfloat16") != exact
    monkeypatch.setattr(decoding_translator, "has_bfloat16", lambda device: False)
    with pytest.raises(
        BadInputError, match=r"precision: this device doesn.t support bfloat16 .* Use float32"
    ):
        log_probabilities("bfloat16")


def test_weights_that_do_not_belong_are_refused(trained_folder: Path, tmp_path: Path) -> None:
    model = load_model(RunFolder(trained_folder).model("last"))
    path = tmp_path / "model.pt"
    save_model(path, replace(model, vocabulary="of another run"))
    with pytest.raises(BadInputError, match="the model was trained with a different vocabulary"):
        load_translator(trained_folder, str(path))
    save_model(path, replace(model, weights={"a": torch.zeros(1)}))
    with pytest.raises(BadInputError, match="the weights don't fit the reference's Transformer"):
        load_translator(trained_folder, str(path))
