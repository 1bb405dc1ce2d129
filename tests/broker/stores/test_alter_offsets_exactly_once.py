"""Offsets changed in a transaction of the connector's first task, which fences that task: only where that is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from connect_share.errors import (
    LiveMembersError,
    PrivilegedWriteError,
    ReadToEndTimeoutError,
    TaskCountError,
    UsageError,
)
from connect_share.kafka import client
from connect_share.model.config_state import TargetState
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import TopicType
from connect_share.storage import ConnectStorage
from connect_share.stores.alter_offsets import alter_offsets, reset_offsets
from connect_share.stores.transactional_writer import TransactionalWriter
from connect_share.worker_config import WorkerConfig
from tests.support.connect_member import ConnectMember
from tests.support.flushes import flush_offsets
from tests.support.topics import in_transaction, pairs_of
from tests.support.waiting import await_that

FILE = {"filename": "x.txt"}
KEY = b'["foo",{"filename":"x.txt"}]'


def exactly_once(shared: Any, **more: str) -> WorkerConfig:
    config: WorkerConfig = shared.sharing(shared.group, **{"exactly_once_source_support": "enabled", **more})
    return config


def first_task(worker: WorkerConfig, number: int = 0) -> TransactionalWriter:
    return TransactionalWriter(
        worker.producer_settings(),
        client_id="tests",
        transactional_id=f"{worker.group_id}-foo-{number}",
        topic=worker.topic(TopicType.OFFSET),
    )


def test_a_task_of_live_members_is_not_fenced(shared: Any) -> None:
    worker = exactly_once(shared)
    key = f"{worker.group_id}.".encode() + KEY
    task, writer = first_task(worker), first_task(worker)
    with ConnectStorage(worker) as storage:
        task.claim()
        task.write([(key, b'{"position":1}')])
        with ConnectMember(shared.bootstrap_servers, worker.group_id):
            with pytest.raises(LiveMembersError):
                reset_offsets(storage.offsets, "foo", transactional_writer=writer)
            with pytest.raises(LiveMembersError):
                storage.reset_offsets("foo")
            with pytest.raises(LiveMembersError):
                alter_offsets(storage.offsets, "foo", [(FILE, {"position": 2})], transactional_writer=writer)
        assert not writer.claimed
        task.write([(key, b'{"position":3}')])
        assert storage.offset_reader("foo").offset(FILE) == {"position": 3}
    with ConnectStorage(worker) as storage:
        assert storage.reset_offsets("foo") == 1
        with pytest.raises(PrivilegedWriteError):
            task.write([(key, b'{"position":4}')])
        assert storage.offset_reader("foo").offset(FILE) is None


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_storage_finds_where_offsets_are(shared: Any, mode: str) -> None:
    own_topic, worker = f"{shared.unique}-own", exactly_once(shared, exactly_once_source_support=mode)
    prefixed = f"{worker.group_id}.".encode() + KEY
    with ConnectStorage(worker) as storage:
        assert storage.alter_offsets("foo", [(FILE, {"position": 1})]) == 1
        assert storage.offset_reader("foo").offset(FILE) == {"position": 1}
        # From now on a topic of its own; with exactly-once each change leaves the marker of a transaction there.
        storage.config.claim_write_privileges()
        storage.config.put_connector_config("foo", {"offsets.storage.topic": own_topic}, TargetState.STOPPED)
        assert storage.alter_offsets("foo", [(FILE, {"position": 2})]) == 1
        await_that(lambda: storage.offset_reader("foo").offset(FILE) == {"position": 2}, what="believed")
        assert storage.reset_offsets("foo") == 1
        await_that(lambda: storage.offset_reader("foo").offset(FILE) is None, what="believed")
        assert storage.reset_offsets("foo") == 0
    own = shared.read("offset", topic=own_topic, isolation="read_committed")
    assert own == [(KEY, b'{"position":2}'), (KEY, None)]
    assert shared.read("offset") == [(prefixed, b'{"position":%d}' % position) for position in (1, 2)] + [
        (prefixed, None)
    ]
    partition = partition_for(KEY, 3)
    markers = 2 if mode == "enabled" else 0
    await_that(
        lambda: shared.admin.end_offsets([(own_topic, partition)])[own_topic, partition] == 2 + markers, what="marked"
    )


def test_every_task_is_fenced_before_offsets_change(shared: Any) -> None:
    worker = exactly_once(shared)
    key = f"{worker.group_id}.".encode() + KEY
    with ConnectStorage(worker) as storage:
        storage.config.claim_write_privileges()
        storage.config.put_connector_config("foo", {}, TargetState.STOPPED)
        storage.config.put_task_count_record("foo", 3)
        tasks = [first_task(worker, number) for number in range(4)]
        for task in tasks:
            task.claim()
        assert storage.alter_offsets("foo", [(FILE, {"position": 5})]) == 1
        for task in tasks[:3]:
            with pytest.raises(PrivilegedWriteError):
                task.write([(key, b'{"position":99}')])
        assert storage.offset_reader("foo").offset(FILE) == {"position": 5}
        # No task of this connector, by the last count.
        tasks[3].write([(b"somebody.else", b"{}")])
        tasks[3].close()
        # Whoever may write to the topic can write any number.
        record = f"{worker.group_id}.tasks-fencing-foo".encode()
        shared.write("config", [(record, b'{"task-count":2147483647}')])
        with pytest.raises(TaskCountError, match="tasks-fencing"):
            storage.alter_offsets("foo", [(FILE, {"position": 6})])


def test_a_connector_has_to_be_stopped(shared: Any) -> None:
    with ConnectStorage(exactly_once(shared)) as storage:
        storage.config.claim_write_privileges()
        storage.config.put_connector_config("foo", {})
        for target, tasks in ((None, 0), (TargetState.PAUSED, 0), (TargetState.STOPPED, 2)):
            if target is not None:
                storage.config.put_target_state("foo", target)
            storage.config.put_task_configs("foo", [{"n": str(task)} for task in range(tasks)])
            with pytest.raises(UsageError, match=r"connector 'foo' is not stopped .* force=True"):
                storage.alter_offsets("foo", [(FILE, {"position": 1})])
            with pytest.raises(UsageError, match="is not stopped"):
                storage.reset_offsets("foo")
        assert shared.read("offset") == []
        assert storage.alter_offsets("foo", [(FILE, {"position": 1})], force=True) == 1
        storage.config.put_task_configs("foo", [])
        assert storage.reset_offsets("foo") == 1


def test_the_open_transaction_of_a_task_does_not_hold_up_a_change(shared: Any) -> None:
    worker = exactly_once(shared)
    with ConnectStorage(worker) as storage:
        storage.config.claim_write_privileges()
        storage.config.put_connector_config("foo", {}, TargetState.STOPPED)
        storage.config.put_task_count_record("foo", 2)
        pair = f"{worker.group_id}.".encode() + KEY, b'{"position":99}'
        records = pairs_of(worker.offset_storage_topic, [pair])
        producer = in_transaction(worker.producer_settings(), f"{worker.group_id}-foo-1", records)
        assert storage.alter_offsets("foo", [(FILE, {"position": 5})]) == 1
        assert storage.offset_reader("foo").offset(FILE) == {"position": 5}
        producer.purge()
        with pytest.raises(client.KafkaException):
            producer.commit_transaction(30)


def test_an_open_transaction_ends_a_change_by_its_deadline(shared: Any) -> None:
    with ConnectStorage(exactly_once(shared)) as storage:
        with shared.open_transaction("offset", [(b"group-b.[]", b"{}")]):
            for change in (alter_offsets, reset_offsets):
                more: list[Any] = [[(FILE, {"position": 1})]] if change is alter_offsets else []
                with pytest.raises(ReadToEndTimeoutError, match="'foo' were not changed"):
                    change(storage.offsets, "foo", *more, timeout_s=0.5)
        assert storage.alter_offsets("foo", [(FILE, {"position": 1})]) == 1


def test_an_offset_writer_says_that_it_joins_no_transaction(shared: Any) -> None:
    with ConnectStorage(exactly_once(shared)) as storage:
        with pytest.raises(UsageError, match=r"'foo' would write outside of the transaction .* transactional=False"):
            storage.offset_writer("foo")
        writer = storage.offset_writer("foo", transactional=False)
        flush_offsets(writer, (FILE, {"position": 1}))
        assert storage.offset_reader("foo").offset(FILE) == {"position": 1}


def test_more_offsets_than_the_client_queues_are_one_transaction(shared: Any) -> None:
    worker = exactly_once(shared)
    store = shared.offset_store(worker=worker)
    other = exactly_once(shared, offset_storage_topic=f"{shared.unique}-own")
    with pytest.raises(UsageError, match=store.topic):  # a writer to another topic
        reset_offsets(store, "foo", transactional_writer=first_task(other))
    writer = TransactionalWriter(
        worker.producer_settings().overlaid({"queue.buffering.max.messages": "10"}),
        client_id="tests",
        transactional_id=f"{worker.group_id}-foo-0",
        topic=store.topic,
    )
    pairs = [({"n": number}, {"position": number}) for number in range(100)]
    assert alter_offsets(store, "foo", pairs, transactional_writer=writer) == 100
    assert len(shared.read("offset", isolation="read_committed")) == 100
    assert not writer.claimed
