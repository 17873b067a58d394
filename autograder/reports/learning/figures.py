"""The tables of the learning report, which don't contain the names of students."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from autograder.release.concept_test import CORRECT, TESTS, ConceptTest
from autograder.reports.learning.records import LearningRecords, Run, statements

#: The gain has an interval only if at least this many students took both tests.
MIN_FOR_INTERVAL = 10

#: A question has a gain only if at least this many students got it wrong in the pre-test.
MIN_FOR_GAIN = 5

#: The maximum number of values that are listed rather than summarised.
LISTED = 12

#: The verdicts of a check that had no answer to examine. Such a run does not count as an attempt.
_NO_ATTEMPT = ("unwritten", "missing", "error")

_RESAMPLES = 10_000


@dataclass(frozen=True)
class Figures:
    """The tables of the learning report."""

    scores: pd.DataFrame
    """A row for each student who took both tests: the numbers of correct answers, and their change."""
    questions: pd.DataFrame
    """A row for each question, about the students who took both tests."""
    options: pd.DataFrame
    """A row for each option, about everyone who took a test."""
    ideas: pd.DataFrame
    """A row for each wrong idea that a student showed in a lesson or in the post-test."""
    attempts: pd.DataFrame
    """A row for each check in the logs, and for each misconception that it named."""


def figures(test: ConceptTest, records: LearningRecords) -> Figures:
    """Compute all tables of the learning report."""
    both = sorted(records.answers["pre"].keys() & records.answers["post"].keys())
    right = pd.DataFrame(
        {
            (name, question.name): [answers[student][question.name] == CORRECT for student in both]
            for name, answers in records.answers.items()
            for question in test.questions
        }
    )
    scores = pd.DataFrame({name: right[name].to_numpy().sum(axis=1) for name in TESTS})
    ideas = _table(_ideas(test, records), "idea students could_again again places")
    return Figures(
        scores=scores.assign(change=scores["post"] - scores["pre"]),
        questions=_table(_questions(test, right), "question lesson pre post learned lost gain"),
        options=_table(_options(test, records), "question option statement pre post"),
        ideas=ideas.sort_values(["again", "students"], ascending=False, kind="stable"),
        attempts=_table(_attempts(records.logged), "lesson check after statement students passed runs"),
    )


def _table(rows: Iterator[tuple[object, ...]], columns: str) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=columns.split())


def gain(scores: pd.DataFrame, questions: int) -> tuple[float, ...]:
    """Return the normalised gain (Hake, 1998) and, with enough students, its 95% bootstrap interval.

    `scores` has a row for each student, with the number of correct answers in each test, and `questions` is
    the number of questions. The gain is the increase of the mean score divided by the largest possible
    increase. The result is the gain, followed by the two ends of the interval if there are at least
    MIN_FOR_INTERVAL students. It is empty if there are no students, or if no increase was possible.
    """
    pre, post = (scores[name].to_numpy(float) for name in TESTS)
    if not len(pre) or pre.mean() == questions:
        return ()
    value = float((post.mean() - pre.mean()) / (questions - pre.mean()))
    if len(pre) < MIN_FOR_INTERVAL:
        return (value,)
    drawn = np.random.default_rng(0).integers(len(pre), size=(_RESAMPLES, len(pre)))
    before, after = pre[drawn].mean(axis=1), post[drawn].mean(axis=1)
    possible = before < questions
    gains = (after[possible] - before[possible]) / (questions - before[possible])
    return (value, *map(float, np.quantile(gains, [0.025, 0.975])))


def _questions(test: ConceptTest, right: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    for question in test.questions:
        before, after = (right[name, question.name].astype(bool) for name in TESTS)
        wrong = int((~before).sum())
        change = (after.sum() - before.sum()) / wrong if wrong >= MIN_FOR_GAIN else math.nan
        counts = (before, after, after & ~before, before & ~after)
        yield (question.name, question.lesson, *(int(which.sum()) for which in counts), change)


def _options(test: ConceptTest, records: LearningRecords) -> Iterator[tuple[object, ...]]:
    for question in test.questions:
        chosen = {name: [found[question.name] for found in records.answers[name].values()] for name in TESTS}
        for option in (CORRECT, *question.pre.wrong, ""):
            said = {CORRECT: "correct", "": "no answer"}.get(option) or question.statement(option)
            yield (question.name, option or "none", said, *(chosen[name].count(option) for name in TESTS))


def _ideas(test: ConceptTest, records: LearningRecords) -> Iterator[tuple[object, ...]]:
    for idea in test.ideas:
        members = idea.members
        exercises = {exercise for exercise, _ in members}
        made: dict[str, set[str]] = defaultdict(set)
        examined: dict[str, set[str]] = defaultdict(set)
        for run in (*records.graded, *records.logged, *_post_test(test, records, members)):
            if run.exercise in exercises and run.verdict in ("right", "wrong"):
                examined[run.student].add(run.lesson)
            if any((run.exercise, name) in members for name in run.misconceptions):
                made[run.student].add(run.lesson)
        if made:
            # Names of lessons begin with their number, so the name of the post-test is the last in
            # alphabetical order.
            could = sum(max(examined[student]) > min(lessons) for student, lessons in made.items())
            again = sum(len(lessons) > 1 for lessons in made.values())
            counts = Counter(lesson for lessons in made.values() for lesson in lessons)
            listed = "; ".join(f"{lesson}: {count}" for lesson, count in sorted(counts.items()))
            yield idea.name, len(made), could, again, listed


def _post_test(test: ConceptTest, records: LearningRecords, members: set[tuple[str, str]]) -> Iterator[Run]:
    """Yield a `Run` for each answer to a post-test question that offers one of these misconceptions.

    `members` has the same form as `Idea.members`.
    """
    for student, answers in records.answers["post"].items():
        for question in test.questions:
            if any((question.exercise, wrong) in members for wrong in question.post.wrong):
                chosen = answers[question.name]
                verdict = "right" if chosen == CORRECT else "wrong"
                yield Run(student, TESTS["post"], question.exercise, verdict, (chosen,))


def _attempts(logged: Sequence[Run]) -> Iterator[tuple[object, ...]]:
    by_check: dict[tuple[str, str], dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in sorted(logged, key=lambda run: run.lesson):
        if run.verdict not in _NO_ATTEMPT:
            by_check[run.lesson, run.exercise][run.student].append(run)
    for (lesson, exercise), logs in by_check.items():
        # `until[""]` holds the number of runs until the check passed for each student, or 0 if it never did.
        # `until[name]` holds the same for the students whose runs name the misconception `name`, counted from
        # the run after the check first named it.
        until: dict[str, list[int]] = defaultdict(list)
        for runs in logs.values():
            until[""].append(_passed(runs))
            for name in dict.fromkeys(name for run in runs for name in run.misconceptions):
                first = next(number for number, run in enumerate(runs, 1) if name in run.misconceptions)
                until[name].append(_passed(runs[first:]))
        for name, numbers in until.items():
            passed = [number for number in numbers if number]
            statement = statements(exercise)[name] if name else ""
            yield lesson, exercise, name, statement, len(numbers), len(passed), spread(passed)


def _passed(runs: Sequence[Run]) -> int:
    """Return the number of runs up to and including the first that passed, or 0 if none did."""
    return next((number for number, run in enumerate(runs, 1) if run.verdict == "right"), 0)


def spread(values: Sequence[int]) -> str:
    """Return a text with all values or, if there are too many, with their quartiles and maximum."""
    if len(values) <= LISTED:
        return ", ".join(map(str, sorted(values)))
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"median {middle:g} (quartiles {low:g} and {high:g}), at most {max(values)}"
