"""Judge student code from outside the process in which it runs."""
