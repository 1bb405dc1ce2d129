"""A stopped group removed from its topics: by the rule of each topic, behind a backup, with nothing of others touched."""

from __future__ import annotations

from typing import Any

import pytest

from connect_share.model.connect_json import JSON_NULL
from connect_share.model.keys import ClusterGroupId, own_key
from connect_share.model.records import Record, TopicType
from connect_share.replay import replay_config
from tests.support.console import console
from tests.support.java_groups import foreign_records
from tests.support.killed_rewrite import kill_in_the_rewrite
from tests.support.migration_site import SHARED_PARTITIONS, SMALL, Site, pair
from tests.support.sealed_sites import left, life, worker

MANY = 2_500
ONE = ClusterGroupId("one")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    return console(capsys)


@pytest.fixture
def shared(site: Site) -> Site:
    """Shared topics with the groups one and one.two, a cluster with plain keys, and garbage."""
    site.create("shared")
    for group in ("one.", "one.two.", ""):
        for topic_type, records in SMALL.items():
            site.lay_down("shared", topic_type, [(group + key, value, None) for key, value, _ in records])
    site.lay_down("shared", TopicType.CONFIG, [pair("garbage", "x"), pair("one.garbage", "x")])
    return site


def newest(site: Site, topic_type: TopicType) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in site.read(site.topic("shared", topic_type))}


def others(site: Site) -> list[Record]:
    """What groups other than one have, and garbage."""
    records = [(kind, record) for kind in TopicType for record in site.read(site.topic("shared", kind))]
    return [record for kind, record in records if own_key(kind, record.key or b"", ONE) is None]


def test_a_group_goes_by_the_rule_of_each_topic_and_comes_back(shared: Site, call: Any) -> None:
    path, backup = shared.worker_file("shared", "one", sharing=True), shared.folder / "one.avro"
    words = ("delete", "group", "one", "-w", path, "--output", "json")
    untouched, before = others(shared), {t: newest(shared, t) for t in TopicType}
    dry = call(*words, "--dry-run").json
    assert {kind: each["to_remove"] for kind, each in dry["topics"].items()} == {"config": 6, "status": 2, "offset": 1}
    assert (dry["connectors"], dry["other_groups"]) == (["a.b"], 2)
    assert {t: newest(shared, t) for t in TopicType} == before
    unasked = call(*words, "--backup", backup)
    assert (unasked.code, backup.exists()) == (1, False)
    told = call(*words, "--backup", backup, "--yes").json
    assert (told["removed"], told["others_wrote"]) == (9, 0)
    for topic_type in TopicType:
        gone = JSON_NULL if topic_type is TopicType.CONFIG else None
        expected = {
            key: value if own_key(topic_type, key or b"", ONE) is None else gone
            for key, value in before[topic_type].items()
        }
        assert newest(shared, topic_type) == expected
    assert others(shared) == untouched
    again = call(*words, "--yes")
    assert (again.code, again.json["backup"], again.json["removed"]) == (0, None, 0)
    assert call("restore", backup, "-w", path, "--yes").code == 0
    after: Any = {t: newest(shared, t) for t in TopicType}
    secrets: dict[bytes | None, bytes | None] = {b"one.session-key": JSON_NULL, b"one.restart-connector-a.b": JSON_NULL}
    assert after == {**before, TopicType.CONFIG: {**before[TopicType.CONFIG], **secrets}}


def test_plain_keys_go_as_java_removes_them(shared: Site, call: Any) -> None:
    """By tombstones, with the worker file of the plain cluster only."""
    path = shared.worker_file("shared", "plain", sharing=False)
    one = shared.worker_file("shared", "one", sharing=True)
    refused = call("delete", "group", "(plain)", "-w", one, "--yes")
    assert refused.code == 2
    assert "give the worker file of the cluster with plain keys" in refused.err
    assert "have no record of group three" in call("delete", "group", "three", "-w", one, "--yes").err
    assert call("delete", "group", "(plain)", "-w", path, "--yes").code == 0
    for topic_type, records in SMALL.items():
        found = newest(shared, topic_type)
        assert all(found[key.encode()] is None for key, _, _ in records)
        assert all(found[f"one.{key}".encode()] is not None for key, _, _ in records)
    assert len(list(shared.folder.glob("plain-keys.deleted-*.backup.avro"))) == 1


def test_a_sealed_group_needs_its_keys_and_nothing_is_believed_of_it_afterwards(site: Site, call: Any) -> None:
    site.create("shared", SHARED_PARTITIONS)
    path, other = worker(site, "shared", "a", 7), worker(site, "shared", "b", 9)
    life(path, "c", "d")
    life(other, "c")
    refused = call("delete", "group", "a", "-w", other, "--yes")
    assert refused.code == 2
    assert "without its keys nobody would believe the removals" in refused.err
    backup = site.folder / "a.avro"
    told = call("delete", "group", "a", "-w", path, "--yes", "--backup", backup, "--output", "json").json
    assert told["removed"] > 0
    assert not left(path)
    assert left(other)
    assert call("delete", "group", "a", "-w", path, "--yes", "--output", "json").json["removed"] == 0
    assert call("restore", backup, "-w", path, "--yes").code == 0
    assert set(life(path)[0].connectors()) == {"c", "d"}


def test_a_killed_run_is_completed_by_the_next_while_others_write(shared: Site, call: Any) -> None:
    topic = shared.topic("shared", TopicType.OFFSET)
    shared.produce([Record(topic, -1, 0, 1, b'one.["c",{"n":%d}]' % number, b"{}") for number in range(MANY)])
    path, backup = shared.worker_file("shared", "one", sharing=True), shared.folder / "one.avro"
    untouched = others(shared)
    kill_in_the_rewrite("connect_share", "delete", "group", "one", "-w", path, "--yes", "--backup", backup)
    with foreign_records(shared.settings, shared.topic("shared", TopicType.CONFIG), 500):
        told = call("delete", "group", "one", "-w", path, "--yes", "--output", "json")
    assert told.code == 0, told.err
    assert not [
        key for key, value in newest(shared, TopicType.OFFSET).items() if key and key.startswith(b"one.[") and value
    ]
    assert not replay_config(shared.read(shared.topic("shared", TopicType.CONFIG)), "one").connectors()
    assert [each for each in others(shared) if not (each.key or b"").startswith(b"other.group.")] == untouched
    assert call("restore", backup, "-w", path, "--yes").code == 0  # the first backup has everything
    assert (
        len([key for key, value in newest(shared, TopicType.OFFSET).items() if key and b'"n"' in key and value]) == MANY
    )
    assert told.json["backup"] != str(backup)
