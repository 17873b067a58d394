"""Grade submissions as they are handed in, so that `nbgrader autograde` finds all results at the deadline.

The service watches the exchange's inbound folder and `submitted/`. It fills the result store, and never
writes to the gradebook: only `nbgrader autograde` assigns grades.
"""

import logging
import os
import re
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from jinja2 import Environment
from nbformat import NotebookNode
from nbgrader.api import MissingEntry
from nbgrader.exchange.default import Exchange
from nbgrader.utils import determine_grade, notebook_hash
from sqlalchemy.exc import DBAPIError

from autograder.graded_notebooks.feedback import without_paths
from autograder.graded_notebooks.verdicts import is_check
from autograder.nbgrader.command_line import command_parser, reporting_errors
from autograder.nbgrader.course_folder import CourseFolder
from autograder.nbgrader.exchange import impostor, students_of
from autograder.nbgrader.gradebook import error_message
from autograder.nbgrader.preparation import AHEAD, Preparation, PreparedSubmission
from autograder.nbgrader.sandboxed_execute import insert_outputs
from autograder.results.local_executor import SharedExecutor
from autograder.results.results import Results
from autograder.submissions.folder import Submission, released_notebooks, submissions
from autograder.submissions.reading import UnreadableError
from autograder.submissions.regular_file import read_file
from course_lib.atomic_files import atomic_write_text
from course_lib.curriculum.course_file import CourseError

#: The name of a submission in the inbound folder: student+lesson+time, sometimes with a random part.
_INBOUND = re.compile(r"(?P<student>.+?)\+(?P<lesson>[^+]+)\+(?P<time>\d{4}-[^+]+)(?:\+[^+]+)?")

#: nbgrader writes this file last when a student submits. The name of the feedback page is derived from it.
SECRET = "submission_secret.txt"

_HOUR = 3600.0

#: Seconds between two searches for submissions.
_POLL_SECONDS = 0.5

#: The start of every page that the service writes. Feedback that an instructor released starts differently.
_PAGE_START = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="course-automatic">
"""

_PAGE = Environment(autoescape=True).from_string(
    _PAGE_START
    + """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{ name }}</title></head><body><h1>{{ name }}</h1>
