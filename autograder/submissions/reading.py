"""Read the bytes that a student handed in, whatever they are: plain cells come out, or a reason in words."""

import codecs
import json
import re
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from msgspec import Raw

#: A lesson is 100 kB. The rest are outputs, which are skipped; but nobody waits for more than this.
MOST_BYTES = 200_000_000
#: What a student can have typed, in all cells together.
MOST_SOURCE = 5_000_000
MOST_CELLS = 5_000
#: What is not quite JSON is read with Python's own reader, which builds the outputs too: smaller files only.
MOST_ODD_BYTES = 32_000_000
#: One value of a cell's metadata.
MOST_METADATA = 1_000_000
#: Pictures that were pasted into one answer.
MOST_ATTACHMENTS = 10_000_000

KINDS = ("code", "markdown", "raw")


class UnreadableError(ValueError):
    """A submission that nobody can grade as it is. The text is the reason, in words for the instructor."""


@dataclass
class SubmittedCell:
    """One cell as the student left it, but of clean types, and without outputs."""

    kind: str
    """One of KINDS."""
    source: str
    id: str | None = None
    nbgrader: dict[str, Any] | None = None
    """nbgrader's metadata, unchecked; None where there is none."""
    tags: tuple[str, ...] = ()
    attachments: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass
class SubmittedNotebook:
    """A notebook of clean types. `notes` says what was mended, a sentence each."""

    cells: list[SubmittedCell]
    lesson: str | None
    """The lesson that it says it is."""
    version: str | None
    """The release of the course that it says it is from."""
    kernel: str | None
    graded: bool
    """Whether it carries the mark of a graded notebook, which only the grader writes."""
    notes: list[str]


class _Cell(msgspec.Struct):
    """The parts of a cell that are read. msgspec skips others, outputs among them, without building them."""

    cell_type: Raw
    source: Raw = Raw(b'""')
    id: Raw = Raw(b"null")
    metadata: Raw = Raw(b"{}")
    attachments: Raw = Raw(b"{}")


class _Metadata(msgspec.Struct):
    nbgrader: Raw = Raw(b"null")
    tags: Raw = Raw(b"[]")


class _NotebookMetadata(msgspec.Struct):
    course: Raw = Raw(b"{}")
    kernelspec: Raw = Raw(b"{}")
    course_grading: Raw = Raw(b"")


class _Notebook(msgspec.Struct):
    cells: Annotated[list[_Cell], msgspec.Meta(max_length=MOST_CELLS)]
    metadata: Raw = Raw(b"{}")
    nbformat: Raw = Raw(b"4")


_NOTEBOOK = msgspec.json.Decoder(_Notebook)
_METADATA = msgspec.json.Decoder(_Metadata)
_NOTEBOOK_METADATA = msgspec.json.Decoder(_NotebookMetadata)


def read_notebook(raw: bytes) -> SubmittedNotebook:
    """Read a notebook of any nbformat from the bytes of its file.

    Raises UnreadableError where the bytes are no notebook.
    """
    if len(raw) > MOST_BYTES:
        raise UnreadableError(too_large(len(raw)))
    notes: list[str] = []
    raw = _in_utf8(raw, notes)
    try:
        notebook = _NOTEBOOK.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        notebook = _odd_notebook(raw, notes)
    if sum(len(cell.source) for cell in notebook.cells) > 2 * MOST_SOURCE:
        raise UnreadableError(_too_much_text())
    cells = [_cell(number, cell, notes) for number, cell in enumerate(notebook.cells, start=1)]
    if sum(len(cell.source) for cell in cells) > MOST_SOURCE:
        raise UnreadableError(_too_much_text())
    if _value(notebook.nbformat, MOST_METADATA) not in (3, 4):
        notes.append("it does not say that it is of nbformat 4; it was read as if it did")
    try:
        metadata = _NOTEBOOK_METADATA.decode(notebook.metadata)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        metadata = _NotebookMetadata()
        notes.append("the notebook's metadata was unreadable; the released ones took its place")
    course, kernel = _dict(metadata.course), _dict(metadata.kernelspec)
    return SubmittedNotebook(
        cells=cells,
        lesson=_name(course.get("lesson")),
        version=_name(course.get("version")),
        kernel=_name(kernel.get("name")),
        graded=bool(bytes(metadata.course_grading)),
        notes=notes,
    )


