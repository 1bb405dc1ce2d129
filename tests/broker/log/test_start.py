"""The first read of a log: to ends known beforehand, over holes, markers and foreign records."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from connect_share.errors import BrokerError, StoreClosedError
from connect_share.kafka.client import TopicPartition
from connect_share.kafka.facts import TopicFacts, gather_facts
from connect_share.kafka.read import Reader
from connect_share.log.first_read import StartContext
from connect_share.model.records import OffsetRange
from connect_share.worker_config import Isolation
from tests.support.topics import COMPACT_NOW
from tests.support.waiting import await_that, error_at_deadline


def delete_records(bench: Any, before: int) -> None:
    for future in bench.admin._client.delete_records([TopicPartition(bench.topic, 0, before)]).values():
        future.result()


def compact(bench: Any, keep: int) -> None:
    """Let segments roll until no more than ``keep`` records are left."""

    rolls = Rolls(bench, (b"roll", b"x"))
    await_that(lambda: rolls.left() <= keep, what="compaction", timeout_s=120.0)


class Rolls:
    """Records that close a segment each, at longer and longer intervals: a busy cleaner has to come after them."""

    def __init__(self, bench: Any, record: tuple[bytes, bytes | None]) -> None:
        self._bench, self._record = bench, record
        self._pause_s = self._next_s = 0.0

    def left(self) -> int:
        """Write one if it is time, and give how many records there are."""
        if time.monotonic() >= self._next_s:
            self._bench.write([self._record])
            self._pause_s = min(2 * self._pause_s + 0.1, 5.0)
            self._next_s = time.monotonic() + self._pause_s
        return len(self._bench.read())


def test_everything_compacted_away_but_the_end(bench: Any, collected: Any) -> None:
    bench.create(configs=COMPACT_NOW)
    bench.transact([(b"a", b"1"), (b"b", b"2")])
    bench.write([(b"a", None), (b"b", None)])
    rolls = Rolls(bench, (b"roll", None))
    await_that(lambda: rolls.left() <= 3, what="compaction", timeout_s=120.0)
    sink = collected()
    log = bench.started(sink, isolation=Isolation.READ_COMMITTED)
    assert log.positions()[0] == bench.end()
    assert sink.latest() == {}


def test_start_of_the_log_was_deleted(
    bench: Any, collected: Any
) -> None:  # case 55: end offset equals beginning offset
    bench.create(configs={"cleanup.policy": "compact,delete"})
    bench.write([(b"k", b"%d" % i) for i in range(7)])
    delete_records(bench, 7)
    assert bench.admin.start_offsets([(bench.topic, 0)]) == {(bench.topic, 0): 7}
    sink = collected()
    log = bench.started(sink, context=context_of(bench))
    assert sink.records == []
    assert log.positions()[0] == 7
    bench.write([(b"k", b"new")])
    log.read_to_end(60)
    assert sink.values == [b"new"]


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("commit", [True, False], ids=["committed", "aborted"])
def test_a_marker_at_the_end(bench: Any, collected: Any, isolation: Isolation, commit: bool) -> None:  # case 17
    bench.create()
    bench.transact([(b"a", b"1")], commit=commit)
    sink = collected()
    log = bench.started(sink, isolation=isolation)
    assert log.positions()[0] == bench.end() == 2
    seen = commit or isolation is Isolation.READ_UNCOMMITTED
    assert sink.values == [b"1"] * seen


def test_foreign_garbage_null_and_empty_keys(bench: Any, collected: Any) -> None:
    bench.create(configs={"cleanup.policy": "delete"})  # compacted topics take no null keys
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (b"g.own-1", b"1"),
        (b"h.foreign", b"\xff\x00"),
        (None, b"null key"),
        (b"", b"empty key"),
        (b"\xff\xfe\x00", b"\x80"),
        (b"g.own-2", None),
        (b"G.own", b"other case"),
        (b"g", b"no dot"),
        (None, None),
        (b"g.own-3", b""),
    ]
    bench.write(pairs)
    sink = collected(b"g.")
    log = bench.started(sink, context=context_of(bench))
    assert [(record.key, record.value) for record in sink.records] == [
        (b"g.own-1", b"1"),
        (b"g.own-2", None),
        (b"g.own-3", b""),
    ]
    assert log.foreign_records == 7
    assert log.positions()[0] == len(pairs)
    # The same through the thread.
    bench.write(pairs)
    log.read_to_end(60)
    assert [record.offset for record in sink.records] == [0, 5, 9, 10, 15, 19]
    assert log.foreign_records == 14
    everything = collected()
    unprefixed = bench.started(everything, context=context_of(bench))
    assert [(record.key, record.value) for record in everything.records] == pairs * 2
    assert unprefixed.foreign_records == 0


def test_ends_handed_in_may_be_old(bench: Any, collected: Any) -> None:
    bench.create(2)
    for partition in (0, 1):
        bench.write([(b"k%d" % i, b"%d" % i) for i in range(3000)], partition=partition)
    known = facts_of(bench)
    for ends in ({0: 1, 1: 3000}, {0: 3000, 1: 1}, {0: 1, 1: 0}, {0: 0, 1: 2500}):
        sink = collected()
        log = bench.started(sink, context=StartContext({bench.topic: TopicFacts(known.description, ends)}))
        log.read_to_end(120)
        for partition in (0, 1):
            assert [r.offset for r in sink.records if r.partition == partition] == list(range(3000)), ends
        log.stop()


def test_stop_while_the_first_read_waits(bench: Any, collected: Any) -> None:
    bench.create()
    with bench.transaction([(b"a", b"1")]), ThreadPoolExecutor(1) as threads:
        log = bench.log(collected(), isolation=Isolation.READ_COMMITTED, start_timeout_s=120.0)
        starting = threads.submit(log.start)
        await_that(lambda: log._own_reader is not None, what="the first read")
        log.stop()
        with pytest.raises(StoreClosedError):
            starting.result(60)
    with pytest.raises(StoreClosedError):
        log.read_to_end(1)


@pytest.mark.parametrize("name", ["log-identity-", "log-"])
def test_stop_while_a_thread_is_made(name: str, bench: Any, collected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the start of another store fails in this moment, which stops them all."""
    bench.create()
    log = bench.log(collected())
    begin, threads = threading.Thread.start, threading.active_count()

    def stop_before(thread: threading.Thread) -> None:
        if thread.name == f"{name}{bench.topic}":
            log.stop()
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", stop_before)
    with pytest.raises(StoreClosedError):
        log.start()
    await_that(threading.active_count, lambda now: now <= threads, what="no thread left")


def context_of(bench: Any) -> StartContext:
    return StartContext({bench.topic: facts_of(bench)})


def facts_of(bench: Any) -> TopicFacts:
    return gather_facts(bench.admin, [bench.topic])[bench.topic]


def read(bench: Any, *ranges: OffsetRange, **options: Any) -> list[tuple[int, int]]:
    reader = Reader(bench.settings, bench.unique, options.get("isolation", Isolation.READ_UNCOMMITTED))
    records = reader.records(ranges, options.get("idle_timeout_s", 30.0))
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


def test_reader_may_stop_early(bench: Any) -> None:
    bench.create()
    bench.write([(b"k", b"v")] * 5_000)
    reader = Reader(bench.settings, bench.unique, Isolation.READ_UNCOMMITTED)
    batches = reader.batches([OffsetRange(bench.topic, 0, 0, 5_000)])
    first = next(batches)
    assert 0 < len(first) < 5_000
    assert first[0].offset() == 0
    batches.close()  # type: ignore[attr-defined]
