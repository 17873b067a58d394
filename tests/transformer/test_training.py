"""Lesson 09: one update, compared with an update by `F.cross_entropy` over the whole batch."""

import copy
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from course_lib.transformer import (
    LabelSmoothingLoss,
    Transformer,
    TransformerConfig,
    greedy_decode,
    learning_rate,
    make_scheduler,
    padding_mask,
    scaled_dot_product_attention,
    train_step,
)

from .samples import END, PAD, START, assert_close, seeds, sentences, small_transformer, unchanged

Pair = tuple[Tensor, Tensor]
VOCABULARY = 11


def constant(optimizer: torch.optim.Optimizer) -> LambdaLR:
    """Return a scheduler that leaves the optimiser's learning rate unchanged."""
    return LambdaLR(optimizer, lambda _: 1.0)


def pairs_of(source_lengths: list[int], target_lengths: list[int]) -> Pair:
    """Draw sources and targets. A target needs two or more tokens, because the first is never a label."""
    return sentences(source_lengths, VOCABULARY), sentences(target_lengths, VOCABULARY)


def cut(batch: Pair, rows: list[int]) -> Pair:
    """Select some sentences, and trim each side to the longest of them."""
    source, target = (tokens[rows] for tokens in batch)
    return tuple(tokens[:, : int((tokens != PAD).sum(dim=1).max())] for tokens in (source, target))


def loss_by_torch(model: Transformer, batch: Pair, smoothing: float) -> Tensor:
    """Compute the mean loss over the real tokens in one pass, with masks built here."""
    source, target = batch
    read, labels = target[:, :-1], target[:, 1:]
    source_mask = (source != PAD)[:, None, :]
    target_mask = (read != PAD)[:, None, :] & torch.ones(read.shape[1], read.shape[1]).tril().bool()
    logits = model(source, source_mask, read, target_mask)
    return F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing, ignore_index=PAD
    )


def update_by_torch(model: Transformer, batch: Pair, rate: float, smoothing: float = 0.1) -> float:
    """Make one update of gradient descent without an optimiser, and return the loss."""
    loss = loss_by_torch(model, batch, smoothing)
    gradients = torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True)
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter -= rate * gradient
    return loss.item()


def updates_of(model: Transformer, before: Transformer) -> Tensor:
    """Return the changes of all weights as one vector. The weights themselves could hide differences."""
    old = dict(before.named_parameters())
    changes = [(weight - old[name]).flatten() for name, weight in model.named_parameters()]
    return torch.cat(changes).detach()


def step_by_sgd(
    model: Transformer, micro_batches: list[Pair], rate: float = 0.1, smoothing: float = 0.1
) -> float:
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    loss = LabelSmoothingLoss(VOCABULARY, PAD, smoothing)
    return train_step(model, loss, micro_batches, optimizer, constant(optimizer))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_update_is_that_of_torch_on_the_whole_batch(norm_first: bool, smoothing: float) -> None:
    model = small_transformer(norm_first=norm_first)
    before, twin = copy.deepcopy(model), copy.deepcopy(model)
    batch = pairs_of([4, 2, 1, 3], [3, 6, 2, 5])
    loss = step_by_sgd(model, [batch], smoothing=smoothing)
    expected = update_by_torch(twin, batch, 0.1, smoothing)
    assert isinstance(loss, float)
    assert loss == pytest.approx(expected, rel=1e-6)
    assert_close(updates_of(model, before), updates_of(twin, before), rtol=1e-6, atol=1e-8)


@given(seeds, st.lists(st.integers(0, 3), min_size=4, max_size=6), st.booleans())
@pytest.mark.slow
def test_pitfall_01_any_split_into_micro_batches_gives_the_same_parameters(
    seed: int, places: list[int], norm_first: bool
) -> None:
    """Put sentence i into micro-batch places[i], so sizes and order vary, and there may be only one."""
    torch.manual_seed(seed)
    lengths = torch.randint(2, 7, (2, len(places))).tolist()
    batch = pairs_of(*lengths)
    whole = small_transformer(norm_first=norm_first)
    split, before = copy.deepcopy(whole), copy.deepcopy(whole)
    groups = [[row for row, place in enumerate(places) if place == group] for group in sorted(set(places))]
    loss = step_by_sgd(whole, [batch])
    split_loss = step_by_sgd(split, [cut(batch, rows) for rows in groups])
    assert split_loss == pytest.approx(loss, rel=1e-6)
    assert_close(updates_of(split, before), updates_of(whole, before), rtol=1e-6, atol=1e-8)


