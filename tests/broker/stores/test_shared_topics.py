"""Many groups over one reader are what each of them is with a storage of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from connect_share import AsyncSharedTopics, ConnectorStatus, ConnectStorage, SharedTopics, State, TargetState
from connect_share.errors import (
    ConfigError,
    ConnectShareError,
    InvalidClusterGroupIdError,
    LiveMembersError,
    LogFailedError,
    NotStartedError,
    PlainTopicsError,
    StoreClosedError,
    TopicNotCompactedError,
    TopicRecreatedError,
)
from connect_share.log.first_read import SharedReader
from connect_share.storage import start as storage_start
from connect_share.storage.shared import GroupStorage
from tests.broker.stores.conftest import Listener
from tests.broker.stores.test_storage import fill
from tests.support.connect_member import ConnectMember
from tests.support.flushes import flush_offsets
from tests.support.sealed import key_text
from tests.support.sealed_stores import current_state
from tests.support.topics import delete_known
from tests.support.waiting import await_that

# One id begins another, with and without a dot.
GROUPS = ("a", "a.b", "ab", "a.b.c", "x-1")
PARTITION = {"file": "in.txt"}


@pytest.fixture
def groups(shared: Any) -> list[str]:
    """Groups that have something on the topics, written by storages of their own."""
    return laid_down(shared, GROUPS[:3])


def laid_down(shared: Any, groups: Sequence[str]) -> list[str]:
    found = [f"{shared.unique}{group}" for group in groups]
    for number, group in enumerate(found):
        with ConnectStorage(shared.sharing(group)) as storage:
            for name in ("foo", f"own-{number}"):
                fill(storage, name)
            flush(storage, number)
    return found


def flush(storage: ConnectStorage, position: int) -> None:
    flush_offsets(storage.offset_writer("foo"), (PARTITION, {"position": position}))


def state_and_offset(storage: ConnectStorage) -> tuple[object, ...]:
    return *current_state(storage), storage.offset_reader("foo").offset(PARTITION)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[SharedReader]:
    """Each first read of topics, as it is begun."""
    begun: list[SharedReader] = []

    def reader(*arguments: Any, **options: Any) -> SharedReader:
        begun.append(SharedReader(*arguments, **options))
        return begun[-1]

    monkeypatch.setattr(storage_start, "SharedReader", reader)
    return begun


def test_each_group_is_what_it_is_alone(shared: Any, reads: list[SharedReader]) -> None:
    groups = laid_down(shared, GROUPS)
    reads.clear()
    with SharedTopics(shared.sharing()) as topics, ExitStack() as stack:
        storages = {group: stack.enter_context(topics.storage(group)) for group in groups}
        assert reads == []  # nothing is read before it is used
        for group, storage in storages.items():
            with ConnectStorage(shared.sharing(group)) as alone:
                assert state_and_offset(storage) == state_and_offset(alone)
                assert storage.startup.config.own_records == alone.startup.config.own_records
                assert storage.cluster_group_id == group
                found = storage.startup  # of one group nothing was measured; 0 would say that no record came
                stores = (found.config, found.status, found.offsets)
                assert {found.admin_seconds, found.connect_seconds, found.read_seconds} == {None}
                assert {one for store in stores for one in (store.first_record_seconds, store.apply_seconds)} == {None}
        assert len(reads) == 1 + len(groups)  # one for all of them, and one of each storage beside it

        # All write at once, and read what they have written.
        with ThreadPoolExecutor(len(groups)) as threads:

            def work(number: int) -> None:
                storage = storages[groups[number]]
                for round_ in range(5):
                    storage.config.put_connector_config("new", {"n": f"{number}-{round_}"})
                    assert storage.config.snapshot().connector_config("new") == {"n": f"{number}-{round_}"}
                    storage.status.put(ConnectorStatus("new", State.RUNNING, f"w:{number}", round_))
                    flush(storage, number * 100 + round_)
                storage.config.remove_connector_config("foo")

            list(threads.map(work, range(len(groups))))
        for group, storage in storages.items():
            storage.status.flush()
            with ConnectStorage(shared.sharing(group)) as alone:
                assert state_and_offset(storage) == state_and_offset(alone)
                assert not alone.config.contains("foo")
    with pytest.raises(NotStartedError):
        topics.storage("a")


def test_a_group_that_comes_late_misses_nothing(shared: Any, groups: list[str]) -> None:
    with SharedTopics(shared.sharing()) as topics:
        first = topics.storage(groups[0])
        first.start()
        stop = threading.Event()

        def write() -> None:
            with ConnectStorage(shared.sharing(groups[1])) as alone:
                number = 0
                while not stop.is_set():
                    alone.config.put_connector_config(f"c.{number % 20}", {"n": str(number)})
                    number += 1

        with ThreadPoolExecutor(1) as threads:
            writing = threads.submit(write)
            try:
                for _ in range(5):
                    late = topics.storage(groups[1])
                    late.start()
                    late.stop()
                late = topics.storage(groups[1])
                late.start()
            finally:
                stop.set()
            writing.result(60)
        with ConnectStorage(shared.sharing(groups[1])) as alone:
            assert state_and_offset(late) == state_and_offset(alone)
        late.stop()
        late.start()  # and again
        with ConnectStorage(shared.sharing(groups[1])) as alone:
            assert state_and_offset(late) == state_and_offset(alone)


def test_a_slow_and_a_raising_listener_hold_up_nobody(shared: Any, groups: list[str], caplog: Any) -> None:
    go_on = threading.Event()

    class Slow(Listener):
        def on_connector_config_update(self, connector: str) -> None:
            assert go_on.wait(300)
            super().on_connector_config_update(connector)

    class Raising(Listener):
        def on_connector_config_update(self, connector: str) -> None:
            raise SystemExit(connector)

    slow, calm = Slow(), Listener()
    with SharedTopics(shared.sharing()) as topics:
        stuck = topics.storage(groups[0])
        stuck.config.set_update_listener(slow)
        raising = topics.storage(groups[1], update_listener=Raising())
        other = topics.storage(groups[2], update_listener=calm)
        for number in range(3):
            for storage in (stuck, raising, other):
                storage.config.put_connector_config("c.1", {"n": str(number)})
                assert storage.config.snapshot().connector_config("c.1") == {"n": str(number)}
        await_that(lambda: calm.events, lambda events: ("updated", "c.1") in events, what="heard")
        await_that(lambda: raising.config.listener_failures, bool, what="counted")
        assert slow.events == []
        stuck.stop(0)
        assert f"Thread listener-{groups[0]} was stopped, and goes on" in caplog.text
        go_on.set()
        await_that(lambda: slow.events, lambda events: ("updated", "c.1") in events, what="heard in the end")


def test_a_group_that_fails_fails_alone(shared: Any, groups: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sealed = f"sealed.{shared.unique}"
    properties = "connect.management.topic.sharing.encryption.keys"
    with ConnectStorage(shared.sharing(sealed, **{properties.replace(".", "_"): key_text(1)})) as storage:
        fill(storage)
    failures: list[ConnectShareError] = []
    with SharedTopics(shared.sharing()) as topics:
        without = topics.storage(
            sealed, worker_config=shared.sharing(sealed, **{properties.replace(".", "_"): key_text(2)})
        )
        fine = topics.storage(groups[0])
        broken = topics.storage(groups[1], on_failed=failures.append)
        with pytest.raises(ConfigError, match="key 1"):
            without.start()
        assert fine.config.contains("foo")
        monkeypatch.setattr(broken.config, "_fold", None)  # the next record ends the log of this group
        with ConnectStorage(shared.sharing(groups[1])) as writer:
            writer.config.put_connector_config("new", {"a": "b"})
        await_that(lambda: failures, what="told")
        assert type(broken.failed) is LogFailedError
        with pytest.raises(LogFailedError):
            broken.config.refresh()
        fine.config.put_connector_config("new", {"a": "b"})
        assert fine.failed is None
        broken.stop()
        assert broken.start().config.contains("new")
        assert not broken.failed


def test_what_ends_the_reader_ends_all(shared: Any, groups: list[str]) -> None:
    told: list[ConnectShareError] = []
    with SharedTopics(shared.sharing(), on_failed=told.append) as topics:
        storages = [topics.storage(group) for group in groups[:2]]
        assert all(storage.config.contains("foo") for storage in storages)
        shared.admin.delete_topics([shared.topics["status"]])
        await_that(lambda: told, what="told")
        for storage in storages:
            assert isinstance(storage.failed, TopicRecreatedError)
            with pytest.raises(TopicRecreatedError):
                storage.status.get("foo")


def test_one_ends_and_the_others_go_on(shared: Any, groups: list[str]) -> None:
    before = threading.active_count()
    with SharedTopics(shared.sharing()) as topics:
        first, second = topics.storage(groups[0]), topics.storage(groups[1])
        store = first.config
        assert second.config.contains("foo")
        first.stop()
        first.stop()
        with pytest.raises(StoreClosedError):
            store.put_connector_config("c", {"a": "b"})
        with pytest.raises(NotStartedError):
            _ = first.config
        second.config.put_target_state("foo", TargetState.STOPPED)
        second.config.refresh()
        assert second.config.snapshot().target_state("foo") is TargetState.STOPPED
    await_that(threading.active_count, lambda now: now <= before, what="no thread left")


def test_a_storage_that_cannot_stop_keeps_no_other_from_it(
    shared: Any, groups: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, stop = threading.active_count(), GroupStorage.stop

    def fails(storage: GroupStorage, timeout_s: float) -> None:
        stop(storage, timeout_s)
        if storage.cluster_group_id == groups[0]:
            raise OSError("no space is free")

    def blocking() -> None:
        with SharedTopics(shared.sharing()) as topics:
            for group in groups[:2]:
                topics.storage(group).start()

    async def on_asyncio() -> None:
        async with AsyncSharedTopics(shared.sharing()) as topics:
            for group in groups[:2]:
                await topics.storage(group).start()

    monkeypatch.setattr(GroupStorage, "stop", fails)
    for run in (blocking, lambda: asyncio.run(on_asyncio())):
        with pytest.raises(OSError, match="no space is free"):
            run()
    await_that(threading.active_count, lambda now: now <= before, what="no thread left")


def test_live_members_of_one_group_do_not_matter_to_others(shared: Any, groups: list[str]) -> None:
    with ConnectMember(shared.bootstrap_servers, groups[0]), SharedTopics(shared.sharing()) as topics:
        with pytest.raises(LiveMembersError, match=repr(groups[0])):
            topics.storage(groups[0]).config.put_connector_config("c", {"a": "b"})
        topics.storage(groups[1]).config.put_connector_config("c", {"a": "b"})
        topics.storage(groups[0], allow_live_members=True).config.put_connector_config("c", {"a": "b"})


def test_what_is_refused(shared: Any) -> None:
    with pytest.raises(ConfigError, match="plain keys belong to one group"):
        SharedTopics(shared.worker())
    with SharedTopics(shared.sharing()) as topics:
        with pytest.raises(InvalidClusterGroupIdError):
            topics.storage("connector-x")
        with pytest.raises(
            ConfigError, match=r"group_id='a', but the worker file says .*=enabled and group.id='other'"
        ):
            topics.storage("a", worker_config=shared.sharing("other"))
        with pytest.raises(ConfigError, match=r"group_id='a', but the worker file says .*=disabled and group.id='a'"):
            topics.storage("a", worker_config=shared.worker("a"))
        with pytest.raises(ConfigError, match="share one set of topics"):
            topics.storage("a", worker_config=shared.sharing("a", config_storage_topic="elsewhere"))


def test_plain_topics_are_refused(shared: Any) -> None:
    with ConnectStorage(shared.worker("plain")) as plain:
        fill(plain)
    with SharedTopics(shared.sharing()) as topics:
        with pytest.raises(PlainTopicsError):
            topics.storage("a").start()
        assert topics.storage("b", allow_empty=True).config.snapshot().connectors() == frozenset()


def test_a_stop_ends_the_read_that_is_under_way(shared: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as threads:
        topics = SharedTopics(shared.sharing(bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}"))
        starting = threads.submit(topics.storage("a").start)
        await_that(lambda: topics._aborts, what="begun")
        topics.stop(1.0)
        with pytest.raises(NotStartedError, match="these SharedTopics were stopped"):
            starting.result(60)


def test_a_read_that_failed_is_tried_again_for_all(shared: Any) -> None:
    config = shared.topics["config"]
    shared.create(config, cleanup_policy="delete")
    with SharedTopics(shared.sharing()) as topics:
        storages = [topics.storage(f"{shared.unique}{group}") for group in ("a", "b")]
        with pytest.raises(TopicNotCompactedError):
            storages[0].start()
        delete_known(shared.admin, config)
        for storage in storages:
            storage.start()
            storage.config.put_connector_config("c", {"name": "c"})
            assert storage.config.contains("c")
