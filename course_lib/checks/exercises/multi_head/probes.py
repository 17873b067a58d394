"""Lesson 02: splitting into heads, merging them, and multi-head attention."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate, Fixture
from course_lib.checks.engine.exercise import Exercise, Misconception, Prediction, WrongNumber, alone
from course_lib.checks.engine.probe import Draw, Probe, probe
from course_lib.checks.engine.reply import Raised, Reply, Returned
from course_lib.checks.exercises.fixtures.callables import mean_attention, to_itself
from course_lib.checks.exercises.fixtures.facts import dropout_strength, equal_weights, error_of
from course_lib.transformer.multi_head import MultiHeadAttention, merge_heads, split_heads

HEADS = "section 3.2.2: h heads of width d_model / h"
CONCAT = "section 3.2.2: the heads are concatenated and projected once more"
PROJECTIONS = "section 3.2.2: the projections of queries, keys and values"
MASK = "section 3.2.3: illegal connections are masked out, in every head"
DROPOUT = "the documentation of torch.nn.MultiheadAttention: dropout (the paper does not name it here)"
NO_GRADIENT = "`.detach()`, `.data`, `.item()` and making a new tensor out of numbers all cut the graph."

# --- split_heads --------------------------------------------------------------------------------------------


def _error(candidate: Candidate, called: Candidate, *arguments: Any) -> Any:
    """Give the kind of error that a call ends in; its words are free."""
    reply = candidate.make(error_of()).call(called, *arguments)
    return {"the error that is raised": reply.value} if isinstance(reply, Returned) else reply


@probe("a batch of sentences is cut into heads")
def _split_a_batch(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 20), 4)


@probe("as many sentences as words, heads and features a head: each axis still means its own thing")
def _split_a_square(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(4, 4, 16), 4)


@probe("odd sizes: three heads of seven features")
def _split_odd_sizes(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(3, 5, 21), 3)


@probe("a single head has all the features")
def _split_into_one(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 5), 1)


@probe("as many heads as features: each head has one")
def _split_into_single_features(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 5), 5)


@probe("one sentence of one word")
def _split_one_word(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(1, 1, 6), 2)


@probe("features that cannot be shared out equally are refused with a ValueError")
def _split_refuses(candidate: Candidate, draw: Draw) -> Any:
    return _error(candidate, candidate, draw.normal(2, 3, 10), 4)


@probe("more heads than features are refused with a ValueError")
def _split_refuses_too_many(candidate: Candidate, draw: Draw) -> Any:
    return _error(candidate, candidate, draw.normal(2, 3, 4), 8)


@probe("float32 goes in and float32 comes out")
def _split_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 8, dtype=torch.float32), 2)


@probe("bfloat16 goes in and bfloat16 comes out")
def _split_in_bfloat16(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 8, dtype=torch.bfloat16), 2)


@probe("gradients reach the input")
def _split_gradient(candidate: Candidate, draw: Draw) -> Reply:
    x, heads = draw.normal(2, 3, 8), 4
    return candidate.gradients(x, heads, toward=draw.normal(2, 4, 3, 2))


_SPLIT = "x.unflatten(-1, (heads, d_model // heads)).transpose(-3, -2)"
_INDIVISIBLE = "if d_model % heads != 0:"

SPLIT_HEADS = Exercise(
    reference=split_heads,
    probes=(
        _split_a_batch,
        _split_a_square,
        _split_odd_sizes,
        _split_into_one,
        _split_into_single_features,
        _split_one_word,
        _split_refuses,
        _split_refuses_too_many,
        _split_in_float32,
        _split_in_bfloat16,
        _split_gradient,
    ),
    misconceptions=(
        Misconception(
            name="reshaped_alone",
            says="the numbers are reshaped into the right shape, but not moved to the right place",
            hint="A reshape keeps all numbers in their order in memory and only cuts that row anew, so "
            "the first head gets whole words and the last head other ones. First cut the features into "
            "(heads, width), then swap the axes.",
            paper=HEADS,
            patch=[(_SPLIT, "x.reshape(x.shape[0], heads, x.shape[1], d_model // heads)")],
        ),
        Misconception(
            name="not_transposed",
            says="the head axis still stands behind the length",
            hint="Attention works on the last two axes, which have to be words and features: (B, H, L, "
            "D/H). As it is, the heads of one word would attend to each other.",
            paper=HEADS,
            patch=[(_SPLIT, "x.unflatten(-1, (heads, d_model // heads))")],
        ),
        Misconception(
            name="interleaved",
            says="the features are dealt out to the heads in turn, like cards",
            hint="Head 0 gets the first D/H features in a row, head 1 the next ones. So (heads, width) is "
            "the order in which the last axis is cut: heads outside, width inside.",
            paper=HEADS,
            patch=[(_SPLIT, "x.unflatten(-1, (d_model // heads, heads)).movedim(-1, 1)")],
        ),
        Misconception(
            name="numbers_swapped",
            says="there are D/H heads of H features, where there should be H heads of D/H",
            hint="The number of heads comes first where the last axis is cut: (heads, d_model // heads).",
            paper=HEADS,
            patch=[(_SPLIT, "x.unflatten(-1, (d_model // heads, heads)).transpose(-3, -2)")],
        ),
        Misconception(
            name="last_axes_swapped",
            says="the last two axes are swapped, where the head axis should swap with the length",
            hint="After the cut the axes are (B, L, H, D/H). It is L and H that have to change places.",
            paper=HEADS,
            patch=[(_SPLIT, "x.unflatten(-1, (heads, d_model // heads)).transpose(-2, -1)")],
        ),
        Misconception(
            name="first_axes_swapped",
            says="the first two axes are swapped, which mixes up sentences and words",
            hint="After the cut the axes are (B, L, H, D/H), counted from 0. Those to swap are 1 and 2.",
            paper=HEADS,
            patch=[(_SPLIT, "x.unflatten(-1, (heads, d_model // heads)).transpose(0, 1)")],
        ),
        Misconception(
            name="heads_before_batch",
            says="the head axis stands before the batch",
            hint="The batch stays in front: (B, H, L, D/H). A mask with a batch axis counts on that.",
            paper=HEADS,
            patch=[(_SPLIT, "x.unflatten(-1, (heads, d_model // heads)).movedim(-2, 0)")],
        ),
        Misconception(
            name="heads_in_the_batch",
            says="batch and heads are one axis",
            hint="Some implementations do that. Here the heads have an axis of their own: (B, H, L, D/H).",
            paper=HEADS,
            patch=[(_SPLIT, "x.unflatten(-1, (heads, d_model // heads)).transpose(-3, -2).flatten(0, 1)")],
        ),
        Misconception(
            name="separate_pieces",
            says="the heads come as separate tensors, where one tensor is asked for",
            hint="In one tensor, all heads attend with a single matrix product. `torch.stack(pieces, "
            "dim=1)` would make one of the pieces; cutting the axis does it without copying.",
            paper=HEADS,
            patch=[(_SPLIT, "x.chunk(heads, dim=-1)")],
        ),
        Misconception(
            name="whole_vectors",
            says="every head gets all the features",
            hint="The heads share the features: D/H of them each. That is why eight heads cost no more "
            "than one.",
            paper=HEADS,
            patch=[(_SPLIT, "x.unsqueeze(1).expand(-1, heads, -1, -1)")],
        ),
        Misconception(
            name="detached",
            says="the graph is cut, so no gradient reaches the input",
            hint=NO_GRADIENT,
            paper=HEADS,
            patch=[(_SPLIT, f"{_SPLIT}.detach()")],
        ),
        Misconception(
            name="not_refused",
            says="features that heads cannot share equally are not refused with a ValueError",
            hint="What torch says when the cut does not fit is a RuntimeError about shapes. Look first, "
            "and say in your own words which two numbers do not go together.",
            paper=HEADS,
            patch=[(_INDIVISIBLE, "if False:")],
        ),
        Misconception(
            name="asserted",
            says="an assertion refuses what should be refused with a ValueError",
            hint="Assertions are for what can't happen, and `python -O` leaves them out. A wrong number "
            "of heads is the caller's mistake: `raise ValueError(...)`.",
            paper=HEADS,
            patch=[("raise ValueError(", "raise AssertionError(")],
        ),
        Misconception(
            name="features_left_over",
            says="features that do not fit are left out without a word",
            hint="With 10 features and 4 heads, two would be lost and nobody would know. Raise a ValueError.",
            paper=HEADS,
            patch=[(_INDIVISIBLE, "d_model -= d_model % heads\n    x = x[..., :d_model]\n    if False:")],
        ),
    ),
)

# --- merge_heads --------------------------------------------------------------------------------------------


@probe("the heads of a batch stand side by side again")
def _merge_a_batch(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 4, 3, 5))


@probe("as many sentences as heads, words and features: each axis still means its own thing")
def _merge_a_square(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(3, 3, 3, 3))


@probe("what split_heads has cut fits together again")
def _merge_what_was_split(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 4, 5).transpose(1, 2))


@probe("a single head is all there is")
def _merge_one(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 1, 3, 5))


@probe("heads of a single feature")
def _merge_single_features(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 5, 3, 1))


@probe("one sentence of one word")
def _merge_one_word(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(1, 2, 1, 3))


@probe("float32 goes in and float32 comes out")
def _merge_in_float32(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 4, 5, dtype=torch.float32))


@probe("bfloat16 goes in and bfloat16 comes out")
def _merge_in_bfloat16(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 3, 4, 5, dtype=torch.bfloat16))


@probe("gradients reach the heads")
def _merge_gradient(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.gradients(draw.normal(2, 3, 4, 5), toward=draw.normal(2, 4, 15))


_MERGE = "x.transpose(-3, -2).flatten(-2)"

MERGE_HEADS = Exercise(
    reference=merge_heads,
    probes=(
        _merge_a_batch,
        _merge_a_square,
        _merge_what_was_split,
        _merge_one,
        _merge_single_features,
        _merge_one_word,
        _merge_in_float32,
        _merge_in_bfloat16,
        _merge_gradient,
    ),
    misconceptions=(
        Misconception(
            name="reshaped_alone",
            says="the numbers are reshaped into the right shape, but not moved to the right place",
            hint="In memory all words of the first head stand before those of the second. A reshape alone "
            "would fill the first word with features of several words. Swap the axes back first.",
            paper=CONCAT,
            patch=[(_MERGE, "x.reshape(x.shape[0], x.shape[2], -1)")],
        ),
        Misconception(
            name="view_of_swapped_axes",
            says="`view` cannot join axes that do not lie side by side in memory",
            hint="Swapping axes moves no number, so what should stand together does not. `reshape` or "
            "`flatten` copies where it must; `.contiguous()` before `view` does the same.",
            paper=CONCAT,
            patch=[(_MERGE, "x.transpose(-3, -2).view(x.shape[0], x.shape[2], -1)")],
        ),
        Misconception(
            name="interleaved",
            says="the features are taken from the heads in turn, like cards",
            hint="All features of head 0 come first, then all of head 1: before the last two axes are "
            "joined they have to be (heads, width), in this order.",
            paper=CONCAT,
            patch=[(_MERGE, "x.permute(0, 2, 3, 1).flatten(-2)")],
        ),
        Misconception(
            name="not_joined",
            says="the axes are swapped, but heads and width are still two axes",
            hint="One axis is missing: (B, L, H, D/H) is to become (B, L, D).",
            paper=CONCAT,
            patch=[(_MERGE, "x.transpose(-3, -2)")],
        ),
        Misconception(
            name="along_the_length",
            says="the heads stand one after the other, which makes a sentence H times as long",
            hint="The heads of one word belong side by side, along the features: swap heads and length "
            "first.",
            paper=CONCAT,
            patch=[(_MERGE, "x.flatten(1, 2)")],
        ),
        Misconception(
            name="length_last",
            says="the features come before the words",
            hint="What comes out has a row for each word: (B, L, D).",
            paper=CONCAT,
            patch=[(_MERGE, "x.transpose(-2, -1).flatten(1, 2)")],
        ),
        Misconception(
            name="sentences_side_by_side",
            says="sentences stand side by side, where heads should",
            hint="A loop over x, and `list(x)`, run over the batch, which is the first axis. The heads "
            "are axis 1.",
            paper=CONCAT,
            patch=[(_MERGE, "x.movedim(0, -2).flatten(-2)")],
        ),
        Misconception(
            name="averaged",
            says="the heads are averaged",
            hint="The mean throws away who said what. The paper puts the heads side by side (Concat), and "
            "leaves it to the output projection how to mix them.",
            paper=CONCAT,
            patch=[(_MERGE, "x.mean(dim=1)")],
        ),
        Misconception(
            name="summed",
            says="the heads are added up",
            hint="A sum throws away who said what. The paper puts the heads side by side (Concat), and "
            "leaves it to the output projection how to mix them.",
            paper=CONCAT,
            patch=[(_MERGE, "x.sum(dim=1)")],
        ),
        Misconception(
            name="first_head_alone",
            says="only the first head is kept",
            hint="All heads go on, side by side: H times D/H features make D again.",
            paper=CONCAT,
            patch=[(_MERGE, "x[:, 0]")],
        ),
        Misconception(
            name="batch_lost",
            says="sentences and words are one axis",
            hint="The batch axis stays: (B, L, D). A -1 in the first place of a reshape swallows it.",
            paper=CONCAT,
            patch=[(_MERGE, "x.transpose(-3, -2).flatten(-2).flatten(0, 1)")],
        ),
        Misconception(
            name="detached",
            says="the graph is cut, so no gradient reaches the heads",
            hint=NO_GRADIENT,
            paper=CONCAT,
            patch=[(_MERGE, f"{_MERGE}.detach()")],
        ),
    ),
)

# --- MultiHeadAttention -------------------------------------------------------------------------------------

_LAYERS = ("query_projection", "key_projection", "value_projection", "output_projection")
_MATRICES = tuple(f"{layer}.weight" for layer in _LAYERS)


def _weights(draw: Draw, d_model: int, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Weights by the contract's names, of a size at which scores and outputs are about 1."""
    matrices = {name: draw.normal(d_model, d_model, dtype=dtype) / d_model**0.5 for name in _MATRICES}
    biases = {f"{layer}.bias": draw.normal(d_model, dtype=dtype) for layer in _LAYERS}
    return matrices | biases


