"""Load a student's model parts from their notebooks, build a model, and compare it with the reference.

This package needs only torch and `course_lib.transformer`, so that a cluster node can train a student's code
without Jupyter or the lessons' checks. A check tests whether one exercise fulfils its contract. This package
tests whether a model built from all parts computes exactly what the reference computes.
"""

from course_lib.student.parts.assembly import LESSONS, Part, Parts, build_transformer, load_parts
from course_lib.student.parts.equality import unequal_parts
from course_lib.student.parts.notebook import PartsError

__all__ = ["LESSONS", "Part", "Parts", "PartsError", "build_transformer", "load_parts", "unequal_parts"]
