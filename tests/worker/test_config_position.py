"""The config position with the jar on real workers: position cases 19 to 25 of docs/testing.md."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from connect_share.model.records import TopicType
from tests.lab.embedded.worker import ConnectWorker
from tests.support.java_groups import (
    JAR,
    LogLines,
    SharedTopics,
    Start,
    await_settled,
    delete,
    foreign_records,
    put,
    write,
)
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.topics import COMPACT_NOW
from tests.support.waiting import await_that

OTHERS = b'{"properties":{}}'


@pytest.fixture
def topics(broker: TestBroker, unique: str) -> SharedTopics:
    shared = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    shared.create(COMPACT_NOW)
    return shared


@pytest.fixture
def sink(topics: SharedTopics, tmp_path: Path) -> dict[str, str]:
    """A connector that needs nothing and does nothing."""
    data = topics.create_data_topic("data")
    return {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(tmp_path / "out.txt"), "topics": data}


def start_all(start: Start, properties: dict[str, str], version: str, number: int) -> list[ConnectWorker]:
    workers = [start(properties, version=version, class_path=JAR, wait=False) for _ in range(number)]
    with ThreadPoolExecutor(number) as threads:
        list(threads.map(ConnectWorker.await_healthy, workers))
    await_settled(workers)
    return workers


def compacted(topics: SharedTopics, gone: Callable[[list[tuple[bytes | None, bytes | None]]], bool]) -> None:
    """Let foreign writes roll segments until the cleaner has removed what it may."""
    topic = topics.topic(TopicType.CONFIG)

    def rest() -> list[tuple[bytes | None, bytes | None]]:
        write(topics.settings, topic, [(b"other.connector-x", OTHERS)])
        return [(record.key, record.value) for record in topics.records(topic)]

    await_that(rest, gone, what="compacted", timeout_s=120)


@pytest.mark.skipif(not LONG, reason="three starts of a worker: make soak")
def test_a_forged_session_key_stops_java_until_the_cleaner_has_taken_it(
    topics: SharedTopics, sink: dict[str, str], worker_factory: Start
) -> None:
    """What a writer of the topic can do to Java's workers, and the way out that hazards.md gives."""
    forged = b'{"key":"%%%","algorithm":"HmacSHA256","creation-timestamp":1}'
    properties = topics.properties(group_of(topics))
    first = worker_factory(properties, class_path=JAR)
    put(first, "keep", sink)
    first.rest.await_state("keep", "RUNNING", tasks=1)
    write(topics.settings, topics.topic(TopicType.CONFIG), [(own(topics, "session-key"), forged)])
    # The thread that reads the topic ends: a worker that runs goes on with what it knew.
    await_that(first.log, lambda log: "Unexpected exception in Thread[KafkaBasedLog Work Thread" in log, what="blind")
    assert first.rest.status("keep")["connector"]["state"] == "RUNNING"
    first.kill()

    late = worker_factory(properties, class_path=JAR, wait=False)
    await_that(late.log, lambda log: "Uncaught exception in herder work thread, exiting" in log, what="given up")
    assert "Illegal base64 character" in late.log()
    late.kill()

    # A newer record alone is no remedy: the forged one is read first, until the cleaner has taken it.
    write(topics.settings, topics.topic(TopicType.CONFIG), [(own(topics, "session-key"), b"null")])
    compacted(topics, lambda records: forged not in [value for _, value in records])
    again = worker_factory(properties, class_path=JAR)
    again.rest.await_state("keep", "RUNNING", tasks=1)


def group_of(topics: SharedTopics) -> str:
    return topics.group("com.acme.team-1")


