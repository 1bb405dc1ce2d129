"""A broker that answers nothing for a while, and then goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from connect_share.errors import BrokerTimeoutError, BrokerUnavailableError
from connect_share.kafka.admin import Admin
from tests.lab.embedded.broker import LocalBroker
from tests.support.kafka import skip_where_brokers_stay
from tests.support.waiting import await_that


@contextmanager
def patient_broker() -> Iterator[LocalBroker]:
    """Start a broker that its controller does not give up while both hang.

    The client library forgets the broker of a cluster that names none for a moment, and finds it again minutes later.
    """
    skip_where_brokers_stay()
    with LocalBroker(properties={"broker.session.timeout.ms": "120000"}) as local:
        yield local


@contextmanager
def hanging(broker: LocalBroker, admin: Admin) -> Iterator[None]:
    """Let a broker hang while the block runs; ``admin`` is asked until it gets no answer."""
    assert broker._process is not None
    os.kill(broker._process.pid, signal.SIGSTOP)
    try:
        await_that(lambda: _answers(admin), lambda found: not found, what="stopped")  # the signal takes its time
        yield
    finally:
        os.kill(broker._process.pid, signal.SIGCONT)


def _answers(admin: Admin) -> bool:
    try:
        return bool(admin.cluster_id())
    except (BrokerTimeoutError, BrokerUnavailableError):
        return False
