"""Connect's JSON: bytes that Jackson writes, and what it reads and refuses."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.errors import ValueFormatError
from connect_share.model.connect_json import dumps, loads, same
from connect_share.model.records import TopicType
from tests.support.hostile_logs import HostileLogs
from tests.support.json_values import json_values

DOUBLES = [
    (1.0, "1.0"),
    (0.001, "0.001"),
    (0.00123, "0.00123"),
    (9999999.0, "9999999.0"),
    (1e7, "1.0E7"),
    (12345678.9, "1.23456789E7"),
    (9.9e-4, "9.9E-4"),
    (1e21, "1.0E21"),
    (1e10, "1.0E10"),
    (1e23, "1.0E23"),
    (-0.0, "-0.0"),
    (0.0, "0.0"),
    (100.0, "100.0"),
    (-123.456, "-123.456"),
    (5e-324, "4.9E-324"),
    (1.7976931348623157e308, "1.7976931348623157E308"),
    (math.nan, '"NaN"'),
    (math.inf, '"Infinity"'),
    (-math.inf, '"-Infinity"'),
]


@pytest.mark.parametrize(("value", "text"), DOUBLES)
def test_doubles_have_javas_text(value: float, text: str) -> None:
    assert dumps(value).decode() == text


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"properties": {"a": "1", "nul": None}}, b'{"properties":{"a":"1","nul":null}}'),
        (
            {"position": 42, "f": 1.0, "big": 1e10, "b": True, "n": None},
            b'{"position":42,"f":1.0,"big":1.0E10,"b":true,"n":null}',
        ),
        (["foo", {"f": 1}], b'["foo",{"f":1}]'),
        ("a\"\\\b\t\n\f\r/\x1f\x7f<>&'", b'"a\\"\\\\\\b\\t\\n\\f\\r/\\u001F\x7f<>&\'"'),
        ("\u0085\u2028\u2029é日", '"\u0085\u2028\u2029é日"'.encode()),
        ("😀", b'"\\uD83D\\uDE00"'),
        ("\ud83d", b'"\\uD83D"'),
        (b"\x01\x02\x03", b'"AQID"'),
        ({1: "a", "b": 2}, b'[[1,"a"],["b",2]]'),
        ({}, b"{}"),
        ([], b"[]"),
        (None, b"null"),
        (2**63 - 1, b"9223372036854775807"),
        (-(2**63), b"-9223372036854775808"),
    ],
)
def test_values_have_these_bytes(value: Any, data: bytes) -> None:
    assert dumps(value) == data


@pytest.mark.parametrize("value", [2**63, object(), {"a": {1, 2}}, 1j])
def test_what_connect_does_not_know_is_refused(value: Any) -> None:
    with pytest.raises(ValueFormatError):
        dumps(value)


READ = [
    (None, None),
    (b"", None),
    (b" \r\n\t", None),
    (b"null", None),
    (b"42", 42),
    (b"9223372036854775808", -9223372036854775808),
    (b"-9223372036854775809", 9223372036854775807),
    (b"1.0", 1.0),
    (b"1e2", 100.0),
    (b"007", 7),
    (b"[007,-00.5]", [7, -0.5]),
    (b'{"a":1,"a":2}', {"a": 2}),
    (b"{} trailing", {}),
    (b'["a",{}].["b",{}]', ["a", {}]),
    (b'"text"more', "text"),
    (b"true.[..]", True),
    (b"false.x", False),
    (b'null.["a",{}]', None),
    (b"12 .[..]", 12),
    (b"\xef\xbb\xbf{}", {}),
    (b"{} \xff\xfe", {}),
    (b'"\\ud83d\\ude00 \\u00e9"', "😀 é"),
    (b"[" * 1000 + b"]" * 1000, ...),
    (b"0." + b"0" * 998 + b"1", 0.0),
    (b"-" + b"0" * 5000 + b"7", -7),
]


@pytest.mark.parametrize(("data", "value"), READ)
def test_reader_is_tolerant_where_jackson_is(data: bytes | None, value: Any) -> None:
    found = loads(data)
    if value is not ...:
        assert found == value
        assert type(found) is type(value)


def test_zero_has_no_sign_as_in_java_and_what_is_too_small_keeps_it() -> None:
    assert str(loads(b"[-0.0,-0e5,-1e-400]")) == "[0.0, 0.0, -0.0]"


REFUSED = [
    b'1.["a"]',
    b'1.5.["a"]',
    b"1-2.[",
    b"1,2",
    b'B.["foo",{}]',
    b"group-b.[..]",
    b"nullx.[..]",
    b"truE",
    b"NaN",
    b"[NaN]",
    b"[-Infinity]",
    b"/* c */ 1",
    b"{'a':1}",
    b"[1,]",
    b'{"a":1,}',
    b'{"a"}',
    b"[1 2]",
    b"[",
    b'{"a":1',
    b'"open',
    b'"\x01"',
    b'"\\x"',
    b"[.5]",
    b"[1.]",
    b"[+1]",
    b"\xff",
    b'["\xff"]',
    b"1" * 1001,
    b"0." + b"0" * 1000,
    b"null\xff",
    b"[" * 1001 + b"]" * 1001,
]
FULL_OF_QUOTES = pytest.param(b'{"a":' * 500 + b'"' + b'\\"' * 500_000, id="a megabyte of quotes")


@pytest.mark.parametrize("data", [*REFUSED, FULL_OF_QUOTES])
def test_reader_is_strict_where_jackson_is(data: bytes) -> None:
    with pytest.raises(ValueFormatError) as caught:
        loads(data)
    assert "B." not in str(caught.value)


VALUES = json_values(st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text())


@given(VALUES)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert loads(dumps(value)) == value


@given(VALUES, st.booleans())
def test_ordinary_json_is_read_as_pythons_own_reader_does(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped, indent=1)
    assert loads(text.encode("utf-8", "surrogatepass")) == json.loads(text)


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def outcome(data: bytes) -> str:
    try:
        return repr(loads(data))
    except ValueFormatError as error:
        return str(error)


@given(st.integers(0, 1 << 32), st.sampled_from(TopicType))
def test_the_quick_way_reads_as_the_others_do(seed: int, topic_type: TopicType) -> None:
    """A byte order mark is passed over, and the quick way does not know it."""
    for record in HostileLogs(seed, None).log(topic_type):
        for data in (record.key or b"", record.value or b""):
            text = data.removeprefix(BYTE_ORDER_MARK)
            assert outcome(text) == outcome(BYTE_ORDER_MARK + text)


@pytest.mark.parametrize("depth", [1, 499, 500, 1000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}"), ('[{"b":', "}]")])
def test_nesting_is_read_and_written_as_deep_as_jackson_does(depth: int, begin: str, end: str) -> None:
    times = depth // len(end)
    text = (begin * times + "1" + end * times).encode()
    assert dumps(loads(text)) == text
    assert dumps(loads(text), in_order_of_names=True) == text


def test_what_is_nested_deeper_is_not_written() -> None:
    value: Any = None
    for _ in range(1001):
        value = [value]
    with pytest.raises(ValueFormatError, match="nested more than 1000 deep"):
        dumps(value)


def test_values_too_deep_for_python_are_compared_nevertheless() -> None:
    def nested(number: int) -> Any:
        value: Any = number
        for _ in range(990):  # Connect writes a thousand
            value = [value]
        return value

    assert same(nested(1), nested(1))
    assert not same(nested(1), nested(2))
