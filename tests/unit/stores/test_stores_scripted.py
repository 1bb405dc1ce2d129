"""What a broker cannot be made to do on demand, on a scripted log: cases 5, 6 and 35."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from connect_share.errors import AuthorizationError, BrokerError, BrokerTimeoutError, ReadToEndTimeoutError, WriteError
from connect_share.log.protocol import RecordFeed, RecordMetadata, Steps
from connect_share.model.config_state import RestartRequest, SessionKey, TargetState
from connect_share.model.records import ConnectorTaskId, Record
from connect_share.model.status import ConnectorStatus, State, TaskStatus, TopicStatus
from connect_share.model.writable import status_record
from connect_share.stores.config import KafkaConfigBackingStore
from connect_share.stores.status import KafkaStatusBackingStore
from connect_share.worker_config import WorkerConfig
from tests.support import worker_files

PLAIN = WorkerConfig.from_properties(worker_files.WORKER)
SHARING = WorkerConfig.from_properties(worker_files.WORKER | worker_files.SHARING)
NO_RIGHT = AuthorizationError("no WRITE on topic scripted", code=29, name="TOPIC_AUTHORIZATION_FAILED")


class ScriptedLog:
    """A log whose acknowledgements, times and read-backs follow a script."""

    topic = "scripted"
    foreign_records = 0

    def __init__(self) -> None:
        self.now = 1000.0
        self.sent: list[tuple[bytes, bytes | None]] = []
        self.waits: list[float] = []
        self.outcomes: list[BrokerError | None] = []
        self.before_failing: dict[bytes, Callable[[], None]] = {}
        """What happens before the first send of a key fails in a way that may pass."""
        self.ack_seconds: list[float] = []
        self.position: int | None = None  # everything that was sent is read at once
        self.sink: RecordFeed | None = None
        self.sent_event = threading.Condition()

    def over(self, sink: RecordFeed) -> Any:
        self.sink = sink
        return self

    def start(self) -> None:
        pass

    def stop(self, timeout_s: float = 0.0) -> None:
        pass

    def check_may_wait(self) -> None:
        pass

    def check_topic(self) -> None:
        pass

    def positions(self) -> Mapping[int, int]:
        return {0: len(self.sent) if self.position is None else self.position}

    def reading_past(self, written: RecordMetadata, timeout_s: float) -> Steps[None]:
        self.waits.append(timeout_s)
        if self.positions()[0] <= written.offset:
            raise ReadToEndTimeoutError("no time", topic="scripted", partition=0, position=0, end_offset=1)
        yield from ()

    def read_to_end(self, timeout_s: float) -> None:
        pass

    def send(self, key: bytes, value: bytes | None) -> Future[RecordMetadata]:
        with self.sent_event:
            self.sent.append((key, value))
            self.sent_event.notify_all()
        future: Future[RecordMetadata] = _SlowAck(self) if self.ack_seconds else Future()
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if key in self.before_failing:
            self.before_failing.pop(key)()
            outcome = BrokerTimeoutError("slow", retriable=True)
        if outcome is not None:
            future.set_exception(outcome)
        else:
            future.set_result(RecordMetadata("scripted", 0, len(self.sent) - 1))
        return future

    def wait_for_sends(self, count: int) -> None:
        with self.sent_event:
            assert self.sent_event.wait_for(lambda: len(self.sent) >= count, 60)


class _SlowAck(Future[RecordMetadata]):
    """An acknowledgement that takes its time by the script's clock."""

    def __init__(self, log: ScriptedLog) -> None:
        super().__init__()
        self._script = log
        self._seconds = log.ack_seconds.pop(0)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        assert timeout is not None
        self._script.waits.append(timeout)
        if timeout < self._seconds:
            self._script.now += timeout
            raise TimeoutError
        self._script.now += self._seconds
        return super().result(0)


@pytest.fixture
def log() -> ScriptedLog:
    return ScriptedLog()


def config_store(log: ScriptedLog) -> KafkaConfigBackingStore:
    store = KafkaConfigBackingStore(SHARING, log=log.over, clock=lambda: log.now)
    store.start()
    return store


