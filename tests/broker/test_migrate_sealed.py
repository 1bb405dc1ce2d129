"""Moves between plain, sealed and re-keyed groups on a real broker, with what co-tenants have written at the source."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import ConfigError, SourceChangedError
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KEYS_PROPERTY, KeyRing
from connect_share.sealing.cipher import is_sealed, key_id
from connect_share.sealing.seals import ANNOUNCED
from connect_share.transform.rules import SkipReason
from migrator.apply import Follower
from migrator.moves import Intent
from migrator.plan import MigrationPlan
from migrator.run import Manifest, locked_run, manifest_path
from migrator.survey import survey
from tests.support.migration_runs import apply_plan, verify_plan
from tests.support.migration_site import SHARED_PARTITIONS, Site, run
from tests.support.sealed import key_text, sealed
from tests.support.sealed_sites import state, worker
from tests.support.sealed_stores import MODE

SECRET = "hunter2-zebra"
NOW_MS = 1_700_000_000_000
STEP_MS = 120_000
"""Between two values of a key: more than the leeway of readers."""
LIFE: dict[TopicType, list[tuple[str, str | None]]] = {
    TopicType.CONFIG: [
        ("session-key", '{"key":"AAEC","algorithm":"HmacSHA256","creation-timestamp":1}'),
        ("connector-c", '{"properties":{"name":"c","password":"hunter2-zebra-old"}}'),
        ("connector-c", '{"properties":{"name":"c","password":"hunter2-zebra"}}'),
        ("task-c-0", '{"properties":{"password":"hunter2-zebra"}}'),
        ("commit-c", '{"tasks":1}'),
        ("target-state-c", '{"state":"PAUSED","state.v2":"STOPPED"}'),
        ("connector-d", '{"properties":{"name":"d"}}'),
        ("connector-gone", '{"properties":{}}'),
        ("connector-gone", None),
    ],
    TopicType.STATUS: [
        ("status-connector-c", '{"state":"FAILED","trace":"hunter2-zebra","worker_id":"w:1","generation":3}'),
        ("status-task-c-0", '{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":3}'),
        ("status-task-gone-0", '{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":3}'),
        ("status-task-gone-0", None),
    ],
    TopicType.OFFSET: [
        ('["c",{"file":"x"}]', '{"position":1,"token":"hunter2-zebra"}'),
        ('["c",{"file":"x"}]', '{"position":42}'),
        ('["gone",{"file":"x"}]', '{"position":1}'),
        ('["gone",{"file":"x"}]', None),
    ],
}


def records_of(site: Site, who: str, topic_type: TopicType, group: str | None, keys: str | None) -> list[Record]:
    """The life of the group as its workers write it, each value long after the one before."""
    found = []
    for number, (key, value) in enumerate(LIFE[topic_type]):
        raw = ("" if group is None else f"{group}.").encode() + key.encode()
        at_ms, partition = NOW_MS + number * STEP_MS, partition_for(raw, SHARED_PARTITIONS[topic_type])
        record = Record(
            site.topic(who, topic_type), partition, 0, at_ms, raw, None if value is None else value.encode()
        )
        found.append(record if keys is None else sealed(record, topic_type, written_ms=at_ms, keys=KeyRing.parse(keys)))
    return found


def attacks(site: Site, who: str, topic_type: TopicType, group: str, records: list[Record]) -> list[Record]:
    """A plain value, a tombstone, the value of another key, and one of long ago, each over a key of the group."""
    newest = {record.key: record for record in records}
    key = records[1].key if topic_type is TopicType.CONFIG else records[0].key
    assert key is not None
    stranger = key.replace(b'"c"', b'"evil"') if topic_type is TopicType.OFFSET else key[:-1] + b"evil"
    first = next(record for record in records if record.key == key)
    made = [(key, b'{"properties":{"evil":"1"}}'), (key, None), (key, records[-1].value), (stranger, newest[key].value)]
    if first is not newest[key]:
        made.append((key, first.value))
    partitions = SHARED_PARTITIONS[topic_type]
    topic = site.topic(who, topic_type)
    return [Record(topic, partition_for(k, partitions), 0, NOW_MS + 10 * STEP_MS, k, value) for k, value in made]


def lay_down(site: Site, who: str, group: str | None, keys: str | None, *, attacked: bool = False) -> None:
    for topic_type in TopicType:
        records = records_of(site, who, topic_type, group, keys)
        site.produce(records)
        if attacked and group is not None:
            site.produce(attacks(site, who, topic_type, group, records))


def forms(site: Site, who: str, group: str | None) -> set[int | None]:
    """What the values of a group are sealed with; ``None`` is plain."""
    prefix = b"" if group is None else f"{group}.".encode()
    values = [
        record.value
        for topic_type in TopicType
        for record in site.read(site.topic(who, topic_type))
        if (record.key or b"").startswith(prefix)
    ]
    return {key_id(value) if is_sealed(value) else None for value in values}


def moved(site: Site, source: Path, destination: Path, *more: str, name: str = "plan.json") -> tuple[Path, str]:
    """Plan, apply and verify with the commands; what they say and write holds no secret."""
    plan = site.folder / name
    told = ""
    commands: tuple[tuple[str | Path, ...], ...] = (
        ("plan", "--source-worker-config", source, "--destination-worker-config", destination, "-o", plan, *more),
        ("apply", plan, "--yes"),
        ("verify", plan),
    )
    for arguments in commands:
        code, said, errors = run(*arguments)
        told += said + errors
        assert code == 0, told
    files = [plan.read_text(), manifest_path(plan).read_text()]
    files += [path.read_text() for path in plan.with_suffix(".evidence").rglob("*") if path.is_file()]
    assert SECRET not in told + "".join(files)
    for number in (7, 8):
        assert key_text(number).partition(":")[2] not in told + "".join(files)
    return plan, told


@pytest.mark.parametrize(
    ("there", "here"),
    [
        pytest.param((None,), ("a", 8), id="dedicated-sealed"),
        pytest.param(("a", 7), ("b",), id="sealed-plain"),
        pytest.param(("a", 7), ("a", 8), id="rekeyed"),
    ],
)
def test_every_direction(site: Site, there: Any, here: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Given are groups with the ids of their keys."""
    caplog.set_level(logging.DEBUG)
    site.create("own shared", SHARED_PARTITIONS)
    sealed_there, sealed_here = bool(there[1:]), bool(here[1:])
    lay_down(site, "own", there[0], key_text(*there[1:]) if sealed_there else None, attacked=sealed_there)
    source, destination = worker(site, "own", *there), worker(site, "shared", *here)
    plan_path, told = moved(site, source, destination)
    assert state(destination) == state(source)
    assert forms(site, "shared", here[0]) == ({here[1]} if sealed_here else {None})
    counts = {kind: topic.counts for kind, topic in MigrationPlan.load(plan_path).sources[0].topics.items()}
    evidence = Manifest.load(manifest_path(plan_path)).evidence
    for topic_type in TopicType:
        refused = {TopicType.STATUS: 4}.get(topic_type, 5) if sealed_there else 0
        assert counts[topic_type].skipped.get(SkipReason.REFUSED, 0) == refused
        copied = [each.skipped.get(SkipReason.REFUSED, 0) for each in evidence if each.topic_type is topic_type]
        assert sum(copied) == refused
    if sealed_there:
        assert "5 refused" in told
        for command, end in (("cutover", "--yes"), ("seal", "--dry-run"), ("unseal", "--dry-run")):
            previewed = json.loads(run(command, plan_path, "--dry-run", "--output", "json")[1])
            assert previewed["refused"] == {"config": 5, "status": 4, "offset": 5}, command
            assert run(command, plan_path, end)[0] == 0
    if sealed_there and not sealed_here:
        assert "the copies are plain" in told
    assert SECRET not in "".join(record.getMessage() + str(record.exc_text) for record in caplog.records)


