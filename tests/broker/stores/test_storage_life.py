"""A storage that is closed at any moment, fails, is forked, or is used from its own threads."""

from __future__ import annotations

import ctypes
import os
import pickle
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import (
    ConnectShareError,
    LogFailedError,
    LostTopicError,
    NotStartedError,
    StoreClosedError,
    UsageError,
)
from connect_share.exporter import followed_topic
from connect_share.exporter.followed_topic import FollowedTopic
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import topic_spec
from connect_share.kafka.facts import gather_facts, with_ends
from connect_share.model.records import ConnectorTaskId, TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus
from connect_share.storage import ConnectStorage, live_members
from connect_share.storage import start as storage_start
from connect_share.storage.checkpoint import read_checkpoint
from connect_share.storage.memory import MemoryConfigBackingStore
from connect_share.storage.start import PlainTopicsCheck
from connect_share.stores.offsets import KafkaOffsetBackingStore
from tests.broker.stores.test_storage import fill
from tests.support.waiting import await_that

TOO_LARGE = b"x" * 2_000_000
"""A value that the broker refuses, whatever the key."""


def reads(storage: ConnectStorage) -> list[Callable[[], object]]:
    """What answers from what was read before."""
    config, status, offsets = storage.config, storage.status, storage.offsets
    return [
        config.snapshot,
        lambda: config.contains("foo"),
        status.snapshot,
        status.connectors,
        lambda: status.get("foo"),
        lambda: status.get_all("foo"),
        lambda: status.get_all_topics("foo"),
        offsets.snapshot,
        lambda: offsets.connector_partitions("foo"),
    ]


@pytest.mark.parametrize("thread", ["log-", "log-writer-", "log-identity-", "connect-storage-live-members"])
def test_a_log_that_has_failed_is_reported_once_and_read_no_more(shared: Any, thread: str) -> None:
    """By what nobody foresaw, in whichever thread."""
    failures: list[BaseException] = []

    def on_failed(error: BaseException) -> None:
        failures.append(error)
        storage.close()  # as one does before starting again
        failures.append(error)

    storage = ConnectStorage(shared.sharing(), on_failed=on_failed)
    with storage:
        fill(storage)
        stores = (storage.config, storage.status, storage.offsets)
        answers = reads(storage)
        names = {thread, *(f"{thread}{topic}" for topic in shared.topics.values())}
        for each in threading.enumerate():
            if each.name in names:
                set_error = ctypes.pythonapi.PyThreadState_SetAsyncExc
                set_error(ctypes.c_ulong(each.ident or 0), ctypes.py_object(SystemExit))
        await_that(lambda: len(failures), lambda count: count == 2, what="the end of on_failed")
        for answer in [*answers, *(store.refresh for store in stores)]:
            with pytest.raises((LogFailedError, StoreClosedError), match=r"has failed|stopped"):
                answer()
        failure = storage.failed
        assert isinstance(failure, LogFailedError)
        assert "SystemExit" in str(failure)
    assert failures == [failure] * 2  # once, whatever fails afterwards


