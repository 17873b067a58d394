"""The message format between a check and a student's object in another process: JSON and tensor bytes.

A message is the length of its header (4 bytes, big-endian), the header, and the concatenated bytes of its
tensors. The header is JSON: None, booleans, finite numbers and strings represent themselves, and all other
values are lists whose first item is their type, such as `["tuple", 1, 2]` or `["tensor", "float32", 2, 3]`.
Nothing is pickled, so reading runs no code. Messages from a student's process are read with `unpack_reply`,
or with `unpack` and the number of valid handles. Both validate the whole message.
"""

import json
import math
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, get_args

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Action, Fixture, Request
from course_lib.checks.engine.reply import (
    DTYPES,
    MAX_BYTES,
    FrozenList,
    Handle,
    Opaque,
    Raised,
    Reply,
    Returned,
)
from course_lib.checks.exercises.fixtures import find_fixture


class SerializationError(ValueError):
    """The error raised if a message is invalid or exceeds the limits."""


# The limits on a message, in addition to MAX_BYTES for its tensors. Correct answers stay far below them.
#: The maximum size of the header, in bytes.
MAX_HEADER = 2 * 2**20
#: The maximum number of values, including nested ones, and the maximum nesting depth.
MAX_ENTRIES, MAX_DEPTH = 100_000, 40
#: The maximum length of a string, and the maximum number of digits of an integer.
MAX_LETTERS, MAX_DIGITS = 100_000, 300
#: The maximum number of axes of a tensor.
MAX_AXES = 32

_NAMES = {dtype: name for name, dtype in DTYPES.items()}

_LENGTH_BYTES = 4


def pack(message: object) -> bytes:
    """Serialise a request, a reply or any plain value.

    Tensors are detached and made contiguous. A tensor that isn't on the CPU, is sparse or has an unusual
    dtype is sent as `Opaque`. Raises SerializationError for a value that is too large or isn't plain.
    """
    writer = _Writer()
    content = writer.write(message, 0)
    header = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
    if len(header) > MAX_HEADER:
        raise SerializationError(f"the header has {len(header)} bytes, more than {MAX_HEADER}")
    return b"".join((len(header).to_bytes(_LENGTH_BYTES, "big"), header, *writer.tensors))


def unpack(data: bytes, handles: int | None = None) -> Any:
    """Deserialise a message from `pack`. Raises SerializationError if it is invalid or too large.

    A message from an untrusted process must be read with `handles`. It can then contain only a reply or a
    plain value, in which only handles below `handles` are valid.
    """
    return _Reader(data, handles).message()


def unpack_reply(data: bytes, handles: int) -> Reply:
    """Deserialise a reply from an untrusted process, in which only handles below `handles` are valid.

    Raises SerializationError for anything but a reply of plain values within the limits.
    """
    reply = unpack(data, handles)
    if not isinstance(reply, Returned | Raised):
        raise SerializationError(f"expected a reply, got {type(reply).__name__}")
    return reply


class _Writer:
    """A converter of a message to JSON and the bytes of its tensors."""

    def __init__(self) -> None:
        self.tensors: list[bytes] = []
        self._room = MAX_BYTES
        self._entries = 0

    def write(self, value: Any, depth: int) -> Any:
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            raise SerializationError(f"the message holds more than {MAX_ENTRIES} values")
        if depth > MAX_DEPTH:
            raise SerializationError(f"values are nested more than {MAX_DEPTH} levels deep")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            if int.bit_length(value) > MAX_DIGITS * math.log2(10):
                raise SerializationError(f"an integer has more than {MAX_DIGITS} digits")
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else ["float", str(float(value))]
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, torch.dtype):
            return ["dtype", _NAMES[value]] if value in _NAMES else ["opaque", "dtype"]
        return self._compound(value, depth + 1)

    def _compound(self, value: Any, depth: int) -> list[Any]:
        def each(values: Sequence[Any]) -> list[Any]:
            return [self.write(item, depth) for item in values]

        match value:
            case FrozenList() | list():
                return ["list", *each(value)]
            case tuple():
                return ["tuple", *each(value)]
            case dict():
                return ["dict", *each([part for pair in value.items() for part in pair])]
            case complex():
                return ["complex", *each((value.real, value.imag))]
            case Handle():
                return ["handle", value.number]
            case Opaque():
                return ["opaque", self._text(value.type_name)]
            case Fixture(name, arguments, keywords):
                return ["fixture", *each((name, arguments, dict(keywords)))]
            case Request(action, of, arguments, keywords, method, toward):
                return ["request", *each((action, of, tuple(arguments), dict(keywords), method, toward))]
            case Returned():
                return ["returned", *each([getattr(value, part.name) for part in fields(value)])]
            case Raised():
                return ["raised", *each([getattr(value, part.name) for part in fields(value)])]
        raise SerializationError(
            f"cannot send a value of type {type(value).__name__}: only plain values and tensors can be sent"
        )

    def _text(self, text: str) -> str:
        if len(text) > MAX_LETTERS:
            raise SerializationError(f"a string has {len(text)} characters, more than {MAX_LETTERS}")
        return text

    def _tensor(self, tensor: Tensor) -> list[Any]:
        if tensor.device.type != "cpu" or tensor.dtype not in _NAMES or tensor.layout != torch.strided:
            return ["opaque", f"Tensor of dtype {tensor.dtype} on the device {tensor.device}"]
        if tensor.dim() > MAX_AXES:
            raise SerializationError(f"a tensor has {tensor.dim()} axes, more than {MAX_AXES}")
        self._room -= tensor.numel() * tensor.dtype.itemsize
        if self._room < 0:
            raise SerializationError(f"the tensors have more than {MAX_BYTES} bytes in total")
        plain = tensor.detach().as_subclass(Tensor).resolve_conj().resolve_neg()
        # Copy the elements, because a tensor with one element may have an unusual stride, which prevents a
        # view as bytes.
        row = plain.reshape(-1).clone(memory_format=torch.contiguous_format)
        self.tensors.append(row.view(torch.uint8).numpy().tobytes())
        return ["tensor", _NAMES[tensor.dtype], *tensor.shape]


