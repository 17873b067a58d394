"""Feedback for students: points and reasons, but no hidden tests and no paths on the grading machine."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import get_args, get_type_hints

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

from autograder.graded_notebooks.feedback import FIRST_LINES, LAST_LINES, PrepareFeedback, without_paths
from autograder.graded_notebooks.points import GradedCell, points_line, summary
from autograder.graded_notebooks.safe_html import SanitizeNotebook, clean, clean_output, markdown_to_html
from autograder.graded_notebooks.verdicts import IN_WORDS, verdicts_in
from course_lib.checks.engine.findings import Finding
from tests.autograder.reports.graded_class import (
    NOT_SCALED,
    RIGHT,
    GradedClass,
    copy_of,
    empty_course,
    folder_of,
)

pytestmark = pytest.mark.slow

LESSON = "01-first"
MISTAKE, ALL = (Finding(name="scores", **verdict) for verdict in (NOT_SCALED, RIGHT))
WRONG = GradedCell("check_scores", False, 2.0, 4.0, 2.0, None, 0.0, MISTAKE)


def judged_as(verdict: str, **more: object) -> GradedCell:
    """Return a graded cell with 0 points and this verdict."""
    return replace(WRONG, points=0.0, automatic=0.0, verdict=Finding(name="scores", verdict=verdict, **more))


@pytest.mark.parametrize(
    ("points", "said", "why"),
    [
        (WRONG, "◐ partly correct: 2 of 4 points.", "The scores are not divided. That costs some"),
        (replace(WRONG, points=4.0, automatic=4.0, verdict=ALL), "✓ correct: 4", "4 of 4 points.</b></p>"),
        (judged_as("wrong"), "✗ incorrect: 0 of 4", "recognise the mistake"),
        (judged_as("unwritten"), "○ not written yet: 0", "0 of 4 points.</b></p>"),
        (judged_as("missing"), "○ missing: 0", "The notebook does not define this name."),
        (
            judged_as("missing", statements=["no file a.txt was handed in"]),
            "○ missing: 0",
            "No file a.txt was",
        ),
        (judged_as("forbidden", forbidden=["a.b"]), "✗ calls a forbidden function: 0", "It calls a.b, which"),
        (judged_as("out-of-time"), "✗ took too long: 0", "did not finish"),
        (judged_as("kernel-died"), "✗ ended its process: 0", "ended its own process"),
        (judged_as("error"), "… could not be checked: 0", "your fault"),
        (replace(WRONG, verdict=None), "◐ partly correct: 2", "2 of 4 points.</b></p>"),
        (
            replace(WRONG, points=3.5, person=3.0, extra=0.5),
            "3.5 of 4 points.",
            "instead of the check&#x27;s 2. They include 0.5 of extra credit. The check: The scores",
        ),
        (replace(WRONG, points=5.0, extra=3.0), "5 of 4 points.", "They include 3 of extra credit."),
    ],
)
def test_a_check_says_how_many_points_and_why(points: GradedCell, said: str, why: str) -> None:
    line = points_line(points)
    assert said in line
    assert why in line


def test_every_verdict_has_words() -> None:
    assert set(IN_WORDS) == set(get_args(get_type_hints(Finding)["verdict"]))


def test_an_unknown_verdict_of_another_version_is_no_verdict(graded: GradedClass) -> None:
    notebook = notebook_of(graded)
    notebook.metadata.course_grading.findings.check_scores |= {"verdict": "<script>", "points": 4}
    assert list(verdicts_in(notebook)) == ["check_guess"]
    notebook.metadata.course_grading.findings.check_scores["verdict"] = "right"
    assert verdicts_in(notebook)["check_scores"].verdict == "right"


def test_reading_verdicts_needs_no_torch() -> None:
    code = "import sys, autograder.graded_notebooks.feedback; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_an_answer_in_words_says_who_reads_it() -> None:
    answer = GradedCell("explain", True, 0.0, 3.0, None, None, 0.0, None)
    assert answer.status == "to be graded by a person"
    assert replace(answer, automatic=0.0, answered=False).status == "no answer"
    read = replace(answer, points=2.0, person=2.0)
    assert (read.sign, read.status, read.sum) == ("◐", "graded by a person", "2 of 3 points")
    assert replace(read, answered=False).status == "graded by a person"
    handed_in_again = replace(read, waiting=True)
    assert (handed_in_again.sign, handed_in_again.status) == ("…", "to be graded by a person")
    assert handed_in_again.why.startswith("The points are those of an earlier answer.")


def test_what_the_summary_says_is_text() -> None:
    table = summary([WRONG], 2, 4, 0.5, ["<b>mended</b>"])
    assert "<b>" not in table
    assert "&lt;b&gt;mended&lt;/b&gt;" in table
    assert "−0.5" in table
    assert "\n\n" not in table  # Markdown would end the table there
    assert clean(table) == table


@pytest.fixture(scope="module")
def one_lesson(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a course in which ann has handed in one lesson."""
    empty = empty_course(tmp_path_factory)
    empty.release(LESSON)
    points = {"check_scores": 2.0, "check_guess": 1.0, "explain": None}
    verdicts = {"scores": NOT_SCALED, "guess": RIGHT}
    empty.hand_in("ann", LESSON, points, verdicts, repairs=["explain was missing"])
    return folder_of(empty)


