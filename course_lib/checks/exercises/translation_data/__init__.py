"""Lesson 10: its probes and misconceptions."""
