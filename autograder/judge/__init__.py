"""Judge what a student wrote from outside the process in which it runs."""