def status_store(log: ScriptedLog) -> KafkaStatusBackingStore:
    store = KafkaStatusBackingStore(PLAIN, log=log.over)
    store.start()
    return store


def test_refused_write_keeps_its_cause(log: ScriptedLog) -> None:  # case 5
    store = config_store(log)
    log.outcomes = [NO_RIGHT]
    with pytest.raises(WriteError, match="the configuration of connector 'c1'") as refused:
        store.put_connector_config("c1", {"secret": "s3cret"})
    assert isinstance(refused.value.__cause__, AuthorizationError)
    assert "s3cret" not in str(refused.value)
    assert log.waits == []


def test_the_second_record_of_a_write_is_sent_when_the_first_is_acknowledged(log: ScriptedLog) -> None:
    store = config_store(log)
    log.outcomes = [NO_RIGHT]
    with pytest.raises(WriteError, match="the removal of connector 'c1'"):
        store.remove_connector_config("c1")
    assert len(log.sent) == 1


@pytest.mark.parametrize(  # case 6
    ("last_s", "waits", "said"),
    [
        (1.0, [30.0, 1.0, 0.0], "written but not read back"),
        (1.5, [30.0, 1.0], "in part, 1 of 2 records: not acknowledged within 30 s; repeat the call"),
    ],
)
def test_removal_says_how_far_it_came(log: ScriptedLog, last_s: float, waits: list[float], said: str) -> None:
    store = config_store(log)
    log.ack_seconds = [29.0, last_s]
    log.position = 1
    with pytest.raises(WriteError, match=said):
        store.remove_connector_config("c1")
    assert log.waits == waits
    assert log.sent == [(b"group-a.connector-c1", b"null"), (b"group-a.target-state-c1", b"null")]


def test_a_write_has_the_time_it_is_given(log: ScriptedLog) -> None:
    store = config_store(log)
    log.ack_seconds = [4.0, 2.0]
    with pytest.raises(WriteError, match=r"in part, 1 of 2 records: not acknowledged within 5 s; repeat the call"):
        store.remove_connector_config("c1", timeout_s=5)
    assert log.waits == [5.0, 1.0]
    log.position = 0
    for put in (
        partial(store.put_connector_config, "c1", {}),
        partial(store.put_session_key, SessionKey(b"k", "HmacSHA256", 1)),
        partial(store.put_task_count_record, "c1", 1),
        partial(store.put_restart_request, RestartRequest("c1", only_failed=False, include_tasks=False)),
    ):
        with pytest.raises(WriteError, match="written but not read back within 7 s"):
            put(timeout_s=7)
        assert log.waits.pop() == 7.0
    for ordinary in (
        partial(store.put_target_state, "c1", TargetState.PAUSED),
        partial(store.put_logger_level, "root", "INFO"),
    ):
        log.ack_seconds = [9.0]
        with pytest.raises(WriteError, match="was sent to configs but not acknowledged within 8 s; whether it was"):
            ordinary(timeout_s=8)


# What is refused, and what is said then; the tasks go together, their commit behind them.
@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([NO_RIGHT, NO_RIGHT], "was not written to configs: no WRITE"),
        (
            [NO_RIGHT, None],
            "was written to configs in part, 1 of 3 records: no WRITE.*; repeat the call, which writes all",
        ),
        ([None, None, NO_RIGHT], "was written to configs in part, 2 of 3 records: no WRITE"),
    ],
)
def test_task_configurations_that_are_half_written_say_so(
    log: ScriptedLog, outcomes: list[BrokerError | None], said: str
) -> None:
    store = config_store(log)
    log.outcomes = outcomes
    with pytest.raises(WriteError, match=f"the task configurations of connector 'c1' {said}") as raised:
        store.put_task_configs("c1", [{"n": "0"}, {"n": "1"}])
    assert isinstance(raised.value.__cause__, AuthorizationError)