def _loaded(
    candidate: Candidate, weights: Mapping[str, Tensor], *sizes: Any, **options: Any
) -> tuple[Candidate, Raised | None]:
    """An instance in evaluation mode with these weights in their dtype, or what stood in the way."""
    module = candidate.build(*sizes, **options)
    replies = [module.train(False)]
    if weights[_MATRICES[0]].dtype == torch.float64:
        replies.append(module.call(method="double"))
    replies.append(module.load(weights))
    return module, next((reply for reply in replies if isinstance(reply, Raised)), None)


def _attends(
    says: str,
    sizes: tuple[int, int, int, int, int],
    mask_of: Callable[[Draw], Tensor] | None = None,
    dtype: torch.dtype = torch.float64,
    attention: Callable[[], Fixture] | None = None,
) -> Probe:
    """Make a probe that attends from one sentence to another, in evaluation mode.

    `sizes` are batch, queries, keys, d_model and heads. Keys and values are not the same, so that none can
    stand for the other.
    """
    batch, queries, keys, d_model, heads = sizes

    @probe(says)
    def ask(candidate: Candidate, draw: Draw) -> Reply:
        options = {} if attention is None else {"attention": attention()}
        module, failed = _loaded(candidate, _weights(draw, d_model, dtype), d_model, heads, 0.3, **options)
        query = draw.normal(batch, queries, d_model, dtype=dtype)
        key, value = (draw.normal(batch, keys, d_model, dtype=dtype) for _ in range(2))
        if failed is not None:
            return failed
        return module.call(query, key, value, *(() if mask_of is None else (mask_of(draw),)))

    return ask


