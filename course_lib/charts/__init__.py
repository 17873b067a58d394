"""The pictures of the course, drawn with altair.

A lesson calls `show_offline()` once and then draws. Charts take plain data: tensors, arrays, lists and
tables; they know nothing of lessons or checks.
"""

from course_lib.charts.architecture import architecture_map
from course_lib.charts.attention import attention_heatmap
from course_lib.charts.blocks import BLOCKS, Block, exercises_through
from course_lib.charts.comparison import found_beside_expected
from course_lib.charts.masking import mask_effect
from course_lib.charts.saturation import softmax_saturation
from course_lib.charts.sentence import attention_over_sentence
from course_lib.charts.spread import score_spread
from course_lib.charts.temperature import softmax_temperature
from course_lib.charts.theme import Picture, as_svg, show_offline

__all__ = [
    "BLOCKS",
    "Block",
    "Picture",
    "architecture_map",
    "as_svg",
    "attention_heatmap",
    "attention_over_sentence",
    "exercises_through",
    "found_beside_expected",
    "mask_effect",
    "score_spread",
    "show_offline",
    "softmax_saturation",
    "softmax_temperature",
]
