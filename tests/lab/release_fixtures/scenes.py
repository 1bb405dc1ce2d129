"""The scenes of which a release leaves files and topics: each in a folder of its own, with its worker files.

A worker file has ``@BROKER@`` where the address of the broker goes.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from connect_share import (
    ConnectorStatus,
    ConnectorTaskId,
    ConnectStorage,
    KeyRing,
    Record,
    State,
    TargetState,
    TaskStatus,
    WorkerConfig,
    partition_for,
    replay_config,
    replay_offsets,
    replay_status,
)
from tests.lab.benchmarks.startup import __main__ as benchmark_startup
from tests.lab.plain_state import plain_state
from tests.lab.release_fixtures.carried import carry_over
from tests.lab.release_fixtures.program import done, run
from tests.lab.release_fixtures.topics import TYPES, Cluster, SavedRecord, SavedTopic, save_topics
from tests.support.flushes import flush_offsets

BROKER: Final = "@BROKER@"
TOPICS: Final = "topics.json"
WORKER: Final = "worker.properties"
GROUP: Final = "com.acme.orders"
KEYS: Final = ("2:" + base64.b64encode(bytes(range(32))).decode(), "1:" + base64.b64encode(bytes(32)).decode())
"""Keys of a group that exists in fixtures only."""
SEALING: Final = {"connect.management.topic.sharing.encryption.keys": ",".join(KEYS)}
PARTITIONS: Final = {"config": 1, "status": 2, "offset": 3}
_BEGAN_MS: Final = 1_700_000_000_000
_TOO_LONG: Final = 6_000
_FLUSH_S: Final = 30.0


class Scene:
    """A folder and three topics of one name."""

    def __init__(self, cluster: Cluster, folder: Path, name: str) -> None:
        self.cluster = cluster
        self.folder = folder
        self.name = name
        folder.mkdir(parents=True, exist_ok=True)

    def topics(self, side: str = "shared") -> dict[str, str]:
        """Return the names of the topics of a side, by type."""
        return {kind: f"{self.name}-{side}-{kind}" for kind in TYPES}

    def create(self, side: str = "shared") -> None:
        """Create the topics of a side."""
        self.cluster.create({name: PARTITIONS[kind] for kind, name in self.topics(side).items()})

    def worker(
        self,
        side: str = "shared",
        *,
        group: str = GROUP,
        sharing: bool = True,
        file: str = WORKER,
        more: dict[str, str] | None = None,
    ) -> Path:
        """Write a worker file, and return its path."""
        lines = {
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "group.id": group,
            **{f"{kind}.storage.topic": name for kind, name in self.topics(side).items()},
            **{f"{kind}.storage.replication.factor": "1" for kind in TYPES},
            "status.storage.partitions": str(PARTITIONS["status"]),
            "offset.storage.partitions": str(PARTITIONS["offset"]),
            "connect.management.topic.sharing.support": "enabled" if sharing else "disabled",
            **(more or {}),
        }
        path = self.folder / file
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()), encoding="utf-8")
        return path

    def read(self, *sides: str) -> list[SavedTopic]:
        """Read the topics of sides."""
        return [self.cluster.read(name) for side in sides for name in self.topics(side).values()]

    def save(self, *sides: str) -> list[SavedTopic]:
        """Leave the topics of sides in the folder, and make its worker files independent of the broker."""
        topics = self.read(*sides)
        save_topics(self.folder / TOPICS, self.cluster.cluster_id, topics)
        for path in self.folder.glob("*.properties"):
            path.write_text(path.read_text(encoding="utf-8").replace(self.cluster.bootstrap_servers, BROKER), "utf-8")
        return topics

    def save_json(self, file: str, value: Any) -> None:
        """Leave a JSON file in the folder."""
        (self.folder / file).write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def write_group(
    worker: Path, *, connectors: Sequence[str] = ("my.conn", "status-a"), checkpoint: Path | None = None
) -> None:
    """Write connectors, tasks, target states, statuses and offsets of a group through its stores; remove one connector."""
    with ConnectStorage(WorkerConfig.from_file(worker), allow_empty=True, checkpoint=checkpoint) as storage:
        for number, name in enumerate((*connectors, "gone.for-good")):
            config = {"name": name, "connector.class": "com.acme.Source", "connection.password": "wonderland"}
            storage.config.put_connector_config(name, config)
            storage.config.put_task_configs(name, [{"task": str(task)} for task in range(number + 1)])
            storage.status.put(ConnectorStatus(name, State.RUNNING, "python:1", 1))
            storage.status.put(TaskStatus(ConnectorTaskId(name, 0), State.FAILED, "python:1", 1, trace="it broke"))
            offsets = [({"file": f"in.{file}"}, {"position": 10 * number + file}) for file in range(3)]
            flush_offsets(storage.offset_writer(name), *offsets, limit_s=_FLUSH_S)
        storage.config.put_target_state(connectors[-1], TargetState.STOPPED)
        storage.config.remove_connector_config("gone.for-good")
        storage.status.flush(_FLUSH_S)


def view(topics: Sequence[SavedTopic], group: str | None, keys: str | None = None) -> dict[str, Any]:
    """Return what a group's stores would show of these topics, as plain JSON."""
    ring = None if keys is None else KeyRing.parse(keys)
    by_type = {
        kind: [
            Record(topic.name, each.partition, each.offset, each.timestamp_ms, each.key, each.value, each.headers)
            for topic in topics
            if topic.name.endswith(f"-{kind}")
            for each in topic.records
        ]
        for kind in TYPES
    }
    return plain_state(
        replay_config(by_type["config"], group, keys=ring),
        replay_status(by_type["status"], group, keys=ring),
        replay_offsets(by_type["offset"], group, keys=ring),
    )


