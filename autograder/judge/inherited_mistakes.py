"""Check answers again that may fail only because the student's earlier answers fail.

A check runs an answer together with the student's other functions, so a mistake in one exercise can make a
later one fail, too. Such an answer is checked again with the course's code in place of those functions.
"""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder.judge.job import Cell, Job, Result
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.kept_values import names_used
from course_lib.checks.exercises.registry import catalogue

#: The name of the error in the output of a check that was never run.
NOT_RUN = "NotRun"


def answers_to_check_again(job: Job, result: Result) -> dict[tuple[str, ...], list[str]]:
    """Return the ids of the cells whose checks should run again, keyed by the exercises to replace.

    An exercise is replaced if it fails its own check and the later exercise's reference uses it. The
    student's own code can't tell what it uses without trusting the kernel. Answers that aren't written yet,
    or that call a forbidden function, aren't checked again, and neither are answers that were never checked.
    """
    outputs = {cell.id: outputs for cell, outputs in zip(job.cells, result.outputs, strict=True)}
    checked = {
        cell: finding
        for cell, finding in result.findings.items()
        if not any(output.get("ename") == NOT_RUN for output in outputs[cell])
    }
    names = {finding["name"] for finding in checked.values() if finding["verdict"] != "right"}
    unchanged = {cell.id for cell in job.cells if cell.released}
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for cell, finding in checked.items():
        name, verdict = finding["name"], finding["verdict"]
        if name not in names or verdict == "forbidden" or (verdict == "unwritten" and name in unchanged):
            continue
        if parts := tuple(sorted(used_by_reference(name) & (names - {name}))):
            found[parts].append(cell)
    return found


def with_course_code(job: Job, parts: Sequence[str], checks: Sequence[str]) -> Job:
    """Return a job that runs only these checks, with the course's code for the exercises `parts`.

    The cells before the checks run as well. A new cell in front of each cell imports the course's code, so it
    doesn't matter where the notebook defines these exercises.
    """
    imports = "\n".join(f"from {_check_of(part).reference.__module__} import {part}" for part in parts)
    course_code = Cell("course-code", imports, judged=False, optional=False)
    end = max(index for index, cell in enumerate(job.cells, start=1) if cell.id in checks)
    kept = (cell for cell in job.cells[:end] if not cell.judged or cell.id in checks)
    return replace(job, cells=tuple(each for cell in kept for each in (course_code, cell)))


def use_new_results(
    job: Job, result: Result, again: Job, new: Result, parts: Sequence[str], checks: Sequence[str]
) -> None:
    """Replace the results of these checks in `result`, unless the new ones earn fewer points or none exist.

    Among equal results, the new one is better, because it contains only the answer's own mistakes.
    """
    index = {cell.id: place for place, cell in enumerate(job.cells)}
    index_again = {cell.id: place for place, cell in enumerate(again.cells)}
    yours = "yours fails its own check" if len(parts) == 1 else "yours fail their own checks"
    text = (
        f"This code was checked with the course's {' and '.join(f'`{part}`' for part in parts)}, "
        f"because {yours}.\n"
    )
    result.violations += [violation for violation in new.violations if violation not in result.violations]
    for check in checks:
        finding, outputs = new.findings.get(check, {}), new.outputs[index_again[check]]
        is_verdict = finding.get("verdict") in ("right", "wrong")
        if is_verdict and _points(outputs) >= _points(result.outputs[index[check]]):
            for output in outputs:
                if output.output_type == "execute_result":
                    output.execution_count = index[check] + 1
            result.findings[check] = finding | {"replaced": list(parts)}
            result.outputs[index[check]] = [*outputs, new_output("stream", name="stdout", text=text)]


def all_parts(parts: Sequence[str]) -> set[str]:
    """Return these exercises, and all exercises that their references use directly or through others."""
    found, waiting = set[str](), [*parts]
    while waiting:
        if (part := waiting.pop()) not in found:
            found.add(part)
            waiting += (name for name in used_by_reference(part) if name in catalogue())
    return found


def _check_of(exercise: str) -> ExerciseCheck:
    check = catalogue()[exercise]
    assert isinstance(check, ExerciseCheck)
    return check


def used_by_reference(name: str) -> set[str]:
    """Return the global names that the reference of an exercise uses; empty if `name` isn't an exercise."""
    check = catalogue().get(name)
    return names_used(check.reference) if isinstance(check, ExerciseCheck) else set()


def _points(outputs: Sequence[NotebookNode]) -> float:
    """Return the points that a check's outputs earn: 0 for an error, and infinity for all of them."""
    if any(output.output_type == "error" for output in outputs):
        return 0.0
    results = (output.data["text/plain"] for output in outputs if output.output_type == "execute_result")
    with suppress(ValueError):  # An instructor's own locked cell can end with any value.
        return float(next(results, "inf"))
    return float("inf")
