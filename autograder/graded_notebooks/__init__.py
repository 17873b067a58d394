"""Graded notebooks: the verdicts and points in them, and the feedback that students get."""
