"""Probes of lesson 09: a training step with gradient accumulation."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate, Fixture
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.engine.probe import Draw
from course_lib.checks.engine.reply import Reply
from course_lib.checks.exercises.fixtures.devices import on_a_gpu
from course_lib.checks.exercises.fixtures.training import prepare_training, training
from course_lib.transformer.training import train_step

# --- train_step ---------------------------------------------------------------------------------------------

TRAIN_STEP = ExerciseCheck(train_step, uncounted=254)
probe = TRAIN_STEP.probe

_VOCAB, _START, _END = 9, 1, 2
_MicroBatch = tuple[Tensor, Tensor]


def _micro_batch(draw: Draw, *lengths: tuple[int, int], pad_id: int = 0, first: int = 3) -> _MicroBatch:
    """Return a micro-batch in the format of `collate`, whose words have random ids of at least `first`.

    `lengths` holds the number of words in each source and in its target.
    """

    def side(counts: Sequence[int]) -> Tensor:
        rows = torch.full((len(counts), max(counts) + 2), pad_id)
        for row, count in zip(rows, counts, strict=True):
            row[0], row[count + 1] = _START, _END
            row[1 : count + 1] = draw.integers(first, _VOCAB, count)
        return rows

    return side([source for source, _ in lengths]), side([target for _, target in lengths])


def _trained(candidate: Candidate, loop: Fixture, *batches: tuple[_MicroBatch, ...]) -> Reply:
    prepare_training(_VOCAB)  # Do this outside the request, which has a time limit.
    return candidate.fixture(loop).call(candidate, batches)


@probe("one update is correct for a single micro-batch, with padding in source and target")
def _one_piece(candidate: Candidate, draw: Draw) -> Reply:
    batch = (_micro_batch(draw, (4, 3), (2, 1)),)
    return _trained(candidate, training(_VOCAB), batch)


@probe("one update is correct for three micro-batches, with 4, 8 and 2 labels")
def _three_pieces(candidate: Candidate, draw: Draw) -> Reply:
    pieces = (
        _micro_batch(draw, (3, 3)),
        _micro_batch(draw, (2, 4), (5, 2)),
        _micro_batch(draw, (1, 1)),
    )
    return _trained(candidate, training(_VOCAB), pieces)


@probe("two updates are correct for a model that starts in evaluation mode with old gradients")
def _two_calls(candidate: Candidate, draw: Draw) -> Reply:
    first, second = _micro_batch(draw, (2, 3)), _micro_batch(draw, (3, 4), (1, 2))
    return _trained(candidate, training(_VOCAB, mode="evaluation", old_gradients=True), (first,), (second,))


@probe("padding may have any id: here loss.pad_id is 5, and 0 is an ordinary word")
def _other_padding(candidate: Candidate, draw: Draw) -> Reply:
    # Counting labels with a different padding id changes both the share of each micro-batch and the total.
    pieces = (
        _micro_batch(draw, (4, 1), (2, 4), (1, 3), pad_id=5, first=6),
        _micro_batch(draw, (3, 2), (2, 2), pad_id=5, first=6),
    )
    for source, target in pieces:
        source[:, 1] = target[:, 1] = 0
    return _trained(candidate, training(_VOCAB, pad_id=5), pieces)


@probe("the embeddings and the generator may be tied")
def _tied(candidate: Candidate, draw: Draw) -> Reply:
    pieces = (_micro_batch(draw, (3, 2)), _micro_batch(draw, (2, 4)))
    return _trained(candidate, training(_VOCAB, tied=True), pieces)


@probe("the optimiser may have several parameter groups")
def _groups(candidate: Candidate, draw: Draw) -> Reply:
    pieces = (_micro_batch(draw, (3, 2)), _micro_batch(draw, (2, 4)))
    return _trained(candidate, training(_VOCAB, groups=True), pieces)


@probe("the micro-batches may come from a generator, which can be iterated over only once")
def _from_a_generator(candidate: Candidate, draw: Draw) -> Reply:
    pieces = (_micro_batch(draw, (2, 4), (5, 2)), _micro_batch(draw, (1, 1)), _micro_batch(draw, (3, 2)))
    return _trained(candidate, training(_VOCAB, generator=True), pieces)


@probe("at most one micro-batch's graph is alive at a time")
def _one_graph(candidate: Candidate, draw: Draw) -> Reply:
    pieces = (_micro_batch(draw, (2, 3)), _micro_batch(draw, (1, 2)), _micro_batch(draw, (3, 1)))
    return _trained(candidate, training(_VOCAB, graphs=True), pieces)


@probe("everything is on the device of the model and the tokens")
def _elsewhere(candidate: Candidate, draw: Draw) -> Reply:
    prepare_training(_VOCAB)
    batches = ((_micro_batch(draw, (3, 2), (2, 4)),),)
    return candidate.fixture(training(_VOCAB)).call(candidate, batches, candidate.fixture(on_a_gpu()))


# --- predictions --------------------------------------------------------------------------------------------

PREDICT_BATCH_LOSS = PredictionCheck(
    answer=2.5,
    tolerance=0.001,
    hint="Add up the losses of all 40 tokens, micro-batch by micro-batch, and divide by 40.",
    reason="(30 · 2 + 10 · 4) / 40 = 100 / 40 = 2.5. The mean of the two means would be 3.",
)

PREDICT_FIRST_LOSS = PredictionCheck(
    answer=math.log(13),
    tolerance=0.02,
    hint="Each of the 13 words has probability 1/13, so every term of the cross-entropy has the same "
    "logarithm, and the targets sum to one.",
    reason="Every word costs -ln(1/13) = ln 13, and the targets sum to one, so the smoothing "
    "changes nothing.",
)

PREDICT_WHOLE = PredictionCheck(
    answer=0.99**20,
    tolerance=0.005,
    hint="All 20 must be correct: the first, then the second after a correct first, and so on. Such "
    "probabilities multiply.",
    reason="0.99 to the power of 20 is 0.818, so nearly one sentence in five has a mistake.",
)
