"""Serialization between processes: everything that checks need arrives, and nothing beyond the limits."""

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from course_lib.checks.engine.candidate import Request
from course_lib.checks.engine.comparison import Comparison
from course_lib.checks.engine.reply import FrozenList, Handle, Opaque, Raised, Returned
from course_lib.checks.exercises.fixtures import find_fixture
from course_lib.checks.remote.serialization import (
    SerializationError,
    pack,
    unpack,
    unpack_reply,
)

NAN, INFINITY = float("nan"), float("inf")

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
]


def message(header: Any, tensors: bytes = b"") -> bytes:
    """Build a message by hand. A string is used as JSON text."""
    content = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    return len(content).to_bytes(4, "big") + content + tensors


def returned(
    value: Any, changed: Any = ("tuple",), warnings: Any = ("tuple",), forbidden: Any = ("tuple",)
) -> list[Any]:
    return ["returned", value, list(changed), list(warnings), list(forbidden)]


def crossed(value: Any) -> Any:
    reply = unpack_reply(pack(Returned(value)), handles=9)
    assert isinstance(reply, Returned)
    return reply.value


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)], ids=str)
def test_tensors_arrive_bit_by_bit(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    count = math.prod(shape) * dtype.itemsize
    some = bytearray(random.Random(5).randbytes(count))
    if dtype == torch.bool:
        some = bytearray(byte % 2 for byte in some)
    tensor = torch.frombuffer(some, dtype=dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)
    found = crossed(tensor)
    assert (found.dtype, found.shape) == (dtype, tensor.shape)
    assert found.reshape(-1).view(torch.uint8).tolist() == tensor.reshape(-1).view(torch.uint8).tolist()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).reshape(3, 4).t(),
        torch.arange(12.0).reshape(3, 4)[:, ::2],
        torch.ones(1, 3).expand(4, 3),
        torch.ones(3, requires_grad=True) * 2,
        torch.nn.Parameter(torch.ones(2)),
        torch.tensor([1 + 2j, 3 - 1j]).conj(),
        torch.tensor([1 + 2j]).conj().imag,
        torch.tensor([NAN, INFINITY, -INFINITY, -0.0]),
    ],
)
def test_tensors_that_lie_strangely_in_memory_arrive_as_they_look(tensor: Tensor) -> None:
    found = crossed(tensor)
    assert type(found) is Tensor
    assert not found.requires_grad
    torch.testing.assert_close(
        found, tensor.detach().resolve_conj().resolve_neg(), rtol=0, atol=0, equal_nan=True
    )
    found += 1  # works, because no two elements share memory


