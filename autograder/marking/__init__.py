"""A local web page where graders mark explanations, question by question: `course mark`."""
