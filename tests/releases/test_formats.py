"""What releases have written goes on working: files, topics and results, each release in a folder beside this file."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from connect_share import ConnectStorage, TopicType, WorkerConfig
from spark_jobs.benchmark.results import read
from tests.lab.benchmarks.startup import comparison
from tests.lab.benchmarks.startup.report import write_report
from tests.lab.release_fixtures.carried import carry_over
from tests.lab.release_fixtures.program import done
from tests.lab.release_fixtures.scenes import BROKER, FOLLOW, GROUP, KEYS, TOPICS, WORKER, view, write_group
from tests.lab.release_fixtures.topics import Cluster, SavedRecord, SavedTopic, load_topics
from tests.support.kafka import TestBroker, skip_where_brokers_stay
from tests.support.records import by_key


class Fixture:
    """A scene of a release: its files in a folder of this test, and its topics on the broker of the tests."""

    def __init__(self, saved: Path, folder: Path, broker: TestBroker) -> None:
        self.folder = folder
        self.cluster = Cluster(broker.bootstrap_servers)
        shutil.copytree(saved, folder, dirs_exist_ok=True)
        self.cluster_id, self.topics = load_topics(folder / TOPICS)
        self.name = re.split("-(?:own|shared)-", self.topics[0].name)[0]
        for path in folder.glob("*.properties"):
            path.write_text(path.read_text().replace(BROKER, broker.bootstrap_servers))

    def make_topics(self, **names: str) -> None:
        """Make its topics here, and put their ids, and other names, into its files."""
        ids = self.cluster.make_again(self.topics)
        carry_over(self.folder, {self.cluster_id: self.cluster.cluster_id, **ids, **names})

    def file(self, name: str = WORKER) -> Path:
        return self.folder / name

    def json(self, name: str) -> Any:
        return json.loads(self.file(name).read_text())

    def storage(self, **options: Any) -> ConnectStorage:
        return ConnectStorage(WorkerConfig.from_file(self.file()), **options)

    def elsewhere(self, name: str, worker: str = WORKER) -> Path:
        """Return a worker file with other topics than those of the scene, which ``restore`` creates."""
        path = self.folder / f"{name}.properties"
        path.write_text(self.file(worker).read_text().replace(self.name, name))
        return path

    def read(self, worker: str | Path = WORKER) -> list[SavedTopic]:
        """Read the topics of a worker file."""
        config = WorkerConfig.from_file(self.folder / worker)
        return [self.cluster.read(config.topic(kind)) for kind in TopicType]


@pytest.fixture
def scene(release: Path, tmp_path: Path, broker: TestBroker) -> Iterator[Callable[[str], Fixture]]:
    """Give a scene with its topics; they have the names of the release, for these are part of what it wrote."""
    skip_where_brokers_stay()
    with ExitStack() as stack:

        def made(name: str) -> Fixture:
            found = Fixture(release / name, tmp_path, broker)
            stack.callback(found.cluster.delete, [each.name for each in found.topics])
            found.make_topics()
            return found

        yield made


def _by_key(topic: SavedTopic) -> dict[bytes, list[SavedRecord]]:
    """Return the records of each key in their order, as if all were at one place."""
    return by_key((each.key or b"", replace(each, partition=0, offset=0, key=b"")) for each in topic.records)


@pytest.mark.broker
def test_a_half_done_copy_is_resumed_verified_and_rolled_back(scene: Callable[[str], Fixture]) -> None:
    move = scene("half_done_copy")
    plan, destination = move.file("move.json"), "destination.properties"
    resumed = done("connect-share-migrate", "resume", plan, "--yes", "--output", "json").json["manifest"]
    assert (resumed["status"], resumed["resumed"]) == ("copied", 1)
    assert sum(each["found_present"] for each in resumed["evidence"]) > 0
    assert done("connect-share-migrate", "verify", plan, "--output", "json").json["equal"] is True
    copies = {topic.name: _by_key(topic) for topic in move.read(destination)}
    source = [each for each in move.topics if "-own-" in each.name]
    for topic in source:
        copied = copies[topic.name.replace("-own-", "-shared-")]
        for key, wanted in _by_key(topic).items():
            assert copied.get(f"{GROUP}.".encode() + key) == (None if key == b"session-key" else wanted)
    assert view(move.read(destination), GROUP) == view(source, None)
    done("connect-share-migrate", "rollback", plan, "--yes")
    assert view(move.read(destination), GROUP) == {"connectors": {}, "statuses": {}, "offsets": {}}
    runs = move.json("move.evidence/runs.json")["runs"]
    assert [each["command"] for each in runs] == ["apply", "resume", "verify", "rollback"]


@pytest.mark.broker
def test_a_plan_is_applied(release: Path, tmp_path: Path, broker: TestBroker, unique: str) -> None:
    move = Fixture(release / "half_done_copy", tmp_path, broker)
    for path in (move.file("move.manifest.json"), move.file("move.backup.avro")):
        path.unlink()
    source = [each for each in move.topics if "-own-" in each.name]
    empty = [replace(each, records=()) for each in move.topics if "-shared-" in each.name]
    move.topics = [replace(each, name=each.name.replace(move.name, unique)) for each in [*source, *empty]]
    move.make_topics(**{move.name: unique})
    done("connect-share-migrate", "apply", move.file("move.json"), "--yes")
    assert done("connect-share-migrate", "verify", move.file("move.json"), "--output", "json").json["equal"] is True
    assert view(move.read("destination.properties"), GROUP) == view(source, None)


@pytest.mark.broker
def test_stores_start_from_a_checkpoint(scene: Callable[[str], Fixture]) -> None:
    stores = scene("checkpoint")
    write_group(stores.file("other.properties"))  # behind the checkpoint
    with stores.storage(checkpoint=stores.file("group.checkpoint")) as storage:
        assert (storage.startup.full_read_reason, storage.startup.from_checkpoint) == (None, True)
        assert storage.startup.config.own_records == 0
        seen = (storage.config.snapshot(), storage.status.snapshot(), storage.offsets.snapshot())
    with stores.storage() as storage:
        assert seen == (storage.config.snapshot(), storage.status.snapshot(), storage.offsets.snapshot())
    assert view(stores.read(), GROUP) == stores.json("state.json")


@pytest.mark.broker
def test_a_continuous_backup_goes_on(scene: Callable[[str], Fixture], unique: str) -> None:
    backup = scene("follow")
    folder, worker = backup.file("followed"), backup.file()
    saved = sorted(path.name for path in folder.iterdir())
    write_group(worker, connectors=("new.one",))
    done("connect-share", "export", "-w", worker, "--follow", folder, *FOLLOW)
    assert sorted(path.name for path in folder.iterdir()) == [*saved, "0000000003-increment.avro"]
    for number, state in enumerate(backup.json("states.json")):
        there = backup.elsewhere(f"{unique}-{number}")
        at = datetime.fromtimestamp(state["at_ms"] / 1000, UTC).isoformat()
        done("connect-share", "restore", folder, "-w", there, "--at", at, "--yes")
        assert view(backup.read(there), GROUP) == state["state"]
    there = backup.elsewhere(f"{unique}-now")
    done("connect-share", "restore", folder, "-w", there, "--yes")
    assert view(backup.read(there), GROUP) == view(backup.read(), GROUP)


@pytest.mark.broker
@pytest.mark.parametrize(("file", "worker"), [("plain.avro", WORKER), ("encrypted.avro", "keys.properties")])
def test_backups_are_restored(
    release: Path, tmp_path: Path, broker: TestBroker, unique: str, file: str, worker: str
) -> None:
    backups = Fixture(release / "backups", tmp_path, broker)
    there = backups.elsewhere(unique, worker)
    restored = done("connect-share", "restore", backups.file(file), "-w", there, "--yes", "--output", "json").json
    assert restored["verified"] is True
    assert view(backups.read(there), GROUP) == backups.json("state.json")


def test_sealed_topics_open_with_their_keys_only(release: Path) -> None:
    _, topics = load_topics(release / "sealed" / TOPICS)
    state = json.loads((release / "sealed" / "state.json").read_text())
    assert state["connectors"].keys() == {"my.conn", "status-a", "third"}
    assert view(topics, GROUP, ",".join(KEYS)) == state
    assert view(topics, GROUP, KEYS[0])["connectors"].keys() == {"my.conn", "third"}
    assert view(topics, GROUP)["connectors"] == {}


@pytest.mark.broker
def test_stores_of_a_sealed_group_start_and_write(scene: Callable[[str], Fixture]) -> None:
    group = scene("sealed")
    state = group.json("state.json")
    with group.storage() as storage:
        assert storage.config.snapshot().connectors() == state["connectors"].keys()
        storage.config.put_connector_config("my.conn", {"name": "my.conn", "written": "now"})
    state["connectors"]["my.conn"]["config"] = {"name": "my.conn", "written": "now"}
    assert view(group.read(), GROUP, ",".join(KEYS)) == state


def test_the_result_of_a_benchmark_is_shown_and_compared(release: Path, tmp_path: Path) -> None:
    result = release / "benchmark" / "result.json"
    write_report(read(result), tmp_path)
    assert "a few hundred records" in (tmp_path / "report.md").read_text()
    assert comparison.main([str(result), str(result)]) == 0
