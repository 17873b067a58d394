"""Run code that is not trusted: what confines it, and the kernels inside.

The modules here are read inside the sandbox as well, where nothing else of the course is.
"""
