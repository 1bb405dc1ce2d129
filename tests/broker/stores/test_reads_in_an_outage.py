"""Reads while the broker is away: they end with the answer, or by the caller's deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from connect_share.errors import (
    BrokerTimeoutError,
    BrokerUnavailableError,
    ConnectShareError,
    ReadToEndTimeoutError,
)
from connect_share.kafka.admin import Admin
from connect_share.storage import ConnectStorage
from connect_share.stores import offsets
from connect_share.worker_config import WorkerConfig
from tests.lab.embedded.broker import LocalBroker
from tests.support.kafka import hanging, patient_broker
from tests.support.long_forms import LONG
from tests.support.worker_files import properties_of

pytestmark = pytest.mark.kills_broker

OUTAGE_S = 40 if LONG else 6
FILE = {"filename": "x.txt"}


@pytest.fixture
def alone() -> Iterator[LocalBroker]:
    with patient_broker() as local:
        yield local


def test_a_broker_that_hangs_has_not_said_where_a_topic_ends(alone: LocalBroker) -> None:
    """The client library gives a question without an answer no error, but an offset that is none."""
    config, at = WorkerConfig.from_properties(properties_of(alone.bootstrap_servers, "group-a")), ("offsets", 0)
    with (
        Admin(config.admin_settings(), client_id="tests", timeout_s=3) as admin,
        ConnectStorage(config) as storage,
        ThreadPoolExecutor(1) as asking,
    ):
        for _ in range(3):  # from now on the clients know the leader
            storage.offsets.refresh(60)
            assert admin.end_offsets([at]) == {at: 0}
        with hanging(alone, admin):
            with pytest.raises(ReadToEndTimeoutError):
                storage.offsets.refresh(1.5)
            for read in (admin.end_offsets, admin.start_offsets, lambda places: admin.offsets_at(places, 0)):
                with pytest.raises((BrokerTimeoutError, BrokerUnavailableError)):
                    read([at])
            answer = asking.submit(storage.offsets.refresh, 60)
        answer.result(90)


@pytest.mark.slow
def test_reads_outlast_an_outage_shorter_than_their_deadline(
    own_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = WorkerConfig.from_properties(properties_of(own_broker.bootstrap_servers, "group-a"))
    with (
        Admin(config.admin_settings(), client_id="tests", timeout_s=5) as admin,
        ConnectStorage(config) as storage,
        ThreadPoolExecutor(8) as asking,
    ):
        storage.offsets.set({b'["foo",{"filename":"x.txt"}]': b'{"position":1}'}).result(60)
        reader = storage.offset_reader("foo")
        assert reader.offset(FILE) == {"position": 1}
        assert admin.topic_names() >= {"configs", "offsets"}
        for name in ("own", "other"):
            storage.config.put_connector_config(name, {"offsets.storage.topic": f"offsets-of-{name}"})
        storage.offset_reader("own")

        reads: list[Callable[[], Any]] = [
            lambda: storage.offsets.refresh(150),
            lambda: storage.config.refresh(150),
            lambda: reader.offset(FILE),
            lambda: storage.offset_reader("own").offset(FILE),
            lambda: storage.offset_reader("other").offset(FILE),
            lambda: admin.describe_topics(["offsets"], timeout_s=150).keys(),
            lambda: admin.end_offsets([("offsets", 0)], timeout_s=150),
        ]
        own_broker.kill()
        answers = [asking.submit(read) for read in reads]
        # Longer than two refused connections, and than the admin client's own limit.
        threading.Event().wait(OUTAGE_S)
        own_broker.start()
        found = [answer.result(180) for answer in answers]
        assert found[2:] == [{"position": 1}, None, None, {"offsets"}, {("offsets", 0): 1}]

        own_broker.kill()
        monkeypatch.setattr(offsets, "GET_TIMEOUT_S", 1.5)
        late: list[tuple[Callable[[], Any], type[ConnectShareError]]] = [
            (lambda: storage.offsets.refresh(1.5), ConnectShareError),
            (lambda: reader.offset(FILE), ConnectShareError),
            (lambda: admin.describe_topics(["offsets"], timeout_s=1.5), BrokerUnavailableError),
        ]
        for read, kind in late:
            began = time.monotonic()
            with pytest.raises(kind) as ended:
                read()
            assert ended.value.retriable
            assert time.monotonic() - began < 5
        admin.close()
        with pytest.raises(BrokerUnavailableError, match="was closed"):
            admin.describe_topics(["offsets"], timeout_s=60)
        storage.close(0.1)
