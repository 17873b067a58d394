"""The translation lab: data preparation, data-parallel training, checkpoints, decoding and evaluation."""
