"""The project's conventions, as tests."""

import ast
import json
import re
import subprocess
import sys
import tempfile
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAB = ROOT / "course_lib" / "translation"
TOP = {"lessons", "solutions", "autograder", "course_lib", "tests", "environment.yml", "README.md"}
NO_NAMES = {"utils", "util", "misc", "helpers", "helper", "common"}


def files(*suffixes: str) -> list[Path]:
    """Return the files that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [ROOT / name for name in listed if (ROOT / name).is_file()]
    return [path for path in paths if not suffixes or path.suffix in suffixes]


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports, including those imported inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_the_top_level_is_the_given_one_and_tool_files() -> None:
    tools = {".ci", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"}
    tools |= {
        "Makefile",
        "pyproject.toml",
        "requirements.lock",
        "docs",
        ".github",
        ".devcontainer",
        ".binder",
        ".docker",
        ".dockerignore",
        "CITATION.cff",
        "AGENTS.md",
        "CLAUDE.md",
        "GEMINI.md",
    }
    assert {path.relative_to(ROOT).parts[0] for path in files()} == TOP | tools


def test_names_say_what_is_inside() -> None:
    parts = {part for path in files(".py") for part in (*path.relative_to(ROOT).parts[:-1], path.stem)}
    assert not parts & NO_NAMES


@pytest.mark.parametrize(
    ("package", "may_not_import"),
    [
        (
            "course_lib/curriculum",
            (
                "course_lib.transformer",
                "course_lib.checks",
                "course_lib.charts",
                "course_lib.student",
                "course_lib.translation",
                "autograder",
            ),
        ),
        (
            "course_lib/transformer",
            (
                "course_lib.curriculum",
                "course_lib.checks",
                "course_lib.charts",
                "course_lib.student",
                "course_lib.translation",
                "autograder",
            ),
        ),
        ("course_lib/translation", ("course_lib.checks", "course_lib.charts", "autograder")),
        (
            "course_lib/charts",
            ("course_lib.transformer", "course_lib.checks", "course_lib.translation", "autograder"),
        ),
        ("course_lib/checks", ("autograder",)),
        ("course_lib/translation", ("jupyterlab", "nbgrader", "nbformat", "IPython", "altair", "pandas")),
        ("course_lib", ("tests", "lessons", "solutions")),
        ("autograder", ("tests", "lessons", "solutions")),
    ],
)
def test_arrows_point_one_way(package: str, may_not_import: tuple[str, ...]) -> None:
    for path in files(".py"):
        if path.is_relative_to(ROOT / package):
            for name in imports(path):
                for other in may_not_import:
                    assert name != other, f"{path} imports {name}"
                    assert not name.startswith(f"{other}."), f"{path} imports {name}"


@pytest.mark.parametrize("package", ["autograder", "course_lib.translation"])
def test_packages_do_not_depend_on_each_other_in_a_circle(package: str) -> None:
    folder = ROOT.joinpath(*package.split("."))
    members = {path.relative_to(folder).parts[0].removesuffix(".py") for path in folder.rglob("*.py")}
    needs: dict[str, set[str]] = {member: set() for member in members}
    for path in folder.rglob("*.py"):
        member = path.relative_to(folder).parts[0].removesuffix(".py")
        for name in imports(path):
            if name.startswith(f"{package}."):
                needs[member].add(name.removeprefix(f"{package}.").split(".")[0])
    for member, others in needs.items():
        others.discard(member)
    TopologicalSorter(needs).prepare()  # raises CycleError, with the members of a circle


def test_the_lab_and_the_reference_need_no_notebooks() -> None:
    """They can be imported without Jupyter, nbgrader, spaCy and altair, as on a cluster node."""
    code = """
import importlib.abc, sys
absent = {"jupyterlab", "nbgrader", "nbformat", "IPython", "altair", "spacy", "pandas"}
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"{name} is not on a cluster node")
sys.meta_path.insert(0, Absent())
import course_lib.transformer, course_lib.translation.launch, course_lib.translation.fetch
import course_lib.translation.train, course_lib.translation.translate
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_checks_need_torch_alone() -> None:
    """All lessons and graded notebooks import the checks, and other packages are slow to import."""
    code = """
import sys, torch, jaxtyping
before = set(sys.modules)
import course_lib.checks.remote.server
print(*{name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["course_lib"]


def test_the_lab_has_at_most_ten_parts() -> None:
    parts = {path.relative_to(LAB).parts[0] for path in files() if path.is_relative_to(LAB)}
    assert len(parts - {"__init__.py"}) <= 10


def test_files_are_small() -> None:
    large = [(path.name, path.stat().st_size) for path in files() if path.stat().st_size > 500_000]
    assert not large


def test_notebooks_are_kept_without_outputs() -> None:
    notebooks = files(".ipynb")
    assert notebooks
    for path in notebooks:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")], path


def test_headings_in_lessons_are_in_order_and_images_have_a_description() -> None:
    for path in sorted((ROOT / "lessons").glob("*/*.ipynb")):
        level = 0
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            text = re.sub(r"^```.*?^```", "", "".join(cell["source"]), flags=re.MULTILINE | re.DOTALL)
            if cell["cell_type"] == "markdown":
                for marks in re.findall(r"^(#+) ", text, re.MULTILINE):
                    assert len(marks) <= level + 1, f"{path.name}, {cell['id']}: skips a heading level"
                    level = len(marks)
                nameless = re.findall(r"!\[\s*\]\(.*|<img(?![^>]*alt=\"[^\"]).*", text)
                assert nameless == [], f"{path.name}, {cell['id']}"
        assert level, f"{path.name} has no heading"


def test_nothing_names_the_machine_it_was_written_on() -> None:
    # A clone in the folder for temporary files is no reason to forbid that folder's name.
    ours = {ROOT, ROOT.parent, Path.home()} - {Path(tempfile.gettempdir())}
    here = [f"{folder}/" for folder in ours]
    for path in files(".py", ".md", ".toml", ".yml", ".yaml", ".ipynb", ".lock", ".sh", ".csv"):
        text = path.read_text(encoding="utf-8")
        assert not [folder for folder in here if folder != "//" and folder in text], path


def test_every_dependency_says_why() -> None:
    """Each dependency has a reason of one line next to it."""
    given = {"jupyterlab", "pytest", "torch"}
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    packages = [line.strip() for line in lines if line.startswith('    "') and ">=" in line]
    assert packages
    for line in packages:
        name = line.strip('"').partition(">=")[0]
        assert "#" in line or name in given, line
