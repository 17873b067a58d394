"""The average of the newest weights: section 6.1 of the paper, "averaging the last 5 checkpoints".

Snapshots are weights alone, and fall on updates that the config fixes. So they are not the checkpoints, which
are three times as large and also come when a run is told to stop: the average must not depend on that.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from course_lib.errors import BadInputError
from course_lib.transformer import average_checkpoints
from course_lib.translation.training.checkpoints.model_file import TrainedModel, load_trained, save_trained
from course_lib.translation.training.checkpoints.numbered_files import NumberedFiles


class Snapshots:
    """The newest `count` snapshots of a run's weights; none where `count` is 0."""

    def __init__(self, folder: Path, count: int) -> None:
        self._files = NumberedFiles(folder)
        self._count = count

    @property
    def wanted(self) -> bool:
        """Whether there is to be an average."""
        return self._count > 0

    def clear(self) -> None:
        """Remove what an earlier run has left in the folder. Raises OSError where that is refused."""
        self._files.keep_newest(0, up_to=0)

    def save(self, model: TrainedModel) -> None:
        """Write a snapshot and remove the oldest. Raises OSError, as for a disk that is full."""
        save_trained(self._files.path(model.step), model)
        self._files.keep_newest(self._count, up_to=model.step)

    def average(self, up_to: int, say: Callable[[str], None]) -> TrainedModel | None:
        """Average the newest snapshots up to an update; None where there is none.

        `say` is told of those that are missing or damaged.
        """
        models: list[TrainedModel] = []
        for path in self._files.newest_first(up_to)[: self._count]:
            try:
                # Together they may be larger than the memory; the average takes them entry by entry.
                models.append(load_trained(path, mapped=True))
            except BadInputError as error:
                say(f"Left out of the average: {error}")
        if not models:
            return None
        if len(models) < self._count:
            say(f"The average is of {len(models)} snapshots: training.average_last wants {self._count}.")
        return replace(models[0], weights=average_checkpoints([model.weights for model in models]))
