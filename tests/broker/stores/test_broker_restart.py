"""Stores across a broker that goes away and comes back."""

from __future__ import annotations

from typing import Any

import pytest

from connect_share.embedded.broker import LocalBroker
from connect_share.state import ConnectorStatus, State
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.support.waiting import await_that

pytestmark = [pytest.mark.broker, pytest.mark.kills_broker]


def worker(broker: LocalBroker) -> WorkerConfig:
    properties = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "group-a",
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


def test_everything_put_while_the_broker_is_away_arrives(
    own_broker: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with ConnectStorage(worker(own_broker), allow_live_members=True) as storage:
        storage.config.put_connector_config("before", {})
        storage.status.put(ConnectorStatus("before", State.RUNNING, "w:1", 1))
        storage.status.flush()
        own_broker.kill()
        during = ConnectorStatus("during", State.RUNNING, "w:1", 1)
        storage.status.put(during)
        offsets = storage.offsets.set({b'group-a.["foo",{"a":1}]': b'{"position":1}'})
        # The failed sends have been noticed and are retried by the store.
        own_broker.start()
        offsets.result(60)
        seen: Any = await_that(lambda: storage.status.get("during"), what="the status written", timeout_s=60)
        assert seen == during
        storage.config.refresh(60)
        storage.config.put_connector_config("after", {})
        assert storage.config.snapshot().connectors() == {"before", "after"}
        assert "Failed to write a status" not in caplog.text
    with ConnectStorage(worker(own_broker)) as storage:
        assert storage.config.snapshot().connectors() == {"before", "after"}
        assert storage.status.connectors() == {"before", "during"}
