"""Mark the explanations of a lesson question by question, on a page in a browser on this machine."""

import asyncio
import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autograder.marking.answers import LessonAnswers
from autograder.marking.comment_bank import CommentBank
from autograder.marking.server import MarkingServer
from autograder.nbgrader.command_line import command_parser, counted, reporting_errors
from autograder.nbgrader.course_folder import CourseFolder


@reporting_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run `course mark` until it is interrupted, and return its exit code: 0, or 1 if it can't start."""
    parser = command_parser("mark", __doc__)
    parser.add_argument("lesson", help="the lesson, such as 01-attention")
    parser.add_argument("--port", type=int, default=0, help="the port to listen on (default: any free one)")
    parser.add_argument(
        "--formgrader",
        default="",
        metavar="ADDRESS",
        help="Formgrader's address, for links to whole notebooks, such as http://localhost:8888/formgrader",
    )
    options = parser.parse_args(arguments)
    if not 0 <= options.port <= 65535:
        parser.error(f"--port: expected a number from 0 to 65535, got {options.port}")
    logging.basicConfig(format="%(name)s: %(message)s")
    with suppress(KeyboardInterrupt):
        course = CourseFolder(options.course)
        directory = course.directory(options.lesson)
        answers = LessonAnswers(course, options.lesson)
        counts = answers.open_counts()
        bank = CommentBank(course.folder, Path(directory.root), options.lesson, bool(directory.groupshared))
        server = MarkingServer(answers, bank, options.formgrader)
        asyncio.run(_serve(server, options.port, sum(waiting for waiting, _ in counts.values())))
    return 0


async def _serve(server: MarkingServer, port: int, waiting: int) -> None:
    _, address = server.listen(port)
    print(f"{server.answers.lesson}: {counted(waiting, 'answer')} to be marked.")
    print(f"Open this address in a browser on this machine. It is secret:\n\n    {address}\n")
    print("Every mark is saved immediately. To stop, press Ctrl+C.", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
