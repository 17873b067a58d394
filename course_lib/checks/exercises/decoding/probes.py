"""Lesson 11: the length penalty, beam search, and the average of several checkpoints."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate, Fixture
from course_lib.checks.engine.exercise import Exercise, Misconception, Prediction, WrongNumber, alone
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Raised, Reply, Returned, after, value_of
from course_lib.checks.exercises.fixtures.checkpoints import averaging
from course_lib.checks.exercises.fixtures.models import transformer
from course_lib.checks.exercises.fixtures.results import in_float64
from course_lib.checks.exercises.fixtures.table_model import crossroads
from course_lib.transformer import average_checkpoints, beam_search, length_penalty

PENALTY = "section 6.1, and Wu et al. 2016 (arXiv 1609.08144), equation 14"
BEAM = "section 6.1: beam search with a beam size of 4"
AUTOREGRESSIVE = "section 3.1: at each step the model is auto-regressive"
ATTENTION = "section 3.2.3: the three uses of attention"
AVERAGE = "section 6.1: averaging the last checkpoints"


# --- length_penalty -----------------------------------------------------------------------------------------


def _penalties(candidate: Candidate, alpha: float, *lengths: int) -> Any:
    function = candidate.make(in_float64(candidate))
    penalties: dict[str, Any] = {}
    for length in lengths:
        reply = function.call(length, alpha)
        if isinstance(reply, Raised):
            return reply
        penalties[f"the penalty of length {length}"] = reply.value
    return penalties


@probe("with an alpha of 1 the penalty grows in a straight line, and is 1 for a single token")
def _penalty_of_one(candidate: Candidate, draw: Draw) -> Any:
    return _penalties(candidate, 1.0, 1, 7, 13)


@probe("with an alpha of 0 nothing is penalised: the penalty is 1 for every length")
def _penalty_of_zero(candidate: Candidate, draw: Draw) -> Any:
    return _penalties(candidate, 0.0, 1, 5, 40)


@probe("with the paper's alpha of 0.6")
def _penalty_of_the_paper(candidate: Candidate, draw: Draw) -> Any:
    return _penalties(candidate, 0.6, 1, 2, 19, 100)


@probe("with an alpha of 2 the penalty grows faster than the length")
def _penalty_of_two(candidate: Candidate, draw: Draw) -> Any:
    return _penalties(candidate, 2.0, 1, 4, 7)


@probe("many lengths at the same time, in a tensor")
def _penalty_of_tensors(candidate: Candidate, draw: Draw) -> Reply:
    lengths = draw.integers(1, 60, 2, 3).double()
    return candidate.make(in_float64(candidate)).call(lengths, 0.8)


_FORMULA = "((5 + length) / 6) ** alpha"

LENGTH_PENALTY = Exercise(
    reference=length_penalty,
    probes=(_penalty_of_one, _penalty_of_zero, _penalty_of_the_paper, _penalty_of_two, _penalty_of_tensors),
    misconceptions=(
        Misconception(
            name="times_alpha",
            says="the fraction is multiplied by alpha, not raised to it",
            hint="Alpha is a power. With 0 it makes every penalty 1, so that nothing changes. A factor of 0 "
            "would have the log-probability divided by zero.",
            paper=PENALTY,
            patch=[(_FORMULA, "(5 + length) / 6 * alpha")],
        ),
        Misconception(
            name="alpha_left_out",
            says="alpha has no effect",
            hint="Without the power it is always the formula for an alpha of 1.",
            paper=PENALTY,
            patch=[(_FORMULA, "(5 + length) / 6")],
        ),
        Misconception(
            name="alpha_of_the_paper",
            says="alpha is always 0.6, whatever is asked for",
            hint="0.6 is the paper's choice for its translations. Use the argument.",
            paper=PENALTY,
            patch=[(_FORMULA, "((5 + length) / 6) ** 0.6")],
        ),
        Misconception(
            name="plain_length",
            says="it is the length itself that is raised to alpha",
            hint="That is another rule, which also goes around. The paper's adds 5 and divides by 6, so that "
            "short sentences are told apart less strongly.",
            paper=PENALTY,
            patch=[(_FORMULA, "length**alpha")],
        ),
        Misconception(
            name="six_not_raised",
            says="only 5 + length is raised to alpha, and the 6 is not",
            hint="The fraction as a whole is raised: put brackets around it. A single token should get the "
            "penalty 1, whatever alpha is.",
            paper=PENALTY,
            patch=[(_FORMULA, "(5 + length) ** alpha / 6")],
        ),
        Misconception(
            name="only_length_divided",
            says="only the length is divided by 6, and the 5 is not",
            hint="Python divides before it adds. Put 5 + length in brackets.",
            paper=PENALTY,
            patch=[(_FORMULA, "(5 + length / 6) ** alpha")],
        ),
        Misconception(
            name="five_left_out",
            says="the 5 is missing",
            hint="It is (5 + length) / 6, so that a single token gets the penalty 1.",
            paper=PENALTY,
            patch=[(_FORMULA, "(length / 6) ** alpha")],
        ),
        Misconception(
            name="divided_by_five",
            says="it is divided by 5, not by 6",
            hint="The 6 is 5 + 1: a sentence of a single token gets the penalty 1.",
            paper=PENALTY,
            patch=[(_FORMULA, "((5 + length) / 5) ** alpha")],
        ),
        Misconception(
            name="six_added",
            says="6 is added to the length, not 5",
            hint="The start symbol is not counted, and not added here either: (5 + length) / 6.",
            paper=PENALTY,
            patch=[(_FORMULA, "((6 + length) / 6) ** alpha")],
        ),
        Misconception(
            name="upside_down",
            says="the penalty is upside down: it falls as the length grows",
            hint="The log-probability is *divided* by the penalty. So it has to grow with the length, or it "
            "would make long translations look even worse than they do anyway.",
            paper=PENALTY,
            patch=[(_FORMULA, "((5 + length) / 6) ** -alpha")],
        ),
        Misconception(
            name="powers_swapped",
            says="alpha is raised to the fraction, not the fraction to alpha",
            hint="The fraction stands below, alpha is the small number at its upper right.",
            paper=PENALTY,
            patch=[(_FORMULA, "alpha ** ((5 + length) / 6)")],
        ),
        Misconception(
            name="whole_division",
            says="the division drops the remainder",
            hint="`//` gives whole numbers. Take `/`.",
            paper=PENALTY,
            patch=[(_FORMULA, "((5 + length) // 6) ** alpha")],
        ),
        Misconception(
            name="logarithm",
            says="it is the logarithm of the penalty",
            hint="A log-probability is divided by the penalty itself.",
            paper=PENALTY,
            patch=[(_FORMULA, "alpha * torch.log((5 + torch.as_tensor(length).double()) / 6)")],
        ),
    ),
)

# --- beam_search --------------------------------------------------------------------------------------------

_START, _END, _PADDING = 1, 2, 0
_WORDS, _PLACES = 8, 7
#: Which words may follow which, and how likely: by the place, the last word, and the next.
_Roads = Mapping[tuple[int, int], Mapping[int, float]]


def _chances(known: Mapping[int, float], crumbs: Tensor) -> Tensor:
    """Give the known words their probability, and share out what is left, in crumbs that nobody picks up."""
    words = list(known)
    crumbs = crumbs.index_fill(-1, torch.tensor(words), 0.0)
    chances = crumbs / crumbs.sum(dim=-1, keepdim=True) * (1.0 - sum(known.values()))
    chances[..., words] = torch.tensor([known[word] for word in words], dtype=chances.dtype)
    return chances


def _crossing(draw: Draw, *roads: _Roads, start: int = _START, end: int = _END) -> Fixture:
    """Make a model that answers the source word 3 by the first of these, 4 by the second, and so on.

    Where the roads say nothing, word 3 follows, and from the fifth place on the end.
    """
    crumbs = draw.integers(50, 150, len(roads), _PLACES, _WORDS, _WORDS).double()
    # Some rules take an end from behind the beams, and prefer it to all that has not ended: none lies there.
    crumbs[..., _END] /= 1000
    chances = torch.cat([_chances({3: 0.9}, crumbs[:, :4]), _chances({_END: 0.9}, crumbs[:, 4:])], dim=1)
    for number, road in enumerate(roads):
        for (place, word), known in road.items():
            chances[number, place, word] = _chances(known, crumbs[number, place, word])
    # No model gives logarithms of probabilities: its logits may all be shifted.
    logits = chances.log() + 4.0 * draw.normal(len(roads), _PLACES, _WORDS, 1)
    swapped = {_START: start, _END: end, start: _START, end: _END}
    order = [swapped.get(word, word) for word in range(_WORDS)]
    of_word = [min(max(word - 3, 0), len(roads) - 1) for word in range(_WORDS)]
    return crossroads(logits[:, :, order][:, :, :, order][of_word])


def _asked(*words: int) -> tuple[Tensor, Tensor]:
    """Sources of different lengths that end in these words. Where padding should be stand other words."""
    source = torch.tensor([[7, 5, word, word, word] for word in words])
    mask = torch.ones(len(words), 1, 5, dtype=torch.bool)
    for row in range(len(words)):
        shown = 3 + row % 3
        source[row, shown:] = words[(row + 1) % len(words)]
        mask[row, 0, shown:] = False
    return source, mask


def _ids(reply: Reply, max_length: int, end: int = _END) -> Reply:
    """Leave out columns in which every row has ended before: when to stop is free."""
    if not isinstance(reply, Returned) or not isinstance(ids := reply.value, Tensor):
        return reply
    if ids.dim() != 2 or ids.shape[1] > max_length:
        return reply
    while ids.shape[1] > 2 and bool((ids[:, -2:] == end).all()):
        ids = ids[:, :-1]
    return replace(reply, value=ids)


def _search(
    candidate: Candidate,
    model: Fixture | Candidate,
    asked: tuple[Tensor, Tensor],
    *,
    beam: int,
    alpha: float,
    max_length: int = 8,
    start: int = _START,
    end: int = _END,
) -> Reply:
    reply = candidate.call(model, *asked, beam, max_length, start, end, alpha)
    return _ids(reply, max_length, end)


#: The likeliest first word leads to several words that are all unlikely; the second to a sure one.
_GARDEN_PATH: _Roads = {
    (0, _START): {4: 0.60, 5: 0.38},
    (1, 4): {6: 0.35, 7: 0.33, 3: 0.30},
    (1, 5): {6: 0.95},
    (2, 6): {_END: 0.95},
    (2, 7): {_END: 0.90},
    (2, 3): {_END: 0.85},
}
#: The same with three words: the first two are likely, and only the third can end well.
_THIRD_WAY: _Roads = {
    (0, _START): {4: 0.36, 5: 0.33, 6: 0.30},
    (1, 4): {3: 0.40, 5: 0.35, 7: 0.20},
    (1, 5): {3: 0.45, 7: 0.40, 6: 0.10},
    (1, 6): {7: 0.97},
    (2, 3): {4: 0.50, 5: 0.45},
    (2, 7): {5: 0.97},
    (3, 5): {_END: 0.95},
}


def _short_or_long(short: float, long: float) -> _Roads:
    """Weigh a sentence of two words, the end included, and one of five, with these probabilities.

    Up to its end the long one is ahead, so that all the usual rules of stopping wait for it.
    """
    first = 0.98 - short / 0.9
    chance = long / (first * 0.995**3)
    return {
        (0, _START): {4: short / 0.9, 5: first},
        (1, 4): {_END: 0.90, 3: 0.08},
        (1, 5): {6: 0.995},
        (2, 6): {7: 0.995},
        (3, 7): {3: 0.995},
        (4, 3): {_END: chance, 3: 0.4 * (1 - chance), 4: 0.3 * (1 - chance)},
    }


#: How much more negative the log-probability of the long one is: 1.40, 1.46, 1.225, 1.255 and 1.1 times.
_RIVALS = tuple(_short_or_long(0.45, 0.45**ratio) for ratio in (1.40, 1.46, 1.225, 1.255, 1.1))
#: The long one is the likelier.
_LIKELIER = _short_or_long(0.396, 0.45)
#: Three beams, of which the one that has ended overtakes one that goes on.
_OVERTAKING: _Roads = {
    (0, _START): {5: 0.335, 4: 0.317, 6: 0.315},
    (1, 4): {_END: 0.95},
    (1, 5): {6: 0.99},
    (1, 6): {5: 0.99},
    (2, 6): {7: 0.99},
    (2, 5): {4: 0.90},
    (3, 7): {3: 0.99},
    (3, 4): {5: 0.97},
    (4, 3): {_END: 0.58, 3: 0.15, 4: 0.15},
    (4, 5): {_END: 0.30, 3: 0.20, 4: 0.20, 6: 0.15},
}


@probe("one sentence: a beam of two finds the likelier sentence behind the less likely first word")
def _beam_of_two(candidate: Candidate, draw: Draw) -> Reply:
    return _search(candidate, _crossing(draw, _GARDEN_PATH), _asked(3), beam=2, alpha=0.0)


@probe("a beam of one writes what greedy decoding writes")
def _beam_of_one(candidate: Candidate, draw: Draw) -> Reply:
    model = _crossing(draw, _GARDEN_PATH, _THIRD_WAY)
    return _search(candidate, model, _asked(4, 3, 3), beam=1, alpha=0.6)


@probe("rows that end at different steps, with an alpha of 0: what has ended is kept beside what goes on")
def _beam_without_penalty(candidate: Candidate, draw: Draw) -> Reply:
    model = _crossing(draw, *_RIVALS[:3], _GARDEN_PATH, _THIRD_WAY)
    return _search(candidate, model, _asked(3, 7, 5, 6), beam=2, alpha=0.0)


@probe("with an alpha of 0.6 a longer sentence may win, if it is not much less likely")
def _beam_with_the_papers_alpha(candidate: Candidate, draw: Draw) -> Reply:
    return _search(candidate, _crossing(draw, *_RIVALS), _asked(3, 4, 5, 6, 7), beam=2, alpha=0.6)


@probe("with an alpha of 1 it may be less likely by more, but not by any amount")
def _beam_with_alpha_one(candidate: Candidate, draw: Draw) -> Reply:
    return _search(
        candidate, _crossing(draw, *_RIVALS[:4], _LIKELIER), _asked(7, 6, 5, 4, 3), beam=2, alpha=1.0
    )


@probe("three beams that change places: each keeps its words, its length and whether it has ended")
def _beam_of_three(candidate: Candidate, draw: Draw) -> Reply:
    model = _crossing(draw, _OVERTAKING, _THIRD_WAY)
    return _search(candidate, model, _asked(3, 4), beam=3, alpha=1.0)


@probe("at max_length tokens it stops, the start counted, with the best beginning that it has")
def _beam_stops(candidate: Candidate, draw: Draw) -> Reply:
    model = _crossing(draw, _THIRD_WAY, _OVERTAKING)
    return _search(candidate, model, _asked(3, 3), beam=3, alpha=0.6, max_length=4)


@probe("a beam that is wider than the vocabulary")
def _beam_wide(candidate: Candidate, draw: Draw) -> Reply:
    model = _crossing(draw, _GARDEN_PATH, _THIRD_WAY, _RIVALS[0])
    return _search(candidate, model, _asked(4, 5, 3), beam=11, alpha=0.0)


@probe("the start and end symbols are those that are asked for")
def _beam_other_symbols(candidate: Candidate, draw: Draw) -> Reply:
    model = _crossing(draw, _RIVALS[0], _GARDEN_PATH, start=6, end=7)
    return _search(candidate, model, _asked(3, 4), beam=2, alpha=0.0, start=6, end=7)


def _mode(model: Candidate) -> dict[str, str]:
    """Say in which mode all parts of a model are."""
    reply = model.modes()
    modes = set(reply.value.values()) if isinstance(reply, Returned) else set()
    known = {True: "training", False: "evaluation"}
    return {"the mode afterwards": known[modes.pop()] if len(modes) == 1 else "mixed"}


@probe("the model is in evaluation mode and keeps no gradients meanwhile, and gets its mode back")
def _beam_modes(candidate: Candidate, draw: Draw) -> Any:
    model = candidate.make(_crossing(draw, _GARDEN_PATH))
    reply = _search(candidate, model, _asked(3, 3), beam=2, alpha=0.6)
    meanwhile = value_of(model.call(method="notes"))
    return after(reply, lambda: {"meanwhile": meanwhile, **_mode(model)})


@probe("a model in evaluation mode stays in it")
def _beam_keeps_evaluation(candidate: Candidate, draw: Draw) -> Any:
    model = candidate.make(_crossing(draw, _GARDEN_PATH))
    model.train(False)
    reply = _search(candidate, model, _asked(3, 3), beam=2, alpha=0.6)
    return after(reply, lambda: _mode(model))


# Pre-norm models with large weights answer to every token that they read; post-norm ones repeat themselves.
_REAL: dict[str, Any] = {"layers": 2, "d_model": 6, "heads": 2, "d_ff": 8, "norm_first": True}
_REAL_SEED = 31


def _real_sources() -> Tensor:
    return torch.tensor(
        [
            [3, 8, 5, 4, 6, 7],
            [5, 5, 8, 3, 0, 0],
            [7, 4, 0, 0, 0, 0],
            [6, 3, 4, 8, 7, 0],
        ]
    )


@probe("a real model with two layers, and sentences of different lengths", tolerance=1e-6)
def _beam_real(candidate: Candidate, draw: Draw) -> Reply:
    source = _real_sources()[draw.normal(4).argsort()]
    model = transformer(9, target_vocab=11, seed=_REAL_SEED, gain=3.0, **_REAL)
    asked = (source, (source != _PADDING).unsqueeze(1))
    return _search(candidate, model, asked, beam=3, alpha=0.6)


_LOOP = "while target.shape[2] < max_length and not ended.all():"
_MEMORY = "model.encode(source, source_mask).repeat_interleave(beam, dim=0)"
_MASK = "source_mask.expand(sentences, -1, -1).repeat_interleave(beam, dim=0)"
_DEAD = "            step = step.masked_fill(ended.unsqueeze(-1), -torch.inf)\n"
_FREE = "            step[..., end_id] = step[..., end_id].masked_fill(ended, 0.0)\n"
_BEST = "            total, best = (total.unsqueeze(-1) + step).flatten(1).topk(beam, dim=1)\n"
_WINNER = "(total / length_penalty(length, alpha)).argmax(dim=1)"
_RESULT = "    return best_target[:, :longest]"


def _search_alone(*pieces: tuple[str, str]) -> list[tuple[str, str]]:
    return alone(beam_search, *pieces)


BEAM_SEARCH = Exercise(
    reference=beam_search,
    probes=(
        _beam_of_two,
        _beam_of_one,
        _beam_without_penalty,
        _beam_with_the_papers_alpha,
        _beam_with_alpha_one,
        _beam_of_three,
        _beam_stops,
        _beam_wide,
        _beam_other_symbols,
        _beam_modes,
        _beam_keeps_evaluation,
        _beam_real,
    ),
    misconceptions=(
        Misconception(
            name="stops_at_first_end",
            says="it stops as soon as any beam of any sentence has ended",
            hint="Others may still overtake it, and other sentences of the batch are not done at all.",
            paper=BEAM,
            patch=[(_LOOP, "while target.shape[2] < max_length and not ended.any():")],
        ),
        Misconception(
            name="alpha_of_the_paper",
            says="alpha is always 0.6, whatever is asked for",
            hint="0.6 is the paper's choice for its translations. Use the argument.",
            paper=PENALTY,
            patch=[("total / length_penalty(length, alpha)", "total / length_penalty(length, 0.6)")],
        ),
        Misconception(
            name="start_in_length",
            says="the length counts the start symbol",
            hint="Nobody had to write the start symbol. The length counts the words after it, the end "
            "included.",
            paper=PENALTY,
            patch=[("total / length_penalty(length, alpha)", "total / length_penalty(length + 1, alpha)")],
        ),
        Misconception(
            name="end_not_in_length",
            says="the length does not count the end symbol",
            hint="The end was written like any other word, and its log-probability is in the total. So it "
            "counts.",
            paper=PENALTY,
            patch=[
                (
                    "total / length_penalty(length, alpha)",
                    "total / length_penalty(length - ended.to(length.dtype), alpha)",
                )
            ],
        ),
        Misconception(
            name="memory_in_wrong_rows",
            says="the memory is repeated in another order than the beams",
            hint="All beams of sentence 0 come first, then those of sentence 1: `repeat_interleave`. Plain "
            "`repeat` puts the sentences in turn, and beams read the memory of another sentence.",
            paper=ATTENTION,
            patch=[(_MEMORY, "model.encode(source, source_mask).repeat(beam, 1, 1)")],
        ),
        Misconception(
            name="mask_in_wrong_rows",
            says="the source mask is repeated in another order than the beams",
            hint="The mask goes with the memory: all beams of sentence 0 first, `repeat_interleave`. As it "
            "is, beams look at padding, or miss words.",
            paper=ATTENTION,
            patch=[(_MASK, "source_mask.expand(sentences, -1, -1).repeat(beam, 1, 1)")],
        ),
        Misconception(
            name="source_mask_lost",
            says="the decoder does not get the source mask, and looks at padding",
            hint="Both halves need it: encode and decode.",
            paper=ATTENTION,
            patch=[("model.decode(memory, source_mask, ", "model.decode(memory, None, ")],
        ),
        Misconception(
            name="no_causal_mask",
            says="the decoder gets no target mask",
            hint="In training no position saw what follows. Without the mask the earlier positions now do, "
            "from the second layer on the last one reads their changed vectors, and the model is not the one "
            "that was trained.",
            paper=ATTENTION,
            patch=[("target.flatten(0, 1), mask)", "target.flatten(0, 1), None)")],
        ),
        Misconception(
            name="start_not_counted",
            says="it writes max_length tokens and the start symbol besides",
            hint="max_length counts the start as well: it is the most columns that may come back.",
            paper=AUTOREGRESSIVE,
            patch=[("target.shape[2] < max_length", "target.shape[2] <= max_length")],
        ),
        Misconception(
            name="stays_in_training",
            says="the model decodes in training mode, with dropout on",
            hint="Dropout would cut connections at random, and each run would write something else. "
            "evaluating(model) switches it off inside a `with`.",
            paper="section 5.4: dropout is for training",
            patch=[("with evaluating(model):", "with torch.no_grad():")],
        ),
        # None of those that follow is combined with another.
        Misconception(
            name="beams_alike",
            says="it is greedy decoding: all beams of a sentence are the same, or there is only one",
            hint="At the beginning there is one sentence, the start symbol, and not `beam` of them. If all "
            "copies may go on, they all take the same best word, and again in the next step. Give all but "
            "the first a total of minus infinity.",
            paper=BEAM,
            patch=_search_alone(("total[:, 0] = 0.0", "total[:] = 0.0")),
        ),
        Misconception(
            name="each_beam_alone",
            says="each beam goes on with its own best word, so none is ever replaced by two of a better one",
            hint="Let all continuations of all beams of a sentence compete for the places: `beam` times "
            "vocabulary of them. A good beginning may take several places, a bad one none.",
            paper=BEAM,
            patch=_search_alone(
                (
                    _BEST,
                    "            candidates = total.unsqueeze(-1) + step\n"
                    "            if target.shape[2] == 1:\n"
                    "                total, best = candidates.flatten(1).topk(beam, dim=1)\n"
                    "            else:\n"
                    "                total, best = candidates.max(dim=-1)\n"
                    "                best = best + torch.arange(beam) * step.shape[-1]\n",
                )
            ),
        ),
        Misconception(
            name="logits_summed",
            says="logits are summed up, not log-probabilities",
            hint="Logits are comparable within a step, not from one step to the next: all of them may be "
            "shifted. `log_softmax` makes log-probabilities of them.",
            paper=BEAM,
            patch=_search_alone((".log_softmax(dim=-1)", "")),
        ),
        Misconception(
            name="probabilities_summed",
            says="probabilities are summed up, not their logarithms",
            hint="The probability of a sentence is the *product* of those of its words, and so its logarithm "
            "is the sum of their logarithms. A sum of probabilities only grows with the length.",
            paper=BEAM,
            patch=_search_alone((".log_softmax(dim=-1)", ".softmax(dim=-1)")),
        ),
        Misconception(
            name="divided_by_beam",
            says="the beam and the word are told apart by dividing by the number of beams",
            hint="In the flat row of candidates, each beam has as many as there are *words*. So the beam is "
            "the index divided by the vocabulary's size, without remainder, and the word is the remainder.",
            paper=BEAM,
            patch=_search_alone(
                ("best // step.shape[-1], best % step.shape[-1]", "best // beam, best % beam")
            ),
        ),
        Misconception(
            name="words_not_moved",
            says="new words are put behind the wrong beginnings",
            hint="Place 1 of the new beams may go on from beam 0 or 2 of the old ones. Fetch each one's "
            "parent with `gather` before you append its word.",
            paper=BEAM,
            patch=_search_alone(
                (
                    "            target = target.gather(1, parent.unsqueeze(-1).expand_as(target))\n",
                    "",
                )
            ),
        ),
        Misconception(
            name="lengths_not_moved",
            says="a beam that changes its place leaves its length behind",
            hint="Everything that is known of a beam moves with it: its words, its length, and whether it "
            "has ended. Fetch the lengths from the parents, too.",
            paper=BEAM,
            patch=_search_alone(("length = (length + ~ended).gather(1, parent)", "length = length + ~ended")),
        ),
        Misconception(
            name="ends_not_moved",
            says="a beam that changes its place leaves behind whether it has ended",
            hint="Everything that is known of a beam moves with it: its words, its length, and whether it "
            "has ended. Fetch `ended` from the parents, too.",
            paper=BEAM,
            patch=_search_alone(("ended.gather(1, parent) | ", "ended | ")),
        ),
        Misconception(
            name="finished_lost",
            says="a sentence that has ended loses its place, and can no longer win",
            hint="Keep what has ended, with its total as it is, beside what goes on. At the end it is "
            "compared with all the others.",
            paper=BEAM,
            patch=_search_alone((_FREE, "")),
        ),
        Misconception(
            name="goes_on_after_end",
            says="a sentence that has ended goes on writing",
            hint="After its end symbol nothing may come but end symbols. All other words get a "
            "log-probability of minus infinity there.",
            paper=BEAM,
            patch=_search_alone((_DEAD, ""), (_FREE, "")),
        ),
        Misconception(
            name="ended_pays_on",
            says="a sentence that has ended still pays for every further end symbol",
            hint="The end symbols behind the first one are only there to fill the row. They must cost "
            "nothing: a log-probability of 0.",
            paper=BEAM,
            patch=_search_alone(
                (_DEAD, "            paid = step[..., end_id].clone()\n" + _DEAD),
                (
                    "step[..., end_id].masked_fill(ended, 0.0)",
                    "torch.where(ended, paid, step[..., end_id])",
                ),
            ),
        ),
        Misconception(
            name="penalty_forgotten",
            says="the likeliest sentence wins, without regard to its length: the penalty is missing, or is "
            "the same for all",
            hint="Each sentence's total is divided by the length_penalty of *its own* length, and the best "
            "quotient wins. A sentence that ended early is shorter than the row that it stands in.",
            paper=PENALTY,
            patch=_search_alone((_WINNER, "total.argmax(dim=1)")),
        ),
        Misconception(
            name="penalty_multiplied",
            says="totals are multiplied by the penalty",
            hint="A log-probability is negative. To bring a long sentence's nearer to zero, divide it.",
            paper=PENALTY,
            patch=_search_alone(("total / length_penalty", "total * length_penalty")),
        ),
        Misconception(
            name="penalised_every_step",
            says="what is left of the total after the penalty is penalised again in the next step",
            hint="Keep the plain sum of log-probabilities in the total. The penalty is for comparing, not "
            "for keeping.",
            paper=PENALTY,
            patch=_search_alone(
                (
                    _BEST,
                    "            penalised = (total.unsqueeze(-1) + step) / length_penalty(\n"
                    "                (length + ~ended).unsqueeze(-1), alpha\n"
                    "            )\n"
                    "            total, best = penalised.flatten(1).topk(beam, dim=1)\n",
                ),
                (_WINNER, "total.argmax(dim=1)"),
            ),
        ),
        Misconception(
            name="plain_mean",
            says="totals are divided by the plain length",
            hint="Use your length_penalty, with alpha. At an alpha of 0 the length should have no influence.",
            paper=PENALTY,
            patch=_search_alone((_WINNER, "(total / length).argmax(dim=1)")),
        ),
        Misconception(
            name="worst_wins",
            says="the beam with the lowest score is handed back",
            hint="Scores are negative, and the best is the one nearest to zero: the largest.",
            paper=BEAM,
            patch=_search_alone(("argmax(dim=1)", "argmin(dim=1)")),
        ),
        Misconception(
            name="all_beams_returned",
            says="all beams are handed back, not the best of each sentence",
            hint="One row a sentence, (B, T): pick the winner's with its index.",
            paper=BEAM,
            patch=_search_alone((_RESULT, "    return target[..., :longest]")),
        ),
        Misconception(
            name="first_position",
            says="the next word is read off at the first position, not at the last",
            hint="Position i says which word follows word i. What follows the whole beginning stands at the "
            "last.",
            paper=AUTOREGRESSIVE,
            patch=_search_alone(("hidden[:, -1]", "hidden[:, 0]")),
        ),
        Misconception(
            name="last_token_alone",
            says="the decoder reads only the last word, not all that was written",
            hint="It keeps no memory between calls: give it the whole beginning each time, and the mask that "
            "goes with it.",
            paper=AUTOREGRESSIVE,
            patch=_search_alone(
                ("target.flatten(0, 1), mask)", "target.flatten(0, 1)[:, -1:], mask[:, -1:, -1:])")
            ),
        ),
        Misconception(
            name="start_left_out",
            says="the start symbol is cut off from what is handed back",
            hint="Each row begins with start_id, as with greedy_decode.",
            paper=AUTOREGRESSIVE,
            patch=_search_alone((_RESULT, "    return best_target[:, 1:longest]")),
        ),
        Misconception(
            name="filled_with_zeros",
            says="rows that have ended are filled with zeros, not with the end symbol",
            hint="The function is not told which symbol means padding. It is told which means the end.",
            paper=AUTOREGRESSIVE,
            patch=_search_alone(
                (
                    _RESULT,
                    "    behind = torch.arange(longest) > length.gather(1, winner.unsqueeze(1))\n"
                    "    return best_target[:, :longest].masked_fill(behind, 0)",
                )
            ),
        ),
        Misconception(
            name="keeps_gradients",
            says="the graph for gradients is kept while it decodes",
            hint="Nobody trains here, and the graph of every step would fill the memory. evaluating(model) "
            "switches gradients off inside a `with`.",
            paper="the documentation of torch.no_grad",
            patch=_search_alone(
                (
                    "    with evaluating(model):",
                    "    was_training = model.training\n    model.eval()\n    if True:",
                ),
                (_RESULT, "    model.train(was_training)\n" + _RESULT),
            ),
        ),
        Misconception(
            name="left_in_evaluation",
            says="the model is left in evaluation mode",
            hint="Whoever was training goes on without dropout, and never notices. Give the mode back: "
            "evaluating(model) does.",
            paper="the documentation of torch.nn.Module.eval",
            patch=_search_alone(
                ("    with evaluating(model):", "    model.eval()\n    with torch.no_grad():")
            ),
        ),
        Misconception(
            name="always_trains_afterwards",
            says="the model is always put into training mode afterwards",
            hint="It may have been in evaluation mode before. Give back the mode that it had: "
            "evaluating(model) does.",
            paper="the documentation of torch.nn.Module.train",
            patch=_search_alone((_RESULT, "    model.train()\n" + _RESULT)),
        ),
    ),
)

# --- average_checkpoints ------------------------------------------------------------------------------------


def _part(reply: Reply, *names: str) -> Reply:
    """Leave of what the fixture tells only these parts."""
    if not isinstance(reply, Returned):
        return reply
    kept = {name: reply.value[name] for name in names}
    return replace(reply, value=kept[names[0]] if len(names) == 1 else kept)


def _averaged(candidate: Candidate, *states: Mapping[str, Tensor]) -> Reply:
    return candidate.make(averaging(candidate)).call(states)


def _checkpoint(draw: Draw) -> dict[str, Tensor]:
    return {
        "layer.weight": draw.normal(3, 2),
        "layer.bias": draw.normal(3),
        "norm.running_mean": draw.normal(2),
        "factor": draw.normal(),
    }


@probe("three checkpoints: each entry is the mean of the three, number by number")
def _average_of_three(candidate: Candidate, draw: Draw) -> Reply:
    return _part(_averaged(candidate, *(_checkpoint(draw) for _ in range(3))), "average")


@probe("five checkpoints, in float32 as models have them")
def _average_of_five(candidate: Candidate, draw: Draw) -> Reply:
    states = [{name: entry.float() for name, entry in _checkpoint(draw).items()} for _ in range(5)]
    return _part(_averaged(candidate, *states), "average")


@probe("large numbers in float16, whose sum float16 cannot hold")
def _average_of_large(candidate: Candidate, draw: Draw) -> Reply:
    states = [{"layer.weight": (50_000 + 3_000 * draw.normal(2, 4).clamp(-3, 3)).half()} for _ in range(4)]
    return _part(_averaged(candidate, *states), "average")


@probe("every dtype of floating numbers is kept")
def _average_keeps_dtypes(candidate: Candidate, draw: Draw) -> Reply:
    dtypes = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    states = [{f"in {dtype}": draw.normal(2).to(dtype) for dtype in dtypes} for _ in range(3)]
    return _part(_averaged(candidate, *states), "average")


_WHOLE = "whole, of int64: that of the first, of the last, or the rounded mean"


def _told(entry: Any, allowed: tuple[int, ...]) -> Any:
    """Say of a whole number what is asked of it: which of those that are allowed it is, is free."""
    if not isinstance(entry, Tensor) or entry.dim():
        return entry
    right = entry.dtype == torch.int64 and entry.item() in allowed
    return _WHOLE if right else f"{str(entry.dtype).removeprefix('torch.')}, {entry.item():g}"


@probe("what is no floating number is taken whole: a counter stays a counter, a flag a flag")
def _average_of_whole(candidate: Candidate, draw: Draw) -> Reply:
    counts = (10, 40, 15)
    # The first, the last and most of them agree; any() and all() of the three differ from that.
    flags = ([True, False], [False, True], [True, False])
    states = [
        {
            "w": draw.normal(2, 1),
            "nothing": draw.normal(0, 3),
            "steps": torch.tensor(count),
            "seen": torch.tensor([2**24 + 1]),
            "flags": torch.tensor(flag),
        }
        for count, flag in zip(counts, flags, strict=True)
    ]
    reply = _part(_averaged(candidate, *states), "average")
    if not isinstance(reply, Returned) or not isinstance(reply.value, dict) or "steps" not in reply.value:
        return reply
    return replace(reply, value=reply.value | {"steps": _told(reply.value["steps"], (10, 15, 22))})


@probe("the checkpoints stay as they are, and the average lies in memory of its own")
def _average_shares_nothing(candidate: Candidate, draw: Draw) -> Reply:
    states = [_checkpoint(draw) | {"steps": torch.tensor(7), "flags": torch.tensor([True])} for _ in range(2)]
    return _part(_averaged(candidate, *states), "written into", "shared")


@probe("a single checkpoint is its own average, and is copied all the same")
def _average_of_one(candidate: Candidate, draw: Draw) -> Reply:
    return _part(_averaged(candidate, _checkpoint(draw)), "average", "written into", "shared")


_SOURCE = inspect.getsource(average_checkpoints)
_RETURN = _SOURCE[_SOURCE.index("    average: dict[str, Tensor] = {}") :].rstrip()


def _as(floating: str = "", whole: str = "last.clone()", leave_out: str = "False") -> list[tuple[str, str]]:
    """Make a patch that says how floating and whole entries are averaged, and which are left out."""
    right = "(sum(entry.double() for entry in entries) / len(entries)).to(last.dtype)"
    wrong = f"""\
    averages = {{}}
    for name in names:
        entries = [state[name] for state in states]
        last = entries[-1]
        if {leave_out}:
            continue
        averages[name] = {floating or right} if last.is_floating_point() else {whole}
    return averages"""
    return [(_RETURN, wrong)]


AVERAGE_CHECKPOINTS = Exercise(
    reference=average_checkpoints,
    probes=(
        _average_of_three,
        _average_of_five,
        _average_of_large,
        _average_keeps_dtypes,
        _average_of_whole,
        _average_shares_nothing,
        _average_of_one,
    ),
    misconceptions=(
        Misconception(
            name="not_divided",
            says="the entries are summed up, but not divided by the number of checkpoints",
            hint="A mean is the sum over the number. Weights that are three times as large make another "
            "model.",
            paper=AVERAGE,
            patch=_as("sum(entry.double() for entry in entries).to(last.dtype)"),
        ),
        Misconception(
            name="always_halved",
            says="the sum is divided by two, whatever the number of checkpoints",
            hint="Divide by the number of checkpoints.",
            paper=AVERAGE,
            patch=_as("(sum(entry.double() for entry in entries) / 2).to(last.dtype)"),
        ),
        Misconception(
            name="halved_again_and_again",
            says="the mean so far and the next checkpoint are averaged, so that later ones weigh more",
            hint="Half of the result would be the last checkpoint, a quarter the one before it, and so on. "
            "Sum all, and divide once.",
            paper=AVERAGE,
            patch=_as(
                "sum(entry.double() / 2 ** (len(entries) - max(place, 1)) "
                "for place, entry in enumerate(entries)).to(last.dtype)"
            ),
        ),
        Misconception(
            name="first_counted_twice",
            says="the first checkpoint is in the sum twice",
            hint="If the sum starts with the first checkpoint, go on with the second. Or start with zeros.",
            paper=AVERAGE,
            patch=_as(
                "(sum(entry.double() for entry in [entries[0], *entries]) / len(entries)).to(last.dtype)"
            ),
        ),
        Misconception(
            name="last_alone",
            says="the last checkpoint is handed back, not the mean",
            hint="Each entry is to be the mean over all checkpoints.",
            paper=AVERAGE,
            patch=_as("last.clone()"),
        ),
        Misconception(
            name="first_alone",
            says="the first checkpoint is handed back, not the mean",
            hint="Each entry is to be the mean over all checkpoints.",
            paper=AVERAGE,
            patch=_as("entries[0].clone()"),
        ),
        Misconception(
            name="a_single_number",
            says="each entry has become a single number: the mean runs over all its numbers too",
            hint="Stacked, the checkpoints are the first axis. Take the mean over that one: `mean(dim=0)`.",
            paper=AVERAGE,
            patch=_as("torch.stack([entry.double() for entry in entries]).mean().to(last.dtype)"),
        ),
        Misconception(
            name="summed_in_own_dtype",
            says="float16 is summed up in float16, and overflows",
            hint="The largest number of float16 is 65,504. Sum in a wider dtype, such as float64, and go "
            "back at the end.",
            paper=AVERAGE,
            patch=_as("sum(entries) / len(entries)"),
        ),
        Misconception(
            name="everything_divided",
            says="everything is summed as it is and divided: float16 overflows, and whole numbers become "
            "fractions",
            hint="Two things: sum floating entries in a wider dtype, and go back to their own at the end. "
            "Take entries that are not floating whole from one of the checkpoints: `is_floating_point()` "
            "tells them.",
            paper=AVERAGE,
            patch=_as("sum(entries) / len(entries)", whole="sum(entries) / len(entries)"),
        ),
        Misconception(
            name="left_in_float64",
            says="the mean is left in float64",
            hint="Sum in float64, then go back to the dtype that the entry had: `.to(dtype)`.",
            paper=AVERAGE,
            patch=_as("sum(entry.double() for entry in entries) / len(entries)"),
        ),
        Misconception(
            name="left_in_float32",
            says="the mean comes back in float32, whatever the entry's dtype was",
            hint="Go back to the dtype that the entry had: `.to(dtype)`.",
            paper=AVERAGE,
            patch=_as("sum(entry.float() for entry in entries) / len(entries)"),
        ),
        Misconception(
            name="whole_numbers_averaged",
            says="whole numbers are averaged into fractions",
            hint="A counter of 21.0 in place of 21 has another dtype, and truth values have no mean at all. "
            "Take what is not floating whole from one of the checkpoints: `is_floating_point()` tells them.",
            paper=AVERAGE,
            patch=_as(whole="sum(entries) / len(entries)"),
        ),
        Misconception(
            name="whole_numbers_summed",
            says="whole numbers are summed up",
            hint="The average of models after 10, 40 and 13 steps has not done 63. Take what is not floating "
            "whole from one of the checkpoints.",
            paper=AVERAGE,
            patch=_as(whole="sum(entries)"),
        ),
        Misconception(
            name="whole_numbers_left_out",
            says="entries that are not floating are left out",
            hint="load_state_dict wants every entry. What cannot be averaged is taken whole.",
            paper=AVERAGE,
            patch=_as(leave_out="not last.is_floating_point()"),
        ),
        Misconception(
            name="buffers_left_out",
            says="only what is called weight or bias is there",
            hint="A state dict also holds buffers, such as running means, and parameters with other names. "
            "Go through all its entries.",
            paper=AVERAGE,
            patch=_as(leave_out="name.rpartition('.')[2] not in ('weight', 'bias')"),
        ),
        Misconception(
            name="buffers_not_averaged",
            says="only what is called weight or bias is averaged",
            hint="Buffers, such as running means, are floating entries as well, and belong to the same "
            "model. Average all that is floating.",
            paper=AVERAGE,
            patch=_as(
                "(sum(entry.double() for entry in entries) / len(entries)).to(last.dtype) "
                "if name.rpartition('.')[2] in ('weight', 'bias') else last.clone()"
            ),
        ),
        Misconception(
            name="first_written_into",
            says="the mean is made inside the first checkpoint, which is lost by that",
            hint="`+=` on a tensor changes that tensor, and the first checkpoint is the caller's. Start with "
            "zeros or with a clone.",
            paper=AVERAGE,
            patch=_as(
                "entries[0].copy_(sum(entry.double() for entry in entries) / len(entries))",
            ),
        ),
        Misconception(
            name="whole_numbers_shared",
            says="entries that are not floating lie in the memory of a checkpoint",
            hint="Who goes on training with the average would change the checkpoint. `clone()` them.",
            paper=AVERAGE,
            patch=_as(whole="last"),
        ),
        Misconception(
            name="one_not_copied",
            says="a single checkpoint is handed back as it is, not copied",
            hint="Also one alone: the average should lie in memory of its own.",
            paper=AVERAGE,
            patch=_as(
                "last if len(entries) == 1 else "
                "(sum(entry.double() for entry in entries) / len(entries)).to(last.dtype)"
            ),
        ),
    ),
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_BEAM_OF_TWO = Prediction(
    name="predict_beam_of_two",
    answer=0.36,
    tolerance=0.001,
    hint="A beam of two keeps both first words. Work out the probability of every sentence of two words: the "
    "product of the probabilities along its way.",
    misconceptions=(
        WrongNumber(
            "greedy",
            0.24,
            "That is what greedy decoding finds. A beam of two keeps the other first word as well.",
        ),
        WrongNumber(
            "last_word", 0.9, "That is the second word alone. A sentence's probability is a product."
        ),
        WrongNumber("first_word", 0.4, "That is the first word alone. The second one has to come as well."),
        WrongNumber("sum", 1.3, "Probabilities along a way are multiplied, not added."),
        WrongNumber(
            "likelier_word", 0.6, "That is the likelier first word alone. The second one has to come as well."
        ),
        WrongNumber("mixed", 0.54, "That takes the first word from one way and the second from the other."),
    ),
)

PREDICT_CANDIDATES = Prediction(
    name="predict_candidates",
    answer=32_000.0,
    tolerance=0.0001,
    hint="Each beam may go on with each word of the vocabulary.",
    misconceptions=(
        WrongNumber("kept", 4.0, "So many are kept. How many are there to choose from?"),
        WrongNumber("vocabulary", 8_000.0, "That is for one beam. All four of them go on."),
        WrongNumber(
            "of_the_best", 16.0, "That is the four best words of each of the four. First all are weighed."
        ),
        WrongNumber("added", 8_004.0, "Each of the four goes on with each of the 8,000: that is a product."),
        WrongNumber("squared", 64e6, "Only four beginnings go on, not all those of the step before."),
    ),
)

PREDICT_SCORE = Prediction(
    name="predict_score",
    answer=-4.0,
    tolerance=0.001,
    hint="First the penalty: (5 + 49) / 6, and to the power of 0.5 means its root. Then divide.",
    misconceptions=(
        WrongNumber("multiplied", -36.0, "The total is divided by the penalty, not multiplied."),
        WrongNumber("no_power", -4 / 3, "That is for an alpha of 1. A power of a half is a root."),
        WrongNumber("unpenalised", -12.0, "That is the total without any penalty."),
        WrongNumber("sign", 4.0, "The size is right. A log-probability is negative, and stays so."),
        WrongNumber("plain_length", -12 / 7, "That divides by the root of the length: no 5, and no 6."),
        WrongNumber("times_alpha", -8 / 3, "Alpha is a power, not a factor."),
    ),
)

CATALOGUE = (
    PREDICT_BEAM_OF_TWO,
    PREDICT_CANDIDATES,
    BEAM_SEARCH,
    PREDICT_SCORE,
    LENGTH_PENALTY,
    AVERAGE_CHECKPOINTS,
)
