"""A student's progress, read from their notebooks: a table in the terminal, and a start page."""

from course_lib.student.progress.notebooks import ProgressError, State, finished_exercises, read_lessons

__all__ = ["ProgressError", "State", "finished_exercises", "read_lessons"]
