"""The storage on asyncio: a real broker, one loop, and no thread for a call."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from connect_share import AsyncConnectStorage, NotStartedError, StoreClosedError, TargetState
from connect_share.errors import FencedError, StoreError, TopicRecreatedError
from connect_share.storage import ConfigEvents, ConnectorConfigRemoved, ConnectorConfigUpdated, TargetStateChanged
from connect_share.storage.async_storage import MOST_PENDING
from connect_share.stores.config import KafkaConfigBackingStore
from tests.support.waiting import await_that

SOURCE = {"connector.class": "X", "tasks.max": "1"}
PARTITION = {"file": "in.txt"}


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run on a loop that reports slow callbacks and what was never awaited, and has nothing to complain of."""
    complaints: list[str] = []

    async def heard() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
        await body()
        gc.collect()  # of a future whose error nobody asked for it complains when that is let go

    asyncio.run(heard(), debug=True)
    assert complaints == []


def test_a_task_writes_with_exactly_once(shared: Any) -> None:
    async def body() -> None:
        async with AsyncConnectStorage(shared.sharing(shared.group, exactly_once_source_support="enabled")) as storage:
            await storage.config.claim_write_privileges()
            await storage.config.put_connector_config("c", SOURCE)
            await storage.config.put_task_configs("c", [{"n": "0"}])
            await storage.fence_zombie_source_tasks("c")
            writer = await storage.task_offset_writer("c", 0)

            def work() -> None:
                with writer:
                    writer.offset(PARTITION, {"position": 3})
                    writer.commit()

            await asyncio.to_thread(work)
            reader = await storage.offset_reader("c")
            assert await reader.offset(PARTITION) == {"position": 3}
            await asyncio.to_thread(writer.claim)
            await storage.fence_tasks("c", 1)
            writer.offset(PARTITION, {"position": 4})
            with pytest.raises(FencedError):
                await asyncio.to_thread(writer.commit)

    run(body)


def test_offsets_and_events(shared: Any) -> None:
    async def body() -> None:
        storage = AsyncConnectStorage(shared.sharing())
        with pytest.raises(NotStartedError):
            _ = storage.config
        async with storage:
            events = storage.events()
            await storage.config.put_connector_config("c.1", SOURCE, TargetState.PAUSED)
            await storage.config.put_task_configs("c.1", [{"n": "0"}])
            await storage.config.put_target_state("c.1", TargetState.STARTED)
            writer, reader = await storage.offset_writer("c.1"), await storage.offset_reader("c.1")
            writer.offset(PARTITION, {"position": 3})
            assert await writer.flush()
            assert not await writer.flush(timeout_s=1)
            writer.offset(PARTITION, {"position": 4})
            assert writer.begin_flush()
            await writer.do_flush()
            assert await reader.offset(PARTITION) == {"position": 4}
            await storage.config.remove_connector_config("c.1")
            assert await storage.reset_offsets("c.1", force=True) == 1
        kinds = [type(event).__name__ async for event in events]
        assert kinds[0] == "ConnectorConfigUpdated"
        assert kinds[-1] == "ConnectorConfigRemoved"
        with pytest.raises(NotStartedError):
            _ = storage.config

    run(body)


def test_a_thousand_writes_at_once_take_no_threads(shared: Any) -> None:
    async def body() -> None:
        async with AsyncConnectStorage(shared.sharing()) as storage:
            before, seen = threading.active_count(), list[int]()

            async def put(number: int) -> None:
                await storage.config.put_connector_config(f"c.{number % 100}", {"n": str(number)}, timeout_s=300)
                seen.append(threading.active_count())

            await asyncio.gather(*(put(number) for number in range(1_000)))
            assert max(seen) <= before + 8
            state = storage.config.snapshot()
            # Writes of one connector were made in their order.
            assert {name: state.connector_config(name) for name in state.connectors()} == {
                f"c.{number % 100}": {"n": str(number)} for number in range(900, 1_000)
            }

    run(body)


def test_reads_that_wait_for_a_transaction_hold_nothing_else_up(shared: Any) -> None:
    async def body() -> None:
        storage = AsyncConnectStorage(shared.sharing(exactly_once_source_support="enabled"))
        await storage.start()
        with shared.open_transaction("offset", [(b"group-b.[]", b"{}")]):
            reader = await storage.offset_reader("c")
            reads = [asyncio.ensure_future(reader.offset(PARTITION)) for _ in range(5)]
            for others in (storage.config.refresh, storage.status.flush, storage.stop):
                assert not any(each.done() for each in reads)
                await asyncio.wait_for(others(), 60)
        ended = await asyncio.gather(*reads, return_exceptions=True)
        assert {type(each) for each in ended} == {StoreClosedError}

    run(body)


