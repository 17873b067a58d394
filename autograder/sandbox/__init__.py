"""Confine untrusted code, and run the kernels that execute it.

All but `archive`, `fork_server` and `provisioner` are also imported inside the sandbox, where the rest of the
course is missing.
"""
