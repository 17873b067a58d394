"""A run from corpus to score, and the folder that keeps it."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from course_lib.atomic_files import atomic_write_text
from course_lib.translation.batches import IdPair
from course_lib.translation.checkpoint import load_checkpoint, refuse_other_config, save_checkpoint
from course_lib.translation.config import RunConfig, TrainingConfig, documented_yaml
from course_lib.translation.corpora import load_corpus
from course_lib.translation.distributed import Place, first_then_rest
from course_lib.translation.errors import BadInputError
from course_lib.translation.evaluation import Evaluator
from course_lib.translation.metrics import MetricsLog
from course_lib.translation.parallel_text import Corpus, ParallelText
from course_lib.translation.progress import RunDisplay
from course_lib.translation.scoring import Score, score
from course_lib.translation.subwords import Subwords
from course_lib.translation.training import Trainer


@dataclass(frozen=True)
class RunFolder:
    """The files of a run."""

    path: Path

    @property
    def config(self) -> Path:
        """The config with every key, overrides included."""
        return self.path / "config.yaml"

    @property
    def subwords(self) -> Path:
        """The vocabulary."""
        return self.path / "subwords.json"

    @property
    def metrics(self) -> Path:
        """One JSON object a line."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoint(self) -> Path:
        """Weights, optimiser, schedule and position."""
        return self.path / "checkpoint.pt"

    @property
    def translations(self) -> Path:
        """The test split in English, one sentence a line."""
        return self.path / "translations.txt"


@dataclass(frozen=True)
class Result:
    """What a finished run has come to."""

    score: Score
    """BLEU on the test split."""
    sources: list[str]
    translations: list[str]
    references: list[str]
    folder: RunFolder


def train(config: RunConfig, place: Place) -> Result:
    """Train, score and translate as the config says; a run that was stopped goes on from its checkpoint.

    Every process of the run calls it. Raises BadInputError before anything is written where the config cannot
    be met.
    """
    device = first_then_rest(place, lambda: choose_device(config.training, place))
    share_cores(config.training, place)
    corpus = first_then_rest(place, lambda: load_corpus(config.data))
    folder = RunFolder(Path(config.run_folder))
    subwords, state = first_then_rest(place, lambda: _open(folder, config, corpus, place))

    trainer = Trainer(config, _encode(subwords, corpus.train), subwords, place, device)
    if state is not None:
        trainer.load(state["trainer"])
    updates = config.training.epochs * len(trainer.plan())
    keep_bytes = state["metrics_bytes"] if state else 0
    with (
        MetricsLog(folder.metrics, keep_bytes) if place.is_first else contextlib.nullcontext() as log,
        RunDisplay(updates, trainer.step, speaks=place.is_first) as display,
    ):
        display.say(_opening(config, corpus, subwords, trainer, place, device))
        evaluator = Evaluator(config, subwords, place, device)
        session = _Session(config, folder, corpus, subwords, trainer, evaluator, display, log)
        session.train()
        return session.test()


