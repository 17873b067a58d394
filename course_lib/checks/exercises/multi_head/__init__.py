"""Lesson 02: its probes and misconceptions."""
