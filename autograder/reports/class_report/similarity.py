"""Find answers that are unusually alike, for a person to review. This has no effect on grades.

Code is compared with copydetect, which implements winnowing (Schleimer, Wilkerson and Aiken, 2003): names of
variables, comments and formatting don't count. Code given in the lesson, and exercises whose answers are too
short to differ, are excluded. The words of
explanations are compared with rapidfuzz, whatever their case and punctuation.
"""

import ast
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations
from statistics import median
from typing import Any

from rapidfuzz import fuzz

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

#: Answers whose token text has fewer characters than this are too short for a comparison. The same limit
#: applies to the words of an explanation.
_MIN_LENGTH = 120

#: Explanations are compared up to this number of characters, because huge ones would take minutes.
_MAX_LENGTH = 4_000

#: The maximum number of pairs that are listed.
_MAX_PAIRS = 100


def similar_answers(records: ClassRecords) -> list[dict[str, Any]]:
    """Return at most 100 rows of answers that are unusually alike, the most similar first.

    Each row describes a group of identical answers to an exercise or a question, and possibly another answer
    that is similar to them. Besides `lesson`, `exercise`, `answer` and `other_answer`, it contains:

    - students: the ids of the students whose answers are identical, except for names and comments in code
    - other: the ids of the students with the other answer, perhaps with `REFERENCE`; empty if there is none
    - similarity: from 0 to 1. For code, the share of the shorter answer's text that is also in the other one;
      for explanations, the share of both texts' characters that they have in common
    - usual: the median similarity over all pairs of different answers in the class
    """
    answers: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for submission in records.submissions:
        for name, source in submission.answers.items():
            answers[submission.lesson, name][submission.student] = source
    found: list[dict[str, Any]] = []
    for (lesson, name), sources in answers.items():
        entry = catalogue().get(name)
        if isinstance(entry, ExerciseCheck):
            rows = _similar_code(entry, sources)
        elif entry is None:
            rows = _similar_texts(sources)
        else:
            continue  # Correct predictions are equal.
        found += ({"lesson": lesson, "exercise": name} | row for row in rows)
    found.sort(key=lambda row: (-row["similarity"], row["exercise"], row["students"]))
    return found[:_MAX_PAIRS]


def _similar_code(entry: ExerciseCheck, codes: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    # Import copydetect only when needed: it imports matplotlib, which takes seconds.
    from copydetect import CodeFingerprint, compare_files

    plain = {student: plain_definition(code, entry.name) for student, code in codes.items()}
    plain[REFERENCE] = plain_definition(entry.source, entry.name)
    prints: dict[str, Any] = {}
    same: dict[str, list[str]] = defaultdict(list)
    for student, code in plain.items():
        if code:
            # Leave out the given signature, because otherwise most of a stub would be found in every answer.
            text = io.StringIO(_bodies(code))
            made = CodeFingerprint(f"{entry.name}.py", _MATCH, _WINDOW, fp=text, language="python")
            if len(made.filtered_code) >= _MIN_LENGTH:
                prints.setdefault(made.filtered_code, made)
                same[made.filtered_code].append(student)
    shares = {
        (one, other): float(max(compare_files(prints[one], prints[other])[1]))
        for one, other in combinations(prints, 2)
    }
    return _rows(same, shares, plain)


def _similar_texts(texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    same: dict[str, list[str]] = defaultdict(list)
    for student, text in texts.items():
        words = " ".join(re.findall(r"\w+", text[:_MAX_LENGTH].casefold()))
        if len(words) >= _MIN_LENGTH:
            same[words].append(student)
    shares = {(one, other): fuzz.ratio(one, other) / 100 for one, other in combinations(same, 2)}
    return _rows(same, shares, texts)


def _rows(
    same: Mapping[str, list[str]], shares: Mapping[tuple[str, str], float], shown: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each group of identical answers, and for each pair of similar ones.

    `same` contains the students with each answer, `shares` the similarities of the answers, and `shown` the
    text to show for each student.
    """
    usual = median(shares.values()) if shares else 0.0
    row: dict[str, Any] = {"usual": usual}
    for students in same.values():
        if len(students) > 1 and 1 - usual >= ABOVE_MEDIAN:
            people = [student for student in students if student != REFERENCE]
            yield row | {
                "students": people,
                "other": [REFERENCE] if REFERENCE in students else [],
                "similarity": 1.0,
                "answer": shown[people[0]],
                "other_answer": shown[people[0]],
            }
    for (one, other), share in shares.items():
        if share >= LISTED_FROM and share - usual >= ABOVE_MEDIAN:
            first, second = sorted((same[one], same[other]), key=lambda group: REFERENCE in group)
            yield row | {
                "students": first,
                "other": second,
                "similarity": share,
                "answer": shown[first[0]],
                "other_answer": shown[second[0]],
            }


def _bodies(code: str) -> str:
    """Return the bodies of all functions in a definition, without their signatures, as one text."""
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)]
    return "\n".join(ast.unparse(statement) for function in functions for statement in function.body)
