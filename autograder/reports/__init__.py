"""The reports after grading: the class report, exported grades and learning gains."""