@pytest.fixture
def graded(one_lesson: Path, tmp_path: Path) -> Iterator[GradedClass]:
    """A course with one submission."""
    yield from copy_of(one_lesson, tmp_path)


def for_students(graded: GradedClass, notebook: NotebookNode) -> NotebookNode:
    """Prepare one of ann's notebooks for feedback, as generate_feedback does."""
    names = {"notebook": LESSON, "assignment": LESSON, "student": "ann", "db_url": graded.course.db_url}
    given = {**names, "score": 3.0, "max_score": 7.0, "late_penalty": 0}
    cleared, resources = PrepareFeedback().preprocess(notebook, {"nbgrader": given})
    assert "course-summary" in resources["inlining"]["css"][0]
    return cleared


def notebook_of(graded: GradedClass) -> NotebookNode:
    return nbformat.read(graded.root / "autograder/autograded/ann" / LESSON / f"{LESSON}.ipynb", as_version=4)


def test_the_top_has_all_points_and_each_check_its_own(graded: GradedClass) -> None:
    cells = for_students(graded, notebook_of(graded)).cells
    table = cells[0].source
    for row in (
        '<a href="#check_scores">scores</a></th><td>◐ partly correct</td><td>2</td><td>4</td>',
        '<th scope="row"><a href="#check_guess">guess</a></th><td>✓ correct</td><td>1</td><td>1</td>',
        '<a href="#explain">explain</a></th><td>… to be graded by a person</td><td>0</td><td>2</td>',
        "<td>3</td><td>7</td>",
        "<li>explain was missing</li>",
    ):
        assert row in table
    assert "The scores are not divided." in cells[2].outputs[0].data["text/html"]


def test_a_person_who_overrides_a_check_is_named_as_the_reason(graded: GradedClass) -> None:
    graded.gradebook.find_grade("check_scores", LESSON, LESSON, "ann").manual_score = 4.0
    graded.gradebook.db.commit()
    cells = for_students(graded, notebook_of(graded)).cells
    assert "4 of 4 points." in cells[2].outputs[0].data["text/html"]
    assert (
        "A person gave these points instead of the check&#x27;s 2." in cells[2].outputs[0].data["text/html"]
    )


