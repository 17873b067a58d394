"""Run locked cells in the judge's process, with proxies for the objects in the student's kernel."""

import ast
import builtins
import contextlib
import io
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbformat import NotebookNode
from nbformat.v4 import new_output
from traitlets.config import Config

from autograder.judge.job import NotComputedError
from course_lib.checks import CheckError
from course_lib.checks.engine.findings import Finding, record

_NO_HISTORY = Config({"HistoryManager": {"enabled": False}})


@dataclass
class JudgedCell:
    """The result of a locked cell."""

    outputs: list[NotebookNode]
    findings: list[Finding]
    """The findings of the checks in the cell."""


def judge(source: str, names: Mapping[str, object], trusted: Mapping[str, object]) -> JudgedCell:
    """Run a locked cell, and return its result. An error in the cell is added to its outputs.

    The student's `names` can't replace builtins or the names in `trusted`.

    Raises NotComputedError if a check crashes, or if the cell imports something from `course_lib` that this
    version of the course doesn't have, because neither may cost the student any points.
    """
    InteractiveShell.instance(config=_NO_HISTORY)  # This handles calls to `display` in the cell.
    allowed = {name: value for name, value in names.items() if not hasattr(builtins, name)}
    namespace: dict[str, object] = {"__name__": "__main__", **allowed, **trusted}
    with record() as findings, warnings.catch_warnings(), capture_output(stderr=False) as captured:
        warnings.simplefilter("ignore")  # nbgrader awards no points if there is output on stderr.
        with contextlib.redirect_stderr(io.StringIO()):
            try:
                value = _run(source, namespace)
                failed = None
            except (Exception, SystemExit) as error:
                value, failed = None, error
    for finding in findings:
        if finding.verdict == "error":
            raise NotComputedError(finding.review or str(failed))
    if isinstance(failed, ImportError) and (failed.name or "").partition(".")[0] == "course_lib":
        raise NotComputedError(
            f"{failed}. The lesson was released with a different version of the course. Run "
            "`nbgrader generate_assignment` for it, which keeps all grades, or grade with the version that "
            "released it."
        )
    outputs = [
        new_output("display_data", data=dict(output.data), metadata=dict(output.metadata or {}))
        for output in captured.outputs
    ]
    if captured.stdout:
        outputs.append(new_output("stream", name="stdout", text=captured.stdout))
    if failed is not None:
        outputs.append(_error_output(failed))
    elif value is not None:
        outputs.append(new_output("execute_result", data={"text/plain": repr(value)}, execution_count=None))
    return JudgedCell(outputs, findings)


def _run(source: str, namespace: dict[str, object]) -> object:
    """Run a cell in a namespace. Return the value of its last statement if that is an expression, or None."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "<locked cell>", "exec"), namespace)
    if not isinstance(last, ast.Expr):
        return None
    result: object = eval(compile(ast.Expression(last.value), "<locked cell>", "eval"), namespace)
    return result


def _error_output(error: BaseException) -> NotebookNode:
    kind, message = type(error).__name__, str(error)
    if isinstance(error, CheckError):
        lines = message.split("\n")
    else:
        # An instructor's own test: show the line that failed, without the frames of the judge.
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<locked cell>"
        ]
        lines = [f"{kind}: {message}", *(f"in line {frame.lineno} of this cell" for frame in frames[-1:])]
    return new_output("error", ename=kind, evalue=message, traceback=lines)
