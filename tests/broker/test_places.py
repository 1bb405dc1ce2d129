"""Commands on keys that lie in several partitions of a topic, as after partitions were added."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from connect_share.model.murmur2 import partition_for
from connect_share.model.places import counting
from connect_share.model.records import Record, TopicType
from connect_share.sealing.cipher import Cipher
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.support.long_forms import LONG
from tests.support.migration_site import PARTITIONS, Site, pair, run, run_well
from tests.support.sealed_sites import done, planned, worker
from tests.support.topics import newest_by_partition

OFFSET, STATUS, CONFIG = TopicType.OFFSET, TopicType.STATUS, TopicType.CONFIG
NOW = 1_760_000_000_000
NUMBERS = range(8)
CONFIGURATION = '{"properties":{"name":"c","tasks.max":"1"}}'


def offset_key(prefix: str, number: int) -> bytes:
    return prefix.encode() + b'["c",{"n":%d}]' % number


def position(value: bytes | None) -> int | None:
    return None if value is None else int(json.loads(value)["position"])


class Scattered:
    """A group whose keys have an older and a newer record in two partitions; of every other key the stray one is newer."""

    def __init__(self, site: Site, prefix: str = "one.", who: str = "shared", *, connector: bool = True) -> None:
        self.site, self.prefix, self.who = site, prefix, who
        site.create(who)
        if connector:
            site.lay_down(who, CONFIG, [pair(f"{prefix}connector-c", CONFIGURATION)])

    def lay(self, worker_file: Path | None = None) -> None:
        """Write offsets and statuses, sealed by the keys of a worker file."""
        for topic_type in (OFFSET, STATUS):
            keys = None if worker_file is None else WorkerConfig.from_file(worker_file).keys_in_use
            cipher = None if keys is None else Cipher(keys, topic_type)
            records = []
            for number in NUMBERS:
                key = self.key(topic_type, number)
                placed = partition_for(key, PARTITIONS[topic_type])
                stray = (placed + 1 + number) % PARTITIONS[topic_type]
                stray = (placed + 1) % PARTITIONS[topic_type] if stray == placed else stray
                for at, newer in ((placed, number % 2), (stray, 1 - number % 2)):
                    value, at_ms = self.value(topic_type, number, newer), NOW + number + newer * 1000
                    if cipher is not None:  # the time of the record is the stranger's
                        value, at_ms = cipher.seal(key, value, at_ms), NOW - newer
                    records.append(Record(self.site.topic(self.who, topic_type), at, 0, at_ms, key, value))
            self.site.produce(records)

    def key(self, topic_type: TopicType, number: int) -> bytes:
        if topic_type is OFFSET:
            return offset_key(self.prefix, number)
        return f"{self.prefix}status-task-c-{number}".encode()

    @staticmethod
    def value(topic_type: TopicType, number: int, newer: int) -> bytes:
        """Return the value that counts if ``newer`` is 1, else one that must not."""
        if topic_type is OFFSET:
            return b'{"position":%d}' % (number if newer else -1)
        return b'{"state":"RUNNING","trace":null,"worker_id":"w:8083","generation":%d}' % (number if newer else 99)

    def living(self, topic_type: TopicType) -> dict[bytes, dict[int, bytes]]:
        """Return the newest values of each of the group's keys, by partition; those of removed ones are left out."""
        return living(self.site, self.who, topic_type, self.prefix)


def living(site: Site, who: str, topic_type: TopicType, prefix: str) -> dict[bytes, dict[int, bytes]]:
    return newest_by_partition(site.read(site.topic(who, topic_type)), prefix.encode())


def state(path: Path) -> tuple[dict[bytes, int | None], dict[int, int]]:
    """Return the offsets and the generations of tasks that stores have after a start."""
    with ConnectStorage(WorkerConfig.from_file(path)) as storage:
        offsets = {key: position(value) for key, value in storage.offsets.snapshot().raw.items()}
        statuses = {each.task_id.task: each.generation for each in storage.status.snapshot().task_statuses("c")}
    return offsets, statuses


EXPECTED = ({offset_key("", number): number for number in NUMBERS}, {number: number for number in NUMBERS})


@pytest.mark.parametrize("sealed", [False, True])
def test_a_group_that_is_deleted_is_gone_and_comes_back(site: Site, call: Any, sealed: bool) -> None:
    scattered = Scattered(site, connector=not sealed)
    path = worker(site, "shared", "one", 7) if sealed else site.worker_file("shared", "one", sharing=True)
    if sealed:
        with ConnectStorage(WorkerConfig.from_file(path)) as storage:
            storage.config.put_connector_config("c", {"name": "c"})
    scattered.lay(path if sealed else None)
    backup = site.folder / "one.avro"
    told = call("delete", "group", "one", "-w", path, "--yes", "--backup", backup)
    assert told.code == 0, told.err
    assert scattered.living(OFFSET) == scattered.living(STATUS) == {}
    assert state(path) == ({}, {})
    told = call("restore", backup, "-w", path, "--yes")
    assert told.code == 0, told.err
    assert state(path) == EXPECTED
    # What was removed everywhere is put back once, where murmur2 places it.
    assert {len(places) for places in scattered.living(OFFSET).values()} == {1}


