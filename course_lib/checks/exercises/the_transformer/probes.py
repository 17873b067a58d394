"""Lesson 06: a layer of the encoder and of the decoder, the whole model, tied embeddings, greedy decoding."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.checks.engine.candidate import Candidate, Fixture
from course_lib.checks.engine.exercise import Exercise, Misconception, Prediction, WrongNumber
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Raised, Reply, Returned, after, value_of
from course_lib.checks.exercises.fixtures.facts import error_of
from course_lib.checks.exercises.fixtures.models import config
from course_lib.checks.exercises.fixtures.reader import reader
from course_lib.checks.exercises.fixtures.scripted_model import phrasebook
from course_lib.transformer import (
    DecoderLayer,
    EncoderLayer,
    Transformer,
    TransformerConfig,
    causal_mask,
    greedy_decode,
    tie_embeddings,
)

FIGURE = "figure 1 and section 3.1: what a layer is made of, and in which order"
RESIDUAL = "section 3.1: LayerNorm(x + Sublayer(x))"
PRE_NORM = "Xiong et al. 2020 (arXiv 2002.04745), figure 1: pre-norm beside post-norm"
ATTENTION = "section 3.2.3: the three uses of attention"
DROPOUT = "section 5.4: residual dropout, also on the sums of embeddings and positions"
EMBEDDINGS = "section 3.4: embeddings and softmax"
POSITIONS = "section 3.5: positional encoding"
GLOROT = "Glorot and Bengio 2010: how large weights should start"
AUTOREGRESSIVE = "section 3.1: at each step the model is auto-regressive"


def _drawn(draw: Draw, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Draw weights under which every part of a layer makes itself felt."""
    weights = {}
    for name, shape in shapes.items():
        numbers = draw.normal(*shape)
        if name.endswith("scale"):
            numbers = 1.0 + 0.3 * numbers
        elif len(shape) > 1:
            numbers = 1.5 * numbers / math.sqrt(shape[-1])
        weights[name] = numbers
    return weights


def _shapes_of(make: Callable[[], nn.Module]) -> dict[str, torch.Size]:
    with torch.random.fork_rng(devices=[]):
        return {name: entry.shape for name, entry in make().state_dict().items()}


def _source_mask() -> Tensor:
    """Two sentences of five tokens, of which the second ends on two of padding."""
    return torch.tensor([[[1, 1, 1, 1, 1]], [[1, 1, 1, 0, 0]]], dtype=torch.bool)


def _target_mask(length: int) -> Tensor:
    return causal_mask(length).expand(2, length, length).clone()


def _weights_named(reply: Reply, names: Mapping[str, Any]) -> Any:
    """Keep what the contract names of the gradients: other parameters are the student's own affair."""
    if not isinstance(reply, Returned):
        return reply
    found = reply.value["weights"]
    return {"inputs": reply.value["inputs"], **{name: found.get(name) for name in names}}


# --- EncoderLayer -------------------------------------------------------------------------------------------


@cache
def _encoder_shapes(d_model: int, heads: int, d_ff: int) -> dict[str, torch.Size]:
    return _shapes_of(lambda: EncoderLayer(d_model, heads, d_ff))


def _encoder(
    candidate: Candidate, draw: Draw, sizes: tuple[int, int, int] = (6, 2, 9), **settings: Any
) -> tuple[Candidate, Reply]:
    layer = candidate.build(*sizes, **settings)
    layer.call(method="double")
    return layer, layer.load(_drawn(draw, _encoder_shapes(*sizes)))


@probe("attention and then the feed-forward network, each with its sum and its normalisation")
def _encoder_values(candidate: Candidate, draw: Draw) -> Any:
    # The plainest probe is the quickest: it is what tells most mistakes apart.
    layer = candidate.build(6, 2, 16, dropout=0.0)
    loaded = layer.load(_drawn(draw, _encoder_shapes(6, 2, 16)))
    return after(loaded, lambda: layer.call(draw.normal(2, 5, 6, dtype=torch.float32), _source_mask()))


@probe("with norm_first=True, each sublayer reads the normalised input, and the sum is left as it is")
def _encoder_norm_first(candidate: Candidate, draw: Draw) -> Any:
    layer, loaded = _encoder(candidate, draw, norm_first=True)
    layer.train(False)
    return after(loaded, lambda: layer.call(draw.normal(2, 5, 6), _source_mask()))


@probe("a mask with a row for each query is kept to, and the number of heads is the one asked for")
def _encoder_full_mask(candidate: Candidate, draw: Draw) -> Any:
    layer, loaded = _encoder(candidate, draw, (6, 3, 4))
    layer.train(False)
    return after(loaded, lambda: layer.call(draw.normal(2, 4, 6), _target_mask(4)))


@probe("one sentence of one token, with five features, is enough")
def _encoder_of_one(candidate: Candidate, draw: Draw) -> Any:
    layer, loaded = _encoder(candidate, draw, (5, 1, 7), dropout=0.3)
    layer.train(False)
    return after(loaded, lambda: layer.call(draw.normal(1, 1, 5), torch.ones(1, 1, 1, dtype=torch.bool)))


@probe("dropout acts in training mode, and in evaluation mode not at all")
def _encoder_modes(candidate: Candidate, draw: Draw) -> Any:
    layer, loaded = _encoder(candidate, draw, dropout=0.5)
    x = draw.normal(2, 5, 6)
    return after(loaded, lambda: _dropout_facts(layer, x, _source_mask()))


def _dropout_facts(module: Candidate, *arguments: Any) -> Any:
    training = module.call(*arguments)
    module.train(False)
    evaluation, again = module.call(*arguments), module.call(*arguments)
    for reply in (training, evaluation, again):
        if not isinstance(reply, Returned) or not isinstance(reply.value, Tensor):
            return reply
    assert isinstance(training, Returned)
    assert isinstance(evaluation, Returned)
    assert isinstance(again, Returned)
    return {
        "what dropout does in training": "nothing"
        if _equal(training.value, evaluation.value)
        else "it drops",
        "what two calls in evaluation mode give": "the same"
        if _equal(evaluation.value, again.value)
        else "something different",
    }


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one.double(), other.double())


def _strengths(
    layer: Candidate, shapes: Mapping[str, torch.Size], *arguments: Any, said: str, part: str
) -> Any:
    """Let one part of a pre-norm layer of two features speak, and see how loud dropout makes it in training.

    What is kept is doubled twice: inside the part, and in the connection around it.
    """
    weights = {name: torch.full(shape, float(name.endswith("scale"))) for name, shape in shapes.items()}
    if part == "feed_forward":
        weights |= {
            f"{part}.inner.weight": torch.tensor([[1.0, 0.0]]),
            f"{part}.outer.weight": torch.ones(2, 1),
        }
    else:
        weights |= {f"{part}.{which}_projection.weight": torch.eye(2) for which in ("value", "output")}
    loaded = layer.load(weights)
    reply = layer.call(*arguments)
    if isinstance(loaded, Raised) or not isinstance(reply, Returned) or not isinstance(reply.value, Tensor):
        return after(loaded, lambda: reply)
    steps = (reply.value.double() - arguments[0]).abs() if reply.value.shape == arguments[0].shape else None
    found = None if steps is None else tuple(sorted({round(step, 2) for step in steps.flatten().tolist()}))
    return {f"what {said} adds to an input of one, with a dropout of 0.5": found}


def _loud(rows: int = 64) -> Tensor:
    return torch.tensor([1.0, -1.0], dtype=torch.float64).expand(rows, 1, 2).clone()


@probe("dropout falls on the attention's weights, inside the feed-forward network, and on what each adds")
def _encoder_dropout(candidate: Candidate, draw: Draw) -> Any:
    layer = candidate.build(2, 1, 1, dropout=0.5, norm_first=True)
    layer.call(method="double")
    given, shapes = (_loud(), torch.ones(64, 1, 1, dtype=torch.bool)), _encoder_shapes(2, 1, 1)
    return tuple(
        _strengths(layer, shapes, *given, said=said, part=part)
        for part, said in (("self_attention", "the attention"), ("feed_forward", "the feed-forward network"))
    )


