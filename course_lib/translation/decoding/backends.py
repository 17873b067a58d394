"""Decoder backends, which compute the logits of the next token, for one model or for an ensemble."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.transformer import Transformer
from course_lib.translation.configs.schema import Precision
from course_lib.translation.decoding.cached_decoder import CachedDecoder
from course_lib.translation.decoding.inference_model import InferenceTransformer
from course_lib.translation.model.precision import has_bfloat16, resolve_precision
from course_lib.translation.model.seq2seq import TransformerModel

#: The smallest d_model for which a CPU decodes in bfloat16 by default. With AVX-512 bfloat16, models with a
#: d_model of 512 are 1.5 times as fast. Smaller models gain less, and stay in float32, so that a translation
#: doesn't depend on the other sentences of its batch.
BFLOAT16_MIN_D_MODEL = 512


class Ensemble(nn.ModuleList):
    """Models with the same vocabularies that decode together (Sutskever et al., arXiv 1409.3215, section 3).

    The models start training from different random weights, so they make different errors, and the mean
    of their predictions is more often correct than the prediction of a single model.
    """

    def __init__(self, models: Sequence[TransformerModel]) -> None:
        super().__init__(cast(Iterable[nn.Module], models))

    @property
    def members(self) -> list[TransformerModel]:
        """The models of the ensemble."""
        return list(cast(Iterable[TransformerModel], self))


def make_backend(
    model: TransformerModel | Ensemble, precision: Precision = "float32", any_size: bool = False
) -> "DecoderBackend":
    """Prepare a model for decoding with a key/value cache. It must be the reference's Transformer.

    It runs in bfloat16 if `precision`, the precision of training, is bfloat16 and the hardware supports it,
    but a small model only on a GPU or if `any_size` is true. Otherwise, it runs in the dtype of its weights.
    Each member of an ensemble gets its own backend. A new backend is needed after the weights have changed.
    """
    if isinstance(model, Ensemble):
        members = [make_backend(member, precision, any_size) for member in model.members]
        return DecoderBackend(
            model,
            lambda *given: EnsembleDecoder([member.start(*given) for member in members]),
        )
    assert type(model) is Transformer, "`reference_view` replaces a student's model"
    weight = model.generator.weight
    worthwhile = any_size or weight.device.type != "cpu" or weight.shape[1] >= BFLOAT16_MIN_D_MODEL
    # A model that was trained in bfloat16 may now be on hardware that doesn't support it.
    bfloat16 = (
        worthwhile
        and resolve_precision(precision, weight.device) == "bfloat16"
        and has_bfloat16(weight.device)
    )
    fast = InferenceTransformer(model, torch.bfloat16 if bfloat16 else weight.dtype)
    return DecoderBackend(
        model,
        lambda source, mask, beam: CachedDecoder(fast, fast.encode(source, mask), mask, beam),
    )


class EnsembleDecoder:
    """A decoder that averages the probabilities that the members predict for the next token."""

    def __init__(self, members: Sequence["IncrementalDecoder"]) -> None:
        self._members = members
        dtypes = [member.dtype for member in members]
        self.dtype: torch.dtype = max(dtypes, key=lambda dtype: torch.finfo(dtype).bits)

    def step(self, tokens: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Process the next token of every beam, and return log-probabilities of the token after it.

        They are the logarithms of the members' mean probabilities.
        """
        at_least = torch.promote_types(self.dtype, torch.float32)
        each = [member.step(tokens).to(at_least).log_softmax(dim=-1) for member in self._members]
        return torch.stack(each).logsumexp(dim=0) - math.log(len(each))

    def reorder_beams(self, parent: Int[Tensor, "B K"]) -> None:
        """Reorder the beams: beam k of sentence b continues the previous beam `parent[b, k]`."""
        for member in self._members:
            member.reorder_beams(parent)

    def keep_sentences(self, sentences: Int[Tensor, "B2"]) -> None:
        """Remove all sentences from the batch except those at the indices `sentences`."""
        for member in self._members:
            member.keep_sentences(sentences)


#: A decoder that processes the beams of a batch of sentences token by token. The first step processes one
#: token per sentence, the start token. Later steps process one per beam. `dtype` is the dtype that the logits
#: are computed in; they may be returned in a wider one.
IncrementalDecoder = CachedDecoder | EnsembleDecoder


@dataclass(frozen=True)
class DecoderBackend:
    """A model prepared for decoding with its current weights. Several threads can use it at the same time."""

    module: nn.Module
    start: Callable[[Tensor, Tensor, int], IncrementalDecoder]
    """Encode a batch of sources, given with their masks and the beam size, and return a decoder for it."""
