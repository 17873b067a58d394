"""The epochs of a run, with all that is kept, scored and shown on the way.

What is written twice is written alike: a run that was killed makes the updates after its checkpoint again,
and writes the same rows and the same weights in the same places. So whatever belongs to a moment is written
before the checkpoint of that moment, never after. (On a GPU, alike up to the order in which some of PyTorch's
kernels add up.)
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.prepared import PreparedData
from course_lib.translation.decoding.saved_settings import write_search
from course_lib.translation.student_code.parts import OwnParts
from course_lib.translation.student_code.reference_view import reference_view
from course_lib.translation.student_code.search import Decode, own_search
from course_lib.translation.training.checkpoints.checkpoint import Checkpoints
from course_lib.translation.training.checkpoints.model_file import (
    TrainedModel,
    Use,
    load_trained,
    save_trained,
    trained_path,
)
from course_lib.translation.training.checkpoints.selection import Selection
from course_lib.translation.training.checkpoints.snapshots import Snapshots
from course_lib.translation.training.distributed import Place, first_then_rest, largest
from course_lib.translation.training.evaluation import Evaluator
from course_lib.translation.training.interruption import Interrupted, Interruption
from course_lib.translation.training.metrics import MetricsLog
from course_lib.translation.training.progress_bar import RunDisplay
from course_lib.translation.training.run_folder import RunFolder
from course_lib.translation.training.scoring import Score, score
from course_lib.translation.training.updates import Trainer


@dataclass
class Session:
    """One process's part in a run, from where it stands to its end."""

    config: RunConfig
    place: Place
    folder: RunFolder
    data: PreparedData
    trainer: Trainer
    evaluator: Evaluator
    display: RunDisplay
    log: MetricsLog | None
    """Of the first process, which alone writes."""
    interruption: Interruption
    parts: OwnParts | None = None

    def __post_init__(self) -> None:
        # What is measured, kept and translated with. It has the trainer's weights, and not a copy of them.
        self._model: Any = self.trainer.model
        self._own_search: Decode | None = None
        self._fingerprint: str | None = None
        if self.parts is not None:
            self._fingerprint = self.parts.fingerprint
            device = self._model.generator.weight.device
            vocabularies = self.data.vocabularies
            self._own_search = own_search(self.parts.parts, self.config, vocabularies, device)
            sizes = len(vocabularies.source), len(vocabularies.target)
            self._model = reference_view(self._model, self.config.model, *sizes)
        self._checkpoints = Checkpoints(self.folder.checkpoints, self.config.checkpoints.keep_last)
        self._snapshots = Snapshots(self.folder.snapshots, self.config.training.average_last)
        self._selection = Selection(self.config.selection)
        self._epochs_validated = 0
        self._saved: tuple[int, int] | None = None

    def begin(self) -> None:
        """Begin anew: an average must not have weights of an earlier run in this folder."""
        if self.log is None:
            return
        try:
            self._snapshots.clear()
        except OSError as error:
            raise BadInputError(
                f"{self.folder.snapshots}: what an earlier run has left there cannot be removed "
                f"({error.strerror}); choose another run_folder"
            ) from None

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint; the trainer has been loaded already."""
        self._selection.load(state["selection"])
        self._epochs_validated = state["epochs_validated"]

    def train(self) -> None:
        """Make the updates that are still to be made; Interrupted, once all is saved, when told to stop."""
        trainer = self.trainer
        with self.interruption.deferred():
            if trainer.epochs_done > self._epochs_validated:
                self._validate()
            while trainer.epochs_done < self.config.training.epochs and not self._selection.is_over:
                self._epoch()
                self._validate()
        if trainer.epochs_done < self.config.training.epochs:
            self.display.say(
                f"Training ends early: no better {self.config.selection.metric} in "
                f"{self.config.selection.patience} measurements; the best was after update "
                f"{self._selection.step}."
            )

    def test(self) -> tuple[Score, list[str]]:
        """Translate the test split with the weights that the config chooses; keep and score that."""
        use, test = self.config.evaluation.weights, self.data.test
        self._average()
        if use != "last":
            chosen = first_then_rest(self.place, lambda: self._load(use))
            self._model.load_state_dict(chosen.weights)
        model, validation = self._model, self.data.validation
        settings = self.evaluator.settings(
            model, [source for source, _ in validation.pairs], validation.text.english
        )
        if self._own_search is not None:
            model = self.trainer.model
        sources = [source for source, _ in test.pairs]
        translations = self.evaluator.translate(model, sources, settings, self._own_search)
        result = score(translations, test.text.english)
        lowercased = score(translations, test.text.english, lowercase=True)
        self._record(
            {
                "test_bleu": result.bleu,
                "signature": result.signature,
                "test_bleu_lowercased": lowercased.bleu,
                "signature_lowercased": lowercased.signature,
                "weights": use,
                "beam": settings.beam,
                "alpha": settings.alpha,
            }
        )
        if self.log is not None:
            # A line feed inside a translation would shift all sentences after it.
            lines = [" ".join(text.split("\n")) for text in translations]
            try:
                self.log.position()
                atomic_write_text(self.folder.translations, "\n".join(lines) + "\n")
                write_search(self.folder.search, settings)
            except OSError as error:
                raise BadInputError(
                    f"{self.folder.path}: the results cannot be kept there ({error.strerror}); make room, "
                    "and give the same command again: it goes on from the latest checkpoint"
                ) from None
        return result, translations

    def _epoch(self) -> None:
        trainer, training = self.trainer, self.config.training
        plan = trainer.plan()
        while trainer.updates_done < len(plan):
            rate = trainer.update(plan[trainer.updates_done])
            self.display.advance()
            last_of_epoch = trainer.updates_done == len(plan)
            if trainer.step % training.log_every == 0 or last_of_epoch:
                self._record({"rate": rate, **trainer.window.close()})
            if training.average_every and trainer.step % training.average_every == 0:
                self._snapshot()
            if last_of_epoch:
                break
            if trainer.step % training.checkpoint_every == 0:
                self._save()
            if self.place.world_size == 1 or trainer.step % self.config.checkpoints.stop_check_every == 0:
                self._stop_if_asked()
        trainer.end_epoch()
        if not training.average_every:
            self._snapshot()
        self._keep("The last weights", lambda: self._save_model("last"))
        self._save()

    def _validate(self) -> None:
        """Measure the weights after an epoch, of which a checkpoint is kept already."""
        model, epochs = self._model, self.trainer.epochs_done
        self._stop_if_asked()
        # Several stop together or not at all: one that left in the middle would be missed by the others.
        alone = self.place.world_size == 1
        with self.interruption.at_once() if alone else contextlib.nullcontext():
            row: dict[str, Any] = {"validation_loss": self.evaluator.loss(model, self.data.validation.pairs)}
            every = self.config.evaluation.bleu_every
            if every and epochs % every == 0:
                sources = [source for source, _ in self.data.validation.pairs]
                translations = self.evaluator.translate(model, sources)
                row["bleu"] = score(translations, self.data.validation.text.english).bleu
        self._record(row, stays=True)
        if self._selection.is_better(row, self.trainer.step):
            self._keep("The best weights", lambda: self._save_model("best"))
        self._epochs_validated = epochs
        self._save()
        self.trainer.window.restart_clock()

    def _record(self, values: dict[str, Any], stays: bool = False) -> None:
        epoch = self.trainer.epochs_done + (self.trainer.updates_done > 0)
        row = {"step": self.trainer.step, "epoch": epoch, **values}
        if self.log is not None:
            self.log.write(row)
        self.display.numbers(row, stays)

    def _save(self) -> None:
        # All processes take part in the first line; only the first one writes.
        state = self.trainer.state()
        self._saved = (self.trainer.step, self._epochs_validated)
        self._keep("A checkpoint", lambda: self._save_checkpoint(state))

    def _save_checkpoint(self, trainer_state: dict[str, Any]) -> None:
        assert self.log is not None, "only the first process writes"
        self._checkpoints.save(
            self.trainer.step,
            {
                "config": self.config.model_dump(),
                "vocabulary": self.data.vocabularies.fingerprint,
                "data": self.data.fingerprint,
                "trainer": trainer_state,
                "metrics_bytes": self.log.position(),
                "selection": self._selection.state(),
                "epochs_validated": self._epochs_validated,
                "parts": self._fingerprint,
            },
        )

    def _stop_if_asked(self) -> None:
        """All processes stop, or none, and at the same update."""
        if number := largest(self.place, self.interruption.asked):
            if self._saved != (self.trainer.step, self._epochs_validated):
                self._save()
            # torchrun ends all processes as soon as one has ended: the first must have written by then.
            largest(self.place, 0)
            raise Interrupted(number)

    def _snapshot(self) -> None:
        if self._snapshots.wanted:
            self._keep("A snapshot", lambda: self._snapshots.save(self._trained()))

    def _average(self) -> None:
        if self.log is None or not self._snapshots.wanted:
            return
        path = trained_path(self.folder.path, "averaged")
        path.unlink(missing_ok=True)
        averaged = self._snapshots.average(self.trainer.step, self.display.say)
        if averaged is not None:
            self._keep("The averaged weights", lambda: save_trained(path, averaged))

    def _trained(self) -> TrainedModel:
        return TrainedModel(
            self.config,
            self.data.vocabularies.fingerprint,
            self._model.state_dict(),
            self.trainer.step,
            self._fingerprint,
        )

    def _save_model(self, use: Use) -> None:
        save_trained(trained_path(self.folder.path, use), self._trained())

    def _load(self, use: Use) -> TrainedModel:
        path = trained_path(self.folder.path, use)
        model = load_trained(path)
        if use == "best" and model.step != self._selection.step:
            raise BadInputError(
                f"{path}: expected the weights after update {self._selection.step}, which were the best, "
                f"came those after {model.step}; set evaluation.weights to last, or start the run anew"
            )
        return model

    def _keep(self, what: str, write: Callable[[], None]) -> None:
        """Have the first process write something, and go on without it where the disk refuses."""
        if self.log is None:
            return
        try:
            write()
        except OSError as error:
            self.display.say(
                f"{what} could not be kept ({error.strerror}): training goes on, and older files stay."
            )
