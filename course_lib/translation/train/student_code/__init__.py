"""Training with a student's code from the lessons."""
