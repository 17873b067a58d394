"""Find answers that are unusually alike, for a person to review. This has no effect on grades.

Answers are compared with copydetect, which implements winnowing (Schleimer, Wilkerson and Aiken, 2003): names
of variables, comments and formatting don't count. Code given in the lesson, and exercises whose answers are
too short to differ, are excluded.
"""

import ast
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations
from statistics import median
from typing import Any

from autograder.reports.class_report.records import ClassRecords
from autograder.reports.class_report.teaching import plain_definition
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.exercises.registry import catalogue

#: The name under which the solution is compared.
REFERENCE = "the reference"

#: The minimum share of common text in a listed pair, and its minimum excess over the class's median.
LISTED_FROM, ABOVE_MEDIAN = 0.8, 0.25

#: The length of the shortest match and the window of the winnowing, in characters of the token text.
_MATCH, _WINDOW = 15, 4

#: Answers whose token text has fewer characters than this are too short for a comparison.
_MIN_LENGTH = 120

#: The maximum number of pairs that are listed.
_MAX_PAIRS = 100


def similar_answers(records: ClassRecords) -> list[dict[str, Any]]:
    """Return at most 100 rows of answers that are unusually alike, the most similar first.

    Each row describes a group of identical answers to an exercise, and possibly another answer that is
    similar to them. Besides `lesson`, `exercise`, `code` and `other_code`, it contains:

    - students: the ids of the students whose answers are identical except for names and comments
    - other: the ids of the students with the other answer, perhaps with `REFERENCE`; empty if there is none
    - similarity: the share of the shorter answer's text that is also in the other answer, from 0 to 1
    - usual: the median similarity over all pairs of different answers in the class
    """
    answers: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for submission in records.submissions:
        for exercise, code in submission.code.items():
            if isinstance(catalogue().get(exercise), ExerciseCheck):
                answers[submission.lesson, exercise][submission.student] = code
    found = [
        row for (lesson, exercise), codes in answers.items() for row in _of_exercise(lesson, exercise, codes)
    ]
    found.sort(key=lambda row: (-row["similarity"], row["exercise"], row["students"]))
    return found[:_MAX_PAIRS]


def _of_exercise(lesson: str, exercise: str, codes: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    # Import copydetect only when needed: it imports matplotlib, which takes seconds.
    from copydetect import CodeFingerprint, compare_files

    entry = catalogue()[exercise]
    assert isinstance(entry, ExerciseCheck)

    plain = {student: plain_definition(code, exercise) for student, code in codes.items()}
    plain[REFERENCE] = plain_definition(entry.source, exercise)
    prints: dict[str, Any] = {}
    same: dict[str, list[str]] = defaultdict(list)
    for student, code in plain.items():
        if code:
            # Leave out the given signature, because otherwise most of a stub would be found in every answer.
            text = io.StringIO(_bodies(code))
            made = CodeFingerprint(f"{exercise}.py", _MATCH, _WINDOW, fp=text, language="python")
            if len(made.filtered_code) >= _MIN_LENGTH:
                prints.setdefault(made.filtered_code, made)
                same[made.filtered_code].append(student)
    shares = {
        (one, other): float(max(compare_files(prints[one], prints[other])[1]))
        for one, other in combinations(prints, 2)
    }
    usual = median(shares.values()) if shares else 0.0
    row: dict[str, Any] = {"lesson": lesson, "exercise": exercise, "usual": usual}
    for students in same.values():
        if len(students) > 1 and 1 - usual >= ABOVE_MEDIAN:
            people = [student for student in students if student != REFERENCE]
            code = plain[people[0]]
            yield row | {
                "students": people,
                "other": [REFERENCE] if REFERENCE in students else [],
                "similarity": 1.0,
                "code": code,
                "other_code": code,
            }
    for (one, other), share in shares.items():
        if share >= LISTED_FROM and share - usual >= ABOVE_MEDIAN:
            first, second = sorted((same[one], same[other]), key=lambda group: REFERENCE in group)
            yield row | {
                "students": first,
                "other": second,
                "similarity": share,
                "code": plain[first[0]],
                "other_code": plain[second[0]],
            }


def _bodies(code: str) -> str:
    """Return the bodies of all functions in a definition, without their signatures, as one text."""
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)]
    return "\n".join(ast.unparse(statement) for function in functions for statement in function.body)
