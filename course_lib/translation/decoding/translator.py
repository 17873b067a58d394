"""A trained run as a translator: text in, text out, and who looked at whom on the way."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.subwords import END, PAD, START, UNKNOWN
from course_lib.translation.data.vocabularies import TaggedSubwords, Vocabularies, Vocabulary
from course_lib.translation.decoding import BatchDecoder, Ensemble, Hypothesis, SearchSettings, ready
from course_lib.translation.decoding.attention_maps import attention_maps
from course_lib.translation.decoding.saved_settings import read_search
from course_lib.translation.model.trainable import build_transformer
from course_lib.translation.training.checkpoints.trained_run import TrainedRun, load_trained_run
from course_lib.translation.training.run_folder import RunFolder

#: Section 6.1 of the paper, "chosen after experimentation"; for models that were not tuned.
PAPERS_ALPHA = 0.6


@dataclass(frozen=True)
class Translation:
    """One translation of a sentence, out of the n best."""

    text: str
    score: float
    """The log-probability over the length penalty: the best translation has the highest."""
    log_probability: float
    """In nats, the end symbol counted."""
    tokens: list[str]
    """What the text is made of; the last is the end symbol, where the model wrote it."""


@dataclass(frozen=True)
class AttentionMaps:
    """All attention weights of one sentence and its translation, after the softmax; rows sum to one.

    N layers, H heads, S tokens of the source, T tokens of the target. Row i belongs to query i.
    """

    source_tokens: list[str]
    """The S tokens that the encoder reads, start and end included."""
    target_tokens: list[str]
    """The T tokens that the decoder reads, the start included."""
    predicted_tokens: list[str]
    """The T tokens that follow: at row i the decoder has read target token i to write predicted token i."""
    encoder_self: Float[Tensor, "N H S S"]
    decoder_self: Float[Tensor, "N H T T"]
    cross: Float[Tensor, "N H T S"]


class Translator:
    """A model with its vocabularies, ready to translate. `load_translator` makes one of a run."""

    def __init__(
        self,
        model: Any,
        config: RunConfig,
        vocabularies: Vocabularies,
        settings: SearchSettings,
        device: torch.device,
    ) -> None:
        self.model = model
        """A Transformer, or an `Ensemble` of several."""
        self.config = config
        self.vocabularies = vocabularies
        self.settings = settings
        """How to search where nothing else is asked for."""
        self.device = device
        self._decoder = BatchDecoder(
            vocabularies,
            device,
            config.data.max_length,
            config.evaluation.tokens_per_batch,
        )
        self._ready = ready(model, config.training.precision)

    @overload
    def translate(
        self, sentences: Sequence[str], beam: int | None = None, alpha: float | None = None
    ) -> list[str]: ...

    @overload
    def translate(
        self, sentences: Sequence[str], beam: int | None = None, alpha: float | None = None, *, n_best: int
    ) -> list[list[Translation]]: ...

    def translate(
        self,
        sentences: Sequence[str],
        beam: int | None = None,
        alpha: float | None = None,
        *,
        n_best: int | None = None,
    ) -> list[str] | list[list[Translation]]:
        """Translate German sentences: a text for each, in their order, or with `n_best` the best few.

        `beam` and `alpha`, where they are not given, are those of the run; a beam of 1 is greedy decoding. An
        empty sentence has an empty translation. Raises ValueError for a beam, alpha or n_best that cannot be.
        """
        if beam is None:
            beam = max(self.settings.beam, n_best or 1)
        alpha = self.settings.alpha if alpha is None else alpha
        settings = SearchSettings(beam, alpha, 1 if n_best is None else n_best)
        found = self._decoder.decode_all(self._ready, self._ids(sentences), settings)
        if n_best is None:
            # A model whose numbers are no numbers may find nothing at all.
            best = [hypotheses[0].ids if hypotheses else [] for hypotheses in found]
            return self.vocabularies.target.decode(best)
        return [[self._translation(each) for each in hypotheses] for hypotheses in found]

    def attention(self, german: str, english: str | None = None) -> AttentionMaps:
        """Show who looks at whom while this sentence is translated; into `english`, where it is given.

        Of several models, the first is shown.
        """
        ids = self.vocabularies
        (source,) = self._ids([german])
        if english is None:
            ((best, *_),) = self._decoder.decode_all(self._ready, [source], self.settings)
            target = best.ids if best.ids[-1:] != [ids.end_id] else best.ids[:-1]
        else:
            (target,) = ids.target.encode([english])
        longest = self.config.data.max_length - 2
        source = [ids.start_id, *source[:longest], ids.end_id]
        written = [ids.start_id, *target]
        encoder_self, decoder_self, cross = attention_maps(
            self.model[0] if isinstance(self.model, Ensemble) else self.model,
            torch.tensor([source], device=self.device),
            torch.tensor([written], device=self.device),
        )
        return AttentionMaps(
            source_tokens=token_texts(ids.source, source),
            target_tokens=token_texts(ids.target, written),
            predicted_tokens=token_texts(ids.target, [*target, ids.end_id]),
            encoder_self=encoder_self,
            decoder_self=decoder_self,
            cross=cross,
        )

    def too_long(self, sentences: Sequence[str]) -> dict[int, int]:
        """Say which sentences are longer than the model has ever read, and how many tokens they have.

        Of these, the first `config.data.max_length` tokens are translated, start and end counted.
        """
        lengths = [len(ids) + 2 for ids in self._ids(sentences)]
        return {place: length for place, length in enumerate(lengths) if length > self.config.data.max_length}

    def _ids(self, sentences: Sequence[str]) -> list[list[int]]:
        # What is nothing but spaces has no words to translate, whatever tokens it has.
        return [
            ids if sentence.strip() else []
            for sentence, ids in zip(sentences, self.vocabularies.source.encode(sentences), strict=True)
        ]

    def _translation(self, found: Hypothesis) -> Translation:
        target = self.vocabularies.target
        (text,) = target.decode([found.ids])
        return Translation(text, found.score, found.log_probability, token_texts(target, found.ids))


def token_texts(vocabulary: Vocabulary, ids: Sequence[int]) -> list[str]:
    """Write each token by itself, for people to read."""
    special = {
        vocabulary.pad_id: PAD,
        vocabulary.start_id: START,
        vocabulary.end_id: END,
        vocabulary.unknown_id: UNKNOWN,
    }
    if isinstance(vocabulary, TaggedSubwords):
        number = vocabulary.subwords.id_of(vocabulary.tag)
        assert number is not None, "the source begins with it"
        special[number] = vocabulary.tag
    texts = vocabulary.decode([[number] for number in ids])
    return [special.get(number, text) for number, text in zip(ids, texts, strict=True)]


def load_translator(
    run_folder: str | Path,
    checkpoint: str | None = None,
    device: str | torch.device = "cpu",
    together_with: Sequence[str | Path] = (),
) -> Translator:
    """Read a translator from the folder of a run, which may still be going on.

    `checkpoint` is last, best, averaged or a model's path; without it, what the run's config says, or the
    last where the run has not come to that yet. `device` is cpu, cuda or auto. The models of the runs in
    `together_with`, each the one that its own config says, decide on each word together with it. Raises
    BadInputError where a run, the model or the device is not there, or where the vocabularies differ.
    """
    folder = RunFolder(Path(run_folder))
    run = load_trained_run(folder, checkpoint)
    vocabularies, config, place = run.vocabularies, run.model.config, _device(device)
    model = _model(folder, run)
    if together_with:
        model = Ensemble([model, *(_member(RunFolder(Path(other)), run) for other in together_with)])
    alpha = PAPERS_ALPHA if config.evaluation.alpha == "auto" else config.evaluation.alpha
    settings = read_search(folder.search) or SearchSettings(config.evaluation.beam_size, alpha)
    return Translator(model.to(place), config, vocabularies, settings, place)


def _member(folder: RunFolder, first: TrainedRun) -> Any:
    """Read the model of another run that has the vocabularies of the first."""
    run = load_trained_run(folder)
    if run.vocabularies.fingerprint != first.vocabularies.fingerprint:
        raise BadInputError(
            f"{folder.path}: expected a run with the same vocabulary, so that both mean the same word by a "
            "number; came one with another: train it on the same data with the same keys of data"
        )
    was, now = first.model.config.data.max_length, run.model.config.data.max_length
    if now < was:
        raise BadInputError(f"{folder.path}: expected a model that reads {was} tokens, came one of {now}")
    return _model(folder, run)


def _model(folder: RunFolder, run: TrainedRun) -> Any:
    config, vocabularies = run.model.config, run.vocabularies
    model = build_transformer(config.model, len(vocabularies.source), len(vocabularies.target))
    if config.training.precision == "float64":
        model.double()
    try:
        model.load_state_dict(run.model.weights)
    except RuntimeError:
        raise BadInputError(
            f"{folder.path}: expected weights by the names of the reference's Transformer, came others"
        ) from None
    return model


def _device(name: str | torch.device) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise BadInputError(f"device: expected cpu, cuda or auto, came {name}") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BadInputError("device: cuda was asked for, but there is no GPU here; give cpu or auto")
    return device
