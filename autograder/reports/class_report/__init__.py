"""An nbgrader exporter that writes a report on the class.

Run it with `nbgrader export --exporter=autograder.reports.class_report.ClassReport`.
"""

from pathlib import Path

import pandas as pd
from nbgrader.api import Gradebook
from traitlets import Unicode

from autograder.reports.class_report.figures import figures
from autograder.reports.class_report.page import report_page
from autograder.reports.class_report.records import read_records
from autograder.reports.exporter import CourseExporter, without_formula
from course_lib.atomic_files import atomic_write_text


class ClassReport(CourseExporter):
    """An exporter that writes an HTML page and, in a folder of the same name, its tables as CSV files.

    It reads the gradebook through nbgrader's interface, and the autograded notebooks in nbgrader's folder.
    The same gradebook and notebooks always produce the same bytes.
    """

    formgrader = Unicode(
        help="The address of Formgrader, for links: https://hub.example.org/services/course/formgrader"
    ).tag(config=True)

    def write(self, gradebook: Gradebook) -> None:
        """Write the page to `to`, or to report.html by default, and the tables to a folder next to it.

        Unless `to` ends with .html or .htm, .html is appended.
        """
        page = Path(self.to or "report.html")
        if page.suffix.lower() not in (".html", ".htm"):
            page = page.with_name(page.name + ".html")
        records = read_records(gradebook, self.course, self.wants_student, self.wants_lesson)
        found = figures(records)
        folder = page.with_suffix("")
        html = report_page(records, found, self.course.course_id, folder.name, self.formgrader)
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in vars(found).items():
            atomic_write_text(folder / f"{name}.csv", as_csv(table))
        atomic_write_text(page, html)
        self.log.info("Wrote %s, and its tables as CSV files to %s", page, folder)


def as_csv(table: pd.DataFrame) -> str:
    """Format a table as CSV, with an apostrophe before texts that spreadsheets would read as formulas.

    The texts of a list are joined with semicolons. Floating-point numbers are rounded to four significant
    digits.
    """

    def cell(value: object) -> object:
        return without_formula("; ".join(value) if isinstance(value, list) else value)

    return table.map(cell).to_csv(index=False, lineterminator="\n", float_format="%.4g")
