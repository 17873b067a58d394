"""An experiment end to end: prepare the data, train, validate, and translate the test set."""

import contextlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from course_lib.translation.checkpoints.checkpoint import CheckpointState, RunState
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.checkpoints.trained_model import TrainedModel
from course_lib.translation.configs.schema import ModelKind, RunConfig, TrainingConfig
from course_lib.translation.data.prepared import PreparedData
from course_lib.translation.distributed import (
    DistributedInfo,
    broadcast_from_rank_zero,
    global_max,
    raise_on_all_ranks,
    rank_zero_first,
    timeouts_reported,
)
from course_lib.translation.model.seq2seq import REFERENCE, TransformerModel
from course_lib.translation.train.batches import BatchLoader
from course_lib.translation.train.evaluation import BestWeights, Evaluator
from course_lib.translation.train.interruption import Interrupted, Interruption
from course_lib.translation.train.metrics import MetricsLog, MetricsRow
from course_lib.translation.train.peer_watch import watched_peers
from course_lib.translation.train.profiling import UpdateProfiler
from course_lib.translation.train.progress_bar import RunDisplay
from course_lib.translation.train.run_files import RunFiles
from course_lib.translation.train.scoring import Score, score, tokenized_score
from course_lib.translation.train.setup import (
    full_memory_reported,
    locked_run,
    open_run,
    require_enough_memory,
    set_up_process,
)
from course_lib.translation.train.student_code.adapters import reference_view, student_search
from course_lib.translation.train.student_code.parts import (
    StudentCode,
    UnequalParts,
    failing_cell_named,
    load_student_code,
)
from course_lib.translation.train.trainer import Trainer

#: The run stops if the loss scale falls below this value. The scale starts at 2^16 and is halved for each
#: skipped update; in a run that makes progress, it stays far above this value.
_SMALLEST_LOSS_SCALE = 2.0**-10


@dataclass(frozen=True)
class Result:
    """The outcome of a finished run."""

    score: Score
    """The sacreBLEU score on the test split."""
    tokenized_score: Score
    """BLEU on the test split, tokenised by Moses with compounds split, as in table 2 of the paper."""
    sources: list[str]
    translations: list[str]
    references: list[str]
    folder: RunFolder


def train(
    config: RunConfig,
    distributed: DistributedInfo,
    interruption: Interruption | None = None,
    parts: str | None = None,
    unequal: UnequalParts = "refuse",
) -> Result:
    """Train a model, evaluate it and translate the test set. Resume from the latest checkpoint, if any.

    With `parts`, the model and its training use the student's parts, as in `load_student_code`. The process
    ends with a message if it waits for a rank that is frozen or has exited. Must be called on every rank.

    Raises:
        BadInputError: if the config cannot be satisfied, if the run folder cannot be used, if another process
            is training in it, if it contains a different run or one without an intact checkpoint, if the
            student's code fails, or if the model or the results cannot be saved.
        Interrupted: if a stop was requested through `interruption`.
        LostPeerError: if another process doesn't answer during training.
    """
    with contextlib.ExitStack() as stack:
        unfinished = stack.enter_context(watched_peers(distributed, config.training.peer_timeout))
        given, device = set_up_process(config, distributed)
        student = load_student_code(parts, unequal, given, distributed, device) if parts else None
        folder = RunFolder(Path(given.run_folder))
        if student is not None:
            stack.enter_context(failing_cell_named(student.parts, distributed))
        lock = locked_run(folder) if distributed.is_rank_zero else contextlib.nullcontext()
        rank_zero_first(distributed, partial(stack.enter_context, lock))
        config, data, (checkpoint, damaged), start = open_run(folder, given, distributed, student)
        state = checkpoint.state if checkpoint else None
        components = student.components() if student else REFERENCE
        loader = BatchLoader(config, data.train, data.vocabulary, distributed, device, components)
        trainer = Trainer(stack.enter_context(loader))
        _prepare_device(trainer, config, distributed, device)
        if state is not None:
            trainer.load(state["trainer"])
        elif start is not None:
            rank_zero_first(distributed, partial(trainer.load_weights, start.model.weights))

        log = None
        if distributed.is_rank_zero:
            log = stack.enter_context(MetricsLog.open(folder.metrics, state["metrics_bytes"] if state else 0))
        total_updates = _total_updates(config.training, len(trainer.plan()))
        display = stack.enter_context(
            RunDisplay(total_updates, trainer.step, silent=not distributed.is_rank_zero)
        )
        for path in damaged:
            display.print(f"{path} is damaged and was skipped.")
        experiment = Experiment(
            config,
            given,
            distributed,
            data,
            trainer,
            Evaluator(config, data.vocabulary, distributed, device, components),
            display,
            stack.enter_context(RunFiles(folder, config, log, display.print, unfinished)),
            interruption or Interruption(),
            student,
        )
        experiment.print_introduction()
        if state is not None:
            experiment.load(state)
        else:
            rank_zero_first(distributed, experiment.files.begin)
        # Free the memory of the loaded states, which are as large as the model and its optimiser.
        del checkpoint, state, start
        experiment.train()
        return experiment.test()


