"""Probes of lesson 11: the length penalty, beam search, and the average of several checkpoints."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate, Fixture
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.engine.probe import Draw, Observed
from course_lib.checks.engine.reply import Reply, Returned, after, value_of
from course_lib.checks.exercises.fixtures.checkpoints import AVERAGE, MODIFIED, SHARED, averaging
from course_lib.checks.exercises.fixtures.known_models import table_model
from course_lib.checks.exercises.fixtures.models import transformer
from course_lib.checks.exercises.fixtures.refusals import refusal
from course_lib.checks.exercises.fixtures.results import in_float64
from course_lib.checks.exercises.shared_requests import (
    called_on_a_gpu,
    gradients_after_calls,
    mode_afterwards,
    numbers,
)
from course_lib.transformer import average_checkpoints, beam_search, length_penalty

# --- length_penalty -----------------------------------------------------------------------------------------

LENGTH_PENALTY = ExerciseCheck(length_penalty)
probe = LENGTH_PENALTY.probe


def _penalties(candidate: Candidate, alpha: float, *lengths: int) -> Observed:
    return numbers(candidate, {f"the penalty of length {length}": (length, alpha) for length in lengths})


case = LENGTH_PENALTY.cases(_penalties)


case("with an alpha of 1, the penalty grows linearly and is 1 for a single token", 1.0, 1, 7, 13)
case("with an alpha of 0, the penalty is 1 for every length", 0.0, 1, 5, 40)
case("the penalties are correct for the paper's alpha of 0.6", 0.6, 1, 2, 19, 100)
case("with an alpha of 2, the penalty grows faster than the length", 2.0, 1, 4, 7)
case("the formula also holds for a length of 0", 0.6, 0)


@probe("the lengths may also be a tensor of integers, of any shape", tolerance=1e-5)
def _penalty_of_tensors(candidate: Candidate, draw: Draw) -> Observed:
    function = candidate.fixture(in_float64(candidate))
    observed: dict[str, Observed] = {}
    for name, lengths, alpha in (
        ("two axes", torch.tensor([[1, 7, 13], [2, 19, 1]]), 0.8),
        ("one axis", draw.integers(1, 60, 4), 0.8),
        ("three axes", draw.integers(1, 60, 2, 1, 3), 0.8),
        ("two axes and an alpha of 0", draw.integers(1, 60, 2, 3), 0.0),
    ):
        reply = function.call(lengths, alpha)
        # NumPy and `torch.tensor` warn about tensors, but their results are correct.
        observed[f"the penalties of lengths with {name}"] = (
            replace(reply, warnings=()) if isinstance(reply, Returned) else reply
        )
    return observed


# --- beam_search --------------------------------------------------------------------------------------------

BEAM_SEARCH = ExerciseCheck(beam_search, uncounted=60)
probe = BEAM_SEARCH.probe

_START, _END, _PADDING = 1, 2, 0
_WORDS, _POSITIONS = 8, 7
#: The probabilities of the next word, by position and previous word.
_Transitions = Mapping[tuple[int, int], Mapping[int, float]]


def _model(draw: Draw, *transitions: _Transitions, start: int = _START, end: int = _END) -> Fixture:
    """Return a model whose next-token probabilities depend on the last word of the source.

    A source that ends in word 3 selects the first of `transitions`, one that ends in word 4 the second, and
    so on. Where these omit probabilities, the most likely token is word 3 in the first four positions, and
    the end token in all later ones. `start` and `end` are the ids of the start and the end token.
    """
    rest = draw.integers(50, 150, len(transitions), _POSITIONS, _WORDS, _WORDS).double()
    # In some variants of beam search, a hypothesis that ends with an unlikely end token is preferred to all
    # unfinished ones. So make end tokens rare.
    rest[..., _END] /= 1000
    known = torch.zeros_like(rest)
    known[:, :4, :, 3] = known[:, 4:, :, _END] = 0.9
    rows = {(number, *at): row for number, given in enumerate(transitions) for at, row in given.items()}
    known[tuple(zip(*rows, strict=True))] = torch.tensor(
        [[row.get(word, 0.0) for word in range(_WORDS)] for row in rows.values()], dtype=rest.dtype
    )
    # The other words share the remaining probability in proportion to `rest`.
    rest = rest.masked_fill(known > 0, 0.0)
    rest *= (1.0 - known.sum(dim=-1, keepdim=True)) / rest.sum(dim=-1, keepdim=True)
    probabilities = known + rest
    # Shift the logits, because those of a real model are not log-probabilities.
    logits = probabilities.log() + 4.0 * draw.normal(len(transitions), _POSITIONS, _WORDS, 1)
    swapped = {_START: start, _END: end, start: _START, end: _END}
    order = [swapped.get(word, word) for word in range(_WORDS)]
    of_word = [min(max(word - 3, 0), len(transitions) - 1) for word in range(_WORDS)]
    return table_model(logits[:, :, order][:, :, :, order][of_word])


def _sources(*words: int) -> tuple[Tensor, Tensor]:
    """Return a batch of sources of different lengths and its padding mask.

    There is one source for each of `words`. It ends in that word and is padded with the next source's word.
    """
    source = torch.tensor([[7, 5, word, word, word] for word in words])
    mask = torch.ones(len(words), 1, 5, dtype=torch.bool)
    for row in range(len(words)):
        shown = 3 + row % 3
        source[row, shown:] = words[(row + 1) % len(words)]
        mask[row, 0, shown:] = False
    return source, mask


def _ids(reply: Reply, max_length: int, end: int = _END) -> Reply:
    """Remove surplus columns of end tokens, because a search may stop later than necessary.

    A reply that doesn't contain a matrix with at most `max_length` columns is returned unchanged.
    """
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
    inputs: tuple[Tensor, Tensor],
    *,
    beam: int,
    alpha: float,
    max_length: int = 8,
    start: int = _START,
    end: int = _END,
) -> Observed:
    reply = candidate.call(model, *inputs, beam, max_length, start, end, alpha)
    return {"the token ids (extra columns of end tokens ignored)": _ids(reply, max_length, end)}


#: The most likely first word leads only to unlikely words, and the second most likely one to a nearly certain
#: word.
_GARDEN_PATH: _Transitions = {
    (0, _START): {4: 0.60, 5: 0.38},
    (1, 4): {6: 0.35, 7: 0.33, 3: 0.30},
    (1, 5): {6: 0.95},
    (2, 6): {_END: 0.95},
    (2, 7): {_END: 0.90},
    (2, 3): {_END: 0.85},
}
#: Like `_GARDEN_PATH`, but with three first words: the least likely one begins the likeliest sentence.
_THIRD_WAY: _Transitions = {
    (0, _START): {4: 0.36, 5: 0.33, 6: 0.30},
    (1, 4): {3: 0.40, 5: 0.35, 7: 0.20},
    (1, 5): {3: 0.45, 7: 0.40, 6: 0.10},
    (1, 6): {7: 0.97},
    (2, 3): {4: 0.50, 5: 0.45},
    (2, 7): {5: 0.97},
    (3, 5): {_END: 0.95},
}


def _short_or_long(short: float, long: float) -> _Transitions:
    """Return transitions that generate a short and a long sentence with the given probabilities.

    The sentences have two and five tokens, including the end token. The long sentence is the most likely
    hypothesis until its last step, so that no common stopping rule ends the search before that.
    """
    first = 0.98 - short / 0.9
    probability = long / (first * 0.995**3)
    return {
        (0, _START): {4: short / 0.9, 5: first},
        (1, 4): {_END: 0.90, 3: 0.08},
        (1, 5): {6: 0.995},
        (2, 6): {7: 0.995},
        (3, 7): {3: 0.995},
        (4, 3): {_END: probability, 3: 0.4 * (1 - probability), 4: 0.3 * (1 - probability)},
    }


#: The log-probability of the long sentence is 1.40, 1.46, 1.225, 1.255 or 1.1 times that of the short one.
_RIVALS = tuple(_short_or_long(0.45, 0.45**ratio) for ratio in (1.40, 1.46, 1.225, 1.255, 1.1))
#: The long sentence is much less likely: its log-probability is twice that of the short one.
#: A search that wrongly extends ended sentences would lose almost no probability by doing so.
_MUCH_LESS_LIKELY = {
    **_short_or_long(0.45, 0.45**2),
    (2, _END): {6: 0.999},
    (3, 6): {6: 0.999},
    (4, 6): {_END: 0.999},
}
#: The long sentence is so much more likely that it wins even if its probability is divided by the penalty.
_MUCH_LIKELIER = _short_or_long(0.2, 0.305)
#: Two sentences of which the long one is more likely.
_LIKELIER = _short_or_long(0.396, 0.45)
#: All beams end after the second word.
_ENDING: _Transitions = {
    (0, _START): {4: 0.60, 5: 0.38},
    (1, 4): {_END: 0.98},
    (1, 5): {_END: 0.98},
}
#: Three beams. The second and the third swap positions while the first leads, even if they are ranked by
#: penalised scores, and the beam that continues wins in the end.
_SWAPPING: _Transitions = {
    (0, _START): {5: 0.335, 4: 0.317, 6: 0.315},
    (1, 4): {_END: 0.95},
    (1, 5): {6: 0.99},
    (1, 6): {5: 0.99},
    (2, 6): {7: 0.99},
    (2, 5): {4: 0.70},
    (3, 7): {3: 0.99},
    (3, 4): {5: 0.97},
    (4, 3): {_END: 0.30, 3: 0.20, 4: 0.20, 6: 0.15},
    (4, 5): {_END: 0.95},
}
#: Three beams. One that has ended overtakes one that continues.
_OVERTAKING: _Transitions = {
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


@probe("a beam of two finds the likelier sentence, which begins with a less likely word")
def _beam_of_two(candidate: Candidate, draw: Draw) -> Observed:
    return _search(candidate, _model(draw, _GARDEN_PATH), _sources(3), beam=2, alpha=0.0)


@probe("a beam of one gives the same result as greedy decoding")
def _beam_of_one(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(draw, _GARDEN_PATH, _THIRD_WAY)
    return _search(candidate, model, _sources(4, 3, 3), beam=1, alpha=0.6)


@probe("with an alpha of 0, ended hypotheses are kept next to those that continue")
def _beam_without_penalty(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(draw, *_RIVALS[:3], _GARDEN_PATH, _THIRD_WAY)
    return _search(candidate, model, _sources(3, 7, 5, 6), beam=2, alpha=0.0)


@probe("with an alpha of 0.6, a longer sentence can win if it is not much less likely")
def _beam_with_the_papers_alpha(candidate: Candidate, draw: Draw) -> Observed:
    return _search(candidate, _model(draw, *_RIVALS), _sources(3, 4, 5, 6, 7), beam=2, alpha=0.6)


@probe("with an alpha of 1, a longer sentence can win even if it is clearly less likely")
def _beam_with_alpha_one(candidate: Candidate, draw: Draw) -> Observed:
    return _search(
        candidate, _model(draw, *_RIVALS[:4], _LIKELIER), _sources(7, 6, 5, 4, 3), beam=2, alpha=1.0
    )


@probe("of two sentences with very different probabilities, the likelier one wins")
def _beam_with_clear_winners(candidate: Candidate, draw: Draw) -> Observed:
    model = candidate.fixture(_model(draw, _MUCH_LESS_LIKELY, _MUCH_LIKELIER))
    return {
        f"with an alpha of {alpha:g}": _search(candidate, model, _sources(3, 4), beam=2, alpha=alpha)
        for alpha in (0.0, 1.0)
    }


@probe("when beams are reordered, each hypothesis keeps its words, its length and whether it has ended")
def _beam_of_three(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(draw, _OVERTAKING, _THIRD_WAY, _SWAPPING)
    return _search(candidate, model, _sources(3, 4, 5), beam=3, alpha=1.0)


@probe("the search stops at max_length tokens, including the start, with the best prefix so far")
def _beam_stops(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(draw, _THIRD_WAY, _OVERTAKING)
    return _search(candidate, model, _sources(3, 3), beam=3, alpha=0.6, max_length=4)


@probe("with a max_length of 1, the result holds only the start symbol")
def _beam_of_the_start(candidate: Candidate, draw: Draw) -> Observed:
    return _search(candidate, _model(draw, _GARDEN_PATH), _sources(3, 3), beam=2, alpha=0.6, max_length=1)


@probe("the search continues until every sentence of the batch has ended, in any order")
def _beam_until_all_have_ended(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(draw, _ENDING, _LIKELIER)
    return {
        "if the first sentence ends first": _search(candidate, model, _sources(3, 4), beam=2, alpha=1.0),
        "if the last sentence ends first": _search(candidate, model, _sources(4, 4, 3), beam=2, alpha=1.0),
    }


@probe("a second search with the same model translates its own sentences")
def _beam_twice(candidate: Candidate, draw: Draw) -> Observed:
    model = candidate.fixture(_model(draw, _GARDEN_PATH, _RIVALS[0]))
    first = _search(candidate, model, _sources(3, 4), beam=2, alpha=0.0)
    return {
        "the first search": first,
        "the second search": _search(candidate, model, _sources(4, 3), beam=2, alpha=0.0),
    }


@probe("a beam may be wider than the vocabulary")
def _beam_wide(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(draw, _GARDEN_PATH, _THIRD_WAY, _RIVALS[0])
    return _search(candidate, model, _sources(4, 5, 3), beam=11, alpha=0.0)


@probe("start_id and end_id are taken from the arguments")
def _beam_other_symbols(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(draw, _RIVALS[0], _GARDEN_PATH, start=6, end=7)
    return _search(candidate, model, _sources(3, 4), beam=2, alpha=0.0, start=6, end=7)


@probe("the model runs in evaluation mode without gradients, and its mode is restored afterwards")
def _beam_modes(candidate: Candidate, draw: Draw) -> Observed:
    model = candidate.fixture(_model(draw, _GARDEN_PATH))
    reply = candidate.call(model, *_sources(3, 3), 2, 8, _START, _END, 0.6)
    meanwhile = value_of(model.call(method="notes"))
    facts = {
        "meanwhile": meanwhile,
        **gradients_after_calls(candidate, model, *_sources(3, 3), 2, 4, _START, _END, 0.6),
    }
    return after(reply, lambda: {**facts, **mode_afterwards(model)})


@probe("a model that is in evaluation mode stays in it")
def _beam_keeps_evaluation(candidate: Candidate, draw: Draw) -> Observed:
    model = candidate.fixture(_model(draw, _GARDEN_PATH))
    model.train(False)
    reply = candidate.call(model, *_sources(3, 3), 2, 8, _START, _END, 0.6)
    notes = value_of(model.call(method="notes"))
    return after(reply, lambda: {"meanwhile": notes, **mode_afterwards(model)})


@probe("the source is encoded once for the whole batch")
def _beam_encodes_once(candidate: Candidate, draw: Draw) -> Observed:
    model = candidate.fixture(_model(draw, _GARDEN_PATH, _RIVALS[0]))
    reply = candidate.call(model, *_sources(3, 4), 2, 8, _START, _END, 0.0)
    return after(reply, lambda: {"the response": value_of(model.call(method="encoded"))})


@probe("the result is correct for a real model and sentences of different lengths", tolerance=1e-6)
def _beam_real(candidate: Candidate, draw: Draw) -> Observed:
    sources = [[3, 8, 5, 4, 6, 7], [5, 5, 8, 3, 0, 0], [7, 4, 0, 0, 0, 0], [6, 3, 4, 8, 7, 0]]
    source = torch.tensor(sources)[draw.normal(4).argsort()]
    # Use pre-norm: with large weights, the model reacts to every token, but a post-norm one repeats itself.
    sizes = {"layers": 2, "d_model": 6, "heads": 2, "d_ff": 8, "norm_first": True, "dropout": 0.0}
    model = transformer(9, target_vocab=11, seed=31, gain=3.0, **sizes)
    inputs = (source, (source != _PADDING).unsqueeze(1))
    return _search(candidate, model, inputs, beam=3, alpha=0.6)


@probe("everything is on the device of the source")
def _beam_elsewhere(candidate: Candidate, draw: Draw) -> Reply:
    model = candidate.fixture(transformer(9, layers=1, d_model=4, heads=1, d_ff=4, dropout=0.0))
    return _ids(called_on_a_gpu(candidate, model, *_sources(3, 4), 2, 5, _START, _END, 0.6), 5)


# --- average_checkpoints ------------------------------------------------------------------------------------

AVERAGE_CHECKPOINTS = ExerciseCheck(average_checkpoints)
probe = AVERAGE_CHECKPOINTS.probe


def _part(reply: Reply, *names: str) -> Reply:
    """Keep only the named parts of the result of `averaging`.

    A single part becomes the whole value of the reply. A reply without a dict is returned unchanged.
    """
    if not isinstance(reply, Returned) or not isinstance(reply.value, dict):
        return reply
    kept = {name: reply.value[name] for name in names}
    return replace(reply, value=kept[names[0]] if len(names) == 1 else kept)


def _averaged(candidate: Candidate, *states: Mapping[str, Tensor]) -> Reply:
    return candidate.fixture(averaging(candidate)).call(states)


def _checkpoint(draw: Draw) -> dict[str, Tensor]:
    return {
        "layer.weight": draw.normal(3, 2),
        "layer.bias": draw.normal(3),
        "norm.running_mean": draw.normal(2),
        "factor": draw.normal(),
    }


@probe("each entry is the elementwise mean of three checkpoints")
def _average_of_three(candidate: Candidate, draw: Draw) -> Reply:
    return _part(_averaged(candidate, *(_checkpoint(draw) for _ in range(3))), AVERAGE)


@probe("each entry is the mean of five checkpoints in float32")
def _average_of_five(candidate: Candidate, draw: Draw) -> Reply:
    states = [{name: entry.float() for name, entry in _checkpoint(draw).items()} for _ in range(5)]
    return _part(_averaged(candidate, *states), AVERAGE)


@probe("large float16 numbers are averaged without overflow")
def _average_of_large(candidate: Candidate, draw: Draw) -> Reply:
    states = [{"layer.weight": (50_000 + 3_000 * draw.normal(2, 4).clamp(-3, 3)).half()} for _ in range(4)]
    return _part(_averaged(candidate, *states), AVERAGE)


@probe("every floating-point dtype is kept")
def _average_keeps_dtypes(candidate: Candidate, draw: Draw) -> Reply:
    dtypes = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    states = [{f"in {dtype}": draw.normal(2).to(dtype) for dtype in dtypes} for _ in range(3)]
    return _part(_averaged(candidate, *states), AVERAGE)


@probe("entries that are not floating-point, such as counters and flags, keep their dtype and are not summed")
def _average_of_whole(candidate: Candidate, draw: Draw) -> Reply:
    counts = (10, 40, 15)
    # The first, the last and the majority agree; any() and all() of the three differ from that.
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
    integers = {"steps": (10, 15, 22)}
    return _part(candidate.fixture(averaging(candidate, integers=integers)).call(states), AVERAGE)


@probe("a weight with two names, as in a model with tied embeddings, is averaged once")
def _average_of_tied(candidate: Candidate, draw: Draw) -> Reply:
    states = [{"table.weight": draw.normal(3, 2), "generator.weight": draw.normal(1)} for _ in range(3)]
    averaged = candidate.fixture(averaging(candidate, tied=("table.weight", "generator.weight"))).call(states)
    return _part(averaged, AVERAGE)


@probe("the checkpoints are not modified, and the average has its own memory")
def _average_shares_nothing(candidate: Candidate, draw: Draw) -> Reply:
    states = [_checkpoint(draw) | {"steps": torch.tensor(7), "flags": torch.tensor([True])} for _ in range(2)]
    return _part(_averaged(candidate, *states), MODIFIED, SHARED)


@probe("the average of a single checkpoint is a copy of it")
def _average_of_one(candidate: Candidate, draw: Draw) -> Reply:
    return _part(_averaged(candidate, _checkpoint(draw)), AVERAGE, MODIFIED, SHARED)


def _refused(candidate: Candidate, *states: Mapping[str, Tensor], wanted: tuple[str | int, ...]) -> Reply:
    return candidate.fixture(refusal(candidate.fixture(averaging(candidate)), *wanted)).call(states)


@probe("checkpoints with different entries raise a ValueError that names those entries")
def _average_of_different_entries(candidate: Candidate, draw: Draw) -> Observed:
    whole = _checkpoint(draw)
    name = "layer.bias"
    less = {other: entry for other, entry in whole.items() if other != name}
    return {
        f"the response if the second checkpoint lacks {name}": _refused(
            candidate, whole, less, wanted=(name,)
        ),
        f"the response if the first checkpoint lacks {name}": _refused(
            candidate, less, whole, wanted=(name,)
        ),
    }


@probe("entries of different shapes raise a ValueError with these shapes")
def _average_of_different_shapes(candidate: Candidate, draw: Draw) -> Observed:
    states = ({"layer.weight": draw.normal(4, 3)}, {"layer.weight": draw.normal(3)})
    reply = _refused(candidate, *states, wanted=(4, 3))
    return {"the response for the shapes (4, 3) and (3,)": reply}


# --- predictions --------------------------------------------------------------------------------------------

PREDICT_BEAM_OF_TWO = PredictionCheck(
    answer=0.36,
    tolerance=0.001,
    hint="The search keeps both first words. Compute the probability of every sentence of two words: the "
    "product of the probabilities of its words.",
    reason='"the dog" has 0.4 · 0.9 = 0.36. The best sentence that begins with "a" has 0.6 · 0.4 = 0.24.',
)

PREDICT_CANDIDATES = PredictionCheck(
    answer=24_001.0,
    tolerance=0.00001,
    hint="Count the candidates of an unfinished beam, and those of a beam that has ended.",
    reason="3 beams · 8,000 words, and the end token for the beam that has ended.",
)

PREDICT_SCORE = PredictionCheck(
    answer=-4.0,
    tolerance=0.001,
    hint="Compute the penalty first: (5 + 49) / 6, to the power of 0.5, which is a square root. Then divide.",
    reason="(5 + 49) / 6 = 9, whose root is 3; and -12 / 3 = -4.",
)
