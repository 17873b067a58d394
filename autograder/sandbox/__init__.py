"""Run untrusted code: the confinement, and the kernels inside it.

These modules are also imported inside the sandbox, where the rest of the course is missing.
"""
