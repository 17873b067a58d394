"""Read a submitted notebook and validate or repair every value, or raise an error that names the problem."""

import codecs
import json
import re
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Raw

#: The limit on the size of a file, in bytes. A lesson is smaller than 100 kB, but its outputs, which are
#: skipped, can be far larger.
MAX_BYTES = 200_000_000
#: The limit on the text of all cells together, in characters.
MAX_SOURCE = 5_000_000
MAX_CELLS = 5_000
#: The limit on a file that msgspec rejects, in bytes. Such a file is read with `json`, which keeps even the
#: outputs in memory.
MAX_ODD_BYTES = 32_000_000
#: The limit on one value of a cell's metadata, in bytes.
MAX_METADATA = 1_000_000
#: The limit on the total size of the pictures pasted into one answer, in bytes.
MAX_ATTACHMENTS = 10_000_000

KINDS = ("code", "markdown", "raw")

#: The markers of an unfinished merge. A single expression for both would take quadratic time on a file
#: that contains many start markers and no end marker.
_CONFLICT_START = re.compile(rb"^<{7} ", re.MULTILINE)
_CONFLICT_END = re.compile(rb"^>{7} ", re.MULTILINE)

_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class UnreadableError(ValueError):
    """The error raised if a submission cannot be graded. The message tells the instructor why."""


@dataclass
class SubmittedCell:
    """A submitted cell without its outputs. Invalid values have been repaired or removed."""

    kind: str
    """One of KINDS."""
    source: str
    id: str | None
    nbgrader: dict[str, Any] | None
    """nbgrader's metadata, whose entries are not validated, or None if there are none."""
    tags: tuple[str, ...]
    attachments: dict[str, dict[str, str]]


@dataclass
class SubmittedNotebook:
    """The contents of a submitted notebook. Invalid values have been repaired or removed."""

    cells: list[SubmittedCell]
    lesson: str | None
    """The lesson named in the notebook's metadata."""
    version: str | None
    """The course release named in the notebook's metadata."""
    kernel: str | None
    graded: bool
    """Whether the notebook has a grading record, which only the grader writes."""
    notes: list[str]
    """The repairs, one sentence each."""


class _Cell(msgspec.Struct):
    """The parts of a cell that are read. msgspec skips the others, such as outputs, without building them."""

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
    cells: Annotated[list[_Cell], msgspec.Meta(max_length=MAX_CELLS)]
    metadata: Raw = Raw(b"{}")
    nbformat: Raw = Raw(b"4")


_NOTEBOOK = msgspec.json.Decoder(_Notebook)
_METADATA = msgspec.json.Decoder(_Metadata)
_NOTEBOOK_METADATA = msgspec.json.Decoder(_NotebookMetadata)


def read_notebook(raw: bytes) -> SubmittedNotebook:
    """Read a notebook of nbformat 4 from the bytes of its file, repairing invalid values.

    Raises UnreadableError if the bytes are not a notebook, or if the notebook is too large.
    """
    if len(raw) > MAX_BYTES:
        raise UnreadableError(too_large(len(raw)))
    notes: list[str] = []
    raw = _in_utf8(raw, notes)
    try:
        notebook = _NOTEBOOK.decode(raw)
    except _UNDECODABLE:
        notebook = _odd_notebook(raw, notes)
    if sum(len(cell.source) for cell in notebook.cells) > 2 * MAX_SOURCE:
        raise UnreadableError(_too_much_text())
    cells = [_cell(number, cell, notes) for number, cell in enumerate(notebook.cells, start=1)]
    if sum(len(cell.source) for cell in cells) > MAX_SOURCE:
        raise UnreadableError(_too_much_text())
    if _value(notebook.nbformat, MAX_METADATA) != 4:
        notes.append("it is not marked as nbformat 4; it was read as nbformat 4")
    try:
        metadata = _NOTEBOOK_METADATA.decode(notebook.metadata)
    except _UNDECODABLE:
        metadata = _NotebookMetadata()
        notes.append("the notebook's metadata was unreadable; it was replaced by the released metadata")
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
    """Format a value from a submission for a message: one line of at most 40 printable characters."""
    text = printable((value if isinstance(value, str) else repr(value))[:41])
    return text if len(text) <= 40 else f"{text[:37]}..."


