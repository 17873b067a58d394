"""`GradientBuckets` in one process. `test_replicas` trains with it in several processes."""

import pytest
import torch

from course_lib.transformer import GradientBuckets, all_reduce_gradients, broadcast_parameters
from tests.transformer.test_replicas import loss_of, made, sentences


@pytest.mark.parametrize("bucket_bytes", [1, 100, 10_000])
def test_without_a_group_gradients_and_parameters_stay(bucket_bytes: int) -> None:
    model = made(0)
    before = [one.detach().clone() for one in model.parameters()]
    buckets = GradientBuckets(model, bucket_bytes)
    loss_of(model, sentences(0)).backward()
    gradients = [None if one.grad is None else one.grad.clone() for one in model.parameters()]
    buckets.finish()
    all_reduce_gradients(model)
    broadcast_parameters(model)
    for parameter, value, gradient in zip(model.parameters(), before, gradients, strict=True):
        assert torch.equal(parameter, value)
        assert (parameter.grad is None) == (gradient is None)
        assert gradient is None or torch.equal(parameter.grad, gradient)


def test_buckets_hold_what_fits() -> None:
    model = made(0)
    sizes = [[one.nbytes for one in bucket] for bucket in GradientBuckets(model, 300).buckets]
    assert sizes == [[40, 40, 40, 56], [280]]
    assert len(GradientBuckets(model, 1).buckets) == 5
