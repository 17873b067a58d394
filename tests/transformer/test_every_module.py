"""Properties of every module: it can be saved, copied and moved, and evaluation mode works as expected."""

import copy
import io
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from course_lib.transformer import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    LabelSmoothingLoss,
    LayerNorm,
    MultiHeadAttention,
    PositionalEncoding,
    SublayerConnection,
    TokenEmbedding,
    Transformer,
    TransformerConfig,
    causal_mask,
)

from .samples import assert_close, numbers, random_mask, sentences, unchanged, with_random_weights


@dataclass
class Sample:
    """Functions that build a module of a given width and its inputs of a given batch size and length."""

    build: Callable[[int], nn.Module]
    inputs: Callable[[int, int, int], tuple]
    dropout: bool = True


def tokens(batch: int, length: int) -> Tensor:
    return sentences([length] * batch)


def memory_mask(batch: int) -> Tensor:
    return random_mask(batch, 1, 3)


def transformer(d: int, norm_first: bool) -> Transformer:
    return Transformer(11, 11, TransformerConfig(2, d, 1, 5, 0.5, norm_first))


SAMPLES = {
    "MultiHeadAttention": Sample(
        lambda d: MultiHeadAttention(d, 1, 0.5),
        lambda b, n, d: (numbers(b, n, d), numbers(b, 3, d), numbers(b, 3, d), memory_mask(b)),
    ),
    "LayerNorm": Sample(LayerNorm, lambda b, n, d: (numbers(b, n, d),), dropout=False),
    "FeedForward": Sample(lambda d: FeedForward(d, 9, 0.5), lambda b, n, d: (numbers(b, n, d),)),
    "SublayerConnection": Sample(
        lambda d: SublayerConnection(d, 0.5), lambda b, n, d: (numbers(b, n, d), torch.sin)
    ),
    "TokenEmbedding": Sample(lambda d: TokenEmbedding(11, d), lambda b, n, d: (tokens(b, n),), dropout=False),
    "PositionalEncoding": Sample(lambda d: PositionalEncoding(d, 0.5), lambda b, n, d: (numbers(b, n, d),)),
    "EncoderLayer": Sample(
        lambda d: EncoderLayer(d, 1, 5, 0.5), lambda b, n, d: (numbers(b, n, d), random_mask(b, 1, n))
    ),
    "DecoderLayer": Sample(
        lambda d: DecoderLayer(d, 1, 5, 0.5),
        lambda b, n, d: (numbers(b, n, d), numbers(b, 3, d), memory_mask(b), causal_mask(n)),
    ),
    "Transformer, post-norm": Sample(
        lambda d: transformer(d, norm_first=False),
        lambda b, n, d: (tokens(b, 3), memory_mask(b), tokens(b, n), causal_mask(n)),
    ),
    "Transformer, pre-norm": Sample(
        lambda d: transformer(d, norm_first=True),
        lambda b, n, d: (tokens(b, 3), memory_mask(b), tokens(b, n), causal_mask(n)),
    ),
    "LabelSmoothingLoss": Sample(
        lambda d: LabelSmoothingLoss(11, 0), lambda b, n, d: (numbers(b, n, 11), tokens(b, n)), dropout=False
    ),
}
every_module = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())


@every_module
@pytest.mark.parametrize(("batch", "length", "d_model"), [(1, 1, 1), (1, 4, 7), (3, 1, 7), (2, 5, 8)])
def test_odd_sizes_and_lengths_of_one_will_do(sample: Sample, batch: int, length: int, d_model: int) -> None:
    module = with_random_weights(sample.build(d_model)).eval()
    output = module(*sample.inputs(batch, length, d_model))
    assert output.isfinite().all()
    assert output.shape[:2] == (batch, length) or output.shape == ()


@every_module
def test_a_state_dict_makes_a_second_module_equal_to_the_first(sample: Sample) -> None:
    first, second = with_random_weights(sample.build(8)).eval(), sample.build(8).double().eval()
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True), strict=True)
    inputs = sample.inputs(2, 4, 8)
    assert torch.equal(first(*inputs), second(*inputs))


@every_module
def test_a_deep_copy_is_equal_and_shares_nothing(sample: Sample) -> None:
    module, inputs = with_random_weights(sample.build(8)).eval(), sample.inputs(2, 4, 8)
    twin, before = copy.deepcopy(module), module(*inputs)
    assert torch.equal(twin(*inputs), before)
    with torch.no_grad():
        for weight in twin.parameters():
            weight.add_(1.0)
    assert torch.equal(module(*inputs), before)


@every_module
def test_evaluation_is_the_same_every_time_and_training_drops_out(sample: Sample) -> None:
    module, inputs = with_random_weights(sample.build(8)), sample.inputs(2, 4, 8)
    module.eval()
    assert torch.equal(module(*inputs), module(*inputs))
    module.train()
    assert torch.equal(module(*inputs), module(*inputs)) == (not sample.dropout)


@every_module
def test_evaluation_draws_no_random_numbers(sample: Sample) -> None:
    module, inputs = with_random_weights(sample.build(8)).eval(), sample.inputs(2, 4, 8)
    before = torch.get_rng_state()
    module(*inputs)
    assert torch.equal(torch.get_rng_state(), before)


@every_module
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_results_have_the_dtype_of_the_inputs(sample: Sample, dtype: torch.dtype) -> None:
    module = with_random_weights(sample.build(8), spread=0.2).eval()
    inputs = sample.inputs(2, 4, 8)
    exact = module(*inputs)

    def cast(value: object) -> object:
        return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value

    output = module.to(dtype)(*map(cast, inputs))
    assert output.dtype == dtype
    assert_close(output.double(), exact, rtol=0.0, atol=100 * torch.finfo(dtype).eps)


@every_module
def test_inputs_are_not_written_into_by_forward_or_backward(sample: Sample) -> None:
    module, inputs = with_random_weights(sample.build(8)), sample.inputs(2, 4, 8)
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    floating = [tensor.requires_grad_() for tensor in tensors if tensor.is_floating_point()]
    with unchanged(*tensors, *module.parameters()):
        output = module(*inputs)
        output.sum().backward()
    assert all(tensor.grad is not None for tensor in floating)


@every_module
def test_gradients_agree_with_finite_differences(sample: Sample) -> None:
    module, inputs = with_random_weights(sample.build(4), spread=0.3).eval(), sample.inputs(1, 3, 4)
    weights = list(module.parameters())
    floating = [v.requires_grad_() for v in inputs if isinstance(v, Tensor) and v.is_floating_point()]
    leaves = [*floating, *weights]
    output = module(*inputs)
    direction = numbers(*output.shape)
    gradients = torch.autograd.grad((output * direction).sum(), leaves, materialize_grads=True)
    for leaf, gradient in zip(leaves, gradients, strict=True):
        push, step = torch.randn_like(leaf), 1e-6
        with torch.no_grad():
            leaf.add_(push, alpha=step)
            above = (module(*inputs) * direction).sum().item()
            leaf.sub_(push, alpha=2 * step)
            below = (module(*inputs) * direction).sum().item()
            leaf.add_(push, alpha=step)
        expected = (above - below) / (2 * step)
        assert (gradient * push).sum().item() == pytest.approx(expected, rel=1e-5, abs=1e-6)
