"""The files for GitHub fit their schemas and name commands that exist. Nothing is fetched."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_no_image_contains_what_git_ignores() -> None:
    """A class's grades, for instance: images are built in a clone that may be in use."""
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()]
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    wanted = {line for line in ignored if line and not line.startswith("#")}
    missing = wanted - {line.removeprefix("**/") for line in left_out}
    assert not missing, f"add these to .dockerignore as well: {missing}"


def test_the_citation_has_the_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {course_lib.__version__}\n" in text
