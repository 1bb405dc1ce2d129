"""A whole storage, as it is by default, across a broker that is killed and comes back."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from connect_share.embedded.broker import LocalBroker
from connect_share.errors import ReadToEndTimeoutError, WriteError
from connect_share.records import ConnectorTaskId
from connect_share.state import ConnectorStatus, State, TargetState, TaskStatus, TopicStatus
from connect_share.storage import ConnectStorage
from connect_share.stores.config import WRITE_BUDGET_S
from connect_share.worker_config import WorkerConfig
from tests.support.kafka import ONE_SEGMENT_EACH, given_broker
from tests.support.waiting import await_that

pytestmark = [pytest.mark.broker, pytest.mark.kills_broker, pytest.mark.xdist_group("broker-restart")]

AWAY_S = (2.0, 6.0, 40.0) if "CONNECT_SHARE_SOAK_MINUTES" in os.environ else (2.0, 6.0)
LATE_S = 1.0  # a call may outlive its deadline by so much
FILE = {"filename": "x.txt"}


@pytest.fixture(scope="module")
def mortal() -> Iterator[LocalBroker]:
    """One broker for all tests here: each kills it and brings it back."""
    if given_broker() is not None:
        pytest.skip("CONNECT_SHARE_BOOTSTRAP is set: tests that stop brokers do not run")
    with LocalBroker(properties=ONE_SEGMENT_EACH) as local:
        yield local


def worker(broker: LocalBroker, group: str = "group-a") -> WorkerConfig:
    properties = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "config.storage.topic": "configs",
        "offset.storage.topic": "offsets",
        "status.storage.topic": "statuses",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "offset.storage.partitions": "1",
        "status.storage.replication.factor": "1",
        "status.storage.partitions": "1",
        "connect.management.topic.sharing.support": "enabled",
    }
    return WorkerConfig.from_properties(properties)


class Clocked:
    """Calls in threads of their own, and how long each took."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self.calls: list[tuple[str, float, Future[float]]] = []

    def begin(self, what: str, limit_s: float, call: Callable[[], Any]) -> Future[float]:
        def timed() -> float:
            began = time.monotonic()
            try:
                call()
            finally:
                took = time.monotonic() - began
                assert took < limit_s + LATE_S, f"{what} took {took:.1f} s, its limit is {limit_s} s"
            return took

        future = self._threads.submit(timed)
        self.calls.append((what, limit_s, future))
        return future

    def await_all(self) -> dict[str, BaseException]:
        """Give what failed; a call that outlived its deadline fails the test."""
        failed: dict[str, BaseException] = {}
        for what, limit_s, future in self.calls:
            error = future.exception(limit_s + 30)
            if isinstance(error, AssertionError):
                raise error
            if error is not None:
                failed[what] = error
        return failed


class Statuses:
    """Puts statuses without pause, as workers do; keeps what was put last."""

    def __init__(self, storage: ConnectStorage) -> None:
        self._storage = storage
        self._over = threading.Event()
        self.last: dict[Any, Any] = {}
        self.topics: set[str] = set()
        self.slowest_s = 0.0
        self.puts = 0

    def put_until_over(self) -> None:
        states = (State.RUNNING, State.FAILED)
        while not self._over.wait(0.02) or self.puts < 2:
            number, state = self.puts, states[self.puts % 2]
            began = time.monotonic()
            connector = ConnectorStatus(f"c{number % 3}", state, "w:1", 1, str(number))
            task = TaskStatus(ConnectorTaskId("c0", number % 2), state, "w:1", 1, str(number))
            topic = TopicStatus(f"t{number}", "c0", 0, number)
            self._storage.status.put(connector)
            self._storage.status.put_safe(task)
            if number < 100:
                self._storage.status.put(topic)
                self.topics.add(topic.topic)
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self.last |= {connector.connector: connector, task.task_id: task}
            self.puts += 1

    def end(self) -> None:
        self._over.set()


def flush(storage: ConnectStorage, position: int) -> None:
    """What a task does every minute; the producer waits as long as it takes."""
    writer = storage.offset_writer("source")
    writer.offset(FILE, {"position": position})
    assert writer.begin_flush()
    written = writer.do_flush()
    assert written is not None
    written.result(60)


@pytest.mark.parametrize("away_s", AWAY_S)
def test_everything_put_while_the_broker_is_away_arrives(
    mortal: LocalBroker, caplog: pytest.LogCaptureFixture, away_s: float
) -> None:
    """The storage as it is by default, that is with the look for live Java workers; all operations at once."""
    group = f"away-{away_s:g}"
    survives_budget = away_s < WRITE_BUDGET_S / 2
    with (
        caplog.at_level(logging.WARNING),
        ThreadPoolExecutor(16) as threads,
        ConnectStorage(worker(mortal, group), allow_empty=True) as storage,
    ):
        storage.config.put_connector_config("before", {"n": "0"})
        storage.config.put_connector_config("removed", {"n": "0"})
        flush(storage, 0)
        statuses, clocked = Statuses(storage), Clocked(threads)
        putting = threads.submit(statuses.put_until_over)
        await_that(lambda: statuses.puts, lambda count: count > 2, what="put")
        mortal.kill()
        try:
            config, budget = storage.config, WRITE_BUDGET_S
            clocked.begin("configuration", budget, lambda: config.put_connector_config("during", {"n": "1"}))
            clocked.begin("removal", budget, lambda: config.remove_connector_config("removed"))
            clocked.begin("tasks", budget, lambda: config.put_task_configs("before", [{"n": "0"}, {"n": "1"}]))
            clocked.begin("state", budget, lambda: config.put_target_state("before", TargetState.PAUSED))
            clocked.begin("offsets", 60, lambda: flush(storage, 1))
            clocked.begin("read", 60, lambda: storage.offset_reader("source").offset(FILE))
            stores = {"config": storage.config, "status": storage.status, "offset": storage.offsets}
            for name, store in stores.items():
                clocked.begin(f"short refresh of {name}", 1.0, partial(store.refresh, 1.0))
                clocked.begin(f"refresh of {name}", 60, partial(store.refresh, 60.0))
            time.sleep(away_s)
        finally:
            mortal.start()
        failed = clocked.await_all()
        statuses.end()
        putting.result(30)
        for store in stores.values():
            store.refresh(60)

        short = {f"short refresh of {name}" for name in stores}
        assert all(isinstance(failed.pop(name), ReadToEndTimeoutError) for name in short)
        if not survives_budget:
            for name in ("configuration", "removal", "tasks", "state"):
                assert isinstance(failed.pop(name), WriteError)
        assert failed == {}
        assert statuses.slowest_s < LATE_S
        believed: Any = await_that(
            lambda: {subject: storage.status.get(subject) for subject in statuses.last},
            lambda now: now == statuses.last,
            what="the statuses put last",
        )
        assert believed == statuses.last
        assert storage.status.snapshot().topics("c0") == statuses.topics
        if survives_budget:
            state = storage.config.snapshot()
            assert state.connectors() == {"before", "during"}
            assert state.target_state("before") is TargetState.PAUSED
            assert state.task_count("before") == 2
        assert storage.offset_reader("source").offset(FILE) == {"position": 1}
        assert storage.failed is None
        assert storage.failed is None
        storage.config.put_connector_config("after", {})
        assert "Failed to write a status" not in caplog.text
    with ConnectStorage(worker(mortal, group)) as again:
        assert {subject: again.status.get(subject) for subject in statuses.last} == statuses.last
        assert again.offset_reader("source").offset(FILE) == {"position": 1}
        assert {"before", "after"} <= again.config.snapshot().connectors()
