"""A broker that hangs: records of one key wait for each other, and nobody has said where a topic ends."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from connect_share.errors import (
    BrokerError,
    BrokerTimeoutError,
    BrokerUnavailableError,
    ConnectShareError,
    ReadToEndTimeoutError,
    StoreClosedError,
)
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import producer
from connect_share.log import writer
from connect_share.log.kafka_based_log import KafkaBasedLog
from connect_share.log.protocol import RecordMetadata
from connect_share.storage import ConnectStorage
from connect_share.stores.connector_offsets import connector_client_settings
from connect_share.stores.offsets import OffsetStorageWriter
from connect_share.tasks.running import _AcknowledgedWriter
from connect_share.worker_config import WorkerConfig
from tests.broker.log.conftest import Bench, Collected
from tests.lab.embedded.broker import LocalBroker
from tests.support.kafka import hanging, patient_broker
from tests.support.topics import create_topic, read_topic
from tests.support.waiting import await_that
from tests.support.worker_files import properties_of

pytestmark = [pytest.mark.kills_broker, pytest.mark.xdist_group("writer")]


class Hanging:
    """A log whose broker answers nothing until :meth:`go_on`: what is sent stays under way."""

    def __init__(self, broker: LocalBroker, bench: Bench) -> None:
        bench.create()
        self._bench = bench
        self.log: KafkaBasedLog = bench.started(Collected())
        self.log.send(b"first", b"").result(120)  # the client knows the topic now
        with ExitStack() as stack, Admin(bench.settings, client_id="tests", timeout_s=1) as admin:
            stack.enter_context(hanging(broker, admin))
            self.go_on = stack.pop_all().close

    def values(self, key: bytes) -> list[bytes | None]:
        return [record.value for record in self._bench.read() if record.key == key]


@pytest.fixture(scope="module")
def patient() -> Iterator[LocalBroker]:
    with patient_broker() as local:
        yield local


@pytest.fixture
def stuck(patient: LocalBroker, unique: str) -> Iterator[Hanging]:
    with ExitStack() as stack:
        made = Hanging(patient, Bench(patient.bootstrap_servers, unique, stack))
        stack.callback(made.go_on)
        yield made


def test_a_record_waits_for_the_one_before_it(stuck: Hanging) -> None:
    """A client that has both builds both requests. If a broker refuses the first for the moment, the second overtakes it."""
    send = stuck.log.send
    sent = [send(b"k", b"0"), send(b"k", b"1"), send(b"other", b"0"), send(b"k", None), send(b"k", b"2")]
    waits = stuck.log._writer
    await_that(lambda: waits and waits._waiting, lambda waiting: waiting == 3, what="the client has the others")
    stuck.go_on()
    assert all(future.result(60) for future in sent)
    send(b"k", b"3").result(120)
    assert stuck.values(b"k") == [b"0", b"1", None, b"2", b"3"]


def test_flush_waits_for_those_that_wait(stuck: Hanging) -> None:
    sent = [stuck.log.send(b"k", b"%d" % number) for number in range(20)]
    with pytest.raises(BrokerError, match="not acknowledged within"):
        stuck.log.flush(0.2)
    stuck.go_on()
    stuck.log.flush(60)
    assert all(future.done() for future in sent)
    assert stuck.values(b"k") == [b"%d" % number for number in range(20)]


def test_one_that_the_client_does_not_take_holds_none_up(stuck: Hanging) -> None:
    too_large = bytes(110_000_000)
    first = stuck.log.send(b"k", b"0")
    refused = [stuck.log.send(b"k", too_large) for _ in range(2)]
    last = stuck.log.send(b"k", b"1")
    assert isinstance(stuck.log.send(b"free", too_large).exception(120), BrokerError)
    stuck.go_on()
    assert first.result(60).offset < last.result(60).offset
    assert [type(future.exception(0)) for future in refused] == [BrokerError, BrokerError]
    stuck.log.send(b"free", b"0").result(120)


def test_stop_fails_what_waits(stuck: Hanging, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(writer, "_ASK_S", 0.1)
    acknowledged: Future[RecordMetadata] = Future()  # before the broker hung, but not looked for yet
    stuck.log._identity.seen_s -= 60
    stuck.log._watch.acknowledged(acknowledged, RecordMetadata(stuck.log.topic, 0, 1), {})
    sent, stands = [stuck.log.send(b"k", b"%d" % number) for number in range(5)], Future[None]()
    sent[-1].add_done_callback(lambda _: stands.result(60))
    stuck.log.stop(0.2)
    assert f"Thread log-writer-{stuck.log.topic} was stopped, and goes on" in caplog.text
    stands.set_result(None)
    error = acknowledged.exception(120)
    assert isinstance(error, StoreClosedError)
    for words in ("was acknowledged, but whether", "could not be learnt any more: the store was stopped, and "):
        assert words in str(error)
    errors = [future.exception(120) for future in sent]
    assert all(isinstance(error, ConnectShareError) for error in errors)
    assert {type(error) for error in errors[1:]} == {StoreClosedError}
    stuck.go_on()
    assert stuck.values(b"k") in ([], [b"0"])  # which was under way


def test_stop_sends_what_waits_in_time(bench: Any, collected: Any) -> None:
    bench.create()
    log = bench.started(collected())
    sent = [log.send(b"k", b"%d" % number) for number in range(100)]
    log.stop(60)
    assert [future.result(0).offset for future in sent] == list(range(100))


def test_so_many_may_wait(stuck: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a client whose queue is full, the next who sends is held up."""
    monkeypatch.setattr(writer, "_MOST_WAITING", 3)
    with ThreadPoolExecutor(1) as threads:
        sent = [stuck.log.send(b"k", b"%d" % number) for number in range(4)]
        under_way = stuck.log._writer
        assert under_way is not None
        await_that(lambda: under_way._waiting, lambda found: found == 3, what="waiting")
        late = threads.submit(stuck.log.send, b"k", b"4")
        free = stuck.log.send(b"free", b"0")  # not held up
        await_that(late.running, what="held up")
        assert not late.done()
        stuck.go_on()
        assert late.result(60).result(60).offset > max(future.result(60).offset for future in sent)
        assert free.result(60)
    assert stuck.values(b"k") == [b"%d" % number for number in range(5)]