def test_reseal(site: Site, call: Any) -> None:
    scattered = Scattered(site, connector=False)
    scattered.lay(worker(site, "shared", "one", 7))
    path = worker(site, "shared", "one", 9, 7)
    assert state(path) == EXPECTED
    done("reseal", "-w", path)
    only = worker(site, "shared", "one", 9)
    assert state(only) == EXPECTED
    opened = Cipher(WorkerConfig.from_file(only).keys_in_use, OFFSET)  # type: ignore[arg-type]
    for key, places in scattered.living(OFFSET).items():
        values = {position(opened.open(key, value).value) for value in places.values()}
        assert values == {EXPECTED[0][key[4:]]}


@pytest.mark.parametrize("mode", ["mirror", "state"])
def test_a_move_leaves_one_record_of_each_key(site: Site, mode: str) -> None:
    """What ``check startup`` and ``get`` advise: then a worker without any rule has the same state."""
    scattered = Scattered(site, "", "own")
    scattered.lay()
    tie, values = b'["c",{"tie":1}]', (b'{"position":-1}', b'{"position":5}')
    placed = partition_for(tie, PARTITIONS[OFFSET])
    site.produce(
        [
            Record(site.topic("own", OFFSET), at, 0, NOW, tie, value)
            for at, value in zip(((placed + 1) % PARTITIONS[OFFSET], placed), values, strict=True)
        ]
    )
    source, destination = site.worker_file("own", "orders", sharing=False), site.shared("new")
    plan = planned(site, source, destination, "--mode", mode)
    warnings = [each for each in json.loads(plan.read_text())["warnings"] if "in several partitions" in each]
    assert [f" {len(NUMBERS)} key(s)" in each for each in warnings] == [True, False]
    kinds = [(each, number) for each in (OFFSET, STATUS) for number in NUMBERS]
    expected = {b"new." + scattered.key(*each): scattered.value(*each, 1) for each in kinds}
    expected[b"new." + tie] = values[1]
    found = living(site, "shared", OFFSET, "new.") | living(site, "shared", STATUS, "new.")
    assert {key: [*places.values()] for key, places in found.items()} == {key: [each] for key, each in expected.items()}
    assert state(destination) == (EXPECTED[0] | {tie: 5}, EXPECTED[1])
    code, _, errors = run("verify", plan)
    assert code == 0, errors
    run_well("cutover", plan, "--seal", "remove", "--yes")
    assert scattered.living(OFFSET) == scattered.living(STATUS) == {}
    backup = plan.with_name(f"{plan.stem}.backup.avro")
    run_well("restore", backup, "--destination-worker-config", source, "--yes")
    for kind in (OFFSET, STATUS):
        put_back = {key: [*places.values()] for key, places in scattered.living(kind).items()}
        once = {scattered.key(kind, number): [scattered.value(kind, number, 1)] for number in NUMBERS}
        assert put_back == (once | {tie: [values[1]]} if kind is OFFSET else once)
    run_well("rollback", plan, "--yes")
    assert living(site, "shared", OFFSET, "new.") == living(site, "shared", STATUS, "new.") == {}


LAYOUTS = 20_000 if LONG else 150


def random_layouts(site: Site, who: str, prefix: str) -> dict[bytes, int]:
    """Write each key in a random order to random partitions, with few times; return the positions that count."""
    chosen, partitions, records = random.Random(1173), PARTITIONS[OFFSET], list[Record]()
    newest: dict[bytes, dict[int, Record]] = {}
    for number in range(LAYOUTS):
        for _ in range(chosen.randrange(1, 7)):
            key, at = offset_key(prefix, number), chosen.randrange(partitions)
            value = b'{"position":%d}' % len(records) if chosen.random() < 0.7 else None
            records.append(Record(site.topic(who, OFFSET), at, 0, NOW + chosen.randrange(4), key, value))
    chosen.shuffle(records)
    site.produce(records)
    for record in records:
        newest.setdefault(record.key or b"", {})[record.partition] = record
    found = {key: position(counting(each.values(), partitions).value) for key, each in newest.items()}
    return {key[len(prefix) :]: at for key, at in found.items() if at is not None}


@pytest.mark.timeout(3_600 if LONG else 600)
def test_random_layouts_over_commands(site: Site, call: Any) -> None:
    """Every key is a layout of its own."""
    Scattered(site)
    path, backup = site.worker_file("shared", "one", sharing=True), site.folder / "one.avro"
    expected = random_layouts(site, "shared", "one.")
    shown = call("get", "offsets", "-w", path, "--output", "json")
    got = {offset_key("", each["partition"]["n"]): each["offset"]["position"] for each in shown.json["offsets"]}
    assert got == state(path)[0] == expected
    assert " keys of one in several partitions" in shown.err
    assert call("export", "-w", path, "-o", backup).code == 0
    with ConnectStorage(WorkerConfig.from_file(path)) as storage:
        storage.offsets.set({b"one." + key: b'{"position":-1}' for key in expected}).result(60)
    assert call("restore", backup, "-w", path, "--yes").code == 0
    assert state(path)[0] == expected
    places = living(site, "shared", OFFSET, "one.")  # the value is in each of them
    assert all({position(value) for value in places[b"one." + key].values()} == {at} for key, at in expected.items())
    Scattered(site, "", "own")
    expected, destination = random_layouts(site, "own", ""), site.shared("two")
    plan = site.plan(site.worker_file("own", "old", sharing=False), destination)
    for command in ("apply", "verify", "cutover"):
        run_well(command, plan, *(["--yes"] if command != "verify" else []))
    assert state(destination)[0] == expected
    assert {len(places) for places in living(site, "shared", OFFSET, "two.").values()} == {1}
