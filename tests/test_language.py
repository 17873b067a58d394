"""Plain English, as far as a program can check it: reject constructions that make readers stumble."""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Verbs that must not start a docstring; use a standard one ("Return", "Compute", "Check") or a noun.
WEAK_VERBS = ("Give", "Say", "Tell", "Have", "Hand")
#: Constructions to avoid, each with its replacement.
HABITS = {
    r", came (others|none|another|\{|')": "got ...",
    r"\bstands? (twice|beside|there|where|in the)\b": "is ...",
    r"\blies? (beside|there|in)\b": "is next to, is in",
    r"\b(is|are) to be (had|seen|known)\b": "can be, should be",
    r"\b(was|were) to be\b": "should be",
    r"\bOf [^.,:\n]*, only\b": "Only ... of ...",
    r", also (if|in|on|from|for|with|inside|that of)\b": "even, including",
    r"\bmany kinds[.,]?$": "many kinds of ...",
    r"\banew\b": "again",
    r"\bonce more\b": "again",
    r"\b[Ww]hoever\b": "the caller",
    r"\bhand(s|ed)? (back|on|over)\b": "returns, passes",
    r"\b(go|goes|gone|went) on\b(?! to\b)": "continues",
    r"\bcomes? from elsewhere\b": "is different, is another",
    r"\blearnt\b": "learned",
    r"\bforetold\b": "predicted",
    r"\bwithout a word\b": "silently",
    r"\bfor want of\b": "because there is no",
    r"(?<!system )(?<!Detected )\bcalls? of\b": "call to",
    r"\b[Oo]ther \w+ than\b": "... other than",
    r"\b[Aa]lso if\b": "even if, also raises ... if",
    r"\bcompute the same[.,)]": "compute the same result",
}
FOLDERS = (
    "autograder/",
    "course_lib/",
    "docs/",
    "solutions/",
    "tests/",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
)
#: Folders of sample student code, whose comments are written as students would write them.
NOT_OURS = ("tests/checks/battery", "tests/checks/unrelated", "tests/checks/variants")


def tracked(*suffixes: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        ROOT / name
        for name in listed.stdout.splitlines()
        if name.startswith(FOLDERS)
        and not name.startswith(NOT_OURS)
        and name.endswith(suffixes)
        and (ROOT / name).is_file()
    ]


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a file. For a test, yield only names, comments and messages.

    Messages are docstrings and the messages of assertions. Other strings in a test may be a hypothetical
    student's words.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py" or path.relative_to(ROOT).parts[0] != "tests":
        yield from enumerate(text.splitlines(), 1)
        return
    begins_a_statement = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and begins_a_statement):
            yield from enumerate(token.string.splitlines(), token.start[0])
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins_a_statement = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    nodes = list(ast.walk(ast.parse(text)))
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name.replace("_", " ")
    messages = (node.msg for node in nodes if isinstance(node, ast.Assert) and node.msg)
    for part in (part for message in messages for part in ast.walk(message)):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield from ((part.lineno, line) for line in part.value.splitlines())


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
        lines = list(prose(path))
        # One search in a whole file is several times as fast as a search in each of its lines.
        text = "\n".join(line for _, line in lines)
        for habit, better in HABITS.items():
            for match in re.finditer(habit, text, re.MULTILINE):
                number, line = lines[text.count("\n", 0, match.start())]
                found.append(f"{path.relative_to(ROOT)}:{number}: write {better!r}: {line.strip()[:90]}")
    assert not found, "\n".join(found)
