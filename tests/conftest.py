"""Settings for all tests: check tensor shapes, and make hypothesis try the same examples in every run."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import config, install_import_hook

from tests import shape_checks

# One thread per process, including those that the tests start, because pytest's workers share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

_LAB = Path(__file__).parents[1] / "course_lib" / "translation"
CHECKED = (
    "course_lib.transformer",
    # The package `captions` handles no tensors, and checking it is slow.
    *(
        "course_lib." + ".".join(path.relative_to(_LAB.parent).with_suffix("").parts)
        for path in sorted(_LAB.rglob("[!_]*.py"))
        if "captions" not in path.parts
    ),
)

# pytest loads this file before it imports any test, including in pytest-xdist workers.
if early := [name for name in CHECKED if name in sys.modules]:
    raise RuntimeError(
        f"{', '.join(early)} was imported before tests/conftest.py, so its shapes would not be checked; "
        "import it in the tests, not in a pytest plugin"
    )
install_import_hook(CHECKED, f"{shape_checks.__name__}.checked")

settings.register_profile("course", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("course")


@pytest.fixture
def shapes_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the shape checks, as in a notebook, for tests that run small models ten thousand times."""
    monkeypatch.setattr(config, "jaxtyping_disable", True)


@pytest.fixture(autouse=True)
def _shapes_unchecked_in_slow_tests(request: pytest.FixtureRequest) -> None:
    """Disable the shape checks, which double the training time of small models, in all slow tests."""
    if request.node.get_closest_marker("slow"):
        request.getfixturevalue("shapes_unchecked")