def test_pitfall_01_micro_batches_of_unequal_size_are_not_averaged() -> None:
    """With micro-batches of one and of fourteen tokens, a mean of their means is far off."""
    batch = pairs_of([3, 3], [2, 15])
    model = small_transformer()
    before, twin = copy.deepcopy(model), copy.deepcopy(model)
    loss = step_by_sgd(model, [cut(batch, [0]), cut(batch, [1])])
    expected = update_by_torch(twin, batch, 0.1)
    assert loss == pytest.approx(expected, rel=1e-6)
    assert_close(updates_of(model, before), updates_of(twin, before), rtol=1e-6, atol=1e-8)
    of_means = sum(loss_by_torch(before, cut(batch, [row]), 0.1).item() for row in range(2)) / 2
    assert abs(of_means - expected) > 1e-2


def test_a_micro_batch_of_nothing_but_padding_changes_nothing() -> None:
    batch = pairs_of([4, 2], [3, 5])
    nothing = tuple(torch.zeros_like(tokens) for tokens in batch)
    model = small_transformer()
    twin, before = copy.deepcopy(model), copy.deepcopy(model)
    loss = step_by_sgd(model, [batch, nothing])
    assert loss == pytest.approx(step_by_sgd(twin, [batch]), rel=1e-6)
    assert_close(updates_of(model, before), updates_of(twin, before), rtol=1e-6)


def test_a_batch_of_nothing_but_padding_has_a_loss_of_zero() -> None:
    nothing = tuple(torch.zeros_like(tokens) for tokens in pairs_of([4, 2], [3, 5]))
    model = small_transformer()
    before = copy.deepcopy(model)
    assert step_by_sgd(model, [nothing]) == 0.0
    assert not updates_of(model, before).any()


class CountingSGD(torch.optim.SGD):
    """Stochastic gradient descent that counts its steps."""

    steps = 0

    def step(self, closure: None = None) -> None:
        self.steps += 1
        super().step(closure)


@pytest.mark.parametrize("count", [1, 3, 10])
def test_pitfall_01_one_update_however_many_micro_batches(count: int) -> None:
    model = small_transformer()
    optimizer = CountingSGD(model.parameters(), lr=0.1)
    micro_batches = [pairs_of([3], [4]) for _ in range(count)]
    train_step(model, LabelSmoothingLoss(VOCABULARY, PAD), micro_batches, optimizer, constant(optimizer))
    assert optimizer.steps == 1


@pytest.mark.parametrize("count", [1, 3, 10])
def test_pitfall_02_the_schedule_moves_once_an_update(count: int) -> None:
    model = small_transformer()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = make_scheduler(optimizer, 8, 4)
    for update in range(1, 6):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(learning_rate(update, 8, 4))
        micro_batches = [pairs_of([3], [4]) for _ in range(count)]
        train_step(model, LabelSmoothingLoss(VOCABULARY, PAD), micro_batches, optimizer, scheduler)
    assert scheduler.last_epoch == 5


def test_updates_under_the_schedule_are_those_of_equation_3_by_hand() -> None:
    model = small_transformer(spread=0.2)
    twin, before = copy.deepcopy(model), copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = make_scheduler(optimizer, 8, 2)
    for update in range(1, 5):
        batch = pairs_of([4, 2, 3], [3, 5, 2])
        micro_batches = [cut(batch, [0, 2]), cut(batch, [1])]
        loss = train_step(model, LabelSmoothingLoss(VOCABULARY, PAD), micro_batches, optimizer, scheduler)
        rate = 8**-0.5 * min(update**-0.5, update * 2**-1.5)
        assert loss == pytest.approx(update_by_torch(twin, batch, rate), rel=1e-6)
    assert_close(updates_of(model, before), updates_of(twin, before), rtol=1e-5, atol=1e-7)


def test_pitfall_01_old_gradients_do_not_leak_into_an_update() -> None:
    batch = pairs_of([4, 2], [3, 5])
    model = small_transformer()
    twin, before = copy.deepcopy(model), copy.deepcopy(model)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 1000.0)
    step_by_sgd(model, [batch])
    step_by_sgd(twin, [batch])
    assert torch.equal(updates_of(model, before), updates_of(twin, before))


def test_pitfall_01_no_micro_batch_is_left_over_for_the_next_update() -> None:
    first, second = [pairs_of([3], [4]) for _ in range(3)], [pairs_of([2], [5])]
    model = small_transformer()
    step_by_sgd(model, first)
    twin, before = copy.deepcopy(model), copy.deepcopy(model)
    twin.zero_grad()
    step_by_sgd(model, second)
    step_by_sgd(twin, second)
    assert torch.equal(updates_of(model, before), updates_of(twin, before))


def test_micro_batches_may_come_from_a_generator() -> None:
    batch = pairs_of([4, 2], [3, 5])
    model = small_transformer()
    twin, before = copy.deepcopy(model), copy.deepcopy(model)

    def one_by_one() -> Iterator[Pair]:
        yield cut(batch, [0])
        yield cut(batch, [1])

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_step(model, LabelSmoothingLoss(VOCABULARY, PAD), one_by_one(), optimizer, constant(optimizer))
    step_by_sgd(twin, list(one_by_one()))
    assert torch.equal(updates_of(model, before), updates_of(twin, before))


