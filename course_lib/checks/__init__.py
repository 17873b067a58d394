"""Checks that recognise mistakes: they probe a student's object and compare it with the reference."""

from course_lib.checks.notebook import CheckError, check

__all__ = ["CheckError", "check"]
