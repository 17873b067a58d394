"""Probes of lesson 05: sinusoids, token embedding, and positional encoding."""

import math

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.engine.probe import Draw, Observed
from course_lib.checks.engine.reply import Raised, Reply, first_failure
from course_lib.checks.exercises.fixtures.positions import (
    has_large_entry,
    past_max_length,
    start_of,
    state_dict_fits,
    with_a_new_parameter,
)
from course_lib.checks.exercises.shared_requests import (
    called_on_a_gpu,
    copied,
    drops_with,
    gradients_of,
    in_double,
    round_trip,
    updated,
)
from course_lib.transformer.positions import PositionalEncoding, TokenEmbedding, sinusoids

# --- sinusoids ----------------------------------------------------------------------------------------------

SINUSOIDS = ExerciseCheck(sinusoids)
probe = SINUSOIDS.probe
case = SINUSOIDS.cases(Candidate.call)

case("row 0 is 0, 1, 0, 1 and so on: the sines and cosines of 0", 1, 6)
case("five positions with eight features match the two formulas", 5, 8)
case("as many positions as features: rows are positions, columns are features", 6, 6)
case("with an odd number of features, the last column is a sine", 9, 7)


@probe("d_model can be 1 or 2")
def _waves_of_least_width(candidate: Candidate, draw: Draw) -> Observed:
    return {"the table of one feature": candidate.call(4, 1), "the table of two": candidate.call(4, 2)}


case("positions in the thousands are as exact as the first ones", 3001, 4)


@probe("a second call with one of the sizes changed has its own result")
def _waves_again(candidate: Candidate, draw: Draw) -> Observed:
    # No other probe uses these sizes, so the code can't have kept their tables from an earlier call.
    sizes = ((11, 4), (11, 5), (13, 5))
    return {
        f"the table of {length} positions and {d} features": candidate.call(length, d) for length, d in sizes
    }


@probe("random sizes work")
def _waves_of_drawn_sizes(candidate: Candidate, draw: Draw) -> Reply:
    length, pairs = draw.integers(8, 24, 1).item(), draw.integers(4, 9, 1).item()
    return candidate.call(int(length), 2 * int(pairs))


# --- TokenEmbedding -----------------------------------------------------------------------------------------

TOKEN_EMBEDDING = ExerciseCheck(TokenEmbedding)
probe = TOKEN_EMBEDDING.probe


def _embedded(layer: Candidate, draw: Draw, tokens: Tensor, vocab: int, d_model: int) -> Reply:
    layer.load({"table.weight": draw.normal(vocab, d_model)})
    return layer.call(tokens)


@probe("each token becomes its row of the table times the square root of d_model")
def _embedding_values(candidate: Candidate, draw: Draw) -> Reply:
    return _embedded(in_double(candidate, 7, 5), draw, torch.tensor([[3, 0, 6, 3], [1, 2, 5, 4]]), 7, 5)


@probe("one token, with a vocabulary as large as d_model")
def _embedding_of_one(candidate: Candidate, draw: Draw) -> Reply:
    return _embedded(in_double(candidate, 3, 3), draw, torch.tensor([[2]]), 3, 3)


@probe("everything is on the device of the tokens")
def _embedding_elsewhere(candidate: Candidate, draw: Draw) -> Observed:
    return called_on_a_gpu(candidate.build(7, 5), torch.tensor([[3, 0, 6]]))


@probe("two calls give the same result")
def _embedding_twice(candidate: Candidate, draw: Draw) -> Observed:
    layer, tokens = in_double(candidate, 7, 5), torch.tensor([[3, 0, 6]])
    layer.load({"table.weight": draw.normal(7, 5)})
    return {"the first result": layer.call(tokens), "the second": layer.call(tokens)}


@probe("evaluation mode gives the same result as training mode, and other modules have no effect")
def _embedding_in_evaluation(candidate: Candidate, draw: Draw) -> Reply:
    layer = in_double(candidate, 7, 5)
    layer.train(False)
    tokens = torch.tensor([[3, 0, 6]])
    in_double(candidate, 7, 9).call(tokens)
    return _embedded(layer, draw, tokens, 7, 5)


@probe("a new table is normally distributed with standard deviation d_model**-0.5", tolerance=0.04)
def _embedding_start(candidate: Candidate, draw: Draw) -> Observed:
    measure = candidate.fixture(start_of("table.weight"))
    return {
        "of a new table with 16 features": measure.call(candidate.build(1000, 16)),
        "of a new table with 64 features": measure.call(candidate.build(500, 64)),
    }


@probe("float32 weights give float32 vectors")
def _embedding_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    return _embedded(candidate.build(7, 6), draw, torch.tensor([[3, 0, 6]]), 7, 6)


@probe("bfloat16 weights give bfloat16 vectors")
def _embedding_in_bfloat16(candidate: Candidate, draw: Draw) -> Reply:
    layer = candidate.build(7, 6)
    layer.call(method="bfloat16")
    return _embedded(layer, draw, torch.tensor([[3, 0, 6]]), 7, 6)


