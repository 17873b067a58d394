"""The reference implementation of the Transformer, with one module for each idea of the lessons."""

from course_lib.transformer.adam import adam_update
from course_lib.transformer.attention import (
    AttentionFunction,
    attention_scores,
    attention_weights,
    scaled_dot_product_attention,
)
from course_lib.transformer.averaging import average_checkpoints
from course_lib.transformer.batching import collate, token_batches
from course_lib.transformer.broadcasting import pairwise_differences
from course_lib.transformer.byte_pairs import learn_merges
from course_lib.transformer.data_parallel import global_token_mean, shard
from course_lib.transformer.decoding import beam_search, evaluating, greedy_decode, length_penalty
from course_lib.transformer.gradient_buckets import GradientBuckets
from course_lib.transformer.label_smoothing import LabelSmoothingLoss, smooth_targets
from course_lib.transformer.layers import DecoderLayer, EncoderLayer
from course_lib.transformer.masks import causal_mask, decoder_mask, padding_mask, shift_target
from course_lib.transformer.model import Transformer, TransformerConfig, tie_embeddings
from course_lib.transformer.multi_head import MultiHeadAttention, merge_heads, split_heads
from course_lib.transformer.positions import PositionalEncoding, TokenEmbedding, sinusoids
from course_lib.transformer.replicas import all_reduce_gradients, broadcast_parameters
from course_lib.transformer.schedule import learning_rate, make_scheduler
from course_lib.transformer.sharded_optimizer import ShardedOptimizer
from course_lib.transformer.sublayers import FeedForward, LayerNorm, SublayerConnection
from course_lib.transformer.training import train_step
from course_lib.transformer.vocabulary import build_vocabulary

__all__ = [
    "AttentionFunction",
    "DecoderLayer",
    "EncoderLayer",
    "FeedForward",
    "GradientBuckets",
    "LabelSmoothingLoss",
    "LayerNorm",
    "MultiHeadAttention",
    "PositionalEncoding",
    "ShardedOptimizer",
    "SublayerConnection",
    "TokenEmbedding",
    "Transformer",
    "TransformerConfig",
    "adam_update",
    "all_reduce_gradients",
    "attention_scores",
    "attention_weights",
    "average_checkpoints",
    "beam_search",
    "broadcast_parameters",
    "build_vocabulary",
    "causal_mask",
    "collate",
    "decoder_mask",
    "evaluating",
    "global_token_mean",
    "greedy_decode",
    "learn_merges",
    "learning_rate",
    "length_penalty",
    "make_scheduler",
    "merge_heads",
    "padding_mask",
    "pairwise_differences",
    "scaled_dot_product_attention",
    "shard",
    "shift_target",
    "sinusoids",
    "smooth_targets",
    "split_heads",
    "tie_embeddings",
    "token_batches",
    "train_step",
]