def shown(value: object) -> str:
    """Show something from a submission in a sentence: on one line, and short."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[:41])
    return text if len(text) <= 40 else f"{text[:37]}..."


def _in_utf8(raw: bytes, notes: list[str]) -> bytes:
    """Give the same text in UTF-8, without a byte order mark."""
    encoding: str = json.detect_encoding(raw)
    if encoding == "utf-8-sig":
        notes.append("the file starts with a byte order mark, which was taken off")
        return _in_utf8(raw[len(codecs.BOM_UTF8) :], notes)
    if encoding == "utf-8":
        if _is_utf8(raw):
            return raw
        encoding = _eight_bits(raw)
    notes.append(f"the file is not in UTF-8; it was read as {encoding}")
    return raw.decode(encoding, errors="replace").encode()


def _is_utf8(raw: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    step = 1 << 20
    try:
        for start in range(0, len(raw), step):
            decoder.decode(raw[start : start + step])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _eight_bits(raw: bytes) -> str:
    """Tell UTF-8 with a few broken letters from text in which each letter is one byte."""
    text = raw.decode("utf-8", errors="replace")
    broken = text.count("\N{REPLACEMENT CHARACTER}")
    whole = sum(len(run) for run in re.findall(r"[^\x00-\x7f\ufffd]+", text))
    return "utf-8" if whole > broken else "latin-1"


def _odd_notebook(raw: bytes, notes: list[str]) -> _Notebook:
    """Read what msgspec refuses: other types than expected, nbformat 3 and older, NaN, lone surrogates."""
    if len(raw) > MOST_ODD_BYTES:
        _refuse_if_no_json(raw)
        raise UnreadableError(
            f"it is a file of {len(raw) / 1e6:.0f} MB that is no plain notebook; "
            "clear its outputs, save it, and hand it in again"
        )
    try:
        notebook = json.loads(raw, strict=False)
    except RecursionError:
        raise UnreadableError(
            "something in it is nested thousands of levels deep, which no notebook is"
        ) from None
    except ValueError as error:
        _refuse_if_no_json(raw)
        raise UnreadableError(_not_json(error)) from None
    if not isinstance(notebook, dict):
        raise UnreadableError("the file holds JSON, but no notebook: a notebook is an object with cells")
    cells = notebook.get("cells")
    if not isinstance(cells, list):
        cells = _old_cells(notebook)
        notes.append("it is a notebook of nbformat 3 or older; it was brought up to nbformat 4")
    if len(cells) > MOST_CELLS:
        raise UnreadableError(f"it has {len(cells)} cells; a lesson has fewer than a hundred")
    return _Notebook(
        cells=[_odd_cell(cell) for cell in _only_cells(cells, notes)],
        metadata=_raw(_without_depth(notebook.get("metadata"), ("course", "kernelspec", "course_grading"))),
        nbformat=_raw(notebook.get("nbformat")),
    )


def _old_cells(notebook: dict[str, Any]) -> list[Any]:
    """Bring the cells of nbformat 3, 2 or 1, which stand in worksheets, to today's names."""
    sheets = notebook.get("worksheets")
    if not isinstance(sheets, list):
        raise UnreadableError("it has no cells: the file holds JSON, but no notebook")
    found = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    cells = [cell for listed in found if isinstance(listed, list) for cell in listed]
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        cell["source"] = cell.get("input", cell.get("source"))
        if cell.get("cell_type") == "heading":
            level = cell.get("level")
            marks = "#" * level if isinstance(level, int) and 1 <= level <= 6 else "#"
            cell["source"] = f"{marks} {_text(cell['source'])}"
        if cell.get("cell_type") in ("heading", "html"):
            cell["cell_type"] = "markdown"
    return cells


def _only_cells(cells: list[Any], notes: list[str]) -> list[dict[str, Any]]:
    for number, cell in enumerate(cells, start=1):
        if not isinstance(cell, dict):
            notes.append(f"cell {number} was no cell but {shown(cell)}; it was left out")
    return [cell for cell in cells if isinstance(cell, dict)]


def _odd_cell(cell: dict[str, Any]) -> _Cell:
    return _Cell(
        _raw(cell.get("cell_type")),
        _raw(cell.get("source", "")),
        _raw(cell.get("id")),
        _raw(_without_depth(cell.get("metadata", {}), ("nbgrader", "tags"))),
        _raw(cell.get("attachments", {})),
    )


def _without_depth(metadata: Any, keys: tuple[str, ...]) -> Any:
    if not isinstance(metadata, dict):
        return metadata
    return {key: metadata[key] for key in keys if key in metadata}


def _raw(value: Any) -> Raw:
    """Write a value as JSON again, with what JSON cannot hold taken out."""
    try:
        return Raw(json.dumps(value).encode())
    except RecursionError:
        return Raw(b"null")


