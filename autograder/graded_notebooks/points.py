"""Describe to students how many points they earned and why."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from math import isnan

from nbgrader.api import Grade

from autograder.graded_notebooks.verdicts import IN_WORDS
from course_lib.checks.engine.findings import Finding

#: Signs for statuses. They are shown next to words, never instead of them.
_SIGNS = {"correct": "✓", "partly correct": "◐", "not written yet": "○", "missing": "○", "waiting": "…"}


@dataclass(frozen=True)
class GradedCell:
    """The points for one graded cell of one submission."""

    name: str
    """The name of the cell, which is its anchor on the page."""
    by_hand: bool
    """Whether the cell is an answer that only a person can grade."""
    points: float
    max_points: float
    automatic: float | None
    """The points from the check, or from nbgrader for an unchanged answer; None if there are none."""
    person: float | None
    """The points that a person gave for a written answer or instead of the check's points, or None."""
    extra: float
    """Extra credit from a person."""
    verdict: Finding | None
    answered: bool = True
    """Whether a written answer was given at all."""
    waiting: bool = False
    """Whether a person has to grade the cell, or to review an earlier grade."""

    @classmethod
    def of(cls, grade: Grade, verdict: Finding | None, answered: bool = True) -> "GradedCell":
        """Create a GradedCell from a grade in the gradebook and the verdict of the check, if there is one.

        `answered` is false if a written answer is missing.
        """
        return cls(
            name=grade.name,
            by_hand=grade.cell.cell_type == "markdown"
            or any(cell.name == grade.name for cell in grade.cell.notebook.solution_cells),
            points=float(grade.score),
            max_points=float(grade.cell.max_score),
            automatic=grade.auto_score,
            person=grade.manual_score,
            extra=float(grade.extra_credit or 0),
            verdict=verdict,
            answered=answered,
            waiting=bool(grade.needs_manual_grade),
        )

    @property
    def open(self) -> bool:
        """Whether the cell still needs points from a grader."""
        return self.waiting and self.person is None

    @property
    def exercise(self) -> str:
        """The name of the exercise or question, which is the cell's name without "check_"."""
        return self.name.removeprefix("check_")

    @property
    def status(self) -> str:
        """A few words: the verdict or, for a written answer, whether it was given and has been graded."""
        if self.by_hand:
            if self.person is not None and not self.waiting:
                return "graded by a person"
            return "to be graded by a person" if self.answered else "no answer"
        if self.verdict is None:
            return "to be graded by a person" if self.automatic is None else self._outcome(self.automatic)
        if self.verdict.verdict == "wrong" and (self.automatic or 0) > 0:
            return "partly correct"
        return IN_WORDS[self.verdict.verdict]

    @property
    def sign(self) -> str:
        """A symbol for the verdict that can be recognised without colour."""
        if self.status in ("to be graded by a person", "could not be checked"):
            return _SIGNS["waiting"]
        if self.by_hand:
            return "○" if self.status == "no answer" else _SIGNS.get(self._outcome(self.points), "✗")
        return _SIGNS.get(self.status, "✗")

    def _outcome(self, points: float) -> str:
        if points >= self.max_points:
            return "correct"
        return "partly correct" if points > 0 else "incorrect"

    @property
    def sum(self) -> str:
        """The points earned and the maximum, such as "3 of 4 points"."""
        return f"{rounded(self.points)} of {rounded(self.max_points)} points"

    @property
    def why(self) -> str:
        """The reason for the points, in one or more sentences. Empty if `status` says everything."""
        if self.by_hand:
            if self.status == "no answer":
                return "There was no answer."
            if self.person is None:
                return "A person still has to grade your answer."
            if self.waiting:
                return "The points are those of an earlier answer. A person still has to grade this one."
            return "A person has graded your answer."
        found = self._found()
        extra = f"They include {rounded(self.extra)} of extra credit." if self.extra else ""
        if self.person is None:
            return f"{found} {extra}".strip()
        gave = f"A person gave these points instead of the check's {rounded(self.automatic or 0)}."
        return " ".join(filter(None, [gave, extra, found and f"The check: {found}"]))

    def _found(self) -> str:
        """Return what the check found, unless `status` says it."""
        verdict = self.verdict
        if verdict is None:
            return ""
        match verdict.verdict:
            case "right" | "unwritten":
                return ""
            case "wrong" if verdict.statements:
                left = (
                    " That costs some of the points." if 0 < (self.automatic or 0) < self.max_points else ""
                )
                return f"{_sentence('; and '.join(verdict.statements))}{left}"
            case "wrong":
                return "It is incorrect. The check doesn't recognise the mistake."
            case "missing" if verdict.statements:  # The statements name the missing file.
                return _sentence("; and ".join(verdict.statements))
            case "missing":
                return (
                    "The notebook does not define this name. If the cell that should define it shows an "
                    "error, such as a SyntaxError, that may be the reason."
                )
            case "forbidden":
                used = " and ".join(verdict.forbidden) or "a function"
                return f"It calls {used}, which is not allowed because it would solve the whole exercise."
            case "out-of-time":
                return "It did not finish within the time limit of the check."
            case "kernel-died":
                return "Your code ended its own process, so it could not be checked."
            case _:
                return "The check could not be run. That isn't your fault: please ask your instructor."


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def rounded(value: float | None, decimals: int = 2) -> str:
    """Format a number with at most `decimals` decimals, or None or NaN as a dash."""
    return "–" if value is None or isnan(value) else f"{round(float(value), decimals):g}"


