"""Lesson 12: many processes, one model."""

from functools import partial
from typing import Any

import torch

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import Exercise, Misconception, Prediction, WrongNumber, alone
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Reply
from course_lib.checks.exercises.final_lab.hand_in import METRICS, TRANSLATIONS
from course_lib.checks.exercises.fixtures.processes import dealt, together
from course_lib.transformer.data_parallel import global_token_mean, shard

SPLIT = "section 5.1: a batch holds about 25,000 tokens, on however many processors"
MEAN = "section 5.4 and lessons 08 and 09: a mean over the real tokens"
COLLECTIVES = "the documentation of torch.distributed: collective functions"

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


_DEAL = "    return batches[rank::world_size]"
_whole = partial(alone, shard)


def _dealt_otherwise(name: str, says: str, hint: str, *lines: str, paper: str = SPLIT) -> Misconception:
    body = "\n".join(f"    {line}" for line in lines)
    return Misconception(name=name, says=says, hint=hint, paper=paper, patch=_whole((_DEAL, body)))


SHARD = Exercise(
    reference=shard,
    probes=(_even, _uneven, _idle, _alone_in_the_world, _real_batches, _nothing),
    misconceptions=(
        _dealt_otherwise(
            "in_chunks",
            "each process gets a run of neighbours, not every world_size-th batch",
            "In a plan that is sorted by length, one process would get all the long batches, and the others "
            "would wait for it. Deal them like cards: a slice with a step does it.",
            "size = -(-len(batches) // world_size)",
            "return batches[rank * size : (rank + 1) * size]",
        ),
        _dealt_otherwise(
            "in_chunks_tail_dropped",
            "each process gets a run of neighbours, and what is left over is dropped",
            "Deal them like cards: batches[rank], and from there every world_size-th. Then nothing is left "
            "over either.",
            "size = len(batches) // world_size",
            "return batches[rank * size : (rank + 1) * size]",
        ),
        _dealt_otherwise(
            "in_chunks_tail_to_the_last",
            "each process gets a run of neighbours, and the last one all that is left over",
            "Deal them like cards: batches[rank], and from there every world_size-th. Then no process has "
            "more than one batch more than another.",
            "size = len(batches) // world_size",
            "return batches[rank * size : (rank + 1) * size if rank < world_size - 1 else None]",
        ),
        _dealt_otherwise(
            "tail_dropped",
            "batches are dropped where their number is no multiple of world_size",
            "Nobody learns from what nobody gets, and every number of processes would give another model. "
            "Let some processes have one batch more.",
            "whole = len(batches) // world_size * world_size",
            "return batches[rank:whole:world_size]",
        ),
        _dealt_otherwise(
            "filled_with_repeats",
            "batches are repeated so that all processes get equally many",
            "PyTorch's DistributedSampler does that. A sentence that counts twice changes the gradient, and "
            "in an evaluation the score. Let some processes have one batch more.",
            "missing = -len(batches) % world_size",
            "filled = [batches[place % len(batches)] for place in range(len(batches) + missing)]",
            "return filled[rank::world_size]",
        ),
        _dealt_otherwise(
            "filled_with_nothing",
            "processes that have fewer batches get None to fill up",
            "There is nothing to compute from None. A process without a batch simply has fewer: whoever "
            "trains sees to it that the others don't wait in vain.",
            "missing = -len(batches) % world_size",
            "return [*batches, *[None] * missing][rank::world_size]",
        ),
        _dealt_otherwise(
            "counted_from_one",
            "ranks are counted from 1, and they begin at 0",
            "Process 0 takes the batches 0, world_size, 2 * world_size and so on. With rank - 1 it begins at "
            "-1, which in Python is the last one.",
            "return batches[rank - 1 :: world_size]",
        ),
        _dealt_otherwise(
            "one_too_far",
            "each process begins one batch too late, so the first batch is nobody's",
            "Process 0 begins with batch 0. Is 1 added to the rank?",
            "return batches[rank + 1 :: world_size]",
        ),
        _dealt_otherwise(
            "rank_ignored",
            "all processes get what process 0 should get",
            "The slice has to begin at the rank. As it is, most batches are nobody's, and the others count "
            "world_size times.",
            "return batches[::world_size]",
        ),
        _dealt_otherwise(
            "all_to_all",
            "every process gets all batches",
            "Then every process makes the same gradient, and the others' work is wasted. Each batch belongs "
            "to one process.",
            "return batches[:]",
        ),
        _dealt_otherwise(
            "from_rank_on",
            "each process gets all batches from its own on",
            "A slice has three parts: where it begins, where it ends, and its step. The step is missing.",
            "return batches[rank:]",
        ),
        _dealt_otherwise(
            "one_batch_each",
            "each process gets one batch, and the rest is nobody's",
            "batches[rank] is only the first of its batches. It goes on with every world_size-th after that.",
            "return batches[rank : rank + 1]",
        ),
        _dealt_otherwise(
            "swapped",
            "rank and world_size have changed places in the slice",
            "It begins at the rank, and world_size is the step.",
            "return batches[world_size :: rank or 1]",
        ),
        _dealt_otherwise(
            "step_too_long",
            "the world is taken for one process larger than it is",
            "Ranks go from 0 to world_size - 1, so the step is world_size itself.",
            "return batches[rank :: world_size + 1]",
        ),
        _dealt_otherwise(
            "backwards",
            "each process gets its batches from the last to the first",
            "The plan says in which order batches come; sharing them out shouldn't change it.",
            "return batches[rank::world_size][::-1]",
        ),
        _dealt_otherwise(
            "taken_away",
            "what a process gets is taken out of the plan itself",
            "The list belongs to whoever called: another process, or the next epoch, still needs it. Hand "
            "back a new list.",
            "mine = list(batches[rank::world_size])",
            "del batches[rank::world_size]",
            "return mine",
        ),
        _dealt_otherwise(
            "iterator",
            "an iterator is handed back, which can be used up only once and has no length",
            "Whoever trains wants to know how many batches there are, and which is the last. Make a list of "
            "it, or take a slice.",
            "return iter(batches[rank::world_size])",
        ),
    ),
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


_TOTALS = "    totals = torch.stack([loss_sum.detach().double(), token_count.detach().double()])\n"
_IF_GROUP = "    if dist.is_available() and dist.is_initialized():\n"
_ADD = "        dist.all_reduce(totals)\n"
_DIVIDE = "    return (totals[0] / totals[1]).to(loss_sum.dtype)"
_REDUCE = _IF_GROUP + _ADD
_by_itself = partial(alone, global_token_mean)

GLOBAL_TOKEN_MEAN = Exercise(
    reference=global_token_mean,
    probes=(_no_group, _two, _with_graph, _one_idle, _group_of_one, _in_double, _in_half),
    misconceptions=(
        Misconception(
            name="own_dtype_out",
            says="what comes back is float64, whatever the loss sum is",
            hint="Add up in float64, and hand back what came in: .to(loss_sum.dtype).",
            paper=MEAN,
            patch=[(").to(loss_sum.dtype)", ")")],
        ),
        Misconception(
            name="graph_kept",
            says="what comes back still has the graph of the whole batch behind it",
            hint="It is for reading, not for training: no gradient is to flow through it, and a list of such "
            "losses would fill the memory. Detach the loss sum first.",
            paper=COLLECTIVES,
            patch=[("loss_sum.detach().double()", "loss_sum.double()")],
        ),
        Misconception(
            name="added_in_the_losses_dtype",
            says="sums are added in the dtype of the loss, which overflows in float16",
            hint="65,504 is the largest number of float16, and a loss sum over many tokens is soon beyond "
            "it. Go to float64 before adding up, and back after dividing.",
            paper=MEAN,
            patch=[
                (
                    "[loss_sum.detach().double(), token_count.detach().double()]",
                    "[loss_sum.detach(), token_count.detach().to(loss_sum.dtype)]",
                )
            ],
        ),
        Misconception(
            name="alone",
            says="each process looks at its own sum and count, and the others are forgotten",
            hint="A process has only its own share of the batches. dist.all_reduce adds a tensor up over all "
            "processes, in place.",
            paper=COLLECTIVES,
            patch=[(_ADD, "        pass\n")],
        ),
        Misconception(
            name="needs_a_group",
            says="it needs a process group, so it fails where one process works alone",
            hint="On a laptop there may be no process group. Ask dist.is_initialized() first; without one, "
            "the own sum and count are all there is.",
            paper=COLLECTIVES,
            patch=[(_REDUCE, "    dist.all_reduce(totals)\n")],
        ),
        Misconception(
            name="first_alone_knows",
            says="the sums are collected at process 0, and the others divide what they have of their own",
            hint="dist.reduce gives the sum to one process. dist.all_reduce gives it to all of them.",
            paper=COLLECTIVES,
            patch=[("dist.all_reduce(totals)", "dist.reduce(totals, 0)")],
        ),
        Misconception(
            name="first_for_all",
            says="all processes get what process 0 has, and nothing is added up",
            hint="dist.broadcast sends one process's numbers to all. dist.all_reduce adds up.",
            paper=COLLECTIVES,
            patch=[("dist.all_reduce(totals)", "dist.broadcast(totals, 0)")],
        ),
        Misconception(
            name="largest",
            says="the largest sum and the largest count are taken, not the totals",
            hint="dist.all_reduce adds up unless it is told otherwise: leave out ReduceOp.MAX.",
            paper=COLLECTIVES,
            patch=[("dist.all_reduce(totals)", "dist.all_reduce(totals, op=dist.ReduceOp.MAX)")],
        ),
        Misconception(
            name="upside_down",
            says="the count is divided by the loss sum",
            hint="The mean is nats per token: the sum on top.",
            paper=MEAN,
            patch=[("totals[0] / totals[1]", "totals[1] / totals[0]")],
        ),
        # From here on they stand alone, and last, so that no other can be put in after them.
        Misconception(
            name="mean_of_means",
            says="each process divides first, and then the mean over the processes is taken: a mean of means",
            hint="A token of a process with few of them would count more than one of a process with many, as "
            "with the micro-batches of lesson 09. Add up sums and counts, and divide once.",
            paper=MEAN,
            patch=_by_itself(
                (
                    _ADD,
                    "        mean = totals[0] / totals[1]\n        dist.all_reduce(mean)\n"
                    "        return (mean / dist.get_world_size()).to(loss_sum.dtype)\n",
                ),
            ),
        ),
        Misconception(
            name="sum_of_means",
            says="each process divides first, and then the means are added up",
            hint="Divide once, at the end: first add up the sums and the counts over all processes.",
            paper=MEAN,
            patch=_by_itself(
                (
                    _ADD,
                    "        mean = totals[0] / totals[1]\n        dist.all_reduce(mean)\n"
                    "        return mean.to(loss_sum.dtype)\n",
                ),
            ),
        ),
        Misconception(
            name="count_not_added",
            says="the loss sums are added up, but each process divides by its own count",
            hint="Both have to be added up over the processes. Put the two into one tensor, and one "
            "all_reduce does it.",
            paper=MEAN,
            patch=_by_itself(
                (
                    _ADD,
                    "        total = totals[0].clone()\n        dist.all_reduce(total)\n"
                    "        totals[0] = total\n",
                ),
            ),
        ),
        Misconception(
            name="sum_not_added",
            says="the counts are added up, but each process divides its own loss sum",
            hint="Both have to be added up over the processes. Put the two into one tensor, and one "
            "all_reduce does it.",
            paper=MEAN,
            patch=_by_itself(
                (
                    _ADD,
                    "        total = totals[1].clone()\n        dist.all_reduce(total)\n"
                    "        totals[1] = total\n",
                ),
            ),
        ),
        Misconception(
            name="sum_averaged",
            says="the loss sums are averaged over the processes, while the counts are added up",
            hint="The mean is that of a token, not of a process: no number of processes belongs into it. "
            "(Averaging both would do no harm, since it cancels out.)",
            paper=MEAN,
            patch=_by_itself((_ADD, _ADD + "        totals[0] /= dist.get_world_size()\n")),
        ),
        Misconception(
            name="count_averaged",
            says="the counts are averaged over the processes, while the loss sums are added up",
            hint="Then the loss is too large by the number of processes. Add up both.",
            paper=MEAN,
            patch=_by_itself((_ADD, _ADD + "        totals[1] /= dist.get_world_size()\n")),
        ),
        Misconception(
            name="per_process",
            says="the sum of all losses is divided by the number of processes, not of tokens",
            hint="It is the mean loss of a token: divide by the tokens of all processes.",
            paper=MEAN,
            patch=_by_itself((_ADD, _ADD + "        totals[1] = dist.get_world_size()\n")),
        ),
        Misconception(
            name="not_divided",
            says="the sum of all losses comes back, not their mean",
            hint="Divide by the number of tokens of all processes.",
            paper=MEAN,
            patch=_by_itself((_DIVIDE, "    return totals[0].to(loss_sum.dtype)")),
        ),
        Misconception(
            name="changed_in_place",
            says="the very tensors that came in are added up, so afterwards they hold the totals",
            hint="dist.all_reduce works in place. Whoever called still needs the own count: reduce a copy.",
            paper=COLLECTIVES,
            patch=_by_itself(
                (_TOTALS, ""),
                (
                    _ADD,
                    "        with torch.no_grad():\n            dist.all_reduce(loss_sum)\n"
                    "            dist.all_reduce(token_count)\n",
                ),
                (
                    _DIVIDE,
                    "    return (loss_sum.detach().double() / token_count.double()).to(loss_sum.dtype)",
                ),
            ),
        ),
        Misconception(
            name="cut_to_whole_numbers",
            says="the loss sum is cut to a whole number before it is added up",
            hint="One tensor for both has one dtype. That of the count is a whole number: take float64 for "
            "both.",
            paper=MEAN,
            patch=_by_itself(
                ("loss_sum.detach().double()", "loss_sum.detach().long()"),
                ("token_count.detach().double()", "token_count.detach().long()"),
            ),
        ),
        Misconception(
            name="empty_counts_as_one",
            says="a process without tokens counts as if it had one",
            hint="Clamping each count before adding up changes the total. A process without a batch adds 0 "
            "and 0, and that is just right.",
            paper=MEAN,
            patch=_by_itself(("token_count.detach().double()", "token_count.detach().double().clamp(min=1)")),
        ),
        Misconception(
            name="plain_number",
            says="a plain number comes back, and a tensor is wanted",
            hint="Leave out .item(): a GPU must finish all its work before a number can be read from it.",
            paper=COLLECTIVES,
            patch=_by_itself((_DIVIDE, "    return (totals[0] / totals[1]).to(loss_sum.dtype).item()")),
        ),
        Misconception(
            name="nothing_returned",
            says="the mean is not handed back",
            hint="Is a `return` missing?",
            paper=MEAN,
            patch=_by_itself((_DIVIDE, "    (totals[0] / totals[1]).to(loss_sum.dtype)")),
        ),
    ),
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_BATCHES = Prediction(
    name="predict_batches",
    answer=2,
    tolerance=0.001,
    hint="Deal them on paper: batch 0 to process 0, batch 1 to process 1, and so on, round and round.",
    misconceptions=(
        WrongNumber("rounded_up", 3, "That is what processes 0 and 1 get. Who gets the batches 8 and 9?"),
        WrongNumber("shared_evenly", 2.5, "Batches are not cut in two. Some processes get one more."),
        WrongNumber("all_of_them", 10, "Each batch belongs to one process."),
    ),
)

PREDICT_GLOBAL_MEAN = Prediction(
    name="predict_global_mean",
    answer=2.6,
    tolerance=0.002,
    hint="How many nats do all tokens cost together? How many tokens are there?",
    misconceptions=(
        WrongNumber(
            "mean_of_means",
            3,
            "That is the mean of the three means: a mean of means. The first "
            "process has three times as many tokens, so it has to count three times as much.",
        ),
        WrongNumber("per_process", 1300 / 3, "That is the loss of a process, not of a token."),
        WrongNumber("not_divided", 1300, "That is the sum. Divide by the number of all tokens."),
        WrongNumber("sum_of_means", 9, "Means don't add up to a mean."),
    ),
)

PREDICT_SCALE = Prediction(
    name="predict_scale",
    answer=4,
    tolerance=0.001,
    hint="You want the sum of the four gradients. What you get is their sum divided by 4.",
    misconceptions=(
        WrongNumber(
            "none",
            1,
            "Then the gradient is a quarter of what it should be: each process has divided "
            "by the tokens of all, and the mean divides by 4 once more.",
        ),
        WrongNumber("twice_divided", 0.25, "The mean has divided by 4 already. Undo it, don't do it twice."),
        WrongNumber("root", 2, "Noise goes with the root of a number; a sum does not."),
    ),
)

PREDICT_MINUTES = Prediction(
    name="predict_minutes",
    answer=29_000 * 15 * 12 / 5_800 / 60,
    tolerance=0.02,
    hint="Sentences times tokens times epochs are the tokens to learn from. Divide by the speed.",
    misconceptions=(
        WrongNumber("seconds", 29_000 * 15 * 12 / 5_800, "That is the time in seconds."),
        WrongNumber("one_epoch", 29_000 * 15 / 5_800 / 60, "That is one epoch, and there are 12."),
        WrongNumber("hours", 29_000 * 15 * 12 / 5_800 / 3600, "That is the time in hours."),
        WrongNumber("sentences", 29_000 * 12 / 5_800 / 60, "The speed is in tokens, not in sentences."),
    ),
)

CATALOGUE = (
    PREDICT_BATCHES,
    SHARD,
    PREDICT_GLOBAL_MEAN,
    GLOBAL_TOKEN_MEAN,
    PREDICT_SCALE,
    PREDICT_MINUTES,
    METRICS,
    TRANSLATIONS,
)
