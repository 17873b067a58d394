"""Lesson 03: normalisation, feed-forward network and residual connection, compared with PyTorch's layers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from course_lib.transformer import FeedForward, LayerNorm, SublayerConnection

from .samples import assert_close, numbers, seeds, unchanged, with_random_weights
from .torch_twins import assert_same_gradients, gradient, linear_state, norm_state, under, weight

SHAPES = [(2, 3), (1, 1), (4,), (), (2, 1, 3)]


def compare_with_torch(ours: nn.Module, twin: nn.Module, x: Tensor) -> None:
    """Compare the output and the gradient of the input with those of PyTorch's module."""
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    output, expected = ours(mine), twin(theirs)
    assert_close(output, expected)
    weight_of_outputs = numbers(*output.shape)
    (output * weight_of_outputs).sum().backward()
    (expected * weight_of_outputs).sum().backward()
    assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize("eps", [1e-6, 0.1, 10.0])
@pytest.mark.parametrize("d_model", [1, 2, 4, 7, 64])
@pytest.mark.parametrize("axes", SHAPES)
def test_layer_norm_is_that_of_torch(axes: tuple[int, ...], d_model: int, eps: float) -> None:
    norm = with_random_weights(LayerNorm(d_model, eps))
    twin = nn.LayerNorm(d_model, eps, dtype=torch.float64)
    twin.load_state_dict(norm_state(norm, weight))
    compare_with_torch(norm, twin, 3 * numbers(*axes, d_model) + 5)
    assert_same_gradients(twin, norm_state(norm, gradient))


def test_pitfall_04_biased_variance_and_eps_inside_the_root() -> None:
    # Mean 2, variance ((-1)^2 + 1^2) / 2 = 1, and 1 + 3 = 4 under the root.
    norm = LayerNorm(2, eps=3.0)
    assert norm(torch.tensor([1.0, 3.0])).tolist() == [-0.5, 0.5]
    x = numbers(3, 4)
    ours, twin = LayerNorm(4, eps=2.0).double(), nn.LayerNorm(4, eps=2.0, dtype=torch.float64)
    assert_close(ours(x), twin(x))


def test_layer_norm_starts_with_scale_one_and_shift_zero_and_a_small_eps() -> None:
    norm = LayerNorm(5)
    assert norm.scale.tolist() == [1.0] * 5
    assert norm.shift.tolist() == [0.0] * 5
    assert norm.state_dict().keys() == {"scale", "shift"}
    x = 1e-3 * numbers(3, 5)
    assert_close(norm.double()(x), nn.LayerNorm(5, eps=1e-6, dtype=torch.float64)(x))


def test_layer_norm_of_equal_features_is_the_shift() -> None:
    norm = with_random_weights(LayerNorm(7))
    x = torch.full((2, 7), 3.0, dtype=torch.float64, requires_grad=True)
    output = norm(x)
    assert_close(output, norm.shift.expand(2, 7))
    output.sum().backward()
    assert x.grad.isfinite().all()


@given(seeds, st.integers(2, 9), st.floats(0.1, 100.0), st.floats(-100.0, 100.0))
def test_layer_norm_does_not_see_scale_and_shift_of_its_input(
    seed: int, d_model: int, scale: float, shift: float
) -> None:
    torch.manual_seed(seed)
    norm, x = LayerNorm(d_model, eps=1e-12).double(), numbers(3, d_model)
    assert_close(norm(scale * x + shift), norm(x), rtol=1e-6, atol=1e-6)
    assert_close(norm(-x), -norm(x))


@given(seeds, st.integers(1, 9))
def test_layer_norm_gives_mean_zero_and_variance_one(seed: int, d_model: int) -> None:
    torch.manual_seed(seed)
    output = LayerNorm(d_model, eps=0.0 if d_model > 1 else 1.0).double()(numbers(4, d_model))
    assert_close(output.mean(dim=-1), torch.zeros(4, dtype=torch.float64))
    variance = torch.full((4,), 1.0 if d_model > 1 else 0.0, dtype=torch.float64)
    assert_close(output.var(dim=-1, correction=0), variance, rtol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_layer_norm_in_lower_precision_is_near_that_of_torch(dtype: torch.dtype) -> None:
    norm, x = LayerNorm(8).to(dtype), numbers(4, 8).to(dtype)
    output = norm(x)
    assert output.dtype == dtype
    assert_close(output, nn.LayerNorm(8, eps=1e-6, dtype=dtype)(x), rtol=0.0, atol=8 * torch.finfo(dtype).eps)


@pytest.mark.parametrize(("d_model", "d_ff"), [(4, 6), (7, 1), (1, 3)])
@pytest.mark.parametrize("axes", SHAPES)
def test_feed_forward_is_two_linear_layers_around_a_relu(
    axes: tuple[int, ...], d_model: int, d_ff: int
) -> None:
    feed_forward = with_random_weights(FeedForward(d_model, d_ff, dropout=0.0))
    twin = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model)).double()

    def state(read) -> dict[str, Tensor]:
        return under("0", linear_state(feed_forward.inner, read)) | under(
            "2", linear_state(feed_forward.outer, read)
        )

    twin.load_state_dict(state(weight))
    compare_with_torch(feed_forward, twin, numbers(*axes, d_model))
    assert_same_gradients(twin, state(gradient))


