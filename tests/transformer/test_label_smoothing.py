"""Lesson 08: smoothed targets computed by hand, and the loss compared with PyTorch's label smoothing."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from course_lib.transformer import LabelSmoothingLoss, smooth_targets

from .samples import PAD, assert_close, numbers, seeds, unchanged

smoothings = st.sampled_from([0.0, 0.1, 0.3, 1.0])


def labels_of(seed: int, shape: tuple[int, ...], vocab_size: int, pad_id: int) -> Tensor:
    """Draw labels, about a quarter of which are padding. The first label is the last word's id."""
    torch.manual_seed(seed)
    labels = torch.randint(vocab_size, shape)
    labels[torch.rand(shape) < 0.25] = pad_id
    labels.view(-1)[0] = vocab_size - 1
    return labels


def test_targets_by_hand() -> None:
    targets = smooth_targets(torch.tensor([3, 0, 1]), vocab_size=5, pad_id=0, smoothing=0.4)
    expected = [[0.08, 0.08, 0.08, 0.68, 0.08], [0.0] * 5, [0.08, 0.68, 0.08, 0.08, 0.08]]
    assert targets.is_floating_point()
    assert_close(targets, torch.tensor(expected, dtype=targets.dtype), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3), (2, 1, 3)])
def test_labels_may_have_any_shape(shape: tuple[int, ...]) -> None:
    labels = torch.full(shape, 2)
    targets = smooth_targets(labels, 4, PAD, 0.2)
    assert targets.shape == (*shape, 4)
    assert_close(targets, torch.tensor([0.05, 0.05, 0.85, 0.05]).expand(*shape, 4), rtol=1e-6)


@given(seeds, st.integers(2, 9), smoothings, st.sampled_from([0, 1, -100]))
def test_rows_sum_to_one_and_those_of_padding_to_nothing(
    seed: int, vocab_size: int, smoothing: float, pad_id: int
) -> None:
    labels = labels_of(seed, (3, 4), vocab_size, pad_id)
    targets = smooth_targets(labels, vocab_size, pad_id, smoothing)
    assert torch.all(targets[labels == pad_id] == 0.0)
    real = targets[labels != pad_id]
    assert_close(real.sum(dim=-1), torch.ones(len(real)), rtol=1e-6)
    assert torch.all(real >= 0.0)
    for row, label in zip(real, labels[labels != pad_id], strict=True):
        others = torch.cat([row[:label], row[label + 1 :]])
        assert_close(others, torch.full_like(others, smoothing / vocab_size), rtol=1e-6)


def test_without_smoothing_a_target_is_sure() -> None:
    labels = torch.tensor([3, 1])
    assert torch.equal(smooth_targets(labels, 4, PAD, 0.0), F.one_hot(labels, 4).float())


@pytest.mark.parametrize("vocab_size", [1, 2, 3])
def test_pitfall_12_smoothing_is_spread_over_the_whole_vocabulary(vocab_size: int) -> None:
    targets = smooth_targets(torch.tensor([vocab_size - 1]), vocab_size, -1, 0.3)
    expected = [0.3 / vocab_size] * vocab_size
    expected[-1] += 0.7
    assert targets[0].tolist() == pytest.approx(expected, rel=1e-6)


@given(seeds, st.integers(1, 9), smoothings, st.sampled_from([0, 1, -100]))
def test_pitfall_12_loss_and_gradient_are_those_of_the_cross_entropy_of_torch(
    seed: int, vocab_size: int, smoothing: float, pad_id: int
) -> None:
    pad_id = pad_id if vocab_size > 2 else -100
    labels = labels_of(seed, (3, 4), vocab_size, pad_id)
    ours = (3 * numbers(3, 4, vocab_size)).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    loss = LabelSmoothingLoss(vocab_size, pad_id, smoothing)(ours, labels)
    expected = F.cross_entropy(
        theirs.flatten(0, 1), labels.flatten(), label_smoothing=smoothing, ignore_index=pad_id
    )
    assert loss.shape == ()
    assert loss.dtype == torch.float64
    assert_close(loss, expected, rtol=1e-6)
    loss.backward()
    expected.backward()
    assert_close(ours.grad, theirs.grad, rtol=1e-6, atol=1e-8)


def test_pitfall_12_a_perfect_model_pays_the_entropy_of_the_targets_and_not_zero() -> None:
    labels = torch.tensor([[3, 1, 2]])
    logits = smooth_targets(labels, 5, PAD, 0.4).double().log()
    entropy = -(0.68 * math.log(0.68) + 4 * 0.08 * math.log(0.08))
    assert LabelSmoothingLoss(5, PAD, 0.4)(logits, labels).item() == pytest.approx(entropy, rel=1e-6)


