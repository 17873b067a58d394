"""The charts of the course, drawn with altair.

A lesson calls `show_offline()` once and then draws. Charts take plain data (tensors, arrays, lists, tables)
and don't depend on lessons or checks. Only the map of the architecture reads the curriculum. Most modules
contain the charts of one lesson; all modules share `theme`, `marks` and `inputs`.
"""

from course_lib.charts.architecture import architecture_map
from course_lib.charts.attention import attention_heatmap, attention_over_sentence, mask_effect
from course_lib.charts.attention_steps import attention_steps
from course_lib.charts.bars import named_bars
from course_lib.charts.comparison import found_beside_expected
from course_lib.charts.data_parallel import communication_timeline
from course_lib.charts.decoding import beam_tree, word_by_word
from course_lib.charts.final_lab import layers_and_heads, run_progress
from course_lib.charts.label_smoothing import calibration_curves, target_distributions
from course_lib.charts.lines import named_lines
from course_lib.charts.live import live_progress, watch_live
from course_lib.charts.masks import leak_probe, mask_panels
from course_lib.charts.multi_head import features_in_heads, heads_overview
from course_lib.charts.orientation import aligned_shapes, broadcast_tables
from course_lib.charts.positional_encoding import clock_hands, number_field, position_waves
from course_lib.charts.softmax import score_spread, softmax_saturation, softmax_temperature
from course_lib.charts.sublayers import layer_costs, normalisation_effect
from course_lib.charts.the_transformer import decoding_steps, shape_flow
from course_lib.charts.theme import Picture, as_svg, as_table, show_offline
from course_lib.charts.training import token_counts
from course_lib.charts.translation_data import (
    batch_tables,
    length_histograms,
    merge_steps,
    sentence_pieces,
)