@pytest.mark.parametrize("where", ["facts", "reading", "end"])
def test_closed_while_it_starts(shared: Any, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Whatever the start is doing then: it ends, with nothing left behind."""
    reached, go_on, before = threading.Event(), threading.Event(), threading.active_count()

    def held(call: Callable[..., Any]) -> Callable[..., Any]:
        def wait_and_call(*arguments: Any, **named: Any) -> Any:
            reached.set()
            assert go_on.wait(120)
            return call(*arguments, **named)

        return wait_and_call

    if where == "facts":
        monkeypatch.setattr(storage_start, "with_ends", held(with_ends))
    elif where == "reading":
        monkeypatch.setattr(KafkaOffsetBackingStore, "start", held(KafkaOffsetBackingStore.start))
    else:
        monkeypatch.setattr(PlainTopicsCheck, "refuse", held(PlainTopicsCheck.refuse))
    storage = ConnectStorage(shared.sharing())
    with ThreadPoolExecutor(2) as threads:
        starting = threads.submit(storage.__enter__)
        assert reached.wait(120)
        closing = threads.submit(storage.close, 120.0)
        await_that(lambda: storage._life._close_by, what="being closed")
        go_on.set()
        closing.result(180)  # it has waited for the end of the start
        assert (storage._life._start_ended.is_set(), type(starting.exception(120))) == (True, StoreClosedError)
    with pytest.raises(NotStartedError):
        _ = storage.config
    await_that(threading.active_count, lambda now: now <= before, what="no thread left")


def test_closed_while_no_broker_answers(shared: Any) -> None:
    storage = ConnectStorage(shared.sharing(bootstrap_servers="127.0.0.1:1"))
    with ThreadPoolExecutor(1) as threads:
        starting = threads.submit(storage.__enter__)
        await_that(lambda: storage._life._aborts, what="asking")
        storage.close(60.0)
        assert isinstance(starting.exception(120), StoreClosedError)  # which would go on for long without it
    storage.close()


def test_after_a_fork_every_call_says_so(shared: Any) -> None:
    with ConnectStorage(shared.sharing()) as storage:
        fill(storage)
        config, status, offsets = storage.config, storage.status, storage.offsets
        reader, writer = storage.offset_reader("foo"), storage.offset_writer("foo")
        calls: list[Callable[[], object]] = [
            *reads(storage),
            *(store.refresh for store in (config, status, offsets)),
            *(store.positions for store in (config, status, offsets)),
            *(store.skipped for store in (config, status, offsets)),
            lambda: config.put_connector_config("c", {}),
            lambda: status.put(ConnectorStatus("c", State.RUNNING, "w:1", 1)),
            status.flush,
            lambda: offsets.set({b'group-a.["c",{}]': b"{}"}).result(120),
            lambda: reader.offset({"filename": "x.txt"}),
            lambda: storage.offset_writer("c"),
            lambda: storage.startup,
            ConnectStorage.__enter__.__get__(storage),
        ]
        storage.offsets.get([]).result(120)
        child = os.fork()
        if child == 0:  # no test is in here: whatever happens, it has to end
            silent = len(calls)
            try:
                for number, call in enumerate(calls):
                    silent = number
                    try:
                        call()
                    except StoreClosedError as error:
                        if "forked" in str(error):
                            continue
                    except BaseException as error:  # noqa: BLE001 - seen by the exit code only
                        print(number, repr(error), file=sys.stderr)
                    break
                else:
                    silent = 200 if isinstance(storage.failed, StoreClosedError) else 100
                config.stop()
                storage.close()
            finally:
                os._exit(silent)
        waited = await_that(lambda: os.waitpid(child, os.WNOHANG), lambda ended: ended[0] > 0, what="ended")
        assert os.waitstatus_to_exitcode(waited[1]) == 200
        assert writer.will_flush() is False
        storage.config.put_connector_config("still", {})  # nothing was taken from this process


def test_a_callback_that_waits_for_its_own_thread(shared: Any) -> None:
    store, seen = shared.offset_store(), []

    def refresh(_error: object) -> None:
        try:
            store.refresh(120)
        except UsageError as error:
            seen.append(error)

    store.set({b'group-a.["c",{}]': b"{}"}, refresh).result(120)
    assert len(seen) == 1


def test_statuses_of_the_last_moment_are_sent(shared: Any) -> None:
    """Also where the first try fails: what a worker says last is that its tasks are not assigned."""
    tasks = [ConnectorTaskId("c", number) for number in range(100)]
    store = shared.status_store()
    send, failed = store._compacted_log.send, set()

    def fails_once(key: bytes, value: bytes | None) -> Any:
        if key not in failed:
            failed.add(key)
            return send(key, TOO_LARGE)
        return send(key, value)

    store._compacted_log.send = fails_once
    store_module = sys.modules["connect_share.stores.status"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store_module, "_may_pass", lambda _error: True)
        # One wait for each would not end before the limit: statuses would be missing.
        patched.setattr(store._retries, "pause_s", 1.0)
        for task in tasks:
            store.put(TaskStatus(task, State.UNASSIGNED, "w:1", 1))
        store.stop(60.0)
    again = shared.status_store()
    assert {status.state for status in again.get_all("c")} == {State.UNASSIGNED}
    assert len(again.get_all("c")) == len(tasks)


def test_snapshots_cannot_be_changed() -> None:
    store = MemoryConfigBackingStore()
    store.start()
    store.put_connector_config("c", {"n": "1"})
    store.put_task_configs("c", [{"t": "0"}])
    state = store.snapshot()
    for copied in (
        state.connector_config("c"),
        state.task_config(ConnectorTaskId("c", 0)),
        state.applied_connector_config("c"),
    ):
        assert isinstance(copied, dict)
        copied["n"] = "2"
    assert state == store.snapshot() == pickle.loads(pickle.dumps(state))
    assert state.connector_config("c") == {"n": "1"} == state.applied_connector_config("c")
    assert state.task_config(ConnectorTaskId("c", 0)) == {"t": "0"}
    assert store.contains("c")
    assert not store.contains("d")


def test_started_again_after_a_stop_a_failed_start_and_a_failure(shared: Any) -> None:
    failures: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
    restarted = threading.Event()

    def start_again(error: BaseException) -> None:
        failures.put(error)
        storage.stop()
        with pytest.raises(LostTopicError):  # it does not make anew what is lost
            storage.start()
        shared.create(shared.topics["config"], cleanup_policy="compact")
        storage.start()
        restarted.set()

    storage = ConnectStorage(shared.sharing(), on_failed=start_again)
    storage.stop()
    storage.close()
    with storage:
        fill(storage)
        storage.close(-1.0)  # a deadline that has passed, not one without end
    assert storage.start() is storage
    with pytest.raises(NotStartedError, match="not stopped since"):
        storage.start()
    before = storage.config
    storage.stop()
    with pytest.raises(NotStartedError, match=r"call start\(\)"):
        _ = storage.config
    storage.start()
    assert storage.failed is None
    assert storage.config.snapshot().connectors() != frozenset()
    with pytest.raises(StoreClosedError):
        before.refresh()

    topic = shared.topics["config"]
    shared.admin.delete_topics([topic])
    assert isinstance(failures.get(timeout=180), ConnectShareError)
    assert restarted.wait(300)
    assert storage.failed is None
    storage.stop()


SECRET = "s3cret-in-an-error"


def fails_once(call: Callable[..., Any]) -> tuple[Callable[..., Any], list[str]]:
    """Return the call, which fails the first time, and what it did."""
    done: list[str] = []

    def failing(*arguments: Any, **named: Any) -> Any:
        done.append("failed" if not done else "answered")
        if len(done) == 1:
            raise RuntimeError(SECRET)
        return call(*arguments, **named)

    return failing, done


def test_live_members_are_asked_for_again(shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_members, "LIVE_MEMBERS_CACHE_S", 0.0)
    with ConnectStorage(shared.sharing(), allow_empty=True) as storage:
        failing, done = fails_once(Admin.connect_members)
        monkeypatch.setattr(Admin, "connect_members", failing)
        storage.config.put_connector_config("c", {})
        storage.config.put_connector_config("d", {})
        assert done[:2] == ["failed", "answered"]


def test_a_checkpoint_is_written_later(shared: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "checkpoint"
    with pytest.MonkeyPatch.context() as meanwhile:
        failing, done = fails_once(Admin.start_offsets)
        meanwhile.setattr(Admin, "start_offsets", failing)
        with ConnectStorage(shared.sharing(), allow_empty=True, checkpoint=path):
            await_that(lambda: done, what="tried")
    assert f"Checkpoint {path} was not written: RuntimeError" in caplog.text
    assert SECRET not in caplog.text
    assert read_checkpoint(path).config.topic


def test_a_topic_is_followed_again(
    shared: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with ConnectStorage(shared.sharing(), allow_empty=True):
        worker = shared.sharing()
    failing, _ = fails_once(gather_facts)
    monkeypatch.setattr(followed_topic, "gather_facts", failing)
    monkeypatch.setattr(followed_topic, "_AGAIN_S", 0.1)
    with Admin(worker.admin_settings(), client_id="tests") as admin:
        spec = topic_spec(worker, TopicType.STATUS)
        followed = FollowedTopic(spec, worker.consumer_settings(), worker.isolation(TopicType.STATUS), admin)
        followed.start()
        await_that(lambda: followed.is_up, what="followed")
        followed.stop()
    assert f"Reading topic {spec.topic} begins anew: RuntimeError" in caplog.text
    assert SECRET not in caplog.text
