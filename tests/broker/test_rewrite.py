"""What holds for every command that writes in place of what a stopped group has: repair, delete group, reseal, restore."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from connect_share.backup.delete_group import GroupDeletion
from connect_share.backup.export import Export
from connect_share.backup.repair_records import Repair, plan_orphans
from connect_share.backup.reseal import Reseal
from connect_share.backup.restore import prepare_restore
from connect_share.backup.rewrite import Rewrite, StoppedGroup
from connect_share.errors import ConnectShareError, CopyError, LiveMembersError, OpenTransactionError
from connect_share.files import Silent
from connect_share.kafka import client
from connect_share.kafka.facts import topic_ranges
from connect_share.model.records import Record, TopicType
from connect_share.worker_config import TopicSet, WorkerConfig
from tests.support.connect_member import ConnectMember
from tests.support.migration_site import PARTITIONS, SMALL, Site, pair
from tests.support.sealed_sites import worker
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

    def content(self) -> Mapping[TopicType, list[Record]]:
        return {each: self.site.read(self.site.topic("shared", each)) for each in TopicType}

    def command(self, name: str) -> Callable[[], object]:
        """Return what looks, and then writes."""
        path = self.site.folder / f"{name}.avro"
        config = WorkerConfig.from_file(self.file)
        if name == "restore":
            topics = TopicSet.from_worker_file(self.file)
            with self.site.admin() as admin:
                ranges = {each: parts for each, (parts, _) in topic_ranges(admin, topics, list(TopicType)).items()}
            Export(topics, frozenset({config.cluster_group_id})).write(path, "", ranges, Silent())
            return prepare_restore(path, self.file).write
        rewrites: dict[str, Rewrite[Any]] = {
            "repair": Repair(config, partial(plan_orphans, with_offsets=True)),
            "delete": GroupDeletion.of(self.file, self.group),
            "reseal": Reseal.of(self.file, plain=False),
        }
        return partial(rewrites[name].write, path)


@pytest.fixture
def scene(site: Site) -> _Scene:
    return _Scene(site)


@pytest.fixture(params=["repair", "delete", "reseal", "restore"])
def command(request: pytest.FixtureRequest, scene: _Scene) -> Callable[[], object]:
    return scene.command(request.param)


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


def refused(scene: _Scene, command: Callable[[], object], error: type[ConnectShareError], match: str) -> None:
    before = scene.content()
    with pytest.raises(error, match=match):
        command()
    assert scene.content() == before


def test_a_worker_that_starts_meanwhile(scene: _Scene, command: Any, meanwhile: Any) -> None:
    with ExitStack() as stack:

        def start() -> None:
            stack.enter_context(ConnectMember(scene.site.bootstrap_servers, scene.group))
            with scene.site.admin() as admin:
                await_that(admin.connect_groups, lambda groups: groups.get(scene.group) == 1, what="one live member")

        meanwhile(start)
        refused(scene, command, LiveMembersError, "are alive")


def test_a_record_that_another_writer_writes_meanwhile(scene: _Scene, command: Any, meanwhile: Any) -> None:
    """It would be covered, and it is in no backup."""
    own, before = [pair(f"{scene.group}.status-connector-x", "{}")], scene.content()
    meanwhile(lambda: scene.site.lay_down("shared", STATUS, own))
    with pytest.raises(CopyError, match="another writer has written under the keys"):
        command()
    assert [len(scene.content()[kind]) - len(before[kind]) for kind in TopicType] == [0, 1, 0]


def test_a_partition_that_is_added_meanwhile(scene: _Scene, command: Any, meanwhile: Any) -> None:
    """Where a key lies depends on the number of partitions: its newest record would lie beside the one before."""
    topic = scene.site.topic("shared", OFFSET)

    def add() -> None:
        more = PARTITIONS[OFFSET] + 1
        admin = AdminClient({"bootstrap.servers": scene.site.bootstrap_servers})
        admin.create_partitions([NewPartitions(topic, more)])[topic].result()
        with scene.site.admin() as asked:
            await_that(
                lambda: asked.describe_topics([topic])[topic].partitions, lambda now: len(now) == more, what="it"
            )

    meanwhile(add)
    refused(scene, command, CopyError, "partitions were added")


def test_an_open_transaction(scene: _Scene, command: Any, meanwhile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds may come to be believed after the writing. When it has ended, others may write meanwhile."""
    monkeypatch.setattr("connect_share.backup.rewrite.BUSY_TOPIC_WAIT_S", 0.3)
    writer = client.producer(
        scene.site.settings, client_id="tests", overrides={"transactional.id": scene.site.name}, idempotent=True
    )
    writer.init_transactions()
    writer.begin_transaction()
    writer.produce(scene.site.topic("shared", OFFSET), key=f'{scene.group}.["x",{{}}]', value="{}")
    writer.flush()
    try:
        with pytest.raises(OpenTransactionError):
            command()
    finally:
        writer.abort_transaction()
    other = [pair(f"{scene.group}.two.status-connector-x", "{}")]
    meanwhile(lambda: scene.site.lay_down("shared", STATUS, other))
    command()
