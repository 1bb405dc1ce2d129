"""Records of one key are in the topic in their order: one waits for the other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from connect_share.embedded.broker import LocalBroker
from connect_share.errors import BrokerError, ConnectShareError, StoreClosedError
from connect_share.log import KafkaBasedLog, writer
from tests.broker.log.conftest import Bench, Collected
from tests.support.kafka import ONE_SEGMENT_EACH, skip_where_brokers_stay
from tests.support.waiting import await_that

pytestmark = [pytest.mark.kills_broker, pytest.mark.xdist_group("writer")]

TOO_LARGE = bytes(110_000_000)


class Hanging:
    """A log whose broker answers nothing until :meth:`go_on`: what is sent stays under way."""

    def __init__(self, broker: LocalBroker, bench: Bench) -> None:
        bench.create()
        self._bench = bench
        self.log: KafkaBasedLog = bench.started(Collected())
        self.log.send(b"first", b"").result(30)  # the client knows the topic now
        assert broker._process is not None
        self._pid = broker._process.pid
        os.kill(self._pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    @property
    def handed_over(self) -> int:
        """Records that the client has."""
        assert self.log._writer is not None
        return len(self.log._writer._producer)

    def values(self, key: bytes) -> list[bytes | None]:
        return [record.value for record in self._bench.read() if record.key == key]


@pytest.fixture(scope="module")
def mortal() -> Iterator[LocalBroker]:
    skip_where_brokers_stay()
    with LocalBroker(properties=ONE_SEGMENT_EACH) as local:
        yield local


@pytest.fixture
def hanging(mortal: LocalBroker, unique: str) -> Iterator[Hanging]:
    with ExitStack() as stack:
        made = Hanging(mortal, Bench(mortal.bootstrap_servers, unique, stack))
        stack.callback(made.go_on)
        yield made


def test_a_record_waits_for_the_one_before_it(hanging: Hanging) -> None:
    """A client that has both builds both requests. If a broker refuses the first for the moment, the second overtakes it."""
    send = hanging.log.send
    sent = [send(b"k", b"0"), send(b"k", b"1"), send(b"other", b"0"), send(b"k", None), send(b"k", b"2")]
    assert hanging.handed_over == 2
    hanging.go_on()
    assert all(future.result(60) for future in sent)
    send(b"k", b"3").result(30)
    assert hanging.values(b"k") == [b"0", b"1", None, b"2", b"3"]


def test_flush_waits_for_those_that_wait(hanging: Hanging) -> None:
    sent = [hanging.log.send(b"k", b"%d" % number) for number in range(20)]
    with pytest.raises(BrokerError, match="not acknowledged within"):
        hanging.log.flush(0.2)
    hanging.go_on()
    hanging.log.flush(60)
    assert all(future.done() for future in sent)
    assert hanging.values(b"k") == [b"%d" % number for number in range(20)]


def test_one_that_the_client_does_not_take_holds_none_up(hanging: Hanging) -> None:
    first = hanging.log.send(b"k", b"0")
    too_large = [hanging.log.send(b"k", TOO_LARGE) for _ in range(2)]
    last = hanging.log.send(b"k", b"1")
    assert isinstance(hanging.log.send(b"free", TOO_LARGE).exception(0), BrokerError)
    hanging.go_on()
    assert first.result(60).offset < last.result(60).offset
    assert [type(future.exception(0)) for future in too_large] == [BrokerError, BrokerError]
    hanging.log.send(b"free", b"0").result(30)


def test_stop_fails_what_waits(hanging: Hanging) -> None:
    sent = [hanging.log.send(b"k", b"%d" % number) for number in range(5)]
    hanging.log.stop(0.2)
    errors = [future.exception(0) for future in sent]
    assert all(isinstance(error, ConnectShareError) for error in errors)
    assert {type(error) for error in errors[1:]} == {StoreClosedError}
    hanging.go_on()
    assert hanging.values(b"k") in ([], [b"0"])  # which was under way


def test_stop_sends_what_waits_in_time(bench: Any, collected: Any) -> None:
    bench.create()
    log = bench.started(collected())
    sent = [log.send(b"k", b"%d" % number) for number in range(100)]
    log.stop(60)
    assert [future.result(0).offset for future in sent] == list(range(100))


def test_so_many_may_wait(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a client whose queue is full, the next who sends is held up."""
    monkeypatch.setattr(writer, "_MOST_WAITING", 3)
    with ThreadPoolExecutor(1) as threads:
        sent = [hanging.log.send(b"k", b"%d" % number) for number in range(4)]
        late = threads.submit(hanging.log.send, b"k", b"4")
        free = hanging.log.send(b"free", b"0")  # not held up
        await_that(late.running, what="held up")
        assert not late.done()
        hanging.go_on()
        assert late.result(60).result(60).offset > max(future.result(60).offset for future in sent)
        assert free.result(60)
    assert hanging.values(b"k") == [b"%d" % number for number in range(5)]
