"""Unmodified Java workers with our jar, several groups on one set of shared topics."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, cycle
from pathlib import Path

from connect_share.jar import INTERCEPTOR_CLASS, jar_path
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.keys import split_key
from connect_share.model.records import Record, TopicType
from connect_share.worker_config import ClientSettings, Isolation
from tests.lab.embedded.rest import when_possible
from tests.lab.embedded.worker import QUICK_MEMBERS, ConnectWorker, worker_properties
from tests.support.topics import ANYWHERE, create_known, ordered_producer, pairs_of, read_topic, send, written_evenly
from tests.support.waiting import await_that

Start = Callable[..., ConnectWorker]
"""The fixture ``worker_factory``."""
EXACTLY_ONCE = {
    "exactly.once.source.support": "enabled",
    "producer.interceptor.classes": INTERCEPTOR_CLASS,
    "consumer.interceptor.classes": INTERCEPTOR_CLASS,
}
JAR = (jar_path(),)
PARTITIONS = {TopicType.CONFIG: 1, TopicType.STATUS: 2, TopicType.OFFSET: 3}
_TOPIC_ENDINGS = {TopicType.CONFIG: "configs", TopicType.STATUS: "status", TopicType.OFFSET: "offsets"}

_CALM_S = 1.6
# What plain workers say about records they cannot place, and what a worker says whose position differs.
_ABOUT_FOREIGN = re.compile(
    r"Discarding|Ignoring (?:offset partition|task configuration)|nextOffsets\(\) returned empty|Invalid data for"
)


@dataclass(frozen=True)
class SharedTopics:
    """The three topics of all groups of a test."""

    settings: ClientSettings
    bootstrap_servers: str
    prefix: str

    def group(self, name: str) -> str:
        """A group id of this test alone: workers of two tests with the same one would form one group."""
        return f"{self.prefix.rsplit('-', 1)[-1]}.{name}"

    def topic(self, topic_type: TopicType) -> str:
        return f"{self.prefix}-{_TOPIC_ENDINGS[topic_type]}"

    def create(self, config_topic: Mapping[str, str] | None = None, *, others: Mapping[str, str] | None = None) -> None:
        with Admin(self.settings, client_id="tests") as admin:
            for topic_type, partitions in PARTITIONS.items():
                extra = config_topic if topic_type is TopicType.CONFIG else others
                create_known(
                    admin,
                    NewTopicRequest(
                        self.topic(topic_type), partitions, 1, {"cleanup.policy": "compact", **(extra or {})}
                    ),
                )

    def roll(self, topic_type: TopicType) -> None:
        """Write a record of others to each partition: the cleaner may take what is superseded before it."""
        producer = client.producer(self.settings, client_id="tests")
        pairs = [(b"other.group.target-state-x", b"{}")]
        for partition in range(PARTITIONS[topic_type]):
            send(producer, pairs_of(self.topic(topic_type), pairs, partition))

    def create_data_topic(self, name: str) -> str:
        topic = f"{self.prefix}-{name}"
        with Admin(self.settings, client_id="tests") as admin:
            create_known(admin, NewTopicRequest(topic, 1, 1))
        return topic

    def properties(self, group: str, **more: str) -> dict[str, str]:
        """The worker file of a group with the jar; underscores in names are dots."""
        return {
            **worker_properties(self.bootstrap_servers, group, self.prefix, sharing="java"),
            **QUICK_MEMBERS,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def records(self, topic: str, *, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> list[Record]:
        with Admin(self.settings, client_id="tests") as admin:
            return read_topic(admin, self.settings, topic, isolation, up_to=isolation)

    def plain_keys(self) -> list[tuple[str, bytes | None]]:
        """Keys in the three topics that carry no group's prefix."""
        found = []
        for topic_type in TopicType:
            for record in self.records(self.topic(topic_type)):
                split = split_key(topic_type, record.key or b"")
                if split is None or split[0] is None:
                    found.append((record.topic, record.key))
        return found


def file_source(file: str | Path, topic: str, **more: str) -> dict[str, str]:
    """The configuration of a source with one task, which reads a file."""
    return {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic, **more}


def write(settings: ClientSettings, topic: str, records: list[tuple[bytes, bytes | None]]) -> None:
    """Write records and wait for the broker."""
    send(ordered_producer(settings), pairs_of(topic, records))


@contextmanager
def foreign_records(
    settings: ClientSettings, topic: str, per_second: int, again: Sequence[tuple[bytes, bytes]] = ()
) -> Iterator[None]:
    """Write another group's records to a config topic, or some again and again, for as long as the block runs."""
    pairs = ((b"other.group.commit-connector-%d" % (number % 500), b'{"tasks":%d}' % number) for number in count())
    records = (Record(topic, ANYWHERE, 0, 0, *pair) for pair in (cycle(again) if again else pairs))
    producer = client.producer(settings, client_id="tests", overrides={"linger.ms": "5"})
    with written_evenly(producer, records, per_second, every_s=0.02):
        yield


class LogLines:
    """The log of a worker from now on."""

    def __init__(self, worker: ConnectWorker, *, from_start: bool = False) -> None:
        self._worker = worker
        self._begin = 0 if from_start else len(worker.log())

    def text(self) -> str:
        return self._worker.log()[self._begin :]

    def count(self, words: str) -> int:
        return self.text().count(words)

    @property
    def mismatches(self) -> int:
        return self.count("does not match group assignment")

    @property
    def joins(self) -> int:
        return self.count("Joined group at generation")

    @property
    def catch_ups(self) -> int:
        return self.count("Catching up to assignment's config offset")

    def about_foreign(self) -> list[str]:
        return [line for line in self.text().splitlines() if _ABOUT_FOREIGN.search(line)]

    def last_assignment(self) -> tuple[int, int]:
        """Generation and config offset of the last assignment."""
        found = re.findall(r"Joined group at generation (\d+) .*?offset=(-?\d+)", self.text())
        generation, offset = found[-1] if found else (-1, -1)
        return int(generation), int(offset)


def await_settled(workers: list[ConnectWorker]) -> tuple[int, int]:
    """Wait until all members have the same generation and offset and keep them for a heartbeat; return them."""
    since_s, last = time.monotonic(), set[tuple[int, int]]()

    def assignments() -> tuple[set[tuple[int, int]], float]:
        nonlocal since_s, last
        found = {LogLines(worker, from_start=True).last_assignment() for worker in workers}
        if found != last:
            since_s, last = time.monotonic(), found
        return found, time.monotonic() - since_s

    found, _ = await_that(
        assignments,
        lambda seen: len(seen[0]) == 1 and min(seen[0])[0] >= 0 and seen[1] >= _CALM_S,
        what="in one generation",
        timeout_s=120,
    )
    return next(iter(found))


def put(worker: ConnectWorker, name: str, config: Mapping[str, str], *, timeout_s: float = 120.0) -> None:
    """Create or change a connector; a rebalance under way (409, 500 from a killed leader) is waited for."""
    when_possible(lambda: worker.rest.put_config(name, config), timeout_s)


def delete(worker: ConnectWorker, name: str, *, timeout_s: float = 120.0) -> None:
    when_possible(lambda: worker.rest.delete(name), timeout_s, gone_is_fine=True)
