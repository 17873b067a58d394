"""A student's own notebooks: the parts written in them, and the progress made."""
