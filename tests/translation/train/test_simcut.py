"""SimCut trains a model to make the same predictions when a few tokens are missing."""

from collections.abc import Callable

import pytest
import torch

from course_lib.transformer import Transformer, TransformerConfig
from course_lib.translation.configs.schema import ModelConfig, RunConfig
from course_lib.translation.model.loss import LossSum, divergence_sum, token_cutoff
from course_lib.translation.model.seq2seq import REFERENCE, build_model
from tests.translation.train.micro_training import new_trainer

SOURCE = torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0]])
TARGET = torch.tensor([[1, 8, 2], [1, 9, 2]])


def test_the_divergence_is_that_of_its_definition() -> None:
    torch.manual_seed(0)
    whole, cut = torch.randn(2, 5, 4, dtype=torch.float64).requires_grad_()
    p, q = whole.softmax(-1), cut.softmax(-1)
    expected = (p * (p / q).log()).sum()
    assert divergence_sum(whole, cut).detach().item() == pytest.approx(float(expected.detach()), rel=1e-12)
    assert divergence_sum(whole, whole).detach().item() == pytest.approx(0, abs=1e-12)
    for gradient in torch.autograd.grad(divergence_sum(whole, cut), (whole, cut)):
        assert gradient.abs().max() > 0.01, "the gradient flows into both"


@pytest.mark.parametrize("tied", [True, False])
def test_only_the_second_half_misses_tokens_and_only_within(tied: bool) -> None:
    torch.manual_seed(0)
    model = Transformer(10, 10, TransformerConfig(1, 8, 2, 8, 0.0))
    if tied:
        REFERENCE.tie_embeddings(model)
    tokens = torch.randint(10, (400, 5))
    for embedding in (model.source_embedding, model.target_embedding):
        expected = embedding(tokens)
        with token_cutoff(model, 0.25):
            found = embedding(tokens)
        assert torch.equal(found[:200], expected[:200])
        missing = (found[200:] == 0).all(-1)
        assert missing.double().mean().item() == pytest.approx(0.25, abs=0.06)
        assert torch.equal(found[200:][~missing], expected[200:][~missing])
        assert torch.equal(embedding(tokens), expected)


def loss_of(alpha: float, p: float = 0.5, training: bool = True) -> float:
    torch.manual_seed(0)
    model = build_model(ModelConfig(layers=1, d_model=8, heads=2, d_ff=8, dropout=0.0), 10, 10)
    loss_sum = LossSum(model, REFERENCE.loss(10, 0, 0.1), "float32", REFERENCE, alpha, p).train(training)
    torch.manual_seed(1)
    return float(loss_sum(SOURCE, TARGET).detach())


def test_it_adds_alpha_times_the_divergence_and_only_in_training() -> None:
    plain = loss_of(0.0)
    one, three = loss_of(1.0) - plain, loss_of(3.0) - plain
    assert one > 1e-3
    assert three == pytest.approx(3 * one, rel=1e-3)
    assert loss_of(3.0, p=1e-9) == pytest.approx(plain, rel=1e-6), "without missing tokens, nothing differs"
    assert loss_of(3.0, training=False) == pytest.approx(plain, rel=1e-6)


def test_what_is_missing_differs_between_updates(tiny_config: Callable[..., RunConfig]) -> None:
    config = tiny_config("training.lr_factor=1e-12", "model.dropout=0", "training.simcut_alpha=3")
    trainer = new_trainer(config)
    batch = trainer.plan()[0]
    losses = set()
    for _ in range(3):
        trainer.update(batch)
        losses.add(trainer.window.close()["loss"])
    assert len(losses) == 3