def plain_records(kind: str) -> list[SavedRecord]:
    """Return what Java workers with plain keys may have written to a topic of one type."""
    if kind == "config":
        pairs = [
            ("session-key", '{"key":"AAEC","algorithm":"HmacSHA256","creation-timestamp":1}'),
            ("connector-a.b", '{"properties":{"name":"a.b","connector.class":"com.acme.Source"}}'),
            ("task-a.b-0", '{"properties":{"x":"1"}}'),
            ("commit-a.b", '{"tasks":1}'),
            ("target-state-a.b", '{"state":"PAUSED","state.v2":"STOPPED"}'),
            ("connector-gone", '{"properties":{"name":"gone"}}'),
            ("connector-gone", None),
        ]
    elif kind == "status":
        pairs = [
            ("status-connector-a.b", '{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":3}'),
            ("status-task-a.b-0", '{"state":"FAILED","trace":"it broke","worker_id":"w:1","generation":3}'),
            ("status-connector-gone", '{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":2}'),
            ("status-connector-gone", None),
        ]
    else:
        pairs = [
            (f'["a.b",{{"file":"in.{number % 20}"}}]', None if number % 9 == 8 else f'{{"position":{number}}}')
            for number in range(60)
        ]
    records, ends = [], dict.fromkeys(range(PARTITIONS[kind]), 0)
    for number, (key, value) in enumerate(pairs):
        partition = partition_for(key.encode(), PARTITIONS[kind])
        headers = (("trace", b"\xff\x00"), ("none", None)) if number == 1 else ()
        content = (key.encode(), None if value is None else value.encode())
        records.append(SavedRecord(partition, ends[partition], _BEGAN_MS + number, *content, headers))
        ends[partition] += 1
    return records


