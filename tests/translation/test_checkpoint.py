"""A checkpoint comes back as it was, and a file that is none is refused however it is damaged."""

import pickle
import random
from pathlib import Path

import pytest
import torch

from course_lib.translation.checkpoint import load_checkpoint, refuse_other_config, save_checkpoint
from course_lib.translation.config import load_config
from course_lib.translation.errors import BadInputError

STATE = {"config": {}, "subwords": "abc", "trainer": {"w": torch.arange(500.0)}, "metrics_bytes": 3}


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "c.pt", STATE)
    loaded = load_checkpoint(tmp_path / "c.pt")
    assert loaded.keys() == STATE.keys()
    assert torch.equal(loaded["trainer"]["w"], torch.arange(500.0))
    assert [path.name for path in tmp_path.iterdir()] == ["c.pt"]


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_half_a_file_and_noise_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    save_checkpoint(path, STATE)
    whole = path.read_bytes()
    rng = random.Random(0)
    for trial in range(60):
        path.write_bytes(
            whole[: rng.randrange(len(whole))] if trial % 2 else rng.randbytes(rng.randrange(300))
        )
        with pytest.raises(BadInputError, match=r"c\.pt: expected a checkpoint of a run"):
            load_checkpoint(path)


class Payload:
    """What runs code when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.write_text, (self.path, "code ran"))


def test_a_checkpoint_never_runs_code(tmp_path: Path) -> None:
    torch.save({**STATE, "payload": Payload(tmp_path / "ran")}, tmp_path / "c.pt")
    with pytest.raises(BadInputError):
        load_checkpoint(tmp_path / "c.pt")
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(Payload(tmp_path / "ran")))
    assert (tmp_path / "ran").exists(), "an ordinary unpickler would have run it"


def test_a_checkpoint_of_another_version_is_refused() -> None:
    config = load_config("multi30k-tiny")
    saved = config.model_dump()
    refuse_other_config(Path("c.pt"), saved, config)
    saved["model"]["flavour"] = "sour"
    with pytest.raises(BadInputError, match=r"c\.pt is of another version of the lab"):
        refuse_other_config(Path("c.pt"), saved, config)
