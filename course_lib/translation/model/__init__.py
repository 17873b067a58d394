"""The model in training: its components, loss, precision and fused layers."""
