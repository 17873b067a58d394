"""Translation with a trained model: batched beam search with a key/value cache."""
