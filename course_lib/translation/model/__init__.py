"""The model and its training loss: components, precision, and fused layers."""