TASK = TaskStatus(ConnectorTaskId("foo", 0), State.RUNNING, "w:8083", 1)
STATUSES = pytest.mark.parametrize(
    "status",
    [ConnectorStatus("foo", State.RUNNING, "w:8083", 1), TASK, TopicStatus("t", "foo", 0, 1)],
    ids=["connector", "task", "topic"],
)


@STATUSES
@pytest.mark.parametrize(
    ("error", "sends"),
    [
        (BrokerTimeoutError("slow", retriable=True), 2),
        (NO_RIGHT, 2),  # which may have been taken away for a while
        (BrokerError("unknown", code=-1, name="UNKNOWN"), 1),
    ],
)
def test_status_is_sent_again_after_what_may_pass(  # case 35
    log: ScriptedLog,
    caplog: pytest.LogCaptureFixture,
    error: BrokerError,
    sends: int,
    status: ConnectorStatus | TaskStatus | TopicStatus,
) -> None:
    caplog.set_level(logging.ERROR)
    store = status_store(log)
    log.outcomes = [error, None]
    store.put(status)
    log.wait_for_sends(sends)
    store.stop()
    assert log.sent == [log.sent[0]] * sends
    assert ("Failed to write 'status-" in caplog.text) == (sends == 1)


UNASSIGNED = ConnectorStatus("foo", State.UNASSIGNED, "w:8083", 1)


def put_then(
    log: ScriptedLog,
    store: KafkaStatusBackingStore,
    change: Callable[[], None],
    *,
    safe: bool,
    status: ConnectorStatus | TaskStatus = UNASSIGNED,
) -> None:
    """Put a status whose first send fails in a way that may pass, and ``change`` before it is retried."""
    # By key: the retry may come at any moment, and must not take the failure that is meant for the last one.
    log.before_failing = {status_record(status)[0]: change, b"status-topic-last:connector-bar": lambda: None}
    (store.put_safe if safe else store.put)(status)
    # The retry thread works in order, so a last topic status proves that the retry before it was decided.
    sends = len(log.sent)
    store.put(TopicStatus("last", "bar", 0, 1))
    log.wait_for_sends(sends + 2)
    store.stop()


def record(value: bytes | None) -> Record:
    return Record("scripted", 0, 0, 1, b"status-connector-foo", value)


THEIRS = b'{"state":"RUNNING","trace":null,"worker_id":"other:1","generation":5}'
NEWER = TaskStatus(ConnectorTaskId("bar", 0), State.RUNNING, "w:8083", 2)


@pytest.mark.parametrize(
    ("change", "safe", "status"),
    [
        (lambda log, _: log.sink.apply([record(None)]), False, UNASSIGNED),
        (lambda log, _: log.sink.apply([record(None)]), False, TASK),
        (lambda _, store: store.put(NEWER), False, UNASSIGNED),
        (lambda log, _: log.sink.apply([record(THEIRS)]), True, UNASSIGNED),
        # Also a plain one, unlike Java's: the older status would replace the newer one.
        (lambda _, store: store.put(ConnectorStatus("foo", State.RUNNING, "w:8083", 1)), False, UNASSIGNED),
        (lambda _, store: store.put(ConnectorStatus("foo", State.RUNNING, "w:8083", 1)), True, UNASSIGNED),
    ],
    ids=["removed", "its connector", "a newer generation", "another worker's", "superseded", "safe, superseded"],
)
def test_retry_ends_when(
    log: ScriptedLog, change: Callable[..., None], safe: bool, status: ConnectorStatus | TaskStatus
) -> None:
    store = status_store(log)
    put_then(log, store, lambda: change(log, store), safe=safe, status=status)
    assert log.sent.count(status_record(status)) == 1


def test_a_safe_status_replaces_what_another_worker_wrote_in_its_generation(log: ScriptedLog) -> None:
    store = status_store(log)
    assert log.sink is not None
    log.sink.apply([record(THEIRS)])
    for generation in (4, 5):
        store.put_safe(ConnectorStatus("foo", State.FAILED, "w:8083", generation))
    assert [b'"generation":5' in (value or b"") for _, value in log.sent] == [True]