def points_line(cell: GradedCell) -> str:
    """Return the HTML of the line above a check's output, with the points and the reason for them."""
    verdict = f"<b>{cell.sign} {escape(cell.status)}: {cell.sum}.</b>"
    return f'<p class="course-points {_colour(cell)}">{f"{verdict} {escape(cell.why)}".strip()}</p>'


def summary(
    cells: Iterable[GradedCell], score: float, max_points: float, penalty: float, notes: Iterable[str]
) -> str:
    """Return the HTML of the table at the top of a page, and of a list of notes below it.

    `score` is the total after the late `penalty`, which has a separate row unless it is 0. The HTML has no
    empty lines, because Markdown ends an HTML block at an empty line.
    """
    rows = "\n".join(
        f'<tr class="{_colour(cell)}"><th scope="row"><a href="#{cell.name}">{escape(cell.exercise)}</a></th>'
        f"<td>{cell.sign} {escape(cell.status)}</td>"
        f"<td>{rounded(cell.points)}</td><td>{rounded(cell.max_points)}</td></tr>"
        for cell in cells
    )
    late = f'<tr><th scope="row">handed in late</th><td></td><td>−{rounded(penalty)}</td><td></td></tr>\n'
    repairs = "\n".join(f"<li>{escape(note)}</li>" for note in notes)
    notes_section = (
        '<div class="course-repairs">\n<p>Notes on the files that you handed in:</p>\n'
        f"<ul>\n{repairs}\n</ul>\n</div>\n"
    )
    head = "<tr><th>exercise</th><th>verdict</th><th>points</th><th>of</th></tr>"
    sums = (
        f'<tr><th scope="row">total</th><td></td><td>{rounded(score)}</td><td>{rounded(max_points)}</td></tr>'
    )
    return (
        f'<table class="course-summary">\n<thead>{head}</thead>\n'
        f"<tbody>\n{rows}\n{late if penalty else ''}</tbody>\n<tfoot>{sums}</tfoot>\n</table>\n"
        f"{notes_section if repairs else ''}"
    )


def _colour(cell: GradedCell) -> str:
    return {"✓": "course-right", "✗": "course-wrong", "◐": "course-partly"}.get(cell.sign, "course-open")


#: The style of the table and the lines. The colours are from Okabe and Ito (2008), as in the lessons' charts.
STYLE = """
#toc { display: none; }
.course-summary { border-collapse: collapse; font-size: 14px; margin: 8px 0; }
.course-summary th, .course-summary td { padding: 3px 12px; text-align: left; }
.course-summary th, .course-summary td { border-bottom: 1px solid #d0d7de; }
.course-summary td:nth-child(n+3), .course-summary thead th:nth-child(n+3) { text-align: right; }
.course-summary tfoot th, .course-summary tfoot td { border-top: 2px solid #1f2328; font-weight: bold; }
.course-summary tbody tr { border-left: 5px solid #d0d7de; }
.course-points { border-left: 5px solid #d0d7de; padding: 6px 10px; margin: 6px 0; background: #f6f8fa; }
.rendered_html .course-right, .course-right { border-left-color: #0072b2 !important; }
.rendered_html .course-partly, .course-partly { border-left-color: #e69f00 !important; }
.rendered_html .course-wrong, .course-wrong { border-left-color: #d55e00 !important; }
summary { display: list-item !important; cursor: pointer; }
.course-repairs { border-left: 5px solid #cc79a7; padding: 4px 10px; margin: 8px 0; }
/* nbgrader's page: enough contrast, and no text that is wider than a narrow window. */
#notebook a { color: #0550ae; text-decoration: underline; }
#notebook div.nbgrader_cell .panel-heading { height: auto; overflow: hidden; }
#notebook div.nbgrader_cell .panel-heading a { color: inherit; }
#notebook .highlight .c, #notebook .highlight .c1 { color: #2f6060; }
#notebook pre { white-space: pre-wrap; overflow-wrap: anywhere; }
#notebook .rendered_html, #notebook .output_subarea { overflow-wrap: anywhere; }
#notebook .course-summary th { overflow-wrap: normal; }
#notebook img, #notebook svg { max-width: 100%; height: auto; }
@media (max-width: 700px) {
  .container, .panel-body, #notebook, #notebook-container { padding-left: 4px; padding-right: 4px; }
  #notebook div.prompt { min-width: 0; }
  .course-summary th, .course-summary td { padding: 3px 4px; }
}
"""
