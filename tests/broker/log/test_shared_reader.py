"""Logs of several topics that are read by one client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from connect_share.errors import PartitionCountError, ReadToEndTimeoutError, StoreClosedError
from connect_share.kafka.client import TopicPartition
from connect_share.kafka.facts import TopicFacts, gather_facts
from connect_share.kafka.read import BoundedReader, Reader
from connect_share.log.first_read import CatchUpRead, SharedReader, StartContext, TopicRead, catch_up_consumer
from connect_share.log.protocol import RecordFeed
from connect_share.model.records import TopicType
from connect_share.worker_config import Isolation
from tests.support.waiting import await_that


def reader(
    bench: Any, begin: Mapping[str, Mapping[int, int]], *, isolation: Isolation = Isolation.READ_UNCOMMITTED
) -> SharedReader:
    return SharedReader(begin, Reader(bench.settings, bench.unique, isolation))


def beginning(facts: Mapping[str, TopicFacts]) -> dict[str, dict[int, int]]:
    return {topic: dict.fromkeys(found.ends, 0) for topic, found in facts.items()}


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def facts_before_more(bench: Any, quiet: str, busy: str, *, late: int, known: int) -> dict[str, TopicFacts]:
    """Write to one topic, learn the ends of both, and write to the other one."""
    for topic in (quiet, busy):
        bench.create(topic=topic)
    bench.write([(b"k", value) for value in numbers(known)], topic=busy)
    facts = gather_facts(bench.admin, [quiet, busy])
    bench.write([(b"k", value) for value in numbers(late)], topic=quiet)
    return facts


def start_all(*logs: Any) -> list[Future[None]]:
    with ThreadPoolExecutor(len(logs)) as threads:
        return [threads.submit(log.start) for log in logs]


def test_a_topic_for_which_no_record_was_left_is_not_read(bench: Any) -> None:
    wanted = {(bench.topic, 0): (0, 2), (f"{bench.topic}-b", 0): (0, 1)}
    for (topic, _), (_, count) in wanted.items():
        bench.create(topic=topic)
        bench.write([(b"k", b"v")] * count, topic=topic)
    bounded = BoundedReader(bench.settings, 2)
    read = Counter((record.topic, record.partition) for record in bounded.records(wanted))
    assert read.total() == 2
    assert bounded.unread == {place[0] for place, (_, count) in wanted.items() if read[place] < count}


def test_each_log_gets_its_own_records_in_order_and_follows(bench: Any, collected: Any) -> None:
    topics = [bench.topic, f"{bench.topic}-b", f"{bench.topic}-empty"]
    for topic, partitions in zip(topics, (3, 1, 2), strict=True):
        bench.create(partitions, topic=topic)
    pairs = [(b"g.%d" % (number % 7), b"%d" % number) for number in range(1_200)]
    foreign = [(b"other.%d" % number, b"x") for number in range(900)] + [(b"g", b""), (b"", b"x")]
    for topic in topics[:2]:
        bench.write([pair for both in zip(pairs[: len(foreign)], foreign, strict=True) for pair in both], topic=topic)
        bench.write(pairs[len(foreign) :], topic=topic)
    facts = gather_facts(bench.admin, topics)
    sinks = [collected(b"g.") for _ in topics]
    with closing(reader(bench, beginning(facts))) as common:
        logs = [
            bench.log(sink, spec=bench.spec(topic=topic, partitions=2), context=StartContext(facts, common))
            for topic, sink in zip(topics, sinks, strict=True)
        ]
        for done in start_all(*logs):
            done.result()
    for topic, sink, log in zip(topics[:2], sinks, logs, strict=False):
        assert {record.topic for record in sink.records} == {topic}
        for key in {key for key, _ in pairs}:
            assert [r.value for r in sink.records if r.key == key] == [value for own, value in pairs if own == key]
        assert (log.caught_up.own, log.caught_up.foreign) == (1_200, len(foreign))
        assert dict(log.positions()) == dict(facts[topic].ends)
    assert not sinks[2].records
    bench.write([(b"g.late", b"1")], topic=topics[2])
    logs[2].read_to_end(120)
    assert sinks[2].values == [b"1"]


def test_what_ends_the_read_ends_it_for_all(bench: Any, collected: Any) -> None:
    other = f"{bench.topic}-b"
    bench.create()
    bench.create(topic=other)
    bench.write([(b"k", b"v")], topic=other)
    with bench.transaction([(b"k", b"v")]):
        facts = gather_facts(bench.admin, [bench.topic, other])
        with closing(reader(bench, beginning(facts), isolation=Isolation.READ_COMMITTED)) as common:
            logs = [
                bench.log(
                    collected(),
                    spec=bench.spec(topic=topic),
                    context=StartContext(facts, common),
                    isolation=Isolation.READ_COMMITTED,
                    start_timeout_s=10.0,  # so long that it comes to the transaction on a busy machine
                )
                for topic in (bench.topic, other)
            ]
            for done in start_all(*logs):
                with pytest.raises(ReadToEndTimeoutError, match=f"{bench.topic}.0. was not read.*transaction") as late:
                    done.result()
                assert (late.value.topic, late.value.position, late.value.end_offset) == (bench.topic, 0, 1)


def test_a_log_that_is_stopped_while_it_waits_for_the_others(bench: Any, collected: Any) -> None:
    bench.create()
    facts = gather_facts(bench.admin, [bench.topic])
    with closing(reader(bench, beginning(facts) | {"never-asks": {}})) as common, ThreadPoolExecutor(1) as threads:
        log = bench.log(collected(), context=StartContext(facts, common))
        starting = threads.submit(log.start)
        await_that(lambda: common._asked, what="waiting")
        log.stop()
        with pytest.raises(StoreClosedError):
            starting.result(120)


def test_a_log_that_is_read_otherwise_is_not_covered(bench: Any, collected: Any) -> None:
    bench.create()
    bench.write([(b"k", b"v")])
    facts = gather_facts(bench.admin, [bench.topic])
    sink = collected()
    with closing(reader(bench, beginning(facts), isolation=Isolation.READ_COMMITTED)) as common:
        bench.started(sink, context=StartContext(facts, common))
    assert sink.values == [b"v"]


def test_a_partition_with_nothing_new_that_gets_a_record_meanwhile_is_read_once(bench: Any, collected: Any) -> None:
    """Fetching begins before the ends are known, so records beyond them come, too."""
    quiet, busy = f"{bench.topic}-a", f"{bench.topic}-b"
    facts = facts_before_more(bench, quiet, busy, late=100, known=1_000)
    sinks = {topic: collected() for topic in (quiet, busy)}
    with closing(reader(bench, beginning(facts))) as common:
        logs = [
            bench.log(sinks[topic], spec=bench.spec(topic=topic), context=StartContext(facts, common))
            for topic in (quiet, busy)
        ]
        for done in start_all(*logs):
            done.result()
        for log in logs:
            log.read_to_end(120)
    assert sinks[busy].values == numbers(1_000)
    assert sinks[quiet].values == numbers(100)


def test_one_that_cannot_start_neither_delays_nor_reaches_others(bench: Any, collected: Any) -> None:
    """Fetching begins before it is known that a config topic has too many partitions."""
    other = f"{bench.topic}-config"
    bench.create()
    bench.create(3, topic=other)
    bench.write([(b"k%d" % number, b"v") for number in range(500)], topic=other)
    bench.write([(b"k", value) for value in numbers(500)])
    facts = gather_facts(bench.admin, [bench.topic, other])
    sink, nothing = collected(), collected()
    with closing(reader(bench, beginning(facts))) as common:
        good = bench.log(sink, context=StartContext(facts, common))
        bad = bench.log(
            nothing, spec=bench.spec(topic=other, kind=TopicType.CONFIG), context=StartContext(facts, common)
        )
        good_start, bad_start = start_all(good, bad)
    good_start.result()
    assert sink.values == numbers(500)
    with pytest.raises(PartitionCountError):
        bad_start.result()
    assert not nothing.records


class Asked:
    """A client that notes how many records it was asked for each time."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.asked: list[int] = []

    def consume(self, records: int, timeout: float) -> Any:
        self.asked.append(records)
        return self._client.consume(records, timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def test_records_beyond_the_ends_do_not_make_the_rest_come_one_by_one(bench: Any, collected: Any) -> None:
    quiet, busy = f"{bench.topic}-a", f"{bench.topic}-b"
    facts = facts_before_more(bench, quiet, busy, late=300, known=300)
    sinks = {topic: collected() for topic in (quiet, busy)}
    reads = [TopicRead(topic, facts[topic].ends, RecordFeed(b"", sinks[topic].apply)) for topic in (quiet, busy)]
    with closing(catch_up_consumer(Reader(bench.settings, bench.unique, Isolation.READ_UNCOMMITTED))) as client:
        client.assign([TopicPartition(quiet, 0, 0), TopicPartition(busy, 0, 0)])
        asking: Any = Asked(client)
        found = CatchUpRead(asking, reads).run(60, Isolation.READ_UNCOMMITTED)
    assert sinks[busy].values == numbers(300)
    assert found[quiet].positions[0] == found[quiet].own
    assert asking.asked.count(1) < 20
