"""Compute and store the results of grading, so that a killed run can resume."""
