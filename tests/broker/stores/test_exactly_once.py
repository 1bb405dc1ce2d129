"""Exactly-once with real transactions: cases 7, 8 and 25, fencing, preparing; offsets changed in a transaction of a task."""

from __future__ import annotations

from typing import Any

import pytest

from connect_share.errors import (
    LiveMembersError,
    PrivilegedWriteError,
    ReadToEndTimeoutError,
    StoreClosedError,
    TaskCountError,
    UsageError,
    WriteError,
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

CONFIG = {"name": "foo"}


def leader(shared: Any, mode: Any, kind: str = "sharing", **options: Any) -> Any:
    # The transactional id comes from the group, and groups of tests that run at once must not fence each other.
    worker = getattr(shared, kind)(shared.group, exactly_once_source_support=mode)
    return shared.config_store(worker=worker, **options)


def test_claim_and_stop(shared: Any, monkeypatch: Any) -> None:
    """Whoever stops a store has its privileges given up, also those that are just being claimed."""
    stores = [leader(shared, "enabled") for _ in range(2)]
    claim = TransactionalWriter.claim

    def stopped_before(writer: TransactionalWriter) -> None:
        stores[0].stop()
        claim(writer)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(TransactionalWriter, "claim", stopped_before)
        with pytest.raises(StoreClosedError):
            stores[0].claim_write_privileges()
    assert not stores[0]._leader.claimed
    stores[1].claim_write_privileges()
    with pytest.raises(StoreClosedError):
        stores[0].claim_write_privileges()
    stores[1].put_task_count_record("c1", 2)  # was not fenced


@pytest.mark.parametrize("kind", ["sharing", "worker"], ids=["shared", "plain"])
def test_every_operation_is_one_transaction_or_two(shared: Any, kind: str) -> None:
    store = leader(shared, "enabled", kind)
    store.claim_write_privileges()
    store.put_connector_config("foo", CONFIG, TargetState.PAUSED)
    await_that(lambda: shared.end_offset("config") == 3, what="marked")
    store.put_task_configs("foo", [{"n": "0"}, {"n": "1"}])
    await_that(lambda: shared.end_offset("config") == 3 + 3 + 2, what="marked")
    state = store.snapshot()
    assert [str(task) for task in state.tasks("foo")] == ["foo-0", "foo-1"]
    assert state.target_state("foo") is TargetState.PAUSED
    store.remove_connector_config("foo")
    assert store.snapshot().connectors() == frozenset()
    await_that(lambda: shared.end_offset("config") == 8 + 3, what="marked")
    removal = b"null" if kind == "sharing" else None
    assert [value for _, value in shared.read("config", isolation="read_committed")][-2:] == [removal, removal]


def test_second_leader_fences_the_first(shared: Any) -> None:  # cases 7 and 8
    first, second = leader(shared, "enabled"), leader(shared, "enabled")
    with pytest.raises(PrivilegedWriteError, match="claim"):
        first.put_connector_config("lost", CONFIG)
    first.claim_write_privileges()
    first.claim_write_privileges()
    first.put_connector_config("one", CONFIG)
    second.claim_write_privileges()
    with pytest.raises(PrivilegedWriteError, match="claim"):
        first.put_connector_config("lost", CONFIG)
    with pytest.raises(PrivilegedWriteError, match="not claimed, or were lost"):
        first.put_connector_config("lost", CONFIG)
    first.put_target_state("one", TargetState.PAUSED)
    first.put_logger_level("root", "DEBUG")
    second.put_connector_config("two", CONFIG)
    assert second.snapshot().connectors() == {"one", "two"}
    assert second.snapshot().target_state("one") is TargetState.PAUSED
    first.claim_write_privileges()
    first.put_connector_config("three", CONFIG)
    assert first.snapshot().connectors() == {"one", "two", "three"}
    with pytest.raises(PrivilegedWriteError):
        second.put_connector_config("lost", CONFIG)
    committed = [key for key, _ in shared.read("config", isolation="read_committed")]
    assert f"{shared.group}.connector-lost".encode() not in committed
    assert f"{shared.group}.connector-two".encode() in committed


def test_users_transactional_id_and_idempotence_are_overridden(shared: Any) -> None:  # case 25
    worker = shared.sharing(
        shared.group, exactly_once_source_support="preparing", transactional_id="the-users", enable_idempotence="false"
    )
    store = shared.config_store(worker=worker)
    store.claim_write_privileges()
    store.put_connector_config("foo", CONFIG)
    store.put_target_state("foo", TargetState.PAUSED)
    other = leader(shared, "preparing")
    other.claim_write_privileges()  # the same transactional.id: connect-cluster-<group>
    with pytest.raises(PrivilegedWriteError):
        store.put_connector_config("foo", CONFIG)


def test_value_too_large_in_a_transaction_takes_the_privileges(shared: Any) -> None:
    worker = shared.sharing(
        shared.group, exactly_once_source_support="enabled", config_storage_max_message_bytes="1000"
    )
    store = shared.config_store(worker=worker)
    store.claim_write_privileges()
    with pytest.raises(PrivilegedWriteError) as refused:
        store.put_connector_config("foo", {"secret": "s3cret" * 1000}, TargetState.PAUSED)
    assert "s3cret" not in str(refused.value)
    # The transaction was ended: nobody who reads committed records has to wait for it.
    store.refresh(120)
    assert store.snapshot().target_states() == {}
    store.claim_write_privileges()
    store.put_connector_config("foo", CONFIG)
    assert store.snapshot().connectors() == {"foo"}


def test_tasks_are_written_only_behind_the_end_of_the_log(shared: Any) -> None:
    """What another leader wrote must be known before the tasks; here another open transaction hides it."""
    seconds = iter([0.0])
    store = leader(shared, "enabled", clock=lambda: next(seconds, 29.8))
    store.claim_write_privileges()
    with shared.open_transaction("config", [(b"group-b.connector-x", b"{}")]):
        with pytest.raises(WriteError, match="was not written within 30 s"):
            store.put_task_configs("foo", [{"n": "0"}])
        assert [key for key, _ in shared.read("config")] == [b"group-b.connector-x"]


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
        await_that(lambda: storage.offset_reader("foo").offset(FILE) == {"position": 2}, what="the committed offset")
        assert storage.reset_offsets("foo") == 1
        await_that(lambda: storage.offset_reader("foo").offset(FILE) is None, what="the committed offset")
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
        # One has written and not ended: its transaction is not waited for.
        records = pairs_of(worker.offset_storage_topic, [(key, b'{"position":99}')])
        producer = in_transaction(worker.producer_settings(), f"{worker.group_id}-foo-1", records)
        assert storage.alter_offsets("foo", [(FILE, {"position": 5})]) == 1
        for task in tasks[:3]:
            with pytest.raises(PrivilegedWriteError):
                task.write([(key, b'{"position":99}')])
        producer.purge()
        with pytest.raises(client.KafkaException):
            producer.commit_transaction(120)
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


def test_an_open_transaction_ends_a_change_by_its_deadline(shared: Any) -> None:
    with ConnectStorage(exactly_once(shared)) as storage:
        with shared.open_transaction("offset", [(b"group-b.[]", b"{}")]):
            for change in (alter_offsets, reset_offsets):
                more: list[Any] = [[(FILE, {"position": 1})]] if change is alter_offsets else []
                with pytest.raises(ReadToEndTimeoutError, match="'foo' are not known, and nothing was changed"):
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
