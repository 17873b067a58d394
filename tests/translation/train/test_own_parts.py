"""Runs with a student's parts: the same result for any split, or a one-line error that names the part."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from course_lib.errors import BadInputError, ExitCode
from course_lib.student.parts import LESSONS
from course_lib.transformer import Transformer
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.checkpoints.trained_model import load_model
from course_lib.translation.configs.loader import load_config
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.decoding.translator import load_translator
from course_lib.translation.distributed import DistributedInfo
from course_lib.translation.model.seq2seq import REFERENCE
from course_lib.translation.train.__main__ import main
from course_lib.translation.train.experiment import train
from course_lib.translation.train.student_code.adapters import reference_view
from course_lib.translation.train.student_code.parts import (
    StudentCode,
    UnequalParts,
    UpdateFailedError,
    load_student_code,
    require_same_code,
)
from tests.student.parts.conftest import Student, stub
from tests.translation.real_processes import in_processes
from tests.translation.train.micro_training import SINGLE_PROCESS, assert_equal_weights, new_trainer, weights

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
SHORT = ("training.epochs=1", "evaluation.beam_size=1", "evaluation.bleu_every=0")

#: Correct solutions, each with a habit that a run must tolerate.
WITH_HABITS = {
    "attention_weights": """
seen = []  # keeps the latest weights
def attention_weights(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(torch.softmax(scores, -1))
    seen[:] = [weights]
    return weights
""",
    "LayerNorm": """
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))
        self.of_no_use = nn.Parameter(torch.ones(3))
        self.eps = eps
        self.printed = lambda x: print("my norm:", x.shape)  # prints, and can't be pickled
    def forward(self, x):
        self.printed(x)
        centred = x - x.mean(-1, keepdim=True)
        scale = self.scale * torch.rsqrt(centred.square().mean(-1, keepdim=True) + self.eps)
        return centred * scale + self.shift
""",
    "MultiHeadAttention": """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, heads, dropout=0.1, attention=scaled_dot_product_attention):
        super().__init__()
        self.heads, self.attention, self.dropout = heads, attention, nn.Dropout(dropout)
        self.all = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))  # each weight has two names
        self.query_projection, self.key_projection, self.value_projection, self.output_projection = self.all
    def forward(self, query, key, value, mask=None):
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        q, k, v = (split_heads(f(x), self.heads) for f, x in zip(self.all, (query, key, value)))
        self.last, weights = self.attention(q, k, v, mask, self.dropout)
        return self.all[3](merge_heads(self.last))
""",
    "make_scheduler": """
def make_scheduler(optimizer, d_model, warmup, factor=1.0):
    class Mine:  # not one of torch's schedulers, and counts updates itself
        def __init__(self):
            self.n = 0
            self.step()
        def step(self):
            self.n += 1
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(self.n, d_model, warmup, factor)
    return Mine()
