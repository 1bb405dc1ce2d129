"""What every command does that writes in place of what a stopped group has; and a group removed by the rule of each topic."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from connect_share.backup.restore import prepare_restores
from connect_share.backup.rewrite import Rewrite, StoppedGroup
from connect_share.backup.rewrites import GroupDeletion, Repair, Reseal, plan_orphans
from connect_share.errors import CopyError, LiveMembersError
from connect_share.files import Silent
from connect_share.model.connect_json import JSON_NULL
from connect_share.model.keys import ClusterGroupId, own_key
from connect_share.model.records import Record, TopicType
from connect_share.replay import replay_config
from connect_share.worker_config import WorkerConfig
from migrator import cutover as rollback
from tests.support.connect_member import ConnectMember
from tests.support.java_groups import foreign_records
from tests.support.killed_rewrite import kill_in_the_rewrite
from tests.support.migration_runs import apply_plan
from tests.support.migration_site import PARTITIONS, SHARED_PARTITIONS, SMALL, Site, pair, run
from tests.support.sealed_sites import left, life, worker
from tests.support.topics import add_partitions
from tests.support.waiting import await_that

STATUS, OFFSET = TopicType.STATUS, TopicType.OFFSET


class _Scene:
    """A group with an orphan on shared topics, beside another group."""

    def __init__(self, site: Site) -> None:
        self.site, self.group = site, f"{site.name}-one"
        site.create("shared")
        for group in (self.group, f"{self.group}.two"):
            site.lay_group("shared", f"{group}.")
        site.lay_down("shared", STATUS, [pair(f"{self.group}.status-connector-gone", SMALL[STATUS][0][1])])
        self.file = worker(site, "shared", self.group, 7, mode="accept")

    def write(self, group: str) -> None:
        self.site.lay_down("shared", STATUS, [pair(f"{group}.status-connector-x", "{}")])

    def records(self) -> list[int]:
        return [len(self.site.read(self.site.topic("shared", each))) for each in TopicType]

    def command(self, name: str) -> Callable[[], object]:
        """Return what looks, and then writes."""
        path = self.site.folder / f"{name}.avro"
        config = WorkerConfig.from_file(self.file)
        rewrites: dict[str, Rewrite[Any]] = {
            "repair": Repair(config, partial(plan_orphans, with_offsets=True)),
            "delete": GroupDeletion.of(self.file, self.group),
            "reseal": Reseal.of(self.file, plain=False),
        }
        if name != "restore":
            return partial(rewrites[name].write, path)
        stopped = rewrites["repair"].stopped
        stopped.back_up(path, stopped.facts(), "run", Silent())
        return prepare_restores(path, [self.file])[0].write

    def add_partition(self) -> None:
        """Where a key lies depends on their number: its newest record would lie beside the one before."""
        with self.site.admin() as admin:
            add_partitions(admin, self.site.settings, self.site.topic("shared", OFFSET), PARTITIONS[OFFSET] + 1)


@pytest.fixture
def scene(site: Site) -> _Scene:
    return _Scene(site)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Do something between the reading and the writing of a command: at the last question before the writing."""

    def place(act: Callable[[], object]) -> None:
        write = StoppedGroup.write

        def after(*arguments: Any) -> Any:
            act()
            return write(*arguments)

        monkeypatch.setattr(StoppedGroup, "write", after)

    return place


def start_worker(stack: ExitStack, site: Site, group: str) -> None:
    stack.enter_context(ConnectMember(site.bootstrap_servers, group))
    with site.admin() as admin:
        await_that(admin.connect_groups, lambda groups: groups.get(group) == 1, what="one live member")


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("repair", "a worker starts"),
        ("restore", "a partition is added"),
        *((name, "another writer writes") for name in ("repair", "delete", "reseal", "restore")),
    ],
)
def test_what_happens_meanwhile_is_noticed(scene: _Scene, meanwhile: Any, name: str, event: str) -> None:
    """What another writer has written would be covered, and is in no backup."""
    command = scene.command(name)
    config, status, offset = scene.records()
    with ExitStack() as stack:
        act, error, match = {
            "a worker starts": (partial(start_worker, stack, scene.site, scene.group), LiveMembersError, "are alive"),
            "another writer writes": (partial(scene.write, scene.group), CopyError, "written under the keys"),
            "a partition is added": (scene.add_partition, CopyError, "partitions were added"),
        }[event]
        meanwhile(act)
        with pytest.raises(error, match=match):
            command()
    assert scene.records() == [config, status + (event == "another writer writes"), offset]


