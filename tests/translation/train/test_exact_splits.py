"""Any split of a batch over processes and micro-batches gives equal weights and sends gradients once."""

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.distributed as dist

from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.distributed import DistributedInfo
from tests.translation.real_processes import in_processes
from tests.translation.train.micro_training import SINGLE_PROCESS, assert_equal_weights, new_trainer, weights

pytestmark = pytest.mark.slow

#: The batches of an update, each a list of indices of pairs.
Update = list[list[int]]
Case = tuple[RunConfig, list[Update]]
Outcome = tuple[dict[str, list[float]], dict[str, float]]

SENTENCES, UPDATES = 13, 3


def splits(parts: int) -> list[Update]:
    """Divide the sentences of each update into this many batches of different sizes."""
    updates = []
    for update in range(UPDATES):
        sentences = list(range(update * SENTENCES, (update + 1) * SENTENCES))
        last = sentences[parts - 1 :]
        updates.append([*([sentence] for sentence in sentences[: parts - 1]), last])
    return updates


def outcomes(distributed: DistributedInfo, cases: Sequence[Case]) -> list[Outcome]:
    """Return the weights and the window's sums after the updates of each case."""
    found = []
    for config, updates in cases:
        trainer = new_trainer(config, distributed)
        for batches in updates:
            trainer.update(batches)
        found.append((weights(trainer), trainer.window.state()))
    return found


def assert_same(got: list[list[Outcome]], expected: list[Outcome], within: float) -> None:
    for of_one_process in got:
        for (those, their_sums), (these, sums) in zip(of_one_process, expected, strict=True):
            assert_equal_weights(those, these, within)
            for name in sums.keys() - {"seconds"}:
                assert their_sums[name] == pytest.approx(sums[name], rel=1e-9), name


@pytest.mark.parametrize("world_size", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_the_weights_do_not_depend_on_processes_and_micro_batches(
    tiny_config: Callable[..., RunConfig], world_size: int
) -> None:
    """Each process has one to three micro-batches; in half of the cases, one process has one fewer."""
    plain = tiny_config("training.precision=float64", "model.dropout=0")
    kinds = [
        tiny_config("training.precision=float64", *overrides)
        for overrides in (
            ("model.dropout=0.3",),
            ("model.dropout=0.3", "model.tie_embeddings=false", "model.norm_first=true"),
            ("training.max_grad_norm=0.05", "training.label_smoothing=0.2"),
            ("training.simcut_alpha=2", "training.simcut_p=0.3"),
        )
    ]
    parts = [micro_batches * world_size for micro_batches in (1, 2, 3)]
    # Dropout depends on the batch, so with it, the same batches are dealt to one process and to several.
    dealt = [(kind, splits(count - one_less)) for kind in kinds for count in parts for one_less in (0, 1)]
    resplit = [(plain, splits(count)) for count in parts]
    [unsplit] = outcomes(SINGLE_PROCESS, [(plain, splits(1))])
    expected = outcomes(SINGLE_PROCESS, dealt)

    found = in_processes(world_size, outcomes, [*dealt, *resplit])
    assert_same([each[: len(dealt)] for each in found], expected, within=1e-9)
    for each in found:
        for those, _ in each[len(dealt) :]:
            assert_equal_weights(those, unsplit[0], within=1e-9)


@pytest.mark.parametrize("micro_batches", [2, 3])
def test_one_process_may_split_too(tiny_config: Callable[..., RunConfig], micro_batches: int) -> None:
    plain = tiny_config("training.precision=float64", "model.dropout=0")
    (whole, _), (split, _) = outcomes(SINGLE_PROCESS, [(plain, splits(1)), (plain, splits(micro_batches))])
    assert_equal_weights(split, whole, within=1e-9)


def test_the_cases_can_tell(tiny_config: Callable[..., RunConfig]) -> None:
    """Each option, and a mean of means, changes the results by far more than the tolerance above."""
    given = [
        (),
        ("model.dropout=0.3",),
        ("training.max_grad_norm=0.05",),
        ("training.label_smoothing=0.2",),
        ("training.simcut_alpha=2",),
    ]
    found = [
        after["encoder_layers.0.feed_forward.inner.weight"]
        for after, _ in outcomes(
            SINGLE_PROCESS, [(tiny_config(*overrides), splits(2)) for overrides in given]
        )
    ]
    plain = tiny_config("model.dropout=0")
    trainer = new_trainer(plain)
    for batches in splits(2):
        for batch in batches:  # Treat each batch as a whole update, as a mean of means would.
            trainer.update([batch])
    found.append(weights(trainer)["encoder_layers.0.feed_forward.inner.weight"])
    for number, one in enumerate(found):
        for other in found[:number]:
            assert max(abs(a - b) for a, b in zip(one, other, strict=True)) > 1e-5


def test_float32_over_two_processes_stays_close(tiny_config: Callable[..., RunConfig]) -> None:
    case = (tiny_config(), splits(6))
    [(expected, _)] = outcomes(SINGLE_PROCESS, [case])
    # A bias of the keys shifts all scores of a query equally, so its gradient is noise, which Adam amplifies.
    counted = {name: values for name, values in expected.items() if not name.endswith("key_projection.bias")}
    for [(got, _)] in in_processes(2, outcomes, [case]):
        # The observed difference is 1e-7, the last bit of a weight near one.
        assert_equal_weights({name: got[name] for name in counted}, counted, within=1e-6)


def all_reduces(distributed: DistributedInfo, config: RunConfig, updates: list[Update]) -> list[int]:
    """Return the number of all-reduces in each update except the first, according to the profiler."""
    trainer = new_trainer(config, distributed)
    trainer.update(updates[0])  # DDP reorders its buckets after the first update.
    counts = []
    for batches in updates[1:]:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            trainer.update(batches)
            dist.barrier()
        counts.append(sum(event.count for event in profile.key_averages() if event.key == "gloo:all_reduce"))
    return counts


@pytest.mark.parametrize("world_size", [1, 2])
def test_gradients_travel_once_an_update(tiny_config: Callable[..., RunConfig], world_size: int) -> None:
    one, three = splits(2), splits(6)
    # A single process that torchrun started communicates too, so that one GPU can test NCCL.
    for counts in in_processes(world_size, all_reduces, tiny_config(), [one[0], one[1], three[2]]):
        # One bucket of gradients per update, however many micro-batches there are.
        assert counts == [1, 1]