""",
}


@pytest.fixture
def student(tmp_path: Path) -> Student:
    (tmp_path / "lessons").mkdir()
    return Student(tmp_path / "lessons")


@pytest.fixture
def with_habits(student: Student) -> Student:
    student.code |= WITH_HABITS
    student.write()
    return student


def parts_of(student: Student, config: RunConfig, unequal: UnequalParts = "refuse") -> StudentCode:
    return load_student_code(str(student.folder), unequal, config, SINGLE_PROCESS, CPU)


def weights_after(distributed: DistributedInfo, folder: str, cases: list[tuple[RunConfig, Any]]) -> list[Any]:
    """For each case, train with the parts in a folder, and return the weights."""
    found = []
    for config, updates in cases:
        components = load_student_code(folder, "refuse", config, distributed, CPU).components()
        trainer = new_trainer(config, distributed, components=components)
        for batches in updates:
            trainer.update(batches)
        found.append(weights(trainer))
    return found


def test_any_split_gives_the_same_weights(
    with_habits: Student, tiny_config: Callable[..., RunConfig]
) -> None:
    exact = tiny_config("training.precision=float64", "model.dropout=0.2")
    # Uneven batches. Two processes get one each, then two and one, then two each.
    updates = [[[*range(9)], [9]], [[10, 11], [12], [*range(13, 20)]], [[20], [21], [22], [23, 24]]]
    cases = [(exact, updates), (tiny_config("training.precision=float64", "model.norm_first=true"), updates)]
    folder = str(with_habits.folder)
    expected = weights_after(SINGLE_PROCESS, folder, cases)
    for found in in_processes(2, weights_after, folder, cases):
        for those, these in zip(found, expected, strict=True):
            assert_equal_weights(those, these, within=1e-9)


@pytest.mark.parametrize(
    "overrides", [("training.simcut_alpha=2", "training.max_grad_norm=0.5"), ("model.norm_first=true",)]
)
def test_the_weights_are_those_of_the_reference(
    with_habits: Student, tiny_config: Callable[..., RunConfig], overrides: tuple[str, ...]
) -> None:
    config = tiny_config("training.precision=float64", "model.dropout=0", *overrides)
    outcomes: list[Any] = []
    first: dict[str, torch.Tensor] = {}
    for components in (REFERENCE, parts_of(with_habits, config).components()):
        trainer = new_trainer(config, components=components)
        if first:  # A model with different modules draws its initial weights in a different order.
            trainer.model.load_state_dict(first, strict=False)
        first |= {name: value.clone() for name, value in trainer.model.state_dict().items()}
        rates = [trainer.update([[0, 1], [2]]) for _ in range(4)]
        outcomes.append((weights(trainer), rates))
    (expected, rates), (found, own_rates) = outcomes
    assert own_rates == pytest.approx(rates)
    assert_equal_weights({name: found[name] for name in expected}, expected, within=1e-5)


def test_a_run_is_trained_kept_and_translated_with(
    with_habits: Student,
    tiny_config: Callable[..., RunConfig],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts = str(with_habits.folder)
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    beam = "evaluation.beam_size=3"
    train(tiny_config(f"run_folder={straight}", beam), SINGLE_PROCESS, parts=parts)
    said = capsys.readouterr().out
    assert "28 of the 30 parts come from your code. What it prints is not shown." in said
    assert re.search(r"beam_search +yours \(translates the test split\)", said)
    assert "my norm:" not in said

    # Train the same run in two steps. The second uses the run's copy of the code, because the notebooks
    # have changed.
    train(tiny_config(f"run_folder={stopped}", beam, "training.epochs=1"), SINGLE_PROCESS, parts=parts)
    with_habits.swap("LayerNorm", "x - x.mean(-1,", "x - x.mean(dim=-1,")
    with_habits.write()
    with pytest.raises(
        BadInputError, match=r"was made with a different version of LayerNorm. Add --parts .*parts.json"
    ):
        train(tiny_config(f"run_folder={stopped}", beam), SINGLE_PROCESS, parts=parts)
    with pytest.raises(BadInputError, match=r"was made with a student's parts\. Add --parts"):
        train(tiny_config(f"run_folder={stopped}", beam), SINGLE_PROCESS)
    train(
        tiny_config(f"run_folder={stopped}", beam),
        SINGLE_PROCESS,
        parts=str(RunFolder(stopped).parts),
    )
    models = [load_model(RunFolder(folder).model("last")) for folder in (straight, stopped)]
    for name, value in models[0].weights.items():
        assert torch.equal(models[1].weights[name], value), name
    assert models[0].parts == models[1].parts is not None

    # The weights have the contract's names, so the reference can decode with them, and with a cache.
    translator = load_translator(straight)
    assert type(translator.model) is Transformer
    written = RunFolder(straight).translations.read_text("utf-8").splitlines()
    sentences = (tmp_path / "corpus" / "test.de").read_text("utf-8").splitlines()
    assert translator.translate(sentences) == written


def test_a_run_of_the_reference_is_not_resumed_with_own_parts(
    with_habits: Student, tiny_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    own = parts_of(with_habits, tiny_config())
    checkpoint, kept = tmp_path / "step-00000003.pt", tmp_path / "parts.json"
    require_same_code(checkpoint, kept, None, None)
    require_same_code(checkpoint, kept, own.fingerprint, own)
    with pytest.raises(BadInputError, match="was made with the reference's parts"):
        require_same_code(checkpoint, kept, None, own)
    # If the copy is lost, the checkpoint still shows that it was created with different code.
    with pytest.raises(BadInputError, match="was made with a different version of your code"):
        require_same_code(checkpoint, kept, "0" * 64, own)


def test_the_view_has_the_weights_and_no_copy(
    with_habits: Student, tiny_config: Callable[..., RunConfig]
) -> None:
    config = tiny_config()
    trainer = new_trainer(config, components=parts_of(with_habits, config).components())
    size = trainer.model.generator.out_features
    view = reference_view(trainer.model, config.model, size, size)
    assert type(view) is Transformer
    trainer.update([[0, 1], [2]])
    for name, value in view.state_dict().items():
        assert torch.equal(value, trainer.model.state_dict()[name])


@pytest.mark.parametrize("name", ["make_scheduler", "LabelSmoothingLoss"])
def test_a_model_without_own_parts_is_its_own_view(
    student: Student, tiny_config: Callable[..., RunConfig], name: str
) -> None:
    student.code = {each: code if each == name else stub(each) for each, code in student.code.items()}
    student.write()
    config = tiny_config("training.precision=bfloat16")  # in which the training's layers differ
    trainer = new_trainer(config, components=parts_of(student, config).components())
    size = trainer.model.generator.out_features
    assert reference_view(trainer.model, config.model, size, size) is trainer.model


@pytest.mark.parametrize(
    ("exercise", "old", "new"),
    [
        ("MultiHeadAttention", "self.heads = heads", "self.heads = 2"),
        (
            "Transformer",
            "EncoderLayer(*sizes, *options) for _ in range(config.layers)",
            "EncoderLayer(*sizes, *options) for _ in range(2)",
        ),
        ("FeedForward", "nn.Dropout(dropout)", "lambda x: nn.functional.dropout(x, dropout)"),
    ],
)
def test_parts_that_differ_only_in_the_run_s_model_are_refused(
    student: Student, config_file: Path, capsys: pytest.CaptureFixture[str], exercise: str, old: str, new: str
) -> None:
    student.swap(exercise, old, new)
    said = refused(capsys, config_file, student, "model.layers=3", "model.heads=4", "model.dropout=0.5")
    assert "but not in this run's model (layers 3, d_model 16, heads 4, " in said


def refused(capsys: pytest.CaptureFixture[str], config_file: Path, student: Student, *arguments: str) -> str:
    """Return the line that the command prints when it refuses to run."""
    assert main([str(config_file), "--parts", str(student.write()), *arguments]) == ExitCode.BAD_INPUT
    said = capsys.readouterr().err
    assert said.startswith("train: ")
    assert said.count("\n") == 1
    return said


def test_unequal_and_broken_parts_are_refused_or_replaced(
    student: Student, config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    student.swap("LayerNorm", "correction=0", "correction=1")
    student.code["split_heads"] = "def split_heads(x:"
    student.code["FeedForward"] = stub("FeedForward")
    said = refused(capsys, config_file, student)
    assert "LayerNorm (03-sublayers): the logits, post-norm: off by up to" in said
    assert "02-multi-head/02-multi-head.ipynb, cell split_heads, line 1: not valid Python" in said
    assert "FeedForward" not in said
    assert not (tmp_path / "run").exists()

    table = parts_of(
        student, load_config(str(config_file), ["evaluation.beam_size=5"]), unequal="reference"
    ).table()
    assert "25 of the 30 parts come from your code." in table
    assert re.search(r"split_heads +the reference's \(see \[1\]\)", table)
    assert re.search(r"LayerNorm +the reference's \(see \[2\]\)", table)
    # Parts that aren't written yet share one line.
    assert "FeedForward" not in table
    assert re.search(r"^\d others?: the reference's$", table, re.MULTILINE)


def test_parts_are_compared_in_the_precision_of_the_run(
    student: Student, config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # This common way to mask overflows in float16.
    student.swap("attention_weights", ".masked_fill(~mask, lowest)", ".masked_fill(~mask, -1e9)")
    said = refused(capsys, config_file, student, "training.precision=float16")
    assert re.search(r"attention_weights \(01-attention\): it raises RuntimeError: .* without overflow", said)
    assert not (tmp_path / "run").exists()
    for precision in ("float32", "bfloat16"):
        parts_of(student, load_config(str(config_file), [f"training.precision={precision}"]))


def test_code_that_raises_in_the_middle_is_named(
    student: Student, config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    student.swap(
        "FeedForward",
        "        return self.outer(",
        "        if x.shape[1] > 9:  # longer than anything that is compared before the run\n"
        "            raise RuntimeError('enough')\n"
        "        return self.outer(",
    )
    said = refused(capsys, config_file, student)
    assert re.search(
        r"03-sublayers.ipynb, cell FeedForward, line \d+: your code raised RuntimeError: enough.", said
    )


def told_in_a_run(distributed: DistributedInfo, config: RunConfig, folder: str) -> str:
    try:
        train(config, distributed, parts=folder)
    except UpdateFailedError as error:
        return str(error)
    return ""


def test_code_that_raises_on_one_process_ends_all_in_a_line(
    student: Student, tiny_config: Callable[..., RunConfig]
) -> None:
    student.swap(
        "FeedForward",
        "        return self.outer(",
        "        if x.shape[1] > 9 and torch.distributed.get_rank() == 1:\n"
        "            raise RuntimeError('enough')\n"
        "        return self.outer(",
    )
    first, second = in_processes(2, told_in_a_run, tiny_config(*SHORT), str(student.write()))
    assert "cell FeedForward" in second
    assert first == "Another process has ended, so this one ends too. See the other process's message."


def test_where_nothing_is_written_the_folder_is_refused(
    student: Student, config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    student.code = {name: stub(name) for name in student.code}
    assert "none of the parts there can be used. The first: 01" in refused(capsys, config_file, student)


def test_options_and_overrides_in_any_order(config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(config_file), "--parts", "/no/such/folder", "training.epochs=1"]) == ExitCode.BAD_INPUT
    assert "there is no such folder" in capsys.readouterr().err


def test_parts_without_use_are_said_and_not_compared(
    student: Student, tiny_config: Callable[..., RunConfig]
) -> None:
    student.swap("attention_scores", "/ math.sqrt", "* math.sqrt")
    student.swap("learning_rate", "warmup**-1.5", "warmup**-1.4")
    student.swap("greedy_decode", "ended.all()", "ended.any()")
    student.write()
    config = tiny_config(
        "model.attention=fused",
        "model.tie_embeddings=false",
        "training.schedule=constant",
        "training.lr=1e-3",
        "evaluation.beam_size=5",
    )
    own = parts_of(student, config)
    table = own.table()
    for name, why in (
        ("attention_scores", "model.attention is fused"),
        ("learning_rate", "training.schedule is constant"),
        ("tie_embeddings", "model.tie_embeddings is false"),
        ("greedy_decode", "evaluation.beam_size is 5"),
    ):
        assert re.search(rf"{name} +yours \(not used: {why}\)", table)
        assert name not in own.used
    # A change to code that is unused or used only after training doesn't change the fingerprint.
    before = own.fingerprint
    student.swap("learning_rate", "warmup**-1.4", "warmup**-1.3")
    student.swap("length_penalty", "return ((5 + length)", "return ((5.0 + length)")
    student.write()
    assert parts_of(student, config).fingerprint == before
    student.swap("LayerNorm", "correction=0", "unbiased=False")
    student.write()
    assert parts_of(student, config).fingerprint != before


def refusals(distributed: DistributedInfo, config: RunConfig, folder: str) -> str:
    """Return the error of this rank, which reads its own folder, or an empty string."""
    try:
        load_student_code(folder.format(rank=distributed.rank), "refuse", config, distributed, CPU)
    except BadInputError as error:
        return str(error)
    return ""


def test_processes_with_other_code_are_refused(tmp_path: Path, tiny_config: Callable[..., RunConfig]) -> None:
    for rank in range(2):
        (tmp_path / f"lessons{rank}").mkdir()
        student = Student(tmp_path / f"lessons{rank}")
        if rank:
            student.swap("causal_mask", "length, length", "length,length")
        student.write()
    first, second = in_processes(2, refusals, tiny_config(), str(tmp_path / "lessons{rank}"))
    assert first == second
    assert "process 1 has the code of causal_mask" in first
    (tmp_path / "lessons1").rename(tmp_path / "elsewhere")
    for told in in_processes(2, refusals, tiny_config(), str(tmp_path / "lessons{rank}")):
        assert told.startswith("--parts, on process 1: ")
        assert "there is no such folder" in told


@pytest.mark.parametrize(
    ("exercise", "code", "told", "processes"),
    [
        (
            "shard",
            "def shard(batches, rank, world_size):\n    size = -(-len(batches) // world_size)\n"
            "    return batches[rank * size : (rank + 1) * size]",
            "3 batches for 2 processes: expected [[[0], [2]], [[1]]]",
            1,
        ),
        (
            "shard",
            "def shard(batches, rank, world_size):\n    return batches[rank + 1 - 1 :: world_size - 1]",
            "it raises ValueError: slice step cannot be zero",
            1,
        ),
        (
            "global_token_mean",
            "def global_token_mean(loss_sum, token_count):\n    mean = loss_sum / token_count\n"
            "    if dist.is_initialized():\n        dist.all_reduce(mean)\n"
            "        mean = mean / dist.get_world_size()\n    return mean",
            "expected 2.2, got 2.125",
            2,
        ),
    ],
)
def test_lesson_12_is_compared_among_the_processes(
    student: Student,
    tiny_config: Callable[..., RunConfig],
    exercise: str,
    code: str,
    told: str,
    processes: int,
) -> None:
    student.code = {name: stub(name) for name in student.code} | {exercise: code}
    folder = str(student.write())
    config = tiny_config()
    if processes == 1:
        said = [refusals(SINGLE_PROCESS, config, folder)]
    else:
        said = in_processes(processes, refusals, config, folder)
    for line in said:
        assert f"{exercise} (12-data-parallel): {told}" in line


def test_every_lesson_of_a_run_is_in_the_table(
    student: Student, tiny_config: Callable[..., RunConfig]
) -> None:
    student.write()
    table = parts_of(student, tiny_config()).table()
    for names in LESSONS.values():
        for name in names:
            assert re.search(rf"^\S+ +{name} +yours", table, re.MULTILINE)
