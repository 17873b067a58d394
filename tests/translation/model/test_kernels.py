"""The faster modules match the reference's modules, and dropout has the right distribution."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from course_lib.transformer import (
    LabelSmoothingLoss,
    LayerNorm,
    Transformer,
    TransformerConfig,
    decoder_mask,
    tie_embeddings,
)
from course_lib.translation.model import fused
from course_lib.translation.model.fused import (
    BlockDropout,
    FusedLayerNorm,
    chunk_bytes,
    fused_decoder_mask,
    fused_smoothed_loss,
    use_fused_layers,
)
from course_lib.translation.model.loss import LossSum
from course_lib.translation.model.seq2seq import REFERENCE


@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_and_its_gradients_are_lesson_08_s(
    monkeypatch: pytest.MonkeyPatch, rows: int, smoothing: float
) -> None:
    monkeypatch.setitem(fused._LOGITS_PER_CHUNK, "cpu", rows * 11)
    torch.manual_seed(0)
    hidden = (3 * torch.randn(7, 5, dtype=torch.float64)).requires_grad_()
    generator = nn.Linear(5, 11).double()
    labels = torch.tensor([1, 10, 3, 3, 7, 2, 5])
    inputs = (hidden, generator.weight, generator.bias)
    expected = LabelSmoothingLoss(11, 0, smoothing).double()(generator(hidden), labels) * 7
    found = fused_smoothed_loss(*inputs, labels, smoothing, torch.float64)
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)  # lesson 08's targets are in float32
    for theirs, ours in zip(
        torch.autograd.grad(3 * expected, inputs), torch.autograd.grad(3 * found, inputs), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_the_loss_has_the_gradient_that_finite_differences_have() -> None:
    torch.manual_seed(0)
    inputs = [
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (6, 4), (6,))
    ]
    labels = torch.tensor([2, 5, 1])
    assert torch.autograd.gradcheck(
        lambda *given: fused_smoothed_loss(*given, labels, 0.2, torch.float64), inputs
    )


def test_in_bfloat16_the_loss_is_near() -> None:
    torch.manual_seed(0)
    hidden, generator = torch.randn(50, 32, requires_grad=True), nn.Linear(32, 40)
    labels = torch.randint(40, (50,))
    inputs = (hidden, generator.weight, generator.bias)
    exact, rough = (
        fused_smoothed_loss(*inputs, labels, 0.1, dtype) for dtype in (torch.float32, torch.bfloat16)
    )
    assert rough.dtype == torch.float32
    assert rough.item() == pytest.approx(exact.item(), rel=2e-3)
    for near, right in zip(
        torch.autograd.grad(rough, inputs), torch.autograd.grad(exact, inputs), strict=True
    ):
        assert near.dtype == torch.float32
        assert (near - right).norm() < 0.02 * right.norm()


def test_in_float16_a_gradient_that_sums_many_rows_is_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fused._LOGITS_PER_CHUNK, "cpu", fused._LOGITS_PER_CHUNK["cuda"])
    torch.manual_seed(0)
    # All rows push the weights of one label in one direction: in total, by more than float16 can represent.
    hidden = (2 + 0.1 * torch.randn(60_000, 8)).half()
    generator = nn.Linear(8, 20)
    inputs = (generator.weight, generator.bias)
    labels = torch.full((60_000,), 5)
    near, right = (
        torch.autograd.grad(fused_smoothed_loss(hidden.to(dtype), *inputs, labels, 0.1, dtype), inputs)[0]
        for dtype in (torch.float16, torch.float32)
    )
    assert right.abs().max() > 70_000
    assert (near - right).norm() < 0.01 * right.norm()
    rows = chunk_bytes(60_000, 20, torch.float16, torch.device("cuda")) / 20 / (4 + 2 + 2)
    assert rows == fused._FLOAT16_ROWS


def test_without_gradients_the_logits_are_the_only_product() -> None:
    inputs = torch.randn(8, 6), torch.randn(20, 6, requires_grad=True), torch.randn(20, requires_grad=True)
    flops = {}
    for learning in (True, False):
        with torch.set_grad_enabled(learning), FlopCounterMode(display=False) as counter:
            fused_smoothed_loss(*inputs, torch.arange(8), 0.1, torch.float32)
        flops[learning] = counter.get_total_flops()
    assert flops == {True: 3 * 2 * 8 * 6 * 20, False: 2 * 8 * 6 * 20}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.999])
def test_dropout_drops_so_many_and_keeps_the_mean(dtype: torch.dtype, p: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(211, 1001, dtype=dtype, requires_grad=True)  # not a multiple of four
    y = BlockDropout(p)(x)
    assert (y.dtype, y.shape) == (dtype, x.shape)
    share = (y == 0).double().mean().item()
    spread = (p * (1 - p) / x.numel()) ** 0.5
    assert share == pytest.approx(p, abs=5 * spread + 2**-17)
    kept = y[y != 0]
    assert kept.unique().numel() == 1
    assert kept[0].item() == pytest.approx(1 / (1 - p), rel=0.02 if dtype == torch.bfloat16 else 0.01)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, y.detach())


def test_what_dropout_drops_is_random_in_every_place() -> None:
    """Elements of a block of four, and elements in the same place of different blocks, are independent."""
    torch.manual_seed(1)
    dropped = BlockDropout(0.5)(torch.ones(400_000)) == 0
    for apart in (1, 2, 3, 4, 8):
        both = (dropped[apart:] & dropped[:-apart]).double().mean().item()
        assert both == pytest.approx(0.25, abs=0.005), apart
    for place in range(4):
        assert dropped[place::4].double().mean().item() == pytest.approx(0.5, abs=0.01), place


def test_dropout_is_decided_by_torch_s_seed_and_off_in_evaluation() -> None:
    dropout, x = BlockDropout(0.3), torch.rand(5, 7)
    torch.manual_seed(3)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(3)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)
    assert dropout.eval()(x) is x
    assert BlockDropout(0.0)(x) is x
    assert torch.isfinite(BlockDropout(1e-6)(x)).all()  # a rate that would be rounded to 0
    assert BlockDropout(0.3)(torch.empty(0, 4)).shape == (0, 4)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_model_with_kernels_is_the_same_model(norm_first: bool) -> None:
    def build() -> Transformer:
        torch.manual_seed(0)
        model = Transformer(9, 9, TransformerConfig(2, 8, 2, 16, 0.1, norm_first))
        for parameter in model.parameters():  # so that scales aren't one and shifts aren't zero
            nn.init.normal_(parameter)
        return tie_embeddings(model).double()

    plain, fast = build(), build()
    use_fused_layers(fast)
    assert {type(module) for module in fast.modules()}.isdisjoint({nn.Dropout, LayerNorm})
    assert [name for name, _ in fast.named_parameters()] == [name for name, _ in plain.named_parameters()]
    assert fast.state_dict().keys() == plain.state_dict().keys()
    assert fast.generator.weight is fast.source_embedding.table.weight
    source, target = torch.tensor([[1, 5, 3], [1, 2, 0]]), torch.tensor([[4, 4], [6, 1]])
    masks = (source != 0).unsqueeze(1), None
    expected = plain.eval()(source, masks[0], target, masks[1])
    found = fast.eval()(source, masks[0], target, masks[1])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(
        torch.autograd.grad(found.square().sum(), list(fast.parameters()), allow_unused=True),
        torch.autograd.grad(expected.square().sum(), list(plain.parameters()), allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_the_decoder_s_mask_is_lesson_04_s() -> None:
    tokens = torch.tensor([[1, 4, 0, 0, 2], [0, 0, 0, 0, 0], [3, 3, 3, 3, 3]])
    assert torch.equal(fused_decoder_mask(tokens, 0), decoder_mask(tokens, 0))


def test_a_student_s_own_modules_stay() -> None:
    class OwnNorm(LayerNorm):
        pass

    class OwnDropout(nn.Dropout):
        pass

    model = nn.Sequential(OwnNorm(4), OwnDropout(0.1), LayerNorm(4), nn.Dropout(0.1))
    use_fused_layers(model)
    assert [type(module) for module in model] == [OwnNorm, OwnDropout, FusedLayerNorm, BlockDropout]


@pytest.mark.parametrize("simcut_alpha", [0.0, 1.0])
def test_a_student_s_own_loss_and_generator_are_called(simcut_alpha: float) -> None:
    called = set()

    class OwnLoss(LabelSmoothingLoss):
        def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
            called.add("loss")
            return super().forward(logits, labels)

    class OwnGenerator(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            called.add("generator")
            return super().forward(input)

    tokens = torch.tensor([[1, 4, 7, 2]])
    for own, loss in (("loss", OwnLoss(11, 0, 0.1)), ("generator", LabelSmoothingLoss(11, 0, 0.1))):
        model = Transformer(11, 11, TransformerConfig(1, 8, 2, 8, 0.1))
        if own == "generator":
            model.generator = OwnGenerator(8, 11)
        LossSum(model, loss, "float32", REFERENCE, simcut_alpha)(tokens, tokens)
        assert called == {own}
        called.clear()
