"""A local web page on which people mark explanations, question by question: `course mark`."""
