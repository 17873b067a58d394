"""The settings of a run as typed data, and the provided configurations."""