def test_in_place_in_state_mode_and_one_connector(site: Site) -> None:
    """The same topics, another prefix and other keys; then one connector of it goes to a third group."""
    site.create("shared", SHARED_PARTITIONS)
    lay_down(site, "shared", "a", key_text(7), attacked=True)
    source = worker(site, "shared", "a", 7)
    renamed = worker(site, "shared", "b", 8, mode="accept")
    moved(site, source, renamed, "--mode", "state")
    assert state(renamed)[:4] == state(source)[:4]
    third = worker(site, "shared", "c", 9)
    moved(site, renamed, third, "--job", "c", name="job.json")
    configs, tasks, targets, offsets, statuses = state(third)
    assert (configs.keys(), tasks.keys(), targets.keys()) == ({"c"}, {"c-0"}, {"c"})
    assert offsets == {b'["c",{"file":"x"}]': b'{"position":42}'}
    assert statuses.connector_status("c") == state(source)[4].connector_status("c")


def test_without_keys_values_are_carried_as_they_are(site: Site) -> None:
    site.create("own shared", SHARED_PARTITIONS)
    lay_down(site, "own", "a", key_text(7))
    source, destination = worker(site, "own", "a", mode="off"), worker(site, "shared", "a", mode="off")
    plan_path, told = moved(site, source, destination)
    assert "sealed values are copied as they are; they open with the same keys only" in told
    assert MigrationPlan.load(plan_path).sources[0].connectors == 3
    assert state(worker(site, "shared", "a", 7)) == state(worker(site, "own", "a", 7))
    newest = site.read(site.topic("shared", TopicType.OFFSET))[0]
    forged = sealed(replace(newest, value=b"{}"), TopicType.OFFSET, keys=KeyRing.parse(key_text(7)))
    site.produce([forged])
    [difference] = verify_plan(plan_path).differences
    assert (difference.kind, difference.connector) == ("sealed_value", "c")
    # Plans of 0.3 were made of files that say nothing.
    third = worker(site, "third", "a", mode="off")
    plan_path = site.plan(source, third, name="older.json")
    for path in (source, third):
        path.write_text(path.read_text().replace(f"{MODE}=off", ""))
    assert run("apply", plan_path, "--yes")[0] == 0
    assert state(worker(site, "third", "a", 7)) == state(worker(site, "own", "a", 7))


