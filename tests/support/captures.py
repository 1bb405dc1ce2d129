"""Records captured from real Java workers, with their transactions, and the workers' REST answers."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.keys import prefix_key
from connect_share.model.records import Record
from connect_share.worker_config import ClientSettings
from tests.support.topics import ANYWHERE, UNTOUCHED, create_known, send

FOLDER = Path(__file__).parents[1] / "vectors" / "java-worker"
VERSIONS = ("2.8.2", "3.9.2", "4.1.2", "4.3.1", "4.3.1-eos", "4.3.1-eos-aborted")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@cache
def captured(version: str, topic: str) -> tuple[Record, ...]:
    """Records of ``configs``, ``offsets`` or ``status``, as the worker's own isolation level shows them."""
    return captured_as_seen(version, topic, committed=topic != "status")


@cache
def captured_as_seen(version: str, topic: str, *, committed: bool) -> tuple[Record, ...]:
    """Records of a topic as a reader of committed records sees them, or with those of aborted transactions."""
    only_committed = FOLDER / version / f"{topic}.read_committed.jsonl.gz"
    path = only_committed if committed and only_committed.exists() else FOLDER / version / f"{topic}.jsonl.gz"
    records = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            found = json.loads(line)
            records.append(
                Record(
                    found["topic"],
                    found["partition"],
                    found["offset"],
                    found["timestamp_ms"],
                    _bytes(found["key_b64"]),
                    _bytes(found["value_b64"]),
                )
            )
    return tuple(records)


@cache
def rest_answers(version: str) -> dict[str, Any]:
    """The answers of the worker's REST interface, with those about each connector in ``connectors``."""
    with gzip.open(FOLDER / version / "state.json.gz", "rt", encoding="utf-8") as file:
        answers: dict[str, Any] = json.load(file)["rest"]
    return answers


def prefixed(records: tuple[Record, ...] | list[Record], group: str) -> list[Record]:
    """The same records as if the worker shared its topics."""
    return [replace(record, key=prefix_key(group, record.key or b"")) for record in records]


TOPICS = {"configs": 1, "offsets": 5, "status": 5}
FLAGS = {"configs": "--config-storage-topic", "offsets": "--offset-storage-topic", "status": "--status-storage-topic"}


def fill(settings: ClientSettings, admin: Admin, prefix: str, groups: Mapping[Any, str]) -> list[str]:
    """Put captured records (version by group, ``None``: plain keys) on new topics; return the flags that name these."""
    records: list[Record] = []
    for name, partitions in TOPICS.items():
        create_known(admin, NewTopicRequest(f"{prefix}-{name}", partitions, 1, UNTOUCHED))
        for group, version in groups.items():
            found = captured(version, name)
            own = found if group is None else prefixed(found, group)
            records += [replace(each, topic=f"{prefix}-{name}", partition=ANYWHERE) for each in own]
    send(client.producer(settings, client_id="tests", idempotent=True), records)
    return [word for name, flag in FLAGS.items() for word in (flag, f"{prefix}-{name}")]
