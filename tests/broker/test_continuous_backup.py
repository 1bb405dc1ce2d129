"""``export --follow``: any moment comes back, whatever writes, compacts, kills and wipes meanwhile."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from connect_share.backup.backup_file import BackupFiles, segment_files, shown_time
from connect_share.backup.export import locked_folder
from connect_share.model.config_state import TargetState
from connect_share.model.records import Record, TopicType
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.support.console import console
from tests.support.java_groups import foreign_records
from tests.support.migration_site import SHARED_PARTITIONS, Site
from tests.support.python_group import view
from tests.support.sealed_stores import put, write_offset
from tests.support.topics import COMPACT_NOW
from tests.support.waiting import await_that

COMPACTING = {**COMPACT_NOW, "delete.retention.ms": "600000"}
"""The cleaner takes what is replaced at once, and tombstones later than any round takes."""
STEPS = 12


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    return console(capsys)


def wipe(site: Site) -> None:
    names = [site.topic("shared", topic_type) for topic_type in TopicType]
    with site.admin() as admin:
        admin.delete_topics(names)
        await_that(lambda: admin.describe_topics(names), lambda found: not found, what="topics gone")


class Following:
    """``export --follow`` as a process of its own."""

    def __init__(self, worker: Path, folder: Path) -> None:
        self.folder = folder
        self._words = [sys.executable, "-m", "connect_share", "export", "-w", str(worker), "--follow", str(folder)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self._process = subprocess.Popen([*self._words, "--every", "0.1", "--base-every", "0.02"])

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def await_moment(self) -> int:
        """Wait until everything that is written by now is in the backup; return a time that means that."""
        now_ms = int(time.time() * 1000)

        def is_there() -> bool:
            assert self._process is not None
            assert self._process.poll() is None
            return any(each.is_point and each.at_ms > now_ms for each in segment_files(self.folder))

        await_that(is_there, what="a moment in the backup")
        return int(time.time() * 1000)


@contextmanager
def following(worker: Path, folder: Path) -> Iterator[Following]:
    process = Following(worker, folder)
    process.start()
    try:
        yield process
    finally:
        process.kill()


def live(storage: ConnectStorage, choose: random.Random) -> None:
    """Do what workers do, at random: put, change, remove, commit offsets."""
    for _ in range(STEPS):
        name = choose.choice(["c", "d.e", "task-f-0"])
        known = storage.config.snapshot().contains(name)
        match choose.choice(["put", "offset", "offset", "target", "remove"] if known else ["put"]):
            case "put":
                put(storage, name, choose.randrange(10**6))
            case "offset":
                write_offset(storage, name, choose.choice([None, choose.randrange(10**6)]))
            case "target":
                storage.config.put_target_state(name, choose.choice(list(TargetState)))
            case _:
                storage.config.remove_connector_config(name)
        storage.config.refresh()


def test_three_moments_come_back_as_they_were(site: Site, call: Any) -> None:
    """Others write without a pause, the cleaner runs, the backup is killed; then the topics are gone."""
    site.create("shared", SHARED_PARTITIONS, COMPACTING)
    path, folder = site.worker_file("shared", "one", sharing=True), site.folder / "backup"
    choose = random.Random(site.name)
    moments: list[tuple[int, Any]] = []
    others = (site.settings, site.topic("shared", TopicType.CONFIG), 200)
    with following(path, folder) as process, ConnectStorage(WorkerConfig.from_file(path)) as storage:
        with foreign_records(*others):
            for _ in range(3):
                live(storage, choose)
                process.kill()
                live(storage, choose)
                process.start()
                moments.append((process.await_moment(), view(storage)))
        put(storage, "after", 1)
    files = segment_files(folder)
    assert [each.sequence for each in files] == list(range(1, len(files) + 1))
    for at_ms, model in moments:
        wipe(site)
        done = call("restore", folder, "-w", path, "--at", shown_time(at_ms), "--yes", "--output", "json")
        assert done.code == 0, done.err
        assert done.json["verified"]
        with ConnectStorage(WorkerConfig.from_file(path)) as storage:
            assert view(storage) == model


def test_old_files_go_and_new_topics_begin_anew(site: Site, call: Any) -> None:
    site.create("shared", SHARED_PARTITIONS)
    path, folder = site.worker_file("shared", "one", sharing=True), site.folder / "backup"
    topic = site.topic("shared", TopicType.CONFIG)

    def write(name: str, *more: str) -> list[str]:
        site.produce([Record(topic, 0, 0, 1, f"one.connector-{name}".encode(), b'{"properties":{}}')])
        return once(*more)

    def once(*more: str) -> list[str]:
        done = call("export", "-w", path, "--follow", folder, "--once", *more)
        assert done.code == 0, done.err
        return sorted(each.name for each in folder.glob("*.avro"))

    assert once() == ["0000000001-base.avro"]
    assert write("a") == ["0000000001-base.avro", "0000000002-increment.avro"]
    assert once() == ["0000000001-base.avro", "0000000002-increment.avro"]
    before = shown_time(int(time.time() * 1000))
    assert [record.offset for _, record in BackupFiles.at(folder, None).read_sections()] == [0]
    (folder / ".0000000003-base.part.avro.abcdefgh").write_bytes(b"of a run that was killed")
    wipe(site)
    site.create("shared", SHARED_PARTITIONS)
    assert write("b")[2:] == ["0000000003-base.avro"]
    assert {each.name for each in folder.iterdir()} == set(once())
    other = site.worker_file("shared", "two", sharing=True)
    refused = call("export", "-w", other, "--follow", folder, "--once")
    assert (refused.code, "is the backup of other topics, groups or connectors" in refused.err) == (1, True)
    assert call("restore", folder, "-w", path, "--at", "2020-01-01", "--yes").code == 1
    told = call("restore", folder, "-w", path, "--at", before, "--dry-run", "--output", "json").json
    assert {each["connector"]: (each["added"], each["remaining"]) for each in told["changes"]} == {
        "a": (1, 0),
        "b": (0, 1),
    }
    assert write("c", "--keep", "0") == ["0000000003-base.avro", "0000000004-increment.avro"]
    (folder / "0000000003-base.avro").unlink()  # an increment is of no use then
    assert write("d") == ["0000000004-increment.avro", "0000000005-base.avro"]
    with locked_folder(folder):
        locked = call("export", "-w", path, "--follow", folder, "--once")
    assert (locked.code, "another process writes to" in locked.err) == (1, True)
