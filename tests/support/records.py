"""Records made by hand, short to write."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from connect_share.backup.record_file import RecordBlock, RecordEncoder
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.records import Record

TOMBSTONE = None
JSON_NULL = b"null"
K = TypeVar("K")
V = TypeVar("V")


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Put what lies under one key together, in its order."""
    found: dict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return dict(found)


def value_of(value: Any) -> bytes | None:
    """Bytes as they are, ``None`` as a tombstone, anything else as JSON."""
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


def config_log(entries: Iterable[tuple[Any, ...]], *, prefix: str = "", first: int = 0) -> list[Record]:
    """``(key, value)`` or ``(offset, key, value)`` as records of one partition, from offset ``first`` on."""
    records = []
    offset = first
    for entry in entries:
        if len(entry) == 3:
            offset = entry[0]
        key, value = entry[-2:]
        if isinstance(key, str):
            key = (prefix + key).encode()
        records.append(Record("configs", 0, offset, 1_000 + offset, key, value_of(value)))
        offset += 1
    return records


def properties(**values: str) -> dict[str, dict[str, str]]:
    return {"properties": values}


def at_offset(state: ClusterConfigState, offset: int) -> ClusterConfigState:
    """Return the same state, read up to another offset."""
    return ClusterConfigState(replace(state._tables, offset=offset))


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the records of ``connect_share.model``."""
    return [record for record in caplog.records if record.name.startswith("connect_share.model")]


def encoded(records: Iterable[Record]) -> Iterator[RecordBlock]:
    """Records as they go into a file of records."""
    encoder = RecordEncoder("records")
    for each in records:
        place = (each.topic, each.partition, each.offset, each.timestamp_ms)
        block = encoder.add(*place, each.key, each.value, each.whole_headers())
        if block is not None:
            yield block
    rest = encoder.rest()
    if rest is not None:
        yield rest


def row_of(record: Record) -> tuple[Any, ...]:
    """Return a record as Spark has it."""
    headers = [(name, value) for name, value in record.headers or ()] or None
    return (record.topic, record.partition, record.offset, record.timestamp_ms, record.key, record.value, headers)


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a DataFrame of records."""

    def plain(value: Any) -> Any:
        return bytes(value) if isinstance(value, bytearray) else value

    rows = []
    for row in frame.collect():
        headers = None if row.headers is None else [(header.key, plain(header.value)) for header in row.headers]
        rows.append((row.topic, row.partition, row.offset, row.timestamp_ms, plain(row.key), plain(row.value), headers))
    return rows
