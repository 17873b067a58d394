"""`precision: auto` is resolved once for a run, by all of its ranks together."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.distributed import SINGLE_PROCESS, DistributedInfo
from course_lib.translation.model import precision as model_precision
from course_lib.translation.model.precision import (
    Precision,
    autocast,
    has_bfloat16,
    resolve_precision,
)
from course_lib.translation.train.experiment import train
from course_lib.translation.train.setup import (
    resolve_precision_on_all_ranks,
    resumed_precision,
    set_up_process,
)
from tests.translation.real_processes import in_processes

CPU = torch.device("cpu")


def set_capabilities(monkeypatch: pytest.MonkeyPatch, **found: bool) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found, raising=False)


def test_the_hardware_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    set_capabilities(monkeypatch, avx2=True, avx512_bf16=False)
    assert not has_bfloat16(CPU)
    assert resolve_precision("auto", CPU) == "float32"
    for name in ("avx512_bf16", "amx_bf16"):
        set_capabilities(monkeypatch, **{name: True})
        assert has_bfloat16(CPU)
        assert resolve_precision("auto", CPU) == "bfloat16"
    assert resolve_precision("float64", CPU) == "float64"


def test_a_torch_that_cannot_tell_means_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert resolve_precision("auto", CPU) == "float32"


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("bfloat16", torch.bfloat16), ("float32", torch.float32), ("auto", torch.bfloat16)],
)
def test_products_are_computed_in_it(
    monkeypatch: pytest.MonkeyPatch, precision: Precision, dtype: torch.dtype
) -> None:
    set_capabilities(monkeypatch, avx512_bf16=True)
    with autocast(precision, CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


@pytest.mark.slow
def test_a_resumed_run_keeps_its_precision(
    tiny_config: Callable[..., RunConfig], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def until(updates: int, run_folder: str, **capabilities: bool) -> Path:
        set_capabilities(monkeypatch, **capabilities)
        options = (
            "training.precision=auto",
            "evaluation.bleu_every=0",
            f"run_folder={tmp_path / run_folder}",
        )
        train(tiny_config(*options, f"training.updates={updates}"), SINGLE_PROCESS)
        return tmp_path / run_folder / "config.yaml"

    for updates in (2, 3):
        config = until(updates, "begun without", amx_bf16=updates == 3)
        assert "precision: float32" in config.read_text("utf-8")
    until(2, "begun with", amx_bf16=True)
    with pytest.raises(BadInputError, match="was started in bfloat16, but auto means float32 on this"):
        until(3, "begun with", amx_bf16=False)
    # If the user has changed the precision, a different message reports it later.
    config = tmp_path / "begun with" / "config.yaml"
    config.write_text(config.read_text("utf-8").replace("precision: bfloat16", "precision: float64"), "utf-8")
    assert resumed_precision(RunFolder(config.parent), "float32", CPU) == "float32"


def one_lacks_it(distributed: DistributedInfo) -> list[str]:
    model_precision.has_bfloat16 = lambda device: distributed.rank != 1  # not undone: the process ends
    kinds: list[Precision] = ["auto", "bfloat16"]
    return [resolve_precision_on_all_ranks(kind, CPU, distributed) for kind in kinds]


def test_a_process_without_it_decides_for_all() -> None:
    assert in_processes(2, one_lacks_it) == [["float32", "bfloat16"]] * 2


def refusal(distributed: DistributedInfo, *configs: RunConfig) -> str:
    try:
        set_up_process(configs[distributed.rank], distributed)
    except BadInputError as error:
        return str(error)
    return ""


def test_processes_of_which_one_names_the_precision_are_refused(
    tiny_config: Callable[..., RunConfig],
) -> None:
    configs = [tiny_config(f"training.precision={precision}") for precision in ("auto", "float32")]
    first, second = in_processes(2, refusal, *configs)
    assert first == second
    assert "process 1 has training.precision float32, process 0 has auto" in first