@probe("gradients reach the input and every weight")
def _encoder_gradient(candidate: Candidate, draw: Draw) -> Any:
    layer, loaded = _encoder(candidate, draw)
    layer.train(False)
    x, toward = draw.normal(2, 5, 6), draw.normal(2, 5, 6)
    reply = layer.gradients(x, _source_mask(), toward=toward)
    return after(loaded, lambda: _weights_named(reply, _encoder_shapes(6, 2, 9)))


@probe("a deep copy has weights of its own, and a state dict puts them back")
def _encoder_copy(candidate: Candidate, draw: Draw) -> Any:
    layer, loaded = _encoder(candidate, draw)
    layer.train(False)
    copy = layer.copy()
    copy.load(_drawn(draw, _encoder_shapes(6, 2, 9)))
    x = draw.normal(2, 5, 6)
    return after(
        loaded, lambda: (value_of(layer.call(x, _source_mask())), value_of(copy.call(x, _source_mask())))
    )


ENCODER_LAYER = Exercise(
    reference=EncoderLayer,
    probes=(
        _encoder_values,
        _encoder_norm_first,
        _encoder_full_mask,
        _encoder_of_one,
        _encoder_modes,
        _encoder_dropout,
        _encoder_gradient,
        _encoder_copy,
    ),
    misconceptions=(
        Misconception(
            name="mask_not_passed",
            says="the source mask does not reach the attention",
            hint="It is the fourth argument of self_attention. Without it words look at padding, which means "
            "nothing.",
            paper=ATTENTION,
            patch=[("self.self_attention(x, x, x, source_mask)", "self.self_attention(x, x, x)")],
        ),
        Misconception(
            name="mask_inverted",
            says="the mask is turned round on its way",
            hint="True means «may look» everywhere in this course. Hand the mask on as it is.",
            paper=ATTENTION,
            patch=[("(x, x, x, source_mask)", "(x, x, x, ~source_mask)")],
        ),
        Misconception(
            name="attention_left_out",
            says="the self-attention is not in it",
            hint="An encoder layer has two sublayers: self-attention first, then the feed-forward network.",
            paper=FIGURE,
            patch=[
                (
                    "        x = attend(x, lambda x: self.self_attention(x, x, x, source_mask))\n",
                    "",
                )
            ],
        ),
        Misconception(
            name="attention_lost",
            says="the feed-forward network reads the layer's input, and what attention gave is thrown away",
            hint="The layer is a chain: what comes out of the first sublayer goes into the second.",
            paper=FIGURE,
            patch=[("        x = attend(", "        attended = attend(")],
        ),
        Misconception(
            name="feed_forward_left_out",
            says="the feed-forward network is not in it",
            hint="An encoder layer has two sublayers: self-attention first, then the feed-forward network.",
            paper=FIGURE,
            patch=[("return feed(x, self.feed_forward)", "return x")],
        ),
        Misconception(
            name="feed_forward_first",
            says="the feed-forward network comes before the attention",
            hint="In figure 1 the words go upwards: attention stands below, so it comes first.",
            paper=FIGURE,
            patch=[
                ("        x = attend(", "        x = feed(x, self.feed_forward)\n        return attend("),
                ("        return feed(x, self.feed_forward)", ""),
            ],
        ),
        Misconception(
            name="connections_swapped",
            says="the two sublayer connections have changed places",
            hint="sublayers[0] belongs to the attention and sublayers[1] to the feed-forward network: each "
            "has a normalisation with weights of its own.",
            paper=FIGURE,
            patch=[("attend, feed = self.sublayers", "feed, attend = self.sublayers")],
        ),
        Misconception(
            name="one_connection_for_both",
            says="the first sublayer connection is used for both sublayers",
            hint="Each sublayer has its own connection, whose normalisation learns a scale and shift of its "
            "own.",
            paper=FIGURE,
            patch=[("return feed(x, self.feed_forward)", "return attend(x, self.feed_forward)")],
        ),
        Misconception(
            name="same_connection_twice",
            says="the list of sublayers holds the same connection twice",
            hint="`[connection] * 2` is one object under two names, so both sublayers share one "
            "normalisation. Make a new one each time.",
            paper=FIGURE,
            patch=[
                (
                    "nn.ModuleList(SublayerConnection(d_model, dropout, norm_first) for _ in range(2))",
                    "nn.ModuleList([SublayerConnection(d_model, dropout, norm_first)] * 2)",
                )
            ],
        ),
        Misconception(
            name="plain_list",
            says="the sublayers stand in a plain list, where PyTorch does not see their weights",
            hint="nn.Module finds modules in its attributes, and in nn.ModuleList, but not inside a Python "
            "list: they would not be trained, moved to a device or saved.",
            paper="the documentation of torch.nn.ModuleList",
            patch=[
                (
                    "nn.ModuleList(SublayerConnection(d_model, dropout, norm_first) for _ in range(2))",
                    "[SublayerConnection(d_model, dropout, norm_first) for _ in range(2)]",
                )
            ],
        ),
        Misconception(
            name="no_residual_around_attention",
            says="the attention stands without its sublayer connection",
            hint="Let the connection call it: it adds the input, drops out and normalises.",
            paper=RESIDUAL,
            patch=[
                (
                    "attend(x, lambda x: self.self_attention(x, x, x, source_mask))",
                    "self.self_attention(x, x, x, source_mask)",
                )
            ],
        ),
        Misconception(
            name="no_residual_around_feed_forward",
            says="the feed-forward network stands without its sublayer connection",
            hint="Let the connection call it: it adds the input, drops out and normalises.",
            paper=RESIDUAL,
            patch=[("return feed(x, self.feed_forward)", "return self.feed_forward(x)")],
        ),
        Misconception(
            name="residual_twice",
            says="the input of the attention is added twice",
            hint="The sublayer connection has added it already.",
            paper=RESIDUAL,
            patch=[("x = attend(", "x = x + attend(")],
        ),
        Misconception(
            name="called_too_early",
            says="the attention is called at once, and the connection gets its result in place of a function",
            hint="The connection has to call the sublayer itself, because with norm_first it normalises what "
            "it hands to it. Give it a function: `lambda x: ...`.",
            paper=RESIDUAL,
            patch=[("lambda x: self.self_attention", "self.self_attention")],
        ),
        Misconception(
            name="outer_x",
            says="the attention reads the layer's input, and not what the connection hands to it",
            hint="With norm_first the connection hands over a normalised x. Queries, keys and values are all "
            "that argument: use the name that your function gets.",
            paper=PRE_NORM,
            patch=[
                (
                    "lambda x: self.self_attention(x, x, x, source_mask)",
                    "lambda _: self.self_attention(x, x, x, source_mask)",
                )
            ],
        ),
        Misconception(
            name="keys_not_normalised",
            says="only the query is what the connection hands over; keys and values are the layer's input",
            hint="With norm_first the connection hands over a normalised x. Queries, keys and values are all "
            "that.",
            paper=PRE_NORM,
            patch=[
                (
                    "lambda x: self.self_attention(x, x, x, source_mask)",
                    "lambda y: self.self_attention(y, x, x, source_mask)",
                )
            ],
        ),
        Misconception(
            name="norm_first_not_passed",
            says="norm_first is not handed to the sublayer connections",
            hint="The connection decides where to normalise, so it has to know: it is its third argument.",
            paper=PRE_NORM,
            patch=[
                ("SublayerConnection(d_model, dropout, norm_first)", "SublayerConnection(d_model, dropout)")
            ],
        ),
        Misconception(
            name="attention_keeps_dropout",
            says="the attention does not get the dropout, and keeps its own 0.1",
            hint="Three parts drop out: attention, the feed-forward network and the connections. Hand "
            "dropout to each.",
            paper=DROPOUT,
            patch=[
                (
                    "MultiHeadAttention(d_model, heads, dropout, attention)",
                    "MultiHeadAttention(d_model, heads, attention=attention)",
                )
            ],
        ),
        Misconception(
            name="feed_forward_keeps_dropout",
            says="the feed-forward network does not get the dropout, and keeps its own 0.1",
            hint="Three parts drop out: attention, the feed-forward network and the connections. Hand "
            "dropout to each.",
            paper=DROPOUT,
            patch=[("FeedForward(d_model, d_ff, dropout)", "FeedForward(d_model, d_ff)")],
        ),
        Misconception(
            name="connections_keep_dropout",
            says="the sublayer connections do not get the dropout, and keep their own 0.1",
            hint="Three parts drop out: attention, the feed-forward network and the connections. Hand "
            "dropout to each.",
            paper=DROPOUT,
            patch=[
                (
                    "SublayerConnection(d_model, dropout, norm_first)",
                    "SublayerConnection(d_model, norm_first=norm_first)",
                )
            ],
        ),
    ),
)