def test_who_is_cancelled_loses_nothing_and_changes_no_order(shared: Any) -> None:
    async def body() -> None:
        async with AsyncConnectStorage(shared.sharing()) as storage:
            await storage.config.put_connector_config("c.1", SOURCE)
            writing = asyncio.ensure_future(storage.config.put_task_configs("c.1", [{"n": "0"}, {"n": "1"}]))
            await asyncio.sleep(0)
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing
            await storage.config.remove_connector_config("c.1")
            await storage.config.refresh()
            assert storage.config.snapshot().connectors() == frozenset()
        async with AsyncConnectStorage(shared.sharing()) as again:
            assert again.config.snapshot().connectors() == frozenset()

    run(body)


@pytest.mark.parametrize(("begins", "stops"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_start_that_is_cut_off_leaves_nothing(shared: Any, monkeypatch: Any, begins: bool, stops: bool) -> None:
    begun, go_on, start = threading.Event(), threading.Event(), KafkaConfigBackingStore.start

    def held(store: KafkaConfigBackingStore) -> None:
        begun.set()
        assert go_on.wait(300)
        start(store)

    def threads() -> set[str]:
        return {each.name for each in threading.enumerate() if not each.name.startswith("asyncio_")}

    async def body() -> None:
        before = threads()
        storage = AsyncConnectStorage(shared.sharing())
        with monkeypatch.context() as patched:
            patched.setattr(KafkaConfigBackingStore, "start", held)
            starting = asyncio.ensure_future(storage.start())
            await asyncio.sleep(0)
            if begins:
                assert await asyncio.to_thread(begun.wait, 300)
            ending = asyncio.ensure_future(storage.stop() if stops else asyncio.sleep(0))
            if not stops:
                starting.cancel()
            go_on.set()
            _, ended = await asyncio.gather(ending, starting, return_exceptions=True)
            assert isinstance(ended, StoreClosedError if stops else asyncio.CancelledError | StoreClosedError)
        async with storage:
            await storage.config.refresh()
        await asyncio.to_thread(await_that, threads, before.issuperset, what="no thread of the storage")

    run(body)


def test_a_topic_that_is_gone_ends_the_events(shared: Any) -> None:
    async def body() -> None:
        failures: list[BaseException] = []
        async with AsyncConnectStorage(shared.sharing(), on_failed=failures.append) as storage:
            events = storage.events()
            await asyncio.to_thread(shared.admin.delete_topics, [shared.topics["config"]])
            with pytest.raises(TopicRecreatedError):
                await anext(events)
            assert isinstance(storage.failed, TopicRecreatedError)
            with pytest.raises(TopicRecreatedError):
                await storage.config.put_connector_config("c.1", SOURCE)

    asyncio.run(body())


def test_a_listener_that_is_slow_gets_each_change_once() -> None:
    async def body() -> None:
        forgotten: list[ConfigEvents] = []
        events = ConfigEvents(asyncio.get_running_loop(), forgotten.append)
        for _ in range(3):
            events.add(ConnectorConfigUpdated("c.1"))
            events.add(TargetStateChanged("c.1"))
        assert await anext(events) == ConnectorConfigUpdated("c.1")
        events.add(ConnectorConfigRemoved("c.1"))
        await events.aclose()
        assert [event async for event in events] == [TargetStateChanged("c.1"), ConnectorConfigRemoved("c.1")]
        assert forgotten == [events]

        full = ConfigEvents(asyncio.get_running_loop(), forgotten.append)
        for number in range(MOST_PENDING + 1):
            full.add(ConnectorConfigUpdated(str(number)))
        with pytest.raises(StoreError, match="10,000 changes waited"):
            await anext(full)

    run(body)


def test_a_loop_that_was_closed_does_not_hold_up_the_log(shared: Any) -> None:
    storage = AsyncConnectStorage(shared.sharing())

    async def begin() -> ConfigEvents:
        await storage.start()
        return storage.events()

    events = asyncio.run(begin())

    async def end() -> None:
        await storage.config.put_connector_config("c.1", SOURCE)  # an event for a loop that is closed
        assert storage.config.snapshot().connectors() == {"c.1"}
        await storage.stop()

    asyncio.run(end())
    assert events
