"""Build the Transformer: the reference, the checks, the charts and the translation lab of the course."""

__version__ = "0.1.0"
