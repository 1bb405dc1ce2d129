"""A log that runs: reading to the end, writing and reading back, failing for good, and a topic that is created again."""

from __future__ import annotations

import gc
import logging
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from connect_share.errors import (
    BrokerError,
    ConnectShareError,
    LogFailedError,
    NotStartedError,
    StoreClosedError,
    StoreError,
    TopicRecreatedError,
    WriteError,
)
from connect_share.kafka import client
from connect_share.log import writer as identity
from connect_share.log.first_read import CatchUpRead, TopicRead
from connect_share.log.kafka_based_log import KafkaBasedLog
from connect_share.log.protocol import RecordFeed, RecordMetadata
from connect_share.worker_config import Isolation
from tests.support.topics import delete_known
from tests.support.waiting import await_that


def both(log: KafkaBasedLog) -> list[Callable[[], object]]:
    return [lambda: log.send(b"k", b"v"), lambda: log.read_to_end(1)]


def test_unflushed_writes_are_read_back(bench: Any, collected: Any) -> None:
    sink = collected()
    log = bench.started(sink)
    futures = [log.send(b"k%d" % i, b"%d" % i) for i in range(500)]
    log.read_to_end(120)
    assert all(future.done() for future in futures)
    assert sink.latest() == {b"k%d" % i: b"%d" % i for i in range(500)}


def test_ten_thousand_records_of_several_threads(bench: Any, collected: Any) -> None:
    sink = collected()
    log = bench.started(sink, spec=bench.spec(partitions=4))

    def write(thread: int) -> list[RecordMetadata]:
        futures = [log.send(b"t%d-%d" % (thread, i % 100), b"%d-%d" % (thread, i)) for i in range(2_500)]
        return [future.result(60) for future in futures]

    with ThreadPoolExecutor(4) as threads:
        written = [at for ats in threads.map(write, range(4)) for at in ats]
    log.read_to_end(60)
    assert len(written) == len({(at.partition, at.offset) for at in written}) == 10_000
    assert {(r.partition, r.offset) for r in sink.records} == {(at.partition, at.offset) for at in written}
    assert len(sink.records) == 10_000
    for key in {record.key for record in sink.records}:
        order = [int((record.value or b"").split(b"-")[1]) for record in sink.records if record.key == key]
        assert order == sorted(order)


def test_others_writes_and_markers_are_followed_without_asking(bench: Any, collected: Any) -> None:
    sink = collected(b"g.")
    log = bench.started(sink)
    bench.write([(b"g.a", b"1"), (b"h.a", b"2")])
    await_that(lambda: log.positions()[0] == 2, what="the tail")
    assert sink.values == [b"1"]
    assert log.foreign_records == 1
    bench.transact([(b"h.a", b"3")], commit=False)
    await_that(lambda: log.positions()[0] == 4, what="the marker")
    assert not log._state.advance({0: 3})
    assert log.positions() == {0: 4}  # they never fall


def test_new_records_do_not_move_the_end(bench: Any, collected: Any) -> None:
    """Others write without pause; a read to the end ends all the same."""
    log = bench.started(collected())
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            bench.write([(b"k", b"v")] * 50)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(10):
            end = bench.end()
            log.read_to_end(120)
            assert log.positions()[0] >= end
    finally:
        stop.set()
        writing.join(120)


def test_sent_records_cannot_be_cancelled(bench: Any, collected: Any) -> None:
    log = bench.started(collected())
    futures = [log.send(b"k", b"%d" % i) for i in range(20)]
    assert not any(future.cancel() for future in futures)
    assert [future.result(120).offset for future in futures] == list(range(20))
    assert log.send(b"k", b"after").result(120).offset == 20


def test_read_only_log_refuses_to_send(bench: Any, collected: Any) -> None:
    log = bench.started(collected(), producer_settings=None)
    with pytest.raises(WriteError, match="reading only"):
        log.send(b"k", b"v")
    log.flush(1)
    log.read_to_end(120)


def test_futures_end_when_the_log_is_stopped_while_sending(bench: Any, collected: Any) -> None:
    log = bench.started(collected())
    futures: list[Any] = []

    def send() -> None:
        try:
            while True:
                futures.append(log.send(b"k%d" % len(futures), b"v"))  # those of one key would wait for each other
        except StoreClosedError:
            pass

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    log.send(b"k", b"v").result(120)
    log.stop()
    for thread in threads:
        thread.join(120)
    for future in futures:
        error = future.exception(120)
        assert error is None or isinstance(error, ConnectShareError)