def test_a_check_shows_no_hidden_test_and_no_traceback(graded: GradedClass) -> None:
    notebook = notebook_of(graded)
    check = notebook.cells[1]
    check.source = "check(\n'scores',\n### BEGIN HIDDEN TESTS\ngrading={'seed': 7},\n### END HIDDEN TESTS\n)"
    svg = '<svg role="img" aria-label="found &amp;quot;beside&quot; expected"></svg>'
    check.outputs += [
        new_output("display_data", data={"image/svg+xml": svg}),
        new_output("execute_result", data={"text/plain": "2.0"}),
        new_output(
            "error", ename="KeyError", evalue="'x'", traceback=["File /opt/judge.py:3", "grading={'seed': 7}"]
        ),
    ]
    cleared = for_students(graded, notebook).cells[2]
    assert cleared.source == "check(\n'scores',\n)"
    kinds = [output.output_type for output in cleared.outputs]
    assert kinds == ["display_data", "display_data", "display_data", "error"]
    assert cleared.outputs[-1].traceback == ["KeyError: 'x'"]
    assert 'alt="found &amp;quot;beside&quot; expected"' in cleared.outputs[2].data["text/html"]


def test_a_check_that_failed_by_our_own_fault_shows_only_that(graded: GradedClass) -> None:
    notebook = notebook_of(graded)
    notebook.metadata.course_grading.findings["check_scores"] = {"name": "scores", "verdict": "error"}
    [output] = for_students(graded, notebook).cells[2].outputs
    assert "your fault" in output.data["text/html"]


def test_students_markers_and_verdicts_mean_nothing(graded: GradedClass) -> None:
    notebook = notebook_of(graded)
    forged = new_output(
        "display_data", data={"text/plain": "x"}, metadata={"course": {"name": "scores", **RIGHT}}
    )
    source = "### BEGIN HIDDEN TESTS"
    notebook.cells[:0] = [new_code_cell(source, outputs=[forged])]
    notebook.cells[1].outputs = [forged]
    assert verdicts_in(notebook)["check_scores"].verdict == "wrong"
    cleared = for_students(graded, notebook)
    assert cleared.cells[1].source == source
    assert "partly correct" in cleared.cells[0].source


def test_a_long_traceback_of_a_students_own_is_cut_and_loses_its_folders(graded: GradedClass) -> None:
    lines = [f"File \x1b[32m/home/grader/{n}/work.py:{n}\x1b[39m, in f" for n in range(100)]
    error = new_output("error", ename="E", evalue="in /srv/course/x.py", traceback=lines)
    notebook = new_notebook(cells=[new_code_cell("f()", outputs=[error])])
    [output] = for_students(graded, notebook).cells[1].outputs
    shown = output.traceback[0].split("\n")
    assert len(shown) == FIRST_LINES + 1 + LAST_LINES
    assert shown[FIRST_LINES] == f"... {100 - FIRST_LINES - LAST_LINES} lines are left out ..."
    assert shown[-1] == "File \x1b[32mwork.py:99\x1b[39m, in f"
    assert output.evalue == "in x.py"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("File ~/course/a.py:3", "File a.py:3"),
        ('File "/usr/lib/python3.11/ast.py", line 50', 'File "ast.py", line 50'),
        ("a / b.py / c", "a / b.py / c"),
        ("1/2 and x/y.py", "1/2 and x/y.py"),
        (f"it lies in {sys.prefix}/share", "it lies in …/share"),
    ],
)
def test_paths_lose_their_folders(text: str, shown: str) -> None:
    assert without_paths(text) == shown


@pytest.mark.parametrize("piece", ["/-", "/", "~/a", "C:\\a", "\x1b[", "a/b.p"])
def test_a_line_of_slashes_takes_no_longer_than_another(piece: str) -> None:
    """Guard against quadratic time, in which rendering would take hours."""
    text = piece * 400_000
    assert without_paths(text) == text


@pytest.mark.parametrize("piece", ["<style ", "<script>", "<style></script>"])
def test_styles_that_never_end_take_no_longer_than_others(piece: str) -> None:
    assert "<s" not in clean_output(piece * 20_000)


