"""What people read after grading: feedback, the class report, grades."""
