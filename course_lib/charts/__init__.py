"""The pictures of the course, drawn with altair.

A lesson calls `show_offline()` once and then draws. Charts take plain data: tensors, arrays, lists and
tables; they know nothing of lessons or checks.
"""

from course_lib.charts.aligned_shapes import aligned_shapes
from course_lib.charts.architecture import architecture_map
from course_lib.charts.attention import attention_heatmap
from course_lib.charts.batch import batch_tables
from course_lib.charts.beam import beam_tree
from course_lib.charts.broadcast_tables import broadcast_tables
from course_lib.charts.calibration import calibration_curves
from course_lib.charts.clocks import clock_hands
from course_lib.charts.comparison import found_beside_expected
from course_lib.charts.confidence import loss_by_confidence
from course_lib.charts.costs import layer_costs
from course_lib.charts.decoding import decoding_steps
from course_lib.charts.fields import number_field
from course_lib.charts.head_costs import cost_of_heads
from course_lib.charts.layers_and_heads import layers_and_heads
from course_lib.charts.leak_probe import leak_probe
from course_lib.charts.learning import learning_curve
from course_lib.charts.lengths import length_histograms
from course_lib.charts.lines import named_lines
from course_lib.charts.live import followed, watched
from course_lib.charts.mask_panels import mask_panels
from course_lib.charts.masking import mask_effect
from course_lib.charts.merging import merge_steps
from course_lib.charts.normalising import normalisation_effect
from course_lib.charts.padding import padded_share
from course_lib.charts.parameters import parameters_by_part
from course_lib.charts.pieces import sentence_pieces
from course_lib.charts.run_progress import run_progress
from course_lib.charts.saturation import softmax_saturation
from course_lib.charts.schedules import schedule_curves
from course_lib.charts.sentence import attention_over_sentence
from course_lib.charts.shapes import shape_flow
from course_lib.charts.smoothing import target_distributions
from course_lib.charts.splitting import features_in_heads
from course_lib.charts.spread import score_spread
from course_lib.charts.temperature import softmax_temperature
from course_lib.charts.theme import Picture, as_svg, show_offline
from course_lib.charts.token_counts import token_counts
from course_lib.charts.waves import position_waves
from course_lib.curriculum import exercises_through

__all__ = [
    "Picture",
    "aligned_shapes",
    "architecture_map",
    "as_svg",
    "attention_heatmap",
    "attention_over_sentence",
    "batch_tables",
    "beam_tree",
    "broadcast_tables",
    "calibration_curves",
    "clock_hands",
    "cost_of_heads",
    "decoding_steps",
    "exercises_through",
    "features_in_heads",
    "followed",
    "found_beside_expected",
    "layer_costs",
    "layers_and_heads",
    "leak_probe",
    "learning_curve",
    "length_histograms",
    "loss_by_confidence",
    "mask_effect",
    "mask_panels",
    "merge_steps",
    "named_lines",
    "normalisation_effect",
    "number_field",
    "padded_share",
    "parameters_by_part",
    "position_waves",
    "run_progress",
    "schedule_curves",
    "score_spread",
    "sentence_pieces",
    "shape_flow",
    "show_offline",
    "softmax_saturation",
    "softmax_temperature",
    "target_distributions",
    "token_counts",
    "watched",
]