def _causal(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def _with_empty_row(draw: Draw) -> Tensor:
    mask = draw.coins(2, 3, 5)
    mask[:, :, 0] = True
    mask[1, 2] = False
    return mask


_several_heads = _attends(
    "a sentence attends to another with four heads, in float32", (2, 3, 5, 12, 4), dtype=torch.float32
)
_squares = _attends("as many sentences as heads, words and features a head", (3, 3, 3, 9, 3))
_one_head = _attends("a single head, and an odd number of features", (2, 4, 3, 7, 1))
_smallest = _attends("one sentence, one word, heads of one feature", (1, 1, 1, 2, 2))
_mask_of_three = _attends(
    "a mask of shape (B, Q, K) holds for every head", (2, 3, 5, 12, 4), lambda draw: draw.coins(2, 3, 5)
)
_mask_of_squares = _attends(
    "a mask of shape (B, Q, K) where there are as many sentences as heads and words",
    (3, 3, 3, 9, 3),
    lambda draw: draw.coins(3, 3, 3),
)
_mask_of_padding = _attends(
    "a mask of shape (B, 1, K) holds for every query and head",
    (2, 3, 5, 12, 4),
    lambda draw: torch.arange(5) < torch.tensor([[[5]], [[2]]]),
)
_mask_of_two = _attends(
    "a mask of shape (Q, K) holds for every sentence and head", (2, 4, 4, 6, 3), lambda draw: _causal(4)
)
_mask_of_two_in_a_square = _attends(
    "a mask of shape (Q, K) where there are as many sentences as words",
    (4, 4, 4, 6, 3),
    lambda draw: _causal(4),
)
_mask_of_four = _attends(
    "a mask of shape (B, H, Q, K) says for every head what it may look at",
    (2, 3, 5, 12, 4),
    lambda draw: draw.coins(2, 4, 3, 5),
)
_empty_row = _attends(
    "a query that may look at nothing gets the bias of the output projection",
    (2, 3, 5, 12, 4),
    _with_empty_row,
)
_other_attention = _attends(
    "the attention function that was handed in is the one that is used, and it gets the mask",
    (2, 3, 5, 12, 4),
    lambda draw: draw.coins(2, 3, 5),
    attention=mean_attention,
)


@probe("a sentence attends to itself, the same tensor in all three places, under a mask")
def _self_attention(candidate: Candidate, draw: Draw) -> Reply:
    module, failed = _loaded(candidate, _weights(draw, 6), 6, 2)
    x, mask = draw.normal(2, 4, 6), _causal(4).expand(2, 4, 4)
    return candidate.make(to_itself()).call(module, x, mask) if failed is None else failed


def _dropped(candidate: Candidate, draw: Draw, *rate: float, training: bool = True) -> Reply:
    # With this attention function the output says how strong the dropout was, not what it dropped.
    module, failed = _loaded(candidate, _weights(draw, 6), 6, 2, *rate, attention=dropout_strength())
    module.train(training)
    x = draw.normal(2, 3, 6)
    return module.call(x, x, x) if failed is None else failed


@probe("in training the attention function gets dropout of the rate asked for, and nothing else is dropped")
def _dropout_in_training(candidate: Candidate, draw: Draw) -> Reply:
    return _dropped(candidate, draw, 0.25)


@probe("a dropout of 0 drops nothing in training either")
def _no_dropout(candidate: Candidate, draw: Draw) -> Reply:
    return _dropped(candidate, draw, 0.0)


@probe("dropout is 0.1 where nothing else is said")
def _usual_dropout(candidate: Candidate, draw: Draw) -> Reply:
    return _dropped(candidate, draw)


@probe("in evaluation mode nothing is dropped")
def _dropout_in_evaluation(candidate: Candidate, draw: Draw) -> Reply:
    return _dropped(candidate, draw, 0.25, training=False)


@probe("keys and values of another batch size than the queries are refused")
def _other_batch(candidate: Candidate, draw: Draw) -> Any:
    module, failed = _loaded(candidate, _weights(draw, 6), 6, 2)
    memory = draw.normal(4, 3, 6)
    if failed is not None:
        return failed
    query = draw.normal(2, 3, 6)
    reply = candidate.make(error_of()).call(module, query, memory, memory)
    if isinstance(reply, Returned) and reply.value is None:
        module.call(query, memory, memory)  # Not to be compared, but to tell what was made of it.
    # Which error is free.
    return {"whether it is refused": reply.value is not None} if isinstance(reply, Returned) else reply


@probe("each projection starts with random numbers of its own")
def _starts(candidate: Candidate, draw: Draw) -> Reply:
    # The matrices alone: to start all biases at zero is right as well.
    return candidate.make(equal_weights(*_MATRICES)).call(candidate.build(6, 2))


@probe("a deep copy, made after a sentence went through, has the same weights, and they are its own")
def _copied(candidate: Candidate, draw: Draw) -> Any:
    module, failed = _loaded(candidate, _weights(draw, 6), 6, 2)
    x, others = draw.normal(2, 3, 6), _weights(draw, 6)
    if failed is not None:
        return failed
    module.call(x, x, x)
    copied = module.copy()
    same = copied.call(x, x, x)
    copied.load(others)
    return {
        "the copy": same,
        "the copy, with other weights": copied.call(x, x, x),
        "the original, after the copy was changed": module.call(x, x, x),
    }


@probe("gradients reach queries, keys, values and every weight")
def _gradients(candidate: Candidate, draw: Draw) -> Any:
    weights = _weights(draw, 6)
    module, failed = _loaded(candidate, weights, 6, 2)
    query, key, value = draw.normal(2, 3, 6), draw.normal(2, 5, 6), draw.normal(2, 5, 6)
    mask = draw.coins(2, 3, 5)
    if failed is not None:
        return failed
    reply = module.gradients(query, key, value, mask, toward=draw.normal(2, 3, 6))
    if not isinstance(reply, Returned):
        return reply
    arrived = reply.value["weights"]
    inputs = dict(zip(("query", "key", "value"), reply.value["inputs"], strict=True))
    return {
        **{f"the gradient of {name}": gradient for name, gradient in inputs.items()},
        **{f"the gradient of {name}": arrived.get(name) for name in weights},
    }


_FORWARD = "return self.output_projection(merge_heads(output))"
_MASK_AND_DROPOUT = "            mask,\n            self.dropout,\n"
_QUERY_LINE, _KEY_LINE, _VALUE_LINE = (
    f"            split_heads(self.{name}_projection({name}), self.heads),\n"
    for name in ("query", "key", "value")
)
_QUERY_LAYER, _KEY_LAYER, _VALUE_LAYER, _OUTPUT_LAYER = (
    f"        self.{layer} = nn.Linear(d_model, d_model)\n" for layer in _LAYERS
)
_THREE_LAYERS = _QUERY_LAYER + _KEY_LAYER + _VALUE_LAYER


def _by_reshape(name: str) -> str:
    x = f"self.{name}_projection({name})"
    return f"            {x}.reshape({name}.shape[0], self.heads, {name}.shape[1], -1),\n"


def _folded(name: str) -> str:
    width = "query.shape[-1] // self.heads"
    cut = f"reshape(query.shape[0], -1, self.heads, {width}).transpose(1, 2)"
    return f"            self.{name}_projection({name}).{cut},\n"


_alone = partial(alone, MultiHeadAttention)

MULTI_HEAD_ATTENTION = Exercise(
    reference=MultiHeadAttention,
    probes=(
        _several_heads,
        _squares,
        _one_head,
        _smallest,
        _mask_of_three,
        _mask_of_padding,
        _mask_of_two,
        _mask_of_two_in_a_square,
        _self_attention,
        _mask_of_four,
        _mask_of_squares,
        _empty_row,
        _other_attention,
        _dropout_in_training,
        _no_dropout,
        _usual_dropout,
        _dropout_in_evaluation,
        _other_batch,
        _starts,
        _copied,
        _gradients,
    ),
    misconceptions=(
        Misconception(
            name="no_output_projection",
            says="the output projection is missing",
            hint="Side by side, the heads know nothing of each other. The output projection mixes them.",
            paper=CONCAT,
            patch=[(_FORWARD, "return merge_heads(output)")],
        ),
        Misconception(
            name="dropout_on_output",
            says="dropout falls on the output",
            hint="Here it falls on the weights only, inside the attention function. Dropout on a "
            "sublayer's output comes in lesson 03.",
            paper=DROPOUT,
            patch=[(_FORWARD, "return self.dropout(self.output_projection(merge_heads(output)))")],
        ),
        Misconception(
            name="attention_ignored",
            says="the attention function that was handed in is not used",
            hint="`scaled_dot_product_attention` is only what `attention` is if nobody says otherwise. "
            "Keep the argument on the module, and call that.",
            paper=HEADS,
            patch=[("output, _ = self.attention(", "output, _ = scaled_dot_product_attention(")],
        ),
        Misconception(
            name="keys_from_query",
            says="the keys are made of the query, so this works only where a sentence looks at itself",
            hint="Three inputs, and each has a projection of its own: the key projection gets the key.",
            paper=PROJECTIONS,
            patch=[("self.key_projection(key)", "self.key_projection(query)")],
        ),
        Misconception(
            name="values_from_keys",
            says="the values are made of the key, and the value that was handed in is not used",
            hint="Most callers hand in the same tensor for both, so nobody notices. The value projection "
            "gets the value.",
            paper=PROJECTIONS,
            patch=[("self.value_projection(value)", "self.value_projection(key)")],
        ),
        Misconception(
            name="batch_from_query",
            says="the number of sentences is taken from the query for keys and values too, so a batch "
            "that does not fit is folded into the length",
            hint="A -1 in a reshape swallows whatever is left over: 4 sentences of 3 words become 2 of 6, "
            "and nobody hears of it. Take each tensor's own sizes, as split_heads does; then a wrong "
            "batch is an error.",
            paper=PROJECTIONS,
            patch=[(_KEY_LINE + _VALUE_LINE, _folded("key") + _folded("value"))],
        ),
        Misconception(
            name="mask_not_passed",
            says="the mask is not handed on",
            hint="The attention function takes the mask as its fourth argument.",
            paper=MASK,
            patch=[(_MASK_AND_DROPOUT, "            None,\n            self.dropout,\n")],
        ),
        Misconception(
            name="mask_inverted",
            says="the mask is turned round on its way",
            hint="True means «may look» here and in the attention function. Hand the mask on as it is.",
            paper=MASK,
            patch=[
                (
                    _MASK_AND_DROPOUT,
                    "            None if mask is None else ~mask,\n            self.dropout,\n",
                ),
            ],
        ),
        Misconception(
            name="no_head_axis",
            says="a mask of shape (B, Q, K) is not given an axis for the heads",
            hint="The scores have four axes, (B, H, Q, K), and axes are matched from the end: the mask's "
            "B meets H. With as many sentences as heads not even an error says so, and each head obeys "
            "another sentence's mask. Put an axis of length one in between.",
            paper=MASK,
            patch=[("mask = mask.unsqueeze(1)", "mask = mask + False")],
        ),
        Misconception(
            name="head_axis_always",
            says="an axis for the heads is put into every mask, also one of shape (Q, K) or (B, H, Q, K)",
            hint="Only a mask of three axes lacks it. The other two already fit the scores (B, H, Q, K).",
            paper=MASK,
            patch=[("if mask is not None and mask.dim() == 3:", "if mask is not None:")],
        ),
        Misconception(
            name="dropout_not_passed",
            says="dropout is not handed to the attention function",
            hint="It takes `(query, key, value, mask, dropout)`, and drops weights only where dropout is "
            "given.",
            paper=DROPOUT,
            patch=[(_MASK_AND_DROPOUT, "            mask,\n")],
        ),
        Misconception(
            name="dropout_in_evaluation",
            says="dropout goes on in evaluation mode",
            hint="`nn.functional.dropout` drops unless it is told not to. An `nn.Dropout` knows which "
            "mode its module is in.",
            paper=DROPOUT,
            patch=[
                (
                    _MASK_AND_DROPOUT,
                    "            mask,\n            lambda x: nn.functional.dropout(x, self.dropout.p),\n",
                ),
            ],
        ),
        Misconception(
            name="dropout_fixed",
            says="the rate of dropout is always 0.1, whatever was asked for",
            hint="Hand the argument on: `nn.Dropout(dropout)`. As it is, `dropout=0` still drops weights.",
            paper=DROPOUT,
            patch=[("nn.Dropout(dropout)", "nn.Dropout(0.1)")],
        ),
        # Last, so that no other can be put in after them.
        Misconception(
            name="split_by_reshape",
            says="the projections are cut into heads by a reshape alone, which gives whole words to each "
            "head",
            hint="A reshape from (B, L, D) to (B, H, L, D/H) keeps the order in memory. Your split_heads "
            "cuts the features and then swaps the axes: use it.",
            paper=HEADS,
            patch=_alone(
                (_QUERY_LINE + _KEY_LINE + _VALUE_LINE, "".join(map(_by_reshape, ("query", "key", "value")))),
            ),
        ),
        Misconception(
            name="merged_by_reshape",
            says="the heads are put together by a reshape alone, which fills a word with features of "
            "several words",
            hint="The head axis stands before the length, and has to go back behind it before the two are "
            "joined. Your merge_heads does that: use it.",
            paper=CONCAT,
            patch=_alone((_FORWARD, "return self.output_projection(output.reshape(query.shape))")),
        ),
        Misconception(
            name="residual_added",
            says="the query is added to the output",
            hint="That is the residual connection around attention, and it is lesson 03's.",
            paper=CONCAT,
            patch=_alone((_FORWARD, "return query + self.output_projection(merge_heads(output))")),
        ),
        Misconception(
            name="weights_returned",
            says="the weights are handed back too, where the output alone is asked for",
            hint="Whatever stands next in the network wants the output. Who wants to see the weights "
            "hands in an attention function that keeps them.",
            paper=CONCAT,
            patch=_alone((_FORWARD, "return self.output_projection(merge_heads(output)), _")),
        ),
        Misconception(
            name="pair_not_unpacked",
            says="what the attention function gives back is used as it is, and that is a pair",
            hint="It gives `(output, weights)`. Unpack it: `output, _ = self.attention(...)`.",
            paper=CONCAT,
            patch=_alone(("output, _ = self.attention(", "output = self.attention(")),
        ),
        Misconception(
            name="weights_kept",
            says="the weights are kept on the module with their graph, so it cannot be copied",
            hint="A tensor that hangs on its graph also keeps all that was computed before it in memory. "
            "Lesson 06 copies modules. Keep no weights; to see them, hand in an attention function that "
            "records them.",
            paper=CONCAT,
            patch=_alone(("output, _ = self.attention(", "output, self.weights = self.attention(")),
        ),
        Misconception(
            name="keys_and_values_swapped",
            says="keys and values have changed places on their way to the attention function",
            hint="It takes query, key, value, in this order: keys say where to look, values are what is "
            "found there.",
            paper=PROJECTIONS,
            patch=_alone((_KEY_LINE + _VALUE_LINE, _VALUE_LINE + _KEY_LINE)),
        ),
        Misconception(
            name="head_axis_after_queries",
            says="the mask's axis for the heads stands behind the queries",
            hint="The scores are (B, H, Q, K), so (B, Q, K) has to become (B, 1, Q, K).",
            paper=MASK,
            patch=_alone(("mask = mask.unsqueeze(1)", "mask = mask.unsqueeze(2)")),
        ),
        Misconception(
            name="rate_passed",
            says="the attention function is handed the rate of dropout, where it calls for a function",
            hint="It calls what it gets on the weights. Hand over the `nn.Dropout` itself.",
            paper=DROPOUT,
            patch=_alone((_MASK_AND_DROPOUT, "            mask,\n            self.dropout.p,\n")),
        ),
        Misconception(
            name="no_bias",
            says="the projections have no bias",
            hint="The paper's formula has none, but most code has, and this course's: without them "
            "weights could not be exchanged. `nn.Linear` has one unless it is told not to.",
            paper=PROJECTIONS,
            patch=_alone(
                (
                    _THREE_LAYERS + _OUTPUT_LAYER,
                    (_THREE_LAYERS + _OUTPUT_LAYER).replace("d_model)\n", "d_model, bias=False)\n"),
                ),
            ),
        ),
        Misconception(
            name="one_head_wide",
            says="queries, keys and values are projected to the width of one head",
            hint="Each layer makes the projections of all heads at once, side by side: d_model features "
            "in, and H times D/H, which is d_model, out.",
            paper=HEADS,
            patch=_alone(
                (_THREE_LAYERS, _THREE_LAYERS.replace("d_model)\n", "d_model // heads)\n")),
            ),
        ),
        Misconception(
            name="one_layer_for_all",
            says="queries, keys and values share one layer",
            hint="With a common projection a word fits itself best of all again. Three layers are needed, "
            "to ask with another vector than the one by which it is found.",
            paper=PROJECTIONS,
            patch=_alone(
                (
                    _KEY_LAYER + _VALUE_LAYER,
                    "        self.key_projection = self.value_projection = self.query_projection\n",
                ),
            ),
        ),
        Misconception(
            name="deep_copied",
            says="the projections start as copies of one layer, with the same numbers in each",
            hint="A deep copy copies the numbers too. Query and key then start out the same, so each word "
            "looks at itself. Make each layer anew, and it draws its own.",
            paper=PROJECTIONS,
            patch=_alone(
                (
                    _KEY_LAYER + _VALUE_LAYER + _OUTPUT_LAYER,
                    "        deepcopy = __import__('copy').deepcopy\n"
                    "        self.key_projection, self.value_projection, self.output_projection = (\n"
                    "            deepcopy(self.query_projection) for _ in range(3)\n"
                    "        )\n",
                ),
            ),
        ),
    ),
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_FEATURE = Prediction(
    name="predict_feature",
    answer=197,
    tolerance=1e-6,
    hint="How many features has a head? Head 0 gets so many from the front, head 1 the next ones.",
    misconceptions=(
        WrongNumber(
            "interleaved", 43, "That would be so if the features were dealt out in turn, like cards."
        ),
        WrongNumber(
            "counted_from_one", 133, "Heads are counted from 0 here: heads 0, 1 and 2 come before head 3."
        ),
        WrongNumber("width_is_heads", 29, "That would be so with heads of 8 features. There are 8 heads."),
        WrongNumber(
            "place_in_head", 5, "That is its place inside the head. Three heads stand before it in x."
        ),
        WrongNumber(
            "one_too_many", 198, "Near: features are counted from 0 as well, so feature 5 is the sixth."
        ),
        WrongNumber(
            "head_alone", 192, "That is where head 3 begins. The feature asked for is a little further on."
        ),
    ),
)

PREDICT_PARAMETERS = Prediction(
    name="predict_parameters",
    answer=1_050_624,
    tolerance=1e-6,
    hint="Each of the layers has a matrix of d_model by d_model and a bias. How many layers are there, "
    "and does the number of heads come into it?",
    misconceptions=(
        WrongNumber("no_bias", 1_048_576, "Those are the matrices. Each layer has a bias as well."),
        WrongNumber("no_output", 787_968, "Those are three layers. What comes after the heads are merged?"),
        WrongNumber("matrices_of_three", 786_432, "A fourth layer is missing, and so are the biases."),
        WrongNumber(
            "times_heads",
            8_404_992,
            "That would be eight layers of full width for each. But a head has only a share of the features.",
        ),
        WrongNumber("one_layer", 262_656, "That is one layer. There are more."),
        WrongNumber(
            "one_head",
            131_328,
            "That would be four layers that make the 64 features of one head. They make those of all heads.",
        ),
    ),
)

PREDICT_WEIGHTS = Prediction(
    name="predict_weights",
    answer=80_000,
    tolerance=1e-6,
    hint="How many weights has one query, in one head? How many queries are there, and how many heads?",
    misconceptions=(
        WrongNumber(
            "one_head", 10_000, "That is the table of one head. Every head makes a table of its own."
        ),
        WrongNumber("one_query", 800, "That is what one word needs. There are a hundred words that ask."),
        WrongNumber(
            "times_width",
            640_000,
            "A weight is one number for a pair of words in a head, however wide the head is.",
        ),
        WrongNumber(
            "times_d_model",
            5_120_000,
            "A weight is one number for a pair of words in a head. Features don't count.",
        ),
    ),
)

CATALOGUE = (
    PREDICT_FEATURE,
    SPLIT_HEADS,
    MERGE_HEADS,
    PREDICT_PARAMETERS,
    MULTI_HEAD_ATTENTION,
    PREDICT_WEIGHTS,
)
