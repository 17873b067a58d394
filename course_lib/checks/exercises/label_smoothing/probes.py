"""Probes of lesson 08: smoothed targets, and the cross-entropy loss with these targets."""

import math

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.engine.probe import Draw, Observed
from course_lib.checks.engine.reply import Raised, Reply
from course_lib.checks.exercises.fixtures.results import (
    after_another_call,
    gradient_through,
    in_float64,
    number_in,
    smoothing_by,
)
from course_lib.checks.exercises.shared_requests import DEVICE, called_on_a_gpu, gradients_of
from course_lib.transformer.label_smoothing import LabelSmoothingLoss, smooth_targets

PADDED = torch.tensor([[3, 1, 4, 2], [2, 5, 0, 0], [1, 0, 0, 0]])
"""Three sentences of 4, 2 and 1 words, so that the mean of their means differs from the mean over words."""

# --- smooth_targets -----------------------------------------------------------------------------------------

SMOOTH_TARGETS = ExerciseCheck(smooth_targets)
probe = SMOOTH_TARGETS.probe


def _targets(candidate: Candidate, labels: object, vocab: int, pad_id: int, smoothing: float) -> Reply:
    """Call `smooth_targets` and convert its result to float64, because any float dtype is correct."""
    return candidate.fixture(in_float64(candidate)).call(torch.tensor(labels), vocab, pad_id, smoothing)


case = SMOOTH_TARGETS.cases(_targets)


case(
    "every class gets an equal share of the smoothing, and the label also gets the rest",
    [3, 1, 5, 2],
    6,
    0,
    0.4,
)
case("the rows of padding are zeros in a batch of two sentences", [[4, 2, 3], [1, 0, 0]], 5, 0, 0.1)
case("padding may have any id: here it is 4, and 0 is an ordinary word", [[0, 2, 4], [5, 0, 1]], 6, 4, 0.3)
case("without smoothing, the label has all of the probability", [2, 0, 1], 4, 0, 0.0)
case("with a smoothing of 1, all classes have the same probability", [2, 0, 3], 4, 0, 1.0)
case("the result is correct for a vocabulary of two tokens, one of which is padding", [[1, 1, 0]], 2, 0, 0.2)
case(
    "equal numbers of sentences, positions and classes: no axis is mistaken for another",
    [[1, 3, 2], [2, 0, 0], [3, 3, 0]],
    4,
    0,
    0.2,
)
case("a batch may have a single position", [[3], [0], [1]], 5, 0, 0.1)
case("labels with three axes are accepted", [[[1, 2], [3, 0]], [[4, 4], [2, 1]]], 5, 0, 0.1)
case("a single label without axes is accepted", 2, 5, 0, 0.1)
case("labels that are all padding give rows of zeros", [[0, 0, 0]], 4, 0, 0.1)


@probe("the targets are correct for random labels and a vocabulary of 50")
def _targets_of_drawn_labels(candidate: Candidate, draw: Draw) -> Reply:
    labels = draw.integers(0, 50, 3, 7)
    return candidate.fixture(in_float64(candidate)).call(labels, 50, 7, 0.1)


@probe("a second call with a different pad_id or smoothing has its own targets")
def _targets_again(candidate: Candidate, draw: Draw) -> Observed:
    labels = draw.integers(0, 6, 2, 5)
    again = candidate.fixture(after_another_call(candidate.fixture(in_float64(candidate))))
    return {
        "the targets with another pad_id": again.call((labels, 6, 0, 0.2), labels, 6, 3, 0.2),
        "the targets with another smoothing": again.call((labels, 6, 3, 0.2), labels, 6, 3, 0.4),
    }


@probe("everything is on the device of the labels")
def _targets_elsewhere(candidate: Candidate, draw: Draw) -> Reply:
    return called_on_a_gpu(candidate, PADDED, 6, 0, 0.2)


