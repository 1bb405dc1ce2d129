"""Records of the internal topics with their keys taken apart, as columns for SQL: names and sizes, and values on demand.

Keys and values are read by the same functions that the stores read them with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from pyspark.sql import DataFrame

from connect_share.contents.profile import key_digest
from connect_share.errors import ValueFormatError
from connect_share.model.config import target_state_in
from connect_share.model.connect_json import loads
from connect_share.model.keys import ConfigKey, StatusKey, encodable, key_text, owner_of, parse
from connect_share.model.status import status_in
from connect_share.sealing.cipher import is_sealed, removes

DECODED: Final = (
    "topic string, partition int, offset bigint, timestamp timestamp, topic_type string, group string, kind string, "
    "connector string, task int, used_topic string, state string, worker_id string, generation int, removes boolean, "
    "sealed boolean, key_id bigint, key_bytes int, value_bytes int"
)
"""Columns of :func:`decode`; ``docs/spark.md`` says what they hold."""
DECODED_VALUES: Final = f"{DECODED}, key string, value string"
"""The same with the text of keys and values."""
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, behind which Python has no time; whoever writes a record chooses its time."""


def decode(records: DataFrame, *, values: bool = False) -> DataFrame:
    """Return a row for each record, with what its key says, and sizes.

    Args:
        records: of :func:`read_kafka` or :func:`read_record_files`; further columns are dropped.
        values: give the text of original keys and of values, too: configurations, offsets and what else may be secret.
            Those that are sealed, and session keys, stay null.

    Columns:
        in: :data:`spark_jobs.sources.KAFKA_SOURCE`.
        out: :data:`spark_jobs.decoded.DECODED`, with ``values`` :data:`spark_jobs.decoded.DECODED_VALUES`.
    """

    def take_keys_apart(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows:
                yield _decoded(batch, values=values)

    read = records.select("topic", "partition", "offset", "timestamp_ms", "key", "value")
    return read.mapInArrow(take_keys_apart, DECODED_VALUES if values else DECODED)


def _decoded(batch: Any, *, values: bool) -> Any:
    import pyarrow as pa

    types = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_()}
    types["timestamp"] = pa.timestamp("us", "UTC")
    columns = [column.split() for column in (DECODED_VALUES if values else DECODED).split(", ")]
    schema = pa.schema([(name, types[kind]) for name, kind in columns])
    rows = [_row(row, values=values) for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _row(record: tuple[Any, ...], *, values: bool) -> tuple[Any, ...]:
    topic, partition, offset, timestamp_ms, key, value = record
    topic_type, group, original = owner_of(key) or (None, None, key or b"")
    parsed = None if topic_type is None else parse(topic_type, original)
    subject, kind = (None, None) if parsed is None else (parsed.subject, parsed.kind)
    part = None if subject is None else subject.part
    sealed = is_sealed(value)
    state, worker, generation = (None, None, None) if sealed else _state(kind, value)
    row = (
        topic,
        partition,
        offset,
        timestamp_ms * 1000 if 0 <= timestamp_ms <= _LAST_MS else None,
        None if topic_type is None else topic_type.value,
        group,
        None if kind is None else kind.label,
        None if subject is None else subject.connector,
        part if isinstance(part, int) else None,
        part if isinstance(part, str) else None,
        state,
        None if worker is None else encodable(worker),
        generation,
        value is None if topic_type is None else removes(topic_type, value),
        sealed,
        None if key is None else int.from_bytes(key_digest(key), signed=True),
        0 if key is None else len(key),
        None if value is None else len(value),
    )
    if not values:
        return row
    hidden = value is None or sealed or kind is ConfigKey.SESSION_KEY
    return (*row, None if key is None else key_text(original), None if hidden else key_text(value or b""))


def _state(kind: Any, value: bytes | None) -> tuple[str | None, str | None, int | None]:
    with suppress(ValueFormatError):
        if kind is ConfigKey.TARGET_STATE and (state := target_state_in(loads(value))):
            return state.value, None, None
    if kind in {StatusKey.CONNECTOR, StatusKey.TASK} and (status := status_in(value or b"")):
        return status[0].value, *status[1:]
    return None, None, None
