"""The way to search that suits a run's model, kept in its folder."""

import json
from dataclasses import asdict
from pathlib import Path

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.translation.decoding.hypothesis import SearchSettings


def write_search(path: Path, settings: SearchSettings) -> None:
    """Write beam and length penalty, whole or not at all."""
    atomic_write_text(path, json.dumps(asdict(settings)) + "\n")


def read_search(path: Path) -> SearchSettings | None:
    """Read what `write_search` wrote; None where there is nothing yet.

    Raises BadInputError where the file is something else.
    """
    try:
        return SearchSettings(**json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        raise BadInputError(
            f"{path}: expected how to search, as a run writes it, came something else; remove the file, "
            "and give --tune to have it anew"
        ) from None
