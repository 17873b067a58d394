"""The integration of the grader into nbgrader's commands."""
