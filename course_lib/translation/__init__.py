"""The translation lab: corpora, subwords, batches, training over processes, checkpoints, decoding, scores."""
