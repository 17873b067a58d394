"""Lesson 13: its probes, misconceptions and files to hand in."""
