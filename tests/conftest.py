"""Settings for all tests: shapes are checked, and hypothesis tries the same examples in every run."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import config, install_import_hook

# One thread a process, for all that the tests start: the cores are shared out among pytest's workers.
os.environ.setdefault("OMP_NUM_THREADS", "1")

_LAB = Path(__file__).parents[1] / "course_lib" / "translation"
CHECKED = (
    "course_lib.transformer",
    # The captions handle no tensors, and checking them is slow.
    *(
        "course_lib." + ".".join(path.relative_to(_LAB.parent).with_suffix("").parts)
        for path in sorted(_LAB.rglob("[!_]*.py"))
        if "captions" not in path.parts
    ),
)

# pytest reads this file before any test, in each worker of pytest-xdist too.
if early := [name for name in CHECKED if name in sys.modules]:
    raise RuntimeError(
        f"{', '.join(early)} was imported before tests/conftest.py, so its shapes would not be checked; "
        "import it in the tests, not in a pytest plugin"
    )
install_import_hook(CHECKED, "beartype.beartype")

settings.register_profile("course", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("course")


@pytest.fixture
def shapes_unchecked() -> Iterator[None]:
    """Disable the checks of shapes, as in a notebook, for tests that run small models ten thousand times."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
