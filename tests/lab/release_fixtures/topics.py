"""Topics in a JSON file: made on a broker, and made again on another one with the same records at the same offsets.

Only Kafka's client is used, and nothing of the project: a release does not judge its own topics.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

TYPES: Final = ("config", "status", "offset")
CONFIGS: Final = {
    "cleanup.policy": "compact",
    # One segment that is never closed: the cleaner takes nothing, and the offsets stay without gaps.
    "segment.ms": str(2**63 - 1),
    # A checkpoint and a continuous backup are used for half of that time, and a fixture is read for years.
    "delete.retention.ms": str(10**14),
}
_WAIT_S: Final = 30.0


@dataclass(frozen=True)
class SavedRecord:
    """One record of a fixture."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class SavedTopic:
    """A topic of a fixture: its id, and what was in it."""

    name: str
    topic_id: str
    partitions: int
    records: tuple[SavedRecord, ...] = field(repr=False)


class Cluster:
    """A broker on which topics of fixtures are made, filled and read."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._client: dict[str, Any] = {"bootstrap.servers": bootstrap_servers}
        self._admin = AdminClient(self._client)

    @property
    def cluster_id(self) -> str:
        """The id of the Kafka cluster."""
        return str(self._admin.describe_cluster(request_timeout=_WAIT_S).result().cluster_id)

    def create(self, partitions: Mapping[str, int], configs: Mapping[str, str] | None = None) -> None:
        """Create topics with so many partitions each, and wait until they have leaders."""
        wanted = [NewTopic(name, count, 1, config={**CONFIGS, **(configs or {})}) for name, count in partitions.items()]
        for made in self._admin.create_topics(wanted).values():
            made.result(_WAIT_S)
        until = time.monotonic() + _WAIT_S
        while not self._has_leaders(partitions):
            if time.monotonic() > until:
                raise TimeoutError(f"no leaders for {', '.join(partitions)}")
            time.sleep(0.05)

    def _has_leaders(self, partitions: Mapping[str, int]) -> bool:
        try:
            found = self._described(partitions)
            return all(part.leader is not None and part.leader.id >= 0 for one in found for part in one.partitions)
        except KafkaException:
            return False

    def _described(self, names: Iterable[str]) -> list[Any]:
        asked = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=_WAIT_S)
        return [each.result() for each in asked.values()]

    def configure(self, topic: str, name: str, value: str) -> None:
        """Change one setting of a topic."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        for changed in self._admin.incremental_alter_configs([resource]).values():
            changed.result(_WAIT_S)

    def ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of topics, as Kafka prints them."""
        return {each.name: _id_of(each) for each in self._described(names)}

    def write(self, topic: str, records: Iterable[SavedRecord]) -> None:
        """Write records in order, each into its partition."""
        failed: list[str] = []
        producer = Producer({**self._client, "enable.idempotence": True, "linger.ms": 5})
        for each in records:
            producer.produce(
                topic,
                key=each.key,
                value=each.value,
                partition=each.partition,
                timestamp=each.timestamp_ms,
                headers=list(each.headers) or None,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
        if producer.flush(_WAIT_S) or failed:
            raise TimeoutError(f"not all records of {topic} were acknowledged: {failed[:1]}")

    def read(self, topic: str) -> SavedTopic:
        """Read a topic from its beginning to its end of now."""
        (described,) = self._described([topic])
        # A question for the ends waits behind a fetch.
        consumer = Consumer({**self._client, "group.id": "none", "enable.auto.commit": False, "fetch.wait.max.ms": 10})
        records = []
        try:
            for number in range(len(described.partitions)):
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_WAIT_S)
                consumer.assign([TopicPartition(topic, number, low)])
                at = low
                while at < high:
                    message = consumer.poll(_WAIT_S)
                    if message is None or message.error():
                        raise TimeoutError(f"{topic}[{number}] ended at {at}, not at {high}")
                    at = (message.offset() or 0) + 1
                    headers: Any = tuple(message.headers() or ())
                    content = (message.key(), message.value(), headers)
                    records.append(SavedRecord(number, at - 1, message.timestamp()[1], *content))
        finally:
            consumer.close()
        return SavedTopic(topic, _id_of(described), len(described.partitions), tuple(records))

    def delete(self, names: Iterable[str]) -> None:
        """Delete topics."""
        for gone in self._admin.delete_topics(list(names)).values():
            gone.result(_WAIT_S)

    def make_again(self, topics: Iterable[SavedTopic]) -> dict[str, str]:
        """Make topics of a fixture here, and return their new ids by the old ones."""
        saved = list(topics)
        self.create({each.name: each.partitions for each in saved})
        for each in saved:
            expected: dict[int, int] = {}
            for record in each.records:
                if record.offset != expected.get(record.partition, 0):
                    raise ValueError(f"{each.name}[{record.partition}]@{record.offset}: a gap cannot be made again")
                expected[record.partition] = record.offset + 1
            self.write(each.name, each.records)
        now = self.ids(each.name for each in saved)
        return {each.topic_id: now[each.name] for each in saved}


def _id_of(described: Any) -> str:
    return str(described.topic_id).translate(str.maketrans("+/", "-_"))  # the client prints ordinary base64


def save_topics(path: Path, cluster_id: str, topics: Iterable[SavedTopic]) -> None:
    """Write topics to a JSON file, a record a line."""
    parts = []
    for each in topics:
        head = json.dumps({"name": each.name, "topic_id": each.topic_id, "partitions": each.partitions})[:-1]
        rows = ",\n".join(json.dumps(_row(record), ensure_ascii=False) for record in each.records)
        parts.append(f'{head}, "records": [\n{rows}\n]}}')
    text = ",\n".join(parts)
    path.write_text(f'{{"cluster_id": "{cluster_id}", "topics": [\n{text}\n]}}\n', encoding="utf-8")


def load_topics(path: Path) -> tuple[str, list[SavedTopic]]:
    """Read what :func:`save_topics` has written: the id of the cluster, and the topics."""
    saved = json.loads(path.read_text(encoding="utf-8"))
    return saved["cluster_id"], [
        SavedTopic(each["name"], each["topic_id"], each["partitions"], tuple(map(_record, each["records"])))
        for each in saved["topics"]
    ]


def _row(record: SavedRecord) -> list[Any]:
    headers = [[name, _text(value)] for name, value in record.headers]
    row = [record.partition, record.offset, record.timestamp_ms, _text(record.key), _text(record.value), headers]
    return row if headers else row[:-1]


def _record(row: list[Any]) -> SavedRecord:
    partition, offset, timestamp_ms, key, value, *more = row
    headers = tuple((name, _bytes(each)) for name, each in (more[0] if more else []))
    return SavedRecord(partition, offset, timestamp_ms, _bytes(key), _bytes(value), headers)


def _text(data: bytes | None) -> str | dict[str, str] | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}


def _bytes(saved: Any) -> bytes | None:
    if saved is None:
        return None
    return base64.b64decode(saved["base64"]) if isinstance(saved, dict) else str(saved).encode()
