import ast
from pathlib import Path

import pytest

from autograder.release.reference import marked_source
from course_lib.curriculum.course_file import CourseError

MODULE = '''\
"""A module."""

import functools

LIMIT = 3


@functools.cache
def decorated(
    x: int,
    y: int = 0,
):
    """Say what it does.

    At length.
    """
    # A comment before the first statement.
    total = x + y

    # A comment, after a blank line.
    return total  # and one behind


def bare(x):
    # No docstring, and (a colon: in a comment).
    return x


def on_one_line(x): return x


class Layer:
    """A layer."""

    size: int = 1

    def __init__(
        self, width: int, mapping={"a": 1}
    ):
        # The header ends above.
        self.width = width

    # A comment between methods.
    @property
    def given(self) -> int:
        """Keep this."""
        return self.width

    def forward(self, x):
        """Write this."""
        if x:
            return x

        return self.width
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a package's module that can be found but not imported."""
    package = tmp_path / "some_reference"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('nobody may import this')\n")
    (package / "parts.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return "some_reference.parts"


def without_markers(source: str) -> str:
    return "\n".join(line for line in source.split("\n") if "SOLUTION" not in line)


def test_a_function_keeps_everything(module: str) -> None:
    marked = marked_source(f"{module}:decorated")
    assert (
        marked
        == '''\
@functools.cache
def decorated(
    x: int,
    y: int = 0,
):
    """Say what it does.

    At length.
    """
    ### BEGIN SOLUTION some_reference.parts:decorated
    # A comment before the first statement.
    total = x + y

    # A comment, after a blank line.
    return total  # and one behind
    ### END SOLUTION'''
    )
    assert without_markers(marked) in MODULE


def test_without_a_docstring_the_body_begins_below_the_header(module: str) -> None:
    assert (
        marked_source(f"{module}:bare")
        == """\
def bare(x):
    ### BEGIN SOLUTION some_reference.parts:bare
    # No docstring, and (a colon: in a comment).
    return x
    ### END SOLUTION"""
    )


def test_of_a_class_only_the_named_methods_are_left_to_write(module: str) -> None:
    marked = marked_source(f"{module}:Layer", ["__init__", "forward"])
    assert (
        marked
        == '''\
class Layer:
    """A layer."""

    size: int = 1

    def __init__(
        self, width: int, mapping={"a": 1}
    ):
        ### BEGIN SOLUTION some_reference.parts:Layer.__init__
        # The header ends above.
        self.width = width
        ### END SOLUTION

    # A comment between methods.
    @property
    def given(self) -> int:
        """Keep this."""
        return self.width

    def forward(self, x):
        """Write this."""
        ### BEGIN SOLUTION some_reference.parts:Layer.forward
        if x:
            return x

        return self.width
        ### END SOLUTION'''
    )
    assert without_markers(marked) in MODULE


@pytest.mark.parametrize(
    ("name", "write", "says"),
    [
        ("decoratde", [], "does not define 'decoratde'. It defines: decorated, bare, on_one_line, Layer"),
        ("LIMIT", [], "does not define 'LIMIT'"),
        ("decorated", ["forward"], "is a function"),
        ("on_one_line", [], "has no body for students to write"),
        ("Layer", [], "list the methods that students write"),
        ("Layer", ["backward"], "no method 'backward'. It has: __init__, given, forward"),
    ],
)
def test_what_cannot_be_taken_is_refused(module: str, name: str, write: list[str], says: str) -> None:
    with pytest.raises(CourseError) as refused:
        marked_source(f"{module}:{name}", write)
    assert says in str(refused.value)


@pytest.mark.parametrize("reference", ["no_such_package.parts:x", "some_reference.other:x", ":x", ""])
def test_a_module_that_is_not_there_is_refused(module: str, reference: str) -> None:
    with pytest.raises(CourseError, match=r"A reference has the form package\.module:name"):
        marked_source(reference)


@pytest.mark.parametrize(
    ("reference", "write"),
    [
        ("course_lib.transformer.attention:attention_weights", []),
        ("course_lib.transformer.multi_head:MultiHeadAttention", ["__init__", "forward"]),
        ("course_lib.transformer.model:Transformer", ["encode", "decode"]),
        ("course_lib.transformer.decoding:beam_search", []),
    ],
)
def test_the_course_has_such_references(reference: str, write: list[str]) -> None:
    marked = marked_source(reference, write)
    ast.parse(marked)
    assert marked.count("### BEGIN SOLUTION") == marked.count("### END SOLUTION") == max(1, len(write))
