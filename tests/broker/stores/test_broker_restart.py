"""A whole storage, as it is by default, across a broker that is killed and comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connect_share import AsyncConnectStorage, replay_config, replay_offsets, replay_status
from connect_share.errors import BrokerError, BrokerUnavailableError, ConnectShareError, ReadToEndTimeoutError
from connect_share.kafka.admin import Admin
from connect_share.model.config_state import ClusterConfigState, SessionKey, TargetState
from connect_share.model.offsets import OffsetSnapshot
from connect_share.model.status import ConnectorStatus, State, StatusSnapshot, TopicStatus
from connect_share.storage import ConnectStorage
from connect_share.stores import offsets
from connect_share.stores.alter_offsets import alter_offsets
from connect_share.worker_config import WorkerConfig
from tests.broker.log.conftest import Bench, Collected
from tests.lab.embedded.broker import LocalBroker
from tests.support.flushes import flush_offsets
from tests.support.kafka import ONE_SEGMENT_EACH, skip_where_brokers_stay
from tests.support.long_forms import LONG
from tests.support.topics import read_topic
from tests.support.waiting import await_that
from tests.support.worker_files import SHARING, properties_of

pytestmark = [pytest.mark.kills_broker, pytest.mark.xdist_group("broker-restart")]

OUTAGE_S = 40 if LONG else 6
LATE_S = 5.0  # a call may outlive its deadline by so much on a busy machine
FILE = {"filename": "x.txt"}


@pytest.fixture(scope="module")
def mortal() -> Iterator[LocalBroker]:
    """One broker for all tests here: each kills it and brings it back."""
    skip_where_brokers_stay()
    with LocalBroker(properties=ONE_SEGMENT_EACH) as local:
        yield local


def worker(broker: LocalBroker, group: str, exactly_once: str = "disabled", *, topics: str = "") -> WorkerConfig:
    properties = properties_of(broker.bootstrap_servers, group, topics, exactly_once_source_support=exactly_once)
    return WorkerConfig.from_properties(properties | SHARING)


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


def flush(storage: ConnectStorage, position: int) -> None:
    """What a task does every minute; the producer waits as long as it takes."""
    flush_offsets(storage.offset_writer("source"), (FILE, {"position": position}), limit_s=120)


@pytest.mark.slow
def test_an_outage_shorter_than_the_deadline_is_no_error_on_asyncio(mortal: LocalBroker) -> None:
    """The storage as it is by default, that is with the look for live Java workers; its leader has exactly-once."""

    async def body() -> None:
        async with AsyncConnectStorage(worker(mortal, "async", "enabled"), allow_empty=True) as storage:
            await storage.config.claim_write_privileges()
            await storage.config.put_connector_config("c.1", {})
            await asyncio.to_thread(mortal.kill)
            writes = [asyncio.ensure_future(storage.config.put_connector_config(f"w.{n}", {})) for n in range(20)]
            await asyncio.to_thread(mortal.start)
            await asyncio.gather(*writes)
            assert len(storage.config.snapshot().connectors()) == 21

    asyncio.run(body())


@pytest.mark.slow
def test_reads_outlast_an_outage_shorter_than_their_deadline(
    mortal: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = worker(mortal, "reads", topics="reads-")
    with (
        Admin(config.admin_settings(), client_id="tests", timeout_s=5) as admin,
        ConnectStorage(config) as storage,
        ThreadPoolExecutor(8) as asking,
    ):
        storage.offsets.set({b'reads.["foo",{"filename":"x.txt"}]': b'{"position":1}'}).result(60)
        reader = storage.offset_reader("foo")
        assert reader.offset(FILE) == {"position": 1}
        assert admin.topic_names() >= {"reads-configs", "reads-offsets"}
        for name in ("own", "other"):
            storage.config.put_connector_config(name, {"offsets.storage.topic": f"offsets-of-{name}"})
        storage.offset_reader("own")

        reads: list[Callable[[], Any]] = [
            lambda: storage.offsets.refresh(150),
            lambda: storage.config.refresh(150),
            lambda: reader.offset(FILE),
            lambda: storage.offset_reader("own").offset(FILE),
            lambda: storage.offset_reader("other").offset(FILE),
            lambda: admin.describe_topics(["reads-offsets"], timeout_s=150).keys(),
            lambda: admin.end_offsets([("reads-offsets", 0)], timeout_s=150),
        ]
        mortal.kill()
        answers = [asking.submit(read) for read in reads]
        # Longer than two refused connections, and than the admin client's own limit.
        threading.Event().wait(OUTAGE_S)
        mortal.start()
        found = [answer.result(180) for answer in answers]
        assert found[2:] == [{"position": 1}, None, None, {"reads-offsets"}, {("reads-offsets", 0): 1}]

        mortal.kill()
        try:
            monkeypatch.setattr(offsets, "GET_TIMEOUT_S", 1.5)
            late: list[tuple[Callable[[], Any], type[ConnectShareError]]] = [
                (lambda: storage.offsets.refresh(1.5), ConnectShareError),
                (lambda: reader.offset(FILE), ConnectShareError),
                (lambda: admin.describe_topics(["reads-offsets"], timeout_s=1.5), BrokerUnavailableError),
            ]
            for read, kind in late:
                began = time.monotonic()
                with pytest.raises(kind) as ended:
                    read()
                assert ended.value.retriable
                assert time.monotonic() - began < 5
            admin.close()
            with pytest.raises(BrokerUnavailableError, match="was closed"):
                admin.describe_topics(["reads-offsets"], timeout_s=60)
            storage.close(0.1)
        finally:
            mortal.start()


@pytest.mark.slow
@pytest.mark.parametrize("crash", [True, *([False] if LONG else [])])
def test_log_goes_on_after_the_broker_is_back(mortal: LocalBroker, unique: str, crash: bool) -> None:
    with ExitStack() as stack:
        bench = Bench(mortal.bootstrap_servers, unique, stack)
        sink = Collected()
        log = bench.started(sink, spec=bench.spec(partitions=3))
        for i in range(10):
            log.send(b"k%d" % i, b"before").result(120)
        log.read_to_end(120)
        assert len(sink.records) == 10
        reader = bench.started(Collected(), producer_settings=None)
        (mortal.kill if crash else mortal.stop)()
        meanwhile = log.send(b"meanwhile", b"1")
        began = time.monotonic()
        with pytest.raises((BrokerError, ReadToEndTimeoutError)):
            log.read_to_end(0.5)
        with pytest.raises((BrokerError, ReadToEndTimeoutError)):
            reader.read_to_end(0.5)
        assert time.monotonic() - began < 29  # the deadline holds; other limits are 30 s
        mortal.start()
        meanwhile.result(60)
        log.send(b"after", b"1").result(60)
        log.read_to_end(25)  # leaders and their epochs are new; nobody waits half a minute until the old ones expire
        keys = [record.key or b"" for record in sink.records]
        assert sorted(set(keys)) == sorted([b"k%d" % i for i in range(10)] + [b"meanwhile", b"after"])
        assert keys.count(b"k0") == 1
        assert sum(log.positions().values()) == sum(
            bench.admin.end_offsets((bench.topic, partition) for partition in range(3)).values()
        )


class Held:
    """Stops the first call of something in its thread until the broker is dead."""

    def __init__(self, owner: Any, name: str) -> None:
        call = getattr(owner, name)
        self.reached, self.go_on = threading.Event(), threading.Event()

        def held(*arguments: Any, **named: Any) -> Any:
            if not self.reached.is_set():
                self.reached.set()
                assert self.go_on.wait(300)
            return call(*arguments, **named)

        setattr(owner, name, held)


def hold(phase: str, log: Any) -> Held | None:
    """Stop what is done with a log in a phase of a write or of a read."""
    match phase:
        case "acknowledged":  # by the broker; nobody has heard of it
            return Held(log._writer, "acknowledged")
        case "to be read back":  # past what was acknowledged, or up to ends that the broker gave
            return Held(log._state, "reaching")
    return None


def unread(broker: LocalBroker) -> int:
    """Return from how many connections a broker that stands still has bytes that it has not read; they have a client each."""
    port, rows = f":{int(broker.bootstrap_servers.rpartition(':')[2]):04X}", list[list[str]]()
    for table in ("tcp", "tcp6"):
        rows += [line.split() for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]]
    return sum(row[1].endswith(port) and not row[4].endswith(":00000000") for row in rows)


# What is done at once, by storages of their own: one thing with each topic.
STORAGES = (
    ("configuration", "status", "offsets"),
    ("removal", "topic", "alter"),
    ("tasks", "refresh", "read"),
    ("session key",),
    ("state",),
)
WRITES = frozenset(name for names in STORAGES for name in names) - {"refresh", "read"}
READ_BACK = frozenset({"configuration", "removal", "tasks", "session key", "refresh", "read"})
PHASES = {
    "before": WRITES | READ_BACK,
    "sent": WRITES | READ_BACK,
    "acknowledged": WRITES,
    "to be read back": READ_BACK,
}
"""37 cells; a broker that is killed once meets all of them."""


def operation(name: str, storage: ConnectStorage) -> tuple[Any, float, Callable[[], Any]]:
    """Give the store it is done with, its deadline and how it is done."""
    config, status, offsets = storage.config, storage.status, storage.offsets
    budget = 120.0  # on a busy machine a broker may take longer to come back than the 30 s of a write
    in_time: Any = {"timeout_s": budget}
    failed = ConnectorStatus("c", State.FAILED, "w:1", 1)
    done: dict[str, tuple[Any, float, Callable[[], Any]]] = {
        "configuration": (
            config,
            budget,
            lambda: config.put_connector_config("new", {}, TargetState.STOPPED, **in_time),
        ),
        "removal": (config, budget, lambda: config.remove_connector_config("c", **in_time)),
        "tasks": (config, budget, lambda: config.put_task_configs("c", [{}, {}], **in_time)),
        "session key": (config, budget, lambda: config.put_session_key(SessionKey(b"k", "HmacSHA256", 1), **in_time)),
        "state": (config, budget, lambda: config.put_target_state("c", TargetState.PAUSED, **in_time)),
        "status": (status, 0.0, lambda: status.put(failed)),
        "topic": (status, 0.0, lambda: status.put(TopicStatus("t", "c", 0, 1))),
        "refresh": (status, 120.0, lambda: status.refresh(120)),
        "offsets": (offsets, 120.0, lambda: flush(storage, 2)),
        "alter": (offsets, 120.0, lambda: alter_offsets(offsets, "source", [(FILE, {"position": 2})], timeout_s=90.0)),
        "read": (offsets, 120.0, lambda: storage.offset_reader("source").offset(FILE)),
    }
    return done[name]


def current_state(config: ClusterConfigState, status: StatusSnapshot, offsets: OffsetSnapshot) -> dict[str, Any]:
    found = status.connector_status("c")
    return {
        "connectors": config.connectors(),
        "states": config.target_states(),
        "tasks": len(config.tasks("c")),
        "key": None if config.session_key is None else config.session_key.key,
        "status": None if found is None else found.state,
        "topics": status.topics("c"),
        "offset": offsets.offset("source", FILE),
    }


AFTER: dict[str, dict[str, Any]] = {
    "configuration": {"connectors": {"c", "new"}, "states": {"c": TargetState.STARTED, "new": TargetState.STOPPED}},
    "removal": {"connectors": set(), "states": {}},
    "tasks": {"tasks": 2},
    "session key": {"key": b"k"},
    "state": {"states": {"c": TargetState.PAUSED}},
    "status": {"status": State.FAILED},
    "topic": {"topics": {"t"}},
    "offsets": {"offset": {"position": 2}},
    "alter": {"offset": {"position": 2}},
}
BEFORE: dict[str, Any] = {
    "connectors": {"c"},
    "states": {"c": TargetState.STARTED},
    "tasks": 0,
    "key": None,
    "status": None,
    "topics": frozenset(),
    "offset": {"position": 1},
}


def filled(storage: ConnectStorage) -> ConnectStorage:
    storage.config.put_connector_config("c", {})
    flush(storage, 1)
    return storage


def close_without_broker(storage: ConnectStorage, threads: ThreadPoolExecutor) -> None:
    """With something under way everywhere; whatever waits is let go."""
    storage.status.put(ConnectorStatus("c", State.UNASSIGNED, "w:1", 1))
    waiting: list[Future[Any]] = [
        threads.submit(partial(flush, storage, 2)),
        threads.submit(partial(storage.offset_reader("source").offset, FILE)),
        threads.submit(partial(storage.config.put_connector_config, "late", {})),
        threads.submit(partial(storage.status.refresh, 60.0)),
    ]
    await_that(lambda: [each.running() for each in waiting], all, what="under way")
    began = time.monotonic()
    storage.close(2.0)
    took = time.monotonic() - began
    assert took < 2.0 + LATE_S, f"closing took {took:.1f} s"
    assert all(isinstance(each.exception(60), ConnectShareError) for each in waiting)


@pytest.mark.slow
def test_the_broker_is_killed_in_each_phase_of_each_operation(mortal: LocalBroker, tmp_path: Path) -> None:
    """Nothing acknowledged or queued is lost, and no call outlives its deadline."""
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(50))
        clocked = Clocked(threads)
        storages = {
            (phase, names): filled(
                stack.enter_context(
                    ConnectStorage(worker(mortal, f"{phase}-{number}".replace(" ", "-")), allow_empty=True)
                )
            )
            for number, names in enumerate(STORAGES)
            for phase in PHASES
        }
        held: list[Held] = []
        closing = stack.enter_context(
            ConnectStorage(worker(mortal, "closing", "preparing"), allow_empty=True, checkpoint=tmp_path / "checkpoint")
        )
        closing.config.claim_write_privileges()
        filled(closing).config.put_connector_config("source", {"offsets.storage.topic": "own"})
        flush(closing, 1)

        def begin(wanted: str) -> None:
            for (phase, names), storage in storages.items():
                for name in PHASES[wanted].intersection(names) if phase == wanted else ():
                    store, limit_s, call = operation(name, storage)
                    stopped = hold(phase, store._compacted_log)
                    held.extend([] if stopped is None else [stopped])
                    clocked.begin(f"{name}, {phase}", limit_s, call)
            for each in held:
                assert each.reached.wait(120)

        begin("acknowledged")
        begin("to be read back")
        assert mortal._process is not None
        os.kill(mortal._process.pid, signal.SIGSTOP)  # what is sent now is not acknowledged
        try:
            begin("sent")
            await_that(partial(unread, mortal), lambda found: found >= len(WRITES), what="on its way")
            mortal.kill()
            begin("before")
            for each in held:
                each.go_on.set()
            close_without_broker(closing, threads)
        finally:
            mortal.kill()
            mortal.start()
        assert clocked.await_all() == {}
        for storage in storages.values():
            await_that(lambda store=storage.status: store._unwritten, lambda left: not left, what="written")  # type: ignore[misc]

        with Admin(mortal.client_settings, client_id="tests") as admin:
            topics = ("configs", "statuss", "offsets")
            records = {topic: read_topic(admin, mortal.client_settings, topic) for topic in topics}
        for (phase, names), storage in storages.items():
            expected = dict(BEFORE)
            for name in PHASES[phase].intersection(names):
                expected |= AFTER.get(name, {})
            for store in (storage.config, storage.status, storage.offsets):
                store.refresh(60)
            live = current_state(storage.config.snapshot(), storage.status.snapshot(), storage.offsets.snapshot())
            assert (phase, live) == (phase, expected)
            assert storage.failed is None
            group = storage.cluster_group_id
            replayed = current_state(
                replay_config(records["configs"], group),
                replay_status(records["statuss"], group),
                replay_offsets(records["offsets"], group),
            )
            assert (phase, replayed) == (phase, expected)
