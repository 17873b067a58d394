"""The files for GitHub match their schemas, and the commands in them exist. Nothing is downloaded."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib import import_module, metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import course_lib

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "dependabot": [ROOT / ".github/dependabot.yml"],
    "github-issue-forms": [ROOT / f".github/ISSUE_TEMPLATE/{name}.yml" for name in ("bug", "check")],
    "github-issue-config": [ROOT / ".github/ISSUE_TEMPLATE/config.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_fit_their_schema(schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, *SCHEMAS[schema]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_name_targets_and_folders_that_exist(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([a-z-]+)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"there is no target {target}"
    for folder in re.findall(r"\btests/\w+", text):
        assert (ROOT / folder).exists(), f"there is no {folder}"


def test_what_the_test_of_the_wheel_imports_exists() -> None:
    script = (ROOT / ".ci" / "wheel.sh").read_text(encoding="utf-8")
    imports = re.findall(r"^from (course_lib\S*) import (\w+)$", script, re.MULTILINE)
    assert imports
    for module, name in imports:
        assert hasattr(import_module(module), name), f"{module} has no {name}"


def _with_dependencies(requirements: Iterable[str]) -> set[str]:
    """Return the names of these packages and of everything that the installed ones require."""
    found: set[str] = set()
    waiting = [(Requirement(each), "") for each in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for key in {"", *requirement.extras}:
            if f"{name}[{key}]" not in found:
                found |= {name, f"{name}[{key}]"}
                with contextlib.suppress(metadata.PackageNotFoundError):
                    waiting += [(Requirement(each), key) for each in metadata.requires(name) or ()]
    return found


@pytest.mark.nightly
@pytest.mark.slow
def test_the_students_tests_need_only_what_their_job_installs() -> None:
    """Collect the tests of the job for Windows and macOS, hiding the packages it doesn't install."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["students"]["steps"]
    commands = [shlex.split(step["run"]) for step in steps if "run" in step]
    (install,) = (command for command in commands if "pip" in command)
    (tests,) = (command for command in commands if "pytest" in command and "pip" not in command)
    packages = install[install.index("install") + 1 :]
    needed = _with_dependencies(package.replace(".[", "build-the-transformer[") for package in packages)
    hidden = [
        module
        for module, owners in metadata.packages_distributions().items()
        if not needed & {canonicalize_name(owner) for owner in owners}
    ]
    assert "playwright" in hidden
    assert "torch" not in hidden
    arguments = [*tests[tests.index("pytest") + 1 :], "--collect-only", "-q"]
    hide = f"import sys; sys.modules.update(dict.fromkeys({hidden}))"
    command = [sys.executable, "-c", f"{hide}; import pytest; pytest.main({arguments})"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert " tests collected" in done.stdout, done.stdout + done.stderr
    assert "error" not in done.stdout.splitlines()[-1], done.stdout


def test_no_image_contains_what_git_ignores() -> None:
    """Images are built from a working clone, which can contain a class's grades, for example."""
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()]
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    wanted = {line for line in ignored if line and not line.startswith("#")}
    missing = wanted - {line.removeprefix("**/") for line in left_out}
    assert not missing, f"add these to .dockerignore as well: {missing}"


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {course_lib.__version__}\n" in citation
    changes = re.search(r"^## (\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    if changes and changes[1] == course_lib.__version__:
        assert f"\ndate-released: {changes[2]}\n" in citation


def test_the_public_address_is_the_same_everywhere() -> None:
    addresses = {
        name
        for file in ("pyproject.toml", "CITATION.cff", "docs/try-it.md")
        for name in re.findall(
            r"github(?:\.com)?/(?!blob|docs)([\w-]+/[\w-]+)|/gh/([\w-]+/[\w-]+)",
            (ROOT / file).read_text("utf-8"),
        )
    }
    assert len({first or second for first, second in addresses}) == 1, addresses


def test_a_release_needs_this_repository_s_address_and_absolute_links(tmp_path: Path) -> None:
    """Run the workflow's steps that come before `make wheel` in a copy of the files."""
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    steps = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))["jobs"]["wheel"][
        "steps"
    ]
    address, links = (
        step["run"] for step in steps if step.get("run", "").startswith(("grep --fixed", "sed --in-place"))
    )
    here = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Repository"]
    for repository, code in ((here.removeprefix("https://github.com/"), 0), ("another/course", 1)):
        about = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": repository}
        environment = os.environ | about | {"GITHUB_REF_NAME": "v1.0.0"}
        done = subprocess.run(["bash", "-c", address], cwd=tmp_path, env=environment, check=False)
        assert done.returncode == code
    subprocess.run(["bash", "-c", links], cwd=tmp_path, env=environment, check=True)
    targets = re.findall(r"\]\(([^)]+)\)", (tmp_path / "README.md").read_text("utf-8"))
    assert len(targets) > 5
    assert [target for target in targets if not target.startswith("https://")] == []
    assert "https://raw.githubusercontent.com/another/course/v1.0.0/docs/images/check.png" in targets
