"""A student's own parts, read from their notebooks: whose each is, a model made of them, and what differs.

Needs torch and `course_lib.transformer` only, so that a cluster node can train what a student wrote. (The two
exercises of the final lab stand with the lab.) It does not use `course_lib.checks`, nor they it: a check asks
whether one part keeps its contract, in many ways that a contract leaves free; here the question is whether
one model made of all parts computes what the reference does, and the lab has to answer it where no lesson is
installed.
"""

from course_lib.student.parts.assembly import Part, Parts
from course_lib.student.parts.equality import unequal_parts
from course_lib.student.parts.errors import PartsError
from course_lib.student.parts.kept import keep_parts
from course_lib.student.parts.lessons import LESSONS
from course_lib.student.parts.loading import load_parts
from course_lib.student.parts.model import build_transformer

__all__ = [
    "LESSONS",
    "Part",
    "Parts",
    "PartsError",
    "build_transformer",
    "keep_parts",
    "load_parts",
    "unequal_parts",
]
