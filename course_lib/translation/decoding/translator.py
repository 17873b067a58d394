"""Translation of text with the trained model of a run, a provided model or an ensemble."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Literal

import torch

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.provided import load_run
from course_lib.translation.checkpoints.trained_model import TrainedRun
from course_lib.translation.configs.schema import Direction, RunConfig
from course_lib.translation.data.vocabulary import SPECIALS, TAGS, Vocabulary
from course_lib.translation.decoding.attention_maps import AttentionMaps, record_attention
from course_lib.translation.decoding.backends import Ensemble, make_backend
from course_lib.translation.decoding.batch_decoder import BatchDecoder
from course_lib.translation.decoding.search_settings import Hypothesis, SearchSettings, load_settings
from course_lib.translation.model.devices import device_named
from course_lib.translation.model.precision import choose_kernels, has_bfloat16
from course_lib.translation.model.seq2seq import TransformerModel, build_model

#: The precisions that a user can choose for decoding.
DecodingPrecision = Literal["float32", "bfloat16"]

#: A pattern for two adjacent characters of a word. U+FFFD belongs to words, because it is decoded from the
#: bytes of an incomplete character.
_INSIDE_WORD = re.compile(r"[\w\ufffd]{2}")

#: The length penalty of section 6.1 of the paper, for models without a tuned one.
DEFAULT_ALPHA = 0.6


@dataclass(frozen=True)
class Translation:
    """One of the n best translations of a sentence."""

    text: str
    score: float
    """The log-probability divided by the length penalty: higher is better."""
    log_probability: float
    """The log-probability in nats."""
    tokens: list[str]
    """The tokens, as in `token_texts`. The last one is the end token, if the model predicted it."""


class Translator:
    """A model with its vocabulary, ready to translate. `load_translator` creates one from a run."""

    def __init__(
        self,
        model: TransformerModel | Ensemble,
        config: RunConfig,
        vocabulary: Vocabulary,
        settings: SearchSettings,
        device: torch.device,
        precision: DecodingPrecision | None = None,
    ) -> None:
        self.model = model
        self.config = config
        self.vocabulary = vocabulary
        self.settings = settings
        """The default search settings."""
        self.device = device
        self._decoder = BatchDecoder(vocabulary, device, config.data.max_length, config.evaluation)
        self._backend = make_backend(
            model, precision or config.training.precision, any_size=precision is not None
        )

    @property
    def direction(self) -> Direction:
        """The direction of translation."""
        return self.vocabulary.direction or self.config.data.direction

    def translate(
        self, sentences: Sequence[str], beam: int | None = None, alpha: float | None = None
    ) -> list[str]:
        """Translate sentences. Return one text for each sentence.

        `beam` and `alpha` default to the translator's settings. A beam of 1 is greedy decoding. The
        translation of an empty sentence is empty. Sentences that exceed the model's maximum length are
        truncated; `too_long` finds them. Raises ValueError if `beam` or `alpha` is out of range.
        """
        found = self._decode(sentences, self.settings.override(beam, alpha, None))
        # The search may find no hypothesis if the weights of the model are NaN.
        best = [hypotheses[0].ids if hypotheses else [] for hypotheses in found]
        return self.vocabulary.decode(best)

    def n_best(
        self, sentences: Sequence[str], count: int, beam: int | None = None, alpha: float | None = None
    ) -> list[list[Translation]]:
        """Return the `count` best translations of each sentence, otherwise like `translate`.

        The default beam is at least `count`. Raises ValueError if `count`, `beam` or `alpha` is out of range.
        """
        found = self._decode(sentences, self.settings.override(beam, alpha, count))
        return [[self._translation(each) for each in hypotheses] for hypotheses in found]

    def attention(self, sentence: str, translation: str | None = None) -> AttentionMaps:
        """Return the attention weights for a sentence and its translation.

        If `translation` is None, the sentence is translated first, with the translator's default search
        settings. A sentence that exceeds the model's maximum length is truncated. For an ensemble, the
        weights are those of the first model.
        """
        ids = self.vocabulary
        (source,) = self._ids([sentence])
        if translation is None:
            (found,) = self._decoder.decode_all(self._backend, [source], self.settings)
            target = found[0].ids if found else []  # The search may find no hypothesis, as in `translate`.
            target = target[:-1] if target[-1:] == [ids.end_id] else target
        else:
            (target,) = ids.encode([translation])
        longest = self.config.data.max_length - 2
        source = [ids.start_id, *source[:longest], ids.end_id]
        prefix = [ids.start_id, *target]
        encoder_self, decoder_self, cross = record_attention(
            self.model.members[0] if isinstance(self.model, Ensemble) else self.model,
            torch.tensor([source], device=self.device),
            torch.tensor([prefix], device=self.device),
        )
        return AttentionMaps(
            source_tokens=token_texts(ids, source),
            target_tokens=token_texts(ids, prefix),
            predicted_tokens=token_texts(ids, [*target, ids.end_id]),
            encoder_self=encoder_self,
            decoder_self=decoder_self,
            cross=cross,
        )

    def too_long(self, sentences: Sequence[str]) -> dict[int, int]:
        """Return the lengths in tokens of the sentences that are too long for the model, by index.

        A sentence is too long if it has more than `config.data.max_length` tokens, including the start and
        end tokens. The excess tokens are not translated.
        """
        lengths = [len(ids) + 2 for ids in self._ids(sentences)]
        return {index: length for index, length in enumerate(lengths) if length > self.config.data.max_length}

    def mostly_unknown(self, sentences: Sequence[str]) -> list[int]:
        """Return the indices of the sentences that consist mostly of characters unknown to the vocabulary.

        Such a character is encoded as several tokens, and each of them is only a part of the character.
        """
        return [
            index
            for index, ids in enumerate(self._ids(sentences))
            if 2 * sum(number in self._incomplete_characters for number in ids) > len(ids)
        ]

    @cached_property
    def _incomplete_characters(self) -> set[int]:
        texts = self.vocabulary.decode([[number] for number in range(len(self.vocabulary))])
        return {number for number, text in enumerate(texts) if "\ufffd" in text}

    def _decode(self, sentences: Sequence[str], settings: SearchSettings) -> list[list[Hypothesis]]:
        return self._decoder.decode_all(self._backend, self._ids(sentences), settings)

    def _ids(self, sentences: Sequence[str]) -> list[list[int]]:
        # A sentence of spaces would be encoded as tokens, but its translation should be empty.
        return [
            ids if sentence.strip() else []
            for sentence, ids in zip(sentences, self.vocabulary.encode_source(sentences), strict=True)
        ]

    def _translation(self, found: Hypothesis) -> Translation:
        (text,) = self.vocabulary.decode([found.ids])
        tokens = token_texts(self.vocabulary, found.ids)
        return Translation(text, found.score, found.log_probability, tokens)


def token_texts(vocabulary: Vocabulary, ids: Sequence[int]) -> list[str]:
    """Return the readable text of each token, with a "+" before a subword that continues a word.

    Special tokens have names such as "<end>".
    """
    special = {vocabulary.tokenizer.token_to_id(token): token for token in (*SPECIALS, *TAGS.values())}
    texts = vocabulary.decode([[number] for number in ids])
    shown = texts[:1]
    # The space before a word is part of its first token, but `decode` removes it at the beginning of a text.
    # So decode each token together with the one before it, which shows whether there is a space between them.
    pairs = vocabulary.decode(list(pairwise(ids)))
    for (left, right), both in zip(pairwise(texts), pairs, strict=True):
        is_joined = both != f"{left} {right}" and _INSIDE_WORD.fullmatch(left[-1:] + right[:1])
        shown.append(f"+{right}" if is_joined else right)
    return [special.get(number, text) for number, text in zip(ids, shown, strict=True)]


def load_translator(
    run_folder: str | Path,
    checkpoint: str | None = None,
    device: str | torch.device = "cpu",
    ensemble_with: Sequence[str | Path] = (),
    direction: Direction | None = None,
    precision: DecodingPrecision | None = None,
) -> Translator:
    """Load a translator from a provided model, or from the folder of a run, which may still be training.

    `checkpoint` is last, best, averaged or the path of a model. By default, it is the one that
    `evaluation.weights` names in the run's config, or the first of last, best and averaged that exists if
    that one hasn't been saved yet. `device` is cpu, cuda or auto. `direction` selects a direction of a run
    that was trained in both; it defaults to the direction in the run's config. `ensemble_with` holds the
    folders or names of other runs and provided models that decode together with this one. `precision` is the
    precision of decoding. By default, it depends on the training precision, the device and the model's size.

    Raises BadInputError if a run, a model or the device is missing, if a model is damaged, doesn't fit the
    reference's Transformer or wasn't trained for the direction, if `checkpoint` is set for a provided model,
    if another model of the ensemble has a different vocabulary or a smaller maximum length, or if the device
    doesn't support the precision; and OSError if the run's search settings cannot be read.
    """
    run = load_run(run_folder, checkpoint)
    if direction is not None:
        run = _in_direction(run, direction)
    config, target_device = run.model.config, device_named(device)
    if precision == "bfloat16" and not has_bfloat16(target_device):
        raise BadInputError(
            "--precision: this device doesn't support bfloat16 matrix multiplication. Use float32."
        )
    if target_device.type == "cuda":
        choose_kernels(config.training.precision, target_device)
    first = _build(run, target_device)
    others = [_load_member(other, run, target_device) for other in ensemble_with]
    model: TransformerModel | Ensemble = Ensemble([first, *others]) if others else first
    alpha = DEFAULT_ALPHA if config.evaluation.alpha == "auto" else config.evaluation.alpha
    settings = load_settings(run.folder.search) or SearchSettings(config.evaluation.beam_size, alpha)
    return Translator(model, config, run.vocabulary, settings, target_device, precision)


def _in_direction(run: TrainedRun, direction: Direction) -> TrainedRun:
    trained = run.model.config.data.direction
    if direction != trained and run.vocabulary.direction is None:
        raise BadInputError(
            f"{run.folder.path}: this run translates {trained} only, not {direction}. Train a run with "
            f"data.direction={direction} or data.both_directions=true."
        )
    return replace(run, vocabulary=run.vocabulary.in_direction(direction))


def _load_member(name: str | Path, first: TrainedRun, device: torch.device) -> TransformerModel:
    """Load the model of another run, for an ensemble with the first run's model.

    Raises BadInputError if the other run cannot be loaded, or if it has a different vocabulary or direction
    or a smaller maximum length.
    """
    run = load_run(name)
    ours, theirs = first.model.config.data.direction, run.model.config.data.direction
    if ours != theirs and run.vocabulary.direction is None:
        raise BadInputError(
            f"{run.folder.path}: this run translates {theirs}, but the first run translates {ours}."
        )
    if run.vocabulary.fingerprint != first.vocabulary.fingerprint:
        raise BadInputError(
            f"{run.folder.path}: this run's vocabulary differs from the first run's, so a token id "
            "means a different word. Train it on the same data with the same settings in the data section."
        )
    expected, got = first.model.config.data.max_length, run.model.config.data.max_length
    if got < expected:
        raise BadInputError(
            f"{run.folder.path}: this model reads {got} tokens, but the first one reads {expected}. Pass the "
            "run with the smaller data.max_length first."
        )
    return _build(run, device)


def _build(run: TrainedRun, device: torch.device) -> TransformerModel:
    config, size = run.model.config, len(run.vocabulary)
    model = build_model(config.model, size, size, config.training.precision, device)
    try:
        model.load_state_dict(run.model.weights)
    except RuntimeError:
        raise BadInputError(
            f"{run.folder.path}: the weights don't fit the reference's Transformer: their names or shapes "
            "differ. Choose another run."
        ) from None
    return model
