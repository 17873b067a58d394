"""Lesson 05: its probes and misconceptions."""
