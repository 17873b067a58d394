"""Which parts a student writes, in the order in which they build on each other."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from course_lib.student.parts.errors import PartsError

#: All that a run of the lab can use. A part has the name of its exercise and solution cell.
LESSONS: Mapping[str, tuple[str, ...]] = {
    "01-attention": ("attention_scores", "attention_weights", "scaled_dot_product_attention"),
    "02-multi-head": ("split_heads", "merge_heads", "MultiHeadAttention"),
    "03-sublayers": ("LayerNorm", "FeedForward", "SublayerConnection"),
    "04-masks": ("padding_mask", "causal_mask", "decoder_mask", "shift_target"),
    "05-positional-encoding": ("sinusoids", "TokenEmbedding", "PositionalEncoding"),
    "06-the-transformer": (
        "EncoderLayer",
        "DecoderLayer",
        "Transformer",
        "tie_embeddings",
        "greedy_decode",
    ),
    "07-schedule": ("learning_rate", "make_scheduler"),
    "08-label-smoothing": ("smooth_targets", "LabelSmoothingLoss"),
    "11-decoding": ("length_penalty", "beam_search", "average_checkpoints"),
    "12-final-lab": ("shard", "global_token_mean"),
}

#: The last lesson that the model and its training are made of; the two after it decode and share out.
THROUGH_TRAINING = 8

_LAST = 12


def lessons_through(number: int) -> dict[str, tuple[str, ...]]:
    """Give the lessons up to this one. Raises PartsError for a number that is none of theirs."""
    if not 1 <= number <= _LAST:
        raise PartsError(f"parts come from lessons 1 to {_LAST}, and lesson {number} is asked for")
    return {lesson: parts for lesson, parts in LESSONS.items() if int(lesson[:2]) <= number}


def reference(lesson: str, exercise: str) -> Any:
    """Give the reference's function or class of an exercise."""
    # The lab's own two stand with the lab, and are asked for only where it is.
    of_the_lab = lesson == "12-final-lab"
    module = "course_lib.translation.training.distributed" if of_the_lab else "course_lib.transformer"
    return getattr(import_module(module), exercise)
