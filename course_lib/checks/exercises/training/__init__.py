"""Lesson 09: its probes and misconceptions."""