def printable(text: str) -> str:
    """Replace unprintable characters, which could control a terminal, with U+FFFD."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _in_utf8(raw: bytes, notes: list[str]) -> bytes:
    """Convert UTF-16 and UTF-32 to UTF-8, and remove a byte order mark. Add a note about any change."""
    encoding: str = json.detect_encoding(raw)
    if encoding == "utf-8":
        return raw
    if encoding == "utf-8-sig":
        notes.append("the file starts with a byte order mark, which was removed")
        return raw[len(codecs.BOM_UTF8) :]
    notes.append(f"the file is not in UTF-8; it was read as {encoding}")
    return raw.decode(encoding, errors="replace").encode()


def _odd_notebook(raw: bytes, notes: list[str]) -> _Notebook:
    """Read a notebook that msgspec rejects for unexpected types, NaN, lone surrogates or invalid UTF-8.

    Raises UnreadableError if the file is not a notebook, or is too large.
    """
    if len(raw) > MAX_ODD_BYTES:
        _refuse_other_files(raw)
        raise UnreadableError(
            f"it is a file of {len(raw) / 1e6:.0f} MB that is not a valid notebook; "
            "clear its outputs, save it, and hand it in again"
        )
    try:
        notebook = json.loads(raw.decode(errors="replace"), strict=False)
    except RecursionError:
        raise UnreadableError("its JSON is nested thousands of levels deep") from None
    except ValueError as error:
        _refuse_other_files(raw)
        position = (
            f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        )
        raise UnreadableError(
            f"it is not valid JSON{position}; open it in JupyterLab, repair it, and save it"
        ) from None
    if not isinstance(notebook, dict):
        raise UnreadableError("the file holds JSON, but not a notebook: a notebook is an object with cells")
    cells = notebook.get("cells")
    if "worksheets" in notebook and cells is None:
        raise UnreadableError(
            f"it is a notebook of nbformat {shown(notebook.get('nbformat'))}, which is not supported; "
            "open it in JupyterLab, save it, and hand it in again"
        )
    if not isinstance(cells, list):
        raise UnreadableError("it has no cells: the file holds JSON, but not a notebook")
    if len(cells) > MAX_CELLS:
        raise UnreadableError(
            f"it has {len(cells)} cells, but at most {MAX_CELLS} are accepted, and a lesson has fewer than "
            "100; remove the cells that don't belong to the lesson, and hand it in again"
        )
    for number, cell in enumerate(cells, start=1):
        if not isinstance(cell, dict):
            notes.append(f"cell {number} was not a cell, but {shown(cell)}; it was removed")
    return _Notebook(
        cells=[_odd_cell(cell) for cell in cells if isinstance(cell, dict)],
        metadata=_raw(_selected(notebook.get("metadata"), ("course", "kernelspec", "course_grading"))),
        nbformat=_raw(notebook.get("nbformat")),
    )


def _odd_cell(cell: dict[str, Any]) -> _Cell:
    return _Cell(
        _raw(cell.get("cell_type")),
        _raw(cell.get("source", "")),
        _raw(cell.get("id")),
        _raw(_selected(cell.get("metadata", {}), ("nbgrader", "tags"))),
        _raw(cell.get("attachments", {})),
    )


def _selected(metadata: Any, keys: tuple[str, ...]) -> Any:
    if not isinstance(metadata, dict):
        return metadata
    return {key: metadata[key] for key in keys if key in metadata}


def _raw(value: Any) -> Raw:
    """Encode a value as JSON, or as null if it is nested too deeply."""
    try:
        return Raw(json.dumps(value).encode())
    except RecursionError:
        return Raw(b"null")


def _cell(number: int, cell: _Cell, notes: list[str]) -> SubmittedCell:
    kind = _value(cell.cell_type, MAX_METADATA)
    if kind not in KINDS:
        notes.append(f"cell {number} has an unknown type ({shown(kind)}); it was kept as plain text")
        kind = "raw"
    source = _value(cell.source, 2 * MAX_SOURCE)
    text = _text(source)
    if text is None:
        notes.append(f"cell {number} has {shown(source)} instead of text; it was emptied")
        text = ""
    elif _clean(text) != text.replace("\r\n", "\n") or "\N{REPLACEMENT CHARACTER}" in text:
        notes.append(f"cell {number} has invalid characters; they were removed or replaced")
    try:
        metadata = _METADATA.decode(cell.metadata)
    except _UNDECODABLE:
        metadata = _Metadata()
        notes.append(f"the metadata of cell {number} was unreadable; it was removed")
    pictures = _pictures(cell.attachments) if kind == "markdown" else {}
    if len(cell.attachments) > MAX_ATTACHMENTS and kind == "markdown":
        notes.append(
            f"the pictures in cell {number} have more than {MAX_ATTACHMENTS / 1e6:g} MB in total; "
            "they were removed"
        )
    nbgrader = _value(metadata.nbgrader, MAX_METADATA)
    tags = _value(metadata.tags, MAX_METADATA)
    name = _value(cell.id, MAX_METADATA)
    return SubmittedCell(
        kind=kind,
        source=_clean(text),
        id=name if isinstance(name, str) else None,
        nbgrader=nbgrader if isinstance(nbgrader, dict) else None,
        tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        attachments=pictures,
    )


def _value(raw: Raw, max_bytes: int) -> Any:
    """Decode a JSON value of at most `max_bytes` bytes. Return None if it is larger or unreadable."""
    if len(raw) > max_bytes:
        return None
    try:
        return msgspec.json.decode(raw)
    except _UNDECODABLE:
        try:
            return json.loads(bytes(raw).decode(errors="replace"), strict=False)
        except (ValueError, RecursionError):
            return None


def _dict(raw: Raw) -> dict[str, Any]:
    value = _value(raw, MAX_METADATA)
    return value if isinstance(value, dict) else {}


def _name(value: object) -> str | None:
    return shown(value) if isinstance(value, str) else None


def _text(source: Any) -> str | None:
    if isinstance(source, list):
        return "".join(source) if all(isinstance(line, str) for line in source) else None
    return source if isinstance(source, str) else None


def _clean(text: str) -> str:
    """Remove NUL characters, replace lone surrogates, and convert CRLF line endings to LF.

    Databases cannot store NUL characters, and UTF-8 cannot encode lone surrogates.
    """
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\r\n", "\n").replace("\0", "")


def _pictures(raw: Raw) -> dict[str, dict[str, str]]:
    """Return the pictures in an answer as base64 data, keyed by name and then by MIME type.

    Invalid attachments are dropped; if all of them together are too large, the result is empty.
    """
    pasted = _value(raw, MAX_ATTACHMENTS)
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


def _refuse_other_files(raw: bytes) -> None:
    """Raise UnreadableError if the file is clearly something other than a notebook."""
    start = raw[:1000].lstrip()
    if not start and not raw.strip():
        raise UnreadableError("the file is empty")
    conflict = _CONFLICT_START.search(raw)
    if conflict and _CONFLICT_END.search(raw, conflict.end()):
        raise UnreadableError(
            "it has the conflict markers of an unfinished merge (<<<<<<< and >>>>>>>); "
            "finish the merge, and hand the notebook in again"
        )
    if start.startswith(b"<"):
        raise UnreadableError(
            "it is a web page (HTML), not a notebook: perhaps a login page that was saved instead"
        )
    for mark, what in ((b"PK\x03\x04", "a zip archive"), (b"%PDF", "a PDF"), (b"\x1f\x8b", "a gzip archive")):
        if raw.startswith(mark):
            raise UnreadableError(f"it is {what}, not a notebook, despite its name")
    if not start.startswith(b"{"):
        raise UnreadableError(
            f"it is not a notebook: it starts with {shown(start.decode(errors='replace'))!r}"
        )
    if not raw.rstrip(b"\0 \r\n\t").endswith(b"}"):
        raise UnreadableError("it is incomplete: the file was cut off when it was saved or handed in")


def too_large(size: int, limit: int = MAX_BYTES) -> str:
    """Return the reason why a file of this size is not read. Both arguments are in bytes."""
    return (
        f"it has {size:,} bytes, and the limit is {limit:,}; if it is a notebook, clear its outputs, save "
        "it, and hand it in again"
    )


def _too_much_text() -> str:
    return (
        f"its cells have more than {MAX_SOURCE / 1e6:.0f} million characters of text, not counting outputs; "
        "remove the data from the cells, and hand it in again"
    )
