"""Translations from a trained model: many sentences at once, with what was computed kept and not redone."""

from course_lib.translation.decoding.batch_decoder import BatchDecoder, greatest_length, has_reference_insides
from course_lib.translation.decoding.hypothesis import Hypothesis, SearchSettings

__all__ = ["BatchDecoder", "Hypothesis", "SearchSettings", "greatest_length", "has_reference_insides"]
