"""Lesson 09: one update of the weights."""

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import Exercise, Misconception, Prediction, WrongNumber, alone
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Reply
from course_lib.checks.exercises.fixtures.training import training
from course_lib.transformer.training import train_step

SHIFT = "section 3.1: the decoder's input is offset by one position; lesson 04"
MASKS = "section 3.2.3: padding and the words to come are masked; lesson 04"
BATCHES = "section 5.1: a batch holds about 25,000 tokens, however it is cut up"
SCHEDULE = "section 5.3: the schedule counts updates; lesson 07"
LOSS = "section 5.4 and lesson 08: a mean over the real tokens"
DROPOUT = "section 5.4: dropout, in training only"
UPDATE = "the documentation of torch.optim: zero_grad, backward, step"

# --- train_step ---------------------------------------------------------------------------------------------

_VOCAB, _START, _END = 9, 1, 2
_MicroBatch = tuple[Tensor, Tensor]


def _micro_batch(draw: Draw, *lengths: tuple[int, int], pad_id: int = 0, first: int = 3) -> _MicroBatch:
    """Make one micro-batch as `collate` does: `lengths` counts the words of each source and target."""

    def side(counts: Sequence[int]) -> Tensor:
        rows = torch.full((len(counts), max(counts) + 2), pad_id)
        for row, count in zip(rows, counts, strict=True):
            row[0], row[count + 1] = _START, _END
            row[1 : count + 1] = draw.integers(first, _VOCAB, count)
        return rows

    return side([source for source, _ in lengths]), side([target for _, target in lengths])


@probe("one batch in one piece: two sentences, one of which has padding on both sides")
def _one_piece(candidate: Candidate, draw: Draw) -> Reply:
    batch = (_micro_batch(draw, (4, 3), (2, 1)),)
    return candidate.make(training(_VOCAB)).call(candidate, (batch,))


@probe("one batch in three pieces, with 4, 8 and 2 tokens to predict")
def _three_pieces(candidate: Candidate, draw: Draw) -> Reply:
    pieces = (
        _micro_batch(draw, (3, 3)),
        _micro_batch(draw, (2, 4), (5, 2)),
        _micro_batch(draw, (1, 1)),
    )
    return candidate.make(training(_VOCAB)).call(candidate, (pieces,))


@probe("two batches, one in two pieces, on a model that comes in evaluation mode and with old gradients")
def _two_calls(candidate: Candidate, draw: Draw) -> Reply:
    first, second = (
        (_micro_batch(draw, (2, 3)),),
        (_micro_batch(draw, (3, 4), (1, 2)), _micro_batch(draw, (2, 1))),
    )
    fixture = training(_VOCAB, mode="evaluation", old_gradients=True)
    return candidate.make(fixture).call(candidate, (first, second))


@probe("padding is token 5 here, as the loss says, and token 0 is a word like any other")
def _other_padding(candidate: Candidate, draw: Draw) -> Reply:
    source, target = _micro_batch(draw, (4, 2), (2, 4), (1, 3), pad_id=5, first=6)
    source[:, 1] = target[:, 1] = 0
    return candidate.make(training(_VOCAB, pad_id=5)).call(candidate, (((source, target),),))


_COUNT = "    real_tokens = sum((shift_target(target)[1] != pad_id).sum() for _, target in pairs)\n"
_TRAIN = "    model.train()\n"
_CLEAR = "    optimizer.zero_grad()\n"
_LOOP = "    for source, target in pairs:\n"
_SHARE = "share = (labels != pad_id).sum() / real_tokens"
_MICRO = "micro_loss = loss(model.generator(hidden), labels) * share"
_BACKWARD = "        micro_loss.backward()\n"
_ADD = "        batch_loss += micro_loss.item()\n"
_STEP, _SCHEDULE = "    optimizer.step()\n", "    scheduler.step()\n"


_alone = partial(alone, train_step)