def test_what_cannot_be_opened_is_refused_before_anything_is_written(site: Site) -> None:
    site.create("own", SHARED_PARTITIONS)
    lay_down(site, "own", "a", key_text(7))
    plan = site.folder / "plan.json"
    lost = "all 7 value(s) of a are sealed, but its worker file has no keys: give it those in"
    other = "is sealed with key 7, and no value of the group opens, but"
    for source, destination, says in (
        (worker(site, "own", "a", mode="off"), worker(site, "shared", "b"), lost),
        (worker(site, "own", "a", mode="off"), worker(site, "shared", "a", 7), lost),
        (worker(site, "own", "a", mode="off"), worker(site, "shared", None), lost),
        (worker(site, "own", "a", 9), worker(site, "shared", "a", 7), other),
    ):
        code, said, errors = run(
            "plan", "--source-worker-config", source, "--destination-worker-config", destination, "-o", plan
        )
        assert (code, plan.exists()) == (2, False), said + errors
        assert site.topic("own", TopicType.CONFIG) in errors
        assert says in errors
        assert KEYS_PROPERTY in errors
    for keys, connectors, unopened in ((), [], 12), ((7,), ["c", "d"], 0):
        [group] = survey([worker(site, "own", "a", *keys)]).groups
        assert ([each.name for each in group.connectors], group.unopened) == (connectors, unopened)
    code, said, errors = run("survey", "--source-worker-config", worker(site, "own", "a"))
    assert (code, SECRET in said + errors, "Refused" in errors) == (0, False, False)  # which says "this worker"
    assert re.search(r"^a +\S+ +source +none +- +- +", said, re.MULTILINE)  # not 0 connectors
    assert "12 key(s) have sealed values, and no worker file here has their keys" in said
    with site.admin() as admin:
        assert not admin.describe_topics([site.topic("shared", each) for each in TopicType])


