"""Tests of the project's conventions."""

import ast
import json
import re
import subprocess
import sys
import tempfile
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "course_lib"
LAB = LIBRARY / "translation"
TOP = {"lessons", "solutions", "autograder", "course_lib", "tests", "environment.yml", "README.md"}
NO_NAMES = {"utils", "util", "misc", "helpers", "helper", "common"}
#: The packages that the distribution installs.
PRODUCT = {"autograder", "course_lib"}
#: For each package or file in `course_lib`, the other `course_lib` packages that it may import. A subfolder
#: may also import everything that its package may import.
ARROWS: dict[str, set[str]] = {
    "curriculum": set(),
    "transformer": set(),
    "check_log.py": {"curriculum"},
    "charts": {"curriculum"},
    "student": {"curriculum", "transformer"},
    "translation": {"transformer"},
    "translation/train/student_code": {"student"},
    "checks/engine": {"curriculum"},
    "checks/exercises": {"curriculum", "transformer"},
    "checks/exercises/final_lab": {"translation"},
    "checks/notebook.py": {"charts"},
}


def files(*suffixes: str) -> list[Path]:
    """Return the files that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [ROOT / name for name in listed if (ROOT / name).is_file()]
    return [path for path in paths if not suffixes or path.suffix in suffixes]


@cache
def imports(path: Path) -> set[str]:
    """Return the full names that a file imports, including imports in functions and for type checkers."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
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


def packages() -> list[Path]:
    """Return the folders of the installed packages that contain Python files."""
    return sorted({path.parent for path in files(".py") if path.relative_to(ROOT).parts[0] in PRODUCT})


def test_arrows_point_one_way() -> None:
    known = {folder.name for folder in packages() if folder.parent == LIBRARY}
    for path in files(".py"):
        if path.is_relative_to(LIBRARY):
            inside = path.relative_to(LIBRARY)
            may = [others for start, others in ARROWS.items() if inside.is_relative_to(start)]
            used = {name.split(".")[1] for name in imports(path) if name.startswith("course_lib.")}
            assert used & known <= {inside.parts[0]}.union(*may), path


@pytest.mark.parametrize(
    ("package", "may_not_import"),
    [
        ("course_lib/translation", ("jupyterlab", "nbgrader", "nbformat", "IPython", "altair", "pandas")),
        ("course_lib", ("autograder", "tests", "lessons", "solutions")),
        ("autograder", ("tests", "lessons", "solutions")),
    ],
)
def test_packages_that_may_not_be_imported(package: str, may_not_import: tuple[str, ...]) -> None:
    for path in files(".py"):
        if path.is_relative_to(ROOT / package):
            assert not {name.split(".")[0] for name in imports(path)}.intersection(may_not_import), path


@pytest.mark.parametrize("folder", packages(), ids=lambda folder: str(folder.relative_to(ROOT)))
def test_the_members_of_a_package_do_not_depend_on_each_other_in_a_circle(folder: Path) -> None:
    def member(path: Path) -> str:
        return path.relative_to(folder).parts[0].removesuffix(".py")

    package = ".".join(folder.relative_to(ROOT).parts)
    paths = [path for path in files(".py") if path.is_relative_to(folder)]
    needs: dict[str, set[str]] = {member(path): set() for path in paths}
    for path in paths:
        for name in imports(path):
            if name.startswith(f"{package}."):
                other = name.removeprefix(f"{package}.").split(".")[0]
                # Every other name is defined in the package's __init__.py.
                needs[member(path)].add(other if other in needs else "__init__")
    for this, others in needs.items():
        others.discard(this)
    TopologicalSorter(needs).prepare()  # raises CycleError, with the members of a cycle


@pytest.mark.slow
def test_the_lab_and_the_reference_need_no_notebooks() -> None:
    """Import the lab and the reference without the packages that a cluster node may lack."""
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


@pytest.mark.slow
def test_the_checks_need_torch_alone() -> None:
    """Other packages would slow down every lesson and graded notebook, because all import the checks."""
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
    # The folder for temporary files may be named, even if the clone is in it.
    ours = {ROOT, ROOT.parent, Path.home()} - {Path(tempfile.gettempdir())}
    here = [f"{folder}/" for folder in ours]
    for path in files(".py", ".md", ".toml", ".yml", ".yaml", ".ipynb", ".lock", ".sh", ".csv"):
        text = path.read_text(encoding="utf-8")
        assert not [folder for folder in here if folder != "//" and folder in text], path


def test_every_dependency_says_why() -> None:
    """Every dependency has a comment on its line, except for the packages in `given`."""
    given = {"jupyterlab", "pytest", "torch"}
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    packages = [line.strip() for line in lines if line.startswith('    "') and ">=" in line]
    assert packages
    for line in packages:
        name = line.strip('"').partition(">=")[0]
        assert "#" in line or name in given, line
