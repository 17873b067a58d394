"""The layout of the architecture map: the positions of its boxes, arrows and words.

Positions are pixels from the upper left corner. The left half follows the words upwards through the model, as
in the paper's figure 1. The right half shows the inside of two boxes of the left half and, below them, the
masks and decoding. Data, training and parallelism are at the bottom.
"""

from dataclasses import dataclass

from course_lib.charts.marks import Path

HEIGHT = 694
LEFT, RIGHT = 116, 312
"""The x positions of the middle of the encoder and of the decoder."""


@dataclass(frozen=True)
class Box:
    """A box of the map, with its upper left corner at (`x`, `y`). An open box contains other boxes."""

    name: str
    label: str
    x: float
    y: float
    width: float
    height: float
    is_open: bool = False


def _in_stack(name: str, label: str, middle: float, y: float, height: float) -> Box:
    return Box(name, label, middle - 66, y, 132, height)


def _path(*corners: tuple[float, float], points: bool = True) -> Path:
    return Path(corners, points)


BOXES = (
    # The model.
    Box("Transformer", "Transformer", 2, 46, 416, 384, is_open=True),
    Box("EncoderLayer", "Encoder layer", 22, 168, 170, 180, is_open=True),
    Box("DecoderLayer", "Decoder layer", 222, 94, 170, 254, is_open=True),
    _in_stack("Transformer", "Linear (generator)", RIGHT, 56, 22),
    _in_stack("SublayerConnection", "Add & norm", LEFT, 192, 20),
    _in_stack("FeedForward", "Feed-forward", LEFT, 216, 24),
    _in_stack("SublayerConnection", "Add & norm", LEFT, 264, 20),
    _in_stack("MultiHeadAttention", "Multi-head attention", LEFT, 288, 28),
    _in_stack("SublayerConnection", "Add & norm", RIGHT, 118, 20),
    _in_stack("FeedForward", "Feed-forward", RIGHT, 142, 24),
    _in_stack("SublayerConnection", "Add & norm", RIGHT, 188, 20),
    _in_stack("MultiHeadAttention", "Multi-head attention", RIGHT, 212, 28),
    _in_stack("SublayerConnection", "Add & norm", RIGHT, 264, 20),
    _in_stack("MultiHeadAttention", "Masked\nmulti-head attention", RIGHT, 288, 28),
    _in_stack("PositionalEncoding", "+ positions", LEFT, 362, 20),
    _in_stack("PositionalEncoding", "+ positions", RIGHT, 362, 20),
    _in_stack("TokenEmbedding", "Source embedding", LEFT, 396, 24),
    _in_stack("TokenEmbedding", "Target embedding", RIGHT, 396, 24),
    Box("tie_embeddings", "tied", 194, 397, 40, 22),
    _in_stack("shift_target", "Shifted right", RIGHT, 440, 22),
    # The inside of two boxes, and the masks.
    Box("MultiHeadAttention", "Multi-head attention, lessons 01 and 02", 434, 2, 264, 252, is_open=True),
    Box("merge_heads", "Merge heads, then project", 452, 26, 228, 22),
    Box("scaled_dot_product_attention", "Scaled dot-product attention", 452, 62, 228, 130, is_open=True),
    Box("scaled_dot_product_attention", "Weighted sum of values", 490, 86, 152, 22),
    Box("attention_weights", "Masked softmax", 490, 122, 152, 22),
    Box("attention_scores", "Scores: Q · K / √d_k", 490, 158, 152, 22),
    Box("split_heads", "Project, then split into heads", 452, 208, 228, 22),
    Box("SublayerConnection", "Inside add & norm, lesson 03", 434, 266, 264, 62, is_open=True),
    Box("LayerNorm", "Layer norm", 606, 292, 84, 24),
    Box("padding_mask", "padding", 434, 362, 72, 24),
    Box("causal_mask", "causal", 530, 362, 72, 24),
    Box("decoder_mask", "decoder", 626, 362, 72, 24),
    # Around the model.
    Box("greedy_decode", "greedy_decode", 434, 420, 112, 22),
    Box("beam_search", "beam_search", 434, 448, 112, 22),
    Box("average_checkpoints", "average_checkpoints", 552, 420, 146, 22),
    Box("length_penalty", "length_penalty", 552, 448, 146, 22),
    Box("build_vocabulary", "build_vocabulary", 2, 516, 106, 24),
    Box("learn_merges", "learn_merges", 116, 516, 106, 24),
    Box("token_batches", "token_batches", 2, 546, 106, 24),
    Box("collate", "collate", 116, 546, 106, 24),
    Box("learning_rate", "learning_rate", 250, 516, 112, 24),
    Box("make_scheduler", "make_scheduler", 380, 516, 140, 24),
    Box("smooth_targets", "smooth_targets", 250, 546, 112, 24),
    Box("LabelSmoothingLoss", "LabelSmoothingLoss", 380, 546, 140, 24),
    Box("train_step", "train_step", 250, 576, 270, 24),
    Box("shard", "shard", 548, 516, 52, 24),
    Box("broadcast_parameters", "broadcast", 606, 516, 92, 24),
    Box("global_token_mean", "global_token_mean", 548, 546, 150, 24),
    Box("all_reduce_gradients", "all_reduce_gradients", 548, 576, 150, 24),
    Box("GradientBuckets", "GradientBuckets", 548, 606, 150, 24),
    Box("ShardedOptimizer", "ShardedOptimizer", 548, 636, 150, 24),
)

