"""Lesson 06: its probes and misconceptions."""
