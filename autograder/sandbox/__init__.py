"""Confine untrusted code, and run the kernels that execute it.

These modules are also imported inside the sandbox, where the rest of the course is missing.
"""
