"""The trainable model: reference or student parts, precision, compilation, fused layers."""
