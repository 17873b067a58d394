"""Concept tests before and after the course, and a report on what a class has learned."""