class _Session:
    """The epochs of a run, with all that is kept, scored and shown on the way."""

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        corpus: Corpus,
        subwords: Subwords,
        trainer: Trainer,
        evaluator: Evaluator,
        display: RunDisplay,
        log: MetricsLog | None,
    ) -> None:
        self._config = config
        self._folder = folder
        self._corpus = corpus
        self._subwords = subwords
        self._trainer = trainer
        self._display = display
        self._log = log
        self._evaluator = evaluator
        self._validation = _encode(subwords, corpus.validation)

    def train(self) -> None:
        """Make the updates that are still to be made."""
        trainer, training = self._trainer, self._config.training
        while trainer.epochs_done < training.epochs:
            plan = trainer.plan()
            while trainer.updates_done < len(plan):
                rate = trainer.update(plan[trainer.updates_done])
                self._display.advance()
                last_of_epoch = trainer.updates_done == len(plan)
                if trainer.step % training.log_every == 0 or last_of_epoch:
                    self._record({"rate": rate, **trainer.window.close()})
                if trainer.step % training.checkpoint_every == 0 and not last_of_epoch:
                    self._save()
            trainer.end_epoch()
            self._validate()
            self._save()
            trainer.window.restart_clock()

    def test(self) -> Result:
        """Translate the test split, keep the translations and score them."""
        test = self._corpus.test
        translations = self._evaluator.translate(self._trainer.model, self._subwords.encode(test.german))
        result = score(translations, test.english)
        self._record({"test_bleu": result.bleu, "signature": result.signature})
        if self._log is not None:
            # A line feed inside a translation would shift all sentences after it.
            lines = [" ".join(text.split("\n")) for text in translations]
            atomic_write_text(self._folder.translations, "\n".join(lines) + "\n")
        return Result(result, test.german, translations, test.english, self._folder)

    def _validate(self) -> None:
        model, epochs = self._trainer.model, self._trainer.epochs_done
        row: dict[str, Any] = {"validation_loss": self._evaluator.loss(model, self._validation)}
        every = self._config.evaluation.bleu_every
        if every and epochs % every == 0:
            translations = self._evaluator.translate(model, [source for source, _ in self._validation])
            row["bleu"] = score(translations, self._corpus.validation.english).bleu
        self._record(row, stays=True)

    def _record(self, values: dict[str, Any], stays: bool = False) -> None:
        epoch = self._trainer.epochs_done + (self._trainer.updates_done > 0)
        row = {"step": self._trainer.step, "epoch": epoch, **values}
        if self._log is not None:
            self._log.write(row)
        self._display.numbers(row, stays)

    def _save(self) -> None:
        # All processes take part in the first line; only the first one writes.
        state = self._trainer.state()
        if self._log is not None:
            save_checkpoint(
                self._folder.checkpoint,
                {
                    "config": self._config.model_dump(),
                    "subwords": self._subwords.fingerprint,
                    "trainer": state,
                    "metrics_bytes": self._log.position(),
                },
            )


def choose_device(config: TrainingConfig, place: Place) -> torch.device:
    """Give this process its own GPU, or the CPU. Raises BadInputError where there is no GPU to give."""
    if config.device == "cpu" or (config.device == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    gpus = torch.cuda.device_count()
    if place.local_world_size > gpus:
        raise BadInputError(
            f"training.device: expected a GPU for each of the {place.local_world_size} processes here, "
            f"came {gpus}; start fewer processes, or set training.device=cpu"
        )
    device = torch.device("cuda", place.local_rank)
    torch.cuda.set_device(device)
    return device


def share_cores(config: TrainingConfig, place: Place) -> None:
    """Give the processes of a machine equal shares of its cores; torchrun leaves each with one thread."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    elif place.local_world_size > 1:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        torch.set_num_threads(max(1, cores // place.local_world_size))


def _open(
    folder: RunFolder, config: RunConfig, corpus: Corpus, place: Place
) -> tuple[Subwords, dict[str, Any] | None]:
    if folder.checkpoint.exists():
        state = load_checkpoint(folder.checkpoint)
        refuse_other_config(folder.checkpoint, state["config"], config)
        subwords = Subwords.load(folder.subwords)
        if subwords.fingerprint != state["subwords"]:
            raise BadInputError(
                f"{folder.subwords}: expected the vocabulary of {folder.checkpoint}, came another one"
            )
        if place.is_first:
            atomic_write_text(folder.config, documented_yaml(config))
        return subwords, state
    if place.is_first:
        subwords = Subwords.learn([*corpus.train.german, *corpus.train.english], config.data.vocabulary_size)
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            subwords.save(folder.subwords)
            atomic_write_text(folder.config, documented_yaml(config))
        except OSError as error:
            raise BadInputError(f"{folder.path}: the run cannot be kept there ({error.strerror})") from None
    return Subwords.load(folder.subwords), None


def _encode(subwords: Subwords, text: ParallelText) -> list[IdPair]:
    return list(zip(subwords.encode(text.german), subwords.encode(text.english), strict=True))


def _opening(
    config: RunConfig,
    corpus: Corpus,
    subwords: Subwords,
    trainer: Trainer,
    place: Place,
    device: torch.device,
) -> str:
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    start = f"going on after update {trainer.step}" if trainer.step else "starting"
    batches = config.training.batches_per_update
    idle = (
        f"\nOnly {batches} of {place.world_size} processes have work in an update: "
        f"training.batches_per_update is {batches}."
        if batches < place.world_size
        else ""
    )
    return (
        f"{config.data.corpus}: {len(corpus.train):,} pairs to learn from, {len(subwords):,} subwords. "
        f"Model: {parameters:,} parameters in {config.training.precision} on {device.type}, "
        f"{place.world_size} {'process' if place.world_size == 1 else 'processes'}; {start}.{idle}"
    )