class _Failing:
    key_prefix = b""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def apply(self, records: Any) -> None:
        if any(record.key == b"bomb" for record in records):
            raise self.error


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
def test_sink_that_raises_ends_the_log(bench: Any, caplog: pytest.LogCaptureFixture, kind: type[BaseException]) -> None:
    secret = "s3cret"
    log = bench.started(_Failing(kind(secret)))
    with caplog.at_level(logging.ERROR, "connect_share"):
        bench.write([(b"bomb", b"x")])
        with pytest.raises(LogFailedError) as caught:
            log.read_to_end(120)
    assert isinstance(caught.value.__cause__, kind)
    assert bench.topic in str(caught.value)
    assert secret not in str(caught.value)
    assert secret not in caplog.text
    assert "has failed" in caplog.text
    for call in both(log):
        with pytest.raises(LogFailedError):
            call()
    log.stop()


def test_no_thread_for_the_acknowledgements(bench: Any, collected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a machine allows no more threads: the write fails, later ones and the stop do not."""
    begin, log = threading.Thread.start, bench.started(collected())

    def refused(thread: threading.Thread) -> None:
        if thread.name == f"log-writer-{bench.topic}":
            raise RuntimeError("can't start new thread")
        begin(thread)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(threading.Thread, "start", refused)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="new thread"):
                log.send(b"k", b"v")
    log.send(b"k", b"v").result(120)
    log.stop()


def test_failure_wakes_those_who_wait(bench: Any) -> None:
    log = bench.started(_Failing(ValueError()), isolation=Isolation.READ_COMMITTED)
    with ThreadPoolExecutor(1) as thread:
        with bench.transaction([(b"bomb", b"1")]):
            waiting = thread.submit(log.read_to_end, 120)
            await_that(lambda: log._state.awaited, what="somebody who waits")
        with pytest.raises(LogFailedError):
            waiting.result(60)


def test_sink_that_raises_at_start(bench: Any) -> None:
    bench.create()
    bench.write([(b"bomb", b"x")])
    log = bench.log(_Failing(ValueError("x")))
    with pytest.raises(ValueError, match="x"):
        log.start()
    with pytest.raises(NotStartedError):
        log.read_to_end(1)


def test_ends_that_cannot_be_learnt_fail_one_call_only(bench: Any, collected: Any) -> None:  # case 58
    log = bench.started(collected())
    with pytest.MonkeyPatch.context() as moody:
        moody.setattr(bench.admin, "end_offsets", Mock(side_effect=BrokerError("no", name="UNKNOWN_SERVER_ERROR")))
        with pytest.raises(BrokerError, match="no"):
            log.read_to_end(120)
    log.read_to_end(120)


def test_collector_is_left_as_found(bench: Any, collected: Any) -> None:
    bench.create()
    bench.write([(b"k", b"v")] * 100)
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            bench.started(collected())
            assert gc.isenabled() is enabled
        finally:
            gc.enable()


def test_passing_errors_are_survived(bench: Any, collected: Any, monkeypatch: Any, caplog: Any) -> None:  # case 56
    events = list[Any]()

    class Interrupted(client.Consumer):
        def consume(self, *limits: Any, **more: Any) -> list[Any]:
            return [events.pop()] if events else super().consume(*limits, **more)

    def read(code: int) -> Any:
        sink, error = collected(), client.KafkaError(code)
        # One of the client as a whole, which has no topic.
        events.append(SimpleNamespace(error=lambda: error, key=lambda: None, topic=lambda: None, partition=lambda: 0))
        with closing(client.consumer(bench.settings, client_id="t", isolation=Isolation.READ_UNCOMMITTED)) as real:
            real.assign([client.TopicPartition(bench.topic, 0, 0)])
            wanted = [TopicRead(bench.topic, {0: 1}, RecordFeed(b"", sink.apply))]
            CatchUpRead(real, wanted).run(30, Isolation.READ_UNCOMMITTED)
        return sink.values

    monkeypatch.setattr(client, "Consumer", Interrupted)
    bench.create()
    bench.write([(b"k", b"v")])
    with caplog.at_level(logging.WARNING, "connect_share"):
        assert read(client.KafkaError.LEADER_NOT_AVAILABLE) == [b"v"]
        assert "LEADER_NOT_AVAILABLE" in caplog.text
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        read(client.KafkaError.TOPIC_AUTHORIZATION_FAILED)


def recreate(bench: Any, log: Any) -> str:
    """Delete and create it, and give the new id."""
    delete_known(bench.admin, bench.topic)
    bench.create()
    new_id = bench.admin.describe_topics([bench.topic])[bench.topic].topic_id
    assert new_id != log.topic_id
    return str(new_id)


def failure(log: Any) -> TopicRecreatedError | None:
    try:
        log.check_topic()
    except TopicRecreatedError as error:
        return error
    return None


def test_an_idle_log_notices(bench: Any, collected: Any) -> None:
    log = bench.started(collected())
    old_id, new_id = log.topic_id, recreate(bench, log)
    error: Any = await_that(lambda: failure(log), what="noticed")
    assert (error.old_id, error.new_id) == (old_id, new_id)
    assert re.search(rf"created again .id {old_id}, now {new_id}., noticed 20\d\d-.* last seen as it was", str(error))
    with pytest.raises(TopicRecreatedError):
        log.read_to_end(1)
    with pytest.raises(TopicRecreatedError):
        log.send(b"k", b"v")


def test_no_put_is_reported_successful(bench: Any, collected: Any) -> None:
    log = bench.started(collected())
    log.send(b"k", b"v").result(120)
    recreate(bench, log)
    log._identity.seen_s -= identity.FRESH_S  # as if the last look were a second ago
    if failure(log) is None:  # else the watch was quicker
        with pytest.raises(TopicRecreatedError):
            log.send(b"k", b"late").result(120)
    assert failure(log) is not None


def test_an_offset_that_falls_back_is_enough(bench: Any, collected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "FRESH_S", 3_600.0)
    log = bench.started(collected())
    bench.write([(b"k", b"of somebody else")])
    log.read_to_end(120)
    recreate(bench, log)
    with pytest.raises(ConnectShareError) as caught:
        log.send(b"k", b"late").result(120)
    assert isinstance(caught.value, TopicRecreatedError)
    assert failure(log) is not None


def test_names_of_what_slipped_through() -> None:
    error = TopicRecreatedError("topic t was deleted", topic="t", old_id="a", new_id="b")
    passed = [RecordMetadata("t", number % 2, number) for number in range(12)]
    identity._add_names(error, passed)
    assert str(error).endswith(
        "perhaps written to the new one: " + ", ".join(f"[{n % 2}]@{n}" for n in range(10)) + " and 2 more"
    )


def test_a_log_that_was_cut_fails_the_store(bench: Any, collected: Any) -> None:
    """The same topic, but what is acknowledged lies before what was read."""
    log = bench.started(collected())
    future: Future[RecordMetadata] = Future()
    log._watch.acknowledged(future, RecordMetadata(bench.topic, 0, 4), {0: 5})
    with pytest.raises(StoreError, match="the log was cut"):
        future.result(120)
    with pytest.raises(ConnectShareError, match="the log was cut"):
        log.read_to_end(1)


def test_an_acknowledgement_waits_for_a_look(bench: Any, collected: Any) -> None:
    log = bench.started(collected())
    log._identity.seen_s -= 60
    before = log._identity.seen_s
    assert log.send(b"k", b"v").result(120).offset == 0
    assert log._identity.seen_s > before
    log._identity.seen_s -= 60
    log.send(b"k", b"v")
    log.flush(120)
    assert not log._watch._waiting


def test_stopping_hands_out_what_waits(bench: Any, collected: Any) -> None:
    log = bench.started(collected())
    log._identity.seen_s -= 60
    futures = [log.send(b"k%d" % number, b"v") for number in range(50)]
    log.stop()
    assert [future.result(120).offset for future in futures] == list(range(50))


def test_an_acknowledgement_after_the_end_does_not_wait_for_a_look(bench: Any, collected: Any) -> None:
    """The broker may be quicker than the stop of a log that is written to at this moment."""
    log = bench.started(collected())
    log.stop()
    log._watch.thread.join(120)
    future: Future[RecordMetadata] = Future()
    log._identity.seen_s -= 60
    log._watch.acknowledged(future, RecordMetadata(bench.topic, 0, 0), {})
    assert isinstance(future.exception(120), StoreClosedError)