@probe("gradients reach the row of each token that occurs, and no other")
def _embedding_gradient(candidate: Candidate, draw: Draw) -> Observed:
    layer = in_double(candidate, 6, 3)
    layer.load({"table.weight": draw.normal(6, 3)})
    # The padding id is often 0, 1 or the last id. These tokens include all three, so a row that is treated as
    # padding is noticed. Only id 4 does not occur.
    tokens = torch.tensor([[2, 0, 2], [1, 5, 3]])
    return gradients_of(layer.gradients(tokens, toward=draw.normal(2, 3, 3)), weights=("table.weight",))


@probe("loading a state dict into another module restores the weights, even after a call in evaluation mode")
def _embedding_round_trip(candidate: Candidate, draw: Draw) -> Reply:
    full, empty = in_double(candidate, 5, 3), in_double(candidate, 5, 3)
    return round_trip(full, empty, {"table.weight": draw.normal(5, 3)}, torch.tensor([[4, 1]]))


@probe("after an update of all parameters, the vectors are rows of the new table times the root of d_model")
def _embedding_updated(candidate: Candidate, draw: Draw) -> Reply:
    tokens, toward = torch.tensor([[4, 1], [0, 4]]), draw.normal(2, 2, 3)
    return updated(in_double(candidate, 5, 3), {"table.weight": draw.normal(5, 3)}, toward, tokens)


@probe("if the table's weight is replaced, as when weights are tied, the new one is used")
def _embedding_replaced(candidate: Candidate, draw: Draw) -> Reply:
    layer, tokens = in_double(candidate, 5, 3), torch.tensor([[4, 1]])
    used = _embedded(layer, draw, tokens, 5, 3)
    replace = layer.fixture(with_a_new_parameter("table.weight"))
    return first_failure(used, replace.call(layer, draw.normal(5, 3), tokens))


@probe("a deep copy has separate weights")
def _embedding_copy(candidate: Candidate, draw: Draw) -> Observed:
    weights = {"table.weight": draw.normal(5, 3)}
    return copied(in_double(candidate, 5, 3), weights, torch.tensor([[4, 1]]))


# --- PositionalEncoding -------------------------------------------------------------------------------------

POSITIONAL_ENCODING = ExerciseCheck(PositionalEncoding)
probe = POSITIONAL_ENCODING.probe


def _dropped(layer: Candidate, probability: float) -> Observed:
    """Report whether dropout in training mode zeroes single elements of the result and scales the others."""
    x = torch.full((4, 30, 6), 10.0, dtype=torch.float64)
    reply = first_failure(layer.train(True), layer.call(x))
    if isinstance(reply, Raised) or not isinstance(reply.value, Tensor) or reply.value.shape != x.shape:
        return reply
    if not reply.value.is_floating_point():  # Boolean tensors, for example, can't be subtracted.
        return reply
    share = reply.value.double() / (x + sinusoids(30, 6))
    kept = (share - 1 / (1 - probability)).abs() < 1e-5
    # If each number is dropped independently, there are many patterns. If whole vectors are, there are two.
    patterns = len(kept.flatten(0, 1).unique(dim=0))
    return {
        f"«each number of the sum becomes 0, or is divided by {1 - probability:g}»": bool(
            (kept | (share.abs() < 1e-5)).all()
        ),
        f"«about {probability:.0%} of the numbers become 0»": drops_with(probability, kept),
        "«each number is dropped independently of the others in its vector»": patterns > 4,
        "«each sentence has its own dropout»": not bool((kept == kept[0]).all()),
    }


@probe("an input of zeros gives the sinusoids")
def _sum_with_zeros(candidate: Candidate, draw: Draw) -> Observed:
    zeros = torch.zeros(2, 5, 6, dtype=torch.float64)
    reply = in_double(candidate, 6, 0.0, 12).call(zeros)
    return {"the encoding that it adds to zeros": reply}


@probe("each token gets the encoding of its position, which is the same in every sentence")
def _sum_values(candidate: Candidate, draw: Draw) -> Reply:
    return in_double(candidate, 6, 0.0, 12).call(draw.normal(3, 5, 6))


@probe("equal batch size, length and width: no axis is mistaken for another")
def _sum_of_cubes(candidate: Candidate, draw: Draw) -> Reply:
    return in_double(candidate, 4, 0.0, 12).call(draw.normal(4, 4, 4))


@probe("an odd number of features works, and so do calls with sentences of different lengths")
def _sum_of_lengths(candidate: Candidate, draw: Draw) -> Observed:
    layer = in_double(candidate, 5, 0.0, 8)
    return {f"the sum for {words} words": layer.call(draw.normal(2, words, 5)) for words in (3, 1, 8)}


@probe("in training mode, dropout is applied to the sum")
def _sum_dropout(candidate: Candidate, draw: Draw) -> Observed:
    return _dropped(in_double(candidate, 6, 0.25, 40), 0.25)


