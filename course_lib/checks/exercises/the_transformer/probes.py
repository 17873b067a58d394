"""Probes of lesson 06: encoder and decoder layers, the Transformer, tied embeddings, and greedy decoding."""

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.checks.engine.candidate import Candidate, Fixture
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.engine.probe import Draw, Observed
from course_lib.checks.engine.reply import Reply, Returned, Value, after, value_of
from course_lib.checks.exercises.fixtures.callables import mean_attention
from course_lib.checks.exercises.fixtures.known_models import scripted_model
from course_lib.checks.exercises.fixtures.models import config
from course_lib.checks.exercises.fixtures.reader import reader
from course_lib.checks.exercises.fixtures.refusals import refusal
from course_lib.checks.exercises.fixtures.results import after_new_contents
from course_lib.checks.exercises.fixtures.starting_weights import count_of, facts_of_start
from course_lib.checks.exercises.shared_requests import (
    called_on_a_gpu,
    gradients_after_calls,
    gradients_of,
    in_double,
    mode_afterwards,
)
from course_lib.transformer import (
    DecoderLayer,
    EncoderLayer,
    Transformer,
    TransformerConfig,
    causal_mask,
    greedy_decode,
    tie_embeddings,
)


def _drawn(draw: Draw, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Draw random weights, large enough that every part of a layer affects the output."""
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


@cache
def _layer_shapes(
    kind: Callable[..., nn.Module], d_model: int, heads: int, d_ff: int
) -> dict[str, torch.Size]:
    return _shapes_of(lambda: kind(d_model, heads, d_ff))


def _source_mask() -> Tensor:
    """Return the mask of two sentences of five tokens. The second ends with two padding tokens."""
    return torch.tensor([[[1, 1, 1, 1, 1]], [[1, 1, 1, 0, 0]]], dtype=torch.bool)


def _target_mask(length: int) -> Tensor:
    return causal_mask(length).expand(2, length, length).clone()


def _with_other_masks(*inputs: Tensor) -> tuple[Tensor, ...]:
    """Return the inputs with every mask flipped along its first and last axes, to change the masks."""
    return tuple(item.flip(0, -1) if item.dtype == torch.bool else item for item in inputs)


def _layer(
    kind: Callable[..., nn.Module],
    candidate: Candidate,
    draw: Draw,
    sizes: tuple[int, int, int] = (6, 2, 9),
    training: bool = False,
    **settings: object,
) -> Candidate:
    """Build a layer in float64 with random weights, in evaluation mode unless `training` is True."""
    layer = in_double(candidate, *sizes, **settings)
    layer.load(_drawn(draw, _layer_shapes(kind, *sizes)))
    if not training:
        layer.train(False)
    return layer


def _inputs(kind: Callable[..., nn.Module], draw: Draw) -> tuple[Tensor, ...]:
    if kind is EncoderLayer:
        return draw.normal(2, 5, 6), _source_mask()
    return draw.normal(2, 4, 6), draw.normal(2, 5, 6), _source_mask(), _target_mask(4)


def _dropout_facts(module: Candidate, *arguments: object, method: str = "__call__") -> Observed:
    replies = [module.call(*arguments, method=method)]
    module.train(False)
    replies += [module.call(*arguments, method=method) for _ in range(2)]
    for reply in replies:
        if not isinstance(value_of(reply), Tensor):
            return reply
    training, evaluation, again = (reply.value for reply in replies if isinstance(reply, Returned))
    dropped, same = not _equal(training, evaluation), _equal(evaluation, again)
    return {
        "«in training mode, dropout changes the result»": dropped,
        "«in evaluation mode, two calls return the same result»": same,
    }


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one.double(), other.double())


#: The parts of each layer that use dropout, with their names for students.
_PARTS: dict[Callable[..., nn.Module], dict[str, str]] = {
    EncoderLayer: {"self_attention": "the attention", "feed_forward": "the feed-forward network"},
    DecoderLayer: {
        "self_attention": "the self-attention",
        "cross_attention": "the cross-attention",
        "feed_forward": "the feed-forward network",
    },
}


def _strength(layer: Candidate, kind: Callable[..., nn.Module], part: str, rate: float = 0.5) -> Observed:
    """Measure how dropout scales the contribution of one part of a pre-norm layer in training mode.

    The layer has two features and one head. Kept elements are divided by 1 - rate twice: inside the part, and
    in the sublayer connection.
    """
    shapes = _layer_shapes(kind, 2, 1, 1)
    weights = {name: torch.full(shape, float(name.endswith("scale"))) for name, shape in shapes.items()}
    if part == "feed_forward":
        weights |= {
            f"{part}.inner.weight": torch.tensor([[1.0, 0.0]]),
            f"{part}.outer.weight": torch.ones(2, 1),
        }
    else:
        weights |= {f"{part}.{which}_projection.weight": torch.eye(2) for which in ("value", "output")}
    layer.load(weights)
    x = torch.tensor([1.0, -1.0], dtype=torch.float64).expand(64, 1, 2).clone()
    mask = torch.ones(64, 1, 1, dtype=torch.bool)
    inputs = (x, mask) if kind is EncoderLayer else (x, x, mask, mask)
    reply = layer.call(*inputs)
    if not isinstance(reply, Returned) or not isinstance(reply.value, Tensor):
        return reply
    steps = (reply.value.double() - x).abs() if reply.value.shape == x.shape else None
    found = None if steps is None else tuple(sorted({round(step, 2) for step in steps.flatten().tolist()}))
    return {f"the amounts that {_PARTS[kind][part]} adds to inputs of 1, with a dropout of {rate:g},": found}


def _modes(candidate: Candidate, draw: Draw, kind: Callable[..., nn.Module]) -> Observed:
    layer = _layer(kind, candidate, draw, training=True, dropout=0.5)
    return _dropout_facts(layer, *_inputs(kind, draw))


def _twice(candidate: Candidate, draw: Draw, kind: Callable[..., nn.Module]) -> Observed:
    layer = _layer(kind, candidate, draw)
    first, second = _inputs(kind, draw), _inputs(kind, draw)
    return {
        "the first result": layer.call(*first),
        "the second result": layer.call(*_with_other_masks(*second)),
    }


def _other_attention(candidate: Candidate, draw: Draw, kind: Callable[..., nn.Module]) -> Observed:
    layer = _layer(kind, candidate, draw, training=True, dropout=0.0, attention=mean_attention())
    return layer.call(*_inputs(kind, draw))


def _dropout(candidate: Candidate, draw: Draw, kind: Callable[..., nn.Module]) -> Observed:
    layer = in_double(candidate, 2, 1, 1, dropout=0.5, norm_first=True)
    return tuple(_strength(layer, kind, part) for part in _PARTS[kind])


def _usual_dropout(candidate: Candidate, draw: Draw, kind: Callable[..., nn.Module]) -> Observed:
    layer = in_double(candidate, 2, 1, 1, norm_first=True)
    return _strength(layer, kind, "self_attention", rate=0.1)


def _gradient(candidate: Candidate, draw: Draw, kind: Callable[..., nn.Module]) -> Observed:
    layer = _layer(kind, candidate, draw, training=True, dropout=0.0)
    inputs = _inputs(kind, draw)
    reply = layer.gradients(*inputs, toward=draw.normal(*inputs[0].shape))
    return gradients_of(reply, ("x", "memory")[: len(inputs) // 2], _layer_shapes(kind, 6, 2, 9))


def _copy(candidate: Candidate, draw: Draw, kind: Callable[..., nn.Module]) -> Observed:
    layer = _layer(kind, candidate, draw)
    inputs = _inputs(kind, draw)
    layer.call(*inputs)
    copy = layer.copy()
    copy.call(*inputs)
    copy.load(_drawn(draw, _layer_shapes(kind, 6, 2, 9)))
    return value_of(layer.call(*inputs)), value_of(copy.call(*inputs))


def _elsewhere(candidate: Candidate, draw: Draw, kind: Callable[..., nn.Module]) -> Observed:
    return called_on_a_gpu(_layer(kind, candidate, draw), *_inputs(kind, draw))


def _add_shared_probes(
    exercise: ExerciseCheck, name: str, attention: str, dropped: str, reached: str
) -> None:
    """Add the probes that encoder and decoder layers share. The last arguments are parts of descriptions."""
    for part, ask, description in (
        ("modes", _modes, "dropout acts in training mode and not in evaluation mode"),
        ("twice", _twice, "a second call with different inputs and masks has its own result"),
        ("elsewhere", _elsewhere, "everything is on the device of the inputs"),
        ("other_attention", _other_attention, attention),
        (
            "dropout",
            _dropout,
            f"dropout acts on {dropped}, in the feed-forward network and on each sublayer's output",
        ),
        ("usual_dropout", _usual_dropout, "the default dropout rate is 0.1"),
        ("gradient", _gradient, f"gradients reach {reached} and every weight"),
        (
            "copy",
            _copy,
            "a deep copy after a call has its own weights, and a state dict can be loaded into it",
        ),
    ):
        exercise.random_cases(ask, __name__)(f"_{name}_{part}", description, exercise.reference)


# --- EncoderLayer -------------------------------------------------------------------------------------------

ENCODER_LAYER = ExerciseCheck(EncoderLayer)
probe = ENCODER_LAYER.probe


_encoder = partial(_layer, EncoderLayer)


@probe("the attention comes first, then the feed-forward network, each with a sum and a normalisation")
def _encoder_values(candidate: Candidate, draw: Draw) -> Observed:
    # The simplest probe comes first, because it is the fastest and distinguishes most mistakes.
    layer = candidate.build(6, 2, 16, dropout=0.0)
    layer.load(_drawn(draw, _layer_shapes(EncoderLayer, 6, 2, 16)))
    return layer.call(draw.normal(2, 5, 6, dtype=torch.float32), _source_mask())


@probe("with norm_first=True, each sublayer reads the normalised input, and the sum is not normalised")
def _encoder_norm_first(candidate: Candidate, draw: Draw) -> Observed:
    layer = _encoder(candidate, draw, norm_first=True)
    return layer.call(*_inputs(EncoderLayer, draw))


@probe("a mask with one row per query is applied, and the layer has the requested number of heads")
def _encoder_full_mask(candidate: Candidate, draw: Draw) -> Observed:
    layer = _encoder(candidate, draw, (6, 3, 4))
    return layer.call(draw.normal(2, 4, 6), _target_mask(4))


@probe("the layer works for one sentence of one token with five features")
def _encoder_of_one(candidate: Candidate, draw: Draw) -> Observed:
    layer = _encoder(candidate, draw, (5, 1, 7), dropout=0.3)
    x, mask = draw.normal(1, 1, 5), torch.ones(1, 1, 1, dtype=torch.bool)
    return {"the result": layer.call(x, mask), "the result with a masked token": layer.call(x, ~mask)}


_add_shared_probes(
    ENCODER_LAYER,
    "encoder",
    attention="the attention function that is passed in is the one that is used",
    dropped="the attention weights",
    reached="the input",
)


# --- DecoderLayer -------------------------------------------------------------------------------------------

DECODER_LAYER = ExerciseCheck(DecoderLayer)
probe = DECODER_LAYER.probe

_decoder = partial(_layer, DecoderLayer)


@probe("self-attention, cross-attention and feed-forward follow each other, each with sum and normalisation")
def _decoder_values(candidate: Candidate, draw: Draw) -> Observed:
    layer = candidate.build(6, 2, 16, dropout=0.0)
    layer.load(_drawn(draw, _layer_shapes(DecoderLayer, 6, 2, 16)))
    x, memory = (draw.normal(2, length, 6, dtype=torch.float32) for length in (4, 5))
    return layer.call(x, memory, _source_mask(), _target_mask(4))


@probe("each mask goes to its own attention, even if source and target have the same length")
def _decoder_same_length(candidate: Candidate, draw: Draw) -> Observed:
    layer = _decoder(candidate, draw, (6, 3, 4))
    x, memory = draw.normal(2, 5, 6), draw.normal(2, 5, 6)
    # Use masks that differ between sentences, and that no layer could construct itself.
    source_mask, target_mask = _source_mask(), _target_mask(5)
    source_mask[0, 0, 1] = False
    target_mask[0, 0, 3] = True
    target_mask[1, 2:, 1] = False
    return layer.call(x, memory, source_mask, target_mask)


@probe("with norm_first=True, each sublayer reads the normalised input, and the memory is used unchanged")
def _decoder_norm_first(candidate: Candidate, draw: Draw) -> Observed:
    layer = _decoder(candidate, draw, norm_first=True)
    return layer.call(*_inputs(DecoderLayer, draw))


@probe("the layer works for one sentence of one token with five features")
def _decoder_of_one(candidate: Candidate, draw: Draw) -> Observed:
    layer = _decoder(candidate, draw, (5, 1, 7), dropout=0.3)
    x, memory, mask = draw.normal(1, 1, 5), draw.normal(1, 1, 5), torch.ones(1, 1, 1, dtype=torch.bool)
    return {
        "the result": layer.call(x, memory, mask, mask),
        "the result with a masked target": layer.call(x, memory, mask, ~mask),
        "the result with a masked source": layer.call(x, memory, ~mask, mask),
    }


_add_shared_probes(
    DECODER_LAYER,
    "decoder",
    attention="both attentions use the attention function that is passed in",
    dropped="all attention weights",
    reached="the input, the memory",
)


# --- Transformer --------------------------------------------------------------------------------------------

TRANSFORMER = ExerciseCheck(Transformer)
probe = TRANSFORMER.probe

_SOURCE_VOCAB, _TARGET_VOCAB = 7, 9
_SMALL: dict[str, Any] = {"layers": 1, "d_model": 4, "heads": 2, "d_ff": 12}
_DEEP: dict[str, Any] = {"layers": 2, "d_model": 6, "heads": 3, "d_ff": 5}


@cache
def _model_shapes(settings: TransformerConfig) -> dict[str, torch.Size]:
    shapes = _shapes_of(lambda: Transformer(_SOURCE_VOCAB, _TARGET_VOCAB, settings))
    # The generator's bias is optional.
    return {name: shape for name, shape in shapes.items() if name != "generator.bias"}


def _model(candidate: Candidate, draw: Draw, training: bool = False, **settings: object) -> Candidate:
    model = in_double(candidate, _SOURCE_VOCAB, _TARGET_VOCAB, config(**settings))
    _load(model, draw, settings)
    if not training:
        model.train(False)
    return model


def _load(model: Candidate, draw: Draw, settings: Mapping[str, Any]) -> None:
    """Load random weights into a model, and zeros into the generator's bias if it has one."""
    weights = _drawn(draw, _model_shapes(TransformerConfig(**settings)))
    model.load(weights, optional={"generator.bias": torch.zeros(_TARGET_VOCAB)})


def _sentences(draw: Draw, target_length: int = 4) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return random sentences as arguments of `forward`: the source, its mask, the target and its mask."""
    source = draw.integers(0, _SOURCE_VOCAB, 2, 5)
    target = draw.integers(0, _TARGET_VOCAB, 2, target_length)
    return source, _source_mask(), target, _target_mask(target_length)


@probe("each target position gets one logit for each word of the target vocabulary")
def _model_logits(candidate: Candidate, draw: Draw) -> Observed:
    settings = _SMALL | {"dropout": 0.0}
    model = candidate.build(_SOURCE_VOCAB, _TARGET_VOCAB, config(**settings))
    _load(model, draw, settings)
    return model.call(*_sentences(draw))


@probe("encode returns the memory and decode the hidden vectors, each after all layers in turn")
def _model_halves(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(candidate, draw, **_DEEP)
    source, source_mask, target, target_mask = _sentences(draw, 5)
    memory = draw.normal(2, 5, _DEEP["d_model"])
    return {
        "the memory": value_of(model.call(source, source_mask, method="encode")),
        "the hidden vectors": value_of(model.call(memory, source_mask, target, target_mask, method="decode")),
    }


@probe("the logits are also correct with two layers, and source and target of the same length")
def _model_same_length(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(candidate, draw, **_DEEP)
    source, source_mask, target, target_mask = _sentences(draw, 5)
    target_mask[0, 0, 3] = True
    target_mask[1, 2:, 1] = False
    return model.call(source, source_mask, target, target_mask)


@probe("the logits are correct for a source of one token and a target of the start token alone")
def _model_of_one_token(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(candidate, draw, **_DEEP)
    mask = torch.ones(1, 1, 1, dtype=torch.bool)
    source, target = draw.integers(0, _SOURCE_VOCAB, 1, 1), draw.integers(0, _TARGET_VOCAB, 1, 1)
    return model.call(source, mask, target, mask)


@probe("with norm_first, the layers normalise first and each stack ends with a normalisation")
def _model_norm_first(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(candidate, draw, **_DEEP, norm_first=True)
    source, source_mask, target, target_mask = _sentences(draw)
    memory = draw.normal(*source.shape, _DEEP["d_model"])
    return {
        "the logits": value_of(model.call(source, source_mask, target, target_mask)),
        "the hidden vectors": value_of(model.call(memory, source_mask, target, target_mask, method="decode")),
    }


@probe("with norm_first, training mode without dropout gives the same result as evaluation mode")
def _model_norm_first_in_training(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(candidate, draw, training=True, **_SMALL, dropout=0.0, norm_first=True)
    return model.call(*_sentences(draw))


@probe("every layer uses the attention function of the config")
def _model_other_attention(candidate: Candidate, draw: Draw) -> Observed:
    sizes = _DEEP | {"dropout": 0.0}
    model = in_double(candidate, _SOURCE_VOCAB, _TARGET_VOCAB, config(**sizes, attention=mean_attention()))
    _load(model, draw, sizes)
    return model.call(*_sentences(draw))


@probe("without norm_first, there is no final normalisation")
def _model_norms(candidate: Candidate, draw: Draw) -> Observed:
    model = candidate.build(_SOURCE_VOCAB, _TARGET_VOCAB, config(**_SMALL))
    return candidate.fixture(count_of("encoder_norm", "decoder_norm")).call(model)


@probe("dropout acts in training mode and not in evaluation mode")
def _model_modes(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(candidate, draw, training=True, **_SMALL, dropout=0.5)
    sentences = _sentences(draw)
    return _dropout_facts(model, *sentences)


@probe("dropout also acts on the sum of embedding and positional encoding")
def _model_position_dropout(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(candidate, draw, training=True, **_SMALL, dropout=0.5)
    shapes = _model_shapes(TransformerConfig(**_SMALL))
    silent = ("output_projection.weight", "output_projection.bias", "outer.weight", "outer.bias")
    model.load({name: torch.zeros(shape) for name, shape in shapes.items() if name.endswith(silent)})
    sentences = _sentences(draw)
    return _dropout_facts(model, *sentences)


def _model_without_sums(candidate: Candidate, draw: Draw) -> Candidate:
    """Build a model whose embeddings cancel the encoding of position 0, so dropout can't change the sums."""
    model = _model(candidate, draw, training=True, **_SMALL, dropout=0.5)
    row = -torch.tensor([0.0, 1.0, 0.0, 1.0]) / math.sqrt(_SMALL["d_model"])
    sizes = {"source": _SOURCE_VOCAB, "target": _TARGET_VOCAB}
    model.load({f"{side}_embedding.table.weight": row.repeat(size, 1) for side, size in sizes.items()})
    return model


@probe("dropout also acts inside the encoder's layers")
def _model_encoder_dropout(candidate: Candidate, draw: Draw) -> Observed:
    model = _model_without_sums(candidate, draw)
    source, mask = draw.integers(0, _SOURCE_VOCAB, 1, 1), torch.ones(1, 1, 1, dtype=torch.bool)
    return _dropout_facts(model, source, mask, method="encode")


@probe("dropout also acts inside the decoder's layers")
def _model_decoder_dropout(candidate: Candidate, draw: Draw) -> Observed:
    model = _model_without_sums(candidate, draw)
    target, mask = draw.integers(0, _TARGET_VOCAB, 1, 1), torch.ones(1, 1, 1, dtype=torch.bool)
    memory = draw.normal(1, 1, _SMALL["d_model"])
    return _dropout_facts(model, memory, mask, target, mask, method="decode")


@probe("layers start with different weights, matrices as Xavier proposed, tables as in TokenEmbedding")
def _model_start(candidate: Candidate, draw: Draw) -> Observed:
    d_model, vocab = 24, 400
    model = candidate.build(vocab, vocab, config(layers=3, d_model=d_model, heads=2, d_ff=4 * d_model))
    names = _model_shapes(TransformerConfig(layers=3, d_model=d_model, heads=2, d_ff=4 * d_model))
    return candidate.fixture(facts_of_start(tuple(names), d_model, layers=3)).call(model)


@probe("everything is on the device of the inputs")
def _model_elsewhere(candidate: Candidate, draw: Draw) -> Observed:
    model = candidate.build(_SOURCE_VOCAB, _TARGET_VOCAB, config(**_SMALL))
    return called_on_a_gpu(model, *_sentences(draw))


@probe("gradients reach every weight")
def _model_gradient(candidate: Candidate, draw: Draw) -> Observed:
    settings = _SMALL | {"norm_first": True, "dropout": 0.0}
    model = _model(candidate, draw, training=True, **settings)
    sentences, toward = _sentences(draw), draw.normal(2, 4, _TARGET_VOCAB)
    reply = model.gradients(*sentences, toward=toward)
    return gradients_of(reply, weights=_model_shapes(TransformerConfig(**settings)))


@probe("if the numbers in the tensors of a call change in place, so do the logits of the next call")
def _model_with_new_contents(candidate: Candidate, draw: Draw) -> Reply:
    model = _model(candidate, draw, **_SMALL)
    first, second = _sentences(draw), _sentences(draw)
    return model.fixture(after_new_contents(model)).call(first, *_with_other_masks(*second))


@probe("calls do not affect each other, and a deep copy that loads a state dict has its own weights")
def _model_copy(candidate: Candidate, draw: Draw) -> Observed:
    model = _model(candidate, draw, **_SMALL)
    copy = model.copy()
    sentences, others = _sentences(draw), _sentences(draw)
    copy.call(*sentences)
    _load(copy, draw, _SMALL)
    return {
        "the logits": value_of(model.call(*sentences)),
        "the logits of the copy": value_of(copy.call(*sentences)),
        "the logits of other sentences": value_of(model.call(*_with_other_masks(*others))),
    }


# --- tie_embeddings -----------------------------------------------------------------------------------------

TIE_EMBEDDINGS = ExerciseCheck(tie_embeddings)
probe = TIE_EMBEDDINGS.probe

_MATRICES = ("source_embedding.table.weight", "target_embedding.table.weight", "generator.weight")
_WORDS, _WIDTH = 7, 6
"""The vocabulary size and number of features of the model to tie."""


def _tied(candidate: Candidate) -> tuple[Candidate, Reply]:
    model = candidate.fixture(reader(_WORDS))
    return model, candidate.call(model)


def _same(one: Value, other: Value) -> bool:
    # A matrix that isn't a dense tensor, such as a sparse one, differs from all others.
    return isinstance(one, Tensor) and isinstance(other, Tensor) and one.equal(other)


def _matrices(reply: Reply) -> Observed:
    if not isinstance(reply, Returned):
        return reply
    return {name: reply.value[name] for name in _MATRICES if name in reply.value}


@probe("the model itself is returned")
def _tied_is_given_back(candidate: Candidate, draw: Draw) -> Observed:
    model, reply = _tied(candidate)
    if not isinstance(reply, Returned):
        return reply
    if reply.value is None:
        return {"the result": None}
    return {"the result": "the model itself" if reply.value == model.handle else "a different object"}


@probe("both tables and the generator hold the same numbers")
def _tied_is_equal(candidate: Candidate, draw: Draw) -> Observed:
    model, reply = _tied(candidate)
    matrices = after(reply, lambda: _matrices(model.weights()))
    if not isinstance(matrices, dict) or len(matrices) < len(_MATRICES):
        return matrices
    source, target, generator = matrices.values()
    return {
        "«the target's table equals the source's»": _same(source, target),
        "«the generator's matrix equals the source's table»": _same(source, generator),
    }


def _follows(candidate: Candidate, draw: Draw, changed: str) -> Observed:
    model, reply = _tied(candidate)
    model.load({changed: draw.normal(_WORDS, _WIDTH)})
    return after(reply, lambda: _matrices(model.weights()))


case = TIE_EMBEDDINGS.random_cases(_follows, __name__)
case("_tied_follows_source", "changing the source's table changes all three matrices", _MATRICES[0])
case("_tied_follows_generator", "changing the generator's matrix changes all three matrices", _MATRICES[2])


@probe("both tables and the generator are one parameter, which collects the gradients of all three uses")
def _tied_gradient(candidate: Candidate, draw: Draw) -> Observed:
    model, reply = _tied(candidate)
    model.load({_MATRICES[0]: draw.normal(_WORDS, _WIDTH)})
    source, target = draw.integers(0, _WORDS, 2, 5), draw.integers(0, _WORDS, 2, 4)
    found = model.gradients(source, _source_mask(), target, _target_mask(4), toward=draw.normal(2, 4, _WORDS))
    return after(reply, lambda: gradients_of(found, weights=_MATRICES))


@probe("tying changes no other weight, such as the generator's bias")
def _tied_keeps_the_rest(candidate: Candidate, draw: Draw) -> Observed:
    before = candidate.fixture(reader(_WORDS)).weights()
    model, reply = _tied(candidate)

    def others() -> Observed:
        weights = model.weights()
        if not isinstance(weights, Returned) or not isinstance(before, Returned):
            return weights
        # A correct solution may remove the bias.
        return {
            f"«`{name}` is unchanged»": _same(old, weights.value.get(name, old))
            for name, old in before.value.items()
            if name not in _MATRICES
        }

    return after(reply, others)


@probe("vocabularies of different sizes raise a ValueError whose message contains both sizes")
def _tied_unequal(candidate: Candidate, draw: Draw) -> Observed:
    return {
        f"the response for vocabularies of {source} and {target} words": candidate.fixture(
            refusal(candidate, source, target, passes=False)
        ).call(candidate.fixture(reader(source, target_vocab=target)))
        for source, target in ((6, 8), (8, 6))
    }


# --- greedy_decode ------------------------------------------------------------------------------------------

GREEDY_DECODE = ExerciseCheck(greedy_decode)
probe = GREEDY_DECODE.probe

_START, _END, _PADDING = 1, 2, 0
#: The output of the scripted model for each second token of a source. It continues after the end token.
_PHRASES = {3: [4, 5, _END, 6, 7], 4: [7, _END, 3, 3, 4], 5: [6, 6, 5, 4, _END], 6: [_END, 5, 5, 5, 5]}


def _book() -> Fixture:
    script = torch.zeros(8, 12, dtype=torch.long)
    for word, phrase in _PHRASES.items():
        script[word] = torch.tensor([*phrase, 5, 4, 3, 4, 5, 6, 7])
    return scripted_model(script, vocab=8)


def _phrases(*words: int) -> tuple[Tensor, Tensor]:
    source = torch.tensor([[7, word, 2] for word in words])
    return source, torch.ones(len(words), 1, 3, dtype=torch.bool)


def _recited(
    candidate: Candidate, words: tuple[int, ...], max_length: int, start: int = _START, end: int = _END
) -> Reply:
    return candidate.call(_book(), *_phrases(*words), max_length, start, end)


case = GREEDY_DECODE.cases(_recited)
case(
    "rows that end early are filled with the end token, and decoding stops when all have ended",
    (3, 4, 6, 5),
    10,
)
case("decoding stops at max_length tokens, including the start token", (5, 3), 4)
case("with a max_length of 1, the result is the start token alone", (5, 3), 1)
case("a batch of a single sentence is decoded correctly", (4,), 9)
case("start_id and end_id are taken from the arguments", (3, 5), 8, 6, 7)
case("an end_id of 0 works like any other", (3, 5), 6, 7, 0)


@probe("the model runs in evaluation mode without gradients, and its mode is restored afterwards")
def _greedy_modes(candidate: Candidate, draw: Draw) -> Observed:
    model = candidate.fixture(_book())
    reply = candidate.call(model, *_phrases(3, 4), 8, _START, _END)
    meanwhile = value_of(model.call(method="notes"))
    facts = {
        "meanwhile": meanwhile,
        **gradients_after_calls(candidate, model, *_phrases(3, 4), 4, _START, _END),
    }
    return after(reply, lambda: {**facts, **mode_afterwards(model)})


@probe("a model that is in evaluation mode stays in it")
def _greedy_keeps_evaluation(candidate: Candidate, draw: Draw) -> Observed:
    model = candidate.fixture(_book())
    model.train(False)
    reply = candidate.call(model, *_phrases(3, 4), 8, _START, _END)
    notes = value_of(model.call(method="notes"))
    return after(reply, lambda: {"meanwhile": notes, **mode_afterwards(model)})


def _reader() -> Fixture:
    # With this seed, every known mistake in choosing tokens changes the output, whatever sentences are drawn.
    return reader(9, target_vocab=11, seed=543)


def _padded(draw: Draw) -> tuple[Tensor, Tensor]:
    source = draw.integers(3, 9, 6, 6)
    source[2:4, 4:] = _PADDING
    source[4:, 2:] = _PADDING
    return source, (source != _PADDING).unsqueeze(1)


@probe("each step takes the most likely word, for sentences of different lengths and a real model")
def _greedy_reader(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_reader(), *_padded(draw), 8, _START, _END)


@probe("each step takes the most likely word, over more steps and with other sentences")
def _greedy_reader_longer(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_reader(), *_padded(draw), 12, _START, _END)


@probe("a second call with the same model translates its own sentences")
def _greedy_twice(candidate: Candidate, draw: Draw) -> Observed:
    model = candidate.fixture(_book())
    return {
        name: value_of(candidate.call(model, *_phrases(*words), 8, _START, _END))
        for name, words in {"the first result": (3, 4), "the second result": (4, 5)}.items()
    }


@probe("the source is encoded once for the whole batch")
def _greedy_encodes_once(candidate: Candidate, draw: Draw) -> Observed:
    model = candidate.fixture(_book())
    reply = candidate.call(model, *_phrases(3, 4), 8, _START, _END)
    return after(reply, lambda: {"the response": value_of(model.call(method="encoded"))})


@probe("everything is on the device of the source")
def _greedy_elsewhere(candidate: Candidate, draw: Draw) -> Reply:
    return called_on_a_gpu(candidate, candidate.fixture(_reader()), *_padded(draw), 8, _START, _END)


# --- predictions --------------------------------------------------------------------------------------------

PREDICT_DECODER_LAYER = PredictionCheck(
    answer=4.204032,
    tolerance=0.02,
    hint="Which sublayer is added in the decoder? Count its matrices: each has 512 x 512 numbers.",
    reason="It has a second attention, of four matrices of 512 · 512: 3.15 + 1.05 = 4.2.",
)

PREDICT_BASE_MODEL = PredictionCheck(
    answer=63.1,
    tolerance=0.05,
    hint="Add up, in millions: the shared matrix of 37,000 rows and 512 columns; six encoder layers of 3.15 "
    "each; six decoder layers, each with one more attention (four matrices of 512 x 512).",
    reason="In millions: 37,000 · 512 is 18.9; 6 · 3.15 is 18.9; and 6 · 4.2 is 25.2.",
)

PREDICT_RUNS = PredictionCheck(
    answer=20.0,
    tolerance=0.001,
    hint="Each run of the decoder adds one token to every row of the batch.",
    reason="One run writes one token for every sentence of the batch.",
)