def test_it_trains_in_training_mode() -> None:
    modes = []

    def recording(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: nn.Dropout
    ) -> tuple[Tensor, Tensor]:
        modes.append(dropout.training)
        return scaled_dot_product_attention(query, key, value, mask, dropout)

    model = small_transformer(dropout=0.5, attention=recording).eval()
    batch = pairs_of([4, 2], [3, 5])
    losses = {step_by_sgd(model.eval(), [batch], rate=0.0) for _ in range(3)}
    assert modes == [True] * len(modes)
    assert len(losses) == 3


def test_padding_is_that_of_the_loss() -> None:
    """If 5 is the padding id, columns of fives change nothing."""
    source, target = (
        tokens.masked_fill(tokens == 5, 6).masked_fill(tokens == PAD, 5)
        for tokens in pairs_of([4, 2], [3, 5])
    )
    wider = tuple(F.pad(tokens, (0, 3), value=5) for tokens in (source, target))
    before = small_transformer()
    changes = []
    for batch in ((source, target), wider):
        model = copy.deepcopy(before)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train_step(model, LabelSmoothingLoss(VOCABULARY, 5), [batch], optimizer, constant(optimizer))
        changes.append(updates_of(model, before))
    assert_close(*changes)


class OnlyTheThree(nn.Module):
    """A custom model with only `encode`, `decode` and `generator`."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 6)
        self.generator = nn.Linear(6, VOCABULARY)

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        return self.table(source).masked_fill(~source_mask.mT, 0.0)

    def decode(self, memory: Tensor, source_mask: Tensor, target: Tensor, target_mask: Tensor) -> Tensor:
        return self.table(target) + memory.sum(dim=1, keepdim=True)


def test_any_model_that_can_encode_decode_and_generate_can_be_trained(shapes_unchecked) -> None:
    model, batch = OnlyTheThree().double(), pairs_of([4, 2], [3, 5])
    losses = [step_by_sgd(model, [batch], rate=0.05) for _ in range(3)]
    assert losses[0] > losses[1] > losses[2]


def test_adam_is_driven_as_well() -> None:
    model, batch = small_transformer(spread=None), pairs_of([4, 2], [3, 5])
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = make_scheduler(optimizer, 8, 10, factor=0.1)
    loss = LabelSmoothingLoss(VOCABULARY, PAD)
    losses = [train_step(model, loss, [batch], optimizer, scheduler) for _ in range(30)]
    assert losses[-1] < losses[0] - 0.5
    assert all(state["step"] == 30 for state in optimizer.state.values())


@pytest.mark.slow
def test_pitfall_15_the_copy_task_is_learned_and_decoded_from_the_symbol_it_was_trained_with() -> None:
    """Sentences have two to five tokens, so that padding, masks, start and end all matter."""
    config = TransformerConfig(layers=1, d_model=32, heads=2, d_ff=64, dropout=0.0)
    model = Transformer(8, 8, config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = make_scheduler(optimizer, 32, 60, factor=0.5)
    loss = LabelSmoothingLoss(8, PAD, 0.0)

    def copies(count: int) -> Pair:
        words = sentences(torch.randint(2, 6, (count,)).tolist(), vocabulary=8)
        ends = (words != PAD).sum(dim=1, keepdim=True)
        target = F.pad(words, (0, 1), value=PAD).scatter(1, ends, END)
        return words, F.pad(target, (1, 0), value=START)

    for _ in range(300):
        source, target = copies(64)
        train_step(
            model, loss, [(source[:32], target[:32]), (source[32:], target[32:])], optimizer, scheduler
        )
    source, target = copies(20)
    decoded = greedy_decode(model, source, padding_mask(source, PAD), target.shape[1], START, END)
    expected = target.masked_fill(target == PAD, END)
    assert (decoded == expected[:, : decoded.shape[1]]).all(dim=1).double().mean() >= 0.9


def test_inputs_are_not_written_into() -> None:
    batch = pairs_of([4, 2], [3, 5])
    with unchanged(*batch):
        step_by_sgd(small_transformer(), [batch])


def test_it_trains_on_every_device(device: str) -> None:
    model, batch = small_transformer(), pairs_of([4, 2], [3, 5])
    twin, before = copy.deepcopy(model), copy.deepcopy(model)
    moved = model.to(device)
    loss = step_by_sgd(moved, [tuple(tokens.to(device) for tokens in batch)])
    assert loss == pytest.approx(update_by_torch(twin, batch, 0.1), rel=1e-6)
    assert_close(updates_of(moved.to("cpu"), before), updates_of(twin, before), rtol=1e-6, atol=1e-8)
