"""The lab from end to end, through its commands: train, resume, translate, score."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.translation.checkpoints.run_folder import RunFolder
from tests.student.parts.conftest import Student, stub

pytestmark = pytest.mark.slow

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
TRAIN = ["-m", "course_lib.translation.train"]
SMALL = ["evaluation.beam_size=2", "evaluation.bleu_every=0", "training.batches_per_update=2"]


def command(*arguments: str, given: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *arguments], input=given, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    """A student's notebooks, in which four parts aren't written yet."""
    folder = tmp_path / "lessons"
    folder.mkdir()
    student = Student(folder)
    student.code |= {name: stub(name) for name in ("LayerNorm", "FeedForward", "SublayerConnection", "shard")}
    return student.write()


def test_the_whole_lab(config_file: Path, tmp_path: Path, lessons: Path) -> None:
    run = RunFolder(tmp_path / "run")
    settings = [str(config_file), *SMALL, "--parts", str(lessons)]
    said = command(*TORCHRUN, *TRAIN, *settings, "training.epochs=1")
    # Of the 30 parts, four are stubs, and two aren't used with a beam of 2.
    assert "24 of the 30 parts come from your code." in said
    assert "2 processes; starting." in said

    # Train a second epoch in one process.
    said = command(*TRAIN, *settings, "training.epochs=2")
    updates = re.search(r"1 process; resuming after update (\d+)\.", said)
    assert updates is not None
    rows = [json.loads(line) for line in run.metrics.read_text("utf-8").splitlines()]
    losses = {row["epoch"]: row["validation_loss"] for row in rows if "validation_loss" in row}
    assert losses[2] < losses[1]
    assert max(row["step"] for row in rows) == 2 * int(updates.group(1))

    corpus = tmp_path / "corpus"
    german = (corpus / "test.de").read_text("utf-8").splitlines()[:3]
    translate = ["-m", "course_lib.translation.translate", str(run.path)]
    said = command(*translate, "--n-best=2", given="\n".join(german) + "\n")
    found = [line.split("\t") for line in said.splitlines()]
    assert [row[0] for row in found] == ["1", "1", "2", "2", "3", "3"]
    assert all(float(row[1]) <= float(best[1]) for best, row in zip(found[::2], found[1::2], strict=True))
    # The student's beam search translated the test split, and the lab's own search finds the same here.
    written = run.translations.read_text("utf-8").splitlines()
    assert [row[3] for row in found[::2]] == written[:3]

    bleu = command("-m", "sacrebleu", str(corpus / "test.en"), "-i", str(run.translations), "-b", "-w", "6")
    assert float(bleu) == pytest.approx(rows[-1]["test_bleu"], abs=1e-5)
