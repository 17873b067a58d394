"""Files of which a run keeps the newest few, named by the update after which they were written."""

import re
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"step-(\d+)\.pt")


@dataclass(frozen=True)
class NumberedFiles:
    """The files `step-N.pt` of a folder, which need not be there yet."""

    folder: Path

    def path(self, step: int) -> Path:
        """Say where the file of an update is; with zeros before, names sort as numbers do."""
        return self.folder / f"step-{step:08d}.pt"

    def newest_first(self, up_to: int | None = None) -> list[Path]:
        """List the files that there are, those of updates after `up_to` left out."""
        found = [
            (int(name[1]), path)
            for path in (self.folder.iterdir() if self.folder.is_dir() else ())
            if (name := _NAME.fullmatch(path.name))
        ]
        return [path for step, path in sorted(found, reverse=True) if up_to is None or step <= up_to]

    def keep_newest(self, count: int, up_to: int) -> None:
        """Remove all but the newest `count` files up to that update.

        Files of later updates go too: the run has begun anew before them, since they were damaged.
        """
        kept = self.newest_first(up_to)[:count]
        for path in self.newest_first():
            if path not in kept:
                path.unlink(missing_ok=True)
