"""Backups, cut-overs and rollbacks of sealed groups on a real broker: what running, late, old and new stores have of it."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import GroupMovedError, TopicNotCompactedError
from connect_share.kafka import write as checked_writer
from connect_share.model.config_state import TargetState
from connect_share.model.keys import MARKER
from connect_share.model.records import Record, TopicType
from connect_share.sealing.cipher import is_sealed, key_id
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from migrator import moved_source
from migrator.run import backup_path
from tests.support.migration_runs import roll_back
from tests.support.migration_site import SHARED_PARTITIONS, Site, run
from tests.support.printed import Printed
from tests.support.sealed import key_text, sealed
from tests.support.sealed_sites import done, left, life, newest, planned, targets, worker
from tests.support.sealed_stores import SECRET, current_state, refused

LATER_MS = 600_000


@pytest.fixture
def backed_up(site: Site) -> tuple[Path, Path]:
    """The worker file of a sealed group with two connectors, and a backup of it."""
    site.create("shared", SHARED_PARTITIONS)
    source = worker(site, "shared", "a", 7)
    life(source, "c", "d")
    return source, backup_path(planned(site, source, worker(site, "copy", "a", 7)))


def restore(file: Path, path: Path, *more: str) -> Any:
    return done("restore", file, "--destination-worker-config", path, *more)


def refusal(file: Path, path: Path, *more: str) -> str:
    code, said, errors = run("restore", file, "--destination-worker-config", path, "--yes", *more)
    assert (code, said) == (1, ""), said + errors
    assert key_text(7)[2:] not in errors
    return errors


def write(site: Site, topic_type: TopicType, key: bytes, value: bytes | None, at_ms: int | None = None) -> None:
    """Write as the group's own worker, at this time, or as anybody, in plain."""
    found = [record for record in site.read(site.topic("shared", topic_type)) if record.key == key]
    record = Record(site.topic("shared", topic_type), found[0].partition, 0, 1_700_000_000_000, key, value)
    site.produce([record if at_ms is None else sealed(record, topic_type, written_ms=at_ms)])


def test_running_and_late_stores_believe_what_is_put_back(site: Site, backed_up: tuple[Path, Path]) -> None:
    """The values of the backup are old ones for all readers; those that are put back are the newest."""
    path, file = backed_up
    later_ms = int(time.time() * 1000) + LATER_MS
    offset = b'a.["c",{"filename":"x.txt"}]'
    with ConnectStorage(WorkerConfig.from_file(path)) as running:
        before = current_state(running)
        old = newest(site, "shared", "a")
        write(site, TopicType.CONFIG, b"a.connector-c", b"null", later_ms)
        write(site, TopicType.OFFSET, offset, b'{"position":99}', later_ms)
        assert current_state(running)[0].connectors() == {"d"}
        # The bytes of the backup, written as they are.
        write(site, TopicType.CONFIG, b"a.connector-c", old[b"a.connector-c"])
        assert current_state(running)[0].connectors() == {"d"}
        assert refused(running) == [1, 0, 0]
        told = restore(file, path, "--dry-run")
        assert told["values"] == {"sealed": {"7": 14}, "plain": 0, "refused": 0, "become": 7}
        shown = run("restore", file, "--destination-worker-config", path, "--dry-run")[1]
        assert "sealed in the backup: 14 with key 7; without these keys nobody can read them" in shown
        assert "sealed with key 7 on the way: 14, of which 0 were plain" in shown
        assert "'c': 1 added, 0 changed, 3 same" in shown
        assert SECRET.decode() not in shown
        restore(file, path)
        assert current_state(running)[1:] == before[1:]
        assert current_state(running)[0].connector_config("c") == before[0].connector_config("c")
        assert refused(running) == [1, 0, 0]
        with ConnectStorage(WorkerConfig.from_file(path)) as late:
            assert current_state(late) == current_state(running)
    assert targets(path) == {"c": TargetState.PAUSED, "d": TargetState.PAUSED}


