"""Small models for the tests of decoding, with enlarged random weights or one second of training.

Initial weights hide mistakes of a search, because every sentence gets the same short translation. A model
that has learned to copy imperfectly is often uncertain, but attends to the right words and stops in time.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import jaxtyping
import pytest
import torch
from torch import Tensor

from course_lib.transformer import (
    LabelSmoothingLoss,
    Transformer,
    TransformerConfig,
    beam_search,
    decoder_mask,
    greedy_decode,
    padding_mask,
    shift_target,
    tie_embeddings,
)
from course_lib.translation.model.fused import fused_attention

PAD, START, END = 0, 1, 2
WORDS = 11


def enlarged(
    seed: int, words: int = WORDS, norm_first: bool = False, tied: bool = False, end_bias: float = 1.0
) -> Transformer:
    """Build a model with enlarged random weights in float64."""
    torch.manual_seed(seed)
    model = Transformer(words if tied else WORDS, words, TransformerConfig(2, 16, 4, 24, 0.3, norm_first))
    with torch.no_grad():
        if tied:
            tie_embeddings(model)
        model.source_embedding.table.weight.mul_(3.0)
        for layer in (*model.encoder_layers, *model.decoder_layers):
            for parameter in layer.parameters():
                if parameter.dim() == 2:
                    parameter.mul_(2.0)
                else:
                    parameter.add_(torch.randn_like(parameter), alpha=0.2)
        model.generator.bias.normal_()
        model.generator.bias[END] += end_bias
    return model.double()


def taught(norm_first: bool = False, tied: bool = False, fused: bool = False) -> Transformer:
    """Return a model, in float64, that copies sentences while omitting or replacing words."""
    model = copy.deepcopy(_taught(norm_first, tied))
    if fused:
        for module in model.modules():
            if hasattr(module, "attention"):
                module.attention = fused_attention
    return model


@contextmanager
def _shapes_unchecked() -> Iterator[None]:
    """Disable the shape checks, which are slow, and which the reference's own tests run anyway."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)
        yield


@cache
@_shapes_unchecked()
def _taught(norm_first: bool, tied: bool) -> Transformer:
    torch.manual_seed(5)
    model = Transformer(WORDS, WORDS, TransformerConfig(2, 16, 4, 24, 0.0, norm_first))
    if tied:
        tie_embeddings(model)
    loss = LabelSmoothingLoss(WORDS, PAD, smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(90):
        sources = [torch.randint(3, WORDS, (int(length),)) for length in torch.randint(1, 8, (32,))]
        source = padded(sources)
        target = padded([_miscopied(row) for row in sources])
        decoder_input, labels = shift_target(target)
        logits = model(source, padding_mask(source, PAD), decoder_input, decoder_mask(decoder_input, PAD))
        optimizer.zero_grad()
        loss(logits, labels).backward()
        optimizer.step()
    return model.double().eval()


def _miscopied(row: Tensor) -> Tensor:
    kept = row[torch.rand(len(row)) > 0.15]
    wrong = torch.randint(3, WORDS, (len(kept),))
    words = torch.where(torch.rand(len(kept)) < 0.25, wrong, kept)
    return torch.cat([torch.tensor([START]), words, torch.tensor([END])])


def sentences(seed: int, lengths: Sequence[int]) -> list[Tensor]:
    """Draw sentences of these lengths from words that all these models know."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, 9, (length,), generator=generator) for length in lengths]


@_shapes_unchecked()
def found_by_reference(model: Any, row: Tensor, limit: int, beam: int, alpha: float) -> list[int]:
    """Return the translation that the reference finds for a single sentence, up to the first end token."""
    source = row.unsqueeze(0)
    mask = padding_mask(source, PAD)
    if beam == 1:
        target = greedy_decode(model, source, mask, limit, START, END)
    else:
        target = beam_search(model, source, mask, beam, limit, START, END, alpha)
    ids: list[int] = target[0, 1:].tolist()
    return ids[: ids.index(END) + 1] if END in ids else ids


def padded(rows: Sequence[Tensor]) -> Tensor:
    """Pad sentences into one matrix."""
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=PAD)
