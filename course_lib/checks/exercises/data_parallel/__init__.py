"""Lesson 12: its probes and misconceptions."""