TRAIN_STEP = Exercise(
    reference=train_step,
    probes=(
        _one_piece,
        _three_pieces,
        _two_calls,
        _other_padding,
    ),
    misconceptions=(
        Misconception(
            name="not_cleared",
            says="the old gradients are never cleared",
            hint="backward() adds to the gradients that are there. That is what lets micro-batches add up; "
            "but those of the last update have to go first: optimizer.zero_grad(), once, before the loop.",
            paper=UPDATE,
            patch=[(_CLEAR, "")],
        ),
        Misconception(
            name="mode_not_set",
            says="not all of the model is put into training mode",
            hint="Whoever looked at the model before may have left it in evaluation mode, and then it trains "
            "without dropout, and nothing says so. Call model.train().",
            paper=DROPOUT,
            patch=[(_TRAIN, "")],
        ),
        Misconception(
            name="mean_of_means",
            says="each micro-batch counts the same, however many tokens it has: a mean of means",
            hint="A token in a short micro-batch then counts more than one in a long one. Weigh each mean by "
            "its share of the real tokens of the whole batch.",
            paper=BATCHES,
            patch=[(_SHARE, "share = 1 / len(pairs)")],
        ),
        Misconception(
            name="pad_is_zero",
            says="token 0 is taken for padding",
            hint="Which token means padding is in loss.pad_id. It is often 0, and here it is not.",
            paper=LOSS,
            patch=[("pad_id = loss.pad_id", "pad_id = 0")],
        ),
        Misconception(
            name="no_causal_mask",
            says="the decoder sees the words that it is to predict: its mask hides only padding",
            hint="The word to predict at one position is what the decoder reads at the next one. Use "
            "decoder_mask, which hides padding and all that comes later.",
            paper=MASKS,
            patch=[("decoder_mask(decoder_input, pad_id)", "padding_mask(decoder_input, pad_id)")],
        ),
        Misconception(
            name="tensor_returned",
            says="a tensor is handed back, not a plain number",
            hint="A tensor may hold on to the whole graph of the batch, and then a list of losses fills the "
            "memory. `.item()` makes a float of it.",
            paper=UPDATE,
            patch=[("micro_loss.item()", "micro_loss.detach()")],
        ),
        Misconception(
            name="schedule_before_update",
            says="the scheduler steps before the optimiser, so each update runs at the rate of the next",
            hint="The rate that is set holds for the update that comes. First optimizer.step(), then "
            "scheduler.step().",
            paper=SCHEDULE,
            patch=[(_STEP + _SCHEDULE, _SCHEDULE + _STEP)],
        ),
        # From here on they stand alone, and last, so that no other can be put in after them.
        Misconception(
            name="schedule_by_micro_batch",
            says="the scheduler steps once for each micro-batch, not once for each update",
            hint="Its step has to stand behind the loop. With 10 micro-batches a warm-up of 4,000 would be "
            "over after 400 updates.",
            paper=SCHEDULE,
            patch=_alone((_SCHEDULE, ""), (_ADD, _ADD + "        scheduler.step()\n")),
        ),
        Misconception(
            name="schedule_forgotten",
            says="the scheduler does not step, so the rate never changes",
            hint="One scheduler.step() after each optimizer.step().",
            paper=SCHEDULE,
            patch=_alone((_SCHEDULE, "")),
        ),
        Misconception(
            name="cleared_at_the_end",
            says="gradients are cleared after the update, but not before the first one",
            hint="Whoever looked at gradients before you may have left some. Clear them at the start, and "
            "you need not trust anybody.",
            paper=UPDATE,
            patch=_alone((_CLEAR, ""), (_SCHEDULE, _SCHEDULE + _CLEAR)),
        ),
        Misconception(
            name="cleared_in_the_loop",
            says="gradients are cleared before each micro-batch, so that only the last one counts",
            hint="Micro-batches are to add up. Clear once, before the loop.",
            paper=BATCHES,
            patch=_alone((_CLEAR, ""), (_BACKWARD, f"    {_CLEAR}{_BACKWARD}")),
        ),
        Misconception(
            name="no_gradient_left",
            says="there is no gradient when the optimiser steps, so no weight moves",
            hint="Was backward() called at all? And is zero_grad() called before it, not between it and the "
            "step?",
            paper=UPDATE,
            patch=_alone((_CLEAR, ""), (_STEP, _CLEAR + _STEP)),
        ),
        Misconception(
            name="update_forgotten",
            says="the optimiser does not step, so no weight moves",
            hint="backward() only works out gradients. optimizer.step() moves the weights.",
            paper=UPDATE,
            patch=_alone((_STEP, "")),
        ),
        Misconception(
            name="update_by_micro_batch",
            says="the optimiser steps after each micro-batch, with the gradients that are there by then",
            hint="Its step has to stand behind the loop: the gradients of all micro-batches add up to one, "
            "and that makes one update.",
            paper=BATCHES,
            patch=_alone((_STEP, ""), (_ADD, _ADD + "        optimizer.step()\n")),
        ),
        Misconception(
            name="batch_by_batch",
            says="each micro-batch is treated as a batch: cleared, sent back, and an update made",
            hint="They are pieces of one batch, and one batch is one update. Clear before the loop, step "
            "behind it, and let backward() add up in between.",
            paper=BATCHES,
            patch=_alone(
                (_CLEAR, ""),
                (_SHARE, "share = 1"),
                (_BACKWARD, f"    {_CLEAR}{_BACKWARD}"),
                (_ADD, "        batch_loss += micro_loss.item() / len(pairs)\n"),
                (_STEP + _SCHEDULE, ""),
                (
                    "    return batch_loss",
                    "        optimizer.step()\n        scheduler.step()\n    return batch_loss",
                ),
            ),
        ),
        Misconception(
            name="update_too_early",
            says="the update is made after the first micro-batch, and the others come too late",
            hint="`i % n == 0` is already true for i = 0. Make the update behind the loop, when all "
            "gradients are there.",
            paper=BATCHES,
            patch=_alone(
                (_LOOP, "    for number, (source, target) in enumerate(pairs):\n"),
                (_STEP, ""),
                (_ADD, f"{_ADD}        if number % len(pairs) == 0:\n            optimizer.step()\n"),
            ),
        ),
        Misconception(
            name="first_micro_batch_alone",
            says="only the first micro-batch is used",
            hint="Go through all of them. Is there a `return` inside the loop, or an index of [0]?",
            paper=BATCHES,
            patch=_alone(("pairs = list(micro_batches)", "pairs = list(micro_batches)[:1]")),
        ),
        Misconception(
            name="sum_of_means",
            says="the means of the micro-batches are added up, so more of them make a larger gradient",
            hint="Each mean has to be weighed by its share of the real tokens; the shares sum to one.",
            paper=BATCHES,
            patch=_alone((_SHARE, "share = 1")),
        ),
        Misconception(
            name="sum_over_tokens",
            says="it is a sum over all tokens, not a mean",
            hint="Divide by the number of real tokens of the whole batch. A sum grows with the batch, and "
            "with it each update.",
            paper=LOSS,
            patch=_alone((_SHARE, "share = (labels != pad_id).sum()")),
        ),
        Misconception(
            name="padding_counted",
            says="micro-batches are weighed by their places, padding included",
            hint="How much padding there is depends on how the batch is cut up. Only real tokens count: "
            "labels != loss.pad_id.",
            paper=LOSS,
            patch=_alone(
                (_COUNT, "    real_tokens = sum(shift_target(target)[1].numel() for _, target in pairs)\n"),
                (_SHARE, "share = labels.numel() / real_tokens"),
            ),
        ),
        Misconception(
            name="sentences_counted",
            says="micro-batches are weighed by their sentences, not by their tokens",
            hint="Sentences have different lengths. The loss is a mean over tokens, so count tokens.",
            paper=LOSS,
            patch=_alone(
                (_COUNT, "    real_tokens = sum(len(target) for _, target in pairs)\n"),
                (_SHARE, "share = len(labels) / real_tokens"),
            ),
        ),
        Misconception(
            name="start_counted",
            says="the start symbols are counted too, and nobody has to predict those",
            hint="Count the labels, which begin after the start symbol: that is what the loss is a mean "
            "over.",
            paper=LOSS,
            patch=_alone(
                ("(shift_target(target)[1] != pad_id).sum() for", "(target != pad_id).sum() for"),
                ("(labels != pad_id).sum() / real", "(target != pad_id).sum() / real"),
            ),
        ),
        Misconception(
            name="decoder_input_counted",
            says="the tokens that the decoder reads are counted, not those that it is to predict",
            hint="In a row without padding both are as many. In one with padding the decoder also reads the "
            "end, after which nothing is to be predicted. Count the real labels: the loss is their mean.",
            paper=LOSS,
            patch=_alone(
                (
                    "(shift_target(target)[1] != pad_id).sum() for",
                    "(shift_target(target)[0] != pad_id).sum() for",
                ),
                ("(labels != pad_id).sum() / real", "(decoder_input != pad_id).sum() / real"),
            ),
        ),
        Misconception(
            name="source_counted",
            says="micro-batches are weighed by the tokens of their sources, not by what is to be predicted",
            hint="The loss is a mean over the labels, so count the real labels.",
            paper=LOSS,
            patch=_alone(
                (_COUNT, "    real_tokens = sum((source != pad_id).sum() for source, _ in pairs)\n"),
                (_SHARE, "share = (source != pad_id).sum() / real_tokens"),
            ),
        ),
        Misconception(
            name="gradient_not_weighed",
            says="the loss that is handed back is right, but the gradient is that of the sum of means",
            hint="backward() has to see the weighed loss: multiply by the share before you call it, not only "
            "when you add up the number.",
            paper=BATCHES,
            patch=_alone(
                (_MICRO, "micro_loss = loss(model.generator(hidden), labels)"),
                (_ADD, "        batch_loss += (micro_loss * share).item()\n"),
            ),
        ),
        Misconception(
            name="mean_of_means_returned",
            says="the gradient is right, but what is handed back is the mean of the micro-batches' means",
            hint="Add up the weighed losses. A curve drawn of anything else is not that of what is trained.",
            paper=BATCHES,
            patch=_alone((_ADD, "        batch_loss += (micro_loss / share).item() / len(pairs)\n")),
        ),
        Misconception(
            name="sum_of_means_returned",
            says="the gradient is right, but what is handed back is the sum of the micro-batches' means",
            hint="Add up the weighed losses. This number would grow with the number of micro-batches.",
            paper=BATCHES,
            patch=_alone((_ADD, "        batch_loss += (micro_loss / share).item()\n")),
        ),
        Misconception(
            name="last_mean_returned",
            says="the gradient is right, but what is handed back is the loss of the last micro-batch alone",
            hint="Add up the weighed losses of all of them.",
            paper=BATCHES,
            patch=_alone((_ADD, "        batch_loss = (micro_loss / share).item()\n")),
        ),
        Misconception(
            name="nothing_returned",
            says="the loss is not handed back",
            hint="Whoever trains wants to see how it goes. Is a `return` missing?",
            paper=UPDATE,
            patch=_alone(("    return batch_loss", "    return")),
        ),
        Misconception(
            name="in_evaluation",
            says="the model is trained in evaluation mode, without dropout",
            hint="model.train() switches dropout on; model.eval() is for decoding and measuring.",
            paper=DROPOUT,
            patch=_alone((_TRAIN, "    model.eval()\n")),
        ),
        Misconception(
            name="not_shifted",
            says="the target is not shifted: at each position the label is the token that is read there",
            hint="Repeating what it has just read is something a model learns at once, and of no use. "
            "shift_target gives what the decoder reads, and its labels.",
            paper=SHIFT,
            patch=_alone(
                ("decoder_input, labels = shift_target(target)", "decoder_input = labels = target"),
            ),
        ),
        Misconception(
            name="reads_the_labels",
            says="the decoder reads the labels, which it is to predict",
            hint="It reads all but the last column of the target and predicts all but the first.",
            paper=SHIFT,
            patch=_alone(
                (
                    "decoder_input, labels = shift_target(target)",
                    "decoder_input = labels = shift_target(target)[1]",
                ),
            ),
        ),
        Misconception(
            name="halves_swapped",
            says="the two results of shift_target have changed places, so the past is predicted",
            hint="shift_target gives the decoder's input first, then the labels.",
            paper=SHIFT,
            patch=_alone(("decoder_input, labels = shift", "labels, decoder_input = shift")),
        ),
        Misconception(
            name="encoder_sees_padding",
            says="the encoder gets no mask, and looks at padding",
            hint="model.encode takes the source's padding mask as its second argument.",
            paper=MASKS,
            patch=_alone(("model.encode(source, source_mask)", "model.encode(source, None)")),
        ),
        Misconception(
            name="memory_not_masked",
            says="the decoder gets no source mask, and looks at the source's padding",
            hint="It is the second argument of model.decode, and the same mask that the encoder gets.",
            paper=MASKS,
            patch=_alone(("model.decode(memory, source_mask,", "model.decode(memory, None,")),
        ),
        Misconception(
            name="no_target_mask",
            says="the decoder gets no target mask: it sees padding and the words that it is to predict",
            hint="decoder_mask of what the decoder reads is the last argument of model.decode.",
            paper=MASKS,
            patch=_alone(("decoder_mask(decoder_input, pad_id))", "None)")),
        ),
        Misconception(
            name="generator_left_out",
            says="the loss gets what the decoder gives, without the generator",
            hint="decode gives d_model features for each position. model.generator makes logits of them, one "
            "for each word.",
            paper=LOSS,
            patch=_alone(("loss(model.generator(hidden), labels)", "loss(hidden, labels)")),
        ),
        Misconception(
            name="probabilities",
            says="the loss gets probabilities, where it expects logits",
            hint="The softmax is inside the loss. Two of them make everything nearly equal, and the model "
            "learns very slowly.",
            paper=LOSS,
            patch=_alone(("model.generator(hidden),", "model.generator(hidden).softmax(dim=-1),")),
        ),
        Misconception(
            name="own_cross_entropy",
            says="the cross-entropy of torch takes the place of the loss that was handed in",
            hint="Which loss it is, is for the caller to say: here it smooths its labels.",
            paper=LOSS,
            patch=_alone(
                (
                    "loss(model.generator(hidden), labels)",
                    "__import__('torch').nn.functional.cross_entropy(model.generator(hidden).flatten(0, 1), "
                    "labels.flatten(), ignore_index=pad_id)",
                ),
            ),
        ),
    ),
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_BATCH_LOSS = Prediction(
    name="predict_batch_loss",
    answer=2.5,
    tolerance=0.001,
    hint="Add up the losses of all 40 tokens, micro-batch by micro-batch. Then divide by 40.",
    misconceptions=(
        WrongNumber(
            "mean_of_means",
            3.0,
            "That counts a token of the short one three times as much as one of the long.",
        ),
        WrongNumber("sum_of_means", 6.0, "That is the sum of the two means. A mean cannot lie above both."),
        WrongNumber("sum", 100.0, "That is the sum over all 40 tokens. The mean is asked for."),
        WrongNumber(
            "swapped",
            3.5,
            "The one with 30 tokens has the loss of 2, so the mean lies nearer to 2 than to 4.",
        ),
        WrongNumber("last", 4.0, "That is the loss of the second micro-batch alone."),
    ),
)

PREDICT_FIRST_LOSS = Prediction(
    name="predict_first_loss",
    answer=math.log(13),
    tolerance=0.01,
    hint="Each of the 13 words gets the probability 1/13, so each term of the cross-entropy has the same "
    "logarithm; and the targets sum to one.",
    misconceptions=(
        WrongNumber(
            "label_alone",
            0.9 * math.log(13),
            "The label's 90% are not all of the targets. The other 10% cost something, too.",
        ),
        WrongNumber("probability", 1 / 13, "That is the probability of each word. The loss is -ln of it."),
        WrongNumber("base_two", math.log2(13), "That is in bits. Use the natural logarithm."),
        WrongNumber("base_ten", math.log10(13), "That is the logarithm to base 10. Use the natural one."),
        WrongNumber("symbols", math.log(10), "The model may also say start, end and padding: 13 words."),
        WrongNumber("negative", -math.log(13), "A loss is minus the logarithm: it is never below zero."),
    ),
)

PREDICT_WHOLE = Prediction(
    name="predict_whole",
    answer=0.99**20,
    tolerance=0.005,
    hint="All 20 have to be right: the first, then the second after a right first one, then the third ... "
    "Such chances multiply.",
    misconceptions=(
        WrongNumber("one_word", 0.99, "That is a single word. Twenty have to be right, all of them."),
        WrongNumber("subtracted", 0.8, "Nearly: you took away 1% twenty times. Chances multiply."),
        WrongNumber("some_wrong", 1 - 0.99**20, "That is the share of sentences with a mistake in them."),
        WrongNumber("per_cent", 100 * 0.99**20, "The number is right as per cent. A share is at most 1."),
        WrongNumber("added", 19.8, "That is how many of the 20 are right on average."),
    ),
)

CATALOGUE = (PREDICT_BATCH_LOSS, TRAIN_STEP, PREDICT_FIRST_LOSS, PREDICT_WHOLE)