WAVES = (Box("sinusoids", "", 8, 360, 24, 24), Box("sinusoids", "", 392, 360, 24, 24))
"""The round boxes beside the positional encodings."""

ARROWS = (
    # Up the encoder.
    _path((LEFT, 474), (LEFT, 420)),
    _path((LEFT, 396), (LEFT, 382)),
    _path((LEFT, 362), (LEFT, 316)),
    _path((LEFT, 332), (LEFT - 32, 332), (LEFT - 32, 316)),
    _path((LEFT, 332), (LEFT + 32, 332), (LEFT + 32, 316)),
    _path((LEFT, 340), (45, 340), (45, 274), (50, 274)),
    _path((LEFT, 288), (LEFT, 284), points=False),
    _path((LEFT, 264), (LEFT, 240)),
    _path((LEFT, 252), (45, 252), (45, 202), (50, 202)),
    _path((LEFT, 216), (LEFT, 212), points=False),
    # The memory, which becomes keys and values.
    _path((LEFT, 192), (LEFT, 154), (205, 154), (205, 219), (246, 219)),
    _path((205, 219), (205, 233), (246, 233)),
    # Up the decoder.
    _path((RIGHT, 474), (RIGHT, 462)),
    _path((RIGHT, 440), (RIGHT, 420)),
    _path((RIGHT, 396), (RIGHT, 382)),
    _path((RIGHT, 362), (RIGHT, 316)),
    _path((RIGHT, 332), (RIGHT - 32, 332), (RIGHT - 32, 316)),
    _path((RIGHT, 332), (RIGHT + 32, 332), (RIGHT + 32, 316)),
    _path((RIGHT, 340), (383, 340), (383, 274), (378, 274)),
    _path((RIGHT, 288), (RIGHT, 284), points=False),
    _path((RIGHT, 264), (RIGHT, 240)),
    _path((RIGHT, 252), (383, 252), (383, 198), (378, 198)),
    _path((RIGHT, 212), (RIGHT, 208), points=False),
    _path((RIGHT, 188), (RIGHT, 166)),
    _path((RIGHT, 177), (383, 177), (383, 128), (378, 128)),
    _path((RIGHT, 142), (RIGHT, 138), points=False),
    _path((RIGHT, 118), (RIGHT, 78)),
    _path((RIGHT, 56), (RIGHT, 36)),
    _path((RIGHT, 24), (RIGHT, 14)),
    # The waves.
    _path((32, 372), (50, 372)),
    _path((392, 372), (378, 372)),
    # Inside attention.
    _path((566, 241), (566, 230)),
    _path((536, 208), (536, 180)),
    _path((596, 208), (596, 180)),
    _path((566, 158), (566, 144)),
    _path((566, 122), (566, 108)),
    _path((472, 133), (490, 133)),
    _path((664, 208), (664, 97), (642, 97)),
    _path((628, 86), (628, 48)),
    # Inside add & norm, and between training functions.
    _path((590, 304), (606, 304)),
    _path((362, 528), (380, 528)),
    _path((362, 558), (380, 558)),
)

TIES = (
    _path((182, 408), (194, 408), points=False),
    _path((234, 408), (246, 408), points=False),
    _path((212, 397), (212, 67), (246, 67), points=False),
)
"""Dotted lines between the embeddings and the generator, which share one matrix."""

SIGNS = (
    (RIGHT, 8, "probabilities of the next word"),
    (RIGHT, 30, "softmax"),
    (162, 181, "N times"),
    (366, 107, "N times"),
    (LEFT, 481, "source words"),
    (RIGHT, 481, "target words"),
    (566, 246, "query, key, value"),
    (526, 200, "Q"),
    (586, 200, "K"),
    (673, 140, "V"),
    (470, 124, "mask"),
    (514, 304, "x + dropout(sublayer(x))"),
    (518, 374, "&"),
    (614, 374, "="),
    (234, 212, "K"),
    (234, 241, "V"),
)
"""Words outside the boxes, with the position of their middle."""

HEADINGS = (
    (434, 348, "Masks, lesson 04"),
    (434, 406, "Decoding, lessons 06 and 11"),
    (2, 502, "Data, lesson 10"),
    (250, 502, "Training, lessons 07 to 09"),
    (548, 502, "Parallelism, lesson 12"),
)
"""Names of groups, with the position of their left end."""
