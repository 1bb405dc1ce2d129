"""ConnectStorage on a real broker: the way in, what it refuses, what it leaves behind."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from connect_share.checks.topics import _inspect_topics
from connect_share.errors import (
    ConnectShareError,
    LiveMembersError,
    NotStartedError,
    PlainTopicsError,
    StoreClosedError,
    TopicMissingError,
    TopicNotCompactedError,
)
from connect_share.kafka.create import topic_specs
from connect_share.kafka.facts import read_facts
from connect_share.kafka.write_access import _MISSING, RightsAdmin
from connect_share.log.first_read import SharedReader
from connect_share.model.config_state import TargetState
from connect_share.model.keys import SkipKind
from connect_share.model.records import ConnectorTaskId
from connect_share.model.status import ConnectorStatus, State, TaskStatus
from connect_share.storage import ConnectStorage, SharedTopics
from connect_share.stores import connector_offsets as connector_offset_stores
from connect_share.stores.config import KafkaConfigBackingStore
from connect_share.stores.connector_offsets import own_offsets_worker_config
from connect_share.stores.offsets import KafkaOffsetBackingStore
from connect_share.stores.status import KafkaStatusBackingStore
from connect_share.worker_config import CREATION_PROPERTY, TopicSet
from tests.support.connect_member import ConnectMember
from tests.support.flushes import flush_offsets
from tests.support.waiting import await_that

FILE = {"filename": "x.txt"}


def fill(storage: Any, name: Any = "foo") -> None:
    """Write one connector with everything a worker would write, and read it back."""
    storage.config.put_connector_config(name, {"name": name})
    storage.config.put_task_configs(name, [{"n": "0"}])
    storage.config.put_target_state(name, TargetState.PAUSED)
    storage.config.refresh()
    storage.status.put(ConnectorStatus(name, State.PAUSED, "w:1", 1))
    storage.status.put(TaskStatus(ConnectorTaskId(name, 0), State.PAUSED, "w:1", 1))
    storage.status.flush()
    storage.status.refresh()
    writer = storage.offset_writer(name, transactional=False)  # no task of it writes records
    flush_offsets(writer, (FILE, {"position": 1}))
    assert storage.offset_reader(name).offset(FILE) == {"position": 1}


def seen(storage: Any) -> Any:
    config = storage.config.snapshot()
    return [
        (
            name,
            config.connector_config(name),
            [str(task) for task in config.tasks(name)],
            config.target_state(name),
            storage.status.get(name),
            storage.status.get_all(name),
            storage.offset_reader(name).offset(FILE),
        )
        for name in sorted(config.connectors())
    ]


def test_everything_is_there_after_a_restart(shared: Any) -> None:
    config = shared.sharing()
    with ConnectStorage(config) as storage:
        fill(storage)
        before = seen(storage)
        position = storage.config.snapshot().offset
    with ConnectStorage(config) as storage:
        assert seen(storage) == before
        assert storage.config.snapshot().offset == position
        startup = storage.startup
    assert startup.config.own_records == 4
    assert startup.status.own_records == 2
    assert startup.offsets.own_records == 1
    assert (startup.config.partitions, startup.offsets.partitions, startup.status.partitions) == (1, 3, 2)
    assert json.loads(json.dumps(startup.to_dict()))["config"]["topic"] == shared.topics["config"]
    assert 0 < startup.config.seconds <= startup.seconds


def test_plain_topics_are_refused_while_sharing(shared: Any) -> None:
    with ConnectStorage(shared.worker()) as plain:
        fill(plain)
    with pytest.raises(PlainTopicsError, match=r"connect-share-migrate plan .*allow_empty=True"):
        ConnectStorage(shared.sharing()).__enter__()
    with ConnectStorage(shared.sharing(), allow_empty=True) as storage:
        assert seen(storage) == []
        fill(storage)
    with ConnectStorage(shared.sharing()) as storage:
        assert len(seen(storage)) == 1
    # Somebody shares these topics already, so a new group is no surprise.
    with ConnectStorage(shared.sharing("group-b")) as storage:
        assert seen(storage) == []


def test_empty_topics_and_garbage_keys_are_no_plain_topics(shared: Any) -> None:
    with ConnectStorage(shared.sharing()):
        pass
    shared.write("config", [(b"", b"x"), (b"garbage", None), (b"\xff", b"\xff"), (b"group-a.garbage", b"{")])
    shared.write("status", [(b"", b"x"), (b"garbage", None)])
    shared.write("offset", [(b"", b"x"), (b"\x00", None)])
    with ConnectStorage(shared.sharing()) as storage:
        assert seen(storage) == []
        assert storage.config.snapshot().offset == -1
        assert storage.config.skipped() == {SkipKind.FOREIGN: 4}
        assert storage.status.skipped() == {SkipKind.FOREIGN: 2}
        assert storage.offsets.skipped() == {SkipKind.FOREIGN: 2}


def test_writes_are_refused_while_java_members_live(shared: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("connect_share.storage.live_members.LIVE_MEMBERS_CACHE_S", 0.0)
    group = shared.group
    with ConnectStorage(shared.sharing(group)) as storage:
        fill(storage)
        with ConnectMember(shared.bootstrap_servers, group):
            before = shared.read("config"), shared.read("status"), shared.read("offset")
            writes: list[Callable[[], object]] = [
                lambda: storage.config.put_connector_config("late", {}),
                lambda: storage.config.put_target_state("foo", TargetState.STARTED),
                lambda: storage.config.put_task_configs("foo", []),
                lambda: storage.status.put(ConnectorStatus("foo", State.RUNNING, "w:1", 2)),
                lambda: storage.status.put_safe(ConnectorStatus("foo", State.RUNNING, "w:1", 2)),
                lambda: storage.status.delete_topic("foo", "t"),
                lambda: storage.offsets.set({f'{group}.["foo",{{}}]'.encode(): b"{}"}).result(120),
            ]
            for write in writes:
                with pytest.raises(LiveMembersError, match="allow_live_members=True"):
                    write()
            assert (shared.read("config"), shared.read("status"), shared.read("offset")) == before
            assert len(seen(storage)) == 1  # reading goes on
            with ConnectStorage(shared.sharing(group), allow_live_members=True) as told:
                told.config.put_connector_config("late", {})
        storage.config.put_connector_config("later", {})
        assert storage.config.snapshot().connectors() == {"foo", "late", "later"}


def test_the_client_of_the_start_is_closed_with_the_storage(shared: Any, monkeypatch: Any) -> None:
    """It lets go beside the running storage, and may not be ready when that ends."""
    ended, close = threading.Event(), SharedReader.close
    outlived: list[bool] = []

    def late(reader: SharedReader) -> None:
        close(reader)
        outlived.append(ended.wait(1))

    for topic in shared.topics.values():
        shared.create(topic, cleanup_policy="compact")
    monkeypatch.setattr(SharedReader, "close", late)
    with ConnectStorage(shared.sharing()):
        monkeypatch.undo()
    ended.set()
    assert outlived
    assert not any(outlived)


def test_second_interrupt_of_a_start(shared: Any, monkeypatch: Any) -> None:
    """Those who give up a start wait for those who read, which may take as long as a first read."""
    stopped, stopped_in_time = threading.Event(), []

    def start(_store: KafkaOffsetBackingStore) -> None:
        stopped_in_time.append(stopped.wait(120))

    def interrupted(stop: Callable[..., None]) -> Callable[..., None]:
        def interrupted_stop(store: Any, *timeout_s: float) -> None:
            stop(store, *timeout_s)
            raise KeyboardInterrupt

        return interrupted_stop

    shared.create(shared.topics["config"], cleanup_policy="delete")
    monkeypatch.setattr(KafkaOffsetBackingStore, "start", start)
    monkeypatch.setattr(KafkaOffsetBackingStore, "stop", lambda *_arguments: stopped.set())
    for stopped_before in (KafkaConfigBackingStore, KafkaStatusBackingStore):
        monkeypatch.setattr(stopped_before, "stop", interrupted(stopped_before.stop))
    with pytest.raises(KeyboardInterrupt):
        ConnectStorage(shared.sharing()).__enter__()
    assert stopped_in_time == [True]


def test_closed_while_a_connectors_own_store_is_made(shared: Any, monkeypatch: Any) -> None:
    topic = f"{shared.unique}-own"
    threads = threading.active_count()
    with ConnectStorage(shared.sharing()) as storage:
        storage.config.put_connector_config("own", {"offsets.storage.topic": topic})

        def closed_before(*arguments: Any) -> Any:
            storage.close()
            return own_offsets_worker_config(*arguments)

        monkeypatch.setattr(connector_offset_stores, "own_offsets_worker_config", closed_before)
        with pytest.raises(StoreClosedError):
            storage.offset_reader("own")
    await_that(threading.active_count, lambda now: now <= threads, what="no thread left")
    assert topic not in shared.admin.topic_names()


def test_closed_while_it_is_used(shared: Any) -> None:
    class ClosedMeanwhile(ConnectStorage):
        """Another thread closes it between two looks."""

        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if name == "_parts" and value is not None:
                self.close()
            return value

    with ClosedMeanwhile(shared.sharing()) as storage:
        assert storage.config is not None
        with pytest.raises(NotStartedError):
            _ = storage.config


def test_two_megabytes(shared: Any) -> None:
    limits = {f"{kind}_storage_max_message_bytes": "4000000" for kind in ("config", "status", "offset")}
    config = shared.sharing(max_request_size="4000000", **limits)
    large = "x" * 2_000_000
    with ConnectStorage(config) as storage:
        storage.config.put_connector_config("foo", {"large": large})
        storage.status.put(ConnectorStatus("foo", State.FAILED, "w:1", 1, large))
        storage.status.flush()
        flush_offsets(storage.offset_writer("foo"), (FILE, {"large": large}))
    with ConnectStorage(config) as storage:
        assert storage.config.snapshot().connector_config("foo") == {"large": large}
        assert storage.status.get("foo") == ConnectorStatus("foo", State.FAILED, "w:1", 1, large)
        assert storage.offset_reader("foo").offset(FILE) == {"large": large}


@pytest.mark.parametrize("made", [ConnectStorage, KafkaStatusBackingStore])
def test_a_broker_that_does_not_know_a_topic_for_a_moment(
    shared: Any, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, topic, answers = AdminClient.describe_topics, shared.topics["status"], list[None]()

    def unaware(client: AdminClient, topics: TopicCollection, **more: Any) -> Any:
        names = topics.topic_names
        if answers and topic in names:
            answers.pop()
            topics = TopicCollection([f"{name}-unknown" if name == topic else name for name in names])
        return {name.removesuffix("-unknown"): answer for name, answer in ask(client, topics, **more).items()}

    monkeypatch.setattr(AdminClient, "describe_topics", unaware)
    with ConnectStorage(shared.sharing()) as storage:
        fill(storage)
        answers.extend([None] * 3)
        again = made(shared.sharing(**{CREATION_PROPERTY: "false"}))
        again.start()
        again.stop()
        answers.append(None)
        with RightsAdmin(shared.sharing().admin_settings(), client_id="tests") as admin:
            assert admin.topic_rights([topic])[topic].exists  # the controller says so
            monkeypatch.setattr(admin, "_of_unknown", lambda _: _MISSING)  # as where it may not be created
            answers.append(None)
            assert admin.topic_rights(shared.topics.values())[topic].exists  # the others do
        answers.append(None)
        assert topic in read_facts(shared.admin, shared.topics.values())
        answers.append(None)
        looked_at = _inspect_topics(shared.admin, topic_specs(TopicSet.of(shared.sharing())), None, print)
        assert (topic, "topics-missing") not in {(each.where, each.id) for each in looked_at.findings}
        answers.extend([None] * 3)
        log: Any = storage.status._log
        log._confirm_identity(30, at_once=True)
        assert storage.status.get("foo") == ConnectorStatus("foo", State.PAUSED, "w:1", 1)


def test_no_topic_is_made_where_the_worker_file_says_so(shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connect_share.kafka.admin._SPREAD_S", 0.5)
    config = shared.sharing(**{CREATION_PROPERTY: "false"})
    starts: list[Callable[[], object]] = [
        ConnectStorage(config).start,
        KafkaStatusBackingStore(config).start,
        lambda: SharedTopics(config).storage("group-a").start(),
    ]
    for start in starts:
        with pytest.raises(TopicMissingError, match=f"{CREATION_PROPERTY}=false: nothing was created"):
            start()
    assert shared.admin.describe_topics(shared.topics.values()) == {}
    with ConnectStorage(shared.sharing()):
        pass  # makes the topics
    with ConnectStorage(config) as storage:
        storage.config.put_connector_config("foo", {"offsets.storage.topic": f"{shared.unique}-own"})
        with pytest.raises(ConnectShareError, match=CREATION_PROPERTY):
            storage.offset_reader("foo").offset(FILE)
    assert shared.admin.describe_topics([f"{shared.unique}-own"]) == {}


def test_failure_of_one_store_does_not_wait_for_another(shared: Any) -> None:
    """The config topic cannot be read to its end while a transaction is open; the status topic is wrong."""
    worker_file = shared.sharing(exactly_once_source_support="enabled", status_storage_topic=f"{shared.unique}-deletes")
    shared.create(shared.topics["config"], cleanup_policy="compact")
    shared.create(f"{shared.unique}-deletes", cleanup_policy="delete")
    with shared.open_transaction("config", [(b"group-b.connector-x", b"{}")]):
        before = threading.active_count()
        with pytest.raises(TopicNotCompactedError):
            ConnectStorage(worker_file).__enter__()
        await_that(threading.active_count, lambda now: now <= before, what="no thread left")