<p>Checked automatically. Explanations are graded later.</p>
{% for title, verdict in checks %}
<h2>{{ title }}</h2>
<pre>{{ verdict }}</pre>
{% endfor %}
</body></html>
"""
)


class GradingService:
    """A service that watches a course, and grades each submission when it is new or has changed.

    At most `max_per_hour` submissions of each student are run per hour. Further submissions wait, and only
    the newest of a student's waiting submissions for a lesson is graded. If `feedback` is true, the
    verdicts of the checks are returned to students through the exchange.
    """

    def __init__(
        self,
        course: CourseFolder,
        results: Results,
        max_per_hour: int,
        feedback: bool,
        log: logging.Logger,
    ) -> None:
        self._course, self._results, self._feedback, self._log = course, results, feedback, log
        self._directory = course.directory()
        self._exchange = Exchange(config=course.config)
        self._max_per_hour = max_per_hour
        self._started: defaultdict[str, deque[float]] = defaultdict(deque)
        """For each student, the times at which submissions were started in the last hour."""
        self._seen: dict[str, tuple[float, ...]] = {}
        """The modification times of the submissions found so far, keyed by folder: see `_changed_at`."""
        self._waiting: dict[tuple[str, str], Submission] = {}
        """The newest submission that hasn't been started, by student and lesson."""
        self._running: list[PreparedSubmission] = []
        self._in_gradebook: dict[str, bool] = {}
        """Whether the gradebook has a lesson. Missing lessons are looked up again in each step."""
        self._forged: dict[str, bool] = {}
        """Whether a submission in the exchange was handed in by an impostor, keyed by the folder's name."""
        self._warned: set[str] = set()
        """The warnings that were logged and are not repeated."""

    def step(self) -> None:
        """Look for submissions, start those that the rate limit allows, and report finished ones."""
        self._in_gradebook = {lesson: True for lesson, found in self._in_gradebook.items() if found}
        newest: dict[tuple[str, str], tuple[tuple[float, ...], Submission]] = {}
        for submission in (*self._inbound(), *submissions(self._directory)):
            key, changed = (submission.student, submission.lesson), _changed_at(submission.folder)
            # nbgrader preserves modification times, so a collected copy is as new as its original, and
            # replaces it here.
            if submission.notebooks and (key not in newest or _newest(changed) >= _newest(newest[key][0])):
                newest[key] = changed, submission
        for key, (changed, submission) in newest.items():
            if self._seen.get(submission.folder) != changed and self._is_in_gradebook(submission.lesson):
                self._seen[submission.folder] = changed
                self._waiting[key] = submission
        self._start()
        self._finish()

    def _is_in_gradebook(self, lesson: str) -> bool:
        """Return whether the gradebook has a lesson, and therefore its points. If not, log the reason once.

        The result is False while the gradebook can't be read.
        """
        if lesson not in self._in_gradebook:
            self._in_gradebook[lesson] = False
            try:
                with self._course.gradebook() as gradebook:
                    gradebook.find_assignment(lesson)
                self._in_gradebook[lesson] = True
            except MissingEntry:
                self._warn_once(
                    f"{lesson}: submissions wait, because the gradebook has no such lesson yet. Run "
                    f"`nbgrader generate_assignment {lesson}`."
                )
            except (CourseError, DBAPIError) as error:
                self._warn_once(f"{lesson}: submissions wait, because {error_message(error)}")
        return self._in_gradebook[lesson]

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self._log.warning("%s", message)

    def _inbound(self) -> Iterator[Submission]:
        """Yield each student's newest complete submission for each lesson in the exchange."""
        inbound = Path(self._exchange.root, self._directory.course_id, "inbound")
        try:
            entries = sorted(inbound.iterdir())
        except OSError:
            return
        found = {
            path: named
            for path in entries
            # Unlike Path.is_file, isfile returns False for a folder that the student has made unreadable.
            if (named := _INBOUND.fullmatch(path.name))
            and path.name.isprintable()
            and os.path.isfile(path / SECRET)
        }
        self._find_forged({path: named["student"] for path, named in found.items()}, inbound)
        newest: dict[tuple[str, str], tuple[str, Path]] = {}
        for path, named in found.items():
            if self._forged.get(path.name) is False:
                key = named["student"], named["lesson"]
                newest[key] = max(newest.get(key, ("", path)), (named["time"], path))
        released = {lesson: released_notebooks(self._directory, lesson) for _, lesson in newest}
        for (student, lesson), (_, path) in newest.items():
            yield Submission(student, lesson, str(path), released[lesson])

    def _find_forged(self, submissions: Mapping[Path, str], inbound: Path) -> None:
        """Determine whether each new folder was handed in by an account that may not: see `impostor`.

        If the gradebook can't be read, or a folder has just been deleted, this is done in a later step.
        """
        new = {path: student for path, student in submissions.items() if path.name not in self._forged}
        if not new:
            return
        with suppress(OSError, CourseError, DBAPIError):
            with self._course.gradebook() as gradebook:
                students = students_of(gradebook, inbound)
            for path, student in new.items():
                account = impostor(path, student, students)
                self._forged[path.name] = account is not None
                if account is not None:
                    self._log.warning("%s: not graded: it was handed in by %s", path.name, account)

    def _start(self) -> None:
        if not self._waiting:
            return
        busy = {(prepared.submission.student, prepared.submission.lesson) for prepared in self._running}
        preparation = Preparation(self._directory, self._course.execute)
        for key in list(self._waiting):
            if len(self._running) >= AHEAD * self._results.workers:
                break
            if key in busy or not self._may_run(key[0]):
                continue
            submission = self._waiting.pop(key)
            try:
                preparation.inspect(submission)
                prepared = preparation.prepare(submission, self._results)
                self._running.append(prepared)
                if not self._is_ready(prepared):
                    self._started[submission.student].append(time.monotonic())
            except Exception as error:
                # Continue with the other submissions: `autograde` will report this error, too.
                self._log.warning("%s, %s: not graded: %s", *key, error)

    def _may_run(self, student: str) -> bool:
        times = self._started[student]
        while times and time.monotonic() - times[0] > _HOUR:
            times.popleft()
        return len(times) < self._max_per_hour

    def _finish(self) -> None:
        for prepared in list(self._running):
            submission = prepared.submission
            if not self._is_ready(prepared):
                continue
            self._running.remove(prepared)
            try:
                for name, notebook in prepared.notebooks.items():
                    result = self._results.get(prepared.source, prepared.jobs[name])
                    insert_outputs(notebook, result)
                    self._report(submission, name, notebook)
            except Exception as error:
                # Continue with the other submissions. If a result was computed, it is stored anyway.
                self._log.warning("%s, %s: not reported: %s", submission.student, submission.lesson, error)

    def _is_ready(self, prepared: PreparedSubmission) -> bool:
        return all(map(self._results.is_ready, prepared.jobs.values()))

    def _report(self, submission: Submission, name: str, notebook: NotebookNode) -> None:
        """Log the automatic points and the time since the submission, and write feedback if it is enabled."""
        points = {
            cell.metadata.nbgrader.grade_id: determine_grade(cell, self._log)
            for cell in filter(is_check, notebook.cells)
        }
        self._log.info(
            "%s, %s: %g of %g automatic points, %.1f s after it was handed in",
            submission.student,
            name,
            sum(score or 0 for score, _ in points.values()),
            sum(max_points for _, max_points in points.values()),
            time.time() - _newest(_changed_at(submission.folder)),
        )
        if self._feedback and os.path.isfile(Path(submission.folder, SECRET)):
            with suppress(UnreadableError):
                checksum = notebook_hash(
                    secret=read_file(Path(submission.folder), SECRET).decode(errors="replace"),
                    notebook_id=name,
                )
                folder = Path(self._exchange.root, self._directory.course_id, "feedback")
                page = folder / f"{checksum}.html"
                if not _is_released(page):
                    if not folder.is_dir():
                        folder.mkdir()
                        # As in nbgrader, students can't list the folder, because the file names are secret.
                        folder.chmod(0o2771 if self._directory.groupshared else 0o711)
                    atomic_write_text(page, automatic_feedback(name, notebook, points))
                    page.chmod(0o644)