def test_an_old_value_between_two_rounds_is_not_mirrored(site: Site) -> None:
    site.create("own shared", SHARED_PARTITIONS)
    lay_down(site, "own", "a", key_text(7))
    source, destination = worker(site, "own", "a", 7), worker(site, "shared", "b", 8)
    plan = site.plan(source, destination, intent=Intent(follow=True))
    apply_plan(plan)
    keys, topic = KeyRing.parse(key_text(7)), site.topic("own", TopicType.CONFIG)
    old = next(record for record in site.read(topic) if record.key == b"a.connector-c")

    def value(number: int) -> Record:
        raw = b'{"properties":{"name":"c","n":"%d"}}' % number
        record = Record(topic, 0, 0, NOW_MS, b"a.connector-c", raw)
        return sealed(record, written_ms=NOW_MS + (100 + number) * STEP_MS, keys=keys)

    for number in range(2):  # each time a new process: what was read before is read again
        with locked_run(plan) as following:
            follower = Follower(following)
            site.produce([replace(old, timestamp_ms=NOW_MS)])
            assert follower.round().written == number * 2
            site.produce([value(number * 2)])
            assert follower.round().written == number * 2 + 1
            site.produce([replace(old, timestamp_ms=NOW_MS), value(number * 2 + 1)])
            assert follower.round().written == number * 2 + 2
            site.produce([value(number * 2)])  # of the round before
            assert follower.round().written == number * 2 + 2
            assert state(destination)[0]["c"] == {"name": "c", "n": str(number * 2 + 1)}
        assert verify_plan(plan).equal
    other = sealed(Record(topic, 0, 0, NOW_MS, b"a.connector-d", b'{"properties":{}}'), keys=KeyRing.parse(key_text(9)))
    site.produce([other])
    with locked_run(plan) as following:
        written = Follower(following).round().written  # a stranger's
        assert verify_plan(plan).equal
        says = Record(topic, 0, 0, NOW_MS, b"a." + ANNOUNCED + b"9-7", None)
        site.produce([sealed(says, written_ms=NOW_MS + 200 * STEP_MS, keys=keys), other])
        for look in (Follower(following).round, partial(verify_plan, plan)):
            with pytest.raises(ConfigError, match="says that the group uses key 9"):
                look()
    assert written == Manifest.load(manifest_path(plan)).followed.written  # type: ignore[union-attr]


def test_what_others_write_at_the_destination_does_not_count(site: Site) -> None:
    """Forged before the move, it does not keep it from happening; forged or repeated afterwards, it changes nothing.

    The group was here before, and was removed later than its originals were written.
    """
    site.create("own shared", SHARED_PARTITIONS)
    lay_down(site, "own", None, None)
    topic = site.topic("shared", TopicType.CONFIG)
    forged = Record(topic, 0, 0, NOW_MS, b"a.connector-c", b'{"properties":{}}')
    keys, later_ms = KeyRing.parse(key_text(7)), NOW_MS + 1000 * STEP_MS
    for topic_type in TopicType:
        here = records_of(site, "shared", topic_type, "a", None)[1:2]
        removed = [replace(each, value=b"null" if topic_type is TopicType.CONFIG else None) for each in here]
        site.produce([sealed(each, topic_type, written_ms=NOW_MS, keys=keys) for each in here])
        site.produce([sealed(each, topic_type, written_ms=later_ms, keys=keys) for each in removed])
    site.produce([forged])
    source, destination = worker(site, "own", None), worker(site, "shared", "a", 7)
    plan, _ = moved(site, source, destination)
    copies = [record for record in site.read(topic) if record.key == b"a.connector-c"]
    assert len(copies) == 5
    site.produce([forged, copies[0], replace(forged, value=None)])
    for topic_type in TopicType:
        assert verify_plan(plan).equal, topic_type
    assert state(destination) == state(source)
    code, said, errors = run("cutover", plan, "--dry-run")
    assert code == 0, errors
    assert "new workers" not in said + errors
    assert json.loads(plan.read_text())["sources"][0]["destination_sealing"]["key_ids"] == [7]


def test_only_what_the_group_has_sealed_is_growth_of_the_source(site: Site) -> None:
    site.create("own shared", SHARED_PARTITIONS)
    lay_down(site, "own", "a", key_text(7))
    source, destination = worker(site, "own", "a", 7), worker(site, "shared", "b", 8)
    first, second = (site.plan(source, destination, name) for name in ("first.json", "second.json"))
    records = records_of(site, "own", TopicType.CONFIG, "a", key_text(7))
    site.produce(attacks(site, "own", TopicType.CONFIG, "a", records)[:3])  # no value of long ago: that needs a memory
    apply_plan(first)
    assert verify_plan(first).equal
    site.produce(records[-1:])
    with pytest.raises(SourceChangedError):
        apply_plan(second)