def test_feed_forward_drops_out_between_its_layers() -> None:
    x = numbers(2, 3, 4)
    all_dropped = with_random_weights(FeedForward(4, 6, dropout=1.0))
    # Dropout on the output would give zeros, and no dropout at all would give more than the bias.
    assert torch.equal(all_dropped(x), all_dropped.outer.bias.expand(2, 3, 4))
    assert FeedForward(4, 6).dropout.p == 0.1


def test_feed_forward_drops_out_after_the_relu() -> None:
    feed_forward = with_random_weights(FeedForward(4, 6, dropout=0.5))
    seen = []
    feed_forward.dropout.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    x = numbers(2, 3, 4)
    feed_forward(x)
    assert len(seen) == 1
    assert_close(seen[0], feed_forward.inner(x).clamp(min=0.0))


@given(seeds, st.integers(1, 5))
def test_feed_forward_treats_every_position_alone_and_alike(seed: int, length: int) -> None:
    torch.manual_seed(seed)
    feed_forward, x = with_random_weights(FeedForward(4, 6, dropout=0.0)), numbers(2, length, 4)
    one_by_one = torch.stack([feed_forward(x[:, i : i + 1])[:, 0] for i in range(length)], dim=1)
    assert_close(feed_forward(x), one_by_one)


class Doubling(nn.Module):
    """A sublayer that computes 2x + 1 and records its input."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        return 2 * x + 1


def connection_and_norm(norm_first: bool, dropout: float = 0.0) -> tuple[SublayerConnection, nn.LayerNorm]:
    connection = with_random_weights(SublayerConnection(6, dropout, norm_first))
    norm = nn.LayerNorm(6, eps=1e-6, dtype=torch.float64)
    norm.load_state_dict(norm_state(connection.norm, weight))
    return connection, norm


def test_pitfall_05_post_norm_normalises_after_the_sum() -> None:
    (connection, norm), sublayer, x = connection_and_norm(norm_first=False), Doubling(), numbers(2, 3, 6)
    assert_close(connection(x, sublayer), norm(x + (2 * x + 1)))
    assert len(sublayer.seen) == 1
    assert_close(sublayer.seen[0], x)


def test_pitfall_05_pre_norm_normalises_before_the_sublayer() -> None:
    (connection, norm), sublayer, x = connection_and_norm(norm_first=True), Doubling(), numbers(2, 3, 6)
    assert_close(connection(x, sublayer), x + (2 * norm(x) + 1))
    assert len(sublayer.seen) == 1
    assert_close(sublayer.seen[0], norm(x))


def test_pitfall_05_post_norm_is_the_rule_unless_told() -> None:
    connection, x = SublayerConnection(6).double().eval(), numbers(2, 3, 6)
    assert_close(connection(x, torch.zeros_like), nn.LayerNorm(6, eps=1e-6, dtype=torch.float64)(x))
    assert connection.dropout.p == 0.1


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_falls_on_what_the_sublayer_gives_and_on_nothing_else(norm_first: bool) -> None:
    (connection, norm), x = connection_and_norm(norm_first, dropout=1.0), numbers(2, 3, 6)
    assert_close(connection(x, Doubling()), x if norm_first else norm(x))
    sublayer = Doubling()
    connection(x, sublayer)
    assert_close(sublayer.seen[0], norm(x) if norm_first else x)


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_keeps_the_mean_of_what_the_sublayer_gives(norm_first: bool) -> None:
    connection = SublayerConnection(6, 0.25, norm_first).double()
    connection.norm = nn.Identity()
    x = torch.zeros(1, 1000, 6, dtype=torch.float64)
    output = connection(x, torch.ones_like)
    kept = output != 0.0
    assert torch.all(output[kept] == 1 / 0.75)
    assert kept.double().mean().item() == pytest.approx(0.75, abs=0.03)


def test_inputs_are_not_written_into() -> None:
    x = numbers(2, 3, 6)
    with unchanged(x):
        LayerNorm(6).double()(x)
        FeedForward(6, 4, dropout=0.5).double()(x)
        SublayerConnection(6, 0.5).double()(x, Doubling())
        SublayerConnection(6, 0.5, norm_first=True).double()(x, Doubling())
