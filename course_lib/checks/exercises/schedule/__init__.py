"""Lesson 07: its probes and misconceptions."""
