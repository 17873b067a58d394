"""The students' tools: model parts from notebooks, progress, check log, tutor and Jupyter configuration."""