@probe("the defaults are dropout=0.1 and max_length=5000")
def _sum_usual_settings(candidate: Candidate, draw: Draw) -> Observed:
    long = in_double(candidate, 2)
    long.train(False)
    x = torch.zeros(1, 5000, 2, dtype=torch.float64)
    return {"dropout": _dropped(in_double(candidate, 6), 0.1), "the sum for 5000 words": long.call(x)}


@probe("max_length=5200 allows 5200 tokens")
def _sum_of_many(candidate: Candidate, draw: Draw) -> Reply:
    layer = in_double(candidate, 2, dropout=0.0, max_length=5200)
    return layer.call(torch.zeros(1, 5200, 2, dtype=torch.float64))


@probe("in evaluation mode nothing is dropped, and other modules have no effect")
def _sum_in_evaluation(candidate: Candidate, draw: Draw) -> Observed:
    layer, other = (in_double(candidate, d_model, 0.5, 12) for d_model in (6, 4))
    found = {}
    for name, module, d_model in (("the other module's result", other, 4), ("the result", layer, 6)):
        found[name] = first_failure(module.train(False), module.call(draw.normal(2, 5, d_model)))
    return found


@probe("the result has the dtype of x, even if the module's differs")
def _sum_in_dtypes(candidate: Candidate, draw: Draw) -> Observed:
    x = draw.normal(2, 5, 6)
    plain, wide = candidate.build(6, 0.0, 12), in_double(candidate, 6, 0.0, 12)
    return {
        "the result for an input in float32": plain.call(x.float()),
        "the result for an input in bfloat16": plain.call(x.bfloat16()),
        "the result for an input in float32, with the module in float64": wide.call(x.float()),
    }


@probe("a sentence longer than max_length works, or raises an error with both numbers in its message")
def _sum_past_the_end(candidate: Candidate, draw: Draw) -> Observed:
    tried = candidate.fixture(past_max_length())
    return {
        f"the response for {words} words with a max_length of {maximum}": tried.call(
            in_double(candidate, 6, 0.0, maximum), maximum, sinusoids(words, 6).double(), training
        )
        for words, maximum, training in ((6, 4, True), (3, 1, False), (300, 5, False))
    }


@probe("the table is not in the state dict")
def _sum_state(candidate: Candidate, draw: Draw) -> Observed:
    layer, has_one = candidate.build(6, 0.0, 50), candidate.fixture(has_large_entry())
    found = {"«the state dict has an entry as large as the table»": has_one.call(layer, 50)}
    layer.call(torch.zeros(1, 60, 6))  # The layer may raise an error or extend its table: both are accepted.
    return found | {
        "«after a longer sentence, the state dict has an entry as large as the table»": has_one.call(
            layer, 50
        )
    }


@probe("the table moves with the module to another device")
def _sum_elsewhere(candidate: Candidate, draw: Draw) -> Observed:
    layer, x = candidate.build(6, 0.0, 12), draw.normal(2, 5, 6, dtype=torch.float32)
    return called_on_a_gpu(layer, x)


@probe("gradients reach x, and nothing else is trained")
def _sum_gradient(candidate: Candidate, draw: Draw) -> Observed:
    reply = in_double(candidate, 6, 0.0, 12).gradients(draw.normal(2, 5, 6), toward=draw.normal(2, 5, 6))
    if isinstance(reply, Raised):
        return reply
    trained = any(weight is not None for weight in reply.value["weights"].values())
    return {"gradients": gradients_of(reply, ("x",)), "«the module has trained weights»": trained}


@probe("the state dict fits a module with a different max_length, and a deep copy gives the same result")
def _sum_copies(candidate: Candidate, draw: Draw) -> Observed:
    layer, other, x = in_double(candidate, 6, 0.0, 12), in_double(candidate, 6, 0.0, 9), draw.normal(2, 5, 6)
    return {
        "«the state dict fits»": candidate.fixture(state_dict_fits()).call(layer, other),
        "the result of the other module": other.call(x),
        "the result of the copy": layer.copy().call(x),
    }


# --- predictions --------------------------------------------------------------------------------------------

PREDICT_ORDERS = PredictionCheck(
    answer=1.0,
    tolerance=0.01,
    hint="The output of attention is a weighted mean of the values. Does a mean depend on their order?",
    reason="Queries, keys and values of the words are the same in every order, and a weighted mean "
    "has no order.",
)

PREDICT_WAVE = PredictionCheck(
    answer=2 * math.pi * 100,
    tolerance=0.01,
    hint="After how many positions has the angle, position / 10000^(4/8), made one full turn?",
    reason="Column 4 has the frequency 10000^(-4/8) = 1/100, so a full turn of 2π takes 628 positions.",
)

PREDICT_LENGTH = PredictionCheck(
    answer=16.0,
    tolerance=0.01,
    hint="Take one pair, a sine and a cosine of the same angle. What is the sum of their squares?",
    reason="In each of 256 pairs, sin² + cos² = 1. The root of 256 is 16.",
)
