"""Lesson 11: its probes and misconceptions."""
