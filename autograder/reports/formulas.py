"""Render formulas in Markdown as MathML, so that a page needs neither scripts nor internet access."""

import secrets
from html import escape
from typing import Any

import bleach  # type: ignore[import-untyped]
from latex2mathml.converter import convert
from nbconvert.filters.markdown_mistune import IPythonRenderer

_TAGS = [
    *("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mstyle", "mpadded", "mfrac", "msqrt", "mroot"),
    *("msub", "msup", "msubsup", "munder", "mover", "munderover", "mtable", "mtr", "mtd"),
]
_ATTRIBUTES = [
    *("display", "displaystyle", "mathvariant", "scriptlevel", "stretchy", "fence", "form", "accent"),
    *("columnalign", "minsize", "maxsize", "width"),
]


class FormulaRenderer(IPythonRenderer):
    """nbconvert's renderer, with a placeholder for each formula until the page has been sanitised."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._formulas: dict[str, str] = {}

    def inline_math(self, body: str) -> str:
        """Convert an inline formula, and return its placeholder."""
        return self._keep(body, "inline")

    def block_math(self, body: str) -> str:
        """Convert a display formula, and return its placeholder."""
        return self._keep(body, "block")

    def put_in(self, page: str) -> str:
        """Replace the placeholders in a sanitised page with the formulas."""
        for name, formula in self._formulas.items():
            page = page.replace(name, formula)
        return page

    def _keep(self, body: str, display: str) -> str:
        try:
            # The converter does not escape HTML in \text.
            formula = str(bleach.clean(convert(body, display=display), tags=_TAGS, attributes=_ATTRIBUTES))
        except Exception:  # Any text can be between dollar signs, with many kinds of errors
            formula = f"<code>{escape(body)}</code>"
        name = f"formula-{secrets.token_hex(8)}"  # a student cannot guess it
        self._formulas[name] = formula
        return name
