"""Build what students get from the instructor's source, and grade what comes back, with nbgrader."""
