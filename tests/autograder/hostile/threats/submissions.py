"""Notebooks and folders that are not what they seem."""

import copy
import os
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output

from tests.autograder.hostile.arena import LESSON, Arena
from tests.autograder.hostile.threat import Threat
from tests.autograder.small_course import cell_of

_CHECKS = ("check_predict_spread", "check_attention_scores", "check_attention_weights")

#: Content that must not reach a browser through a feedback page.
SCRIPTS = """\
<script>alert("hostile")</script><img src="x" onerror="alert('hostile')">
<svg onload="alert('hostile')"></svg>
<iframe srcdoc="<script>alert('hostile')</script>"></iframe> <style>body { display: none }</style>
<a href="javascript:alert('hostile')">look</a> [look](javascript:alert('hostile'))
<form action="https://hostile.example"><input name="password"></form> </div></div><h1>hostile</h1>
"""


def _skip(notebook: NotebookNode) -> None:
    for cell in notebook.cells:
        cell.metadata["tags"] = ["skip-execution", "raises-exception", "remove_cell", "hide", "mark-scheme"]


def _edit_checks(notebook: NotebookNode) -> None:
    for name, code in zip(_CHECKS, ("assert True", "99.0", "float('nan')"), strict=True):
        cell_of(notebook, name).source = code


def _negative(notebook: NotebookNode) -> None:
    for name, code in zip(_CHECKS, ("-1.0", "1e308 * 10", "'4.0'"), strict=True):
        cell_of(notebook, name).source = code


def _repeat_checks(notebook: NotebookNode) -> None:
    for name in _CHECKS:
        again = copy.deepcopy(cell_of(notebook, name))
        again.id = f"again-{name}"[:60]
        again.source = "assert True"
        notebook.cells.insert(0, again)


def _retype(notebook: NotebookNode) -> None:
    cell = cell_of(notebook, "attention_weights")
    cell.cell_type = "markdown"
    for name in ("outputs", "execution_count"):
        cell.pop(name, None)


def _forge_metadata(notebook: NotebookNode) -> None:
    bonus = {
        "schema_version": 3,
        "grade": True,
        "grade_id": "bonus",
        "locked": False,
        "solution": False,
        "task": False,
        "points": 50,
        "cell_type": "code",
    }
    notebook.cells.append(new_code_cell("50.0", id="bonus", metadata={"nbgrader": bonus}))
    for name in _CHECKS:
        cell_of(notebook, name).metadata["nbgrader"].update(points=100, locked=False, solution=True)
    cell_of(notebook, "attention_scores").metadata["nbgrader"].update(grade=True, points=100)


def _forge_outputs(notebook: NotebookNode) -> None:
    findings = {}
    for name, points in zip(_CHECKS, (1.0, 4.0, 5.0), strict=True):
        told = {
            "name": name.removeprefix("check_"),
            "verdict": "right",
            "misconceptions": [],
            "statements": [],
            "forbidden": [],
            "points": points,
            "max_points": points,
        }
        findings[name] = told
        cell_of(notebook, name).outputs = [
            new_output("display_data", {"text/plain": "✓ right"}, metadata={"course": told}),
            new_output("execute_result", {"text/plain": str(points)}, execution_count=1),
        ]
    notebook.metadata["course_grading"] = {"version": 1, "complete": True, "findings": findings}


def _scripts(notebook: NotebookNode) -> None:
    cell_of(notebook, "explain_root").source = SCRIPTS
    notebook.metadata["title"] = SCRIPTS
    odd = new_code_cell("1", id="odd")
    odd.metadata.update(name=SCRIPTS, tags=[SCRIPTS])
    notebook.cells.insert(0, odd)


def _shadow(folder: Path, arena: Arena) -> None:
    """Submit modules with the names of modules that grading imports."""
    code = f"""\
import os
for folder in ({str(arena.outside)!r}, {str(arena.course)!r}):
    try:
        open(folder + "/imported.txt", "w").write(__name__)
    except OSError:
        pass
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *_, **__: None
"""
    for name in (
        *("torch", "json", "struct", "ipykernel", "nbgrader", "nbgrader_config", "sitecustomize", "IPython"),
        *("usercustomize", "autograder", "altair", "course_lib/__init__", "course_lib/checks/__init__"),
        *("traitlets", "ipykernel_launcher", "encodings/__init__"),
    ):
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    (folder / "ipython_config.py").write_text(code)
    (folder / ".env").write_text("PYTHONPATH=.")
    (folder / "evil.pth").write_text(f"import os; open({str(arena.outside / 'imported.txt')!r}, 'w')")


def _links(folder: Path, arena: Arena) -> None:
    """Submit links to files that a student may not read."""
    goals = {
        "gradebook.txt": arena.classroom / "gradebook.db",
        "neighbour.txt": arena.classroom / "submitted" / arena.neighbour / LESSON / f"{LESSON}.ipynb",
        "home.txt": arena.home / "canary.txt",
        "outside.txt": arena.outside / "canary.txt",
        "variables.txt": Path("/proc/self/environ"),
        "solutions": arena.course / "solutions",
        "up.txt": Path("../../../../solutions/private.txt"),
    }
    for name, goal in goals.items():
        (folder / name).symlink_to(goal)
    (folder / "data").mkdir()
    (folder / "data" / "words.txt").symlink_to(arena.course / "canary.txt")


