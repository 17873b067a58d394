"""Lesson 08: its probes and misconceptions."""
