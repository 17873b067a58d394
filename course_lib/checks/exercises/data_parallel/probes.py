"""Probes of lesson 12: data parallelism, from sharded batches to sharded optimiser states."""

from functools import partial

import torch

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.engine.probe import Draw
from course_lib.checks.engine.reply import Reply
from course_lib.checks.exercises.fixtures import FixtureFunction
from course_lib.checks.exercises.fixtures.data_parallel import (
    backward_passes,
    broadcasting,
    reducing,
    sharded_updates,
)
from course_lib.checks.exercises.fixtures.ranks import ALONE, batches_of_ranks, means_of_ranks
from course_lib.checks.exercises.fixtures.results import in_float64
from course_lib.transformer.data_parallel import global_token_mean, shard
from course_lib.transformer.gradient_buckets import GradientBuckets
from course_lib.transformer.replicas import all_reduce_gradients, broadcast_parameters
from course_lib.transformer.sharded_optimizer import ShardedOptimizer

# --- shard --------------------------------------------------------------------------------------------------

SHARD = ExerciseCheck(shard)
probe = SHARD.probe


def _shards(candidate: Candidate, world_size: int, *batches: object) -> Reply:
    return candidate.fixture(batches_of_ranks(world_size)).call(candidate, batches)


case = SHARD.cases(_shards)


case("two ranks share six batches equally", 2, *range(6))
case("with seven batches and three ranks, one rank gets an extra batch", 3, *range(7))
case("with two batches and four ranks, two ranks get none", 4, *range(2))
case("a single rank gets all batches", 1, *range(3))


@probe("four ranks share 11 batches, which are lists of indices")
def _real_batches(candidate: Candidate, draw: Draw) -> Reply:
    sizes = draw.integers(1, 5, 11).tolist()
    batches = tuple(tuple(draw.integers(0, 900, size).tolist()) for size in sizes)
    return _shards(candidate, 4, *batches)


case("without batches, every rank gets none", 2)
case("batches with equal contents count as separate batches", 3, 4, 4, 4, 7, 4, 7, 7)


# --- global_token_mean --------------------------------------------------------------------------------------

GLOBAL_TOKEN_MEAN = ExerciseCheck(global_token_mean, uncounted=100)
probe = GLOBAL_TOKEN_MEAN.probe


def _means(
    candidate: Candidate,
    sums: tuple[float, ...],
    counts: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
    count_dtype: torch.dtype = torch.int64,
    graph: bool = False,
) -> Reply:
    loss_sums = tuple(torch.tensor(value, dtype=dtype) for value in sums)
    token_counts = tuple(torch.tensor(value, dtype=count_dtype) for value in counts)
    return candidate.fixture(means_of_ranks(graph=graph)).call(candidate, loss_sums, token_counts)


case = GLOBAL_TOKEN_MEAN.cases(_means)


