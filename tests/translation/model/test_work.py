"""The computed work of an update equals the count of PyTorch's own counter of matrix products."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib.translation.configs.schema import ModelConfig, Precision
from course_lib.translation.model import flops
from course_lib.translation.model.flops import measure_matmul_rate, training_flops
from course_lib.translation.model.loss import LossSum
from course_lib.translation.model.seq2seq import REFERENCE, build_model

SIZES = ModelConfig(layers=3, d_model=16, heads=2, d_ff=40, dropout=0.0)
VOCABULARY = 31


def counted(source_length: int, target_length: int, sentences: int = 2) -> int:
    """Return PyTorch's count for a forward and a backward pass over a batch without padding."""
    model = build_model(SIZES, VOCABULARY, VOCABULARY)
    loss_sum = LossSum(model, REFERENCE.loss(VOCABULARY, 0, 0.1), "float32")
    source = torch.randint(1, VOCABULARY, (sentences, source_length))
    target = torch.randint(1, VOCABULARY, (sentences, target_length + 1))
    with FlopCounterMode(display=False) as counter:
        loss_sum(source, target).backward()
    return counter.get_total_flops()


@pytest.mark.parametrize(("source_length", "target_length"), [(5, 5), (4, 11), (30, 2)])
def test_it_is_what_is_computed(source_length: int, target_length: int) -> None:
    work = training_flops(
        SIZES, VOCABULARY, torch.tensor([source_length] * 2), torch.tensor([target_length] * 2)
    )
    # Plain attention also multiplies what the causal mask hides, which isn't counted as work.
    hidden = 12 * SIZES.d_model * SIZES.layers * 2 * target_length**2 / 2
    assert work + hidden == pytest.approx(counted(source_length, target_length), rel=1e-12)


def test_padding_is_no_work() -> None:
    both = training_flops(SIZES, VOCABULARY, torch.tensor([3, 9]), torch.tensor([8, 2]))
    one = training_flops(SIZES, VOCABULARY, torch.tensor([3]), torch.tensor([8]))
    other = training_flops(SIZES, VOCABULARY, torch.tensor([9]), torch.tensor([2]))
    assert both == pytest.approx(one + other)


@pytest.mark.parametrize(
    "precision",
    # Products in bfloat16 take seconds on processors that have no bfloat16 instructions.
    ["float32", "tf32", pytest.param("bfloat16", marks=pytest.mark.nightly)],
)
@pytest.mark.slow
def test_the_rate_can_be_measured_in_the_precisions_of_training(
    precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flops, "_MIN_SECONDS", 0.0)
    assert measure_matmul_rate(torch.device("cpu"), precision) > 0
