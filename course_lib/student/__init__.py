"""A student's own notebooks: the model parts written in them, and the student's progress."""
