"""The fast layers compute the same losses and gradients as the reference's layers."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from course_lib.transformer import EncoderLayer, Transformer, TransformerConfig
from course_lib.translation.configs.schema import ModelConfig, Precision, RunConfig
from course_lib.translation.distributed import SINGLE_PROCESS, DistributedInfo
from course_lib.translation.model.fast_layers import FastEncoderLayer, use_fast_layers
from course_lib.translation.model.loss import LossSum
from course_lib.translation.model.seq2seq import REFERENCE, build_model
from tests.translation.real_processes import in_processes
from tests.translation.train.micro_training import new_trainer, weights

CPU, WORDS = torch.device("cpu"), 50
Configs = Callable[..., RunConfig]


def gradients(config: ModelConfig, precision: Precision, fast: bool) -> tuple[float, Tensor, list[str]]:
    torch.manual_seed(0)
    model = build_model(config, WORDS, WORDS)
    assert isinstance(model, nn.Module)
    for parameter in model.parameters():  # so that scales aren't one and shifts aren't zero
        nn.init.normal_(parameter, std=0.3)
    if precision == "float64":
        model.double()
    loss_sum = LossSum(model, REFERENCE.loss(WORDS, 0, 0.1), precision)
    if fast:
        loss_sum.use_fast_layers(CPU)
        loss_sum.refresh()
    source, target = torch.randint(1, WORDS, (5, 9)), torch.randint(1, WORDS, (5, 7))
    source[2, 5:], target[1, 4:] = 0, 0
    total = loss_sum(source, target)
    total.backward()
    found = torch.cat([parameter.grad.flatten().double() for parameter in model.parameters()])
    return total.item(), found, [name for name, _ in model.named_parameters()]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("attention", ["plain", "fused"])
def test_loss_gradients_and_names_are_the_reference_s(attention: str, norm_first: bool) -> None:
    config = ModelConfig.model_validate(
        {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32, "dropout": 0.0}
        | {"attention": attention, "norm_first": norm_first}
    )
    loss, expected, names = gradients(config, "float64", fast=False)
    for precision, within in (("float64", 1e-12), ("float32", 1e-4), ("bfloat16", 0.05)):
        other_loss, found, other_names = gradients(config, precision, fast=True)
        assert other_names == names
        assert other_loss == pytest.approx(loss, rel=within)
        assert (found - expected).norm() < within * expected.norm()


@pytest.mark.parametrize("attention", ["plain", "fused"])
def test_evaluation_with_the_replaced_layers_gives_the_reference_s_loss(attention: str) -> None:
    config = ModelConfig.model_validate(
        {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32, "dropout": 0.0, "attention": attention}
    )
    model = build_model(config, WORDS, WORDS, "float64")
    source, target = torch.randint(1, WORDS, (5, 9)), torch.randint(1, WORDS, (5, 7))
    source[2, 5:], target[1, 4:] = 0, 0
    loss = REFERENCE.loss(WORDS, 0, 0.0)
    expected = LossSum(model, loss, "float64").eval()(source, target).item()
    LossSum(model, loss, "float64").use_fast_layers(CPU)
    # The evaluator builds its own loss, which computes the reference's masks.
    assert LossSum(model, loss, "float64").eval()(source, target).item() == pytest.approx(expected, rel=1e-12)


def test_other_models_keep_their_layers() -> None:
    class OwnLayer(EncoderLayer):
        pass

    class OwnModel(Transformer):
        pass

    sizes = TransformerConfig(2, 8, 2, 16, 0.1)
    assert use_fast_layers(OwnModel(9, 9, sizes), torch.float32) == ([], None)
    model = Transformer(9, 9, sizes)
    model.encoder_layers[0] = OwnLayer(8, 2, 16)
    use_fast_layers(model, torch.float32)
    assert [type(layer) for layer in model.encoder_layers] == [OwnLayer, FastEncoderLayer]


def test_a_changed_weight_counts_from_the_next_update_on() -> None:
    config = ModelConfig(layers=1, d_model=16, heads=2, d_ff=32, dropout=0.0)
    model = build_model(config, WORDS, WORDS)
    loss_sum = LossSum(model, REFERENCE.loss(WORDS, 0, 0.1), "bfloat16")
    loss_sum.use_fast_layers(CPU)
    source = torch.randint(1, WORDS, (3, 5))

    def loss() -> float:
        total: float = loss_sum(source, source).item()
        return total

    loss_sum.refresh()
    before = loss()
    with torch.no_grad():
        model.encoder_layers[0].feed_forward.outer.weight.mul_(3)
    assert loss() == before
    loss_sum.refresh()
    assert loss() != before
    with torch.no_grad():
        assert loss_sum(source, source).item() == pytest.approx(loss(), rel=1e-2)


def test_float16_scales_the_loss_and_skips_what_overflows(tiny_config: Configs) -> None:
    half = new_trainer(tiny_config("training.precision=float16", "model.dropout=0"))
    full = new_trainer(tiny_config("model.dropout=0"))
    plan = half.plan()
    for batches in plan[:6]:
        half.update(batches)
        full.update(batches)
    near = half.window.close()["loss"]
    assert near == pytest.approx(full.window.close()["loss"], rel=2e-2)
    state = half.state()
    assert state["scaler"]["scale"] > 1
    before = weights(half)
    with torch.no_grad():
        half.model.generator.weight[0, 0] = torch.inf
    half.update(plan[6])
    assert half.state()["scaler"]["scale"] == state["scaler"]["scale"] / 2
    after = weights(half)
    for name in before:
        assert name == "generator.weight" or "embedding" in name or after[name] == before[name]


def updates_with_too_few_batches(distributed: DistributedInfo, config: RunConfig) -> list[float]:
    trainer = new_trainer(config, distributed)
    for batches in trainer.plan()[:2]:
        trainer.update(batches[:1])
    return [trainer.window.close()["loss"], *weights(trainer)["generator.bias"]]


def test_in_float16_a_process_may_have_no_batch_in_its_first_update(tiny_config: Configs) -> None:
    config = tiny_config("training.precision=float16", "model.dropout=0")
    one, other = in_processes(2, updates_with_too_few_batches, config)
    assert one == other
    assert one == pytest.approx(updates_with_too_few_batches(SINGLE_PROCESS, config), rel=1e-3, abs=1e-5)
