"""From published corpora to batches of token ids."""