def test_without_keys_bytes_are_put_back_as_they_are(site: Site, backed_up: tuple[Path, Path]) -> None:
    path, file = backed_up
    fresh = worker(site, "fresh", "a", mode="off")
    shown = run("restore", file, "--destination-worker-config", fresh, "--dry-run")[1]
    assert "without these keys nobody can read them" in shown
    assert "the worker file has no keys: sealed values are put back as they are" in shown
    restore(file, fresh)
    old = newest(site, "shared", "a")
    assert newest(site, "fresh", "a") == {key: value for key, value in old.items() if key != b"a.session-key"}
    assert life(worker(site, "fresh", "a", 7))[1:] == life(path)[1:]
    keyless = worker(site, "shared", "a", mode="off")
    assert restore(file, keyless, "--dry-run")["changes"][0]["same"] == 4  # what is there is in the backup
    write(site, TopicType.STATUS, b"a.status-connector-c", b"{}", int(time.time() * 1000) + LATER_MS)
    ends = {topic_type: len(site.read(site.topic("shared", topic_type))) for topic_type in TopicType}
    assert "has 1 sealed value(s) of a.* that are not in the backup and may be newer" in refusal(file, keyless)
    other = worker(site, "shared", "b")
    assert "14 value(s) of the backup are sealed with key 7, which the worker file" in refusal(
        file, other, "--from-group", "a"
    )
    wrong = worker(site, "new", "a", 9)
    assert "14 value(s) of the backup are sealed with key 7, which the worker file" in refusal(file, wrong)
    assert ends == {topic_type: len(site.read(site.topic("shared", topic_type))) for topic_type in TopicType}


def test_to_another_group_with_other_keys(site: Site, backed_up: tuple[Path, Path]) -> None:
    path, file = backed_up
    other = worker(site, "shared", "b", 8, 7)
    told = restore(file, other, "--from-group", "a", "--connector", "c")
    assert told["values"]["become"] == 8
    assert {key_id(value) for value in newest(site, "shared", "b").values() if is_sealed(value)} == {8}
    assert life(other)[0].connector_config("c") == life(path)[0].connector_config("c")
    assert targets(other) == {"c": TargetState.PAUSED}


def test_plain_records_are_sealed_on_the_way_unless_they_lie_beside_sealed_ones(site: Site) -> None:
    site.create("shared", SHARED_PARTITIONS)
    plain, path = worker(site, "shared", "a"), worker(site, "sealed", "a", 7)
    before = life(plain, "c")
    file = backup_path(planned(site, plain, worker(site, "copy", "a")))
    told = restore(file, path)
    assert told["values"] == {"sealed": {}, "plain": 7, "refused": 0, "become": 7}
    assert life(path)[1:] == before[1:]
    assert targets(path) == targets(plain)
    # Somebody writes a plain record beside the sealed ones, which a backup has then.
    topic = site.topic("sealed", TopicType.CONFIG)
    site.produce([Record(topic, 0, 0, 1, b"a.connector-evil", b'{"properties":{}}')])
    mixed = backup_path(planned(site, path, worker(site, "copy", "e", 7)))
    fresh = worker(site, "fresh", "a", 8, 7)
    shown = run("restore", mixed, "--destination-worker-config", fresh, "--dry-run")[1]
    assert "1 plain record(s) beside sealed ones are not accepted: to restore them, set encryption=accept" in shown
    assert restore(mixed, fresh)["skipped"] == {"refused": 1}
    assert targets(fresh) == {"c": TargetState.PAUSED}
    restore(mixed, worker(site, "fresh", "a", 8, 7, mode="accept"))
    assert targets(fresh) == {"c": TargetState.PAUSED, "evil": TargetState.STARTED}


