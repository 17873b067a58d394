"""Material for the next class: explanations of common mistakes, and comparisons with the reference."""

import ast
from collections.abc import Hashable
from difflib import SequenceMatcher
from typing import Any

import pandas as pd

from autograder.marking.grouping import Piece, differences
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.misconceptions import Misconception
from course_lib.checks.exercises.registry import catalogue

#: The maximum number of mistakes that the report explains.
EXPLAINED = 5

#: Below this similarity, two programs share no structure, so their lines can't be compared.
_ALIKE = 0.5

#: The maximum length of an answer that is compared, in characters. No sensible answer is longer.
_MAX_COMPARED = 20_000


def explanations(misconceptions: pd.DataFrame) -> list[tuple[dict[Hashable, Any], Misconception]]:
    """Return the rows of the most common mistakes, at most EXPLAINED, each with its misconception.

    `misconceptions` is the table `Figures.misconceptions`. Unknown mistakes are skipped.
    """
    found = [
        (row, known)
        for row in misconceptions.to_dict("records")
        if isinstance(entry := catalogue().get(row["exercise"]), ExerciseCheck)
        for known in entry.misconceptions
        if known.name == row["misconception"]
    ]
    return found[:EXPLAINED]


def differing_lines(code: str, exercise: str) -> list[Piece]:
    """Compare a student's code with the reference. Return the lines that differ, with one line of context.

    Comments, docstrings and formatting are ignored. Return an empty list if the exercise is unknown, or if
    the code cannot be parsed or has too little in common with the reference.
    """
    entry = catalogue().get(exercise)
    if not isinstance(entry, ExerciseCheck):
        return []
    student, reference = (plain_definition(text, entry.name).splitlines() for text in (code, entry.source))
    if not student or SequenceMatcher(None, reference, student, autojunk=False).ratio() < _ALIKE:
        return []
    return list(differences(student, reference, context=1))


def plain_definition(code: str, name: str) -> str:
    """Return the definition called `name` without comments and docstrings, formatted uniformly.

    Return an empty string if the code has no such definition, is too long, or cannot be parsed.
    """
    if len(code) > _MAX_COMPARED:
        return ""
    try:
        tree = ast.parse(code)
        found = [node for node in tree.body if getattr(node, "name", None) == name]
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        return "\n".join(map(ast.unparse, found))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
