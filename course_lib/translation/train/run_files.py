"""The files that a run writes.

Writes are idempotent: a resumed run repeats the updates since its last checkpoint, and writes the same rows
and files again. So everything that belongs to an update is written before the checkpoint of that update. (On
a GPU, results may differ by rounding, because some of PyTorch's kernels add numbers in varying order.)
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

import torch
from torch.utils._pytree import tree_map_only

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.checkpoint import Checkpoints, CheckpointState, RunState
from course_lib.translation.checkpoints.run_folder import MODEL_KINDS, RunFolder
from course_lib.translation.checkpoints.trained_model import Snapshots, TrainedModel, load_model, save_model
from course_lib.translation.configs.schema import ModelKind, RunConfig
from course_lib.translation.decoding.search_settings import SearchSettings, save_settings
from course_lib.translation.distributed import memory_of
from course_lib.translation.train.dashboards import Dashboards
from course_lib.translation.train.metrics import MetricsLog, MetricsRow

State = TypeVar("State")

#: The maximum number of files that are waiting or being written. Each needs a copy of the weights in memory.
_WAITING = 2


class RunFiles:
    """The files of a run, which rank 0 writes. On the other ranks, `log` is None and nothing is written.

    If a file cannot be written during training, `report` is called with a message and training continues;
    `require_saved` raises an error if the last files could not be written.
    Checkpoints, models and snapshots are written by one thread, in the order of the calls, from copies of
    the weights. `finish_writing` waits for this thread. The end of the `with` block waits for it, too, and
    closes the dashboards. The set `unfinished` is not empty while files are being written, and after the end
    of the block.
    """

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        log: MetricsLog | None,
        report: Callable[[str], None],
        unfinished: set[object],
    ) -> None:
        self.folder = folder
        self._log = log
        self._report = report
        self._unfinished = unfinished
        self._checkpoints = Checkpoints(folder.checkpoints, config.checkpoints.keep_last)
        self._snapshots = Snapshots(folder.snapshots, config.training.average_last)
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._writing: deque[tuple[str, Future[None]]] = deque()
        self._unsaved: dict[str, OSError] = {}
        self._config = config
        self._dashboards: Dashboards | None = None

    def __enter__(self) -> "RunFiles":
        if self._log is not None:
            self._dashboards = Dashboards.open(self.folder.path, self._config, self._report)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # From now on, this process doesn't wait for other ranks, so it must not be ended when one of them
        # exits.
        self._unfinished.add(self)
        try:
            # Wait, because the process must not exit while a file is being written.
            self.finish_writing()
        finally:
            self._writer.shutdown()
            if self._dashboards is not None:
                self._dashboards.close(failed=kind is not None)

    def begin(self) -> None:
        """Prepare the folder of a run that starts from the beginning.

        Remove what an earlier start has left, and create the folder of checkpoints, which marks the run as
        started. Raises BadInputError if that is impossible.
        """
        if self._log is None:
            return
        try:
            self._snapshots.remove_others(up_to=0)
            for path in (*map(self.folder.model, MODEL_KINDS), self.folder.search):
                path.unlink(missing_ok=True)
            self.folder.checkpoints.mkdir(exist_ok=True)
        except OSError as error:
            raise BadInputError(
                f"{self.folder.path}: the run folder cannot be used ({error.strerror}). Choose another "
                "run_folder."
            ) from None

    def discard_snapshots(self, after: int) -> None:
        """Remove the snapshots of updates after update `after`."""
        if self._log is None or not self._snapshots.count:
            return
        try:
            self._snapshots.remove_others(up_to=after)
        except OSError as error:
            self._report(
                f"A snapshot from within an epoch could not be removed ({error.strerror}). The average may "
                "include it."
            )

    def write_metrics(self, row: MetricsRow) -> None:
        """Append a row to the metrics file, and send it to the dashboards that the config enables."""
        if self._log is not None and self._dashboards is not None:
            self._log.write(row)
            self._dashboards.write(row)

    def save_checkpoint(self, step: int, state: RunState) -> None:
        """Flush the metrics to disk, then start saving a copy of `state` in the background.

        The checkpoint also contains the size of the metrics file.
        """
        if (log := self._log) is None:
            return

        def save() -> None:
            self.finish_writing(all_but=_WAITING - 1)
            complete: CheckpointState = {**state, "metrics_bytes": log.sync()}
            copied = _copied(complete)
            self._submit("The checkpoint", lambda: self._checkpoints.save(step, copied))

        self._try("The checkpoint", save)

    def finish_writing(self, all_but: int = 0) -> None:
        """Wait until at most `all_but` files are left to write, and report each failure to write one."""
        while len(self._writing) > all_but:
            what, writing = self._writing.popleft()
            self._try(what, writing.result)

    def require_saved(self) -> None:
        """Raise BadInputError if the newest last model or the newest checkpoint could not be saved."""
        self.finish_writing()
        for what, path in (
            ("The last model", self.folder.model("last")),
            ("The checkpoint", self.folder.checkpoints),
        ):
            if (error := self._unsaved.get(what)) is not None:
                resume = "run the same command again to resume from the latest checkpoint"
                if not self._checkpoints.newest_first():
                    resume = "start the run again with another run_folder, because there is no checkpoint"
                raise BadInputError(
                    f"{path}: {what.lower()} could not be saved at the end of training ({error.strerror}). "
                    f"Fix this (for example, free some disk space), and {resume}."
                )

    def save_model(self, kind: ModelKind, model: Callable[[], TrainedModel]) -> None:
        """Start saving the last or the best model of the run. `model` is called only on rank 0."""
        self._save_copy(f"The {kind} model", model, partial(save_model, self.folder.model(kind)))

    def save_snapshot(self, model: Callable[[], TrainedModel]) -> None:
        """Start saving a snapshot, if the run averages the weights. `model` is called only on rank 0."""
        if self._snapshots.count:
            self._save_copy("The snapshot", model, self._snapshots.save)

    def save_average(self, up_to: int) -> None:
        """Replace the averaged model with the average of the snapshots up to update `up_to`.

        If no snapshot is usable, the old averaged model is only removed. Does nothing if the run doesn't
        average the weights. Raises BadInputError if the old model cannot be removed or the new one cannot be
        saved.
        """
        if self._log is None or not self._snapshots.count:
            return
        self.finish_writing()
        path = self.folder.model("averaged")
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise BadInputError(
                f"{path}: the averaged model of an earlier run cannot be removed ({error.strerror}). Choose "
                "another run_folder."
            ) from None
        self._unfinished.add(path)
        try:
            averaged = self._snapshots.average(up_to, self._report)
            if averaged is not None:
                save_model(path, averaged)
        except OSError as error:
            raise BadInputError(
                f"{path}: the averaged model could not be saved ({error.strerror}). Fix this (for example, "
                "free some disk space), and run the same command again to resume from the latest checkpoint."
            ) from None
        finally:
            self._unfinished.discard(path)

    def load_model(self, kind: ModelKind, best_step: int) -> TrainedModel:
        """Load the last, the best or the averaged model of the run.

        Raises BadInputError if it is missing or damaged, or if the best one is older than update `best_step`.
        """
        self.finish_writing()
        path = self.folder.model(kind)
        model = load_model(path)
        # Accept a newer model. It was the best one when it was saved, but the process was killed before it
        # wrote the checkpoint of that update. Because of different rounding on a GPU, the resumed run then
        # found that model slightly worse than the model of update `best_step`.
        if kind == "best" and model.step < best_step:
            raise BadInputError(
                f"{path}: the best weights are from update {best_step}, but this file contains "
                f"those from update {model.step}. Set evaluation.weights=last, or start the run again."
            )
        return model

    def save_results(self, translations: list[str], settings: SearchSettings) -> None:
        """Save the test split's translations and the search settings. Raises BadInputError if that fails."""
        if self._log is None:
            return
        # A line feed inside a translation would shift all sentences after it.
        lines = [" ".join(text.split("\n")) for text in translations]
        try:
            self._log.sync()
            atomic_write_text(self.folder.translations, "\n".join(lines) + "\n")
            save_settings(self.folder.search, settings)
        except OSError as error:
            raise BadInputError(
                f"{self.folder.path}: the results cannot be saved ({error.strerror}). Fix this (for "
                "example, free some disk space), and run the same command again to resume from the "
                "latest checkpoint."
            ) from None

    def _save_copy(
        self, what: str, model: Callable[[], TrainedModel], write: Callable[[TrainedModel], None]
    ) -> None:
        if self._log is None:
            return
        self.finish_writing(all_but=_WAITING - 1)
        current = model()
        copied = replace(current, weights=_copied(current.weights))
        self._submit(what, lambda: write(copied))

    def _submit(self, what: str, write: Callable[[], None]) -> None:
        writing = self._writer.submit(write)
        self._unfinished.add(writing)
        writing.add_done_callback(self._unfinished.discard)
        self._writing.append((what, writing))

    def _try(self, what: str, write: Callable[[], None]) -> None:
        try:
            write()
            self._unsaved.pop(what, None)
        except OSError as error:
            self._unsaved[what] = error
            self._report(f"{what} could not be saved ({error.strerror}). Older files, if any, are kept.")


def _copied(state: State) -> State:
    """Return `state` with copies of its tensors on the CPU. Tied weights, which share memory, stay tied."""
    copies: dict[tuple[object, ...], torch.Tensor] = {}

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        key = memory_of(tensor)
        if key not in copies:
            copies[key] = tensor.detach().to("cpu", copy=True)
        return copies[key]

    return tree_map_only(torch.Tensor, copy, state)
