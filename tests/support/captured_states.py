"""States of a worker's group as brokers told them: kept in one file, and told again where there is no broker."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Message, TopicPartition

from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import (
    BrokerDescription,
    GroupMember,
    HeldRights,
    LogEnd,
    PartitionDescription,
    TopicDescription,
)
from connect_share.kafka.write_access import RightsAdmin
from connect_share.model.records import Record, TopicType
from connect_share.worker_config import TOPIC_PROPERTIES, ClientSettings, Isolation
from tests.support.captures import FOLDER
from tests.support.sides import message_of
from tests.support.topics import read_topic
from tests.support.waiting import await_that

FILE: Final = FOLDER.parent / "states-of-a-group.json.gz"
_BYTES: Final = "latin-1"  # bytes as text
_SESSION_KEY: Final = re.compile(r'(?<={\\"key\\":\\")[^"\\]+')


def capture(
    admin: Admin, settings: ClientSettings, properties: Mapping[str, str], folder: Path, name: str
) -> dict[str, Any]:
    """Ask for what the checks ask, and return it without what is of this run alone, or secret."""

    def members() -> dict[str, tuple[GroupMember, ...]]:
        return {group: found for group, found in admin.connect_members().items() if found and group.startswith(name)}

    def told(seen: Mapping[str, Iterable[GroupMember]]) -> bool:
        return all(each.state is not None for found in seen.values() for each in found)

    groups = await_that(members, told, what="members told", timeout_s=60)
    topics = {}
    for topic in (properties[TOPIC_PROPERTIES[kind]] for kind in TopicType):
        if (found := admin.describe_topics([topic]).get(topic)) is not None:
            at = [(topic, each.id) for each in found.partitions]
            ends = (admin.start_offsets(at), admin.end_offsets(at, Isolation.READ_COMMITTED), admin.end_offsets(at))
            topics[topic] = {
                "settings": admin.topic_configs(topic),
                "ends": [[each[place] for each in ends] for place in at],
                "records": [
                    [each.partition, each.offset, each.timestamp_ms, *map(_text, (each.key, each.value))]
                    for each in read_topic(admin, settings, topic)
                ],
            }
    made = {
        "at_ms": time.time_ns() // 1_000_000,
        "properties": {**properties, "bootstrap.servers": "broker:9092"},
        "groups": {group: [asdict(each) for each in found] for group, found in groups.items()},
        "topics": topics,
    }
    text = json.dumps(made, default=_text, sort_keys=True).replace(str(folder), "/folder").replace(name, "name")
    result: dict[str, Any] = json.loads(_SESSION_KEY.sub("x", text))
    return result


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(_BYTES)


def _data(text: str | None) -> bytes | None:
    return None if text is None else text.encode(_BYTES)


def keep(states: Mapping[str, Any], path: Path) -> None:
    """Write captured states; others stay."""
    states = {**captured_states(), **states} if FILE.exists() else states
    path.write_bytes(gzip.compress(json.dumps(states, sort_keys=True).encode(), mtime=0))


@cache
def captured_states() -> dict[str, Any]:
    """The states of the file."""
    found: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
    return found


class _Log:
    """A consumer of captured records; they are as old as they were."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._state = state

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self._at = {(each.topic, each.partition): each.offset for each in places}
        later_ms = time.time_ns() // 1_000_000 - self._state["at_ms"]
        self._left = [
            message_of(Record(topic, partition, offset, at_ms + later_ms, _data(key), _data(value)))
            for topic, found in self._state["topics"].items()
            for partition, offset, at_ms, key, value in found["records"]
            if offset >= self._at.get((topic, partition), offset + 1)
        ]

    def consume(self, count: int, _timeout_s: float) -> list[Message]:
        found, self._left = self._left[:count], self._left[count:]
        return found

    def position(self, places: Iterable[TopicPartition]) -> list[TopicPartition]:
        left = {(each.topic(), each.partition()): each.offset() or 0 for each in reversed(self._left)}
        found = []
        for at in ((each.topic, each.partition) for each in places):
            end = self._state["topics"][at[0]]["ends"][at[1]][2]
            found.append(TopicPartition(*at, left.get(at, end)))
        return found

    def close(self) -> None:
        """Nothing is open."""


def told_again(patch: pytest.MonkeyPatch, state: Mapping[str, Any]) -> None:
    """Let admin clients and consumers answer what was captured."""
    topics = state["topics"]

    def offsets(places: Iterable[tuple[str, int]], _spec: object, isolation: Isolation, what: str, *_: object) -> Any:
        column = 0 if what == "start" else 1 if isolation is Isolation.READ_COMMITTED else 2
        return {(topic, part): LogEnd(topics[topic]["ends"][part][column], -1) for topic, part in places}

    def described(names: Iterable[str], **_: object) -> dict[str, TopicDescription]:
        return {
            name: TopicDescription(
                name,
                None,
                tuple(PartitionDescription(number, 1, (1,), (1,)) for number in range(len(topics[name]["ends"]))),
            )
            for name in names
            if name in topics
        }

    def members(group_id: str | None = None, **_: object) -> dict[str, tuple[GroupMember, ...]]:
        return {
            group: tuple(
                GroupMember(**{**each, "metadata": _data(each["metadata"]), "assigned": _data(each["assigned"])})
                for each in found
            )
            for group, found in state["groups"].items()
            if group_id in (None, group)
        }

    answers: dict[str, Any] = {
        "describe_topics": described,
        "_offsets": offsets,
        "settings_of_topics": lambda names, **_: {name: topics[name]["settings"] for name in names},
        "broker_settings": dict,
        "cluster_id": str,
        "brokers": lambda: (BrokerDescription(1),),
        "connect_members": members,
        "topic_rights": lambda _: {},
        "group_rights": lambda groups: dict.fromkeys(groups, HeldRights(complete=False)),
    }
    for name, answer in answers.items():
        patch.setattr(RightsAdmin if name == "topic_rights" else Admin, name, staticmethod(answer))
    patch.setattr("connect_share.kafka.admin.admin_client", lambda *_, **__: None)
    patch.setattr("connect_share.kafka.read.consumer", lambda *_, **__: _Log(state))
    patch.setattr("connect_share.contents.workers._EVERY_S", 0)