@pytest.mark.parametrize(("smoothing", "labels"), [(0.0, [1, 3, 4]), (0.1, [0, 3, 4]), (0.0, [0, 3, 4])])
def test_pitfall_12_a_token_that_cannot_come_gives_no_nan(smoothing: float, labels: list[int]) -> None:
    """At the first position, one token is impossible. It isn't the label, or the position is padding."""
    logits = numbers(3, 5)
    logits[0, 2] = -torch.inf
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = LabelSmoothingLoss(5, PAD, smoothing)(ours, torch.tensor(labels))
    expected = F.cross_entropy(theirs, torch.tensor(labels), label_smoothing=smoothing, ignore_index=PAD)
    assert_close(loss, expected, rtol=1e-6)
    loss.backward()
    expected.backward()
    assert_close(ours.grad, theirs.grad, rtol=1e-6, atol=1e-8)


def test_the_mean_is_over_real_tokens() -> None:
    loss, logits = LabelSmoothingLoss(5, PAD, 0.1), numbers(1, 2, 5)
    alone = loss(logits, torch.tensor([[3, 4]]))
    padded_logits = torch.cat([logits, 100 * numbers(1, 7, 5)], dim=1)
    padded = loss(padded_logits, torch.tensor([[3, 4] + [PAD] * 7]))
    assert_close(padded, alone)


def test_padding_gets_no_gradient() -> None:
    logits = numbers(2, 3, 5).requires_grad_()
    labels = torch.tensor([[3, 4, 0], [1, 0, 0]])
    LabelSmoothingLoss(5, PAD, 0.1)(logits, labels).backward()
    assert torch.all(logits.grad[labels == PAD] == 0.0)
    assert torch.all(logits.grad[labels != PAD].abs().sum(dim=-1) > 0.0)


def test_nothing_but_padding_costs_nothing() -> None:
    logits = numbers(2, 3, 5).requires_grad_()
    loss = LabelSmoothingLoss(5, PAD, 0.1)(logits, torch.full((2, 3), PAD))
    assert loss.item() == 0.0
    loss.backward()
    assert torch.all(logits.grad == 0.0)


def test_huge_logits_give_a_finite_loss() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]], dtype=torch.float64)
    loss = LabelSmoothingLoss(3, PAD, 0.3)(logits, torch.tensor([1]))
    expected = F.cross_entropy(logits, torch.tensor([1]), label_smoothing=0.3)
    assert_close(loss, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_loss_has_the_dtype_of_the_logits(dtype: torch.dtype) -> None:
    logits, labels = numbers(2, 3, 5), torch.tensor([[3, 4, 0], [1, 0, 0]])
    exact = LabelSmoothingLoss(5, PAD, 0.1)(logits, labels)
    loss = LabelSmoothingLoss(5, PAD, 0.1)(logits.to(dtype), labels)
    assert loss.dtype == dtype
    assert_close(loss.double(), exact, rtol=8 * torch.finfo(dtype).eps)


def test_labels_may_be_of_any_integer_dtype() -> None:
    loss, logits, labels = LabelSmoothingLoss(5, PAD), numbers(2, 3, 5), torch.tensor([[3, 4, 0], [1, 0, 0]])
    assert torch.equal(loss(logits, labels.int()), loss(logits, labels))


def test_the_loss_keeps_its_padding_and_smooths_by_a_tenth_unless_told() -> None:
    loss = LabelSmoothingLoss(7, 3)
    assert loss.pad_id == 3
    logits, labels = numbers(2, 7), torch.tensor([1, 6])
    assert_close(loss(logits, labels), F.cross_entropy(logits, labels, label_smoothing=0.1), rtol=1e-6)


def test_targets_and_loss_are_on_the_device_of_the_labels() -> None:
    labels = torch.ones(2, 3, dtype=torch.long, device="meta")
    assert smooth_targets(labels, 5, PAD, 0.1).is_meta
    assert LabelSmoothingLoss(5, PAD)(torch.empty(2, 3, 5, device="meta"), labels).is_meta


def test_inputs_are_not_written_into() -> None:
    logits, labels = numbers(2, 3, 5), torch.tensor([[3, 4, 0], [1, 0, 0]])
    with unchanged(logits, labels):
        smooth_targets(labels, 5, PAD, 0.1)
        LabelSmoothingLoss(5, PAD, 0.1)(logits, labels)
