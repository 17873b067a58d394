"""What comes from a submission, made harmless before a browser shows it, in feedback and in formgrader."""

import re
from collections import Counter
from html import escape
from typing import Any

import bleach  # type: ignore[import-untyped]
from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert.filters.markdown_mistune import MarkdownWithMath
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode

from autograder.reports.formulas import FormulaRenderer
from autograder.reports.verdicts import GRADING

_TAGS = [
    *bleach.ALLOWED_TAGS,
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "div", "span", "pre", "img", "sub", "sup", "del"),
    *("details", "summary", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td"),
]

#: The classes that code in Markdown, tables of pandas and our own feedback have. Formgrader finds the fields
#: of its form by their classes and ids, so a submission may bring no others, and no id.
_CLASS = re.compile(r"highlight|hl-\w+|[a-z]{1,2}[a-z0-9]?|dataframe|course-[a-z-]+")

#: A picture that was pasted into an answer. One that lies elsewhere would tell its owner who looks at it.
_PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp|svg\+xml)[;,]", re.IGNORECASE)


def _attribute(tag: str, name: str, value: str) -> bool:
    match name:
        case "class":
            return all(map(_CLASS.fullmatch, value.split()))
        case "src":
            return tag == "img" and _PICTURE.match(value.strip()) is not None
        case "href":
            return tag == "a" and not value.strip().lower().startswith("data:")
        case "alt" | "title" | "scope" | "colspan" | "rowspan":
            return True
        case _:
            return False


#: Elements in elements, more than which no page of a library's has; to put them in order takes the square.
_DEEPEST = 300
#: Not those that hold nothing, or that the next of their kind ends.
_OPENS_OR_CLOSES = re.compile(
    r"<(/?)(?!(?:br|hr|img|wbr|col|input|meta|link|p|li|tr|td|th|dt|dd)\b)([a-z][a-z0-9]*)", re.IGNORECASE
)


def clean(html: str | bytes) -> str:
    """Keep what forms text, tables and pictures; turn other tags into text, and drop scripts' addresses.

    Where elements stand in elements too deep, all of it becomes text.
    """
    text = html.decode() if isinstance(html, bytes) else str(html)
    if _is_too_deep(text):
        return escape(text)
    protocols = [*bleach.ALLOWED_PROTOCOLS, "data"]
    return str(bleach.clean(text, tags=_TAGS, attributes=_attribute, protocols=protocols))


def _is_too_deep(text: str) -> bool:
    there: Counter[str] = Counter()
    deep = 0
    for closes, name in _OPENS_OR_CLOSES.findall(text):
        step = 1 if not closes else -1 if there[name.lower()] else 0  # what was never opened closes nothing
        there[name.lower()] += step
        deep += step
        if deep > _DEEPEST:
            return True
    return False


#: Of an output, what would only be text on the page once its tags are gone.
_NOT_TEXT = re.compile(r"<(style|script)\b", re.IGNORECASE)
_ENDS = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in ("style", "script")}


def clean_output(html: str | bytes) -> str:
    """Clean an output; styles and scripts, which libraries put beside their tables, leave no text behind."""
    text = html.decode() if isinstance(html, bytes) else str(html)
    kept, place, unclosed = [], 0, set[str]()
    for opened in _NOT_TEXT.finditer(text):
        name = opened[1].lower()
        if opened.start() < place or name in unclosed:
            continue  # inside of what is left out, or nothing of its kind ends any more
        closed = _ENDS[name].search(text, opened.end())
        if closed is None:
            unclosed.add(name)
            continue
        kept.append(text[place : opened.start()])
        place = closed.end()
    return clean("".join([*kept, text[place:]]))


@pass_context
def clean_markdown(context: Context, source: str) -> str:
    """Turn Markdown into HTML as nbconvert does, and clean what comes out."""
    attachments = context.get("cell", {}).get("attachments", {})
    # Without links to headings: they lead to ids, which are taken out.
    renderer = FormulaRenderer(
        escape=False, attachments=attachments, embed_images=False, path="", exclude_anchor_links=True
    )
    return renderer.put_in(clean(MarkdownWithMath(renderer=renderer).render(source)))


#: What an output may be shown as, and no more.
_SHOWN_AS = {
    "text/html",
    "text/markdown",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "text/latex",
    "text/plain",
}

#: A live chart or another widget. Beside it stands its address in memory, as text.
_WIDGET = "application/vnd.jupyter.widget-view+json"
_NOT_SHOWN = {"text/plain": "(something that only the notebook itself can show)"}

_NAME = re.compile(r"[a-zA-Z0-9_-]+")

#: What formgrader's page says of a student, which its template takes as it is.
_SHOWN_NAMES = ("student", "first_name", "last_name", "notebook_path")


class Harmless(Preprocessor):
    """Takes out of a notebook what a page of it has no use for, before the page is made.

    nbconvert refuses what is no valid notebook. But of a valid one its templates trust the metadata: they
    write a picture's width or address into the page as they find it, even where HTML is to be cleaned.
    """

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Take it out."""
        nb.metadata = _only(nb.metadata, "kernelspec", "course", GRADING)
        for name in _SHOWN_NAMES:
            if isinstance(resources.get(name), str):
                resources[name] = escape(resources[name])
        return super().preprocess(nb, resources)

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Clear one cell of its metadata, and its outputs of what is not shown."""
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
    """Keep the sizes of pictures where they are numbers, and the judge's notes."""
    kept = _only(metadata, "course")
    for kind in ("image/png", "image/jpeg"):
        sizes = _only(metadata.get(kind, {}), "width", "height")
        kept[kind] = {name: size for name, size in sizes.items() if type(size) in (int, float)}
    return kept


def _only(found: Any, *names: str) -> NotebookNode:
    """Keep the entries with these names, where there are any entries at all."""
    return NotebookNode(
        {name: found[name] for name in names if name in found} if isinstance(found, dict) else {}
    )
