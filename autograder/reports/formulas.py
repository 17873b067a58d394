"""Formulas in Markdown, set as MathML when a page is made: it needs no script, and no internet."""

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
    """nbconvert's renderer, which leaves a name in each formula's place until the page is cleaned."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._formulas: dict[str, str] = {}

    def inline_math(self, body: str) -> str:
        """Set a formula within a line."""
        return self._keep(body, "inline")

    def block_math(self, body: str) -> str:
        """Set a formula on a line of its own."""
        return self._keep(body, "block")

    def put_in(self, page: str) -> str:
        """Put the formulas where their names are, in a page that is clean."""
        for name, formula in self._formulas.items():
            page = page.replace(name, formula)
        return page

    def _keep(self, body: str, display: str) -> str:
        try:
            # The converter leaves HTML that stands in \text as it is.
            formula = str(bleach.clean(convert(body, display=display), tags=_TAGS, attributes=_ATTRIBUTES))
        except Exception:  # of many kinds: it may be any text between two dollars
            formula = f"<code>{escape(body)}</code>"
        name = f"formula-{secrets.token_hex(8)}"  # no student can write it
        self._formulas[name] = formula
        return name
