"""Build the students' lessons from the instructor's sources, and grade submissions with nbgrader."""
