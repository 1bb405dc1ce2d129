"""Three topics with two groups, a plain cluster, garbage and removals: for whatever profiles topics."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from connect_share.model.keys import prefix_key
from connect_share.model.records import Record
from connect_share.worker_config import SHARING_PROPERTY
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.kafka import TestBroker
from tests.support.topics import create_topic, write_records

SECRET = "zebra"
HOUR_MS = 3_600_000
UPDATES = 300
"""Offset records of each of two keys."""


@dataclass(frozen=True)
class ProfiledTopics:
    """The records that were written.

    Attributes:
        worker_file: of the group ``<prefix>.a``.
        model_file: a cost model in which a record costs 10 ms, so that few of them matter.
    """

    broker: TestBroker
    prefix: str
    worker_file: Path
    model_file: Path

    @property
    def groups(self) -> tuple[str, str]:
        return f"{self.prefix}.a", f"{self.prefix}.b"

    def topic(self, name: str) -> str:
        return f"{self.prefix}-{name}"


def write_profiled_topics(broker: TestBroker, prefix: str, folder: Path) -> ProfiledTopics:
    """Create and fill the topics; nothing in them is compacted before a setting changes."""
    group = f"{prefix}.a"
    properties = {
        **worker_properties(broker.bootstrap_servers, group, prefix),
        SHARING_PROPERTY: "enabled",
        "database.password": SECRET,
    }
    model = {
        "model": {"fixed_s": 0.1, "per_record_s": 0.01, "per_byte_s": 0.0, "per_own_record_s": 0.0, "error": 0.5},
        "machine": {"processors": 64},
    }
    model_file = folder / "model.json"
    model_file.write_text(json.dumps(model))
    topics = ProfiledTopics(broker, prefix, write_properties(folder / "worker.properties", properties), model_file)
    first_ms = int(time.time() * 1000) - 10 * HOUR_MS
    for name, partitions in (("configs", 1), ("offsets", 2), ("status", 2)):
        create_topic(broker.client_settings, topics.topic(name), partitions)
    config: list[tuple[bytes | None, bytes | None]] = [(b"\x1b[2Jgarbage", b"x"), (b"connector-old", b"{}")]
    status: list[tuple[bytes | None, bytes | None]] = []
    for each in topics.groups:
        config += [
            (prefix_key(each, b"connector-c"), b'{"properties":{"password":"%s"}}' % SECRET.encode()),
            (prefix_key(each, b"target-state-gone"), b"null"),
            (prefix_key(each, b"session-key"), SECRET.encode()),
        ]
        status += [(prefix_key(each, b"status-task-c-0"), b"{}"), (prefix_key(each, b"status-connector-c"), None)]
    offsets = [
        (prefix_key(each, b'["c",{"file":"%s"}]' % SECRET.encode()), b'{"at":%d}' % number)
        for number in range(UPDATES)
        for each in topics.groups
    ]
    for name, rows in (("configs", config), ("status", status), ("offsets", offsets)):
        topic = topics.topic(name)
        records = [Record(topic, 0, 0, first_ms + number, key, value) for number, (key, value) in enumerate(rows)]
        write_records(broker.client_settings, topic, records, keep_partition=False)
    return topics
