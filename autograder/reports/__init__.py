"""The reports after grading: feedback, the class report, grades."""
