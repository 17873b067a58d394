"""Lesson 11: one model averaged from several checkpoints, compared with sums in plain Python."""

import math
from collections import OrderedDict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.transformer import average_checkpoints, tie_embeddings

from .samples import assert_close, numbers, sentences, small_transformer, unchanged

finite = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(st.lists(st.lists(finite, min_size=3, max_size=3), min_size=1, max_size=6))
def test_each_entry_is_the_mean_of_its_values(checkpoints: list[list[float]]) -> None:
    states = [{"weight": torch.tensor(values, dtype=torch.float64)} for values in checkpoints]
    expected = [math.fsum(values) / len(checkpoints) for values in zip(*checkpoints, strict=True)]
    average = average_checkpoints(states)
    assert_close(average["weight"], torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_dtype_is_kept(dtype: torch.dtype) -> None:
    average = average_checkpoints(
        [{"w": torch.tensor([1.0]).to(dtype)}, {"w": torch.tensor([2.0]).to(dtype)}]
    )
    assert average["w"].dtype == dtype
    assert average["w"].tolist() == [1.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_large_half_precision_weights_do_not_overflow(dtype: torch.dtype) -> None:
    largest = torch.tensor([torch.finfo(dtype).max], dtype=dtype)
    assert torch.equal(average_checkpoints([{"w": largest}] * 20)["w"], largest)


def test_half_precision_weights_are_summed_more_exactly_than_they_are_kept() -> None:
    states = [{"w": torch.tensor([2048.0 if i == 0 else 1.0], dtype=torch.float16)} for i in range(64)]
    assert average_checkpoints(states)["w"].item() == pytest.approx((2048 + 63) / 64, rel=1e-3)


def test_pitfall_14_what_cannot_be_averaged_is_taken_whole_from_the_last() -> None:
    norms = [nn.BatchNorm1d(3) for _ in range(3)]
    for count, norm in enumerate(norms, start=1):
        norm.num_batches_tracked.fill_(count)
        norm.running_mean.fill_(float(count))
    average = average_checkpoints([norm.state_dict() for norm in norms])
    assert average["num_batches_tracked"].dtype == torch.int64
    assert average["num_batches_tracked"].item() == 3
    assert average["running_mean"].tolist() == [2.0] * 3
    flags = average_checkpoints([{"on": torch.tensor([True, False])}] * 2)["on"]
    assert flags.tolist() == [True, False]


def test_pitfall_14_the_average_holds_no_graph() -> None:
    models = [nn.Linear(3, 2) for _ in range(2)]
    average = average_checkpoints([model.state_dict(keep_vars=True) for model in models])
    assert not any(entry.requires_grad for entry in average.values())
    assert_close(average["weight"], (models[0].weight + models[1].weight).detach() / 2, rtol=1e-6)


@pytest.mark.parametrize("count", [1, 2])
def test_the_average_shares_nothing_with_its_inputs(count: int) -> None:
    states = [{"w": numbers(3), "steps": torch.tensor([i])} for i in range(count)]
    before = [{name: entry.clone() for name, entry in state.items()} for state in states]
    average = average_checkpoints(states)
    for entry in average.values():
        entry.fill_(99)
    for state, old in zip(states, before, strict=True):
        assert all(torch.equal(state[name], old[name]) for name in state)


def test_the_average_fits_into_a_model() -> None:
    models = [small_transformer() for _ in range(3)]
    average = average_checkpoints(model.state_dict() for model in models)
    fresh = small_transformer()
    fresh.load_state_dict(average)
    for name, parameter in fresh.named_parameters():
        expected = sum(model.get_parameter(name) for model in models) / 3
        assert_close(parameter, expected.detach())
    source = sentences([3, 2])
    assert fresh.encode(source, None).isfinite().all()


def test_tied_models_average_to_a_tied_model() -> None:
    models = [tie_embeddings(small_transformer()) for _ in range(2)]
    fresh = tie_embeddings(small_transformer())
    fresh.load_state_dict(average_checkpoints([model.state_dict() for model in models]))
    expected = (models[0].generator.weight + models[1].generator.weight) / 2
    assert_close(fresh.source_embedding.table.weight, expected)


def test_names_keep_their_order() -> None:
    states = [OrderedDict(b=numbers(1), a=numbers(1)), OrderedDict(a=numbers(1), b=numbers(1))]
    assert list(average_checkpoints(states)) == ["b", "a"]


def test_averaging_equal_checkpoints_changes_nothing() -> None:
    state = small_transformer().state_dict()
    average = average_checkpoints([state] * 4)
    assert all(torch.equal(average[name], state[name]) for name in state)


def test_nothing_to_average_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one checkpoint"):
        average_checkpoints([])


@pytest.mark.parametrize(
    "odd_one", [{"w": torch.zeros(1)}, {"w": torch.zeros(1), "b": torch.zeros(1), "c": torch.zeros(1)}]
)
def test_checkpoints_of_different_models_are_refused_by_name(odd_one: dict) -> None:
    state = {"w": torch.zeros(1), "b": torch.zeros(1)}
    differing = "b" if "b" not in odd_one else "c"
    with pytest.raises(ValueError, match=rf"checkpoint 3.*: {differing}"):
        average_checkpoints([state, state, odd_one])


def test_checkpoints_of_different_sizes_are_refused() -> None:
    with pytest.raises((ValueError, RuntimeError)):
        average_checkpoints([{"w": torch.zeros(2, 3)}, {"w": torch.zeros(2, 4)}])
    with pytest.raises((ValueError, RuntimeError)):
        average_checkpoints([{"w": torch.zeros(1)}, {"w": torch.zeros(3)}])
    with pytest.raises((ValueError, RuntimeError)):
        average_checkpoints([{"w": torch.zeros(3)}, {"w": torch.zeros(1)}])


def test_inputs_are_not_written_into() -> None:
    states = [{"w": numbers(3), "steps": torch.tensor([i])} for i in range(3)]
    with unchanged(*(entry for state in states for entry in state.values())):
        average_checkpoints(states)


def test_checkpoints_stay_on_their_device(device: str) -> None:
    states = [{"w": numbers(3).to(device)} for _ in range(2)]
    assert average_checkpoints(states)["w"].device.type == device
