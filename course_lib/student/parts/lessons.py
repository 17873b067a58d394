"""The parts that a student writes, in the order in which they build on each other."""

from collections.abc import Mapping
from typing import Any

from course_lib import transformer
from course_lib.student.parts.notebook import PartsError

#: All parts that a run of the lab can use. A part has the name of its exercise and of its solution cell.
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

#: The last lesson with parts of the model and its training. Later ones decode and distribute batches.
THROUGH_TRAINING = 8

_LAST = 12


def lessons_through(number: int) -> dict[str, tuple[str, ...]]:
    """Return the lessons up to this one. Raises PartsError if there is no such lesson."""
    if not 1 <= number <= _LAST:
        raise PartsError(f"lesson {number} has no parts; choose a lesson from 1 to {_LAST}")
    return {lesson: parts for lesson, parts in LESSONS.items() if int(lesson[:2]) <= number}


def reference(exercise: str) -> Any:
    """Return the reference's function or class of an exercise."""
    return getattr(transformer, exercise)
