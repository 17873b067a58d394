"""Lesson 03: its probes and misconceptions."""
