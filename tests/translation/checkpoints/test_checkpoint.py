"""A checkpoint is restored exactly, the newest intact one is found, and invalid files are rejected."""

import pickle
import random
from pathlib import Path

import pytest
import torch

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.checkpoint import (
    Checkpoints,
    CheckpointState,
    load_checkpoint,
    require_same_config,
)
from course_lib.translation.checkpoints.checksummed_files import DamagedFileError, save_checksummed
from course_lib.translation.configs.loader import load_config

STATE: CheckpointState = {
    "config": {},
    "parts": None,
    "vocabulary": "abc",
    "data": "def",
    "trainer": {"w": torch.arange(500.0)},
    "metrics_bytes": 3,
    "selection": {"best": 0.5, "since": 0, "step": 2},
    "validated_step": 1,
    "batches_before_division": {},
}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    Checkpoints(tmp_path, 3).save(7, STATE)
    loaded = load_checkpoint(tmp_path / "step-00000007.pt")
    assert torch.equal(loaded["trainer"]["w"], torch.arange(500.0))
    assert {**loaded, "trainer": None} == {**STATE, "trainer": None}
    assert names(tmp_path) == ["step-00000007.pt"]


def test_without_a_checkpoint_a_run_starts_from_scratch(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "missing", 3).find_latest() == (None, [])


def test_the_newest_few_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 2)
    for step in (5, 10, 99_999_999, 100_000_000):
        checkpoints.save(step, STATE)
    assert names(tmp_path) == ["step-100000000.pt", "step-99999999.pt"]
    found, _ = checkpoints.find_latest()
    assert found is not None
    assert found.path == tmp_path / "step-100000000.pt"


def test_damaged_ones_are_passed_over_and_don_t_push_out_whole_ones(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 2)
    for step in (10, 20):
        checkpoints.save(step, STATE)
    newest = tmp_path / "step-00000020.pt"
    newest.write_bytes(newest.read_bytes()[:-1])
    found, damaged = checkpoints.find_latest()
    assert found is not None
    assert (found.path, damaged) == (tmp_path / "step-00000010.pt", [newest])
    checkpoints.save(15, STATE)
    assert names(tmp_path) == ["step-00000010.pt", "step-00000015.pt"]


def test_only_damaged_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "step-00000020.pt").write_bytes(b"")
    with pytest.raises(BadInputError, match=r"found only damaged ones \(step-00000020\.pt\)\."):
        Checkpoints(tmp_path, 2).find_latest()


def test_one_that_cannot_be_read_is_not_taken_for_damaged(tmp_path: Path) -> None:
    """If such a file counted as damaged, the run would resume from an older one, and soon remove it."""
    Checkpoints(tmp_path, 2).save(10, STATE)
    (tmp_path / "step-00000020.pt").mkdir()
    with pytest.raises(BadInputError, match=r"step-00000020\.pt: .* cannot be read \(Is a directory\)"):
        Checkpoints(tmp_path, 2).find_latest()


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to")]
)
def test_one_for_which_there_is_no_room_is_not_taken_for_damaged(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    Checkpoints(tmp_path, 2).save(10, STATE)
    monkeypatch.setattr(torch, "load", refuse)
    with pytest.raises(type(error)) as caught:
        Checkpoints(tmp_path, 2).find_latest()
    assert caught.value is error


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_half_a_file_a_flipped_bit_and_noise_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "step-00000001.pt"
    Checkpoints(tmp_path, 3).save(1, STATE)
    whole = path.read_bytes()
    rng = random.Random(0)
    damages = [whole[: rng.randrange(len(whole))] for _ in range(30)]
    damages += [rng.randbytes(rng.randrange(300)) for _ in range(10)]
    for _ in range(60):
        flipped = bytearray(whole)
        flipped[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        damages.append(bytes(flipped))
    for damaged in damages:
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError):
            load_checkpoint(path)
    path.write_bytes(whole)
    load_checkpoint(path)


def test_torch_alone_would_not_see_a_flipped_bit(tmp_path: Path) -> None:
    """Justify the lab's checksum, which can be removed if this test fails: torch then verifies files."""
    path = tmp_path / "c.pt"
    save_checksummed(path, STATE)
    whole = bytearray(path.read_bytes())
    at = whole.index(torch.arange(500.0).numpy().tobytes()) + 400
    whole[at] ^= 1
    path.write_bytes(whole)
    loaded = torch.load(path, weights_only=True)
    assert not torch.equal(loaded["trainer"]["w"], torch.arange(500.0))


@pytest.mark.parametrize("missing", [*STATE, None])
def test_a_sealed_file_without_the_keys_of_a_checkpoint_is_refused(
    tmp_path: Path, missing: str | None
) -> None:
    state = {key: value for key, value in STATE.items() if key != missing} if missing else {"other": 1}
    save_checksummed(tmp_path / "c.pt", state)
    with pytest.raises(DamagedFileError):
        load_checkpoint(tmp_path / "c.pt")


class Payload:
    """An object that runs code when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.write_text, (self.path, "code ran"))


def test_a_checkpoint_never_runs_code(tmp_path: Path) -> None:
    save_checksummed(tmp_path / "c.pt", {**STATE, "payload": Payload(tmp_path / "ran")})
    with pytest.raises(DamagedFileError):
        load_checkpoint(tmp_path / "c.pt")
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(Payload(tmp_path / "ran")))
    assert (tmp_path / "ran").exists(), "an ordinary unpickler would have run it"


def test_a_checkpoint_of_another_version_is_refused() -> None:
    config = load_config("multi30k-tiny")
    saved = config.model_dump()
    require_same_config(Path("c.pt"), saved, config)
    saved["model"]["flavour"] = "sour"
    with pytest.raises(BadInputError, match=r"c\.pt was written by a different version of the lab"):
        require_same_config(Path("c.pt"), saved, config)