# --- DecoderLayer -------------------------------------------------------------------------------------------


@cache
def _decoder_shapes(d_model: int, heads: int, d_ff: int) -> dict[str, torch.Size]:
    return _shapes_of(lambda: DecoderLayer(d_model, heads, d_ff))


def _decoder(
    candidate: Candidate, draw: Draw, sizes: tuple[int, int, int] = (6, 2, 9), **settings: Any
) -> tuple[Candidate, Reply]:
    layer = candidate.build(*sizes, **settings)
    layer.call(method="double")
    return layer, layer.load(_drawn(draw, _decoder_shapes(*sizes)))


@probe("attention to the target, attention to the memory, the feed-forward network, each with sum and norm")
def _decoder_values(candidate: Candidate, draw: Draw) -> Any:
    layer = candidate.build(6, 2, 16, dropout=0.0)
    loaded = layer.load(_drawn(draw, _decoder_shapes(6, 2, 16)))
    x, memory = (draw.normal(2, length, 6, dtype=torch.float32) for length in (4, 5))
    return after(loaded, lambda: layer.call(x, memory, _source_mask(), _target_mask(4)))


@probe("source and target of the same length: each mask still belongs to its own attention")
def _decoder_same_length(candidate: Candidate, draw: Draw) -> Any:
    layer, loaded = _decoder(candidate, draw, (6, 3, 4))
    layer.train(False)
    x, memory = draw.normal(2, 5, 6), draw.normal(2, 5, 6)
    # Masks that differ from sentence to sentence, and that no layer would think of by itself.
    source_mask, target_mask = _source_mask(), _target_mask(5)
    source_mask[0, 0, 1] = False
    target_mask[0, 0, 3] = True
    target_mask[1, 2:, 1] = False
    return after(loaded, lambda: layer.call(x, memory, source_mask, target_mask))


@probe("with norm_first=True, each sublayer reads the normalised input, and the memory as it is")
def _decoder_norm_first(candidate: Candidate, draw: Draw) -> Any:
    layer, loaded = _decoder(candidate, draw, norm_first=True)
    layer.train(False)
    x, memory = draw.normal(2, 4, 6), draw.normal(2, 5, 6)
    return after(loaded, lambda: layer.call(x, memory, _source_mask(), _target_mask(4)))


@probe("one sentence of one token, with five features, is enough")
def _decoder_of_one(candidate: Candidate, draw: Draw) -> Any:
    layer, loaded = _decoder(candidate, draw, (5, 1, 7), dropout=0.3)
    layer.train(False)
    x, memory, mask = draw.normal(1, 1, 5), draw.normal(1, 1, 5), torch.ones(1, 1, 1, dtype=torch.bool)
    return after(loaded, lambda: layer.call(x, memory, mask, mask))


@probe("dropout acts in training mode, and in evaluation mode not at all")
def _decoder_modes(candidate: Candidate, draw: Draw) -> Any:
    layer, loaded = _decoder(candidate, draw, dropout=0.5)
    x, memory = draw.normal(2, 4, 6), draw.normal(2, 5, 6)
    return after(loaded, lambda: _dropout_facts(layer, x, memory, _source_mask(), _target_mask(4)))


@probe(
    "dropout falls on the weights of both attentions, inside the feed-forward network, and on what each adds"
)
def _decoder_dropout(candidate: Candidate, draw: Draw) -> Any:
    layer = candidate.build(2, 1, 1, dropout=0.5, norm_first=True)
    layer.call(method="double")
    mask = torch.ones(64, 1, 1, dtype=torch.bool)
    return tuple(
        _strengths(layer, _decoder_shapes(2, 1, 1), _loud(), _loud(), mask, mask, said=said, part=part)
        for part, said in (
            ("self_attention", "the self-attention"),
            ("cross_attention", "the cross-attention"),
            ("feed_forward", "the feed-forward network"),
        )
    )


@probe("gradients reach the input, the memory and every weight")
def _decoder_gradient(candidate: Candidate, draw: Draw) -> Any:
    layer, loaded = _decoder(candidate, draw)
    layer.train(False)
    x, memory, toward = draw.normal(2, 4, 6), draw.normal(2, 5, 6), draw.normal(2, 4, 6)
    reply = layer.gradients(x, memory, _source_mask(), _target_mask(4), toward=toward)
    return after(loaded, lambda: _weights_named(reply, _decoder_shapes(6, 2, 9)))


@probe("a deep copy has weights of its own, and a state dict puts them back")
def _decoder_copy(candidate: Candidate, draw: Draw) -> Any:
    layer, loaded = _decoder(candidate, draw)
    layer.train(False)
    copy = layer.copy()
    copy.load(_drawn(draw, _decoder_shapes(6, 2, 9)))
    given = (draw.normal(2, 4, 6), draw.normal(2, 5, 6), _source_mask(), _target_mask(4))
    return after(loaded, lambda: (value_of(layer.call(*given)), value_of(copy.call(*given))))


