"""The probes and misconceptions of each lesson: data for the engine, a file a lesson."""
