"""Lesson 04: its probes and misconceptions."""
