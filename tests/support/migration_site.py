"""A scene for migrations on a real broker: dedicated topics, shared topics, worker files."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import Record, TopicType
from connect_share.worker_config import ClientSettings
from migrator.cli.__main__ import main
from migrator.moves import NO_INTENT, Intent
from migrator.planner import make_plan
from tests.support.topics import create_known, ordered_producer, read_topic, send

PARTITIONS = {TopicType.CONFIG: 1, TopicType.STATUS: 5, TopicType.OFFSET: 5}
SHARED_PARTITIONS = {TopicType.CONFIG: 1, TopicType.STATUS: 3, TopicType.OFFSET: 4}
GROUP = "com.acme.orders"


@dataclass
class Site:
    """One broker, one name prefix, one folder; what a test needs to set a scene."""

    bootstrap_servers: str
    name: str
    folder: Path

    @property
    def settings(self) -> ClientSettings:
        return ClientSettings({"bootstrap.servers": self.bootstrap_servers})

    def topic(self, who: str, topic_type: TopicType) -> str:
        return f"{self.name}-{who}-{topic_type.value}"

    def admin(self) -> Admin:
        return Admin(self.settings, client_id="test")

    def create(
        self, names: str, partitions: dict[TopicType, int] = PARTITIONS, configs: dict[str, str] | None = None
    ) -> None:
        with self.admin() as admin:
            for who, topic_type in itertools.product(names.split(), TopicType):
                self.create_topic(admin, self.topic(who, topic_type), partitions[topic_type], configs or {})

    def create_topic(self, admin: Admin, topic: str, partitions: int, configs: dict[str, str]) -> None:
        create_known(admin, NewTopicRequest(topic, partitions, 1, {"cleanup.policy": "compact", **configs}))

    def worker_file(self, who: str, group: str, *, sharing: bool, **extra: str) -> Path:
        path = self.folder / f"{who}-{group}{'-sharing' if sharing else ''}.properties"
        lines = [
            f"bootstrap.servers={self.bootstrap_servers}",
            f"group.id={group}",
            *(f"{t.value}.storage.topic={self.topic(who, t)}" for t in TopicType),
            *(f"{t.value}.storage.replication.factor=1" for t in TopicType),
            "offset.storage.partitions=4",
            "status.storage.partitions=3",
            f"connect.management.topic.sharing.support={'enabled' if sharing else 'disabled'}",
            *(f"{name.replace('_', '.')}={value}" for name, value in extra.items()),
        ]
        path.write_text("\n".join(lines))
        return path

    def produce(self, records: Sequence[Record]) -> None:
        """Write records where their ``partition`` says, in order."""
        send(ordered_producer(self.settings), records)

    def read(self, topic: str) -> list[Record]:
        with self.admin() as admin:
            return read_topic(admin, self.settings, topic)

    def ends(self) -> dict[tuple[str, int], int]:
        """Where the partitions of all topics of this site end."""
        with self.admin() as admin:
            topics = admin.describe_topics(name for name in admin.topic_names() if name.startswith(self.name))
            return admin.end_offsets((name, part.id) for name, topic in topics.items() for part in topic.partitions)

    def plan(self, source: Path, destination: Path, name: str = "plan.json", intent: Intent = NO_INTENT) -> Path:
        path = self.folder / name
        make_plan([source], [destination], now_ms=1, intent=intent).save(path)
        return path

    def lay_down(self, who: str, topic_type: TopicType, pairs: Sequence[tuple[Any, Any, Any]]) -> list[Record]:
        """Produce pairs into a dedicated topic, each where a Java producer would put it."""
        records = []
        for number, (key, value, partition) in enumerate(pairs):
            raw = key.encode() if isinstance(key, str) else key
            records.append(
                Record(
                    topic=self.topic(who, topic_type),
                    partition=partition_for(raw or b"", PARTITIONS[topic_type]) if partition is None else partition,
                    offset=number,
                    timestamp_ms=1_700_000_000_000 + number,
                    key=raw,
                    value=value.encode() if isinstance(value, str) else value,
                )
            )
        self.produce(records)
        return records

    def lay_group(self, who: str, prefix: str = "", name: str = "a.b") -> None:
        """Produce what a group with one connector has written, under keys with this prefix."""
        for topic_type, pairs in SMALL.items():
            renamed = [(prefix + key.replace("a.b", name), value.replace("a.b", name), None) for key, value, _ in pairs]
            self.lay_down(who, topic_type, renamed)

    def small_source(
        self, who: str = "own", group: str = "orders", *, configs: dict[str, str] | None = None, **extra: str
    ) -> Path:
        self.create(who, configs=configs)
        self.lay_group(who)
        return self.worker_file(who, group, sharing=False, **extra)

    def shared(self, group: str = GROUP) -> Path:
        return self.worker_file("shared", group, sharing=True)


def pair(
    key: str | bytes | None, value: str | bytes | None = "{}", partition: int | None = None
) -> tuple[Any, Any, Any]:
    return key, value, partition


def run(*arguments: str | Path) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


def run_well(*arguments: str | Path) -> str:
    """Run a command that has to end well; return what it printed as its result."""
    code, out, err = run(*arguments)
    assert code == 0, (arguments[0], out, err)
    return out


SMALL = {
    TopicType.CONFIG: [
        pair("session-key", '{"key":"AAEC","algorithm":"HmacSHA256","creation-timestamp":1}'),
        pair("connector-a.b", '{"properties":{"name":"a.b","tasks.max":"1"}}'),
        pair("task-a.b-0", '{"properties":{"x":"1"}}'),
        pair("commit-a.b", '{"tasks":1}'),
        pair("target-state-a.b", '{"state":"PAUSED","state.v2":"STOPPED"}'),
        pair("restart-connector-a.b", '{"include-tasks":false,"only-failed":true}'),
    ],
    TopicType.STATUS: [
        pair("status-connector-a.b", '{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":3}'),
        pair("status-task-a.b-0", '{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":3}'),
    ],
    TopicType.OFFSET: [pair('["a.b",{"filename":"x.txt"}]', '{"position":42}')],
}
