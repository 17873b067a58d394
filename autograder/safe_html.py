"""HTML that comes from a submission, made harmless before a browser shows it."""

from functools import cache
from typing import Any

import bleach  # type: ignore[import-untyped]
from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert.exporters import HTMLExporter

_TAGS = [
    *bleach.ALLOWED_TAGS,
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "div", "span", "pre", "img", "sub", "sup", "del"),
    *("details", "summary", "table", "thead", "tbody", "tr", "th", "td"),
]
_ATTRIBUTES = {**bleach.ALLOWED_ATTRIBUTES, "*": ["class", "id"], "img": ["src", "alt", "title"]}
#: A picture that was pasted into an answer is a `data:` address.
_PROTOCOLS = [*bleach.ALLOWED_PROTOCOLS, "data"]


def clean(html: str | bytes) -> str:
    """Keep what forms text, tables and pictures; turn other tags into text, and drop scripts' addresses."""
    text = html.decode() if isinstance(html, bytes) else str(html)
    return str(bleach.clean(text, tags=_TAGS, attributes=_ATTRIBUTES, protocols=_PROTOCOLS))


@pass_context
def clean_markdown(context: Context, source: str) -> str:
    """Turn Markdown into HTML as nbconvert does, and clean what comes out."""
    return clean(_exporter().markdown2html(context, source))


@cache
def _exporter() -> Any:
    return HTMLExporter()
