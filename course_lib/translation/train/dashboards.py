"""The metrics of a run for TensorBoard and for Weights & Biases."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.train.metrics import MetricsRow


class _Dashboard(NamedTuple):
    """The functions of an open dashboard: `write` sends a row, and `close(failed)` closes the dashboard."""

    write: Callable[[MetricsRow], None]
    close: Callable[[bool], None]


class Dashboards:
    """The dashboards that the config enables.

    If a dashboard can't be opened or fails later, a message is reported, and the run continues without it.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._open: dict[str, _Dashboard] = {}

    @classmethod
    def open(cls, run_folder: Path, config: RunConfig, report: Callable[[str], None]) -> "Dashboards":
        """Open the dashboards. If one of them fails, now or later, `report` is called with a message."""
        dashboards = cls(report)
        if config.training.tensorboard:
            with dashboards._reported("tensorboard"):
                dashboards._open["tensorboard"] = _tensorboard(run_folder)
        if config.training.wandb:
            with dashboards._reported("wandb"):
                dashboards._open["wandb"] = _weights_and_biases(run_folder, config, config.training.wandb)
        return dashboards

    def write(self, row: MetricsRow) -> None:
        """Send a row of metrics to each dashboard."""
        for name, dashboard in list(self._open.items()):
            with self._reported(name):
                dashboard.write(row)

    def close(self, failed: bool) -> None:
        """Wait until all rows have been sent, and record whether the run has failed."""
        for name, dashboard in list(self._open.items()):
            with self._reported(name):
                dashboard.close(failed)

    @contextmanager
    def _reported(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # Each dashboard raises its own exceptions.
            self._open.pop(name, None)
            self._report(f"training.{name}: {str(error).rstrip('.')}. The run continues without it.")


def _tensorboard(run_folder: Path) -> _Dashboard:
    from torch.utils.tensorboard import SummaryWriter

    # A resumed run writes the values since its checkpoint again. TensorBoard shows the newer ones, so the
    # older ones can stay.
    writer = SummaryWriter(str(run_folder / "tensorboard"))

    def write(row: MetricsRow) -> None:
        for key, value in _numbers(row).items():
            writer.add_scalar(key, value, row["step"])
        writer.flush()

    return _Dashboard(write, lambda failed: writer.close())


def _weights_and_biases(run_folder: Path, config: RunConfig, project: str) -> _Dashboard:
    import wandb

    # The id depends on the folder, so that a resumed run continues its chart.
    try:
        run = wandb.init(
            project=project,
            name=run_folder.name,
            id=hashlib.sha256(str(run_folder.resolve()).encode()).hexdigest()[:16],
            resume="allow",
            dir=run_folder,
            config=config.model_dump(mode="json"),
        )
    except wandb.errors.Error as error:
        raise BadInputError(
            f"{str(error).rstrip('.')}. To log without an account, set WANDB_MODE=offline."
        ) from None
    # W&B's own step count can't decrease, but a resumed run repeats updates. So log the update as a metric.
    run.define_metric("*", step_metric="update")
    return _Dashboard(
        write=lambda row: run.log({"update": row["step"], **_numbers(row)}),
        close=lambda failed: run.finish(exit_code=int(failed)),
    )


def _numbers(row: MetricsRow) -> dict[str, float]:
    """Return the numbers of a row, without the step."""
    return {
        key: float(value) for key, value in row.items() if key != "step" and isinstance(value, int | float)
    }
