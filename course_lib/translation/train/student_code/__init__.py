"""Training with the code that a student wrote in the lessons."""
