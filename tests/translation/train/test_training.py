"""An update equals the reference's train_step, and a resumed trainer continues bit for bit."""

import copy
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from course_lib.transformer import LabelSmoothingLoss, make_scheduler, train_step
from course_lib.transformer.batching import collate
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.token_pairs import IdPair
from course_lib.translation.data.vocabulary import Vocabulary
from course_lib.translation.model.seq2seq import build_model
from course_lib.translation.train.optimization import make_optimizer
from course_lib.translation.train.trainer import add_gradients
from tests.translation.train.micro_training import assert_equal_weights, material, new_trainer, weights


def test_an_update_is_that_of_train_step(tiny_config: Callable[..., RunConfig]) -> None:
    config = tiny_config("training.precision=float64", "model.dropout=0")
    pairs, vocabulary = material(config)
    size = len(vocabulary)
    trainer = new_trainer(config)

    torch.manual_seed(config.seed)
    model = build_model(config.model, size, size).double()
    optimizer = make_optimizer(list(model.parameters()), config.training)
    scheduler = make_scheduler(optimizer, config.model.d_model, config.training.warmup_steps)
    loss = LabelSmoothingLoss(size, vocabulary.pad_id, config.training.label_smoothing)
    for batches in trainer.plan()[:4]:
        micro_batches = [as_matrices([pairs[index] for index in batch], config) for batch in batches]
        expected_loss = train_step(model, loss, micro_batches, optimizer, scheduler)
        trainer.update(batches)
        assert trainer.window.close()["loss"] == pytest.approx(expected_loss, rel=1e-6)
    expected = {name: value.flatten().tolist() for name, value in model.state_dict().items()}
    assert_equal_weights(weights(trainer), expected, within=1e-6)


def test_a_trainer_resumes_bit_for_bit(tiny_config: Callable[..., RunConfig]) -> None:
    config = tiny_config("training.optimizer=adamw", "training.weight_decay=0.01")
    whole = new_trainer(config)
    plan = whole.plan()
    for batches in plan[:3]:
        whole.update(batches)
    torch.manual_seed(12345)  # Random numbers drawn by other code must not matter.
    later = new_trainer(config)
    later.load(copy.deepcopy(whole.state()))  # A copy, as if read from a file.
    assert (later.step, later.epochs_done, later.updates_done) == (3, 0, 3)
    for trainer in (whole, later):
        for batches in plan[3:6]:
            trainer.update(batches)
    assert weights(later) == weights(whole)
    assert later.window.state()["loss_sum"] == whole.window.state()["loss_sum"]


def test_dropout_differs_between_updates_and_batches(tiny_config: Callable[..., RunConfig]) -> None:
    config = tiny_config("training.lr_factor=1e-12", "training.batches_per_update=1", "model.dropout=0.5")
    trainer = new_trainer(config)
    batch = trainer.plan()[0][0]
    losses = []
    for batches in ([batch], [batch], [batch, batch]):
        trainer.update(batches)
        losses.append(trainer.window.close()["loss"])
    assert len(set(losses)) == 3


def test_the_rate_is_that_of_the_schedule(tiny_config: Callable[..., RunConfig]) -> None:
    trainer = new_trainer(tiny_config("training.lr_factor=2"))
    rates = [trainer.update(batches) for batches in trainer.plan()[:2]]
    assert rates == pytest.approx([2 * 16**-0.5 * step * 20**-1.5 for step in (1, 2)])


def as_matrices(pairs: Sequence[IdPair], config: RunConfig) -> tuple[torch.Tensor, torch.Tensor]:
    return collate(pairs, Vocabulary.pad_id, Vocabulary.start_id, Vocabulary.end_id, config.data.max_length)


@pytest.mark.parametrize("with_unused", [False, True])
def test_gradients_of_several_batches_add_up_as_in_backward(with_unused: bool) -> None:
    class Model(nn.Module):
        """A model with a shared weight, a frozen one, and perhaps one that isn't used."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 5)
            self.second.weight = self.first.weight
            self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)
            # Autograd passes the same tensor to both as their gradient.
            self.one, self.other = nn.Parameter(torch.ones(5)), nn.Parameter(torch.ones(5))
            if with_unused:
                self.unused = nn.Parameter(torch.ones(5))

        def forward(self, x: Tensor) -> Tensor:
            return (self.second(self.first(x).tanh()) * self.frozen + self.one + self.other).square().sum()

    torch.manual_seed(0)
    expected = Model()
    found = copy.deepcopy(expected)
    for batch in torch.randn(3, 4, 5):
        expected(batch).backward()
        add_gradients(found(batch), list(found.parameters()))
    for left, right in zip(expected.parameters(), found.parameters(), strict=True):
        assert (left.grad is None) == (right.grad is None)
        assert left.grad is None or torch.equal(left.grad, right.grad)


def test_a_model_left_in_evaluation_mode_is_trained_with_dropout(
    tiny_config: Callable[..., RunConfig],
) -> None:
    trained, left_in_evaluation = new_trainer(tiny_config()), new_trainer(tiny_config())
    for trainer in (trained, left_in_evaluation):
        trainer.update(trainer.plan()[0])
    left_in_evaluation.model.eval()
    for trainer in (trained, left_in_evaluation):
        trainer.update(trainer.plan()[1])
    assert weights(left_in_evaluation) == weights(trained)
