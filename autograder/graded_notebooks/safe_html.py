"""Sanitise submissions before a browser shows them, and render pages that escape everything else."""

import re
import secrets
from collections import Counter
from collections.abc import Mapping
from html import escape, unescape
from pathlib import Path
from types import MappingProxyType
from typing import Any

import bleach  # type: ignore[import-untyped]
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from latex2mathml.converter import convert
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode

from autograder.graded_notebooks.record import GRADING

_TAGS = [
    *bleach.ALLOWED_TAGS,
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "div", "span", "pre", "img", "sub", "sup", "del"),
    *("details", "summary", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td"),
]

#: The classes in Markdown code, pandas tables and feedback pages. Formgrader finds its form fields by class
#: and id, so no other classes and no ids are allowed in a submission.
_CLASS = re.compile(r"highlight|hl-\w+|[a-z]{1,2}[a-z0-9]?|dataframe|course-[a-z-]+")

#: A picture embedded in an answer. A remote picture would reveal to its server who views the page.
_PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp|svg\+xml)[;,]", re.IGNORECASE)


def _attribute(tag: str, name: str, value: str) -> bool:
    match name:
        case "class":
            return all(map(_CLASS.fullmatch, value.split()))
        case "src":
            return tag == "img" and _PICTURE.match(value.strip()) is not None
        case "href":
            # Browsers ignore whitespace and control characters in a protocol, even if they are escaped.
            letters = filter(str.isprintable, unescape(value))
            address = "".join(letter for letter in letters if not letter.isspace())
            return tag == "a" and not address.lower().startswith("data:")
        case "alt" | "title" | "scope" | "colspan" | "rowspan":
            return True
        case _:
            return False


#: The maximum nesting depth of elements. Parsing takes time quadratic in the depth, and no library's output
#: is nested more deeply.
_MAX_DEPTH = 300
#: A start or end tag, except those of void elements and of elements whose end tag may be omitted.
_OPENS_OR_CLOSES = re.compile(
    r"<(/?)(?!(?:br|hr|img|wbr|col|input|meta|link|p|li|tr|td|th|dt|dd)\b)([a-z][a-z0-9]*)", re.IGNORECASE
)


def templates(*folders: Path) -> Environment:
    """Return a Jinja environment for folders of templates that escapes values and rejects unknown names."""
    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def clean(text: str) -> str:
    """Sanitise HTML: keep tags for text, tables and embedded pictures, and escape all others.

    Attributes that aren't known to be safe are removed. If elements are nested too deeply, everything is
    escaped.
    """
    if _is_too_deep(text):
        return escape(text)
    protocols = [*bleach.ALLOWED_PROTOCOLS, "data"]
    return str(bleach.clean(text, tags=_TAGS, attributes=_attribute, protocols=protocols))


def _is_too_deep(text: str) -> bool:
    there: Counter[str] = Counter()
    deep = 0
    for closes, name in _OPENS_OR_CLOSES.findall(text):
        step = 1 if not closes else -1 if there[name.lower()] else 0  # Ignore an end tag without a start tag.
        there[name.lower()] += step
        deep += step
        if deep > _MAX_DEPTH:
            return True
    return False


#: The start tags of elements whose content would be shown as text if only their tags were removed.
_NOT_TEXT = re.compile(r"<(style|script)\b", re.IGNORECASE)
_ENDS = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in ("style", "script")}


def clean_output(html: str | bytes) -> str:
    """Sanitise an HTML output, and remove the styles and scripts that libraries add to their tables."""
    text = html.decode() if isinstance(html, bytes) else str(html)
    kept, position, unclosed = [], 0, set[str]()
    for opened in _NOT_TEXT.finditer(text):
        name = opened[1].lower()
        if opened.start() < position or name in unclosed:
            continue  # The element is inside a removed one, or has no end tag.
        closed = _ENDS[name].search(text, opened.end())
        if closed is None:
            unclosed.add(name)
            continue
        kept.append(text[position : opened.start()])
        position = closed.end()
    return clean("".join([*kept, text[position:]]))


@pass_context
def clean_markdown(context: Context, source: str) -> str:
    """Convert a cell's Markdown to HTML as nbconvert does, and sanitise the result.

    The cell's attachments are taken from the template's context.
    """
    return markdown_to_html(source, context.get("cell", {}).get("attachments", {}))


def highlight_code(source: str, language: str = "ipython3", metadata: NotebookNode | None = None) -> str:
    """Highlight a code cell as nbconvert does, unless its source is very long."""
    if len(source) > _MAX_CONVERTED:
        return f'<div class="highlight"><pre>{escape(source)}</pre></div>'
    return str(Highlight2HTML(pygments_lexer="ipython3")(source, language, metadata))


#: Text longer than this is only escaped. Converting some Markdown takes quadratic time, and highlighting a
#: million characters of code takes half a minute.
_MAX_CONVERTED = 100_000


