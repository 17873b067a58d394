"""Tensors are recognised as the same numbers in memory, and only then."""

import torch

from course_lib.tied_weights import memory_of


def test_only_the_same_numbers_in_memory_have_the_same_key() -> None:
    weight = torch.arange(6.0).view(2, 3)
    assert memory_of(weight.detach().view(2, 3)) == memory_of(torch.nn.Parameter(weight)) == memory_of(weight)
    others = (weight.clone(), weight[1:], weight.view(3, 2), weight.view(torch.int32), weight.view(6)[:4])
    assert len({memory_of(each) for each in (weight, *others)}) == 6
