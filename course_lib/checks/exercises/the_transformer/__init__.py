"""The probes and misconceptions of lesson 06."""
