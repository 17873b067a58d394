"""Submissions that attack the grading: what each tries, may earn, and must not reach."""