def half_done_copy(scene: Scene) -> None:
    """Plan a move, and apply it to a topic whose limit refuses a record in the middle of the offsets."""
    for side in ("own", "shared"):
        scene.create(side)
    for kind, topic in scene.topics("own").items():
        records = plain_records(kind)
        if kind == "offset":
            middle, last = len(records) // 2, records[-1]
            value = json.dumps({"position": 1, "note": "x" * _TOO_LONG}).encode()
            key = next(f'["a.b",{{"file":"long.{number}"}}]' for number in range(99))
            partition = partition_for(key.encode(), PARTITIONS[kind])
            records.insert(middle, SavedRecord(partition, 0, last.timestamp_ms, key.encode(), value))
        scene.cluster.write(topic, records)
    source = scene.worker("own", group="orders", sharing=False, file="source.properties")
    destination = scene.worker(file="destination.properties", more={"producer.batch.size": "500"})
    limited, plan = scene.topics()["offset"], scene.folder / "move.json"
    done("connect-share-migrate", "plan", "-w", source, "--to-worker-config", destination, "-o", plan)
    scene.cluster.configure(limited, "max.message.bytes", str(_TOO_LONG // 2))
    ran = run("connect-share-migrate", "apply", plan, "--yes")
    written = len(scene.cluster.read(limited).records)
    planned = len(scene.cluster.read(scene.topics("own")["offset"]).records)
    if not ran.code or not 0 < written < planned:
        raise RuntimeError(f"not half-way: {written} of {planned} offsets, code {ran.code}: {ran.err}")
    scene.save("own", "shared")
    evidence = scene.folder / "move.evidence"
    for name in ("report.html", "plan.json", "manifest.json"):  # made anew by every run
        (evidence / name).unlink()
    runs = json.loads((evidence / "runs.json").read_text(encoding="utf-8"))
    for each in runs["runs"]:
        each.update(operator="operator", host="host")
    (evidence / "runs.json").write_text(json.dumps(runs, indent=2) + "\n", encoding="utf-8")
    carry_over(scene.folder, {str(scene.folder.absolute()): "/srv/moves"})


def checkpoint(scene: Scene) -> None:
    """Write a group's state beside another one's, and leave the checkpoint of its stores."""
    scene.create()
    write_group(scene.worker(group="com.acme.other", file="other.properties"))
    write_group(scene.worker(), checkpoint=scene.folder / "group.checkpoint")
    scene.save_json("state.json", view(scene.save("shared"), GROUP))


def backups(scene: Scene) -> None:
    """Export a group to a plain file and to an encrypted one."""
    scene.create()
    worker = scene.worker()
    write_group(worker)
    done("connect-share", "export", "-w", worker, "-o", scene.folder / "plain.avro")
    off = {**SEALING, "connect.management.topic.sharing.encryption": "off"}
    with_keys = scene.worker(file="keys.properties", more=off)
    done("connect-share", "export", "-w", with_keys, "--encrypt", "-o", scene.folder / "encrypted.avro")
    scene.save_json("state.json", view(scene.save("shared"), GROUP))


FOLLOW: Final = ("--once", "--base-every", "100000", "--keep", "3650")
"""A fixture is old: no base because of that, and nothing is deleted."""


def follow(scene: Scene) -> None:
    """Back up continuously: a base, and an increment behind it."""
    scene.create()
    worker, folder, states = scene.worker(), scene.folder / "followed", []
    for connectors in (("my.conn", "status-a"), ("my.conn", "third")):
        write_group(worker, connectors=connectors)
        done("connect-share", "export", "-w", worker, "--follow", folder, *FOLLOW)
        states.append({"at_ms": int(time.time() * 1000), "state": view(scene.read("shared"), GROUP)})
        time.sleep(0.01)  # two files of one moment would be one state
    scene.save_json("states.json", states)
    scene.save("shared")


def sealed(scene: Scene) -> None:
    """Write a sealed group, with a second key after a while, beside a plain group on the same topics."""
    scene.create()
    write_group(scene.worker(group="com.acme.other", file="other.properties"))
    old = {"connect.management.topic.sharing.encryption.keys": KEYS[1]}
    write_group(scene.worker(more={**old, "connect.management.topic.sharing.encryption": "required"}))
    new = scene.worker(more={**SEALING, "connect.management.topic.sharing.encryption": "required"})
    write_group(new, connectors=("my.conn", "third"))
    scene.save_json("state.json", view(scene.save("shared"), GROUP, ",".join(KEYS)))


def benchmark(scene: Scene) -> None:
    """Leave the result of a benchmark of the smallest topics."""
    arguments = ("-B", scene.cluster.bootstrap_servers, "--yes", "--scenarios", "tiny", "--rounds", "3", "--no-storm")
    measured = ("--contenders", "python,librdkafka", "--puts", "5", "--result", str(scene.folder / "result.json"))
    with contextlib.redirect_stdout(io.StringIO()):
        if code := benchmark_startup.main([*arguments, *measured]):
            raise RuntimeError(f"the benchmark ended with {code}")


SCENES: Final[dict[str, Callable[[Scene], None]]] = {
    "half_done_copy": half_done_copy,
    "checkpoint": checkpoint,
    "backups": backups,
    "follow": follow,
    "sealed": sealed,
    "benchmark": benchmark,
}
