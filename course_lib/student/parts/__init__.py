"""Load a student's model parts from their notebooks, build a model, and compare it with the reference.

This package needs neither Jupyter nor the lessons' checks, so that a student's code can also be trained on a
cluster node. A check tests whether one exercise meets its requirements. This package tests whether a model
built from all parts computes exactly what the reference computes.
"""

from course_lib.student.parts.assembly import LESSONS, Parts, build_transformer, load_parts
from course_lib.student.parts.equality import unequal_parts
from course_lib.student.parts.notebook import PartsError

__all__ = ["LESSONS", "Parts", "PartsError", "build_transformer", "load_parts", "unequal_parts"]