@probe("labels may be a view with a different memory layout")
def _targets_of_views(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.fixture(in_float64(candidate)).call(draw.integers(0, 6, 4, 3).T, 6, 0, 0.2)


# --- LabelSmoothingLoss -------------------------------------------------------------------------------------

LABEL_SMOOTHING_LOSS = ExerciseCheck(LabelSmoothingLoss)
probe = LABEL_SMOOTHING_LOSS.probe


@probe("your own code smooths the labels, not PyTorch's")
def _loss_smooths_itself(candidate: Candidate, draw: Draw) -> Observed:
    loss = candidate.build(6, 0, 0.2)
    reply = loss.fixture(smoothing_by(loss)).call(draw.normal(3, 4, 6), PADDED)
    return reply if isinstance(reply, Raised) else {"the code that smooths the labels": reply.value}


def _loss(
    candidate: Candidate,
    draw: Draw,
    labels: Tensor = PADDED,
    *,
    vocab: int = 6,
    pad_id: int = 0,
    smoothing: tuple[float, ...] = (0.2,),
    scale: int = 2,
    dtype: torch.dtype = torch.float64,
) -> Reply:
    """Call a loss with random logits times `scale`. An empty `smoothing` selects the default."""
    logits = scale * draw.normal(*labels.shape, vocab, dtype=dtype)
    return candidate.build(vocab, pad_id, *smoothing).call(logits, labels)


case = LABEL_SMOOTHING_LOSS.random_cases(_loss, __name__)
case(
    "_loss_without_padding",
    "the loss is the mean over all words of two sentences without padding",
    torch.tensor([[3, 1, 4], [2, 5, 1]]),
)
case(
    "_loss_with_padding",
    "the loss is the mean over the 7 real words of padded sentences with 4, 2 and 1 words",
)
case(
    "_loss_with_other_padding",
    "padding may have any id: here it is 5, and 0 is an ordinary word",
    torch.tensor([[0, 2, 4, 0], [1, 0, 5, 5]]),
    pad_id=5,
)
case(
    "_loss_of_cubes",
    "equal numbers of sentences, positions and classes: no axis is mistaken for another",
    torch.tensor([[1, 3, 2, 1], [2, 1, 0, 0], [3, 3, 1, 0], [2, 0, 0, 0]]),
    vocab=4,
)
case("_loss_by_default", "the smoothing is 0.1 by default", smoothing=())
case("_loss_without_smoothing", "without smoothing, the loss is the ordinary cross-entropy", smoothing=(0.0,))
case(
    "_loss_of_two_classes",
    "the result is correct for a vocabulary of two tokens, one of which is padding",
    torch.tensor([[1, 1, 0]]),
    vocab=2,
)
case(
    "_loss_of_single_words",
    "the result is correct for sentences of a single word, and one of padding",
    torch.tensor([[1], [3], [0], [2]]),
)
case("_loss_of_large_logits", "logits in the thousands give a finite loss", scale=3000)
case("_loss_in_float32", "float32 logits give a float32 loss", scale=1, dtype=torch.float32)
case("_loss_in_bfloat16", "bfloat16 logits give a bfloat16 loss", scale=1, dtype=torch.bfloat16)


@probe("gradients reach the logits of words, and are zero at padding")
def _loss_gradient(candidate: Candidate, draw: Draw) -> Observed:
    toward = torch.ones((), dtype=torch.float64)
    reply = candidate.build(6, 0, 0.2).gradients(2 * draw.normal(3, 4, 6), PADDED, toward=toward)
    return gradients_of(reply, ("the logits",))


@probe("the loss is zero, with zero gradients, if every label is padding")
def _loss_of_padding(candidate: Candidate, draw: Draw) -> Observed:
    logits, labels = 2 * draw.normal(2, 3, 6), torch.zeros(2, 3, dtype=torch.long)
    loss = candidate.build(6, 0, 0.2)
    gradient = loss.fixture(gradient_through(loss)).call(logits, labels)
    return {"the loss": loss.call(logits, labels), "the gradient of the logits": gradient}


@probe("the loss has an attribute pad_id")
def _loss_keeps_pad_id(candidate: Candidate, draw: Draw) -> Reply:
    loss = candidate.build(6, 3, 0.2)
    return loss.fixture(number_in(loss)).call("pad_id")


@probe(DEVICE)
def _loss_elsewhere(candidate: Candidate, draw: Draw) -> Observed:
    return called_on_a_gpu(candidate.build(6, 0, 0.2), 2 * draw.normal(3, 4, 6), PADDED)


@probe("a deep copy, and a new loss with the same state dict, give the same result")
def _loss_copied(candidate: Candidate, draw: Draw) -> Observed:
    logits = 2 * draw.normal(3, 4, 6)
    loss, other = candidate.build(6, 0, 0.2), candidate.build(6, 0, 0.2)
    # Call the loss first, because its state dict must not depend on the last batch.
    loss.call(logits[:2, :3], PADDED[:2, :3])
    state = loss.weights()
    if isinstance(state, Raised):
        return state
    loaded = other.call(state.value, method="load_state_dict")
    return {
        "the loss of a copy": loss.copy().call(logits, PADDED),
        "the loss after a round trip": loaded if isinstance(loaded, Raised) else other.call(logits, PADDED),
    }


@probe("a call does not affect later ones, whether with other labels, in evaluation mode or on a copy")
def _loss_called_again(candidate: Candidate, draw: Draw) -> Observed:
    loss = candidate.build(6, 0, 0.2)
    logits = 2 * draw.normal(3, 4, 6)
    observed = {
        "the first loss": loss.call(logits, PADDED),
        "the loss of other labels": loss.call(logits, PADDED.flip(0)),
    }
    loss.gradients(logits, PADDED, toward=torch.ones((), dtype=torch.float64))
    observed["the loss of a copy"] = loss.copy().call(logits, PADDED)
    loss.train(False)
    return observed | {"the loss in evaluation mode": loss.call(logits, PADDED)}


@probe("two losses with different settings don't affect each other")
def _two_losses(candidate: Candidate, draw: Draw) -> Observed:
    logits = 2 * draw.normal(3, 4, 6)
    first, second = candidate.build(6, 0, 0.2), candidate.build(6, 5, 0.6)
    return {
        "the first loss": first.call(logits, PADDED),
        "the second loss": second.call(logits, PADDED),
        "the first loss again": first.call(logits, PADDED),
    }


@probe("labels may be a view with a different memory layout, such as the labels of `shift_target`")
def _loss_of_views(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.build(6, 0, 0.2).call(2 * draw.normal(3, 4, 6), PADDED.T.contiguous().T)


# --- predictions --------------------------------------------------------------------------------------------

PREDICT_TARGET = PredictionCheck(
    answer=0.91,
    tolerance=0.003,
    hint="The label gives up the smoothing, and gets a share of it back, as every word does.",
    reason="1 - 0.1 + 0.1 / 10 = 0.91.",
)

PREDICT_GAP = PredictionCheck(
    answer=math.log(91),
    tolerance=0.02,
    hint="Divide one probability by the other: the denominators of the softmax cancel, and e to the power of "
    "the gap is left.",
    reason="The softmax's probabilities have the ratio e^gap = 0.91 / 0.01 = 91, and ln 91 = 4.51.",
)

PREDICT_LOWEST = PredictionCheck(
    answer=-0.91 * math.log(0.91) - 9 * 0.01 * math.log(0.01),
    tolerance=0.02,
    hint="The best possible model predicts exactly the targets. Use the same numbers for q and for p.",
    reason="The entropy of the targets: -0.91 · ln 0.91 - 9 · 0.01 · ln 0.01 = 0.50.",
)
