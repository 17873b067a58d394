"""What takes long to make is made once, also where several processes of pytest run the tests side by side."""

import fcntl
import os
import pickle
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[], T]) -> T:
    """Give what `make` gives: the first process that asks makes it, and the others wait for it.

    It is only to be read. `make` may leave files in folders of `tmp_path_factory`, which stay till the end.
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
