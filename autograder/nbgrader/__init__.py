"""The layer that plugs the grader into nbgrader's commands."""