def _prepare_device(
    trainer: Trainer, config: RunConfig, distributed: DistributedInfo, device: torch.device
) -> None:
    """Check the memory of a GPU, compile the layers if the config says so, and measure the device's speed."""
    if device.type == "cuda":
        require_enough_memory(trainer, config, distributed, device)
    if config.training.compile:
        with full_memory_reported(config, "training"):
            trainer.compile()
    trainer.measure_machine()


@dataclass
class Experiment:
    """The training loop of one rank, with validation, checkpoints and the final test."""

    config: RunConfig
    given: RunConfig
    """The user's config, before its updates were divided into at least one batch for each process."""
    distributed: DistributedInfo
    data: PreparedData
    trainer: Trainer
    evaluator: Evaluator
    display: RunDisplay
    files: RunFiles
    interruption: Interruption
    student: StudentCode | None

    def __post_init__(self) -> None:
        self._fingerprint = self.student.fingerprint if self.student else None
        profiled = self.config.training.profile if self.distributed.is_rank_zero else 0
        self._profiler = UpdateProfiler(self.files.folder.path / "profile", profiled, self.display.print)
        self._best = BestWeights(self.config.selection)
        self._validated_step = 0
        self._saved: tuple[int, int] | None = None
        # The model to validate, to save and to translate with. It shares the trainer's weights.
        self._model: TransformerModel = self.trainer.model
        self._student_search = None
        if self.student is not None:
            device, ids = self._model.generator.weight.device, self.data.vocabulary
            self._student_search = student_search(self.student.parts, self.config, ids, device)
            view = partial(reference_view, self._model, self.config.model, len(ids), len(ids))
            self._model = rank_zero_first(self.distributed, view)

    def print_introduction(self) -> None:
        """Print a summary of the run before its first update."""
        config, trainer, vocab_size = self.config, self.trainer, len(self.data.vocabulary)
        used, given = config.training, self.given.training
        processes = self.distributed.world_size
        if self.student is not None:
            self.display.print(self.student.table())
        parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
        position = f"resuming after update {trainer.step}" if trainer.step else "starting"
        self.display.print(
            f"{config.data.corpus}: {len(self.data.train):,} training pairs, {vocab_size:,} subwords. Model: "
            f"{parameters:,} parameters in {used.precision} on {trainer.model.generator.weight.device.type}, "
            f"{processes} process{'' if processes == 1 else 'es'}; {position}."
        )
        if used.batches_per_update % processes:
            self.display.print(
                f"{used.batches_per_update} batches in an update can't be divided evenly, so some processes "
                "wait for others."
            )
        if used.batches_per_update != given.batches_per_update:
            before, now = (each.batches_per_update * each.tokens_per_batch for each in (given, used))
            change = "as many tokens as before"
            if now > before:
                change = f"{now / before:.1f} times as many tokens"
            self.display.print(
                f"Each update is divided into {used.batches_per_update} batches of "
                f"{used.tokens_per_batch:,} tokens instead of {given.batches_per_update} of "
                f"{given.tokens_per_batch:,}, so that each process gets one. An update has {change}."
            )
        for note in (*(f"Data: {note}" for note in self.data.notes), *trainer.notes):
            self.display.print(f"{note}.")

    def load(self, state: CheckpointState) -> None:
        """Restore the state of a checkpoint. The trainer must already have loaded its own part."""
        self._best.load(state["selection"])
        self._validated_step = state["validated_step"]

    def train(self) -> None:
        """Train to the end or early stopping. On a stop request, save a checkpoint and raise Interrupted.

        Raises BadInputError if the last model or the final checkpoint cannot be saved.
        """
        trainer = self.trainer
        with self.interruption.deferred():
            in_an_epoch, is_over = trainer.updates_done > 0, self._complete or self._best.patience_exhausted
            if is_over:
                # It may be missing, because the disk was full when the run ended.
                self.files.save_model("last", self._trained_model)
            if trainer.step > self._validated_step and (is_over or not in_an_epoch):
                if in_an_epoch:
                    # The run may have been interrupted here, and its config shortened since then.
                    self._save_models()
                self._validate()
            elif in_an_epoch and not is_over and not self.config.training.average_every:
                # If the run ended in this epoch before its config was extended, there is a snapshot of this
                # update. Remove it, because only ends of epochs are averaged.
                self.files.discard_snapshots(after=trainer.step - 1)
            while not self._complete and not self._best.patience_exhausted:
                self._train_epoch()
                self._validate()
        self._profiler.end()
        rank_zero_first(self.distributed, self.files.require_saved)
        if not self._complete:
            selection = self.config.selection
            self.display.print(
                f"Training stops early: {selection.patience} measurements without a better "
                f"{selection.metric}. The best was after update {self._best.step}."
            )

    @property
    def _complete(self) -> bool:
        training = self.config.training
        return (training.epochs is not None and self.trainer.epochs_done >= training.epochs) or (
            training.updates is not None and self.trainer.step >= training.updates
        )

    def _train_epoch(self) -> None:
        """Run the remaining updates of the epoch, but stop at `training.updates`."""
        trainer, training = self.trainer, self.config.training
        plan = trainer.plan()
        while trainer.updates_done < len(plan):
            upcoming = plan[trainer.updates_done + 1 : trainer.updates_done + 2]
            if self.interruption.requested and training.compile:
                # torchrun sends a signal to the compiler's processes too, which ends them, so this process
                # would wait for them forever. Compile in this process instead. (Running uncompiled is not
                # an option: the update would have different dropout.)
                from torch._inductor import config as compiler

                compiler.compile_threads = 1
            with timeouts_reported(), full_memory_reported(self.config, "training"):
                learning_rate = trainer.update(plan[trainer.updates_done], *upcoming)
            self.display.advance()
            self._profiler.step()
            last = trainer.updates_done == len(plan) or trainer.step == training.updates
            if trainer.step % training.log_every == 0 or last:
                self._record({"lr": learning_rate, **trainer.window.close()})
            if training.average_every and trainer.step % training.average_every == 0:
                self._require_finite_weights()
                self.files.save_snapshot(self._trained_model)
            if last:
                break
            if trainer.step % training.checkpoint_every == 0:
                self._require_finite_weights()
                self._save_checkpoint()
            listen_every = self.config.checkpoints.stop_check_every
            if self.distributed.world_size == 1 or trainer.step % listen_every == 0:
                self._stop_if_requested()
        if trainer.updates_done == len(plan):
            trainer.end_epoch()
        self._save_models()

    def _save_models(self) -> None:
        """Save the last model, a checkpoint and, if ends of epochs are averaged, a snapshot."""
        self._require_finite_weights()
        if not self.config.training.average_every:
            self.files.save_snapshot(self._trained_model)
        self.files.save_model("last", self._trained_model)
        self._save_checkpoint()

    def _validate(self) -> None:
        """Evaluate the current weights, record the results, and save the weights if they are the best so far.

        A checkpoint with these weights must have been saved before. At the end of the run, it is replaced by
        one with the results.
        """
        epochs, validation = self.trainer.epochs_done, self.data.validation
        self._stop_if_requested()
        # Several ranks must stop together: if one left here, the others would wait for it.
        alone = self.distributed.world_size == 1
        at_once = self.interruption.immediate() if alone else contextlib.nullcontext()
        with at_once, full_memory_reported(self.config, "evaluation"):
            row: MetricsRow = {"validation_loss": self.evaluator.loss(self._model, validation.pairs)}
            bleu_every = self.config.evaluation.bleu_every
            if bleu_every and (epochs % bleu_every == 0 or self.trainer.updates_done):
                translations = self.evaluator.translate(self._model, validation.source_ids)
                row["bleu"] = score(translations, validation.references).bleu
        self._record(row, permanent=True)
        if self._best.is_better(row, self.trainer.step):
            self.files.save_model("best", self._trained_model)
        self._validated_step = self.trainer.step
        # Within the run, the next checkpoint contains the results. If the run is killed before then, it
        # validates again, which is cheaper than a second checkpoint in each epoch.
        if self._complete or self._best.patience_exhausted:
            self._save_checkpoint()
        self.trainer.window.restart_clock()

    def test(self) -> Result:
        """Translate the test split with the weights that the config selects, and save the results.

        Raises BadInputError if loading the weights or saving the results fails.
        """
        test, validation = self.data.test, self.data.validation
        rank_zero_first(self.distributed, partial(self.files.save_average, self.trainer.step))
        use = self._weights_for_test()
        if use != "last":
            weights = broadcast_from_rank_zero(
                self.distributed, lambda: self.files.load_model(use, self._best.step).weights
            )
            self._model.load_state_dict(weights)
        model = self.trainer.model if self._student_search else self._model
        with full_memory_reported(self.config, "evaluation"):
            settings = self.evaluator.settings(self._model, validation.source_ids, validation.references)
            translations = self.evaluator.translate(model, test.source_ids, settings, self._student_search)
        result = score(translations, test.references)
        tokenized = tokenized_score(translations, test.references, self.config.data.direction[-2:])
        row: MetricsRow = {"test_bleu": result.bleu, "signature": result.signature}
        row |= {"test_bleu_tokenized": tokenized.bleu, "signature_tokenized": tokenized.signature}
        self._record({**row, "weights": use, "beam": settings.beam, "alpha": settings.alpha})
        self.files.save_results(translations, settings)
        return Result(result, tokenized, test.sources, translations, test.references, self.files.folder)

    def _weights_for_test(self) -> ModelKind:
        """Return the kind of weights that the config selects. If there are none, print why and return "last".

        Must be called on every rank.
        """
        use, metric = self.config.evaluation.weights, self.config.selection.metric
        averaged = self.files.folder.model("averaged")
        if use == "best" and self._best.step == 0:
            reason = f"the validation {metric} was never measured, or never a number"
        elif use == "averaged" and not broadcast_from_rank_zero(self.distributed, averaged.is_file):
            reason = "there is no snapshot to average (training may have ended before the first snapshot)"
        else:
            return use
        self.display.print(
            f"evaluation.weights: there are no {use} weights, because {reason}. The test split is translated "
            "with the last weights."
        )
        return "last"

    def _record(self, values: MetricsRow, permanent: bool = False) -> None:
        epoch = self.trainer.epochs_done + (self.trainer.updates_done > 0)
        row: MetricsRow = {"step": self.trainer.step, "epoch": epoch, **values}
        self.files.write_metrics(row)
        self.display.show_metrics(row, permanent)

    def _require_finite_weights(self) -> None:
        """Raise BadInputError on all ranks if training has diverged, before a good checkpoint is replaced.

        All ranks have the same weights and the same loss scale. A skipped update is normal with float16 and
        no reason to stop, but a loss scale below `_SMALLEST_LOSS_SCALE` means that many updates in a row
        were skipped. Must be called on every rank.
        """
        if self.trainer.loss_scale < _SMALLEST_LOSS_SCALE:
            raise_on_all_ranks(
                self.distributed,
                f"training: up to update {self.trainer.step:,}, the gradients of many updates in a row were "
                "too large for float16, so these updates were skipped, and the run stops. Start a new run, "
                "with another run_folder, and with training.precision=float32, or bfloat16 if the hardware "
                "supports it.",
            )
        finite = torch.stack([weight.isfinite().all() for weight in self.trainer.model.parameters()])
        if not finite.all():
            rate = "lr_factor" if self.config.training.schedule == "paper" else "lr"
            raise_on_all_ranks(
                self.distributed,
                f"training: after update {self.trainer.step:,}, weights are NaN or infinite, so the run "
                "stops. The saved files are from before that. Start a new run, with another run_folder, and "
                f"with a lower training.{rate}, training.max_grad_norm=1, or more training.warmup_steps.",
            )

    def _save_checkpoint(self) -> None:
        self._saved = self.trainer.step, self._validated_step
        state: RunState = {
            "config": self.config.model_dump(),
            "batches_before_division": {
                name: getattr(self.given.training, name)
                for name in ("batches_per_update", "tokens_per_batch")
            },
            "vocabulary": self.data.vocabulary.fingerprint,
            "data": self.data.fingerprint,
            "trainer": self.trainer.state(),  # This call is collective.
            "selection": self._best.state(),
            "validated_step": self._validated_step,
            "parts": self._fingerprint,
        }
        self.files.save_checkpoint(self.trainer.step, state)

    def _stop_if_requested(self) -> None:
        """If any rank received a signal, save a checkpoint and raise Interrupted on all ranks."""
        if number := global_max(self.distributed, self.interruption.requested):
            if self._saved != (self.trainer.step, self._validated_step):
                self._require_finite_weights()
                self._save_checkpoint()
            self.files.finish_writing()
            # torchrun stops all processes as soon as one has failed, so wait until rank 0 has saved.
            global_max(self.distributed, 0)
            raise Interrupted(number)

    def _trained_model(self) -> TrainedModel:
        return TrainedModel(
            self.config,
            self.data.vocabulary.fingerprint,
            self._model.state_dict(),
            self.trainer.step,
            self._fingerprint,
        )


def _total_updates(training: TrainingConfig, updates_per_epoch: int) -> int:
    limits = [training.updates, training.epochs and training.epochs * updates_per_epoch]
    return min(limit for limit in limits if limit is not None)
