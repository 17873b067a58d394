"""The library of the course "Build the Transformer": reference, checks, charts and translation lab."""

__version__ = "1.0.0"