def test_a_broker_that_hangs_has_not_said_where_a_topic_ends(
    patient: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client library gives a question without an answer no error, but an offset that is none."""
    config, at = WorkerConfig.from_properties(properties_of(patient.bootstrap_servers, "group-a")), ("offsets", 0)
    with (
        Admin(config.admin_settings(), client_id="tests", timeout_s=60) as admin,
        Admin(config.admin_settings(), client_id="tests", timeout_s=60) as patient_admin,
        ConnectStorage(config) as storage,
        ThreadPoolExecutor(2) as asking,
    ):
        for _ in range(3):  # from now on the clients know the leader
            storage.offsets.refresh(60)
            assert admin.end_offsets([at]) == {at: 0}
        brokers = patient_admin.brokers()
        monkeypatch.setattr(patient_admin, "brokers", lambda: brokers)
        monkeypatch.setattr(admin, "_timeout_s", 1)
        with hanging(patient, admin):
            with pytest.raises(ReadToEndTimeoutError):
                storage.offsets.refresh(1.5)
            for read in (admin.end_offsets, admin.start_offsets, lambda places: admin.offsets_at(places, 0)):
                with pytest.raises((BrokerTimeoutError, BrokerUnavailableError)):
                    read([at])
            settings = asking.submit(patient_admin.broker_settings)
            with pytest.raises(TimeoutError):
                settings.result(5)  # which is longer than one question
            answer = asking.submit(storage.offsets.refresh, 60)
        answer.result(90)
        assert settings.result(90).keys() == {broker.id for broker in brokers}


def test_a_source_outlasts_an_outage(patient: LocalBroker, unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a full queue, with records that are not acknowledged, with offsets; and longer than all limits of Java's."""
    monkeypatch.setattr(vars(OffsetStorageWriter.flush)["__wrapped__"], "__defaults__", (0.1,))
    limits = {f"producer.{name}.ms": "1000" for name in ("max.block", "delivery.timeout", "request.timeout")}
    limits |= {"offset.flush.timeout.ms": "100", "producer.buffer.memory": "1048576"}
    worker = WorkerConfig.from_properties(properties_of(patient.bootstrap_servers, unique, f"{unique}-") | limits)
    numbers, taken = [b"%d" % number for number in range(3_000)], list[bytes]()
    create_topic(worker.admin_settings(), unique, configs={"cleanup.policy": "delete"})
    with (
        Admin(worker.admin_settings(), client_id="tests", timeout_s=1) as admin,
        Admin(worker.admin_settings(), client_id="tests") as patient_admin,
        ConnectStorage(worker) as storage,
        ThreadPoolExecutor(1) as threads,
    ):
        made = producer(connector_client_settings(worker, "c", {}, "producer"), client_id="tests", idempotent=True)
        source = _AcknowledgedWriter(made, offsets := storage.offset_writer("c"))

        def write(some: list[bytes]) -> None:
            for number in some:
                source.send(unique, bytes(1_000), number, partition=0, timestamp_ms=None, headers=())
                taken.append(number)
            source.offset({}, {"at": len(taken)})
            source.commit()

        write(numbers[:1])
        for some, seen in ((numbers[1:-1], (True, False)), (numbers[-1:], (False, True)), ([], (False, False))):
            with hanging(patient, admin):
                writing = threads.submit(write, some)
                with pytest.raises(ReadToEndTimeoutError):
                    storage.offsets.refresh(1.5)
                await_that(offsets.will_flush, seen[1].__eq__, what="held up")
                assert (writing.done(), len(taken) < 2_999) == (False, seen[0])
            writing.result(90)
            assert storage.offset_reader("c").offset({}) == {"at": len(taken)}
        assert [record.key for record in read_topic(patient_admin, worker.client_settings(), unique)] == numbers


def test_nothing_is_kept_of_what_was_written_where_brokers_give_no_ids() -> None:
    no_admin: Any = None
    watch = writer.IdentityWatch("t", writer.TopicIdentity(no_admin, "t"), fail=print)
    watch.start()
    watch.acknowledged(Future(), RecordMetadata("t", 0, 0), {})
    assert watch._passed == []
