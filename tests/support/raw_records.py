"""Records that no client library writes, sent as one request of Kafka's protocol: headers with any bytes as name."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafka.record.util import calc_crc32c, encode_varint

_PRODUCE: Final = 0
_VERSION: Final = 3  # the oldest that brokers of 4.x take


def _varint(number: int) -> bytes:
    out = bytearray()
    encode_varint(number, out.append)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


@dataclass(frozen=True)
class RawRecord:
    """A record whose headers' names are bytes."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    timestamp_ms: int = 1_000

    def encoded(self, number: int, first_ms: int) -> bytes:
        body = b"\0" + _varint(self.timestamp_ms - first_ms) + _varint(number) + _sized(self.key) + _sized(self.value)
        body += _varint(len(self.headers)) + b"".join(_sized(name) + _sized(value) for name, value in self.headers)
        return _sized(body)


def _batch(records: Sequence[RawRecord]) -> bytes:
    first_ms = records[0].timestamp_ms
    last_ms = max(record.timestamp_ms for record in records)
    body = struct.pack(">hiqqqhii", 0, len(records) - 1, first_ms, last_ms, -1, -1, -1, len(records))
    body += b"".join(record.encoded(number, first_ms) for number, record in enumerate(records))
    rest = struct.pack(">ibI", -1, 2, calc_crc32c(body)) + body
    return struct.pack(">qi", 0, len(rest)) + rest


def write_raw(bootstrap_servers: str, topic: str, records: Sequence[RawRecord], partition: int = 0) -> int:
    """Write records in one batch to a partition of a broker that leads it; return the first one's offset."""
    host, port = bootstrap_servers.split(",", maxsplit=1)[0].rsplit(":", 1)
    name, batch = topic.encode(), _batch(records)
    request = struct.pack(">hhih", _PRODUCE, _VERSION, 1, -1) + struct.pack(">hhi", -1, -1, 30_000)
    request += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iii", 1, partition, len(batch)) + batch
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = connection.makefile("rb")
        (size,) = struct.unpack(">i", answer.read(4))
        response = answer.read(size)
    at = 4 + 4 + 2 + len(name) + 4 + 4
    error, offset = struct.unpack_from(">hq", response, at)
    assert error == 0, f"the broker refused the batch with error code {error}"
    return int(offset)
