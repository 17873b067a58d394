"""Lesson 00: its probes and misconceptions."""
