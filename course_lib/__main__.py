"""The console command `course`, which runs the commands of the lessons, the translation lab and grading."""

import argparse
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from typing import NamedTuple

from course_lib import __version__


class Command(NamedTuple):
    """A subcommand: a module that can also be started with `python -m`."""

    module: str
    help: str
    arguments: tuple[str, ...] = ()
    """Arguments that precede the user's."""


#: The subcommands by group, as `course --help` lists them.
COMMANDS = {
    "lessons": {
        "lab": Command(
            "course_lib.student.progress.lab", "open the lessons in JupyterLab, with a start page"
        ),
        "progress": Command("course_lib.student.progress", "show which checks pass"),
        "log": Command("course_lib.check_log", "keep a log of your check results (off by default)"),
        "student-config": Command(
            "course_lib.student.configuration", "set up Jupyter to fetch lessons and hand them in"
        ),
    },
    "translation lab": {
        "train": Command("course_lib.translation.train", "train a translation model"),
        "translate": Command("course_lib.translation.translate", "translate with a trained model"),
        "fetch": Command("course_lib.translation.fetch", "download corpora"),
        "prepare": Command("course_lib.translation.train.prepare_data", "prepare a corpus ahead of training"),
        "gpu-check": Command(
            "course_lib.translation.train.gpu_check", "test and measure the lab on this machine's GPUs"
        ),
        "launch": Command(
            "course_lib.translation.launch", "start several training processes, with torchrun's options"
        ),
    },
    "instructors": {
        "doctor": Command("autograder.doctor", "test the sandbox for students' code on this machine"),
        "demo": Command("autograder.demo", "grade an example class and train a translator"),
        "regrade": Command(
            "autograder.nbgrader.regrade", "show how a corrected check changes grades, or write the changes"
        ),
        "extend": Command("autograder.nbgrader.extend", "give one student more time for a lesson"),
        "serve-grading": Command(
            "autograder.nbgrader.serve_grading", "grade submissions as they are handed in"
        ),
        "mark": Command("autograder.marking", "mark explanations question by question, in a browser"),
        "learning": Command("autograder.reports.learning", "test what a class has learned, and report it"),
        "results": Command(
            "autograder.nbgrader.stored_results",
            "delete damaged and outdated results of graded notebooks",
        ),
        "build": Command("autograder.release.build", "build lessons/ from solutions/"),
        "check": Command(
            "autograder.release.build",
            "check that lessons/ matches solutions/, and every exercise",
            ("--check",),
        ),
    },
}

#: For each group, the extra of pyproject.toml that its commands need, and a package of that extra, whose
#: absence shows that the extra is not installed.
_EXTRAS = {
    "lessons": ("lessons", "jupyterlab"),
    "translation lab": ("cluster", "sacrebleu"),
    "instructors": ("instructor", "jupytext"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a subcommand as `python -m` would, without importing the modules of the other subcommands.

    By default, `arguments` are those of the command line. Exit with code 2 if the subcommand is unknown, or
    if the packages that it needs are not installed.
    """
    groups = {name: group for group, commands in COMMANDS.items() for name in commands}
    parser = argparse.ArgumentParser(
        prog="course",
        usage="course COMMAND [ARGUMENT ...]",
        description="Build the Transformer: lessons, translation lab and grading.",
        epilog=_list_commands(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("command", choices=groups, metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    group = groups[options.command]
    command, (extra, package) = COMMANDS[group][options.command], _EXTRAS[group]
    if not importlib.util.find_spec(package):
        parser.exit(
            2,
            f"course {options.command} needs packages that are not installed here, such as {package}. "
            f"Run `pip install '.[{extra}]'` in a clone of the course.\n",
        )
    sys.argv = [f"course {options.command}", *command.arguments, *options.arguments]
    runpy.run_module(command.module, run_name="__main__", alter_sys=True)


def _list_commands() -> str:
    lines = []
    for group, commands in COMMANDS.items():
        lines += [f"{group}:", *(f"  {name:<15}{command.help}" for name, command in commands.items()), ""]
    return "\n".join([*lines, "`course COMMAND --help` describes the arguments of a command."])


if __name__ == "__main__":
    main()
