"""Lesson 08: targets that are not quite sure, and the loss against them."""

import math
from typing import Any

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import Exercise, Misconception, Prediction, WrongNumber
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Raised, Reply
from course_lib.checks.exercises.fixtures.results import in_float64, number_in, smoothing_by
from course_lib.transformer.label_smoothing import LabelSmoothingLoss, smooth_targets

SPREAD = "section 5.4, and Szegedy et al. 2016 (arXiv 1512.00567), section 7"
PADDING = "section 5.4; padding is no word, so it has no target and no loss"
ENTROPY = "section 5.4, and Szegedy et al. 2016 (arXiv 1512.00567), section 7: the cross-entropy"
STABLE = "the documentation of torch.nn.functional.log_softmax"

# --- smooth_targets -----------------------------------------------------------------------------------------


def _targets(candidate: Candidate, labels: Any, vocab: int, pad_id: int, smoothing: float) -> Reply:
    """What dtype the targets have is free, as long as it is a floating one."""
    return candidate.make(in_float64(candidate)).call(torch.tensor(labels), vocab, pad_id, smoothing)


@probe("four labels and six classes: most goes to the label, and an equal share to every class")
def _targets_of_a_row(candidate: Candidate, draw: Draw) -> Reply:
    return _targets(candidate, [3, 1, 5, 2], 6, 0, 0.4)


@probe("two sentences, the shorter one filled up with padding, whose rows are zeros")
def _targets_of_a_batch(candidate: Candidate, draw: Draw) -> Reply:
    return _targets(candidate, [[4, 2, 3], [1, 0, 0]], 5, 0, 0.1)


@probe("padding may have any number; here it is 4, and 0 is a word like others")
def _targets_with_other_padding(candidate: Candidate, draw: Draw) -> Reply:
    return _targets(candidate, [[0, 2, 4], [5, 0, 1]], 6, 4, 0.3)


@probe("without smoothing the label has all of the probability")
def _targets_without_smoothing(candidate: Candidate, draw: Draw) -> Reply:
    return _targets(candidate, [2, 0, 1], 4, 0, 0.0)


@probe("a smoothing of 1 leaves nothing that tells the label from other classes")
def _targets_of_full_smoothing(candidate: Candidate, draw: Draw) -> Reply:
    return _targets(candidate, [2, 0, 3], 4, 0, 1.0)


@probe("a vocabulary of two, one of which is padding")
def _targets_of_two_classes(candidate: Candidate, draw: Draw) -> Reply:
    return _targets(candidate, [[1, 1, 0]], 2, 0, 0.2)


@probe("as many sentences as positions as classes: each axis still means its own thing")
def _targets_of_cubes(candidate: Candidate, draw: Draw) -> Reply:
    return _targets(candidate, [[1, 3, 2], [2, 0, 0], [3, 3, 0]], 3 + 1, 0, 0.2)


@probe("labels with three axes")
def _targets_of_three_axes(candidate: Candidate, draw: Draw) -> Reply:
    return _targets(candidate, [[[1, 2], [3, 0]], [[4, 4], [2, 1]]], 5, 0, 0.1)


@probe("a single label, with no axis at all")
def _targets_of_one_label(candidate: Candidate, draw: Draw) -> Reply:
    return _targets(candidate, 2, 5, 0, 0.1)


@probe("nothing but padding")
def _targets_of_padding(candidate: Candidate, draw: Draw) -> Reply:
    return _targets(candidate, [[0, 0, 0]], 4, 0, 0.1)


@probe("labels that nobody chose, with a vocabulary of 50")
def _targets_of_drawn_labels(candidate: Candidate, draw: Draw) -> Reply:
    labels = draw.integers(0, 50, 3, 7)
    return candidate.make(in_float64(candidate)).call(labels, 50, 7, 0.1)


ADDED = "targets.scatter_add_(-1, labels.masked_fill(padding, 0).long().unsqueeze(-1), sure)"
SHARE = "smoothing / vocab_size"