DECODER_LAYER = Exercise(
    reference=DecoderLayer,
    probes=(
        _decoder_values,
        _decoder_same_length,
        _decoder_norm_first,
        _decoder_of_one,
        _decoder_modes,
        _decoder_dropout,
        _decoder_gradient,
        _decoder_copy,
    ),
    misconceptions=(
        Misconception(
            name="self_with_source_mask",
            says="the self-attention gets the source mask, where it needs the target's",
            hint="A mask belongs to the keys. Those of the self-attention are the target's positions, and it "
            "must not see the ones to come.",
            paper=ATTENTION,
            patch=[("(x, x, x, target_mask)", "(x, x, x, source_mask)")],
        ),
        Misconception(
            name="cross_with_target_mask",
            says="the cross-attention gets the target mask, where it needs the source's",
            hint="A mask belongs to the keys. Those of the cross-attention are the source's positions, some "
            "of which are padding.",
            paper=ATTENTION,
            patch=[("(x, memory, memory, source_mask)", "(x, memory, memory, target_mask)")],
        ),
        Misconception(
            name="target_mask_not_passed",
            says="the self-attention does not get the target mask, so each position sees the words to come",
            hint="In training the whole target lies there. Only the mask keeps a position from copying the "
            "answer.",
            paper=ATTENTION,
            patch=[("self.self_attention(x, x, x, target_mask)", "self.self_attention(x, x, x)")],
        ),
        Misconception(
            name="source_mask_not_passed",
            says="the cross-attention does not get the source mask, so it looks at padding",
            hint="Keys and values are the source's positions, and some of those are padding.",
            paper=ATTENTION,
            patch=[("(x, memory, memory, source_mask)", "(x, memory, memory)")],
        ),
        Misconception(
            name="memory_ignored",
            says="the cross-attention looks at the target again, and the memory is not used",
            hint="Keys and values come from the memory: that is the only way in which the source gets into "
            "the decoder.",
            paper=ATTENTION,
            patch=[("(x, memory, memory, source_mask)", "(x, x, x, target_mask)")],
        ),
        Misconception(
            name="values_from_target",
            says="the values of the cross-attention come from the target",
            hint="Keys and values go together: what is found at a key is its value. Both come from the "
            "memory.",
            paper=ATTENTION,
            patch=[("(x, memory, memory, source_mask)", "(x, memory, x, source_mask)")],
        ),
        Misconception(
            name="memory_asks",
            says="in the cross-attention the memory asks and the target is looked at, the wrong way round",
            hint="The one who writes asks: the query is x, and there is one output for each position of the "
            "target.",
            paper=ATTENTION,
            patch=[("(x, memory, memory, source_mask)", "(memory, x, x, source_mask)")],
        ),
        Misconception(
            name="one_attention_for_both",
            says="the self-attention's weights are used for the cross-attention too",
            hint="They look for different things, so each has projections of its own: self.cross_attention.",
            paper=FIGURE,
            patch=[("self.cross_attention(x", "self.self_attention(x")],
        ),
        Misconception(
            name="cross_attention_first",
            says="the cross-attention comes before the self-attention",
            hint="In figure 1 the words go upwards: first the target looks at itself, then at the source.",
            paper=FIGURE,
            patch=[
                (
                    "        x = attend(x, lambda x: self.self_attention(x, x, x, target_mask))\n",
                    "",
                ),
                (
                    "        return feed(x",
                    "        x = attend(x, lambda x: self.self_attention(x, x, x, target_mask))\n"
                    "        return feed(x",
                ),
            ],
        ),
        Misconception(
            name="cross_attention_left_out",
            says="the cross-attention is not in it",
            hint="A decoder layer has three sublayers. Without the middle one it writes without having read.",
            paper=FIGURE,
            patch=[
                (
                    "        x = cross(x, lambda x: self.cross_attention(x, memory, memory, source_mask))\n",
                    "",
                )
            ],
        ),
        Misconception(
            name="feed_forward_left_out",
            says="the feed-forward network is not in it",
            hint="A decoder layer has three sublayers; the feed-forward network is the last.",
            paper=FIGURE,
            patch=[("return feed(x, self.feed_forward)", "return x")],
        ),
        Misconception(
            name="one_connection_for_both",
            says="the first sublayer connection is used for both attentions",
            hint="Each of the three sublayers has its own connection, with a normalisation of its own.",
            paper=FIGURE,
            patch=[("x = cross(x", "x = attend(x")],
        ),
        Misconception(
            name="same_connection_thrice",
            says="the list of sublayers holds the same connection three times",
            hint="`[connection] * 3` is one object under three names, so all sublayers share one "
            "normalisation. Make a new one each time.",
            paper=FIGURE,
            patch=[
                (
                    "nn.ModuleList(SublayerConnection(d_model, dropout, norm_first) for _ in range(3))",
                    "nn.ModuleList([SublayerConnection(d_model, dropout, norm_first)] * 3)",
                )
            ],
        ),
        Misconception(
            name="no_residual_around_cross_attention",
            says="the cross-attention stands without its sublayer connection",
            hint="Let the connection call it: it adds the input, drops out and normalises.",
            paper=RESIDUAL,
            patch=[
                (
                    "cross(x, lambda x: self.cross_attention(x, memory, memory, source_mask))",
                    "self.cross_attention(x, memory, memory, source_mask)",
                )
            ],
        ),
        Misconception(
            name="outer_x",
            says="the attentions read x from outside, and not what the connection hands to them",
            hint="With norm_first the connection hands over a normalised x: use the name that your function "
            "gets.",
            paper=PRE_NORM,
            patch=[
                ("lambda x: self.self_attention", "lambda _: self.self_attention"),
                ("lambda x: self.cross_attention", "lambda _: self.cross_attention"),
            ],
        ),
        Misconception(
            name="keys_not_normalised",
            says="in the self-attention only the query is what the connection hands over",
            hint="With norm_first the connection hands over a normalised x. Queries, keys and values are all "
            "that.",
            paper=PRE_NORM,
            patch=[
                (
                    "lambda x: self.self_attention(x, x, x, target_mask)",
                    "lambda y: self.self_attention(y, x, x, target_mask)",
                )
            ],
        ),
        Misconception(
            name="norm_first_not_passed",
            says="norm_first is not handed to the sublayer connections",
            hint="The connection decides where to normalise, so it has to know: it is its third argument.",
            paper=PRE_NORM,
            patch=[
                ("SublayerConnection(d_model, dropout, norm_first)", "SublayerConnection(d_model, dropout)")
            ],
        ),
        Misconception(
            name="attentions_keep_dropout",
            says="the attentions do not get the dropout, and keep their own 0.1",
            hint="Everything in a layer that drops out has to be told how much: both attentions, too.",
            paper=DROPOUT,
            patch=[
                (
                    "self.self_attention = MultiHeadAttention(d_model, heads, dropout, attention)",
                    "self.self_attention = MultiHeadAttention(d_model, heads, attention=attention)",
                ),
                (
                    "self.cross_attention = MultiHeadAttention(d_model, heads, dropout, attention)",
                    "self.cross_attention = MultiHeadAttention(d_model, heads, attention=attention)",
                ),
            ],
        ),
        Misconception(
            name="feed_forward_keeps_dropout",
            says="the feed-forward network does not get the dropout, and keeps its own 0.1",
            hint="Everything in a layer that drops out has to be told how much: the feed-forward network, "
            "too.",
            paper=DROPOUT,
            patch=[("FeedForward(d_model, d_ff, dropout)", "FeedForward(d_model, d_ff)")],
        ),
    ),
)

# --- Transformer --------------------------------------------------------------------------------------------

_SOURCE_VOCAB, _TARGET_VOCAB = 7, 9
_SMALL: dict[str, Any] = {"layers": 1, "d_model": 4, "heads": 2, "d_ff": 12}
_DEEP: dict[str, Any] = {"layers": 2, "d_model": 6, "heads": 3, "d_ff": 5}


@cache
def _model_shapes(settings: TransformerConfig) -> dict[str, torch.Size]:
    shapes = _shapes_of(lambda: Transformer(_SOURCE_VOCAB, _TARGET_VOCAB, settings))
    # A generator may do without a bias.
    return {name: shape for name, shape in shapes.items() if name != "generator.bias"}


def _model(candidate: Candidate, draw: Draw, **settings: Any) -> tuple[Candidate, Reply]:
    model = candidate.build(_SOURCE_VOCAB, _TARGET_VOCAB, config(**settings))
    model.call(method="double")
    return model, _model_loaded(model, draw, settings)


def _model_loaded(model: Candidate, draw: Draw, settings: Mapping[str, Any]) -> Reply:
    loaded = model.load(_drawn(draw, _model_shapes(TransformerConfig(**settings))))
    model.load({"generator.bias": torch.zeros(_TARGET_VOCAB)})  # where it has one
    return loaded


