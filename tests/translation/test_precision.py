"""What `precision: auto` means is settled once for a run, and by all of its processes."""

import pytest
import torch
from real_processes import in_processes

from course_lib.translation.model import precision as precision_file
from course_lib.translation.model.precision import (
    Precision,
    arithmetic,
    has_bfloat16,
    settled,
    settled_by_all,
)
from course_lib.translation.training.distributed import Place

CPU = torch.device("cpu")


def set_capabilities(monkeypatch: pytest.MonkeyPatch, **found: bool) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found, raising=False)


def test_the_hardware_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    set_capabilities(monkeypatch, avx2=True, avx512_bf16=False)
    assert not has_bfloat16(CPU)
    assert settled("auto", CPU) == "float32"
    for name in ("avx512_bf16", "amx_bf16"):
        set_capabilities(monkeypatch, **{name: True})
        assert has_bfloat16(CPU)
        assert settled("auto", CPU) == "bfloat16"
    assert settled("float64", CPU) == "float64"


def test_a_torch_that_cannot_tell_means_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert settled("auto", CPU) == "float32"


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("bfloat16", torch.bfloat16), ("float32", torch.float32), ("auto", torch.bfloat16)],
)
def test_products_are_computed_in_it(
    monkeypatch: pytest.MonkeyPatch, precision: Precision, dtype: torch.dtype
) -> None:
    set_capabilities(monkeypatch, avx512_bf16=True)
    with arithmetic(precision, CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def one_lacks_it(place: Place) -> list[str]:
    precision_file.has_bfloat16 = lambda device: place.rank != 1  # this process ends with the test
    return [settled_by_all("auto", CPU, place), settled_by_all("bfloat16", CPU, place)]


def test_a_process_without_it_decides_for_all() -> None:
    assert in_processes(2, one_lacks_it) == [["float32", "bfloat16"]] * 2
