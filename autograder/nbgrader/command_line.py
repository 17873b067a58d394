"""Shared code of the instructors' commands: the option --course, the console and the error messages."""

import argparse
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec

from nbgrader.converters.base import NbGraderException
from rich.console import Console
from rich.markup import escape
from sqlalchemy.exc import DBAPIError

from autograder.nbgrader.gradebook import error_message
from course_lib.curriculum.course_file import CourseError

P = ParamSpec("P")


def command_parser(command: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser for `course COMMAND`, which has the option --course."""
    parser = argparse.ArgumentParser(prog=f"course {command}", description=description)
    parser.add_argument("--course", type=Path, help="the course's folder (default: found from this folder)")
    return parser


def create_console() -> Console:
    """Return a console for standard output."""
    # A file or a pipe has no width, so set one that is large enough for whole sentences.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def counted(number: int, noun: str) -> str:
    """Return a number followed by its noun, with a plural "s" unless the number is 1."""
    return f"{number} {noun}{'s' * (number != 1)}"


def reporting_errors(main: Callable[P, int]) -> Callable[P, int]:
    """Decorate a command to print errors that its user can correct, and to return exit code 1 for them."""

    @wraps(main)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return main(*args, **kwargs)
        except (CourseError, NbGraderException, OSError, DBAPIError) as error:
            message = f"[bold red]✗[/] {escape(error_message(error))}"
            Console(stderr=True, highlight=False).print(message, soft_wrap=True)
            return 1

    return run
