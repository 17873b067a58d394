"""Lesson 12: data parallelism. Sharding batches, and a mean loss over all processes."""

from pathlib import Path
from typing import Any

import torch

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import Exercise, Prediction
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Reply
from course_lib.checks.exercises.fixtures.processes import dealt, together
from course_lib.transformer.data_parallel import global_token_mean, shard

MISCONCEPTIONS = Path(__file__).with_name("misconceptions.toml")


# --- shard --------------------------------------------------------------------------------------------------


def _shards(candidate: Candidate, world_size: int, *batches: Any) -> Reply:
    return candidate.make(dealt(world_size)).call(candidate, batches)


@probe("two processes share six batches equally")
def _even(candidate: Candidate, draw: Draw) -> Reply:
    return _shards(candidate, 2, *range(6))


@probe("with seven batches and three processes, one of them gets one batch more")
def _uneven(candidate: Candidate, draw: Draw) -> Reply:
    return _shards(candidate, 3, *range(7))


@probe("with two batches and four processes, two of them get none")
def _idle(candidate: Candidate, draw: Draw) -> Reply:
    return _shards(candidate, 4, *range(2))


@probe("a single process gets all batches")
def _alone_in_the_world(candidate: Candidate, draw: Draw) -> Reply:
    return _shards(candidate, 1, *range(3))


@probe("11 real batches, which are lists of indices, are shared by four processes")
def _real_batches(candidate: Candidate, draw: Draw) -> Reply:
    sizes = draw.integers(1, 5, 11).tolist()
    batches = tuple(tuple(draw.integers(0, 900, size).tolist()) for size in sizes)
    return _shards(candidate, 4, *batches)


@probe("an empty plan gives every process nothing")
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


@probe("without a process group, the mean of 6 nats over 4 tokens is 1.5")
def _no_group(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(torch.tensor(6.0), torch.tensor(4))


@probe("the mean is correct for two processes with 60 nats over 30 tokens and 60 nats over 10")
def _two(candidate: Candidate, draw: Draw) -> Reply:
    return _means(candidate, (60.0, 60.0), (30, 10))


@probe("three processes get the mean without a graph if their loss sums have one")
def _with_graph(candidate: Candidate, draw: Draw) -> Reply:
    sums, counts = draw.normal(3).abs() * 90 + 10.25, draw.integers(5, 60, 3)
    return _means(candidate, tuple(sums.tolist()), tuple(counts.tolist()), graph=True)


@probe("the mean is correct for three processes, one of which had no batch")
def _one_idle(candidate: Candidate, draw: Draw) -> Reply:
    return _means(candidate, (21.0, 0.0, 9.0), (7, 0, 5))


@probe("the mean is correct in a process group of one")
def _group_of_one(candidate: Candidate, draw: Draw) -> Reply:
    return _means(candidate, (5.0,), (4,))


@probe("float64 sums give a float64 mean, and the counts may be floating-point too")
def _in_double(candidate: Candidate, draw: Draw) -> Reply:
    sums = tuple((draw.normal(2).abs() * 1000 + 1).tolist())
    return _means(candidate, sums, (911, 77), torch.float64, torch.float64)


@probe("four sums of 40,000 in float16 give the correct mean, although their total overflows")
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
    hint="Deal them on paper: batch 0 to process 0, batch 1 to process 1, and so on, in turn.",
    misconceptions_file=MISCONCEPTIONS,
)

PREDICT_GLOBAL_MEAN = Prediction(
    name="predict_global_mean",
    answer=2.6,
    tolerance=0.002,
    hint="What is the total loss of all tokens in nats? How many tokens are there?",
    misconceptions_file=MISCONCEPTIONS,
)

PREDICT_SCALE = Prediction(
    name="predict_scale",
    answer=4,
    tolerance=0.001,
    hint="You need the sum of the four gradients. DDP gives you their sum divided by 4.",
    misconceptions_file=MISCONCEPTIONS,
)