@probe("without a process group, the mean of 6 nats over 4 tokens is 1.5")
def _no_group(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(torch.tensor(6.0), torch.tensor(4))


case(
    "the mean is correct for two ranks with 60 nats over 30 tokens and 60 nats over 10",
    (60.0, 60.0),
    (30, 10),
)


@probe("the mean is correct for three ranks whose loss sums have a graph")
def _with_graph(candidate: Candidate, draw: Draw) -> Reply:
    sums, counts = draw.normal(3).abs() * 90 + 10.25, draw.integers(5, 60, 3)
    return _means(candidate, tuple(sums.tolist()), tuple(counts.tolist()), graph=True)


case("the mean is correct for three ranks, one of which had no batch", (21.0, 0.0, 9.0), (7, 0, 5))
case("the mean is correct in a process group of one", (5.0,), (4,))


@probe("float64 sums give a float64 mean, and the counts may be floating-point too")
def _in_double(candidate: Candidate, draw: Draw) -> Reply:
    sums = tuple((draw.normal(2).abs() * 1000 + 1).tolist())
    return _means(candidate, sums, (911, 77), torch.float64, torch.float64)


case(
    "four sums in float16 give a float16 mean",
    (9_000.0,) * 4,
    (8_000, 16_000, 9_000, 7_000),
    torch.float16,
)


@probe("the token count may be a plain number")
def _plain_count(candidate: Candidate, draw: Draw) -> Reply:
    sums, counts = draw.normal(2).abs() * 50 + 3.5, draw.integers(5, 60, 2)
    loss_sums = tuple(torch.tensor(value, dtype=torch.float64) for value in sums.tolist())
    return candidate.fixture(means_of_ranks()).call(candidate, loss_sums, tuple(counts.tolist()))


@probe("the loss sum and the token count may both be plain numbers")
def _plain_numbers(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.fixture(in_float64(candidate)).call(7.5, 6)


# --- broadcast_parameters -----------------------------------------------------------------------------------

BROADCAST_PARAMETERS = ExerciseCheck(broadcast_parameters, uncounted=130)


def _on_ranks(
    of: FixtureFunction, candidate: Candidate, draw: Draw, *settings: object, **more: object
) -> Reply:
    """Build a fixture that simulates several ranks, with a random seed, and call it."""
    seed = int(draw.integers(0, 1_000_000, 1))
    return candidate.fixture(of(*settings, seed=seed, **more)).call(candidate)


case = BROADCAST_PARAMETERS.random_cases(partial(_on_ranks, broadcasting), __name__)
case("_from_the_first", "two ranks get the parameters of rank 0", 2, "linear")
case("_from_another", "three ranks get the parameters of rank 1 if it is the source", 3, "linear", source=1)
case(
    "_inner_modules",
    "the parameters of inner modules are sent too, including frozen ones and those of another dtype",
    2,
    "nested",
    source=0,
)
case(
    "_buffers",
    "buffers come from the source, too, including integer ones and those outside the state dict",
    2,
    "with_buffers",
    source=1,
)
case(
    "_shared_parameter",
    "a parameter that two modules share is sent once and stays shared",
    2,
    "tied",
    source=0,
)
case(
    "_half_first",
    "no parameter is rounded if the first ones have a lower precision than the others",
    2,
    "half_first",
)
case("_equal_parameters", "different parameters with equal values are all sent", 2, "equal")
case("_broadcast_alone", "without a process group, the model stays as it is", ALONE, "linear")


# --- all_reduce_gradients -----------------------------------------------------------------------------------

ALL_REDUCE_GRADIENTS = ExerciseCheck(all_reduce_gradients, uncounted=170)
case = ALL_REDUCE_GRADIENTS.random_cases(partial(_on_ranks, reducing), __name__)
case("_two_gradients", "two ranks get the sum of their gradients", 2, "linear")
case(
    "_three_gradients",
    "three ranks get the sums, including for inner modules and several dtypes",
    3,
    "nested",
)
case(
    "_one_has_none",
    "rank 1 contributes zeros for a parameter without a gradient",
    2,
    "linear",
    weight=(1,),
)
case("_others_missing", "each rank may lack a different gradient", 2, "linear", weight=(0,), bias=(1,))
case("_first_has_none", "rank 0 may have no gradient at all", 2, "linear", weight=(0,), bias=(0,))
case("_last_has_none", "rank 2 may have no gradient at all", 3, "linear", weight=(2,), bias=(2,))
case("_shared_gradient", "the gradient of a shared parameter is added once", 2, "tied")
case(
    "_half_gradients_first",
    "no sum is rounded if the first gradients have a lower precision than the others",
    2,
    "half_first",
)
case(
    "_half_gradient_missing",
    "rank 1 contributes zeros of the same dtype for a half-precision gradient that it lacks",
    2,
    "half_first",
    **{"0.weight": (1,)},
)
case("_equal_parameters_reduced", "different parameters with equal values are all reduced", 2, "equal")
case("_reduce_alone", "without a process group, the gradients stay as they are", ALONE, "linear")


# --- GradientBuckets ----------------------------------------------------------------------------------------

GRADIENT_BUCKETS = ExerciseCheck(GradientBuckets, uncounted=570)
probe = GRADIENT_BUCKETS.probe

#: Four layers of 3 x 3 float32 numbers, 36 bytes each.
_ALIKE = ((3, "float32"),) * 4
#: Layers of 16, 36, 64 and 100 bytes.
_GROWING = ((2, "float32"), (3, "float32"), (4, "float32"), (5, "float32"))

_passes = partial(_on_ranks, backward_passes)


@probe("two ranks get the sums of their gradients in three buckets, two of them during the backward pass")
def _three_buckets(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, 2, 72, ((3, "float32"),) * 5, reductions=3, early=2)


@probe("a gradient that completes the first bucket launches all buckets that were waiting for it")
def _waiting_buckets(candidate: Candidate, draw: Draw) -> Reply:
    # The last two layers change places, so the gradient of the second bucket is ready first.
    return _passes(candidate, draw, 2, 36, _ALIKE, order=(0, 1, 3, 2), reductions=4, early=2)


@probe("the second update works like the first")
def _two_updates(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, 2, 72, _ALIKE, updates=2, reductions=2, early=1)


@probe("inside no_sync(), gradients only accumulate; afterwards the sums over all micro-batches are reduced")
def _micro_batches(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, 2, 72, _ALIKE, micro_batches=3, reductions=2, early=1)


@probe("a gradient that only a micro-batch inside no_sync() produced is reduced as well")
def _only_in_the_first(candidate: Candidate, draw: Draw) -> Reply:
    skipped = ((0, 1, 2), (1, 1, 2))
    return _passes(candidate, draw, 2, 72, _ALIKE, micro_batches=2, skipped=skipped)


@probe("after an error inside no_sync(), gradients are reduced again")
def _error_in_no_sync(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, 2, 72, _ALIKE, failing=True, reductions=2, early=1)


@probe("a gradient larger than bucket_bytes gets its own bucket, and the other buckets stay within it")
def _one_too_large(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, 2, 64, ((3, "float32"), (2, "float32"), (5, "float32"), (2, "float32")))


@probe("buckets of three ranks are as large as bucket_bytes allows")
def _full_buckets(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, 3, 160, ((2, "float32"),) * 10, reductions=1)


@probe("the buckets after the first are filled as well")
def _later_buckets(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, 2, 48, ((2, "float32"),) * 10, reductions=4)


@probe("rank 1 has no gradient for a layer, and contributes zeros in the same order as the other ranks")
def _layer_skipped(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, 2, 40, _GROWING, skipped=((1, 0, 2),))


@probe("each rank may lack a different gradient, including in the last bucket")
def _layers_skipped(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, 2, 72, _ALIKE, skipped=((0, 0, 0), (1, 0, 3)))


@probe("a gradient that is missing in the first update is reduced in the second")
def _skipped_once(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, 2, 72, _ALIKE, skipped=((1, 0, 2),), skipped_once=True, updates=2)


@probe("a rank without a batch only calls finish(), which reduces zeros in the same order")
def _no_batch(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, 2, 72, _ALIKE, idle=(1,))


@probe("a bucket holds gradients of one dtype, and its size is counted in bytes")
def _two_dtypes(candidate: Candidate, draw: Draw) -> Reply:
    layers = (*(((2, "float32"),) * 3), *(((2, "float64"),) * 3))
    return _passes(candidate, draw, 2, 70, layers)


@probe("a shared parameter counts once")
def _shared(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, 2, 72, _ALIKE, tied=True)


@probe("a frozen parameter needs no gradient")
def _frozen(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, 2, 72, _ALIKE, frozen=(1,))


@probe("without a process group, the gradients stay as they are")
def _buckets_alone(candidate: Candidate, draw: Draw) -> Reply:
    return _passes(candidate, draw, ALONE, 72, _ALIKE, micro_batches=2, updates=2)


# --- ShardedOptimizer ---------------------------------------------------------------------------------------

SHARDED_OPTIMIZER = ExerciseCheck(ShardedOptimizer, uncounted=420)
case = SHARDED_OPTIMIZER.random_cases(partial(_on_ranks, sharded_updates), __name__)

#: Decreasing sizes, so that most ways to balance the shares agree on the owners.
_SHAPES = ((2, 3), (5,), (2, 2), (3,))
#: Alternating large and small sizes, for which most ways to balance the shares agree on the owners, too.
_ALTERNATING = ((1, 12), (2,), (1, 11), (1,))

case(
    "_two_shares",
    "two ranks have the same parameters as with one Adam optimiser, and each keeps state for half of them",
    2,
    _SHAPES,
)
case(
    "_with_momentum",
    "three ranks have the same parameters as with one SGD optimiser with momentum",
    3,
    _SHAPES,
    kind="sgd",
    updates=3,
)
case(
    "_balanced",
    "the shares differ by at most the largest parameter if large and small ones alternate",
    2,
    _ALTERNATING,
    updates=1,
)
case(
    "_falling",
    "the shares differ by at most the largest parameter if the first ones are the largest",
    2,
    ((6,), (6,), (6,), (1,), (1,), (1,)),
    updates=1,
)
case(
    "_from_a_generator",
    "the parameters may come from a generator such as `model.parameters()`",
    2,
    _SHAPES,
    updates=1,
    as_generator=True,
)
case("_empty_shares", "with four ranks and two parameters, two ranks have an empty share", 4, ((2, 2), (3,)))
case("_no_gradient", "a parameter without a gradient stays as it is on all ranks", 2, _SHAPES, missing=(1,))
case(
    "_changed_between",
    "if loading a checkpoint changes parameters between steps, the next step starts from the new values",
    2,
    _SHAPES,
    changed=True,
)
case(
    "_half_parameter_first",
    "no parameter is rounded if the first one has a lower precision than the others",
    2,
    _SHAPES,
    kind="sgd",
    half=(0,),
)
case(
    "_optimizer_created",
    "creating the optimiser changes neither the parameters nor the gradients nor the caller's list",
    2,
    _SHAPES,
    updates=1,
    old_gradients=True,
)
case("_sharded_alone", "without a process group, the only rank updates everything", ALONE, _SHAPES)


# --- predictions --------------------------------------------------------------------------------------------

PREDICT_BATCHES = PredictionCheck(
    answer=2,
    tolerance=0.001,
    hint="Deal the batches out on paper: batch 0 to rank 0, batch 1 to rank 1, and so on.",
    reason="Rank 2 gets the batches 2 and 6. The next, 10, doesn't exist.",
)

PREDICT_GLOBAL_MEAN = PredictionCheck(
    answer=2.25,
    tolerance=0.002,
    hint="What is the total loss of all tokens in nats? How many tokens are there?",
    reason="300 + 600 nats for 400 tokens are 2.25 nats per token. The third rank adds 0 to both sums.",
)

PREDICT_MISSING_GRADIENT = PredictionCheck(
    answer=32,
    tolerance=0.001,
    hint="Write down each rank's all-reduces in order. The second of rank 0 goes with the second of rank 1.",
    reason="Rank 0's second all-reduce meets rank 1's second, which belongs to another weight: "
    "their sum means nothing.",
)

PREDICT_SCALE = PredictionCheck(
    answer=4,
    tolerance=0.001,
    hint="You need the sum of the four gradients. DDP gives you their sum divided by 4.",
    reason="DDP divides the sum of the gradients by 4, so multiplying every loss by 4 restores the sum.",
)

PREDICT_BUCKETS = PredictionCheck(
    answer=9,
    tolerance=0.001,
    hint="Begin with the last parameter, and add the ones before it as long as they fit.",
    reason="From the end: 2 + 3 + 4 = 9 MB, and the next gradient, of 5 MB, doesn't fit.",
)

PREDICT_STATE = PredictionCheck(
    answer=120,
    tolerance=0.001,
    hint="Multiply the number of parameters by how many numbers Adam keeps for each, and by 4 bytes. Then "
    "divide by 4.",
    reason="60 million · 2 · 4 bytes are 480 MB, and a quarter of that is 120 MB.",
)