def _sentences(draw: Draw, target_length: int = 4) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Source, its mask, target, its mask: as `forward` takes them."""
    source = draw.integers(0, _SOURCE_VOCAB, 2, 5)
    target = draw.integers(0, _TARGET_VOCAB, 2, target_length)
    return source, _source_mask(), target, _target_mask(target_length)


@probe("source and target go in, and a logit for each word of the target's vocabulary comes out")
def _model_logits(candidate: Candidate, draw: Draw) -> Any:
    settings = _SMALL | {"dropout": 0.0}
    model = candidate.build(_SOURCE_VOCAB, _TARGET_VOCAB, config(**settings))
    loaded = _model_loaded(model, draw, settings)
    return after(loaded, lambda: model.call(*_sentences(draw)))


@probe("encode gives the memory, and decode the hidden vectors, through all layers in turn")
def _model_halves(candidate: Candidate, draw: Draw) -> Any:
    model, loaded = _model(candidate, draw, **_DEEP)
    model.train(False)
    source, source_mask, target, target_mask = _sentences(draw, 5)
    memory = draw.normal(2, 5, _DEEP["d_model"])
    return after(
        loaded,
        lambda: {
            "the memory": value_of(model.call(source, source_mask, method="encode")),
            "the hidden vectors": value_of(
                model.call(memory, source_mask, target, target_mask, method="decode")
            ),
        },
    )


@probe("source and target of the same length, through two layers: logits again")
def _model_same_length(candidate: Candidate, draw: Draw) -> Any:
    model, loaded = _model(candidate, draw, **_DEEP)
    model.train(False)
    source, source_mask, target, target_mask = _sentences(draw, 5)
    target_mask[0, 0, 3] = True
    target_mask[1, 2:, 1] = False
    return after(loaded, lambda: model.call(source, source_mask, target, target_mask))


@probe("with norm_first, layers normalise first and each stack ends on one more normalisation")
def _model_norm_first(candidate: Candidate, draw: Draw) -> Any:
    model, loaded = _model(candidate, draw, **_DEEP, norm_first=True)
    model.train(False)
    return after(loaded, lambda: model.call(*_sentences(draw)))


@probe("without norm_first there is no last normalisation")
def _model_norms(candidate: Candidate, draw: Draw) -> Any:
    reply = candidate.build(_SOURCE_VOCAB, _TARGET_VOCAB, config(**_SMALL)).weights()
    if not isinstance(reply, Returned):
        return reply
    return {
        f"the number of weights of {norm}": sum(name.startswith(norm) for name in reply.value)
        for norm in ("encoder_norm", "decoder_norm")
    }


@probe("dropout acts in training mode, and in evaluation mode not at all")
def _model_modes(candidate: Candidate, draw: Draw) -> Any:
    model, loaded = _model(candidate, draw, **_SMALL, dropout=0.5)
    sentences = _sentences(draw)
    return after(loaded, lambda: _dropout_facts(model, *sentences))


@probe("dropout falls on the sum of words and positions too")
def _model_position_dropout(candidate: Candidate, draw: Draw) -> Any:
    model, loaded = _model(candidate, draw, **_SMALL, dropout=0.5)
    shapes = _model_shapes(TransformerConfig(**_SMALL))
    silent = ("output_projection.weight", "output_projection.bias", "outer.weight", "outer.bias")
    model.load({name: torch.zeros(shape) for name, shape in shapes.items() if name.endswith(silent)})
    sentences = _sentences(draw)
    return after(loaded, lambda: _dropout_facts(model, *sentences))


@probe("layers start with different weights, matrices as Glorot has them, tables with their own spread")
def _model_start(candidate: Candidate, draw: Draw) -> Any:
    d_model, vocab = 24, 400
    model = candidate.build(vocab, vocab, config(layers=3, d_model=d_model, heads=2, d_ff=4 * d_model))
    reply = model.weights()
    if not isinstance(reply, Returned):
        return reply
    names = _model_shapes(TransformerConfig(layers=3, d_model=d_model, heads=2, d_ff=4 * d_model))
    # Other entries, such as a buffer or a second name, are the student's own affair.
    named = {name: weight for name, weight in reply.value.items() if name in names}
    return _facts_of_start(named, d_model)


def _facts_of_start(weights: Mapping[str, Tensor], d_model: int) -> dict[str, str]:
    """Reduce random weights to what any right answer has in common."""
    matrices = {
        name: weight
        for name, weight in weights.items()
        if name.endswith("weight") and weight.dim() == 2 and "table" not in name
    }
    ratios = [
        float(weight.double().std()) / math.sqrt(2 / (weight.shape[0] + weight.shape[1]))
        for weight in matrices.values()
    ]
    tables = [weight for name, weight in weights.items() if name.endswith("embedding.table.weight")]
    alike = any(
        _alike_at_start(weights, stack, one, other)
        for stack in ("encoder_layers", "decoder_layers")
        for one, other in combinations(range(3), 2)
    )
    glorot = bool(ratios) and all(0.85 < ratio < 1.15 for ratio in ratios)
    own = all(0.93 < float(table.double().std()) * math.sqrt(d_model) < 1.07 for table in tables)
    return {
        "what two layers of a stack begin with": "the same numbers" if alike else "different numbers",
        "the spread of the matrices": "Glorot's" if glorot else "another",
        "the spread of the tables": "d_model**-0.5" if own else "another",
    }


def _alike_at_start(weights: Mapping[str, Tensor], stack: str, one: int, other: int) -> bool:
    """Say whether two layers hold the same random numbers somewhere; constants such as zero are no sign."""
    for name, weight in weights.items():
        if name.startswith(f"{stack}.{one}."):
            twin = weights.get(name.replace(f"{stack}.{one}.", f"{stack}.{other}.", 1))
            if twin is not None and not _is_constant(weight) and weight.equal(twin):
                return True
    return False


def _is_constant(weight: Tensor) -> bool:
    return weight.numel() == 0 or bool((weight == weight.flatten()[0]).all())


@probe("gradients reach every weight")
def _model_gradient(candidate: Candidate, draw: Draw) -> Any:
    settings = _SMALL | {"norm_first": True}
    model, loaded = _model(candidate, draw, **settings)
    model.train(False)
    reply = model.gradients(*_sentences(draw), toward=draw.normal(2, 4, _TARGET_VOCAB))
    return after(loaded, lambda: _weights_named(reply, _model_shapes(TransformerConfig(**settings))))


@probe("a deep copy has weights of its own, and a state dict puts them back")
def _model_copy(candidate: Candidate, draw: Draw) -> Any:
    model, loaded = _model(candidate, draw, **_SMALL)
    model.train(False)
    copy = model.copy()
    _model_loaded(copy, draw, _SMALL)
    sentences = _sentences(draw)
    return after(loaded, lambda: (value_of(model.call(*sentences)), value_of(copy.call(*sentences))))


_XAVIER = """        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
"""

TRANSFORMER = Exercise(
    reference=Transformer,
    probes=(
        _model_logits,
        _model_halves,
        _model_same_length,
        _model_norm_first,
        _model_norms,
        _model_modes,
        _model_position_dropout,
        _model_start,
        _model_gradient,
        _model_copy,
    ),
    misconceptions=(
        Misconception(
            name="no_positions",
            says="the embeddings get no positions",
            hint="Attention does not know the order of words. Both sides need the positions, right after the "
            "embedding.",
            paper=POSITIONS,
            patch=[
                ("self.positions(self.source_embedding(source))", "self.source_embedding(source)"),
                ("self.positions(self.target_embedding(target))", "self.target_embedding(target)"),
            ],
        ),
        Misconception(
            name="same_layer_repeated",
            says="each stack holds the same layer again and again",
            hint="`[layer] * layers` is one layer under many names: they share all weights. Make a new one "
            "each time.",
            paper="section 3.1: a stack of N identical layers, each with weights of its own",
            patch=[
                (
                    "nn.ModuleList(EncoderLayer(*sizes) for _ in range(c.layers))",
                    "nn.ModuleList([EncoderLayer(*sizes)] * c.layers)",
                ),
                (
                    "nn.ModuleList(DecoderLayer(*sizes) for _ in range(c.layers))",
                    "nn.ModuleList([DecoderLayer(*sizes)] * c.layers)",
                ),
            ],
        ),
        Misconception(
            name="layers_copied",
            says="the layers are copies of one, so that they start with the same numbers",
            hint="Xavier draws the matrices anew, but the biases of a copy stay those of the original. Make "
            "each layer new.",
            paper="section 3.1: a stack of N identical layers, each with weights of its own",
            patch=[
                (
                    "nn.ModuleList(EncoderLayer(*sizes) for _ in range(c.layers))",
                    'nn.ModuleList(map(__import__("copy").deepcopy, [EncoderLayer(*sizes)] * c.layers))',
                ),
                (
                    "nn.ModuleList(DecoderLayer(*sizes) for _ in range(c.layers))",
                    'nn.ModuleList(map(__import__("copy").deepcopy, [DecoderLayer(*sizes)] * c.layers))',
                ),
            ],
        ),
        Misconception(
            name="plain_lists",
            says="the layers stand in plain lists, where PyTorch does not see their weights",
            hint="nn.Module finds modules in its attributes, and in nn.ModuleList, but not inside a Python "
            "list: they would not be trained, moved to a device or saved.",
            paper="the documentation of torch.nn.ModuleList",
            patch=[
                (
                    "nn.ModuleList(EncoderLayer(*sizes) for _ in range(c.layers))",
                    "[EncoderLayer(*sizes) for _ in range(c.layers)]",
                ),
                (
                    "nn.ModuleList(DecoderLayer(*sizes) for _ in range(c.layers))",
                    "[DecoderLayer(*sizes) for _ in range(c.layers)]",
                ),
            ],
        ),
        Misconception(
            name="norm_first_not_passed",
            says="norm_first is not handed to the layers",
            hint="The layers take it after dropout. Without it they normalise after the sum, whatever was "
            "asked for.",
            paper=PRE_NORM,
            patch=[("c.dropout, c.norm_first, c.attention)", "c.dropout, False, c.attention)")],
        ),
        Misconception(
            name="layers_keep_dropout",
            says="the layers do not get the dropout, and keep their own 0.1",
            hint="The layers take dropout after d_ff.",
            paper=DROPOUT,
            patch=[("c.dropout, c.norm_first, c.attention)", "0.1, c.norm_first, c.attention)")],
        ),
        Misconception(
            name="positions_keep_dropout",
            says="the positions do not get the dropout, and keep their own 0.1",
            hint="PositionalEncoding drops out too: the sum of embedding and position. It takes dropout "
            "after d_model.",
            paper=DROPOUT,
            patch=[("PositionalEncoding(c.d_model, c.dropout)", "PositionalEncoding(c.d_model)")],
        ),
        Misconception(
            name="last_norms_always",
            says="each stack ends on one more normalisation, also where each layer has normalised already",
            hint="After post-norm layers nothing is left to normalise. Only with norm_first is the last sum "
            "bare.",
            paper=PRE_NORM,
            patch=[
                (
                    "self.encoder_norm = LayerNorm(c.d_model) if c.norm_first else None",
                    "self.encoder_norm = LayerNorm(c.d_model)",
                ),
                (
                    "self.decoder_norm = LayerNorm(c.d_model) if c.norm_first else None",
                    "self.decoder_norm = LayerNorm(c.d_model)",
                ),
            ],
        ),
        Misconception(
            name="last_norms_unused",
            says="with norm_first, the two last normalisations are made but not used",
            hint="Where they are there, encode and decode each end on theirs.",
            paper=PRE_NORM,
            patch=[
                # Not at the same time as last_norms_always: norms that are made and not used do no harm.
                (
                    "self.encoder_norm = LayerNorm(c.d_model) if c.norm_first else None",
                    "self.encoder_norm = (LayerNorm(c.d_model) if c.norm_first else None)",
                ),
                ("return x if self.encoder_norm is None else self.encoder_norm(x)", "return x"),
                ("return x if self.decoder_norm is None else self.decoder_norm(x)", "return x"),
            ],
        ),
        Misconception(
            name="masks_swapped",
            says="forward hands the two masks to decode the wrong way round",
            hint="decode takes the source's mask before the target, and the target's mask after it.",
            paper=ATTENTION,
            patch=[
                (
                    "self.decode(memory, source_mask, target, target_mask)",
                    "self.decode(memory, target_mask, target, source_mask)",
                )
            ],
        ),
        Misconception(
            name="probabilities",
            says="forward gives probabilities, not logits",
            hint="The softmax belongs to the loss, which takes it together with the logarithm and so more "
            "exactly.",
            paper=EMBEDDINGS,
            patch=[("target, target_mask))", "target, target_mask)).softmax(dim=-1)")],
        ),
        Misconception(
            name="log_probabilities",
            says="forward gives log-probabilities, not logits",
            hint="The generator is one linear layer, and its output is handed back as it is.",
            paper=EMBEDDINGS,
            patch=[("target, target_mask))", "target, target_mask)).log_softmax(dim=-1)")],
        ),
        Misconception(
            name="decode_gives_logits",
            says="decode applies the generator, and forward does not",
            hint="decode gives hidden vectors. Who decodes word by word needs the logits of the last "
            "position only.",
            paper=FIGURE,
            patch=[
                (
                    "return x if self.decoder_norm is None else self.decoder_norm(x)",
                    "return self.generator(x if self.decoder_norm is None else self.decoder_norm(x))",
                ),
                (
                    "return self.generator(self.decode(memory, source_mask, target, target_mask))",
                    "return self.decode(memory, source_mask, target, target_mask)",
                ),
            ],
        ),
        Misconception(
            name="no_glorot",
            says="the matrices keep PyTorch's own start",
            hint="nn.Linear starts smaller than Glorot and Bengio would have it: go through the modules and "
            "give each linear layer's weight to nn.init.xavier_uniform_.",
            paper=GLOROT,
            patch=[(_XAVIER, "")],
        ),
        Misconception(
            name="glorot_for_tables",
            says="the embedding tables are drawn anew together with the matrices",
            hint="A table has the vocabulary for its height, so Xavier makes its numbers tiny, and positions "
            "drown the words. TokenEmbedding has started its table already.",
            paper=GLOROT,
            patch=[
                (
                    _XAVIER,
                    """        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
