"""The files of a run: checkpoints to resume from, and trained models to translate with."""
