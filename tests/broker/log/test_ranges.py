"""Reading ranges once."""

from __future__ import annotations

from typing import Any

import pytest

from connect_share.errors import BrokerError, ReadToEndTimeoutError
from connect_share.kafka.read import read_batches, read_ranges
from connect_share.model.records import OffsetRange
from connect_share.worker_config.client_settings import Isolation
from tests.broker.log.test_start import compact, delete_records
from tests.support.deadlines import error_at_deadline
from tests.support.topics import COMPACT_NOW


def read(bench: Any, *ranges: OffsetRange, **options: Any) -> list[tuple[int, int]]:
    settings: dict[str, Any] = {"isolation": Isolation.READ_UNCOMMITTED, "idle_timeout_s": 30.0} | options
    records = read_ranges(bench.settings, ranges, client_id=bench.unique, **settings)
    return [(record.partition, record.offset) for record in records]


def test_half_open_ranges(bench: Any) -> None:
    bench.create(2)
    for partition in (0, 1):
        bench.write([(b"k", b"%d" % i) for i in range(5_000)], partition=partition)
    topic = bench.topic
    assert read(bench, OffsetRange(topic, 0, 10, 20)) == [(0, offset) for offset in range(10, 20)]
    assert read(bench, OffsetRange(topic, 1, 4_999, 5_000)) == [(1, 4_999)]
    assert read(bench, OffsetRange(topic, 0, 7, 7), OffsetRange(topic, 1, 0, 0)) == []
    assert read(bench) == []
    found = read(bench, OffsetRange(topic, 0, 100, 4_900), OffsetRange(topic, 1, 2_000, 2_003))
    assert [offset for partition, offset in found if partition == 0] == list(range(100, 4_900))
    assert [offset for partition, offset in found if partition == 1] == [2_000, 2_001, 2_002]


def test_records_are_whole(bench: Any) -> None:
    bench.create(configs={"cleanup.policy": "delete"})
    pairs = [(b"k", b"v"), (None, b"null key"), (b"", b""), (b"t", None)]
    bench.write(pairs)
    assert [(record.key, record.value) for record in bench.read()] == pairs


def test_one_range_for_each_partition(bench: Any) -> None:
    with pytest.raises(ValueError, match="one range"):
        read(bench, OffsetRange(bench.topic, 0, 0, 1), OffsetRange(bench.topic, 0, 1, 2))


def test_holes_and_markers(bench: Any) -> None:
    bench.create(configs=COMPACT_NOW)
    bench.write([(b"a", b"%d" % i) for i in range(100)])
    bench.transact([(b"b", b"x"), (b"c", b"x")], commit=False)
    compact(bench, 6)
    bench.transact([(b"d", b"y")])
    end = bench.end()
    whole = OffsetRange(bench.topic, 0, 0, end)
    everything = read(bench, whole)
    assert (0, end - 2) in everything  # the committed record; the marker is the last offset
    assert (0, end - 1) not in everything
    assert set(read(bench, whole, isolation=Isolation.READ_COMMITTED)) <= set(everything)
    assert read(bench, OffsetRange(bench.topic, 0, 0, 50)) == []  # nothing but a hole


def test_range_past_the_end(bench: Any) -> None:
    bench.create()
    bench.write([(b"k", b"v")] * 3)
    error = error_at_deadline(
        lambda timeout_s: read(bench, OffsetRange(bench.topic, 0, 0, 10), idle_timeout_s=timeout_s),
        lambda error: error.position == 3,
    )
    assert (error.topic, error.partition, error.end_offset) == (bench.topic, 0, 10)


def test_open_transaction(bench: Any) -> None:
    bench.create()
    bench.write([(b"k", b"v")])
    whole, committed = OffsetRange(bench.topic, 0, 0, 2), Isolation.READ_COMMITTED
    with bench.transaction([(b"k", b"w")]):
        error = error_at_deadline(
            lambda timeout_s: read(bench, whole, isolation=committed, idle_timeout_s=timeout_s),
            lambda error: error.position == 1,
        )
    assert error.end_offset == 2
    assert "open" in str(error)


def test_offsets_that_are_gone_are_an_error(bench: Any) -> None:
    bench.create(configs={"cleanup.policy": "compact,delete"})
    bench.write([(b"k", b"v")] * 9)
    delete_records(bench, 5)
    with pytest.raises(BrokerError, match=bench.topic):
        read(bench, OffsetRange(bench.topic, 0, 0, 9))
    assert read(bench, OffsetRange(bench.topic, 0, 5, 9)) == [(0, offset) for offset in range(5, 9)]


def test_topic_that_does_not_exist(bench: Any) -> None:
    with pytest.raises((BrokerError, ReadToEndTimeoutError), match=bench.topic):
        read(bench, OffsetRange(bench.topic, 0, 0, 1), idle_timeout_s=2.0)


def test_reader_may_stop_early(bench: Any) -> None:
    bench.create()
    bench.write([(b"k", b"v")] * 5_000)
    batches = read_batches(
        bench.settings,
        [OffsetRange(bench.topic, 0, 0, 5_000)],
        isolation=Isolation.READ_UNCOMMITTED,
        client_id=bench.unique,
    )
    first = next(batches)
    assert 0 < len(first) < 5_000
    assert first[0].offset() == 0
    batches.close()  # type: ignore[attr-defined]
