"""Lesson 01: its probes and misconceptions."""