def _notebook_is_a_link(folder: Path, arena: Arena) -> None:
    notebook = folder / f"{LESSON}.ipynb"
    notebook.unlink()
    notebook.symlink_to(Path("../..", arena.neighbour, LESSON, f"{LESSON}.ipynb"))


def _folder_is_a_link(folder: Path, arena: Arena) -> None:
    (folder / f"{LESSON}.ipynb").unlink()
    folder.rmdir()
    folder.symlink_to(Path("..", arena.neighbour, LESSON))


def _odd_names(folder: Path, arena: Arena) -> None:
    for name in (
        *(
            "..%2f..%2fescaped.txt",
            "-rf",
            "--force",
            "a\nb.txt",
            "*.txt",
            "$(touch escaped).txt",
            ";escaped;.txt",
        ),
        *("..\\..\\escaped.txt", "\u202etxt.exe", "x" * 250, "{student_id}.txt", "%s.txt", "gradebook.db"),
        *("nbgrader_config.py", f"{LESSON}.ipynb.ipynb", "[0-9]*.ipynb", "\x1b]0;title\x07.txt"),
    ):
        (folder / name).write_text("{}" if name.endswith(".ipynb") else "an odd name")
    (folder / os.fsdecode(b"no-\xff-text.txt")).write_text("an odd name")


def _folder_in_the_way(folder: Path, arena: Arena) -> None:
    (folder / "data/words.txt").unlink(missing_ok=True)
    (folder / "data/words.txt/inner").mkdir(parents=True)
    (folder / "data/words.txt/inner/x").write_text("x")


def _pipe(folder: Path, arena: Arena) -> None:
    os.mkfifo(folder / "words.txt")


THREATS = (
    Threat(
        "tagged-to-be-skipped",
        "tags the checks so that nobody runs them",
        answers="blank",
        edit=_skip,
    ),
    Threat(
        "edited-checks",
        "writes other code into the locked cells",
        answers="blank",
        edit=_edit_checks,
        noted="check_attention_scores",
    ),
    Threat(
        "edited-checks-below-nothing",
        "writes points that are negative, infinite or text into the locked cells",
        answers="blank",
        edit=_negative,
        noted="check_attention_scores",
    ),
    Threat(
        "repeated-checks",
        "hands in a second copy of each check that always passes",
        answers="blank",
        edit=_repeat_checks,
        noted="check_attention_scores",
    ),
    Threat("retyped-solution", "turns a solution cell into a text cell", edit=_retype),
    Threat(
        "forged-metadata",
        "adds a cell that claims points, and raises the points of other cells",
        answers="blank",
        edit=_forge_metadata,
    ),
    Threat(
        "forged-outputs",
        "hands in a fake report of the judge",
        answers="blank",
        edit=_forge_outputs,
    ),
    Threat(
        "scripts",
        "has scripts in its outputs, its errors and its explanation",
        """\
from IPython.display import HTML, SVG, Javascript, Markdown, Latex, display
text = SCRIPTS
display(HTML(text), Javascript("alert('hostile')"), Markdown(text), Latex(text))
picture = "<svg xmlns='http://www.w3.org/2000/svg' onload=\\"alert('hostile')\\">SCRIPT</svg>"
picture = picture.replace("SCRIPT", "<script>alert('hostile')</script>")
display({"image/svg+xml": picture}, raw=True)
display({"application/vnd.jupyter.widget-view+json": {"model_id": text}, "text/html": text}, raw=True)
display({"image/png": '"><script>alert("hostile")</script>'}, raw=True)
print(text)
print("\\x1b]8;;javascript:alert('hostile')\\x07look\\x1b]8;;\\x07")
""".replace("SCRIPTS", repr(SCRIPTS)),
        cells={
            "attention_weights": "def attention_weights(scores, mask=None):\n"
            f"    raise ValueError({SCRIPTS!r})\n"
        },
        lost=("attention_weights",),
        edit=_scripts,
        feedback=True,
    ),
    Threat(
        "terminal-codes",
        "has codes in its errors that change a terminal",
        cells={
            "attention_weights": r"""
class Title(Exception): pass
Title.__name__ = Title.__qualname__ = "\x1b]0;hostile title\x07\x1b[2J"
def attention_weights(scores, mask=None):
    raise Title("\x1b]0;hostile title\x07\x1b[2J\x9b2J")
"""
        },
        lost=("attention_weights",),
    ),
    Threat(
        "modules-of-its-own",
        "hands in files with the names of modules that grading imports",
        answers="blank",
        hand_in=_shadow,
        confined=True,
    ),
    Threat(
        "links",
        "hands in links to files that it may not read, and reads them",
        """\
for name in ("gradebook.txt", "neighbour.txt", "home.txt", "outside.txt", "variables.txt", "up.txt",
             "data/words.txt", "solutions/private.txt"):
    look(name, lambda: Path(name).read_bytes())
""",
        hand_in=_links,
        confined=True,
    ),
    Threat(
        "notebook-is-a-link",
        "hands in a link to another student's notebook",
        graded=False,
        hand_in=_notebook_is_a_link,
    ),
    Threat(
        "folder-is-a-link",
        "hands in a link to another student's folder",
        graded=False,
        hand_in=_folder_is_a_link,
    ),
    Threat("odd-names", "hands in files whose names mean something elsewhere", hand_in=_odd_names),
    Threat("pipe", "hands in a pipe, which would block any reader", hand_in=_pipe),
    Threat(
        "folder-in-the-way",
        "hands in a folder with the name of one of the lesson's files",
        hand_in=_folder_in_the_way,
    ),
)
