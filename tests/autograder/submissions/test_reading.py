"""Files of all kinds are either read or rejected with a reason."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.submissions.reading import MAX_CELLS, MAX_SOURCE, UnreadableError, read_notebook

CODE = {"cell_type": "code", "id": "a", "source": "x = 'é'", "metadata": {}, "outputs": []}


def notebook(*cells: Any, **keys: Any) -> bytes:
    document = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | keys
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def sources(raw: bytes) -> list[str]:
    return [cell.source for cell in read_notebook(raw).cells]


@pytest.mark.parametrize(
    ("encoding", "says"),
    [
        ("utf-8-sig", "byte order mark"),
        ("utf-16", "not in UTF-8"),
        ("utf-16-le", "not in UTF-8"),
        ("utf-32-be", "not in UTF-8"),
    ],
)
def test_other_encodings_are_read_and_noted(encoding: str, says: str) -> None:
    read = read_notebook(notebook(CODE).decode().encode(encoding))
    assert [cell.source for cell in read.cells] == ["x = 'é'"]
    assert [note for note in read.notes if says in note]


def test_an_invalid_byte_spoils_only_itself() -> None:
    raw = notebook(CODE | {"source": "# Grüße, größer, ?"}).replace(b"?", b"\xff")
    assert sources(raw) == ["# Grüße, größer, \ufffd"]


def test_a_plain_notebook_is_read_without_a_note() -> None:
    read = read_notebook(notebook(CODE, CODE | {"id": "b", "source": ["a = 1\n", "b = 2"]}))
    assert [cell.source for cell in read.cells] == ["x = 'é'", "a = 1\nb = 2"]
    assert [cell.id for cell in read.cells] == ["a", "b"]
    assert read.notes == []


def test_many_markers_of_a_merge_are_searched_quickly() -> None:
    start = time.monotonic()
    with pytest.raises(UnreadableError, match="cut off"):
        read_notebook(b"{" + b"<<<<<<< HEAD\n" * 20_000)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"PK\x03\x04...", "zip archive"),
        (b"%PDF-1.7", "PDF"),
        (notebook(CODE)[:-40], "cut off"),
        (notebook(CODE) + b"\0" * 100 + b"x}", "not valid JSON"),
        (b'{"cells": [\n<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> theirs\n]}', "unfinished merge"),
        (b"<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> theirs\n", "unfinished merge"),
        (b'{"cells": [}', "line 1, column 12"),
        (b"import torch", "starts with 'import torch'"),
        (b"[1, 2]", "not a notebook"),
        (b"null", "not a notebook"),
        (b'{"metadata": {}}', "no cells"),
        (b'{"cells": null}', "no cells"),
        (b'{"cells": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested"),
        (notebook(*[CODE] * (MAX_CELLS + 1)), f"{MAX_CELLS + 1} cells, but at most {MAX_CELLS} are accepted"),
        (notebook(CODE | {"source": "x" * (MAX_SOURCE + 1)}), "million characters of text"),
        (notebook(CODE | {"source": ["x"] * (MAX_SOURCE + 1)}), "million characters of text"),
    ],
)
def test_other_files_are_refused_with_the_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        read_notebook(raw)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_notebook_of_an_old_format_is_refused_with_the_reason(version: int) -> None:
    raw = json.dumps({"nbformat": version, "worksheets": [{"cells": []}]}).encode()
    with pytest.raises(UnreadableError, match=f"nbformat {version}, which is not supported"):
        read_notebook(raw)


def test_latin_1_is_graded_with_its_letters_replaced() -> None:
    read = read_notebook(notebook(CODE).decode().encode("latin-1"))
    assert [cell.source for cell in read.cells] == ["x = '\ufffd'"]
    assert read.notes == ["cell 1 has invalid characters; they were removed or replaced"]


@pytest.mark.parametrize(
    ("spoilt", "source", "says"),
    [
        ({"source": None}, "", "None instead of text"),
        ({"source": 7}, "", "7 instead of text"),
        ({"source": ["a", 7]}, "", "instead of text"),
        ({"source": "a\0b"}, "ab", "invalid characters"),
        ({"source": "a\ud800b"}, "a\ufffdb", "invalid characters"),
        ({"cell_type": "game"}, "x = 'é'", "unknown type"),
        ({"cell_type": None}, "x = 'é'", "unknown type"),
        ({"metadata": None}, "x = 'é'", "metadata of cell 1"),
        ({"metadata": [1]}, "x = 'é'", "metadata of cell 1"),
        ({"metadata": {"nbgrader": 7, "tags": "see"}}, "x = 'é'", ""),
        ({"id": 7}, "x = 'é'", ""),
        ({"attachments": 7, "execution_count": "first", "outputs": None}, "x = 'é'", ""),
        ({"source": "a\r\nb"}, "a\nb", ""),
    ],
)
def test_wrong_types_are_repaired(spoilt: dict[str, Any], source: str, says: str) -> None:
    # `json.dumps` escapes all special characters, including lone surrogates, which UTF-8 can't encode.
    read = read_notebook(json.dumps({"cells": [CODE | spoilt], "nbformat": 4}).encode())
    assert [cell.source for cell in read.cells] == [source]
    assert [note for note in read.notes if says in note] or not says


def test_what_is_not_a_cell_is_removed() -> None:
    read = read_notebook(notebook(CODE, None, 7, CODE))
    assert [cell.source for cell in read.cells] == ["x = 'é'", "x = 'é'"]
    assert [note for note in read.notes if "cell 2 was not a cell" in note]


def test_a_number_that_json_does_not_know_spoils_nothing() -> None:
    raw = notebook(CODE).replace(b'"outputs": []', b'"outputs": [{"data": {"application/json": NaN}}]')
    assert b"NaN" in raw
    assert sources(raw) == ["x = 'é'"]


def test_pictures_that_were_pasted_are_kept_and_nothing_else() -> None:
    attachments = {"a.png": {"image/png": "aGk="}, "b": {"text/html": "<b>"}, "c": 7}
    [cell] = read_notebook(notebook(CODE | {"cell_type": "markdown", "attachments": attachments})).cells
    assert cell.attachments == {"a.png": {"image/png": "aGk="}}
    attachments = {"a.png": {"image/png": "x" * 10_000_000}}
    read = read_notebook(notebook(CODE | {"cell_type": "markdown", "attachments": attachments}))
    assert read.cells[0].attachments == {}
    assert read.notes == ["the pictures in cell 1 have more than 10 MB in total; they were removed"]


@pytest.mark.parametrize(
    "outputs",
    [b'[{"text": "' + b"x" * 30_000_000 + b'"}]', b"[" + b"{}," * 10_000_000 + b"{}]"],
    ids=["one line", "many small ones"],
)
def test_outputs_are_skipped_without_being_built(outputs: bytes) -> None:
    """As Python objects, 30 MB of outputs would take a gigabyte."""
    raw = notebook(CODE).replace(b'"outputs": []', b'"outputs": ' + outputs)
    assert len(raw) > 30_000_000
    assert sources(raw) == ["x = 'é'"]


def read_or_refused(raw: bytes) -> None:
    """Read a file, which must result in a notebook of valid text or an UnreadableError."""
    try:
        cells = read_notebook(raw).cells
    except UnreadableError:
        return
    for cell in cells:
        cell.source.encode()


@pytest.mark.slow
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    read_or_refused(raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["cell_type", "source", "id", "metadata", "outputs", "attachments", "input", "level"])
CELLS = st.lists(
    st.dictionaries(KEYS, JSON | st.sampled_from(["code", "markdown", "heading"])) | JSON, max_size=4
)
TOP = st.fixed_dictionaries({}, optional={"cells": CELLS | JSON, "metadata": JSON, "nbformat": JSON})


@given(TOP)
def test_any_types_are_read_or_refused(document: dict[str, Any]) -> None:
    read_or_refused(json.dumps(document).encode())