def test_each_style_and_script_is_left_out_and_nothing_else() -> None:
    html = "a<STYLE>x</style>b<style>y<script></style>c<script>z</script >d<style>e"
    assert clean_output(html).startswith("abcd")
    assert clean_output("a<style>b<script>c</script>d") == clean("a<style>bd")


def test_elements_nested_without_end_become_text() -> None:
    for text in ("<div>" * 100_000, "</div>" * 9_999 + "<div>" * 10_000, "<div></b>" * 50_000):
        assert clean(text) == escape(text)
    assert clean("<p><b>1</b>" * 1_000).count("<b>") == 1_000
    table = "<table>" + "<tr><td>1<br></td></tr>" * 2_000 + "</table>"
    assert clean(table).count("<td>") == 2_000


@pytest.mark.parametrize(
    "html",
    [
        '<p id="check_scores">x</p>',
        '<p class="score nbgrader_cell">x</p>',
        '<p style="position: fixed">x</p>',
        '<img src="https://example.com/x.png">',
        '<img src="x.png">',
        '<img src="data:text/html,x">',
        '<a href="data:text/html,x">x</a>',
        '<a href="da\tta:text/html,x">x</a>',
        '<a href="&#1; data:text/html,x">x</a>',
        '<a href="da&#9;ta:text/html,x">x</a>',
        '<a href=" javascript:alert(1)">x</a>',
        '<img src="data:image/png;base64,AAAA" onload="alert(1)">',
    ],
)
def test_attributes_that_do_harm_are_dropped(html: str) -> None:
    left = clean(html)
    harm = ("id=", "class=", "style=", "http", "x.png", "text/html", "javascript", "onload")
    assert [word for word in harm if word in left] == []


def test_an_answer_of_formulas_takes_no_longer_than_others() -> None:
    page = markdown_to_html("$x_1$ " * 5000 + "$$y$$")
    assert page.count("<math") == 300
    assert page.count("<code>x_1</code>") == 4700
    assert "formula-" not in page
    assert markdown_to_html("$x$0 and $y$1").count("</math>0 and") == 1
    assert "<math" not in markdown_to_html(f"${'x' * 3000}$")


def test_what_a_page_needs_stays() -> None:
    kept = '<div class="highlight hl-ipython3"><span class="kn">import</span></div>'
    picture = '<img alt="a plot" src="data:image/png;base64,AAAA">'
    link = '<a href="https://arxiv.org/abs/1706.03762">the paper</a>'
    assert clean(kept + link) == kept + link
    assert set(clean(picture).split()) == set(picture.split())
    assert clean_output("<style scoped>td {}</style><table class='dataframe'></table>") == (
        '<table class="dataframe"></table>'
    )


def test_metadata_that_templates_trust_is_taken_out() -> None:
    metadata = {"image/png": {"width": "1 onload=alert(1)", "height": 3}, "filenames": {"image/png": "//x"}}
    picture = new_output(
        "display_data", data={"image/png": "AAAA", "application/javascript": "x"}, metadata=metadata
    )
    live = {"application/vnd.jupyter.widget-view+json": {"model_id": "x"}, "text/plain": "<Chart at 0x7f>"}
    cell = new_code_cell("x", outputs=[picture, new_output("display_data", data=live)])
    cell.metadata.update(magics_language="x", tags=["see", '">'], nbgrader={"grade_id": '">'})
    notebook = new_notebook(cells=[cell], metadata={"widgets": {}, "language_info": {"name": "x"}})
    resources = {"student": "<b>", "index": 3}
    cleared, resources = SanitizeNotebook().preprocess(notebook, resources)
    first, second = cleared.cells[0].outputs
    assert first.data == {"image/png": "AAAA"}
    assert first.metadata["image/png"] == {"height": 3}
    assert "filenames" not in first.metadata
    assert second.data == {"text/plain": "(something that only the notebook itself can show)"}
    assert cleared.cells[0].metadata == {"tags": ["see"]}
    assert cleared.metadata == {}
    assert resources == {"student": "&lt;b&gt;", "index": 3}
