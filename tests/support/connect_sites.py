"""A Kafka cluster with many topics, among them those of twelve sets of Connect's topics, and some that only look so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.config import connector_config_record
from connect_share.model.connect_json import dumps
from connect_share.model.records import Record, TopicType
from connect_share.model.status import ConnectorStatus, State, status_record
from connect_share.worker_config import ClientSettings
from tests.support.captures import captured, prefixed
from tests.support.checked import CAPTURED, CONFIG, OFFSET, STATUS
from tests.support.topics import ONE_SEGMENT, ordered_producer, send
from tests.support.waiting import await_that

Pairs = list[tuple[bytes | None, bytes | None]]


@dataclass
class ConnectSet:
    """The topics of one cluster, or of some that share; a topic without records is there and cannot be recognised."""

    topics: dict[TopicType, str]
    groups: list[str | None]
    records: dict[TopicType, list[Record]]
    partitions: dict[TopicType, int] = field(default_factory=lambda: {CONFIG: 1, STATUS: 5, OFFSET: 25})
    policy: str = "compact"

    def found(self) -> dict[str, str | None]:
        """The topics as they can be found: a topic without records cannot."""
        return {kind.value: topic if self.records[kind] else None for kind, topic in self.topics.items()}


def renamed(records: Sequence[Record], by: str) -> list[Record]:
    """The same records of connectors with other names, in keys only: what is in the values names nothing here."""
    tag = by.encode()
    places = (b"status-connector-", b"status-task-", b"connector-", b"commit-", b"task-", b"target-state-", b'["')

    def other(key: bytes | None) -> bytes | None:
        place = next((each for each in places if (key or b"").startswith(each)), None)
        if key is None or place is None:
            return None if key is None else key.replace(b":connector-", b":connector-" + tag)
        return place + tag + key[len(place) :]

    return [replace(record, key=other(record.key)) for record in records]


def captured_set(
    version: str, names: tuple[str, str, str], groups: Sequence[str | None] = (None,), *, tag: str = ""
) -> ConnectSet:
    """A set with what a real worker wrote, for each group."""
    records: dict[TopicType, list[Record]] = {kind: [] for kind in CAPTURED}
    for kind, file in CAPTURED.items():
        for group in groups:
            own = renamed(captured(version, file), tag)
            records[kind] += own if group is None else prefixed(own, group)
    return ConnectSet(dict(zip((CONFIG, STATUS, OFFSET), names, strict=True)), list(groups), records)


def sinks(names: tuple[str, str, str], tag: str, *, policy: str = "compact", config_partitions: int = 1) -> ConnectSet:
    """A set of a cluster with sinks only: nothing is in its offset topic."""
    connectors = [f"{tag}-sink-{number}" for number in range(3)]
    configs = [connector_config_record(name, {"connector.class": "S", "topics": "t"}) for name in connectors]
    statuses = [status_record(ConnectorStatus(name, State.RUNNING, f"{tag}:8083", 4)) for name in connectors]
    records = {CONFIG: of_pairs(configs), STATUS: of_pairs(statuses), OFFSET: []}
    topics = dict(zip((CONFIG, STATUS, OFFSET), names, strict=True))
    return ConnectSet(topics, [None], records, {CONFIG: config_partitions, STATUS: 1, OFFSET: 1}, policy)


def of_pairs(pairs: Sequence[tuple[bytes | None, bytes | None]]) -> list[Record]:
    """Records of keys and values."""
    return [Record("", -1, 0, 0, key, value) for key, value in pairs]


def twelve_sets() -> list[ConnectSet]:
    """Twelve sets under odd names, of which two are shared."""
    return [
        captured_set("2.8.2", ("zebra", "payments.v7", "_x"), tag="p-"),
        captured_set("3.9.2", ("team-a.one", "team-b.two", "UPPER.three"), tag="q-"),
        captured_set("4.1.2", ("dev.cfg.0", "dev.sta.0", "dev.off.0")),
        captured_set("4.3.1", ("prod.cfg.0", "prod.sta.0", "prod.off.0")),
        captured_set("4.3.1-eos", ("exactly", "once", "only"), tag="e-"),
        captured_set("3.9.2", ("a" * 249, "b" * 249, "c" * 249), tag="f-"),
        captured_set("4.3.1", ("everybody", "their-state", "where-they-are"), ("com.acme", "orders", "orders-eu")),
        captured_set("4.1.2", ("second-home", "second-mood", "second-place"), ("x.y.z", None)),
        sinks(("users-by-id", "users-by-name", "users-empty"), "s1"),
        sinks(("events-compacted", "events-latest", "events-none"), "s2", policy="compact,delete"),
        sinks(("two.partitions", "status-of-nobody", "void"), "s3", config_partitions=2),
        sinks(("__connect", "__sta", "__off"), "s4"),
    ]


LOOK_ALIKES: dict[str, Pairs] = {
    "charging-stations": [
        (f"connector-{number}".encode(), dumps({"status": "Available", "kW": number})) for number in range(50)
    ],
    "geo.features": [
        (f"connector-{number}".encode(), dumps({"type": "Feature", "properties": {"connector.class": "CCS"}}))
        for number in range(50)
    ],
    "ktable-changelog": [
        (dumps(["user", {"id": number}]), dumps({"name": "n", "visits": number})) for number in range(50)
    ],
    "todo-list": [(f"task-{number}".encode(), dumps({"done": False})) for number in range(50)],
    "_schemas": [
        (dumps({"keytype": "SCHEMA", "subject": "s", "version": n, "magic": 1}), dumps({"subject": "s", "schema": '"int"'}))
        for n in range(50)
    ],
}  # fmt: skip
"""Compacted topics of applications, with keys and values as they really have them."""


def fillers(number: int) -> Iterator[tuple[NewTopicRequest, list[Record]]]:
    """Topics of others: every second one is compacted."""
    for n in range(number):
        compacted = n % 2 == 0
        policy = {"cleanup.policy": "compact" if compacted else "delete", **ONE_SEGMENT}
        topic = f"app-{n}-store-changelog" if compacted else f"events.{n}"
        pairs: Pairs = [(f"key-{n}-{m}".encode(), bytes([m, n % 251, 0, 255])) for m in range(20)]
        yield NewTopicRequest(topic, 2, 1, policy), of_pairs(pairs if compacted else pairs[:1])


def build(settings: ClientSettings, sets: Sequence[ConnectSet], others: int) -> None:
    """Create all topics and write what is in them."""
    requests: list[tuple[NewTopicRequest, list[Record]]] = [*fillers(others)]
    for each in sets:
        configs = {"cleanup.policy": each.policy, **ONE_SEGMENT}
        requests += [
            (NewTopicRequest(topic, each.partitions[kind], 1, configs), each.records[kind])
            for kind, topic in each.topics.items()
        ]
    requests += [
        (NewTopicRequest(topic, 3, 1, {"cleanup.policy": "compact", **ONE_SEGMENT}), of_pairs(pairs))
        for topic, pairs in LOOK_ALIKES.items()
    ]
    names = {request.topic for request, _ in requests}
    with Admin(settings, client_id="tests", timeout_s=60.0) as admin, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: admin.create_topic(each[0]), requests))
        await_that(admin.topic_names, lambda there: names <= there, what="all topics known")
    writer = ordered_producer(settings)
    for request, records in requests:
        send(writer, (replace(record, topic=request.topic, partition=-1) for record in records))
