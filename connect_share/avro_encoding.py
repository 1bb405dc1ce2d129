"""The fields of a Kafka record in the bytes of Avro. Pure; :mod:`connect_share.record_file` makes files of it.

With fastavro's own ``Writer.write`` the write of a million records takes twice as long (1.13, compression included): it
searches the branch of each union.

Source: Avro specification 1.12, "Binary Encoding".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final


def _zigzag(number: int) -> bytes:
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


_SHORT: Final = [_zigzag(number) for number in range(4096)]


def encode_long(number: int) -> bytes:
    """Return the bytes of an int or a long: zigzag, seven bits a byte.

    Raises:
        OverflowError: it has more than 64 bits.
    """
    return _SHORT[number] if 0 <= number < 4096 else _zigzag(number)


def encode_bytes(value: bytes | None) -> bytes:
    """Return the bytes of the union of null and bytes.

    Raises:
        TypeError: it is neither.
    """
    return b"\x00" if value is None else b"\x02%b%b" % (encode_long(len(value)), value)


def encode_text(text: str) -> bytes:
    """Return the bytes of a string.

    Raises:
        UnicodeEncodeError: it holds half a surrogate pair.
    """
    raw = text.encode()
    return encode_long(len(raw)) + raw


def encode_place(topic: str, partition: int) -> bytes:
    """Return the bytes of a topic and a partition; records of one partition share them.

    Raises:
        OverflowError: the partition has more than 32 bits.
    """
    if not -(1 << 31) <= partition < 1 << 31:
        raise OverflowError
    return encode_text(topic) + encode_long(partition)


def encode_headers(headers: Iterable[tuple[str, bytes | None]]) -> bytes:
    """Return the bytes of an array of headers, in order."""
    items = [encode_text(name) + encode_bytes(value) for name, value in headers]
    return b"%b%b\x00" % (encode_long(len(items)), b"".join(items)) if items else b"\x00"
