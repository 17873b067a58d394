"""Translation with a trained model: batched beam search with a key/value cache."""

from course_lib.translation.decoding.backends import DecoderBackend, Ensemble, make_backend
from course_lib.translation.decoding.batch_decoder import BatchDecoder
from course_lib.translation.decoding.beam_search import search
from course_lib.translation.decoding.search_settings import Hypothesis, SearchSettings

__all__ = [
    "BatchDecoder",
    "DecoderBackend",
    "Ensemble",
    "Hypothesis",
    "SearchSettings",
    "make_backend",
    "search",
]
