"""Lesson 12: many processes, one model."""

from pathlib import Path
from typing import Any

import torch

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import Exercise, Prediction
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Reply
from course_lib.checks.exercises.final_lab.hand_in import METRICS, TRANSLATIONS  # noqa: F401 (the registry finds them)
from course_lib.checks.exercises.fixtures.processes import dealt, together
from course_lib.transformer.data_parallel import global_token_mean, shard

MISCONCEPTIONS = Path(__file__).with_name("misconceptions.toml")


# --- shard --------------------------------------------------------------------------------------------------


def _shards(candidate: Candidate, world_size: int, *batches: Any) -> Reply:
    return candidate.make(dealt(world_size)).call(candidate, batches)


@probe("six batches, two processes")
def _even(candidate: Candidate, draw: Draw) -> Reply:
    return _shards(candidate, 2, *range(6))


@probe("seven batches, three processes: one of them has one batch more")
def _uneven(candidate: Candidate, draw: Draw) -> Reply:
    return _shards(candidate, 3, *range(7))


@probe("two batches, four processes: some have nothing to do")
def _idle(candidate: Candidate, draw: Draw) -> Reply:
    return _shards(candidate, 4, *range(2))


@probe("one process, which has them all")
def _alone_in_the_world(candidate: Candidate, draw: Draw) -> Reply:
    return _shards(candidate, 1, *range(3))


@probe("real batches, which are lists of indices of sentences, and 11 of them for 4 processes")
def _real_batches(candidate: Candidate, draw: Draw) -> Reply:
    sizes = draw.integers(1, 5, 11).tolist()
    batches = tuple(tuple(draw.integers(0, 900, size).tolist()) for size in sizes)
    return _shards(candidate, 4, *batches)


@probe("no batch at all")
def _nothing(candidate: Candidate, draw: Draw) -> Reply:
    return _shards(candidate, 2)


SHARD = Exercise(
    reference=shard,
    probes=(_even, _uneven, _idle, _alone_in_the_world, _real_batches, _nothing),
    misconceptions_file=MISCONCEPTIONS,
)

# --- global_token_mean --------------------------------------------------------------------------------------


def _means(
    candidate: Candidate,
    sums: tuple[float, ...],
    counts: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
    count_dtype: torch.dtype = torch.int64,
    **settings: bool,
) -> Reply:
    loss_sums = tuple(torch.tensor(value, dtype=dtype) for value in sums)
    token_counts = tuple(torch.tensor(value, dtype=count_dtype) for value in counts)
    return candidate.make(together(**settings)).call(candidate, loss_sums, token_counts)


@probe("one process and no process group: 6 nats over 4 tokens")
def _no_group(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(torch.tensor(6.0), torch.tensor(4))


@probe("two processes: 60 nats over 30 tokens, and 60 over 10")
def _two(candidate: Candidate, draw: Draw) -> Reply:
    return _means(candidate, (60.0, 60.0), (30, 10))


@probe("three processes with other numbers, and the loss sums have a graph behind them")
def _with_graph(candidate: Candidate, draw: Draw) -> Reply:
    sums, counts = draw.normal(3).abs() * 90 + 10.25, draw.integers(5, 60, 3)
    return _means(candidate, tuple(sums.tolist()), tuple(counts.tolist()), graph=True)


@probe("three processes, one of which had no batch: a sum of 0 over 0 tokens")
def _one_idle(candidate: Candidate, draw: Draw) -> Reply:
    return _means(candidate, (21.0, 0.0, 9.0), (7, 0, 5))


@probe("a process group of one")
def _group_of_one(candidate: Candidate, draw: Draw) -> Reply:
    return _means(candidate, (5.0,), (4,))


@probe("float64 in, float64 out, and the counts are floating numbers too")
def _in_double(candidate: Candidate, draw: Draw) -> Reply:
    sums = tuple((draw.normal(2).abs() * 1000 + 1).tolist())
    return _means(candidate, sums, (911, 77), torch.float64, torch.float64)


@probe("four processes in float16, each with a sum of 40,000; all of them together are more than it can hold")
def _in_half(candidate: Candidate, draw: Draw) -> Reply:
    return _means(candidate, (40_000.0,) * 4, (8_000, 16_000, 9_000, 7_000), torch.float16)


GLOBAL_TOKEN_MEAN = Exercise(
    reference=global_token_mean,
    probes=(_no_group, _two, _with_graph, _one_idle, _group_of_one, _in_double, _in_half),
    misconceptions_file=MISCONCEPTIONS,
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_BATCHES = Prediction(
    name="predict_batches",
    answer=2,
    tolerance=0.001,
    hint="Deal them on paper: batch 0 to process 0, batch 1 to process 1, and so on, round and round.",
    misconceptions_file=MISCONCEPTIONS,
)

PREDICT_GLOBAL_MEAN = Prediction(
    name="predict_global_mean",
    answer=2.6,
    tolerance=0.002,
    hint="How many nats do all tokens cost together? How many tokens are there?",
    misconceptions_file=MISCONCEPTIONS,
)

PREDICT_SCALE = Prediction(
    name="predict_scale",
    answer=4,
    tolerance=0.001,
    hint="You want the sum of the four gradients. What you get is their sum divided by 4.",
    misconceptions_file=MISCONCEPTIONS,
)

PREDICT_MINUTES = Prediction(
    name="predict_minutes",
    answer=29_000 * 15 * 12 / 5_800 / 60,
    tolerance=0.02,
    hint="Sentences times tokens times epochs are the tokens to learn from. Divide by the speed.",
    misconceptions_file=MISCONCEPTIONS,
)
