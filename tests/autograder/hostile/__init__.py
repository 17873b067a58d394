"""Submissions that attack grading: what each attempts, may earn, and must not reach."""
