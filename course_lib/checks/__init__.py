"""Checks that know the mistake: probes of a student's object, compared with the reference."""

from course_lib.checks.catalogue import catalogue
from course_lib.checks.notebook import CheckFailed, check, grading

__all__ = ["CheckFailed", "catalogue", "check", "grading"]
