"""A run that starts from another run's model equals a run whose initial weights happen to be the same."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.provided import load_run
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.checkpoints.trained_model import load_model, load_trained_run, save_model
from course_lib.translation.configs.schema import ModelConfig, RunConfig, yaml_value
from course_lib.translation.decoding.translator import load_translator
from course_lib.translation.distributed import SINGLE_PROCESS, DistributedInfo
from course_lib.translation.train.experiment import train
from tests.translation.phrases import phrase_pairs, write_split
from tests.translation.real_processes import in_processes
from tests.translation.train.same_run import assert_same_run, forget_checkpoints, metrics, newest

pytestmark = pytest.mark.slow

NO_STEP = "training.lr_factor=1e-30"
#: Overrides that skip scores these tests don't need, and set the width of the first run.
PLAIN = ("evaluation.bleu_every=0", "model.d_model=32")

Configs = Callable[..., RunConfig]


@pytest.fixture
def first_run(trained_folder: Path, tmp_path: Path) -> Path:
    """A finished run that translates with its averaged weights."""
    folder = tmp_path / "first"
    shutil.copytree(trained_folder, folder)
    config = (folder / "config.yaml").read_text("utf-8")
    (folder / "config.yaml").write_text(config.replace("weights: last", "weights: averaged"), "utf-8")
    return folder


def train_from(first: Path, tiny_config: Configs, *overrides: str) -> Path:
    config = tiny_config(f"training.init_from={first}", *PLAIN, *overrides)
    train(config, SINGLE_PROCESS)
    return Path(config.run_folder)


def refusal(tiny_config: Configs, first: Path, *overrides: str) -> str:
    with pytest.raises(BadInputError) as caught:
        train_from(first, tiny_config, *overrides)
    return str(caught.value)


def test_a_run_has_one_start(first_run: Path, tiny_config: Configs) -> None:
    train(tiny_config(*PLAIN, "training.epochs=1"), SINGLE_PROCESS)
    assert "training.init_from (was null, now " in refusal(tiny_config, first_run, "training.epochs=2")


def test_it_begins_with_the_weights_that_the_other_translates_with(
    first_run: Path, tiny_config: Configs
) -> None:
    usual_length = ("evaluation.length_factor=1.2", "evaluation.length_extra=10")
    folder = train_from(
        first_run, tiny_config, NO_STEP, "training.epochs=1", "evaluation.alpha=0.6", *usual_length
    )
    expected = load_model(RunFolder(first_run).model("averaged")).weights
    got = load_model(RunFolder(folder).model("last")).weights
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-20)
    sentences = ["zwei Hunde schlafen", "fünf Züge"]
    theirs = load_translator(first_run).translate(sentences, beam=2, alpha=0.6)
    assert load_translator(folder).translate(sentences, beam=2, alpha=0.6) == theirs
    # Everything else starts from scratch: updates, schedule, optimiser.
    assert newest(folder)["trainer"]["epochs_done"] == 1
    assert metrics(folder)[0]["step"] == 4


def test_it_can_start_from_a_provided_model(tiny_config: Configs) -> None:
    shape = ("model.layers=3", "model.d_model=192", "model.heads=4", "model.d_ff=512")
    folder = train_from(Path("multi30k"), tiny_config, NO_STEP, *shape, "training.epochs=1")
    provided, run = load_run("multi30k"), load_trained_run(RunFolder(folder))
    torch.testing.assert_close(run.model.weights, provided.model.weights, rtol=0, atol=1e-20)
    # The provided model knows both directions, and this run translates in one of them.
    assert run.vocabulary.direction == "de-en"
    assert run.vocabulary.fingerprint == provided.vocabulary.fingerprint


def test_it_keeps_the_others_vocabulary_whatever_there_is_to_learn_from(
    first_run: Path, tiny_config: Configs, tmp_path: Path
) -> None:
    write_split(tmp_path / "corpus", "train", phrase_pairs(60, seed=77))
    folder = train_from(first_run, tiny_config, "training.epochs=1", "data.vocab_size=310")
    assert (folder / "vocabulary.json").read_bytes() == (first_run / "vocabulary.json").read_bytes()
    # Without a checkpoint, data is prepared again with the vocabulary that is configured now.
    forget_checkpoints(folder)
    train(tiny_config("training.epochs=1", "data.vocab_size=310", *PLAIN), SINGLE_PROCESS)
    own = (folder / "vocabulary.json").read_bytes()
    assert own != (first_run / "vocabulary.json").read_bytes()
    forget_checkpoints(folder)
    train_from(first_run, tiny_config, "training.epochs=1", "data.vocab_size=310")
    assert (folder / "vocabulary.json").read_bytes() == (first_run / "vocabulary.json").read_bytes()


def test_a_started_run_no_longer_needs_the_initial_one(
    first_run: Path, tiny_config: Configs, tmp_path: Path
) -> None:
    whole = train_from(first_run, tiny_config, f"run_folder={tmp_path / 'whole'}")
    train_from(first_run, tiny_config, "training.epochs=1")
    first_run.rename(tmp_path / "elsewhere")
    stopped = train_from(first_run, tiny_config)
    assert_same_run(stopped, whole)


def test_a_model_trained_in_both_directions_continues_in_one(tiny_config: Configs, tmp_path: Path) -> None:
    both = tmp_path / "both"
    train(tiny_config(f"run_folder={both}", "data.both_directions=true", *PLAIN), SINGLE_PROCESS)
    folder = train_from(both, tiny_config, "training.epochs=1", "data.max_length=30")
    run = load_trained_run(RunFolder(folder))
    assert run.vocabulary.direction == "de-en"
    assert len(load_translator(folder).translate(["zwei Hunde schlafen"])) == 1
    pairs = {path: (path / "data" / "train.offsets").stat().st_size for path in (both, folder)}
    assert pairs[both] > 1.9 * pairs[folder]


def in_two_processes(distributed: DistributedInfo, config: RunConfig) -> str:
    try:
        train(config, distributed)
    except BadInputError as error:
        return str(error)
    return ""


def test_two_processes_begin_alike(first_run: Path, tiny_config: Configs, tmp_path: Path) -> None:
    exact = ("training.precision=float64", *PLAIN, f"training.init_from={first_run}")
    in_processes(2, in_two_processes, tiny_config(*exact, f"run_folder={tmp_path / 'two'}"))
    train(tiny_config(*exact, f"run_folder={tmp_path / 'one'}"), SINGLE_PROCESS)
    one, two = (newest(tmp_path / name)["trainer"]["model"] for name in ("one", "two"))
    torch.testing.assert_close(two, one, rtol=1e-9, atol=1e-9)


def on_rank_zero_only(distributed: DistributedInfo, config: RunConfig, missing: RunConfig) -> str:
    return in_two_processes(distributed, missing if distributed.rank else config)


def test_only_rank_zero_reads_the_model_to_start_from(
    first_run: Path, tiny_config: Configs, tmp_path: Path
) -> None:
    configs = [tiny_config(f"training.init_from={run}", *PLAIN) for run in (first_run, tmp_path / "missing")]
    assert in_processes(2, on_rank_zero_only, *configs) == ["", ""]


def test_every_difference_in_architecture_is_refused(first_run: Path, tiny_config: Configs) -> None:
    others = {"layers": 2, "d_model": 64, "heads": 4, "d_ff": 64, "norm_first": True, "tie_embeddings": False}
    # Starting a run with other values of these options makes sense, because they change no weight.
    assert {*others, "dropout", "inner_dropout", "attention"} == ModelConfig.model_fields.keys()
    told = refusal(tiny_config, first_run, *(f"model.{key}={yaml_value(it)}" for key, it in others.items()))
    assert [key for key in others if f" model.{key} is " in told] == list(others)


def test_a_model_of_another_shape_is_refused_by_name(
    first_run: Path, tiny_config: Configs, tmp_path: Path
) -> None:
    told = refusal(tiny_config, first_run, "model.d_ff=64", "model.layers=2")
    assert told == (
        f"training.init_from: the model of {first_run} doesn't fit: model.layers is 1 there and 2 here; "
        "model.d_ff is 32 there and 64 here. Set these keys to the values of that run."
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_without_a_model_is_refused(tiny_config: Configs, tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "empty").mkdir()
    told = refusal(tiny_config, tmp_path / "empty")
    assert ("after its first epoch" if there else "there is no such folder") in told
    assert told.startswith("training.init_from: ")
    assert told.endswith(" Train that run first, or set training.init_from=null.")
    assert not (tmp_path / "run").exists()


def test_one_direction_cannot_become_both(first_run: Path, tiny_config: Configs) -> None:
    told = refusal(tiny_config, first_run, "data.both_directions=true")
    assert "was trained without data.both_directions" in told


def who_refused(distributed: DistributedInfo, config: RunConfig) -> tuple[str, str]:
    with pytest.raises(BadInputError) as caught:
        train(config, distributed)
    return type(caught.value).__name__, str(caught.value)


def test_weights_by_other_names_are_refused_once(first_run: Path, tiny_config: Configs) -> None:
    path = RunFolder(first_run).model("averaged")
    model = load_model(path)
    weights = {name.replace("generator", "output"): weight for name, weight in model.weights.items()}
    save_model(path, replace(model, weights=weights))
    config = tiny_config(f"training.init_from={first_run}", *PLAIN)
    first, second = in_processes(2, who_refused, config)
    message = f"training.init_from: the weights of {first_run} don't fit this run's model: their names or"
    assert first[1] == second[1]
    assert first[1].startswith(message)
    # Only the first process reports the error.
    assert (first[0], second[0]) == ("BadInputError", "RankZeroError")
