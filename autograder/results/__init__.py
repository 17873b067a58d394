"""Grading: submissions are read whatever state they are in, and a killed run starts again where it was."""
