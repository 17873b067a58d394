"""The reports after grading: feedback for students, the class report, exported grades and learning gains."""
