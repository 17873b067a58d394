"""The folders of graded notebooks."""

from pathlib import Path

from nbgrader.coursedir import CourseDirectory


def grading_folder(course: CourseDirectory) -> Path:
    """Return the folder that contains the folder of graded submissions and `not_graded.json`."""
    return Path(course.format_path(course.autograded_directory, "", "")).parent


def graded_folder(course: CourseDirectory, student: str, lesson: str) -> Path:
    """Return the folder of a student's graded notebooks of a lesson."""
    return Path(course.format_path(course.autograded_directory, student, lesson))
