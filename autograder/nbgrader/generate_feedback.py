"""`nbgrader generate_feedback`, extended to render pages in worker processes and to skip up-to-date pages.

Only the main process reads the gradebook. Each page contains a digest of its content, so that an outdated
page can be detected without rendering it again.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial

from nbgrader.converters import GenerateFeedback
from traitlets import Type

from autograder.graded_notebooks.feedback import FeedbackExporter, digest_in, render, start_rendering
from autograder.nbgrader.replacing_converter import ReplacingConverter
from autograder.nbgrader.sandboxed_execute import SandboxedExecute
from autograder.results.local_executor import LocalExecutor

#: The minimum number of submissions per worker, because starting a worker takes two seconds.
_PER_WORKER = 5


class CourseGenerateFeedback(ReplacingConverter, GenerateFeedback):
    """`nbgrader generate_feedback`, extended to keep a submission's old pages if writing new ones fails."""

    exporter_class = Type(FeedbackExporter).tag(config=True)

    def convert_notebooks(self) -> None:
        """Write all pages that are missing or out of date. If a submission fails, its old pages are kept.

        Raises NbGraderException at the end if any submission failed.
        """
        self._due: set[str] = set()
        with ExitStack() as stack:
            self._executor: LocalExecutor | None = None
            workers = min(SandboxedExecute(parent=self).worker_count, len(self.assignments) // _PER_WORKER)
            if workers > 1:
                self._executor = LocalExecutor(workers, start_rendering, (self.exporter.own_config,))
                stack.callback(self._executor.shutdown, cancel_futures=True)
            super().convert_notebooks()

    def sources(self, assignments: Mapping[str, list[str]]) -> Iterator[str]:
        """Yield the folders of the submissions in sorted order.

        If there are workers, the pages of the next few submissions are prepared before a folder is yielded,
        and their rendering is started.
        """
        ahead = 4 * self._executor.workers if self._executor is not None else 0
        waiting: deque[str] = deque()
        for source in sorted(assignments):
            self._prepare(sorted(assignments[source]))
            waiting.append(source)
            if len(waiting) > ahead:
                yield waiting.popleft()
        yield from waiting

    def is_due(self, notebooks: list[str]) -> bool:
        """Return whether a submission's feedback is missing or out of date, or could not be prepared.

        Feedback is out of date if any of its pages would look different now. The base class's rules, such as
        the rule for --force, apply as well.
        """
        return notebooks[0] in self._due or super().is_due(notebooks)

    def problem(self, notebook: str, error: Exception) -> str:
        """Return the message for a submission whose feedback was not written."""
        names = self.names(notebook)
        return f"{names['student']}, {names['assignment']}: the feedback was not written: {error}"

    def _prepare(self, notebooks: list[str]) -> None:
        """Prepare the pages of one submission, and schedule their rendering if they are due.

        An error is raised later, when this submission is converted, so that it is reported with the
        submission's name.
        """
        exporter, excluded = self.exporter, self.coursedir.student_id_exclude.split(",")
        if self.names(notebooks[0])["student"] in excluded:
            return
        old = self.replacement(notebooks[0])
        failed: Future[str] = Future()
        try:
            old.recover()
            pages = {
                path: exporter.prepare(path, self.init_single_notebook_resources(path)) for path in notebooks
            }
        except Exception as error:
            failed.set_exception(error)
            self._due.add(notebooks[0])
            exporter.rendered |= dict.fromkeys(notebooks, failed.result)
            return
        stale = any(
            digest_in(old.folder / self.written([path]).pop()) != pages[path].digest for path in pages
        )
        if stale or super().is_due(notebooks):
            self._due.add(notebooks[0])
            for path, page in pages.items():
                exporter.rendered[path] = (
                    partial(exporter.render, page)
                    if self._executor is None
                    else self._executor.submit(render, exporter.own_config, page).result
                )
