"""One update is the same update however it is split, and the same as the reference's train_step."""

import copy
from collections.abc import Callable, Sequence

import pytest
import torch
from real_processes import in_processes

from course_lib.transformer import LabelSmoothingLoss, make_scheduler, train_step
from course_lib.translation.batches import IdPair, collate
from course_lib.translation.config import RunConfig
from course_lib.translation.corpora import load_corpus
from course_lib.translation.distributed import Place
from course_lib.translation.model import build_transformer
from course_lib.translation.subwords import Subwords
from course_lib.translation.training import Trainer, make_optimizer

ALONE = Place(rank=0, world_size=1, local_rank=0, local_world_size=1)


def material(config: RunConfig) -> tuple[list[IdPair], Subwords]:
    train = load_corpus(config.data).train
    subwords = Subwords.learn([*train.german, *train.english], config.data.vocabulary_size)
    return list(zip(subwords.encode(train.german), subwords.encode(train.english), strict=True)), subwords


def new_trainer(config: RunConfig, place: Place = ALONE) -> Trainer:
    pairs, subwords = material(config)
    return Trainer(config, pairs, subwords, place, torch.device("cpu"))


def weights(trainer: Trainer) -> dict[str, list[float]]:
    return {name: value.flatten().tolist() for name, value in trainer.model.state_dict().items()}


def weights_after(
    place: Place, config: RunConfig, updates: int
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Weights, and the window's sums, after some updates of the first epoch."""
    trainer = new_trainer(config, place)
    for batches in trainer.plan()[:updates]:
        trainer.update(batches)
    return weights(trainer), trainer.window.state()


def assert_equal_weights(
    got: dict[str, list[float]], expected: dict[str, list[float]], within: float
) -> None:
    assert got.keys() == expected.keys()
    for name, values in expected.items():
        torch.testing.assert_close(
            torch.tensor(got[name], dtype=torch.float64),
            torch.tensor(values, dtype=torch.float64),
            rtol=within,
            atol=within,
            msg=lambda message, name=name: f"{name}: {message}",
        )


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("tied", ["true", "false"])
def test_any_number_of_processes_gives_the_same_weights(
    tiny_config: Callable[..., RunConfig], world_size: int, tied: str
) -> None:
    # Three batches an update, with uneven tokens: two processes get 2 and 1, four get 1, 1, 1 and none.
    config = tiny_config("training.precision=float64", f"model.tied={tied}")
    tokens = {sum(len(pair[1]) for pair in batch) for batch in first_update(config)}
    assert len(tokens) > 1
    expected, expected_sums = weights_after(ALONE, config, 6)
    outcomes = in_processes(world_size, weights_after, config, 6)
    for got, sums in outcomes:
        assert_equal_weights(got, expected, within=1e-9)
        for name in ("loss_sum", "target_tokens", "real_places", "places"):
            assert sums[name] == pytest.approx(expected_sums[name], rel=1e-12)


def test_float32_over_two_processes_stays_close(tiny_config: Callable[..., RunConfig]) -> None:
    config = tiny_config()
    expected, _ = weights_after(ALONE, config, 6)
    # A bias of the keys moves all scores of a query alike: its gradient is noise, which Adam scales up.
    counted = {name: values for name, values in expected.items() if not name.endswith("key_projection.bias")}
    for got, _ in in_processes(2, weights_after, config, 6):
        assert_equal_weights({name: got[name] for name in counted}, counted, within=1e-4)


def test_more_micro_batches_give_the_same_weights(tiny_config: Callable[..., RunConfig]) -> None:
    config = tiny_config("training.precision=float64", "model.dropout=0")
    split, whole = new_trainer(config), new_trainer(config)
    for batches in split.plan()[:4]:
        split.update(batches)
        whole.update([[index for batch in batches for index in batch]])
    assert_equal_weights(weights(split), weights(whole), within=1e-9)


def test_an_update_is_that_of_train_step(tiny_config: Callable[..., RunConfig]) -> None:
    config = tiny_config("training.precision=float64", "model.dropout=0")
    pairs, subwords = material(config)
    trainer = new_trainer(config)

    torch.manual_seed(config.seed)
    model = build_transformer(config.model, len(subwords), len(subwords)).double()
    optimizer = make_optimizer(model, config.training)
    scheduler = make_scheduler(optimizer, config.model.d_model, config.training.warmup)
    loss = LabelSmoothingLoss(len(subwords), subwords.pad_id, config.training.label_smoothing)
    for batches in trainer.plan()[:4]:
        micro_batches = [as_matrices([pairs[index] for index in batch], config) for batch in batches]
        expected_loss = train_step(model, loss, micro_batches, optimizer, scheduler)
        trainer.update(batches)
        assert trainer.window.close()["loss"] == pytest.approx(expected_loss, rel=1e-6)
    expected = {name: value.flatten().tolist() for name, value in model.state_dict().items()}
    assert_equal_weights(weights(trainer), expected, within=1e-6)


def test_a_trainer_goes_on_from_a_state_bit_by_bit(tiny_config: Callable[..., RunConfig]) -> None:
    config = tiny_config("training.optimizer=adamw", "training.weight_decay=0.01")
    whole = new_trainer(config)
    plan = whole.plan()
    for batches in plan[:3]:
        whole.update(batches)
    torch.manual_seed(12345)  # What other code has drawn must not matter.
    later = new_trainer(config)
    later.load(copy.deepcopy(whole.state()))  # What a file would have kept.
    assert (later.step, later.epochs_done, later.updates_done) == (3, 0, 3)
    for trainer in (whole, later):
        for batches in plan[3:6]:
            trainer.update(batches)
    assert weights(later) == weights(whole)
    assert later.window.state()["loss_sum"] == whole.window.state()["loss_sum"]


def test_dropout_differs_between_updates_and_batches(tiny_config: Callable[..., RunConfig]) -> None:
    config = tiny_config("training.factor=1e-12", "training.batches_per_update=1", "model.dropout=0.5")
    trainer = new_trainer(config)
    batch = trainer.plan()[0][0]
    losses = []
    for batches in ([batch], [batch], [batch, batch]):
        trainer.update(batches)
        losses.append(trainer.window.close()["loss"])
    assert len(set(losses)) == 3


def test_the_rate_is_that_of_the_schedule(tiny_config: Callable[..., RunConfig]) -> None:
    trainer = new_trainer(tiny_config("training.factor=2"))
    rates = [trainer.update(batches) for batches in trainer.plan()[:2]]
    assert rates == pytest.approx([2 * 16**-0.5 * step * 20**-1.5 for step in (1, 2)])


@pytest.mark.parametrize(
    "overrides",
    [("training.precision=bfloat16",), ("model.attention=fused",), ("model.norm_first=true",)],
)
def test_the_loss_falls_under_every_setting(
    tiny_config: Callable[..., RunConfig], overrides: tuple[str, ...]
) -> None:
    trainer = new_trainer(tiny_config(*overrides))
    losses = []
    for _ in range(3):
        for batches in trainer.plan():
            trainer.update(batches)
        losses.append(trainer.window.close()["loss"])
        trainer.end_epoch()
    assert losses[0] > losses[1] > losses[2]


def first_update(config: RunConfig) -> list[list[IdPair]]:
    pairs, _ = material(config)
    return [[pairs[index] for index in batch] for batch in new_trainer(config).plan()[0]]


def as_matrices(pairs: Sequence[IdPair], config: RunConfig) -> tuple[torch.Tensor, torch.Tensor]:
    return collate(pairs, Subwords.pad_id, Subwords.start_id, Subwords.end_id, config.data.max_length)
