"""Create expensive fixtures once, even if several pytest processes run the tests in parallel."""

import fcntl
import os
import pickle
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[], T]) -> T:
    """Return the result of `make`, which the first process that needs it runs while the others wait.

    Callers must not change the result. `make` may leave files in folders of `tmp_path_factory`, which are
    kept until the end.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    made = folder / f"{name}.pickle"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            made.write_bytes(pickle.dumps(make()))
        found: T = pickle.loads(made.read_bytes())
        return found
