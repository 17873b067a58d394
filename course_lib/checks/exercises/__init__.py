"""The data of the checks: a package for each lesson, and the fixtures and requests that lessons share."""
