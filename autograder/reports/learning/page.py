"""Render the learning report as one self-contained HTML page without scripts or names of students."""

from pathlib import Path

import altair as alt
import pandas as pd
from markupsafe import Markup

from autograder.graded_notebooks.points import rounded
from autograder.graded_notebooks.safe_html import templates
from autograder.release.concept_test import TESTS, ConceptTest
from autograder.reports.class_report.charts import WIDTH, rows_of
from autograder.reports.learning.figures import MIN_FOR_GAIN, MIN_FOR_INTERVAL, Figures, gain
from autograder.reports.learning.records import LearningRecords
from course_lib.charts import Picture, as_svg
from course_lib.charts.marks import captioned
from course_lib.charts.theme import CATEGORIES, INK, QUIET_INK

_HERE = Path(__file__).parent

_TEST_NAMES = {"pre": "pre-test", "post": "post-test"}


def learning_page(test: ConceptTest, records: LearningRecords, figures: Figures, course: str) -> str:
    """Render the page of the learning report, using the styles of the class report.

    `course` is the name of the course, for the title.
    """
    environment = templates(_HERE, _HERE.with_name("class_report"))
    quartiles = figures.scores.describe().T.drop(columns="count").reset_index()
    both = len(figures.scores)
    return environment.get_template("learning.html.j2").render(
        course=course,
        questions=len(test.questions),
        ideas=len(test.ideas),
        notes=records.notes,
        took={name: len(answers) for name, answers in records.answers.items()},
        both=both,
        scores=quartiles.replace({"index": _TEST_NAMES})[
            ["index", "min", "25%", "50%", "75%", "max", "mean", "std"]
        ],
        gain=[f"{value:.2f}" for value in gain(figures.scores, len(test.questions))],
        min_for_interval=MIN_FOR_INTERVAL,
        min_for_gain=MIN_FOR_GAIN,
        chart=Markup(as_svg(questions_chart(figures.questions, both))) if both else "",
        figures=figures,
        logs=len({run.student for run in records.logged}),
        shown=lambda cell: rounded(cell) if isinstance(cell, float) else str(cell),
        is_numeric=pd.api.types.is_numeric_dtype,
    )


def questions_chart(questions: pd.DataFrame, students: int) -> Picture:
    """Draw the number of correct answers to each question in both tests, for students who took both."""
    data = questions.melt(["question"], list(TESTS), "test", "correct").replace({"test": _TEST_NAMES})
    names = list(_TEST_NAMES.values())
    y = rows_of("question", list(questions["question"]))
    scale = alt.Scale(domain=[0, students], nice=False, padding=8)
    lines = alt.Chart(questions).mark_rule(color=INK).encode(y=y, x=alt.X("pre:Q", scale=scale), x2="post:Q")
    dots = (
        alt.Chart(data)
        .mark_point(size=90, filled=True, opacity=1)
        .encode(
            y=y,
            x=alt.X(
                "correct:Q",
                title=f"correct answers of {students} students",
                scale=scale,
                axis=alt.Axis(format="d", tickMinStep=1),
            ),
            color=alt.Color(
                "test:N", scale=alt.Scale(domain=names, range=[QUIET_INK, CATEGORIES[0]]), title=None
            ),
            shape=alt.Shape("test:N", scale=alt.Scale(domain=names, range=["circle", "diamond"]), title=None),
        )
    )
    counts = "; ".join(f"{row.question}: {row.pre} and {row.post}" for row in questions.itertuples())
    described = f"Correct answers of {students} students in the pre-test and the post-test. {counts}."
    subtitle = "Students who took both tests."
    chart = (lines + dots).properties(width=WIDTH, height=24 * len(questions))
    return captioned(chart, "Correct answers before and after", subtitle, described)