SMOOTH_TARGETS = Exercise(
    reference=smooth_targets,
    probes=(
        _targets_of_a_row,
        _targets_of_a_batch,
        _targets_with_other_padding,
        _targets_without_smoothing,
        _targets_of_full_smoothing,
        _targets_of_two_classes,
        _targets_of_cubes,
        _targets_of_three_axes,
        _targets_of_one_label,
        _targets_of_padding,
        _targets_of_drawn_labels,
    ),
    misconceptions=(
        Misconception(
            name="spread_over_the_others",
            says="the smoothing is shared among the other V - 1 classes, and the label gets no share of it",
            hint="That is another version of the idea. What the paper cites, and what PyTorch "
            "does, is smoothing / V on every class, the label included, so the label ends at "
            "1 - smoothing + smoothing / V.",
            paper=SPREAD,
            patch=[
                (SHARE, "smoothing / (vocab_size - 1)"),
                ("1.0 - smoothing", "1.0 - smoothing - smoothing / (vocab_size - 1)"),
            ],
        ),
        Misconception(
            name="divided_by_v_minus_two",
            says="the smoothing is shared among V - 2 classes, without the label and without padding",
            hint="Widely copied code does that. What the paper cites, and what PyTorch does, is "
            "smoothing / V on every class. (And V - 2 is zero for a vocabulary of two.)",
            paper=SPREAD,
            patch=[
                (SHARE, "smoothing / (vocab_size - 2)"),
                ("1.0 - smoothing", "1.0 - smoothing - smoothing / (vocab_size - 2)"),
                (ADDED, f"{ADDED}\n    targets[..., pad_id] = 0.0"),
            ],
        ),
        Misconception(
            name="no_share_for_padding",
            says="the class of padding gets no share, so the rows do not sum to one",
            hint="Every class gets smoothing / V, that of padding as well: each row is a distribution over "
            "the whole vocabulary. It is the rows of padding that are zeros, not the column.",
            paper=SPREAD,
            patch=[(ADDED, f"{ADDED}\n    targets[..., pad_id] = 0.0")],
        ),
        Misconception(
            name="label_overwritten",
            says="the label has 1 - smoothing alone, without its share, so the rows do not sum to one",
            hint="smoothing / V goes to every class, and 1 - smoothing to the label on top of it: add it "
            "there (scatter_add), do not overwrite.",
            paper=SPREAD,
            patch=[("targets.scatter_add_", "targets.scatter_")],
        ),
        Misconception(
            name="label_keeps_everything",
            says="the label has 1 and its share, so the rows sum to more than one",
            hint="What the others get is taken from the label: 1 - smoothing is left for it, plus its share.",
            paper=SPREAD,
            patch=[("1.0 - smoothing)", "1.0)")],
        ),
        Misconception(
            name="not_shared_out",
            says="every class gets the whole smoothing, so the rows sum to more than one",
            hint="The smoothing is shared out: smoothing / V for each of the V classes.",
            paper=SPREAD,
            patch=[(SHARE, "smoothing")],
        ),
        Misconception(
            name="not_smoothed",
            says="the targets are not smoothed",
            hint="The label gives up `smoothing` of its probability, and all classes share it.",
            paper=SPREAD,
            patch=[(SHARE, "0.0"), ("1.0 - smoothing", "1.0")],
        ),
        Misconception(
            name="roles_swapped",
            says="smoothing and 1 - smoothing have changed places",
            hint="Smoothing is the small part that is shared out; 1 - smoothing stays with the label.",
            paper=SPREAD,
            patch=[("1.0 - smoothing)", "smoothing)"), (SHARE, "(1.0 - smoothing) / vocab_size")],
        ),
        Misconception(
            name="padding_kept",
            says="the rows of padding are smoothed like others",
            hint="Padding is no word that the model should write. Its rows are zeros, so that they cost "
            "nothing.",
            paper=PADDING,
            patch=[
                ("return targets.masked_fill(padding.unsqueeze(-1), 0.0)", "return targets"),
                ("labels.masked_fill(padding, 0)", "labels"),
            ],
        ),
        Misconception(
            name="padding_is_zero",
            says="padding is taken to be 0, whatever pad_id says",
            hint="Which number means padding is handed in as pad_id. Compare the labels with that.",
            paper=PADDING,
            patch=[("labels == pad_id", "labels == 0")],
        ),
        Misconception(
            name="padding_is_uniform",
            says="the rows of padding hold the share of each class, and only the label is left out",
            hint="All of a padding row is zero, so that it costs nothing in the loss: clear the row at the "
            "end.",
            paper=PADDING,
            patch=[
                (
                    "targets.new_full((*labels.shape, 1), 1.0 - smoothing)",
                    "(1.0 - smoothing) * (~padding).unsqueeze(-1).to(targets.dtype)",
                ),
                ("return targets.masked_fill(padding.unsqueeze(-1), 0.0)", "return targets"),
            ],
        ),
        Misconception(
            name="labels_flattened",
            says="the labels' axes are folded into one",
            hint="The result has all axes of the labels, and one more for the classes.",
            paper=SPREAD,
            patch=[
                (
                    "return targets.masked_fill(padding.unsqueeze(-1), 0.0)",
                    "return targets.masked_fill(padding.unsqueeze(-1), 0.0).reshape(-1, vocab_size)",
                )
            ],
        ),
        Misconception(
            name="classes_first",
            says="the axis of the classes stands first, where it should be last",
            hint="It stands where it does in the logits: behind all axes of the labels.",
            paper=SPREAD,
            patch=[
                (
                    "return targets.masked_fill(padding.unsqueeze(-1), 0.0)",
                    "return targets.masked_fill(padding.unsqueeze(-1), 0.0).movedim(-1, 0)",
                )
            ],
        ),
        Misconception(
            name="whole_numbers",
            says="the targets have the labels' dtype, whole numbers, so that all fractions are lost",
            hint="Functions such as full_like and zeros_like take over the dtype too. Probabilities need a "
            "floating one.",
            paper="the documentation of torch.full_like",
            patch=[("device=labels.device)", "device=labels.device, dtype=labels.dtype)")],
        ),
        Misconception(
            name="labels_changed",
            says="the labels are changed in place",
            hint="`labels[padding] = 0` and functions that end in _ write into the tensor that the caller "
            "handed in. Make a new one, with `masked_fill` for example.",
            paper="the documentation of torch.Tensor.masked_fill",
            patch=[("labels.masked_fill(padding, 0)", "labels.masked_fill_(padding, 1)")],
        ),
    ),
)

