"""Checks that know the mistake: probes of a student's object, compared with the reference."""

from course_lib.checks.exercises.registry import catalogue
from course_lib.checks.notebook import CheckError, check, grading

__all__ = ["CheckError", "catalogue", "check", "grading"]
