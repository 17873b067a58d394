"""Training: `python -m course_lib.translation.train CONFIG` runs an experiment from corpus to BLEU score."""