# --- LabelSmoothingLoss -------------------------------------------------------------------------------------

PADDED = torch.tensor([[3, 1, 4, 2], [2, 5, 0, 0], [1, 0, 0, 0]])
"""Three sentences of 4, 2 and 1 words: so the mean of their means is not the mean over their words."""


def _loss(candidate: Candidate, draw: Draw, labels: Tensor, vocab: int = 6, pad_id: int = 0) -> Reply:
    logits = 2 * draw.normal(*labels.shape, vocab)
    return candidate.build(vocab, pad_id, 0.2).call(logits, labels)


@probe("two sentences without padding: the mean loss of their words")
def _loss_without_padding(candidate: Candidate, draw: Draw) -> Reply:
    return _loss(candidate, draw, torch.tensor([[3, 1, 4], [2, 5, 1]]))


@probe("sentences of 4, 2 and 1 words, filled up with padding: the mean loss of the seven words")
def _loss_with_padding(candidate: Candidate, draw: Draw) -> Reply:
    return _loss(candidate, draw, PADDED)


@probe("padding may have any number; here it is 5, and 0 is a word like others")
def _loss_with_other_padding(candidate: Candidate, draw: Draw) -> Reply:
    return _loss(candidate, draw, torch.tensor([[0, 2, 4, 0], [1, 0, 5, 5]]), pad_id=5)


