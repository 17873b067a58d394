"""The data of the checks: one folder for each lesson."""