def _cell(number: int, cell: _Cell, notes: list[str]) -> SubmittedCell:
    kind = _value(cell.cell_type, MOST_METADATA)
    if kind not in KINDS:
        notes.append(f"cell {number} was of no known type ({shown(kind)}); it was kept as plain text")
        kind = "raw"
    source = _value(cell.source, 2 * MOST_SOURCE)
    text = _text(source)
    if text is None:
        notes.append(f"cell {number} had {shown(source)} in place of text; it was emptied")
        text = ""
    elif (clean := _clean(text)) != text.replace("\r\n", "\n"):
        notes.append(f"cell {number} had characters that are none; they were taken out or replaced")
        text = clean
    try:
        metadata = _METADATA.decode(cell.metadata)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        metadata = _Metadata()
        notes.append(f"the metadata of cell {number} was unreadable; it was left out")
    nbgrader = _value(metadata.nbgrader, MOST_METADATA)
    tags = _value(metadata.tags, MOST_METADATA)
    name = _value(cell.id, MOST_METADATA)
    return SubmittedCell(
        kind=kind,
        source=_clean(text),
        id=name if isinstance(name, str) else None,
        nbgrader=nbgrader if isinstance(nbgrader, dict) else None,
        tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        attachments=_pictures(cell.attachments) if kind == "markdown" else {},
    )


def _value(raw: Raw, most: int) -> Any:
    """Read one JSON value of at most so many bytes; None stands for one that is larger or unreadable."""
    if len(raw) > most:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            return json.loads(bytes(raw), strict=False)
        except (ValueError, RecursionError):
            return None


def _dict(raw: Raw) -> dict[str, Any]:
    value = _value(raw, MOST_METADATA)
    return value if isinstance(value, dict) else {}


def _name(value: object) -> str | None:
    return shown(value) if isinstance(value, str) else None


def _text(source: Any) -> str | None:
    if isinstance(source, list):
        return "".join(source) if all(isinstance(line, str) for line in source) else None
    return source if isinstance(source, str) else None


def _clean(text: str) -> str:
    """Take out what no file in UTF-8 and no database can hold: NUL, and halves of characters."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\r\n", "\n").replace("\0", "")


def _pictures(raw: Raw) -> dict[str, dict[str, str]]:
    """Keep what was pasted into an answer: a picture's name, then its type, then its bytes in base64."""
    pasted = _value(raw, MOST_ATTACHMENTS)
    if not isinstance(pasted, dict):
        return {}
    return {
        _clean(name): kinds
        for name, bundle in pasted.items()
        if isinstance(bundle, dict) and (kinds := _base64(bundle))
    }


def _base64(bundle: dict[str, Any]) -> dict[str, str]:
    return {
        kind: data
        for kind, value in bundle.items()
        if kind.startswith("image/") and (data := _text(value)) is not None and data.isascii()
    }


def _refuse_if_no_json(raw: bytes) -> None:
    """Raise UnreadableError where the file is well known to be something else."""
    start = raw[:1000].lstrip()
    if not start and not raw.strip():
        raise UnreadableError("the file is empty")
    if re.search(rb"^<{7} .*^>{7} ", raw, re.MULTILINE | re.DOTALL):
        raise UnreadableError(
            "it holds the marks of a merge that was not finished (<<<<<<< and >>>>>>>); "
            "finish the merge, and hand the notebook in again"
        )
    if start.startswith(b"<"):
        raise UnreadableError(
            "it is a web page (HTML), not a notebook: perhaps a page to log in, saved in its place"
        )
    for mark, what in ((b"PK\x03\x04", "a zip archive"), (b"%PDF", "a PDF"), (b"\x1f\x8b", "a gzip archive")):
        if raw.startswith(mark):
            raise UnreadableError(f"it is {what}, not a notebook, whatever its name says")
    if not start.startswith(b"{"):
        raise UnreadableError(
            f"it is not a notebook: it starts with {shown(start.decode(errors='replace'))!r}"
        )
    if not raw.rstrip(b"\0 \r\n\t").endswith(b"}"):
        raise UnreadableError("it ends in the middle: the file was cut off when it was saved or handed in")


def _not_json(error: ValueError) -> str:
    place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
    return (
        f"it is not valid JSON, which every notebook is{place}; open it in JupyterLab, and mend and save it"
    )


def too_large(size: int) -> str:
    """Say that a file of so many bytes is not read."""
    return (
        f"it is a file of {size / 1e6:.0f} MB, more than the {MOST_BYTES / 1e6:.0f} MB that are read; "
        "clear its outputs, save it, and hand it in again"
    )


def _too_much_text() -> str:
    return (
        f"its cells hold more than {MOST_SOURCE / 1e6:.0f} million characters of text, not counting outputs; "
        "take the data out of the cells, and hand it in again"
    )
