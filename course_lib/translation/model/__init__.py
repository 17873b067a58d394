"""The model and its training loss: components, devices, precision, and fused layers."""
