"""Translations from a trained model: many sentences at once, with what was computed kept and not redone."""

from course_lib.translation.decoding.backends import has_reference_insides, ready
from course_lib.translation.decoding.batch_decoder import BatchDecoder, greatest_length
from course_lib.translation.decoding.batched_search import search
from course_lib.translation.decoding.ensemble import Ensemble
from course_lib.translation.decoding.hypothesis import Hypothesis, SearchSettings

__all__ = [
    "BatchDecoder",
    "Ensemble",
    "Hypothesis",
    "SearchSettings",
    "greatest_length",
    "has_reference_insides",
    "ready",
    "search",
]