def _shown(content: object) -> str:
    """Return the beginning of an untrusted value as text. `reprlib` limits the depth and the length."""
    return reprlib.repr(content)[:40]


class _Reader:
    """A converter of a message back to values. Every size is validated before it is used.

    `handles` is given for messages from an untrusted process: only handles below this number are valid in
    them, and the keys of dicts must be strings. In other messages, values that don't occur in replies are
    accepted, too: requests, fixtures and complex numbers; and lists become lists, not `FrozenList`.
    """

    def __init__(self, data: bytes, handles: int | None = None) -> None:
        self._data = memoryview(data)
        self._handles = handles
        self._entries = 0
        self._kinds: dict[str, Callable[[list[Any], int], Any]] = {
            "tuple": lambda items, depth: tuple(self._each(items, depth)),
            "list": lambda items, depth: FrozenList(self._each(items, depth)),
            "dict": self._dict,
            "float": self._unusual_float,
            "tensor": self._tensor,
            "dtype": self._dtype,
            "handle": self._handle,
            "opaque": lambda items, depth: Opaque(self._only_text(items)),
        }
        if handles is None:
            self._kinds |= {
                "list": self._each,
                "complex": lambda items, depth: complex(*self._each(items, depth)),
                "fixture": self._fixture,
                "request": self._request,
            }

    def message(self) -> Any:
        if len(self._data) > (maximum := MAX_BYTES + MAX_HEADER + _LENGTH_BYTES):
            raise SerializationError(f"the message has {len(self._data)} bytes, more than {maximum}")
        length = int.from_bytes(self._data[:_LENGTH_BYTES], "big")
        self._at = _LENGTH_BYTES + length
        if self._at > len(self._data) or length > MAX_HEADER:
            raise SerializationError(
                f"expected a header of at most {MAX_HEADER} bytes in the message, got {length} bytes"
            )
        try:
            content = json.loads(
                bytes(self._data[_LENGTH_BYTES : self._at]).decode(),
                parse_int=self._whole,
                parse_float=_finite,
                parse_constant=_no_constant,
            )
        except SerializationError:
            raise
        except (ValueError, RecursionError) as error:
            raise SerializationError(f"the header is not valid JSON: {str(error)[:100]}") from None
        whole = {"returned": self._returned, "raised": self._raised}
        if isinstance(content, list) and content and content[0] in tuple(whole):
            value = whole[content[0]](content[1:])
        else:
            value = self._read(content, 0)
        if self._at != len(self._data):
            raise SerializationError(f"{len(self._data) - self._at} bytes follow the last tensor")
        return value

    def _read(self, content: Any, depth: int) -> Any:
        self._entries += 1
        if self._entries > MAX_ENTRIES or depth > MAX_DEPTH:
            raise SerializationError(
                f"the message holds more than {MAX_ENTRIES} values, or values nested more than "
                f"{MAX_DEPTH} levels deep"
            )
        if content is None or isinstance(content, bool | int | float):
            return content
        if isinstance(content, str):
            return self._text(content)
        if not isinstance(content, list) or not content or not isinstance(content[0], str):
            raise SerializationError(
                f"expected a list that begins with the kind of a value, got {_shown(content)}"
            )
        read = self._kinds.get(content[0])
        if read is None:
            raise SerializationError(f"unexpected kind of value: {content[0][:40]!r}")
        return read(content[1:], depth + 1)

    def _each(self, items: list[Any], depth: int) -> list[Any]:
        return [self._read(item, depth) for item in items]

    def _text(self, content: Any) -> str:
        if not isinstance(content, str) or len(content) > MAX_LETTERS:
            raise SerializationError(f"expected a string of at most {MAX_LETTERS} characters")
        # Replace lone surrogates, which can't be printed.
        return content.encode("utf-8", "replace").decode()

    def _only_text(self, items: list[Any]) -> str:
        if len(items) != 1:
            raise SerializationError(f"expected one string, got {len(items)} items")
        return self._text(items[0])

    def _texts(self, content: Any) -> tuple[str, ...]:
        texts = self._read(content, 1)
        if not isinstance(texts, tuple) or not all(isinstance(text, str) for text in texts):
            raise SerializationError("expected a tuple of strings")
        return texts

    def _whole(self, digits: str) -> int:
        if len(digits.removeprefix("-")) > MAX_DIGITS:
            raise SerializationError(f"an integer has {len(digits)} digits, more than {MAX_DIGITS}")
        return int(digits)

    def _unusual_float(self, items: list[Any], depth: int) -> float:
        if items not in (["nan"], ["inf"], ["-inf"]):
            raise SerializationError(f"expected nan, inf or -inf, got {_shown(items)}")
        return float(items[0])

    def _dict(self, items: list[Any], depth: int) -> dict[Any, Any]:
        parts = self._each(items, depth)
        keys, values = parts[::2], parts[1::2]
        if self._handles is not None and not all(isinstance(key, str) for key in keys):
            raise SerializationError("the keys of a dict must be strings")
        try:
            read = dict(zip(keys, values, strict=True))
        except (TypeError, ValueError):
            raise SerializationError("the keys of a dict must be hashable, and each needs a value") from None
        if len(read) != len(keys):
            raise SerializationError("a dict has a duplicate key")
        return read

    def _dtype(self, items: list[Any], depth: int) -> torch.dtype:
        name = self._only_text(items)
        if name not in DTYPES:
            raise SerializationError(f"unknown dtype {name[:40]!r}")
        return DTYPES[name]

    def _handle(self, items: list[Any], depth: int) -> Handle:
        if len(items) != 1 or type(items[0]) is not int or items[0] < 0:
            raise SerializationError(f"handle: expected a non-negative integer, got {_shown(items)}")
        if self._handles is not None and items[0] >= self._handles:
            raise SerializationError(f"handle: expected an integer below {self._handles}, got {items[0]}")
        return Handle(items[0])

    def _tensor(self, items: list[Any], depth: int) -> Tensor:
        dtype = self._dtype(items[:1], depth)
        shape = items[1:]
        if len(shape) > MAX_AXES or not all(type(size) is int and size >= 0 for size in shape):
            raise SerializationError(
                f"shape: expected at most {MAX_AXES} non-negative integers, got {_shown(shape)}"
            )
        # Limit each axis, because the total size is 0 if one axis has length 0, however long the others are.
        if any(size > MAX_BYTES for size in shape):
            raise SerializationError(f"a tensor has an axis longer than {MAX_BYTES}")
        end = self._at + math.prod(shape) * dtype.itemsize
        if end > len(self._data):
            raise SerializationError(
                f"a tensor needs {end - self._at} bytes, but only {len(self._data) - self._at} are left"
            )
        inside = bytearray(self._data[self._at : end])
        self._at = end
        if not inside:
            try:
                return torch.empty(shape, dtype=dtype)
            except RuntimeError:
                raise SerializationError("the axes of an empty tensor are too long") from None
        if dtype == torch.bool and max(inside) > 1:
            raise SerializationError(f"the bytes of a boolean tensor must be 0 or 1, got {max(inside)}")
        return torch.frombuffer(inside, dtype=dtype).reshape(shape)

    def _fixture(self, items: list[Any], depth: int) -> Fixture:
        name, arguments, keywords = self._each(items, depth)
        return find_fixture(name)(*arguments, **keywords)

    def _request(self, items: list[Any], depth: int) -> Request:
        if len(items) != len(Request.__dataclass_fields__) or items[0] not in get_args(Action):
            raise SerializationError(
                f"expected a request of a known action with all its parts, got {_shown(items)}"
            )
        return Request(*self._each(items, depth))

    def _returned(self, items: list[Any]) -> Returned:
        if len(items) != len(Returned.__dataclass_fields__):
            raise SerializationError(
                f"a reply has {len(items)} parts instead of {len(Returned.__dataclass_fields__)}"
            )
        changed = self._read(items[1], 1)
        if not isinstance(changed, tuple) or not all(type(index) is int and index >= 0 for index in changed):
            raise SerializationError("the indices of changed arguments must be non-negative integers")
        warnings, forbidden, called = map(self._texts, items[2:5])
        return Returned(self._read(items[0], 1), changed, warnings, forbidden, called, self._text(items[5]))

    def _raised(self, items: list[Any]) -> Raised:
        if len(items) != len(Raised.__dataclass_fields__):
            raise SerializationError(
                f"an exception has {len(items)} parts instead of {len(Raised.__dataclass_fields__)}"
            )
        return Raised(*map(self._text, items))


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise SerializationError(f"a number is too large to be a float: {digits[:40]}")
    return number


def _no_constant(name: str) -> Any:
    raise SerializationError(f"{name} is not valid JSON")