def automatic_feedback(
    name: str, notebook: NotebookNode, points: dict[str, tuple[float | None, float]]
) -> str:
    """Return an HTML page with the points and verdicts of the checks, and the title `name`.

    `points` maps the name of each check cell to a pair: its points (None if it was not graded, which is shown
    as 0) and its maximum points.
    """
    checks = []
    for cell in filter(is_check, notebook.cells):
        grade_id = cell.metadata.nbgrader.grade_id
        score, max_points = points[grade_id]
        texts = [
            output.evalue if output.output_type == "error" else output.text
            for output in cell.outputs
            if output.output_type in ("error", "stream")
        ]
        title = f"{grade_id.removeprefix('check_')}: {score or 0:g} of {max_points:g}"
        checks.append((title, without_paths("\n".join(texts))))
    return _PAGE.render(name=name, checks=checks)


def _is_released(page: Path) -> bool:
    """Return whether a page exists and was released by an instructor instead of written by this service."""
    try:
        with page.open("rb") as file:
            return file.read(len(_PAGE_START)) != _PAGE_START.encode()
    except FileNotFoundError:
        return False


def _newest(changed: tuple[float, ...]) -> float:
    """Return the latest of the times from `_changed_at`, or 0 if the folder was deleted."""
    return max(changed, default=0.0)


def _changed_at(folder: str) -> tuple[float, ...]:
    """Return the modification times of a folder and of its direct contents."""
    times: dict[str, float] = {}
    # A student may delete or change the folder at any moment.
    with suppress(OSError), os.scandir(folder) as entries:
        times[""] = os.lstat(folder).st_mtime
        for entry in entries:
            with suppress(OSError):
                times[entry.name] = entry.stat(follow_symlinks=False).st_mtime
    return tuple(times[name] for name in sorted(times))


@reporting_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run `course serve-grading` until it is interrupted.

    Return its exit code: 0, or 1 if the course's folder, the sandbox or the cluster can't be used.
    """
    parser = command_parser("serve-grading", __doc__)
    parser.add_argument(
        "--feedback", action="store_true", help="return the checks' verdicts to students immediately"
    )
    parser.add_argument(
        "--max-per-hour",
        type=int,
        default=12,
        metavar="N",
        help="grade at most N submissions of each student per hour (default: 12)",
    )
    options = parser.parse_args(arguments)
    if options.max_per_hour < 1:
        parser.error(f"--max-per-hour: expected at least 1, got {options.max_per_hour}")
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO, stream=sys.stdout, force=True)
    log = logging.getLogger("serve-grading")
    try:
        course = CourseFolder(options.course)
        with course.execute.running(SharedExecutor()) as results:
            service = GradingService(course, results, options.max_per_hour, options.feedback, log)
            log.info("Waiting for submissions.")
            while True:
                service.step()
                time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
