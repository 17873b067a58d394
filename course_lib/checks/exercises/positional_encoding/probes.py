"""Lesson 05: the sinusoids, the embedding of words, and the sum of the two."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import Exercise, Misconception, Prediction, WrongNumber, alone
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Raised, Reply, Returned, first_failure
from course_lib.checks.exercises.fixtures.devices import left_behind
from course_lib.checks.exercises.fixtures.positions import fits, past_max_length, saves, start_of
from course_lib.transformer.positions import PositionalEncoding, TokenEmbedding, sinusoids

WAVES = "section 3.5: the two formulas of the positional encoding"
WORDS = "section 3.4: the weights are multiplied by the root of d_model"
START = "section 3.4 for the factor; where the numbers start is the course's choice, so that this factor fits"
SUM = "section 3.5: the positional encodings are added to the embeddings"
DROPOUT = "section 5.4: dropout on the sums of the embeddings and the positional encodings"
MODULE = "the documentation of torch.nn.Module"
BUFFER = "the documentation of torch.nn.Module.register_buffer"
DTYPE = "the course's rule for all exercises: results in the dtype of the inputs"

Weights = Mapping[str, Tensor]


def _built(candidate: Candidate, *sizes: Any) -> Candidate:
    """An instance in float64."""
    layer = candidate.build(*sizes)
    layer.call(method="double")
    return layer


# --- sinusoids ----------------------------------------------------------------------------------------------


@probe("position 0 is 0, 1, 0, 1, and so on: the sines and cosines of 0")
def _waves_at_zero(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(1, 6)


@probe("five positions with eight features, as the two formulas have them")
def _waves_of_the_paper(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(5, 8)


@probe("as many positions as features: rows are positions, columns are features")
def _waves_of_squares(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(6, 6)


@probe("an odd number of features: the last column is a sine")
def _waves_of_odd_width(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(9, 7)


@probe("one feature alone, and two")
def _waves_of_least_width(candidate: Candidate, draw: Draw) -> Any:
    return {"the table of one feature": candidate.call(4, 1), "the table of two": candidate.call(4, 2)}


@probe("sizes that nobody chose")
def _waves_of_drawn_sizes(candidate: Candidate, draw: Draw) -> Reply:
    length, pairs = draw.integers(8, 24, 1).item(), draw.integers(4, 9, 1).item()
    return candidate.call(int(length), 2 * int(pairs))


_POSITION = "position = torch.arange(length, dtype=torch.float64).unsqueeze(1)"
_ANGLE = "position / 10000.0 ** (even_column / d_model)"
_EMPTY = "table = torch.empty(length, d_model)"
_SINES = "table[:, 0::2] = angle.sin()"
_COSINES = "table[:, 1::2] = angle[:, : d_model // 2].cos()"
_TABLE = "return table"

SINUSOIDS = Exercise(
    reference=sinusoids,
    probes=(
        _waves_at_zero,
        _waves_of_the_paper,
        _waves_of_squares,
        _waves_of_odd_width,
        _waves_of_least_width,
        _waves_of_drawn_sizes,
    ),
    misconceptions=(
        Misconception(
            name="sines_and_cosines_swapped",
            says="cosines stand in the even columns and sines in the odd ones",
            hint="Columns are counted from 0: column 0 is a sine, column 1 the cosine of the same angle.",
            paper=WAVES,
            patch=[(_SINES, _SINES.replace("sin", "cos")), (_COSINES, _COSINES.replace("cos", "sin"))],
        ),
        Misconception(
            name="halves_side_by_side",
            says="all sines come first and all cosines after them",
            hint="Much code does it so, and a model can learn with either. The paper's formulas, and the "
            "weights of a model that was trained with them, have the two of a pair side by side: sine, "
            "cosine, sine, cosine.",
            paper=WAVES,
            patch=[
                (_SINES, "half = angle.shape[1]\n    " + _SINES.replace("0::2", ":half")),
                (_COSINES, _COSINES.replace("1::2", "half:")),
            ],
        ),
        Misconception(
            name="odd_width_fails",
            says="it fails for an odd number of features",
            hint="Then there is one sine more than there are cosines. Make only as many cosines as there are "
            "odd columns: d_model // 2.",
            paper=WAVES,
            patch=[(_COSINES, _COSINES.replace("[:, : d_model // 2]", ""))],
        ),
        Misconception(
            name="exponent_halved",
            says="the exponent is i / d_model, where 2i / d_model is meant",
            hint="2i is the number of the sine's column: 0, 2, 4, and so on. Divided by d_model it runs "
            "from 0 to nearly 1.",
            paper=WAVES,
            patch=[(_ANGLE, _ANGLE.replace("even_column", "even_column / 2"))],
        ),
        Misconception(
            name="power_multiplied",
            says="the position is multiplied by the power of 10000, not divided by it",
            hint="Frequencies fall from column to column. With exp and log it is a minus sign that is "
            "missing.",
            paper=WAVES,
            patch=[(_ANGLE, _ANGLE.replace("position /", "position *"))],
        ),
        Misconception(
            name="positions_from_one",
            says="positions are counted from 1",
            hint="The first word stands at position 0, whose row is 0, 1, 0, 1, and so on.",
            paper=WAVES,
            patch=[(_POSITION, _POSITION.replace("(length,", "(1, length + 1,"))],
        ),
        Misconception(
            name="left_in_float64",
            says="the table comes out in float64",
            hint="To compute in float64 is wise. But the table is to be used in a model of float32: hand it "
            "back with `.float()`, or write it into a tensor of float32.",
            paper="section 3.5, and the exercise's own words: in float32",
            patch=[(_EMPTY, "table = torch.empty(length, d_model, dtype=torch.float64)")],
        ),
        Misconception(
            name="batch_axis_in_front",
            says="it has an axis for the batch in front",
            hint="The table is the same for every sentence: two axes, (length, d_model). It broadcasts "
            "against a batch by itself.",
            paper=WAVES,
            patch=[(_TABLE, "return table.unsqueeze(0)")],
        ),
        Misconception(
            name="cosines_forgotten",
            says="the odd columns are sines as well",
            hint="Column 2i + 1 is the cosine. With two sines of one angle, a pair is no point on a circle, "
            "and many positions look alike.",
            paper=WAVES,
            patch=alone(sinusoids, (_COSINES, _COSINES.replace("cos", "sin"))),
        ),
        Misconception(
            name="one_column_too_many",
            says="for an odd number of features, a column too many comes out",
            hint="Pairs of a sine and a cosine make an even number of columns. With an odd d_model the last "
            "cosine has no place: cut it off.",
            paper=WAVES,
            patch=alone(
                sinusoids,
                (_TABLE, "return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()"),
            ),
        ),
        Misconception(
            name="last_column_empty",
            says="for an odd number of features, the last column stays 0",
            hint="An odd d_model ends on a sine. There are d_model // 2 cosines, but one sine more.",
            paper=WAVES,
            patch=alone(
                sinusoids,
                (_EMPTY, _EMPTY.replace("empty", "zeros")),
                (_SINES, "table[:, : d_model // 2 * 2 : 2] = angle[:, : d_model // 2].sin()"),
            ),
        ),
        Misconception(
            name="frequency_for_each_column",
            says="each cosine has a frequency of its own, not that of its sine",
            hint="In both formulas the exponent is 2i / d_model, with the same i: columns 2i and 2i + 1 are "
            "sine and cosine of one and the same angle. Only so a pair is a point on a circle.",
            paper=WAVES,
            patch=alone(
                sinusoids,
                (
                    _COSINES,
                    "own = position / 10000.0 ** ((even_column + 1) / d_model)\n"
                    f"    {_COSINES.replace('angle', 'own')}",
                ),
            ),
        ),
        Misconception(
            name="exponent_doubled",
            says="the exponent is twice as large as it should be",
            hint="If you count columns 0, 2, 4, that is 2i already. Divided by d_model it runs from 0 to "
            "nearly 1.",
            paper=WAVES,
            patch=alone(sinusoids, (_ANGLE, _ANGLE.replace("even_column", "2 * even_column"))),
        ),
        Misconception(
            name="exponent_in_whole_numbers",
            says="the exponent is divided in whole numbers, so it is 0 for every column",
            hint="`//` drops what is behind the point. The exponent runs from 0 to nearly 1, so use `/`.",
            paper=WAVES,
            patch=alone(sinusoids, (_ANGLE, _ANGLE.replace("even_column /", "even_column //"))),
        ),
        Misconception(
            name="exponent_reaches_one",
            says="the frequencies are spread so that the last one is exactly 1/10000",
            hint="Some libraries divide by the number of pairs less one. The paper divides 2i by d_model, "
            "so that the last exponent stays a little below 1.",
            paper=WAVES,
            patch=alone(sinusoids, (_ANGLE, _ANGLE.replace("/ d_model", "/ max(d_model - 2, 1)"))),
        ),
        Misconception(
            name="no_logarithm",
            says="the frequencies are powers of e, where they should be powers of 10000",
            hint="10000 to the power of -a is exp(-a * log(10000)). The logarithm is missing.",
            paper=WAVES,
            patch=alone(sinusoids, (_ANGLE, "position * torch.exp(-even_column / d_model)")),
        ),
        Misconception(
            name="base_of_one_thousand",
            says="the base is 1000, and it should be 10000",
            hint="Count the zeros: the longest wave is to be nearly 10000 times as long as the shortest.",
            paper=WAVES,
            patch=alone(sinusoids, (_ANGLE, _ANGLE.replace("10000.0", "1000.0"))),
        ),
        Misconception(
            name="positions_as_shares",
            says="positions are divided by the length",
            hint="Then a step to the next word means something else in each sentence. The position is the "
            "plain number: 0, 1, 2, and so on.",
            paper=WAVES,
            patch=alone(sinusoids, (_POSITION, f"{_POSITION} / length")),
        ),
        Misconception(
            name="angles_in_the_table",
            says="the table holds the angles, without sine and cosine",
            hint="Angles grow with the position, without end. Their sines and cosines stay between -1 and 1.",
            paper=WAVES,
            patch=alone(
                sinusoids, (_SINES, _SINES.replace(".sin()", "")), (_COSINES, _COSINES.replace(".cos()", ""))
            ),
        ),
        Misconception(
            name="axes_swapped",
            says="rows and columns have changed places",
            hint="Each row is a position, each column a feature: (length, d_model).",
            paper=WAVES,
            patch=alone(sinusoids, (_TABLE, "return table.T")),
        ),
    ),
)

# --- TokenEmbedding -----------------------------------------------------------------------------------------


def _embedded(candidate: Candidate, draw: Draw, tokens: Tensor, vocab: int, d_model: int) -> Reply:
    layer = _built(candidate, vocab, d_model)
    loaded = layer.load({"table.weight": draw.normal(vocab, d_model)})
    return first_failure(loaded, layer.call(tokens))


@probe("in evaluation mode it is the same")
def _embedding_in_evaluation(candidate: Candidate, draw: Draw) -> Reply:
    layer = _built(candidate, 7, 5)
    loaded = layer.load({"table.weight": draw.normal(7, 5)})
    layer.train(False)
    return first_failure(loaded, layer.call(torch.tensor([[3, 0, 6]])))


@probe("each token becomes its row of the table, times the root of d_model")
def _embedding_values(candidate: Candidate, draw: Draw) -> Reply:
    return _embedded(candidate, draw, torch.tensor([[3, 0, 6, 3], [1, 2, 5, 4]]), 7, 5)


@probe("one token, in a vocabulary of as many words as there are features")
def _embedding_of_one(candidate: Candidate, draw: Draw) -> Reply:
    return _embedded(candidate, draw, torch.tensor([[2]]), 3, 3)


@probe("asked twice, it gives the same both times")
def _embedding_twice(candidate: Candidate, draw: Draw) -> Any:
    layer, tokens = _built(candidate, 7, 5), torch.tensor([[3, 0, 6]])
    loaded = layer.load({"table.weight": draw.normal(7, 5)})
    first = first_failure(loaded, layer.call(tokens))
    return {"the first result": first, "the second": layer.call(tokens)}


@probe("a new table is normal, with standard deviation 1 / root of d_model", tolerance=0.04)
def _embedding_start(candidate: Candidate, draw: Draw) -> Any:
    measure = candidate.make(start_of("table.weight"))
    return {
        "of a new table with 16 features": measure.call(candidate.build(1000, 16)),
        "of a new table with 64 features": measure.call(candidate.build(500, 64)),
    }


@probe("float32 weights give float32 vectors")
def _embedding_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    layer = candidate.build(7, 6)
    loaded = layer.load({"table.weight": draw.normal(7, 6)})
    return first_failure(loaded, layer.call(torch.tensor([[3, 0, 6]])))


@probe("bfloat16 weights give bfloat16 vectors")
def _embedding_in_bfloat16(candidate: Candidate, draw: Draw) -> Reply:
    layer = candidate.build(7, 6)
    layer.call(method="bfloat16")
    loaded = layer.load({"table.weight": draw.normal(7, 6)})
    return first_failure(loaded, layer.call(torch.tensor([[3, 0, 6]])))


@probe("gradients reach the row of each token that occurs, and no other")
def _embedding_gradient(candidate: Candidate, draw: Draw) -> Any:
    layer = _built(candidate, 6, 3)
    layer.load({"table.weight": draw.normal(6, 3)})
    # Padding is often 0 or 1, the last, or a symbol of the student's own: all but one occur.
    reply = layer.gradients(torch.tensor([[2, 0, 2], [1, 5, 3]]), toward=draw.normal(2, 3, 3))
    if isinstance(reply, Raised):
        return reply
    gradient = reply.value["weights"].get("table.weight")
    return {"the gradient of the table": "none" if gradient is None else gradient}


@probe("its state dict, put into a new one, brings the weights along")
def _embedding_round_trip(candidate: Candidate, draw: Draw) -> Reply:
    full, empty = _built(candidate, 5, 3), _built(candidate, 5, 3)
    loaded, state = full.load({"table.weight": draw.normal(5, 3)}), full.weights()
    if not isinstance(loaded, Returned) or not isinstance(state, Returned):
        return first_failure(loaded, state)
    taken = empty.call(state.value, method="load_state_dict")
    return first_failure(taken, empty.call(torch.tensor([[4, 1]])))


@probe("a deep copy has weights of its own")
def _embedding_copy(candidate: Candidate, draw: Draw) -> Any:
    layer, tokens = _built(candidate, 5, 3), torch.tensor([[4, 1]])
    loaded = layer.load({"table.weight": draw.normal(5, 3)})
    copy = layer.copy()
    overwritten = copy.load({"table.weight": torch.zeros(5, 3)})
    return {
        "the original": first_failure(loaded, layer.call(tokens)),
        "the copy": first_failure(overwritten, copy.call(tokens)),
    }


_LOOK_UP = "self.table(tokens)"
_ROOT = "math.sqrt(self.table.embedding_dim)"
_NEW_TABLE = "self.table = nn.Embedding(vocab_size, d_model)"
_NORMAL = "nn.init.normal_(self.table.weight, std=d_model**-0.5)"

TOKEN_EMBEDDING = Exercise(
    reference=TokenEmbedding,
    probes=(
        _embedding_values,
        _embedding_of_one,
        _embedding_twice,
        _embedding_in_evaluation,
        _embedding_start,
        _embedding_in_float32,
        _embedding_in_bfloat16,
        _embedding_gradient,
        _embedding_round_trip,
        _embedding_copy,
    ),
    misconceptions=(
        Misconception(
            name="not_scaled",
            says="the vectors are not multiplied by the root of d_model",
            hint="The table starts with small numbers, so each vector has a length of about 1, and the "
            "vector of a place is many times as long. The factor makes words about as large as places.",
            paper=WORDS,
            patch=[(f" * {_ROOT}", "")],
        ),
        Misconception(
            name="scaled_by_d",
            says="the vectors are multiplied by d_model, not by its root",
            hint="The numbers start with a standard deviation of 1 over the root of d_model. Times the "
            "root, that is 1.",
            paper=WORDS,
            patch=[(_ROOT, "self.table.embedding_dim")],
        ),
        Misconception(
            name="divided_by_root",
            says="the vectors are divided by the root of d_model, where they should be multiplied",
            hint="Attention divides its scores, since they are too large. Here the numbers are too small.",
            paper=WORDS,
            patch=[(f"* {_ROOT}", f"/ {_ROOT}")],
        ),
        Misconception(
            name="start_left_alone",
            says="the table keeps the start of nn.Embedding, a standard deviation of 1",
            hint="With that start and the factor, words would be as many times too large as the factor "
            "says. Give `self.table.weight` to nn.init.normal_ with the right std.",
            paper=START,
            patch=[(f"        {_NORMAL}\n", "")],
        ),
        Misconception(
            name="glorot_start",
            says="the table starts as Glorot and Bengio have it for matrices",
            hint="That start makes the numbers smaller the more words there are, as if all words came in at "
            "once. Only one row is looked up at a time. Places would drown the words.",
            paper=START,
            patch=[(_NORMAL, "nn.init.xavier_uniform_(self.table.weight)")],
        ),
        Misconception(
            name="variance_for_deviation",
            says="the table starts with a standard deviation of 1 / d_model, which is meant to be its "
            "variance",
            hint="`normal_` takes the standard deviation, the root of the variance: d_model to the power of "
            "-0.5.",
            paper=START,
            patch=[(_NORMAL, _NORMAL.replace("d_model**-0.5", "1 / d_model"))],
        ),
        Misconception(
            name="padding_assumed",
            says="token 0 never learns, as if it were padding",
            hint="Nobody told this class which token is padding. With `padding_idx` nn.Embedding gives that "
            "row no gradient. Padding is hidden by masks, and left out of the loss.",
            paper=WORDS,
            patch=[(_NEW_TABLE, _NEW_TABLE.replace("d_model)", "d_model, padding_idx=0)"))],
        ),
        Misconception(
            name="scaled_by_vocabulary",
            says="they are multiplied by the root of the vocabulary's size, not of the number of features",
            hint="d_model is how many numbers a vector has: the second size of the table.",
            paper=WORDS,
            patch=alone(TokenEmbedding, ("embedding_dim", "num_embeddings")),
        ),
        Misconception(
            name="scaled_by_length",
            says="they are multiplied by the root of the sentence's length, not of the number of features",
            hint="d_model is how many numbers a vector has. The last axis of the tokens holds the words.",
            paper=WORDS,
            patch=alone(TokenEmbedding, (_ROOT, "math.sqrt(tokens.shape[-1])")),
        ),
        Misconception(
            name="uniform_start",
            says="the numbers of a new table are distributed evenly, not normally",
            hint="Use nn.init.normal_. Even numbers between -a and a have a smaller standard deviation than "
            "a: a over the root of 3.",
            paper=START,
            patch=alone(
                TokenEmbedding,
                (_NORMAL, "nn.init.uniform_(self.table.weight, -(d_model**-0.5), d_model**-0.5)"),
            ),
        ),
        Misconception(
            name="sizes_swapped",
            says="the table has a row for each feature, where it needs one for each word",
            hint="nn.Embedding takes the number of words first, then the number of features.",
            paper="the documentation of torch.nn.Embedding",
            patch=alone(TokenEmbedding, ("(vocab_size, d_model)\n", "(d_model, vocab_size)\n")),
        ),
        Misconception(
            name="table_is_a_parameter",
            says="the table is a bare nn.Parameter, and others look for `table.weight`",
            hint="Make `table` an nn.Embedding, whose numbers stand under the name `table.weight`. Lesson "
            "06 shares them with other layers by that name.",
            paper="the documentation of torch.nn.Embedding",
            patch=alone(
                TokenEmbedding,
                (_NEW_TABLE, "self.table = nn.Parameter(torch.empty(vocab_size, d_model))"),
                (_NORMAL, _NORMAL.replace(".weight", "")),
                (_LOOK_UP, "self.table[tokens]"),
                ("self.table.embedding_dim", "self.table.shape[1]"),
            ),
        ),
        Misconception(
            name="table_scaled_in_place",
            says="each call enlarges the table itself",
            hint="`*=` and `mul_` write into the table, which then grows from call to call. Multiply what "
            "was looked up.",
            paper=WORDS,
            patch=alone(
                TokenEmbedding,
                (
                    f"return {_LOOK_UP} * {_ROOT}",
                    f"self.table.weight.data *= {_ROOT}\n        return {_LOOK_UP}",
                ),
            ),
        ),
        Misconception(
            name="gradient_cut",
            says="the result is cut off from the table, so that words never learn",
            hint="Leave out `detach`, `no_grad`, `.data` and `requires_grad=False`: the table is to be "
            "trained.",
            paper=WORDS,
            patch=alone(TokenEmbedding, (_LOOK_UP, f"{_LOOK_UP}.detach()")),
        ),
        Misconception(
            name="dtype_of_the_factor",
            says="the factor is a tensor of float32, and takes narrower vectors with it",
            hint="A factor that is a plain number leaves the dtype of the vectors alone: math.sqrt(...).",
            paper=DTYPE,
            patch=alone(TokenEmbedding, (_ROOT, "torch.tensor([float(self.table.embedding_dim)]).sqrt()")),
        ),
        Misconception(
            name="module_not_begun",
            says="`super().__init__()` is missing from __init__",
            hint="A module keeps lists of its parameters and modules, and super().__init__() makes these "
            "lists. Call it first.",
            paper=MODULE,
            patch=alone(TokenEmbedding, ("super().__init__()", "pass")),
        ),
    ),
)

# --- PositionalEncoding -------------------------------------------------------------------------------------


def _dropped(layer: Candidate, probability: float) -> Any:
    """Look at what becomes of each number of the sum in training."""
    x = torch.full((4, 30, 6), 10.0, dtype=torch.float64)
    reply = first_failure(layer.train(True), layer.call(x))
    if isinstance(reply, Raised) or not isinstance(reply.value, Tensor) or reply.value.shape != x.shape:
        return reply
    share = reply.value.double() / (x + sinusoids(30, 6))
    kept = (share - 1 / (1 - probability)).abs() < 1e-5
    near = abs(float(kept.double().mean()) - (1 - probability)) < 0.1
    return {
        f"«each number of the sum becomes 0, or is divided by {1 - probability:g}»": bool(
            (kept | (share.abs() < 1e-5)).all()
        ),
        f"«about {probability:.0%} of the numbers become 0»": near,
    }


@probe("zeros go in, and the sinusoids come out")
def _sum_with_zeros(candidate: Candidate, draw: Draw) -> Any:
    zeros = torch.zeros(2, 5, 6, dtype=torch.float64)
    reply = _built(candidate, 6, 0.0, 12).call(zeros)
    return {"what it adds (if that differs, mend sinusoids first)": reply}


@probe("each word gets the sinusoids of its position added, the same in every sentence")
def _sum_values(candidate: Candidate, draw: Draw) -> Reply:
    return _built(candidate, 6, 0.0, 12).call(draw.normal(3, 5, 6))


@probe("as many sentences as words as features: each axis still means its own thing")
def _sum_of_cubes(candidate: Candidate, draw: Draw) -> Reply:
    return _built(candidate, 4, 0.0, 12).call(draw.normal(4, 4, 4))


@probe("an odd number of features, and sentences of different lengths one after the other")
def _sum_of_lengths(candidate: Candidate, draw: Draw) -> Any:
    layer = _built(candidate, 5, 0.0, 8)
    return {f"the sum for {words} words": layer.call(draw.normal(2, words, 5)) for words in (3, 1, 8)}


@probe("in training, dropout falls on the sum")
def _sum_dropout(candidate: Candidate, draw: Draw) -> Any:
    return _dropped(_built(candidate, 6, 0.25, 40), 0.25)


@probe("unless told otherwise, dropout is 0.1 and there is room for 5000 words")
def _sum_usual_settings(candidate: Candidate, draw: Draw) -> Any:
    long = _built(candidate, 2)
    long.train(False)
    x = torch.zeros(1, 5000, 2, dtype=torch.float64)
    return {"dropout": _dropped(_built(candidate, 6), 0.1), "the sum for 5000 words": long.call(x)}


@probe("with max_length=5200 there is room for so many words")
def _sum_of_many(candidate: Candidate, draw: Draw) -> Reply:
    return _built(candidate, 2, 0.0, 5200).call(torch.zeros(1, 5200, 2, dtype=torch.float64))


@probe("in evaluation nothing is dropped")
def _sum_in_evaluation(candidate: Candidate, draw: Draw) -> Reply:
    layer = _built(candidate, 6, 0.5, 12)
    return first_failure(layer.train(False), layer.call(draw.normal(2, 5, 6)))


@probe("the result has the dtype of x, also where the module has another")
def _sum_in_dtypes(candidate: Candidate, draw: Draw) -> Any:
    x = draw.normal(2, 5, 6)
    plain, wide = candidate.build(6, 0.0, 12), _built(candidate, 6, 0.0, 12)
    return {
        "the result of float32": plain.call(x.float()),
        "the result of bfloat16": plain.call(x.bfloat16()),
        "the result of float32, with the module in float64": wide.call(x.float()),
    }


@probe("past max_length a clear error is raised, or it works")
def _sum_past_the_end(candidate: Candidate, draw: Draw) -> Any:
    tried = candidate.make(past_max_length())
    return {
        f"what comes of {words} words for a max_length of {most}": tried.call(
            _built(candidate, 6, 0.0, most), most, sinusoids(words, 6).double()
        )
        for words, most in ((6, 4), (3, 1))
    }


@probe("the table is not in the state dict")
def _sum_state(candidate: Candidate, draw: Draw) -> Any:
    reply = candidate.make(saves()).call(candidate.build(6, 0.0, 50), 50)
    return {"«an entry as large as the table»": reply}


@probe("the positions go along when the module is moved to another device")
def _sum_elsewhere(candidate: Candidate, draw: Draw) -> Any:
    layer, x = candidate.build(6, 0.0, 12), draw.normal(2, 5, 6, dtype=torch.float32)
    return {"«a table that stays behind»": candidate.make(left_behind()).call(layer, x)}


@probe("gradients reach x, and nothing else is trained")
def _sum_gradient(candidate: Candidate, draw: Draw) -> Any:
    reply = _built(candidate, 6, 0.0, 12).gradients(draw.normal(2, 5, 6), toward=draw.normal(2, 5, 6))
    if isinstance(reply, Raised):
        return reply
    gradient = reply.value["inputs"][0]
    trained = any(weight is not None for weight in reply.value["weights"].values())
    return {"the gradient of x": "none" if gradient is None else gradient, "«it trains weights»": trained}


@probe("its state dict fits one with another max_length, and a deep copy gives the same")
def _sum_copies(candidate: Candidate, draw: Draw) -> Any:
    layer, other, x = _built(candidate, 6, 0.0, 12), _built(candidate, 6, 0.0, 9), draw.normal(2, 5, 6)
    return {
        "«it fits»": candidate.make(fits()).call(layer, other),
        "the result of the other": other.call(x),
        "the result of the copy": layer.copy().call(x),
    }


_KEEP_DROPOUT = "self.dropout = nn.Dropout(dropout)"
_BUFFER = 'self.register_buffer("table", sinusoids(max_length, d_model), persistent=False)'
_SUM = "self.dropout(x + self.table[:length].to(x.dtype))"
_ROWS = "self.table[:length]"
_REFUSAL = (
    "        if length > max_length:\n"
    '            raise ValueError(f"{length} positions are asked for, but max_length is {max_length}")\n'
)

POSITIONAL_ENCODING = Exercise(
    reference=PositionalEncoding,
    probes=(
        _sum_with_zeros,
        _sum_values,
        _sum_of_cubes,
        _sum_of_lengths,
        _sum_dropout,
        _sum_usual_settings,
        _sum_of_many,
        _sum_in_evaluation,
        _sum_in_dtypes,
        _sum_past_the_end,
        _sum_state,
        _sum_elsewhere,
        _sum_gradient,
        _sum_copies,
    ),
    misconceptions=(
        Misconception(
            name="one_place_on",
            says="each word gets the sinusoids of the next position",
            hint="The first word stands at position 0: take the rows from 0 up to the length.",
            paper=SUM,
            patch=[(_ROWS, "self.table[1 : length + 1]")],
        ),
        Misconception(
            name="table_saved",
            says="the table is saved in every checkpoint",
            hint="It can always be computed again, and a saved one fixes max_length for ever: with "
            "`persistent=False` a buffer stays out of the state dict.",
            paper=BUFFER,
            patch=[(_BUFFER, _BUFFER.replace(", persistent=False", ""))],
        ),
        Misconception(
            name="unclear_past_the_end",
            says="a sentence past max_length is not refused in clear words",
            hint="Whoever reads torch's error about the sizes of tensors has no idea that max_length is "
            "meant. And with a single row nothing is raised at all: it broadcasts. Raise a ValueError with "
            "both numbers.",
            paper="the exercise's own words: raises ValueError past max_length",
            patch=[(_REFUSAL, "")],
        ),
        Misconception(
            name="dtype_of_the_table",
            says="the result has the dtype of the table, where it should have that of x",
            hint="A sum of two dtypes comes out in the wider one. Bring the rows to `x.dtype` first.",
            paper=DTYPE,
            patch=[(".to(x.dtype)", "")],
        ),
        Misconception(
            name="dropout_forgotten",
            says="nothing is dropped in training",
            hint="Making the dropout in __init__ does nothing yet: call it in forward, on the sum.",
            paper=DROPOUT,
            patch=[("self.dropout(x + ", "(x + ")],
        ),
        Misconception(
            name="dropout_on_positions",
            says="dropout falls on the positions alone",
            hint="It falls on the sum of words and positions.",
            paper=DROPOUT,
            patch=[("self.dropout(x + ", "x + self.dropout(")],
        ),
        Misconception(
            name="dropout_hard_wired",
            says="the dropout that is handed in is ignored, and 0.1 is taken every time",
            hint="0.1 is only what it is when nobody gives another. Hand the argument on: "
            "nn.Dropout(dropout).",
            paper=DROPOUT,
            patch=[(_KEEP_DROPOUT, "self.dropout = nn.Dropout(0.1)")],
        ),
        Misconception(
            name="positions_forgotten",
            says="the positions are not added",
            hint="Making the table in __init__ does nothing yet: add its rows to x in forward.",
            paper=SUM,
            patch=alone(PositionalEncoding, (_SUM, "self.dropout(x)")),
        ),
        Misconception(
            name="multiplied",
            says="the positions are multiplied with x, where they should be added",
            hint="At position 0 every sine is 0: multiplied with it, half of the word is gone.",
            paper=SUM,
            patch=alone(PositionalEncoding, ("x + self", "x * self")),
        ),
        Misconception(
            name="side_by_side",
            says="the positions are put beside the words' features, where they should be added to them",
            hint="A sum keeps d_model features, which is what the next layer expects.",
            paper=SUM,
            patch=alone(
                PositionalEncoding,
                (_SUM, f"self.dropout(torch.cat([x, {_ROWS}.to(x.dtype).expand_as(x)], dim=-1))"),
            ),
        ),
        Misconception(
            name="scaled_again",
            says="the words are multiplied by the root of d_model here as well",
            hint="TokenEmbedding has done that. Here x is taken as it is.",
            paper=WORDS,
            patch=alone(PositionalEncoding, ("(x + self", "(x * math.sqrt(x.shape[-1]) + self")),
        ),
        Misconception(
            name="one_row_for_all",
            says="all words get the sinusoids of one position",
            hint="`table[length]` is a single row, and broadcasts over all words. The colon makes a piece "
            "of it: `table[:length]`.",
            paper=SUM,
            patch=alone(PositionalEncoding, (_ROWS, "self.table[length]")),
        ),
        Misconception(
            name="whole_table_added",
            says="the whole table is added, not only the rows for the words that are there",
            hint="The table has max_length rows. Take as many of them as the sentence has words.",
            paper=SUM,
            patch=alone(PositionalEncoding, (_ROWS, "self.table")),
        ),
        Misconception(
            name="along_the_batch",
            says="positions run along the batch, not along the sentence",
            hint="In older code the length stands first. Here x is (batch, length, features): positions run "
            "along axis 1.",
            paper=SUM,
            patch=alone(PositionalEncoding, (_ROWS, "self.table[: x.shape[0]].unsqueeze(1)")),
        ),
        Misconception(
            name="cut_by_features",
            says="as many rows are taken as there are features, not as there are words",
            hint="x is (batch, length, features): the number of words is `x.shape[1]`.",
            paper=SUM,
            patch=alone(PositionalEncoding, (_ROWS, "self.table[: x.shape[-1]]")),
        ),
        Misconception(
            name="learned_positions",
            says="the positions are learned, not made of sinusoids",
            hint="The paper tried that too, with nearly the same results (table 3, row E), and took the "
            "sinusoids. Add the table that `sinusoids` makes.",
            paper=SUM,
            patch=alone(
                PositionalEncoding,
                ("    table: Tensor\n\n", ""),
                (_BUFFER, "self.table = nn.Parameter(torch.randn(max_length, d_model))"),
            ),
        ),
        Misconception(
            name="table_is_trained",
            says="the table is a parameter, so it is trained and saved",
            hint="The sinusoids are to stay as they are. What belongs to a module but is not learned is a "
            "buffer.",
            paper=BUFFER,
            patch=alone(
                PositionalEncoding,
                ("    table: Tensor\n\n", ""),
                (_BUFFER, "self.table = nn.Parameter(sinusoids(max_length, d_model))"),
            ),
        ),
        Misconception(
            name="table_left_behind",
            says="the table is a plain tensor, which stays behind when the module moves to a GPU",
            hint="`model.to(device)` moves parameters and buffers. A plain tensor in an attribute stays "
            "where it was made, and the sum of tensors on two devices fails.",
            paper=BUFFER,
            patch=alone(PositionalEncoding, (_BUFFER, "self.table = sinusoids(max_length, d_model)")),
        ),
        Misconception(
            name="max_length_ignored",
            says="the table has 5000 rows, whatever max_length is",
            hint="5000 is only what max_length is when nobody gives another. Hand the argument on to "
            "`sinusoids`.",
            paper=SUM,
            patch=alone(PositionalEncoding, ("sinusoids(max_length,", "sinusoids(5000,")),
        ),
        Misconception(
            name="dropout_on_words",
            says="dropout falls on the words alone",
            hint="It falls on the sum of words and positions.",
            paper=DROPOUT,
            patch=alone(PositionalEncoding, ("self.dropout(x + ", "(self.dropout(x) + ")),
        ),
        Misconception(
            name="dropout_not_passed",
            says="nn.Dropout() is made without its probability, so it drops one half",
            hint="Hand the argument on: nn.Dropout(dropout).",
            paper=DROPOUT,
            patch=alone(PositionalEncoding, (_KEEP_DROPOUT, "self.dropout = nn.Dropout()")),
        ),
        Misconception(
            name="dropped_in_evaluation",
            says="it goes on dropping in evaluation",
            hint="The function F.dropout does not know the module's mode unless told, "
            "`training=self.training`. An nn.Dropout made in __init__ does.",
            paper=DROPOUT,
            patch=alone(
                PositionalEncoding,
                (_KEEP_DROPOUT, "self.dropout = lambda given: nn.functional.dropout(given, dropout)"),
            ),
        ),
        Misconception(
            name="input_changed",
            says="x is changed in place",
            hint="`x += ...` writes into the tensor that the caller handed in. Make a new one: x + ...",
            paper=SUM,
            patch=alone(
                PositionalEncoding,
                (f"return {_SUM}", f"x += {_ROWS}.to(x.dtype)\n        return self.dropout(x)"),
            ),
        ),
        Misconception(
            name="gradient_cut",
            says="no gradient gets through to x",
            hint="The positions need no gradient, the words do. Leave out `no_grad`, and `detach` on the "
            "sum.",
            paper=SUM,
            patch=alone(PositionalEncoding, ("(x + self", "(x.detach() + self")),
        ),
        Misconception(
            name="module_not_begun",
            says="`super().__init__()` is missing from __init__",
            hint="A module keeps lists of its parameters, buffers and modules, and super().__init__() makes "
            "these lists. Call it first.",
            paper=MODULE,
            patch=alone(PositionalEncoding, ("super().__init__()", "pass")),
        ),
    ),
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_ORDERS = Prediction(
    name="predict_orders",
    answer=1.0,
    tolerance=0.01,
    hint="Attention gives a weighted mean of the values. What does a mean know of the order of what went "
    "into it?",
    misconceptions=(
        WrongNumber("one_for_each_order", 6.0, "Does a sum depend on the order in which you add things up?"),
        WrongNumber(
            "one_for_each_place",
            3.0,
            "Nothing in a query, a key or a value says in which place its word stands.",
        ),
        WrongNumber(
            "before_or_after",
            2.0,
            "Nothing in a query, a key or a value says which of two words comes first.",
        ),
        WrongNumber("none", 0.0, "Something comes out for «dog», each time. How many different things?"),
    ),
)

PREDICT_WAVE = Prediction(
    name="predict_wave",
    answer=2 * math.pi * 100,
    tolerance=0.01,
    hint="After how many positions is the angle, position / 10000^(4/8), one full turn?",
    misconceptions=(
        WrongNumber("one_radian", 100.0, "After so many positions the angle is 1. A full wave takes 2π."),
        WrongNumber(
            "in_degrees", 36000.0, "That counts in degrees. The sine takes radians: a full turn is 2π."
        ),
        WrongNumber("first_wave", 2 * math.pi, "That is the wave of column 0, whose exponent is 0."),
        WrongNumber(
            "exponent_halved", 2 * math.pi * 10, "Column 4 is column 2i, so 2i is 4, and the exponent is 4/8."
        ),
        WrongNumber(
            "exponent_doubled", 2 * math.pi * 10000, "Column 4 is column 2i. So 2i is 4 already, and i is 2."
        ),
        WrongNumber("frequency", 0.01, "By so much the angle grows from one position to the next."),
    ),
)

PREDICT_LENGTH = Prediction(
    name="predict_length",
    answer=16.0,
    tolerance=0.01,
    hint="Take one pair, a sine and a cosine of the same angle. What is the sum of their squares?",
    misconceptions=(
        WrongNumber("square", 256.0, "That is the sum of the squares. The length is its root."),
        WrongNumber(
            "every_number_is_one",
            math.sqrt(512),
            "That would be so if each number were 1 or -1. The squares of a sine and a cosine sum to 1.",
        ),
        WrongNumber("one_pair", 1.0, "That is the length of one pair. There are 256 of them."),
        WrongNumber("all_features", 512.0, "So many numbers there are. Their squares are smaller than 1."),
    ),
)

CATALOGUE = (
    PREDICT_ORDERS,
    PREDICT_WAVE,
    SINUSOIDS,
    PREDICT_LENGTH,
    TOKEN_EMBEDDING,
    POSITIONAL_ENCODING,
)