@pytest.mark.slow
def test_the_old_workers_stop_and_start_again_and_the_new_ones_lose_the_copies(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.create("own shared", SHARED_PARTITIONS)
    source, destination = worker(site, "own", "a", 7), worker(site, "shared", "b", 8)
    before = life(source, "c", "d")
    topic = site.topic("own", TopicType.CONFIG)
    forged = b'{"state":"PAUSED","state.v2":"STOPPED"}'
    site.produce(
        [
            Record(topic, 0, 0, 1, b"a.target-state-c", forged),  # whoever believes it thinks that c is stopped
            Record(topic, 0, 0, 1, b"a.connector-d", None),
        ]
    )
    plan = planned(site, source, destination)
    shown = json.loads(run("cutover", plan, "--dry-run", "--output", "json")[1])
    assert (shown["seal_records"], shown["connectors"]) == ({topic: 2}, ["c", "d"])
    assert done("cutover", plan)["manifest"]["sealed"]["records"] == 2
    with pytest.raises(TopicNotCompactedError):  # the fence
        life(source)
    assert life(destination)[1:] == before[1:]
    assert {key_id(record.value) for record in site.read(topic)[-2:] if is_sealed(record.value)} == {7}
    assert done("unseal", plan)["connectors"] == 2
    assert life(source)[1:] == before[1:]
    assert targets(source) == {"c": TargetState.PAUSED, "d": TargetState.PAUSED}

    # Killed between a removal and the tombstone behind it, then repeated.
    def some(workers: Sequence[WorkerConfig], records: Any, **_: Any) -> int:
        checked_writer.write_records(workers, itertools.islice(records, 3))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(moved_source, "write_records", some)
        with pytest.raises(KeyboardInterrupt):
            roll_back(plan)
    found = roll_back(plan, dry_run=True)
    assert (found.records, found.newer) == (len(newest(site, "shared", "b")) - 2, {})  # two were removed
    roll_back(plan)
    assert left(destination) == []
    ends = {key: value for key, value in newest(site, "shared", "b").items() if value is not None}
    assert ends.keys() == {b"b." + MARKER[0], b"b.connector-c"}  # the second had no tombstone yet when it was killed
    assert {key_id(value) for value in ends.values()} == {8}
    assert targets(source) == {"c": TargetState.PAUSED, "d": TargetState.PAUSED}
    planned(site, source, destination)  # and again: the copies are newer than the removals
    assert life(destination)[1:] == before[1:]


def test_originals_beside_their_copies_are_removed(site: Site, printed: Printed) -> None:
    """First one connector of a group that lives on, then the rest; there is a tombstone only where nobody refuses it."""
    site.create("shared", SHARED_PARTITIONS)
    source, canary, destination = (worker(site, "shared", *each) for each in (("a", 7), ("b", 8), ("c",)))
    before = life(source, "c", "d")
    raw = newest(site, "shared", "a")
    done("cutover", planned(site, source, canary, "--job", "c"))
    assert targets(source) == {"d": TargetState.PAUSED}
    assert targets(canary) == {"c": TargetState.PAUSED}
    assert None not in newest(site, "shared", "a").values()
    with ConnectStorage(WorkerConfig.from_file(source)) as storage:
        assert refused(storage) == [0, 0, 0]
        without_c = current_state(storage)
    assert without_c[0].session_key is not None
    plan = planned(site, source, destination)
    done("cutover", plan)
    with pytest.raises(GroupMovedError):
        left(source)
    assert targets(destination) == {"d": TargetState.PAUSED}
    assert life(destination)[0].connector_config("d") == before[0].connector_config("d")
    now = newest(site, "shared", "a")
    assert now.keys() == raw.keys() | {b"a." + MARKER[0]}
    of_c = {key for key in raw if b'"c"' in key or (b".status-" in key and key.rstrip(b"-0").endswith(b"-c"))}
    gone = raw.keys() - of_c
    assert {key for key, value in now.items() if value is None} == gone
    assert b"a.session-key" in gone
    code, _, errors = run("rollback", plan, "--yes")
    assert (code, "the originals of a were removed; put them back first" in errors) == (1, True)
    for command in re.findall(r"connect-share-migrate restore .*?(?=, then|$)", errors, re.MULTILINE):
        ran = printed(command, "--yes")
        assert ran.code == 0, ran.err
    assert run("rollback", plan, "--yes")[0] == 0
    assert (left(destination), life(source)[1:]) == ([], without_c[1:])


def test_a_source_that_nobody_can_look_into_is_not_sealed(site: Site) -> None:
    site.create("own shared", SHARED_PARTITIONS)
    life(worker(site, "own", "a", 7), "c")
    plan = planned(site, worker(site, "own", "a", mode="off"), worker(site, "shared", "a", mode="off"))
    for command, says in (("cutover", "nobody can see its connectors"), ("rollback", "new workers would accept no")):
        code, _, errors = run(command, plan, "--yes")
        assert (code, says in errors) == (1, True), errors