@probe("as many sentences as positions as classes: each axis still means its own thing")
def _loss_of_cubes(candidate: Candidate, draw: Draw) -> Reply:
    return _loss(
        candidate, draw, torch.tensor([[1, 3, 2, 1], [2, 1, 0, 0], [3, 3, 1, 0], [2, 0, 0, 0]]), vocab=4
    )


@probe("the smoothing is 0.1 unless another is given")
def _loss_by_default(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.build(6, 0).call(2 * draw.normal(3, 4, 6), PADDED)


@probe("without smoothing it is the ordinary cross-entropy")
def _loss_without_smoothing(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.build(6, 0, 0.0).call(2 * draw.normal(3, 4, 6), PADDED)


@probe("a vocabulary of two, one of which is padding")
def _loss_of_two_classes(candidate: Candidate, draw: Draw) -> Reply:
    return _loss(candidate, draw, torch.tensor([[1, 1, 0]]), vocab=2)


@probe("logits of some thousands give a loss of some thousands, and no infinity")
def _loss_of_large_logits(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.build(6, 0, 0.2).call(3000 * draw.normal(3, 4, 6), PADDED)


@probe("float32 goes in and float32 comes out")
def _loss_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.build(6, 0, 0.2).call(draw.normal(3, 4, 6, dtype=torch.float32), PADDED)


@probe("bfloat16 goes in and bfloat16 comes out")
def _loss_in_bfloat16(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.build(6, 0, 0.2).call(draw.normal(3, 4, 6, dtype=torch.bfloat16), PADDED)


@probe("gradients reach the logits of the words, and those of padding get none")
def _loss_gradient(candidate: Candidate, draw: Draw) -> Any:
    toward = torch.ones((), dtype=torch.float64)
    reply = candidate.build(6, 0, 0.2).gradients(2 * draw.normal(3, 4, 6), PADDED, toward=toward)
    if isinstance(reply, Raised):
        return reply
    arrived = reply.value["inputs"][0]
    return {"the gradient of the logits": "none" if arrived is None else arrived}


@probe("pad_id can be read from it")
def _loss_keeps_pad_id(candidate: Candidate, draw: Draw) -> Reply:
    loss = candidate.build(6, 3, 0.2)
    return loss.make(number_in(loss)).call("pad_id")


@probe("a deep copy, and one that has taken over its state dict, give the same loss")
def _loss_copied(candidate: Candidate, draw: Draw) -> Any:
    logits = 2 * draw.normal(3, 4, 6)
    loss, other = candidate.build(6, 0, 0.2), candidate.build(6, 0, 0.2)
    state = loss.weights()
    if isinstance(state, Raised):
        return state
    loaded = other.call(state.value, method="load_state_dict")
    return {
        "the loss of a copy": loss.copy().call(logits, PADDED),
        "the loss after a round trip": loaded if isinstance(loaded, Raised) else other.call(logits, PADDED),
    }


@probe("each call counts for itself: with other labels, in evaluation mode, and of a copy made afterwards")
def _loss_called_again(candidate: Candidate, draw: Draw) -> Any:
    loss = candidate.build(6, 0, 0.2)
    logits = 2 * draw.normal(3, 4, 6)
    told = {
        "the first loss": loss.call(logits, PADDED),
        "the loss of other labels": loss.call(logits, PADDED.flip(0)),
    }
    loss.gradients(logits, PADDED, toward=torch.ones((), dtype=torch.float64))
    told["the loss of a copy"] = loss.copy().call(logits, PADDED)
    loss.train(False)
    return told | {"the loss in evaluation mode": loss.call(logits, PADDED)}


@probe("logits and labels that are views, with their numbers in another order in memory")
def _loss_of_views(candidate: Candidate, draw: Draw) -> Reply:
    logits = 2 * draw.normal(4, 3, 6)
    return candidate.build(6, 0, 0.2).call(logits.transpose(0, 1), PADDED.T.contiguous().T)


@probe("the smoothing is done by your code")
def _loss_smooths_itself(candidate: Candidate, draw: Draw) -> Any:
    loss = candidate.build(6, 0, 0.2)
    reply = loss.make(smoothing_by(loss)).call(draw.normal(3, 4, 6), PADDED)
    return reply if isinstance(reply, Raised) else {"what smooths the labels": reply.value}


CALL = "smooth_targets(labels, self.vocab_size, self.pad_id, self.smoothing)"
SURE = "smooth_targets(labels, self.vocab_size, self.pad_id, 0.0)"
BY_TORCH = (
    "return torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), "
    "ignore_index=self.pad_id, label_smoothing=self.smoothing)"
)


def _shared_among(others: str) -> str:
    """Smoothed targets of another kind: the label has 1 - smoothing, and `others` classes share the rest."""
    one, share = SURE, f"self.smoothing / ({others})"
    return f"({one} * (1.0 - self.smoothing - {share}) + {one}.sum(dim=-1, keepdim=True) * {share})"


LABEL_SMOOTHING_LOSS = Exercise(
    reference=LabelSmoothingLoss,
    probes=(
        _loss_without_padding,
        _loss_with_padding,
        _loss_with_other_padding,
        _loss_of_cubes,
        _loss_by_default,
        _loss_without_smoothing,
        _loss_of_two_classes,
        _loss_of_large_logits,
        _loss_in_float32,
        _loss_in_bfloat16,
        _loss_gradient,
        _loss_keeps_pad_id,
        _loss_copied,
        _loss_called_again,
        _loss_of_views,
        _loss_smooths_itself,
    ),
    misconceptions=(
        Misconception(
            name="mean_over_all_positions",
            says="the sum is divided by the number of all positions, padding included",
            hint="Padding costs nothing, and must not thin out the mean either: divide by the number of "
            "labels that are not pad_id.",
            paper=PADDING,
            patch=[("(labels != self.pad_id).sum()", "torch.tensor(labels.numel())")],
        ),
        Misconception(
            name="padding_counted",
            says="padding counts as a word like others",
            hint="smooth_targets makes zeros of padding if it knows the pad_id, and the mean is over the "
            "other labels.",
            paper=PADDING,
            patch=[
                ("self.vocab_size, self.pad_id, self.smoothing", "self.vocab_size, -1, self.smoothing"),
                ("(labels != self.pad_id)", "(labels != -1)"),
            ],
        ),
        Misconception(
            name="mean_of_means",
            says="it is the mean of the sentences' means, so a word of a short sentence counts for more",
            hint="Every word counts the same: sum over all words of the batch, then divide once by their "
            "number.",
            paper=ENTROPY,
            patch=[
                ("(labels != self.pad_id).sum()", "(labels != self.pad_id).sum(dim=-1)"),
                (".sum() / real_tokens", ".sum(dim=(-2, -1)).div(real_tokens).mean()"),
            ],
        ),
        Misconception(
            name="mean_over_sentences",
            says="the sum is divided by the number of sentences, not of words",
            hint="Longer sentences would then weigh more. Divide by the number of labels that are not "
            "pad_id.",
            paper=ENTROPY,
            patch=[("(labels != self.pad_id).sum()", "torch.tensor(len(labels))")],
        ),
        Misconception(
            name="summed",
            says="the losses are summed, and not divided by the number of words",
            hint="A mean over words makes batches of any size comparable.",
            paper=ENTROPY,
            patch=[(".sum().clamp(min=1)", ".sum().clamp(max=1)")],
        ),
        Misconception(
            name="mean_over_classes",
            says="the mean runs over the classes too",
            hint="The cross-entropy of one word is a sum over the classes. Only words are averaged.",
            paper=ENTROPY,
            patch=[("(labels != self.pad_id).sum()", "((labels != self.pad_id).sum() * self.vocab_size)")],
        ),
        Misconception(
            name="sign_missing",
            says="the minus is missing, so the loss is below zero",
            hint="Logarithms of probabilities are negative. The cross-entropy is minus their mean; without "
            "the minus, training makes the model worse.",
            paper=ENTROPY,
            patch=[("-targets *", "targets *")],
        ),
        Misconception(
            name="no_log_softmax",
            says="the logits are taken for log-probabilities",
            hint="Logits are any numbers. log_softmax over the classes makes log-probabilities of them.",
            paper=ENTROPY,
            patch=[("logits.log_softmax(dim=-1)", "logits")],
        ),
        Misconception(
            name="no_logarithm",
            says="the logarithm is missing: the targets are multiplied by probabilities",
            hint="The cross-entropy takes the logarithm of the model's probabilities: log_softmax, not "
            "softmax.",
            paper=ENTROPY,
            patch=[("logits.log_softmax(dim=-1)", "logits.softmax(dim=-1)")],
        ),
        Misconception(
            name="softmax_twice",
            says="there are two softmaxes, one after the other",
            hint="log_softmax contains the softmax: give it the logits as they are.",
            paper=ENTROPY,
            patch=[("logits.log_softmax", "logits.softmax(dim=-1).log_softmax")],
        ),
        Misconception(
            name="log_of_softmax",
            says="the logarithm is taken of a softmax that has rounded to zero, which gives infinity",
            hint="exp(-1000) is 0 to a computer, and log(0) is minus infinity. log_softmax does both in one "
            "step and never leaves the logarithms.",
            paper=STABLE,
            patch=[("logits.log_softmax(dim=-1)", "logits.softmax(dim=-1).log()")],
        ),
        Misconception(
            name="over_positions",
            says="the softmax runs over the positions, not over the classes",
            hint="For each position the model has a distribution over the vocabulary, which is the last "
            "axis.",
            paper=ENTROPY,
            patch=[("log_softmax(dim=-1)", "log_softmax(dim=-2)")],
        ),
        Misconception(
            name="not_smoothed",
            says="the labels are not smoothed",
            hint="Hand the smoothing on to smooth_targets.",
            paper=SPREAD,
            patch=[("self.pad_id, self.smoothing)", "self.pad_id, 0.0)")],
        ),
        Misconception(
            name="smoothing_fixed",
            says="the smoothing is always 0.1",
            hint="0.1 is only what it is where nobody says otherwise; use self.smoothing.",
            paper=SPREAD,
            patch=[("self.pad_id, self.smoothing)", "self.pad_id, 0.1)")],
        ),
        Misconception(
            name="spread_over_the_others",
            says="the smoothing is shared among the other V - 1 classes, and the label gets no share of it",
            hint="smooth_targets of this lesson puts smoothing / V on every class, the label included.",
            paper=SPREAD,
            patch=[(CALL, _shared_among("self.vocab_size - 1"))],
        ),
        Misconception(
            name="divergence",
            says="it is the Kullback-Leibler divergence, which is the cross-entropy less the entropy of the "
            "targets",
            hint="Both have the same gradient, but not the same value. The course reports cross-entropy, "
            "whose least value is not zero once labels are smoothed. (kl_div gives the divergence.)",
            paper=ENTROPY,
            patch=[("-targets *", "torch.xlogy(targets, targets) - targets *")],
        ),
        Misconception(
            name="detached",
            says="the graph is cut, so no gradient reaches the logits",
            hint="`.detach()`, `.data`, `.item()` and making a new tensor out of numbers all cut the graph.",
            paper=ENTROPY,
            patch=[("logits.log_softmax", "logits.detach().log_softmax")],
        ),
        Misconception(
            name="cast_to_float32",
            says="the loss is always float32",
            hint="Results stand in the dtype of the inputs. (The targets may need to be brought to it, with "
            "`.to(logits.dtype)`.)",
            paper="the dtypes of this course: see lesson 01",
            patch=[
                ("logits.log_softmax(dim=-1)", "logits.float().log_softmax(dim=-1)"),
                (".to(logits.dtype)", ""),
            ],
        ),
        Misconception(
            name="targets_not_cast",
            says="the targets are float32 and make a float32 loss out of bfloat16 logits",
            hint="Results stand in the dtype of the inputs: bring the targets to it, with "
            "`.to(logits.dtype)`.",
            paper="the dtypes of this course: see lesson 01",
            patch=[(".to(logits.dtype)", "")],
        ),
        Misconception(
            name="left_to_torch",
            says="the smoothing is left to torch's cross-entropy, which is the whole exercise",
            hint="Make the targets with your smooth_targets, and let them meet the model's "
            "log-probabilities yourself.",
            paper=ENTROPY,
            patch=[("targets = smooth_targets", f"{BY_TORCH}\n        targets = smooth_targets")],
        ),
    ),
)

# --- predictions --------------------------------------------------------------------------------------------

# A vocabulary of 10 and a smoothing of 0.1: 0.91 on the label, 0.01 on each of the other nine.
LABEL_TERM, OTHER_TERM = -0.91 * math.log(0.91), -0.01 * math.log(0.01)
LOWEST = LABEL_TERM + 9 * OTHER_TERM

PREDICT_TARGET = Prediction(
    name="predict_target",
    answer=0.91,
    tolerance=0.003,
    hint="The label gives up the smoothing, and then gets a share of it back, as every word does.",
    misconceptions=(
        WrongNumber(
            "no_share",
            0.9,
            "That is what the label keeps. It is one of the ten, too, and gets its share back.",
        ),
        WrongNumber("share", 0.01, "That is the share of every word. The label has more."),
        WrongNumber("smoothing", 0.1, "That is what is given up and shared out."),
        WrongNumber("unsmoothed", 1.0, "That would be the target without smoothing."),
    ),
)

PREDICT_GAP = Prediction(
    name="predict_gap",
    answer=math.log(91),
    tolerance=0.02,
    hint="Divide one softmax by the other: the sum below the fraction drops out, and e to the power of the "
    "gap is left.",
    misconceptions=(
        WrongNumber("ratio", 91.0, "That is the ratio of the probabilities, e to the power of the gap."),
        WrongNumber("difference", 0.9, "That is the difference of the probabilities, not of the logits."),
        WrongNumber(
            "odds",
            math.log(0.91 / 0.09),
            "That compares the label with all nine others together. Compare it with a single one of them.",
        ),
        WrongNumber(
            "base_ten", math.log10(91), "That is the logarithm to base 10. The softmax has powers of e."
        ),
    ),
)

PREDICT_LOWEST = Prediction(
    name="predict_lowest",
    answer=LOWEST,
    tolerance=0.02,
    hint="At its best the model gives exactly the targets. Put the same numbers in for q and for p.",
    misconceptions=(
        WrongNumber(
            "zero",
            0.0,
            "It would be zero if the targets were sure. Being right costs something if nothing is certain.",
        ),
        WrongNumber(
            "label_alone",
            -math.log(0.91),
            "That is the loss at the label alone, -ln 0.91. The other nine words have targets too.",
        ),
        WrongNumber("label_term", LABEL_TERM, "That is the label's term of the sum. There are nine more."),
        WrongNumber(
            "one_other", LABEL_TERM + OTHER_TERM, "Nine words other than the label have a term, not one."
        ),
        WrongNumber("base_two", LOWEST / math.log(2), "That is in bits. Use the natural logarithm."),
    ),
)

CATALOGUE = (
    PREDICT_TARGET,
    SMOOTH_TARGETS,
    PREDICT_LOWEST,
    LABEL_SMOOTHING_LOSS,
    PREDICT_GAP,
)