def test_several_tensors_keep_their_order() -> None:
    found = crossed((torch.ones(2), {"a": torch.zeros(1, dtype=torch.bool), "b": torch.tensor(7)}))
    assert found[0].tolist() == [1.0, 1.0]
    assert found[1]["a"].tolist() == [False]
    assert found[1]["b"].item() == 7


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**299), 10**299)
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from([torch.float32, torch.bool, Handle(0), Handle(8), Opaque("set"), (), {}]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(FrozenList),
        st.dictionaries(st.text(), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(plain_values)
def test_plain_values_arrive_as_they_are(value: Any) -> None:
    reply = Returned(value, changed=(0, 2), warnings=("old",), forbidden=("torch.softmax",))
    found = unpack_reply(pack(reply), handles=9)
    assert found == reply
    assert repr(found) == repr(reply)  # distinguishes -0.0 from 0.0, and True from 1
    assert type(found.value) is type(value)


def test_nan_arrives_and_is_no_tuple() -> None:
    value = crossed((NAN, INFINITY, -INFINITY, 1.5))
    assert math.isnan(value[0])
    assert value[1:] == (INFINITY, -INFINITY, 1.5)
    assert crossed(Opaque("list")) == Opaque("list")


def test_exceptions_arrive() -> None:
    raised = Raised("ValueError", "nein — «so»\n\x00", "x = 1")
    assert unpack_reply(pack(raised), handles=1) == raised


def test_requests_arrive_with_everything_that_probes_pass() -> None:
    fixture = find_fixture("reader")(7, Handle(1), weights={"a": torch.ones(2)}, none=None)
    request = Request(
        "gradients",
        Handle(2),
        (fixture, torch.ones(2), [1, (2, 3)], {("a", "b"): 1}, 2 + 3j, NAN, None, torch.float16),
        {"mask": None, "p": 0.1},
        "forward",
        torch.zeros(1),
    )
    found = unpack(pack({"do": "ask", "request": request}))["request"]
    assert Comparison().difference(request.arguments[1:2], found.arguments[1:2]) is None
    assert (found.action, found.of, found.method) == ("gradients", Handle(2), "forward")
    assert found.keywords == {"mask": None, "p": 0.1}
    assert found.toward.tolist() == [0.0]
    assert found.arguments[0].build == fixture.build
    assert found.arguments[0].arguments == (7, Handle(1))
    assert found.arguments[0].keywords["weights"]["a"].tolist() == [1.0, 1.0]
    assert found.arguments[0].keywords["none"] is None
    assert found.arguments[2:5] == ([1, (2, 3)], {("a", "b"): 1}, 2 + 3j)
    assert found.arguments[7] == torch.float16


def test_an_unknown_fixture_is_refused_by_name() -> None:
    message = pack(replace(find_fixture("config")(), name="multipy"))
    with pytest.raises(ValueError, match=r"no fixture is called 'multipy'; known names: .*config, "):
        unpack(message)


def test_what_is_no_plain_value_is_refused() -> None:
    with pytest.raises(SerializationError, match="cannot send a value of type set"):
        pack({"a": {1, 2}})


def test_a_tensor_of_another_kind_crosses_as_its_name() -> None:
    assert crossed(torch.ones(2, device="meta")) == Opaque("Tensor of dtype torch.float32 on the device meta")
    assert crossed(torch.ones(2).to(torch.float8_e5m2)).type_name.startswith("Tensor of dtype torch.float8")
    assert crossed(torch.qint8) == Opaque("dtype")


def test_half_a_letter_is_replaced() -> None:
    assert crossed("a\ud800b") == "a?b"


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = (value,)
    return value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (deep(50), "40 levels deep"),
        (tuple(range(100_001)), "100000 values"),
        ("x" * 100_001, "100001 characters, more than 100000"),
        (10**301, "300 digits"),
        (torch.empty(2**26 + 1, dtype=torch.bool), "the tensors have more than 67108864 bytes in total"),
        (torch.empty([1] * 33), "33 axes, more than 32"),
        (("é" * 90_000,) * 5, "the header has \\d+ bytes, more than"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 50 else "",
)
def test_what_is_too_large_is_not_sent(value: Any, says: str) -> None:
    with pytest.raises(SerializationError, match=says):
        pack(Returned(value))


TOO_MUCH = [
    ("no message", b""),
    ("a header that is not there", b"\x00\x00\xff\xff{}"),
    ("a header of four gigabytes", b"\xff\xff\xff\xff{}"),
    ("no JSON", message("{")),
    ("no text", b"\x00\x00\x00\x01\xff"),
    ("JSON a million deep", message("[" * 1_000_000)),
    ("NaN", message('["returned",NaN,["tuple"],["tuple"],["tuple"]]')),
    ("a float beyond all", message('["returned",1e999,["tuple"],["tuple"],["tuple"]]')),
    ("a whole number of a million digits", message(f'["returned",{"9" * 1_000_000},["tuple"]]')),
    ("a plain value", message(3)),
    ("an object", message({"returned": 1})),
    ("an empty list", message([])),
    ("parts that are missing", message(["returned", 1])),
    ("an exception without a line", message(["raised", "A", "b"])),
    ("an exception of numbers", message(["raised", "A", 1, ""])),
    ("a kind that nobody knows", message(returned(["pickle", "gASV"]))),
    ("a request", message(["request", "call", ["handle", 0]])),
    ("a reply inside", message(returned(["raised", "A", "b", ""]))),
    ("a list, which replies never hold", message(returned(["list", 1]))),
    ("a fixture", message(returned(["fixture", "config", ["dict"]]))),
    ("values that are too deep", message(returned(json.loads('["tuple",' * 60 + "1" + "]" * 60)))),
    ("too many values", message(returned(["tuple", *[0] * 200_000]))),
    ("a string that is too long", message(returned("x" * 200_000))),
    ("an object that is not there", message(returned(["handle", 3]))),
    ("a handle below zero", message(returned(["handle", -1]))),
    ("a handle that is true", message(returned(["handle", True]))),
    ("a dtype of no name", message(returned(["dtype", "load"]))),
    ("a key that is a number", message(returned(["dict", 1, 2]))),
    ("a key without a value", message(returned(["dict", "a"]))),
    ("a key twice", message(returned(["dict", "a", 1, "a", 2]))),
    ("a key that is a dict", message(returned(["dict", ["dict"], 2]))),
    ("a float of letters", message(returned(["float", "1e5"]))),
    ("a float of lists", message(returned(["float", ["nan"]]))),
    ("changes that are numbers", message(returned(1, changed=["tuple", -1]))),
    ("changes that are true", message(returned(1, changed=["tuple", True]))),
    ("warnings that are numbers", message(returned(1, warnings=["tuple", 1]))),
    ("warnings that are a dict", message(returned(1, warnings=["dict", "a", "b"]))),
    ("a name that is a list", message(returned(["opaque", ["tuple"]]))),
    ("bytes that are not there", message(returned(["tensor", "float32", 2, 3]), b"\x00" * 20)),
    ("bytes that are left over", message(returned(["tensor", "float32", 1]), b"\x00" * 5)),
    ("a petabyte", message(returned(["tensor", "float32", 10**15]))),
    ("axes whose product is past all", message(returned(["tensor", "int8", *[2**26] * 30]))),
    ("nothing, times too much", message(returned(["tensor", "int8", 0, *[2**26] * 20]))),
    ("an axis below zero", message(returned(["tensor", "float32", -1, -1]), b"\x00" * 4)),
    ("an axis of a half", message(returned(["tensor", "float32", 0.5]))),
    ("an axis that is true", message(returned(["tensor", "float32", True]), b"\x00" * 4)),
    ("a thousand axes", message(returned(["tensor", "float32", *[1] * 1000]), b"\x00" * 4)),
    ("an unknown dtype", message(returned(["tensor", "qint8", 1]), b"\x00")),
    ("a tensor without a dtype", message(returned(["tensor"]))),
    ("a truth value of two", message(returned(["tensor", "bool", 1]), b"\x02")),
]


@pytest.mark.parametrize("data", [data for _, data in TOO_MUCH], ids=[name for name, _ in TOO_MUCH])
def test_no_claim_is_believed(data: bytes) -> None:
    with pytest.raises(SerializationError):
        unpack_reply(data, handles=3)


@pytest.mark.parametrize("depth", range(100, 1000, 50))
def test_a_value_that_can_be_parsed_but_not_printed_is_refused(depth: int) -> None:
    with pytest.raises(SerializationError):
        unpack_reply(message(f'["returned",{chr(91) * depth}{chr(93) * depth}]'), handles=3)
    nested = '["tuple",' * 39 + "[" * depth + "]" * depth + "]" * 39
    with pytest.raises(SerializationError):
        unpack_reply(message(f'["returned",{nested},["tuple"],["tuple"],["tuple"]]'), handles=3)


def test_a_message_that_is_too_long_is_not_looked_at() -> None:
    with pytest.raises(SerializationError, match=f"the message has {67 * 2**20} bytes, more than"):
        unpack_reply(bytes(67 * 2**20), handles=1)


def test_names_are_plain_values_too() -> None:
    assert unpack(pack(("a", "b")), handles=0) == ("a", "b")


#: A real reply, which the tests damage.
REPLY = pack(Returned((torch.ones(2, 3), {"a": 1.5, "b": None}, "word", 12), (0,), ("old",)))


@given(st.integers(0, len(REPLY) - 1), st.integers(0, 255), st.sampled_from(["put", "cut", "insert"]))
def test_spoilt_bytes_give_a_reply_or_are_refused(place: int, byte: int, how: str) -> None:
    spoilt: dict[str, Callable[[], bytes]] = {
        "put": lambda: REPLY[:place] + bytes([byte]) + REPLY[place + 1 :],
        "cut": lambda: REPLY[:place],
        "insert": lambda: REPLY[:place] + bytes([byte]) + REPLY[place:],
    }
    try:
        found = unpack_reply(spoilt[how](), handles=1)
    except SerializationError:
        return
    assert isinstance(found, Returned | Raised)
    assert how == "put"