def own(topics: SharedTopics, name: str) -> bytes:
    return f"{group_of(topics)}.{name}".encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "protocol"),
    [
        ("4.3.1", "sessioned"),
        *([("2.8.2", "compatible"), ("3.9.2", "sessioned"), ("4.3.1", "compatible")] if LONG else []),
    ],
)
def test_a_late_worker_and_a_killed_leader_after_compaction(
    topics: SharedTopics, sink: dict[str, str], worker_factory: Start, version: str, protocol: str
) -> None:  # cases 19 to 22
    # Joins are counted: who is only slow stays in the group.
    patient = {"session_timeout_ms": "20000", "rebalance_timeout_ms": "60000"}
    properties = topics.properties(group_of(topics), connect_protocol=protocol, **patient)
    first, third = start_all(worker_factory, properties, version, 2)
    put(first, "keep", sink)
    put(third, "gone", sink)
    first.rest.await_state("gone", "RUNNING", tasks=1)
    first.rest.pause("gone")
    first.rest.await_state("gone", "PAUSED", tasks=1)
    delete(first, "gone")
    await_that(third.rest.connectors, lambda names: names == ["keep"], what="gone everywhere")
    # What superseded them is there, as JSON null: the newest own record stays for ever.
    compacted(
        topics,
        lambda records: (
            [value for key, value in records if key == own(topics, "connector-gone")] == [b"null"]
            and [value for key, value in records if key == own(topics, "target-state-gone")] == [b"null"]
            and sum(key == b"other.connector-x" for key, _ in records) < 20
        ),
    )
    with foreign_records(topics.settings, topics.topic(TopicType.CONFIG), 500):
        before = [LogLines(worker) for worker in (first, third)]
        put(first, "one", sink)
        third.rest.await_state("one", "RUNNING", tasks=1)
        delete(third, "one")
        await_that(first.rest.connectors, lambda names: names == ["keep"], what="gone everywhere")
        late = worker_factory(properties, version=version, class_path=JAR)
        logs = [*before, LogLines(late, from_start=True)]
        _, position = await_settled([first, third, late])
        assert [log.mismatches for log in logs] == [0, 0, 0]
        assert logs[2].joins <= 3  # of its own, and what it took over from the others
        assert logs[2].catch_ups <= 1
        put(late, "new", sink)
        late.rest.await_state("new", "RUNNING", tasks=1)
        assert await_settled([first, third, late])[1] >= position

        leader_url = next(line for line in reversed(first.log().splitlines()) if "leaderUrl='" in line).split(
            "leaderUrl='"
        )[1]
        leader = next(worker for worker in (first, third, late) if leader_url.startswith(worker.rest.url))
        rest = [worker for worker in (first, third, late) if worker is not leader]
        after = [LogLines(worker) for worker in rest]
        leader.kill()
        for number, worker in enumerate(rest):
            put(worker, f"after-{number}", sink)
            worker.rest.await_state(f"after-{number}", "RUNNING", tasks=1)
        await_settled(rest)
    assert [log.mismatches for log in after] == [0, 0]
    assert [log.about_foreign() for log in (*logs, *after)] == [[]] * 5


@pytest.mark.slow
def test_the_marker_heals_a_group_that_real_tombstones_have_stuck(
    topics: SharedTopics, sink: dict[str, str], worker_factory: Start
) -> None:  # case 25
    properties = topics.properties(group_of(topics), connect_protocol="compatible")
    (first,) = start_all(worker_factory, properties, "4.3.1", 1)
    put(first, "keep", sink)
    first.rest.await_state("keep", "RUNNING", tasks=1)
    # A tool that does not know the rule: tombstones, which the cleaner removes although the live worker counts them.
    config_topic = topics.topic(TopicType.CONFIG)
    write(
        topics.settings, config_topic, [(own(topics, "connector-gone"), OTHERS), (own(topics, "connector-gone"), None)]
    )
    compacted(topics, lambda records: all(key != own(topics, "connector-gone") for key, _ in records))
    late = worker_factory(properties, version="4.3.1", class_path=JAR, wait=False)
    stuck = LogLines(late, from_start=True)
    await_that(lambda: stuck.mismatches, lambda found: found > 100, what="stuck", timeout_s=120)
    write(topics.settings, config_topic, [(own(topics, "target-state-"), b"null")])
    await_settled([first, late])
    put(late, "new", sink)
    late.rest.await_state("new", "RUNNING", tasks=1)
    calm = [LogLines(first), LogLines(late)]
    put(first, "newer", sink)
    first.rest.await_state("newer", "RUNNING", tasks=1)
    await_settled([first, late])
    assert [log.mismatches for log in calm] == [0, 0]
