"""The students' tools: model parts from notebooks, progress, tutor and Jupyter configuration."""