def test_a_dry_run_says_that_workers_are_alive(scene: _Scene, call: Any) -> None:
    file, backup = scene.file, scene.site.folder / "before.avro"
    assert call("export", "-w", file, "-o", backup).code == 0
    before = scene.records()
    with ExitStack() as stack:
        start_worker(stack, scene.site, scene.group)
        for words in (["repair", "orphans", "--offsets"], ["delete", "group", scene.group], ["restore", backup]):
            dry, done = (call(*words, "-w", file, end) for end in ("--dry-run", "--yes"))
            assert (dry.code, done.code, "dry run: nothing was written" in dry.out) == (1, 1, True)
            assert f"error: {dry.err.partition('error: ')[2].strip()}" in done.err
    assert scene.records() == before


@pytest.mark.parametrize("name", ["delete", "restore"])
def test_others_may_write_meanwhile(scene: _Scene, name: str, meanwhile: Any) -> None:
    command = scene.command(name)
    scene.write(f"{scene.group}.two")  # and once more between the reading and the writing
    meanwhile(partial(scene.write, f"{scene.group}.two"))
    command()


def test_a_worker_that_starts_during_a_rollback_is_noticed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    group, find = f"{site.name}-new", rollback._find
    path = site.plan(site.small_source(), site.shared(group))
    apply_plan(path)
    before = site.read(site.topic("shared", OFFSET))
    with ExitStack() as stack:

        def find_then_start(*arguments: Any, dry_run: bool) -> rollback.Rollback:
            found = find(*arguments, dry_run=dry_run)
            if not dry_run:
                start_worker(stack, site, group)
            return found

        monkeypatch.setattr(rollback, "_find", find_then_start)
        code, _, errors = run("rollback", path, "--yes")
    assert (code, "are alive" in errors) == (1, True), errors
    assert site.read(site.topic("shared", OFFSET)) == before


MANY = 2_500
ONE = ClusterGroupId("one")


@pytest.fixture
def shared(site: Site) -> Site:
    """Shared topics with the groups one and one.two, a cluster with plain keys, and garbage."""
    site.create("shared")
    for prefix in ("one.", "one.two.", ""):
        site.lay_group("shared", prefix)
    site.lay_down("shared", TopicType.CONFIG, [pair("garbage", "x"), pair("one.garbage", "x")])
    return site


def newest(site: Site, topic_type: TopicType) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in site.read(site.topic("shared", topic_type))}


def others(site: Site) -> list[Record]:
    """What groups other than one have, and garbage."""
    records = [(kind, record) for kind in TopicType for record in site.read(site.topic("shared", kind))]
    return [record for kind, record in records if own_key(kind, record.key or b"", ONE) is None]


def known(call: Any, path: Any, group: str) -> set[str]:
    """Which commands speak of a group as of one that is there."""
    listed = {
        "get": [
            each["group"]
            for each in call("get", "groups", "-w", path, "--all-groups", "--output", "json").json["groups"]
        ],
        "usage": [each["group"] for each in call("usage", "-w", path, "--output", "json").json["groups"]],
        "check": [each["group"] for each in call("check", "orphans", "-w", path, "--output", "json").json["findings"]],
    }
    found = {each["id"] for each in call("admit", "-w", path, "--output", "json").json["findings"]}
    return {name for name, groups in listed.items() if group in groups} | (
        {"admit"} if "admit-id-in-use" in found else set()
    )


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
    assert not known(call, path, "one")
    again = call(*words, "--yes")
    assert (again.code, again.json["backup"], again.json["removed"]) == (0, None, 0)
    assert call("restore", backup, "-w", path, "--yes").code == 0
    assert known(call, path, "one") == {"get", "usage", "admit"}
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
    assert refused.code == 1
    assert "values of group a on the config topic look sealed" in refused.err
    backup = site.folder / "a.avro"
    told = call("delete", "group", "a", "-w", path, "--yes", "--backup", backup, "--output", "json").json
    assert told["removed"] > 0
    assert not left(path)
    assert not known(call, path, "a") | (known(call, other, "a") - {"admit"})
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
