"""What holds for every command that writes in place of what a stopped group has: repair, delete group, reseal, restore."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from connect_share.backup.restore import prepare_restore
from connect_share.backup.rewrite import Rewrite, StoppedGroup
from connect_share.backup.rewrites import GroupDeletion, Repair, Reseal, plan_orphans
from connect_share.errors import CopyError, LiveMembersError, OpenTransactionError
from connect_share.files import Silent
from connect_share.model.records import TopicType
from connect_share.worker_config import WorkerConfig
from migrator import cutover as rollback
from tests.support.connect_member import ConnectMember
from tests.support.migration_runs import apply_plan
from tests.support.migration_site import PARTITIONS, SMALL, Site, pair, run
from tests.support.sealed_sites import worker
from tests.support.topics import in_transaction, pairs_of
from tests.support.waiting import await_that

STATUS, OFFSET = TopicType.STATUS, TopicType.OFFSET


class _Scene:
    """A group with an orphan on shared topics, beside another group."""

    def __init__(self, site: Site) -> None:
        self.site, self.group = site, f"{site.name}-one"
        site.create("shared")
        for group in (self.group, f"{self.group}.two"):
            for topic_type, records in SMALL.items():
                site.lay_down("shared", topic_type, [(f"{group}.{key}", value, None) for key, value, _ in records])
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
        return prepare_restore(path, self.file).write

    def add_partition(self) -> None:
        """Where a key lies depends on their number: its newest record would lie beside the one before."""
        topic, more = self.site.topic("shared", OFFSET), PARTITIONS[OFFSET] + 1
        client = AdminClient({"bootstrap.servers": self.site.bootstrap_servers})
        client.create_partitions([NewPartitions(topic, more)])[topic].result()
        with self.site.admin() as admin:
            await_that(lambda: len(admin.describe_topics([topic])[topic].partitions), more.__eq__, what=topic)


@pytest.fixture
def scene(site: Site) -> _Scene:
    return _Scene(site)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Do something between the reading and the writing of a command: at the last question before the writing."""

    def place(act: Callable[[], object]) -> None:
        write = StoppedGroup.write

        def after(*arguments: Any) -> None:
            act()
            write(*arguments)

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


@pytest.mark.parametrize("name", ["delete", "restore"])
def test_an_open_transaction(scene: _Scene, name: str, meanwhile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds may come to be believed after the writing. When it has ended, others may write meanwhile."""
    command = scene.command(name)
    monkeypatch.setattr("connect_share.backup.rewrite.BUSY_TOPIC_WAIT_S", 0.3)
    records = pairs_of(scene.site.topic("shared", OFFSET), [(f'{scene.group}.["x",{{}}]'.encode(), b"{}")])
    writer = in_transaction(scene.site.settings, scene.site.name, records)
    try:
        with pytest.raises(OpenTransactionError):
            command()
    finally:
        writer.abort_transaction()
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
