"""Confine untrusted code, and run the kernels that execute it.

All modules except `archive`, `fork_server` and `provisioner` are also imported inside the sandbox, which
doesn't contain the rest of the course.
"""
