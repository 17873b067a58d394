"""Training on one or many processes: updates, epochs, checkpoints, metrics, evaluation."""
