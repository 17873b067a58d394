"""Which parts a student writes, in the order in which they build on each other."""

from collections.abc import Mapping

from course_lib.parts.errors import PartsError

#: Lessons 01 to 08: all that a training run can use. A part has the name of its exercise and solution cell.
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
}


def lessons_through(number: int) -> dict[str, tuple[str, ...]]:
    """Give the lessons up to this one. Raises PartsError for a number that is none of theirs."""
    last = len(LESSONS)
    if not 1 <= number <= last:
        raise PartsError(f"parts come from lessons 1 to {last}, and lesson {number} is asked for")
    return {lesson: parts for lesson, parts in LESSONS.items() if int(lesson[:2]) <= number}