""",
                )
            ],
        ),
    ),
)

# --- tie_embeddings -----------------------------------------------------------------------------------------

_MATRICES = ("source_embedding.table.weight", "target_embedding.table.weight", "generator.weight")
_WORDS, _WIDTH = 7, 6
"""The vocabulary of the model that is to be tied, and its number of features."""


def _tied(candidate: Candidate) -> tuple[Candidate, Reply]:
    model = candidate.make(reader(_WORDS))
    return model, candidate.call(model)


def _matrices(reply: Reply) -> Any:
    if not isinstance(reply, Returned):
        return reply
    return {name: reply.value[name] for name in _MATRICES if name in reply.value}


@probe("the model that went in is handed back")
def _tied_is_given_back(candidate: Candidate, draw: Draw) -> Any:
    model, reply = _tied(candidate)
    if not isinstance(reply, Returned):
        return reply
    if reply.value is None:
        return {"what is handed back": None}
    return {"what is handed back": "the model itself" if reply.value == model.handle else "something else"}


@probe("both tables and the generator hold the same numbers")
def _tied_is_equal(candidate: Candidate, draw: Draw) -> Any:
    model, reply = _tied(candidate)
    matrices = after(reply, lambda: _matrices(model.weights()))
    if not isinstance(matrices, dict) or len(matrices) < len(_MATRICES):
        return matrices
    source, target, generator = matrices.values()
    return {
        "the target's table, beside the source's": "the same" if source.equal(target) else "different",
        "the generator's matrix, beside the source's table": "the same"
        if source.equal(generator)
        else "different",
    }


@probe("a change of the source's table is a change of all three")
def _tied_follows_source(candidate: Candidate, draw: Draw) -> Any:
    model, reply = _tied(candidate)
    model.load({_MATRICES[0]: draw.normal(_WORDS, _WIDTH)})
    return after(reply, lambda: _matrices(model.weights()))


@probe("a change of the generator's matrix is a change of all three")
def _tied_follows_generator(candidate: Candidate, draw: Draw) -> Any:
    model, reply = _tied(candidate)
    model.load({_MATRICES[2]: draw.normal(_WORDS, _WIDTH)})
    return after(reply, lambda: _matrices(model.weights()))


@probe("the three are one parameter, whose gradient comes from all three uses")
def _tied_gradient(candidate: Candidate, draw: Draw) -> Any:
    model, reply = _tied(candidate)
    model.load({_MATRICES[0]: draw.normal(_WORDS, _WIDTH)})
    source, target = draw.integers(0, _WORDS, 2, 5), draw.integers(0, _WORDS, 2, 4)
    found = model.gradients(source, _source_mask(), target, _target_mask(4), toward=draw.normal(2, 4, _WORDS))
    if not isinstance(found, Returned):
        return after(reply, lambda: found)
    gradients = {name: found.value["weights"][name] for name in _MATRICES if name in found.value["weights"]}
    return after(reply, lambda: gradients)


@probe("vocabularies of different sizes are refused with a ValueError")
def _tied_unequal(candidate: Candidate, draw: Draw) -> Any:
    error = candidate.make(error_of())
    return {
        f"the error for {source} words and {target}": error.call(
            candidate, candidate.make(reader(source, target_vocab=target))
        )
        for source, target in ((6, 8), (8, 6))
    }


_TIES = "    target.weight = source.weight\n    model.generator.weight = source.weight\n"
_SIZES = "    if source.num_embeddings != target.num_embeddings:\n"

TIE_EMBEDDINGS = Exercise(
    reference=tie_embeddings,
    probes=(
        _tied_is_given_back,
        _tied_is_equal,
        _tied_follows_source,
        _tied_follows_generator,
        _tied_gradient,
        _tied_unequal,
    ),
    misconceptions=(
        Misconception(
            name="generator_left_out",
            says="only the two tables are tied, and the generator keeps a matrix of its own",
            hint="Three uses share one matrix: source_embedding.table, target_embedding.table and the "
            "generator.",
            paper=EMBEDDINGS,
            patch=[("    model.generator.weight = source.weight\n", "")],
        ),
        Misconception(
            name="source_left_out",
            says="only the target's table and the generator are tied, and the source keeps a table of its "
            "own",
            hint="Many models tie those two. The paper, with one vocabulary for both languages, ties all "
            "three.",
            paper=EMBEDDINGS,
            patch=[
                ("    target.weight = source.weight\n", ""),
                ("model.generator.weight = source.weight", "model.generator.weight = target.weight"),
            ],
        ),
        Misconception(
            name="target_left_out",
            says="only the source's table and the generator are tied, and the target keeps a table of its "
            "own",
            hint="Three uses share one matrix: source_embedding.table, target_embedding.table and the "
            "generator.",
            paper=EMBEDDINGS,
            patch=[("    target.weight = source.weight\n", "")],
        ),
        Misconception(
            name="numbers_copied",
            says="the numbers are copied, so the three are equal now and part ways at the first update",
            hint="Tied means one and the same nn.Parameter. Assign the parameter itself: `b.weight = "
            "a.weight`.",
            paper=EMBEDDINGS,
            patch=[
                (
                    _TIES,
                    "    target.weight.data.copy_(source.weight.data)\n"
                    "    model.generator.weight.data.copy_(source.weight.data)\n",
                )
            ],
        ),
        Misconception(
            name="memory_shared",
            says="the three share their memory, but are still three parameters",
            hint="With `.data` each keeps a gradient of its own, and the optimiser updates the same numbers "
            "three times. Assign the parameter itself: `b.weight = a.weight`.",
            paper=EMBEDDINGS,
            patch=[
                (
                    _TIES,
                    "    target.weight.data = source.weight.data\n"
                    "    model.generator.weight.data = source.weight.data\n",
                )
            ],
        ),
        Misconception(
            name="generator_transposed",
            says="the generator gets the table transposed",
            hint="A table is V x D, and so is the weight of nn.Linear(D, V): rows are outputs. They fit as "
            "they are.",
            paper=EMBEDDINGS,
            patch=[
                (
                    "model.generator.weight = source.weight",
                    "model.generator.weight = nn.Parameter(source.weight.t())",
                )
            ],
        ),
        Misconception(
            name="generator_scaled",
            says="the generator gets the table times the root of d_model",
            hint="The root belongs to looking up alone, and TokenEmbedding multiplies by it at each use. The "
            "matrix that is shared is the bare one.",
            paper=EMBEDDINGS,
            patch=[
                (
                    "model.generator.weight = source.weight",
                    "model.generator.weight = nn.Parameter(source.weight * source.embedding_dim**0.5)",
                )
            ],
        ),
        Misconception(
            name="copy_tied",
            says="a copy of the model is tied and handed back, and the model itself is as before",
            hint="Whoever called it holds the old model, perhaps with an optimiser on it. Change the model "
            "in place.",
            paper=EMBEDDINGS,
            patch=[
                (
                    "    source, target = model",
                    '    model = __import__("copy").deepcopy(model)\n    source, target = model',
                )
            ],
        ),
        Misconception(
            name="nothing_given_back",
            says="nothing is handed back",
            hint="It changes the model in place and also hands it back, so that one can write "
            "`model = tie_embeddings(Transformer(...))`.",
            paper=EMBEDDINGS,
            patch=[("    return model\n", "")],
        ),
        Misconception(
            name="sizes_not_compared",
            says="vocabularies of different sizes are tied without a word",
            hint="With one vocabulary the matrices fit by themselves; with two, word 7 is another word on "
            "each side. Compare the sizes and raise ValueError.",
            paper=EMBEDDINGS,
            patch=[(_SIZES, "    if False:\n")],
        ),
        Misconception(
            name="comparison_inverted",
            says="it refuses vocabularies of the same size, and takes those of different sizes",
            hint="Raise where the sizes are not equal: `!=`.",
            paper=EMBEDDINGS,
            patch=[(_SIZES, "    if source.num_embeddings == target.num_embeddings:\n")],
        ),
    ),
)

# --- greedy_decode ------------------------------------------------------------------------------------------

_START, _END, _PADDING = 1, 2, 0
#: What a phrasebook model writes for each first word of a source; behind its end, it would go on.
_PHRASES = {3: [4, 5, _END, 6, 7], 4: [7, _END, 3, 3, 4], 5: [6, 6, 5, 4, _END], 6: [_END, 5, 5, 5, 5]}


def _book() -> Fixture:
    script = torch.zeros(8, 12, dtype=torch.long)
    for word, phrase in _PHRASES.items():
        script[word] = torch.tensor([*phrase, 5, 4, 3, 4, 5, 6, 7])
    return phrasebook(script, vocab=8)


def _phrases(*words: int) -> tuple[Tensor, Tensor]:
    source = torch.tensor([[7, word, 2] for word in words])
    return source, torch.ones(len(words), 1, 3, dtype=torch.bool)


@probe("rows that end at different steps are filled with the end symbol, and all stop with the last")
def _greedy_ends(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_book(), *_phrases(3, 4, 6, 5), 10, _START, _END)


@probe("at max_length tokens it stops, the start counted")
def _greedy_stops(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_book(), *_phrases(5, 3), 4, _START, _END)


@probe("a max_length of 1 leaves room for the start alone")
def _greedy_of_length_one(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_book(), *_phrases(5, 3), 1, _START, _END)


@probe("a single sentence works as well")
def _greedy_of_one(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_book(), *_phrases(4), 9, _START, _END)


@probe("the start and end symbols are those that are asked for")
def _greedy_other_symbols(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_book(), *_phrases(3, 5), 8, 6, 7)


@probe("the model is in evaluation mode and keeps no gradients meanwhile, and gets its mode back")
def _greedy_modes(candidate: Candidate, draw: Draw) -> Any:
    model = candidate.make(_book())
    reply = candidate.call(model, *_phrases(3, 4), 8, _START, _END)
    meanwhile = value_of(model.call(method="notes"))
    return after(reply, lambda: {"meanwhile": meanwhile, **_mode(model)})


def _mode(model: Candidate) -> dict[str, str]:
    """Say in which mode all parts of a model are."""
    reply = model.modes()
    modes = set(reply.value.values()) if isinstance(reply, Returned) else set()
    known = {True: "training", False: "evaluation"}
    return {"the mode afterwards": known[modes.pop()] if len(modes) == 1 else "mixed"}


@probe("a model in evaluation mode stays in it")
def _greedy_keeps_evaluation(candidate: Candidate, draw: Draw) -> Any:
    model = candidate.make(_book())
    model.train(False)
    reply = candidate.call(model, *_phrases(3, 4), 8, _START, _END)
    return after(reply, lambda: _mode(model))


def _reader() -> Fixture:
    # With this seed each mistake that can be seen here shows in what the model writes, whatever is drawn.
    return reader(9, target_vocab=11, seed=543)


def _padded(draw: Draw) -> tuple[Tensor, Tensor]:
    source = draw.integers(3, 9, 6, 6)
    source[2:4, 4:] = _PADDING
    source[4:, 2:] = _PADDING
    return source, (source != _PADDING).unsqueeze(1)


@probe("a model that reads all it may see, sentences of different lengths: the likeliest word each time")
def _greedy_reader(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_reader(), *_padded(draw), 8, _START, _END)


@probe("such a model over more steps, with other sentences")
def _greedy_reader_longer(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_reader(), *_padded(draw), 12, _START, _END)


_LOOP = "while target.shape[1] < max_length and not ended.all():"

GREEDY_DECODE = Exercise(
    reference=greedy_decode,
    probes=(
        _greedy_ends,
        _greedy_stops,
        _greedy_of_length_one,
        _greedy_of_one,
        _greedy_other_symbols,
        _greedy_modes,
        _greedy_keeps_evaluation,
        _greedy_reader,
        _greedy_reader_longer,
    ),
    misconceptions=(
        Misconception(
            name="stays_in_training",
            says="the model decodes in training mode, with dropout on",
            hint="Dropout would cut connections at random, and each run would write something else. "
            "evaluating(model) switches it off inside a `with`.",
            paper="section 5.4: dropout is for training",
            patch=[("with evaluating(model):", "with torch.no_grad():")],
        ),
        Misconception(
            name="keeps_gradients",
            says="the graph for gradients is kept while it decodes",
            hint="Nobody trains here, and the graph of every step would fill the memory. evaluating(model) "
            "switches gradients off inside a `with`.",
            paper="the documentation of torch.no_grad",
            patch=[
                (
                    "    with evaluating(model):",
                    "    was_training = model.training\n    model.eval()\n    if True:",
                ),
                ("    return target", "    model.train(was_training)\n    return target"),
            ],
        ),
        Misconception(
            name="left_in_evaluation",
            says="the model is left in evaluation mode",
            hint="Whoever was training goes on without dropout, and never notices. Give the mode back: "
            "evaluating(model) does.",
            paper="the documentation of torch.nn.Module.eval",
            patch=[("    with evaluating(model):", "    model.eval()\n    with torch.no_grad():")],
        ),
        Misconception(
            name="always_trains_afterwards",
            says="the model is always put into training mode afterwards",
            hint="It may have been in evaluation mode before. Give back the mode that it had: "
            "evaluating(model) does.",
            paper="the documentation of torch.nn.Module.train",
            patch=[("    return target", "    model.train()\n    return target")],
        ),
        Misconception(
            name="never_stops_early",
            says="it always writes or fills up to max_length tokens, also when every row has ended long ago",
            hint="Stop when all rows have ended: most sentences are much shorter than the longest allowed.",
            paper=AUTOREGRESSIVE,
            patch=[(_LOOP, "while target.shape[1] < max_length:")],
        ),
        Misconception(
            name="stops_at_first_end",
            says="it stops as soon as one row has ended",
            hint="The other rows of the batch still have something to say. Stop when all have ended.",
            paper=AUTOREGRESSIVE,
            patch=[("ended.all()", "ended.any()")],
        ),
        Misconception(
            name="goes_on_after_end",
            says="a row that has ended goes on writing",
            hint="Behind its end a row holds the end symbol and nothing else: overwrite what the model would "
            "say.",
            paper=AUTOREGRESSIVE,
            patch=[(".masked_fill(ended, end_id)", "")],
        ),
        Misconception(
            name="filled_with_zeros",
            says="a row that has ended is filled with zeros, not with the end symbol",
            hint="The function is not told which symbol means padding. It is told which means the end.",
            paper=AUTOREGRESSIVE,
            patch=[("masked_fill(ended, end_id)", "masked_fill(ended, 0)")],
        ),
        Misconception(
            name="start_not_counted",
            says="it writes max_length tokens and the start symbol besides",
            hint="max_length counts the start as well: it is the width of what comes back.",
            paper=AUTOREGRESSIVE,
            patch=[("target.shape[1] < max_length", "target.shape[1] <= max_length")],
        ),
        Misconception(
            name="start_left_out",
            says="the start symbol is cut off from what is handed back",
            hint="Each row begins with start_id, as the decoder has read it.",
            paper=AUTOREGRESSIVE,
            patch=[("    return target", "    return target[:, 1:]")],
        ),
        Misconception(
            name="starts_from_source",
            says="it begins with the source's first token, not with start_id",
            hint="The decoder was trained to begin with the start symbol of the target. That is start_id.",
            paper=AUTOREGRESSIVE,
            patch=[("source.new_full((source.shape[0], 1), start_id)", "source[:, :1].clone()")],
        ),
        Misconception(
            name="first_position",
            says="the next token is read off at the first position, not at the last",
            hint="Position i says which token follows token i. What follows the whole prefix stands at the "
            "last one.",
            paper=AUTOREGRESSIVE,
            patch=[("hidden[:, -1]", "hidden[:, 0]")],
        ),
        Misconception(
            name="last_token_alone",
            says="the decoder reads only the last token, not all that was written",
            hint="It keeps no memory between calls: give it the whole prefix each time, and the mask that "
            "goes with it.",
            paper=AUTOREGRESSIVE,
            patch=[
                (
                    "model.decode(memory, source_mask, target, mask)",
                    "model.decode(memory, source_mask, target[:, -1:], mask[:, -1:, -1:])",
                )
            ],
        ),
        Misconception(
            name="no_causal_mask",
            says="the decoder gets no target mask",
            hint="In training no position saw what follows. Without the mask the earlier positions now do, "
            "from the second layer on the last one reads their changed vectors, and the model is not the one "
            "that was trained.",
            paper=ATTENTION,
            patch=[("target, mask)", "target, None)")],
        ),
        Misconception(
            name="source_mask_lost",
            says="the decoder does not get the source mask, and looks at padding",
            hint="Both halves need it: encode and decode.",
            paper=ATTENTION,
            patch=[("model.decode(memory, source_mask, target", "model.decode(memory, None, target")],
        ),
        Misconception(
            name="generator_left_out",
            says="the largest feature is taken for a word, without the generator",
            hint="decode gives d_model features. model.generator makes one logit for each word of them.",
            paper=EMBEDDINGS,
            patch=[("model.generator(hidden[:, -1])", "hidden[:, -1]")],
        ),
        Misconception(
            name="sampled",
            says="the next token is drawn at random by its probability, not the likeliest",
            hint="Greedy means: always the largest logit, argmax.",
            paper=AUTOREGRESSIVE,
            patch=[(".argmax(dim=-1)", ".softmax(dim=-1).multinomial(1).squeeze(1)")],
        ),
        Misconception(
            name="one_sentence_only",
            says="the end is compared as if there were a single sentence",
            hint="There is one token for each row of the batch. Keep a tensor of truth values, one a row, "
            "and update it with `|`.",
            paper=AUTOREGRESSIVE,
            patch=[
                (
                    "            ended = ended | (token == end_id)",
                    "            if token == end_id:\n                break",
                )
            ],
        ),
    ),
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_FEED_FORWARD = Prediction(
    name="predict_feed_forward",
    answer=2 / 3,
    tolerance=0.03,
    hint="Count the matrices in units of d_model x d_model: how many has the attention, and how many such "
    "pieces make up the feed-forward network's two matrices, when d_ff is four times d_model?",
    misconceptions=(
        WrongNumber(
            "attention_share", 1 / 3, "That is the share of the attention. What is left is the rest."
        ),
        WrongNumber(
            "one_matrix",
            0.5,
            "The feed-forward network has two matrices, one from d_model to d_ff and one back.",
        ),
        WrongNumber(
            "one_projection",
            8 / 9,
            "The attention has more than one matrix: query, key, value and output each have their own.",
        ),
        WrongNumber(
            "three_projections",
            8 / 11,
            "The attention has a fourth matrix: after the heads are merged comes the output projection.",
        ),
        WrongNumber("per_cent", 200 / 3, "The number is right as per cent. A share lies between 0 and 1."),
    ),
)

PREDICT_PARAMETERS = Prediction(
    name="predict_base_model",
    answer=63.1,
    tolerance=0.05,
    hint="Add up three things, in millions: the one shared matrix of 37,000 rows and 512 columns; six "
    "encoder layers of 3.15 each; six decoder layers, which have one more attention each (four matrices of "
    "512 x 512).",
    misconceptions=(
        WrongNumber(
            "three_matrices", 101.0, "That counts the shared matrix three times. Tied, it is there once."
        ),
        WrongNumber("two_matrices", 82.1, "That counts the shared matrix twice. Tied, it is there once."),
        WrongNumber(
            "layers_alone", 44.1, "That is the layers without the matrix of the words, which is a big one."
        ),
        WrongNumber(
            "no_cross_attention",
            56.8,
            "A decoder layer is larger than an encoder layer: it has an attention more.",
        ),
        WrongNumber("one_layer", 26.3, "The base model has six layers on each side."),
        WrongNumber("not_in_millions", 63.1e6, "The number is right. Write it in millions."),
    ),
)

PREDICT_RUNS = Prediction(
    name="predict_runs",
    answer=20.0,
    tolerance=0.001,
    hint="Each run of the decoder gives one new token to every row of the batch.",
    misconceptions=(
        WrongNumber(
            "one_run",
            1.0,
            "That is training, where all of the target lies there. Here it is not written yet.",
        ),
        WrongNumber(
            "per_sentence", 160.0, "The sentences of a batch are written side by side, in the same run."
        ),
        WrongNumber("start_counted", 21.0, "The start symbol is given; nobody has to write it."),
        WrongNumber(
            "positions", 210.0, "So many positions are computed for a row: 1 + 2 + ... + 20. How many runs?"
        ),
    ),
)

CATALOGUE = (
    PREDICT_FEED_FORWARD,
    ENCODER_LAYER,
    DECODER_LAYER,
    TRANSFORMER,
    PREDICT_PARAMETERS,
    TIE_EMBEDDINGS,
    PREDICT_RUNS,
    GREEDY_DECODE,
)
