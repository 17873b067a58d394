"""A student's own code in a run, in place of the reference's: `--parts lessons/`."""
