"""Hand notebooks to the workers before nbgrader asks for them, so that all of them have something to do.

nbgrader puts a submission in order, saves that, and only then has it run, one after the other. Here the same
is worked out beforehand. Where it should come out otherwise, the notebook runs when nbgrader asks.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.converters import Autograde
from nbgrader.utils import find_all_files

from autograder.judge.job import Job
from autograder.nbgrader.sandboxed_execute import SandboxedExecute, files_beside
from autograder.sandbox.archive import MOST_BESIDE
from autograder.submissions.folder import Submission

Read = Callable[[str], NotebookNode | None]


def begin(converter: Autograde, found: Iterable[Submission], read: Read) -> None:
    """Start all jobs of a run. `read` gives a repaired notebook by its path, None where that can't be."""
    execute = SandboxedExecute(parent=converter)
    execute.begin(_jobs(converter, execute, found, read))


def _jobs(
    converter: Autograde, execute: SandboxedExecute, found: Iterable[Submission], read: Read
) -> Iterator[Job]:
    for submission in found:
        if not _will_be_graded(converter, submission):
            continue
        try:
            files = _files(converter, submission)
        except Exception:  # nbgrader will stumble over the same, and reports it
            continue
        for name in submission.notebooks:
            notebook = read(submission.path(name))
            if notebook is not None:
                yield execute.job(submission.lesson, notebook, files)


def _will_be_graded(converter: Autograde, submission: Submission) -> bool:
    """Say whether nbgrader will do it: it leaves out what it has done, unless that is older or it has to."""
    course = converter.coursedir
    done = course.format_path(course.autograded_directory, submission.student, submission.lesson)
    if converter.force or not os.path.exists(done):
        return True
    if any(not os.path.exists(os.path.join(done, f"{name}.ipynb")) for name in submission.notebooks):
        return course.notebook_id != "*"
    new, old = (course.get_existing_timestamp(folder) for folder in (submission.folder, done))
    return new is not None and old is not None and new > old


def _files(converter: Autograde, submission: Submission) -> dict[str, bytes]:
    """Give what will lie beside the notebooks: the student's files, and over them the lesson's own."""
    course = converter.coursedir
    files = {
        path: content
        for path, content in files_beside(Path(submission.folder)).items()
        if os.path.join(submission.folder, path) not in submission.refused
    }
    source = course.format_path(course.source_directory, ".", submission.lesson)
    for path in find_all_files(source, [*course.ignore, "*.ipynb"]):
        if os.path.getsize(path) <= MOST_BESIDE:
            files[os.path.relpath(path, source)] = Path(path).read_bytes()
    return files
