"""Conversion of a trained model to CTranslate2, the fastest free inference engine of its kind on CPUs."""

from pathlib import Path
from typing import Any

import ctranslate2
import torch
from ctranslate2.specs import TransformerSpec, common_spec

from course_lib.transformer import LayerNorm, MultiHeadAttention, Transformer
from course_lib.translation.decoding.translator import Translator


def converted(translator: Translator, folder: Path, batches: int, threads: int) -> ctranslate2.Translator:
    """Write the model to a new folder in CTranslate2's format, and load it from there in float32.

    Its tokens are the lab's token ids as text, such as "17". It decodes `batches` batches in parallel, each
    with `threads` threads.
    """
    model, ids = translator.model, translator.vocabulary
    assert isinstance(model, Transformer)
    model = model.cpu().float()
    config = translator.config.model
    spec = TransformerSpec.from_config(
        config.layers, config.heads, pre_norm=config.norm_first, activation=common_spec.Activation.RELU
    )
    spec.register_source_vocabulary([str(number) for number in range(len(ids))])
    spec.register_target_vocabulary([str(number) for number in range(len(ids))])
    spec.config.bos_token = spec.config.decoder_start_token = str(ids.start_id)
    spec.config.eos_token, spec.config.unk_token = str(ids.end_id), str(ids.unknown_id)
    spec.config.layer_norm_epsilon = model.encoder_layers[0].sublayers[0].norm.eps  # type: ignore[index,union-attr]
    _fill(spec, model)
    spec.validate()
    spec.optimize()
    folder.mkdir(parents=True)
    spec.save(str(folder))
    return ctranslate2.Translator(
        str(folder), device="cpu", compute_type="float32", inter_threads=batches, intra_threads=threads
    )


def _fill(spec: Any, model: Transformer) -> None:
    encoder, decoder = spec.encoder, spec.decoder
    encoder_layers: Any = model.encoder_layers
    decoder_layers: Any = model.decoder_layers
    encoder.embeddings[0].weight = _array(model.source_embedding.table.weight)
    decoder.embeddings.weight = _array(model.target_embedding.table.weight)
    encoder.scale_embeddings = decoder.scale_embeddings = True
    for stack in (encoder, decoder):
        stack.position_encodings.encodings = _array(model.positions.table)
    for to, layer in zip(encoder.layer, encoder_layers, strict=True):
        _attention(to.self_attention, layer.self_attention, ("query", "key", "value"))
        norms = (to.self_attention.layer_norm, to.ffn.layer_norm)
        _rest(to.ffn, layer.feed_forward, norms, layer.sublayers)
    for to, layer in zip(decoder.layer, decoder_layers, strict=True):
        _attention(to.self_attention, layer.self_attention, ("query", "key", "value"))
        _attention(to.attention, layer.cross_attention, ("query",), ("key", "value"))
        three = (to.self_attention.layer_norm, to.attention.layer_norm, to.ffn.layer_norm)
        _rest(to.ffn, layer.feed_forward, three, layer.sublayers)
    if model.encoder_norm is not None and model.decoder_norm is not None:
        _norm(encoder.layer_norm, model.encoder_norm)
        _norm(decoder.layer_norm, model.decoder_norm)
    decoder.projection.weight = _array(model.generator.weight)
    decoder.projection.bias = _array(model.generator.bias)


def _attention(to: Any, attention: MultiHeadAttention, *groups: tuple[str, ...]) -> None:
    for linear, names in zip(to.linear, groups, strict=False):
        projections = [getattr(attention, f"{name}_projection") for name in names]
        linear.weight = _array(torch.cat([each.weight for each in projections]))
        linear.bias = _array(torch.cat([each.bias for each in projections]))
    to.linear[-1].weight = _array(attention.output_projection.weight)
    to.linear[-1].bias = _array(attention.output_projection.bias)


def _rest(to: Any, feed_forward: Any, norms: tuple[Any, ...], sublayers: Any) -> None:
    for linear, layer in ((to.linear_0, feed_forward.inner), (to.linear_1, feed_forward.outer)):
        linear.weight, linear.bias = _array(layer.weight), _array(layer.bias)
    for norm, sublayer in zip(norms, sublayers, strict=True):
        _norm(norm, sublayer.norm)


def _norm(to: Any, norm: LayerNorm) -> None:
    to.gamma, to.beta = _array(norm.scale), _array(norm.shift)


def _array(weight: torch.Tensor) -> Any:
    return weight.detach().contiguous().numpy()
