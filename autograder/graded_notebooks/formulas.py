"""Render formulas in Markdown as MathML, so that a page needs neither scripts nor internet access."""

import re
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

#: Further formulas, and longer ones, stay LaTeX.
_MAX_FORMULAS, _MAX_LENGTH = 300, 2000


class FormulaRenderer(IPythonRenderer):
    """nbconvert's renderer, with a placeholder for each formula until the page has been sanitised."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._formulas: dict[str, str] = {}
        self._prefix = f"formula-{secrets.token_hex(8)}-"  # A student can't guess it.

    def inline_math(self, body: str) -> str:
        """Convert an inline formula, and return its placeholder."""
        return self._keep(body, "inline")

    def block_math(self, body: str) -> str:
        """Convert a display formula, and return its placeholder."""
        return self._keep(body, "block")

    def with_formulas(self, page: str) -> str:
        """Replace the placeholders in a sanitised page with the formulas."""
        return re.sub(rf"{self._prefix}\d+-end", lambda found: self._formulas[found[0]], page)

    def _keep(self, body: str, display: str) -> str:
        name = f"{self._prefix}{len(self._formulas)}-end"
        # A conversion takes up to a millisecond, and an answer can have millions of characters.
        is_short = len(self._formulas) < _MAX_FORMULAS and len(body) <= _MAX_LENGTH
        self._formulas[name] = _converted(body, display) if is_short else f"<code>{escape(body)}</code>"
        return name


def _converted(body: str, display: str) -> str:
    try:
        # The converter does not escape HTML in \text.
        return str(bleach.clean(convert(body, display=display), tags=_TAGS, attributes=_ATTRIBUTES))
    except Exception:  # Any text can be between dollar signs, with many kinds of errors
        return f"<code>{escape(body)}</code>"
