"""Plain English, as far as a program can check it: constructions that make readers stumble are refused."""

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Docstrings start with a standard verb ("Return", "Compute", "Check") or with a noun.
WEAK_VERBS = ("Give", "Say", "Tell", "Have", "Hand")
#: Constructions that were once common here, each with what to write instead.
HABITS = {
    r", came (others|none|another|\{|')": "got ...",
    r"\bstands? (twice|beside|there|in the)\b": "is ...",
    r"\blies? (beside|there)\b": "is next to",
    r"\b(is|are) to be (had|seen|known)\b": "can be, should be",
    r"\banew\b": "again",
    r"\b[Ww]hoever\b": "the caller",
    r"\bhand(s|ed)? (back|over)\b": "returns, passes",
    r"\bgo(es)? on with\b": "continues",
    r"\bwithout a word\b": "silently",
    r"\bfor want of\b": "because there is no",
}


def tracked(*suffixes: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in listed.stdout.splitlines()]
    # The lessons' prose is read by people, and so are the words of the hypothetical students in the tests.
    return [
        path
        for path in paths
        if path.suffix in suffixes
        and path.is_file()
        and path.relative_to(ROOT).parts[0]
        in ("course_lib", "autograder", "docs", "README.md", "CONTRIBUTING.md")
    ]


def test_docstrings_start_with_a_standard_verb_or_a_noun() -> None:
    weak = []
    for path in tracked(".py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = (ast.get_docstring(node) or "").partition(" ")[0]
                if first in WEAK_VERBS:
                    weak.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {first}")
    assert not weak, "\n".join(weak)


def test_old_habits_of_speech_stay_out() -> None:
    found = []
    for path in tracked(".py", ".md", ".toml", ".j2", ".sh", ".yaml"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for habit, better in HABITS.items():
                if re.search(habit, line):
                    found.append(f"{path.relative_to(ROOT)}:{number}: write {better!r}: {line.strip()[:90]}")
    assert not found, "\n".join(found)
