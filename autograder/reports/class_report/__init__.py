"""An nbgrader exporter that writes a report on the class.

Run it with `nbgrader export --exporter=autograder.reports.class_report.ClassReport`.
"""

from pathlib import Path

import pandas as pd
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import ExportPlugin
from traitlets import Unicode

from autograder.nbgrader.command_line import logging_errors
from autograder.reports.class_report.figures import figures
from autograder.reports.class_report.page import report_page
from autograder.reports.class_report.records import read_records
from course_lib.atomic_files import atomic_write_text

#: The default path of the report.
REPORT = "report.html"

#: The first characters that make a spreadsheet interpret a cell as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class ClassReport(ExportPlugin):
    """An exporter that writes an HTML page and, in a folder of the same name, its tables as CSV files.

    It reads the gradebook through nbgrader's interface, and the autograded notebooks in nbgrader's folder.
    The same gradebook and notebooks give the same bytes.
    """

    formgrader = Unicode(
        help="The address of Formgrader, for links: https://hub.example.org/services/course/formgrader"
    ).tag(config=True)

    @logging_errors
    def export(self, gradebook: Gradebook) -> None:
        """Write the report on the requested students and lessons, or on all of them if none are requested.

        The page is written to the path in the option `to`, by default `report.html`. Unless the path ends
        with .html or .htm, .html is appended. Exits with code 1 if the report can't be written.
        """
        page = Path(self.to or REPORT)
        if page.suffix.lower() not in (".html", ".htm"):
            page = page.with_name(page.name + ".html")
        course = getattr(self.parent, "coursedir", None) or CourseDirectory(parent=self)
        records = read_records(gradebook, course, set(map(str, self.student)), set(map(str, self.assignment)))
        found = figures(records)
        folder = page.with_suffix("")
        html = report_page(records, found, course.course_id, folder.name, self.formgrader)
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in vars(found).items():
            atomic_write_text(folder / f"{name}.csv", as_csv(table))
        atomic_write_text(page, html)
        self.log.info("Wrote %s, and its tables as CSV files to %s", page, folder)


def as_csv(table: pd.DataFrame) -> str:
    """Format a table as CSV, with an apostrophe before texts that spreadsheets would read as formulas.

    Floating-point numbers are rounded to four significant digits.
    """
    return table.map(_harmless).to_csv(index=False, lineterminator="\n", float_format="%.4g")


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
