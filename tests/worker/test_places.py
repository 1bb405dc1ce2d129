"""Java workers and keys in several partitions: with the jar they follow the rule."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from connect_share.kafka.admin import Admin
from connect_share.model.keys import ClusterGroupId
from connect_share.model.murmur2 import partition_for
from connect_share.model.offsets import offset_key
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KEYS_PROPERTY
from tests.lab.embedded.worker import ConnectWorker
from tests.support.java_groups import EXACTLY_ONCE, JAR, SharedTopics, Start
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.sealed import key_text, sealed
from tests.support.topics import add_partitions, create_topic, ordered_producer, send
from tests.support.waiting import await_that

PLACES = {
    # Partition, time and lines that are read; whichever partition a worker without the rule reads last, one of two is wrong.
    "first": [(0, 3_000, 4), (1, 2_000, 1)],
    "second": [(0, 2_000, 1), (1, 3_000, 4)],
    "again": [(0, 2_000, 4), (1, 3_000, 1), (1, 1_000, 2)],
    "equal": [(0, 2_000, 1), (1, 2_000, 1)],  # where murmur2 places it, 4
    "ahead": [(0, 1_000, 4), (1, 1_000, 4)],  # elsewhere in half an hour
}
FORMS: dict[str, dict[str, str]] = {"plain": {}, "sealed": {KEYS_PROPERTY: key_text(7)}, "exactly once": EXACTLY_ONCE}


@dataclass(frozen=True)
class Sources:
    """A file source for each of the places; its data goes to one topic."""

    topics: SharedTopics
    data: str
    folder: Path

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.txt"

    def write(self, prefix: bytes, *, seals: bool = False) -> None:
        """Lay down configurations, and offsets on a topic to which a partition was added."""
        for topic_type in TopicType:
            create_topic(self.topics.settings, self.topics.topic(topic_type), 1)
        configs, offsets = self.topics.topic(TopicType.CONFIG), self.topics.topic(TopicType.OFFSET)
        with Admin(self.topics.settings, client_id="tests") as admin:
            add_partitions(admin, self.topics.settings, offsets, 2)
        records = []
        for name, places in PLACES.items():
            file = str(self.file(name))
            self.file(name).write_text("".join(f"{name} {number}\n" for number in range(6)))
            config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": file, "topic": self.data}
            value = json.dumps({"properties": {**config, "name": name}}).encode()
            records.append(
                (TopicType.CONFIG, 0, Record(configs, 0, 0, 0, b"%sconnector-%s" % (prefix, name.encode()), value))
            )
            key = prefix + offset_key(name, {"filename": file})
            for partition, plain_ms, lines in places:
                # A sealed value is never older than the one before it in its partition.
                time_ms = 500 if seals and (name, plain_ms) == ("again", 3_000) else plain_ms
                placed = partition == partition_for(key, 2)
                at_ms = time_ms if placed or name != "ahead" else int(time.time() * 1_000) + 1_800_000
                value = b'{"position":%d}' % ((4 if placed and name == "equal" else lines) * len(f"{name} 0\n"))
                # On sealed topics the record's own time is a stranger's.
                own_ms = max(1, 9_000 - at_ms) if seals else at_ms
                records.append((TopicType.OFFSET, at_ms, Record(offsets, partition, 0, own_ms, key, value)))
        written = [sealed(each, kind, written_ms=time_ms) if seals else each for kind, time_ms, each in records]
        send(ordered_producer(self.topics.settings), written)

    def await_lines(self, numbers: list[str]) -> None:
        def read() -> dict[str, list[str]]:
            # A worker that loses its group for a moment reads again what it has not committed.
            lines = dict.fromkeys((record.value or b"").decode() for record in self.topics.records(self.data))
            return {name: [line.split()[1] for line in lines if line.split()[0] == name] for name in PLACES}

        found = await_that(
            read, lambda lines: min(map(len, lines.values())) >= len(numbers), what="read", timeout_s=120
        )
        assert found == dict.fromkeys(PLACES, numbers)

    def go_on(self, start: Callable[[], ConnectWorker]) -> None:
        """Workers read on behind the offsets that count, also after a flush and a restart."""
        with start() as worker:
            self.await_lines(["4", "5"])
            for name in PLACES:
                file = self.file(name)
                size = [{"partition": {"filename": str(file)}, "offset": {"position": file.stat().st_size}}]
                await_that(partial(worker.rest.offsets, name), size.__eq__, what="flushed", timeout_s=120)
        for name in PLACES:
            with self.file(name).open("a") as more:
                more.write(f"{name} 6\n")
        start()
        self.await_lines(["4", "5", "6"])


@pytest.mark.parametrize("form", FORMS if LONG else ["plain"])
def test_a_worker_with_the_jar_starts_at_the_newest_offset(
    broker: TestBroker, unique: str, tmp_path: Path, worker_factory: Start, form: str
) -> None:
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    group, data = topics.group("places"), topics.create_data_topic("data")
    sources = Sources(topics, data, tmp_path)
    sources.write(ClusterGroupId(group).prefix, seals=form == "sealed")
    sources.go_on(partial(worker_factory, {**topics.properties(group), **FORMS[form]}, class_path=JAR))