def markdown_to_html(source: str, attachments: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> str:
    """Convert Markdown to HTML as nbconvert does, and sanitise the result.

    `attachments` contains pictures in base64, keyed by file name and then by MIME type.
    """
    if len(source) > _MAX_CONVERTED:
        return f"<pre>{escape(source)}</pre>"
    # Leave out the links to headings, because the ids of the headings are removed.
    renderer = _FormulaRenderer(
        escape=False, attachments=attachments, embed_images=False, path="", exclude_anchor_links=True
    )
    return renderer.with_formulas(clean(MarkdownWithMath(renderer=renderer).render(source)))


_MATHML_TAGS = [
    *("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mstyle", "mpadded", "mfrac", "msqrt", "mroot"),
    *("msub", "msup", "msubsup", "munder", "mover", "munderover", "mtable", "mtr", "mtd"),
]
_MATHML_ATTRIBUTES = [
    *("display", "displaystyle", "mathvariant", "scriptlevel", "stretchy", "fence", "form", "accent"),
    *("columnalign", "minsize", "maxsize", "width"),
]

#: The maximum number of formulas that are converted, and the maximum length of each. The others stay LaTeX.
_MAX_FORMULAS, _MAX_FORMULA_LENGTH = 300, 2000


class _FormulaRenderer(IPythonRenderer):
    """nbconvert's renderer, with a placeholder for each formula until the page has been sanitised.

    Formulas become MathML, so that a page needs neither scripts nor internet access.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._formulas: dict[str, str] = {}
        self._prefix = f"formula-{secrets.token_hex(8)}-"  # A random prefix, which students can't guess

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
        # Limit the conversions: each takes up to a millisecond, and answers can have millions of characters.
        is_short = len(self._formulas) < _MAX_FORMULAS and len(body) <= _MAX_FORMULA_LENGTH
        self._formulas[name] = _mathml(body, display) if is_short else f"<code>{escape(body)}</code>"
        return name


def _mathml(body: str, display: str) -> str:
    try:
        # Sanitise the result, because the converter doesn't escape HTML in \text.
        return str(
            bleach.clean(convert(body, display=display), tags=_MATHML_TAGS, attributes=_MATHML_ATTRIBUTES)
        )
    except Exception:  # The text between dollar signs can be anything, and can cause any exception.
        return f"<code>{escape(body)}</code>"


#: The only MIME types in which an output may be shown.
_SHOWN_AS = {
    "text/html",
    "text/markdown",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "text/latex",
    "text/plain",
}

#: The MIME type of a live chart or another widget. Its text fallback is replaced, because it is only an
#: address in memory.
_WIDGET = "application/vnd.jupyter.widget-view+json"
_NOT_SHOWN = {"text/plain": "(something that only the notebook itself can show)"}

_NAME = re.compile(r"[a-zA-Z0-9_-]+")

#: Fields about a student that Formgrader's template does not escape.
_SHOWN_NAMES = ("student", "first_name", "last_name", "notebook_path")


class SanitizeNotebook(Preprocessor):
    """A preprocessor that removes from a notebook everything that its rendered page does not need.

    nbconvert rejects invalid notebooks, but its templates trust the metadata of valid ones: they write a
    picture's width or URL into the page without escaping, even with `sanitize_html`.
    """

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Sanitise a notebook, and escape the fields about the student in `resources`."""
        nb.metadata = _only(nb.metadata, "kernelspec", "course", GRADING)
        for name in _SHOWN_NAMES:
            if isinstance(resources.get(name), str):
                resources[name] = escape(resources[name])
        return super().preprocess(nb, resources)

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Reduce one cell to the metadata and output formats that the page needs."""
        cell.metadata = _only(cell.metadata, "nbgrader", "tags")
        if not _NAME.fullmatch(str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))):
            cell.metadata.pop("nbgrader", None)
        cell.metadata.tags = [tag for tag in cell.metadata.get("tags", []) if _NAME.fullmatch(tag)]
        for output in cell.get("outputs", []):
            if "data" in output:
                data = _only(output.data, *_SHOWN_AS.intersection(output.data))
                output.data = _NOT_SHOWN if _WIDGET in output.data or not data else data
                output.metadata = _sizes(output.metadata)
        return cell, resources


def _sizes(metadata: NotebookNode) -> NotebookNode:
    """Return the part of an output's metadata that is safe: the sizes of pictures, if they are numbers."""
    kept = NotebookNode()
    for kind in ("image/png", "image/jpeg"):
        sizes = _only(metadata.get(kind, {}), "width", "height")
        kept[kind] = {name: size for name, size in sizes.items() if type(size) in (int, float)}
    return kept


def _only(found: Any, *names: str) -> NotebookNode:
    """Return the entries with these names, or an empty mapping if `found` is not a dict."""
    return NotebookNode(
        {name: found[name] for name in names if name in found} if isinstance(found, dict) else {}
    )
