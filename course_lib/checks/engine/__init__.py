"""The check engine: probes of a student's object, comparison with the reference, and diagnosis."""
