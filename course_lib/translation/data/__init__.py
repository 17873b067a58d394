"""Data preparation, from published corpora to batches of token ids."""
