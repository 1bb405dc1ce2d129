"""The door to the client library, and what is asked of a cluster."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from connect_share.errors import BrokerError, BrokerTimeoutError, BrokerUnavailableError, ReadToEndTimeoutError
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.read import read_ranges
from connect_share.log.kafka_based_log import KafkaBasedLog
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import OffsetRange
from connect_share.worker_config import ClientSettings, Isolation


def test_keys_are_placed_where_java_places_them(bench: Any) -> None:
    bench.create(partitions := 25)
    chance = random.Random(partitions)
    keys = {b"", b"\x00", b"\xff" * 7} | {chance.randbytes(chance.randrange(1, 60)) for _ in range(1_000)}
    bench.write([(key, b"v") for key in keys])
    found = {record.key: record.partition for record in bench.read()}
    # An empty key is a null key to librdkafka: it has no place of its own.
    found.pop(b"")
    assert len(found) == len(keys) - 1
    assert found == {key: partition_for(key, partitions) for key in found if key is not None}


def test_topic_id_is_written_as_kafka_writes_it(bench: Any) -> None:
    """Its own files on disk would say the same; here two ways of asking have to agree, for ids with any sign."""
    from connect_share.kafka.admin import topic_id_text

    class Raw:
        def __init__(self, high: int, low: int) -> None:
            self.high, self.low = high, low

        def get_most_significant_bits(self) -> int:
            return self.high

        def get_least_significant_bits(self) -> int:
            return self.low

    assert topic_id_text(Raw(-1, -1)) == "_____________________w"
    assert topic_id_text(Raw(-1, -2)) == "_____________________g"
    assert topic_id_text(Raw(0, 1)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert topic_id_text(Raw(0, 0)) is None
    assert topic_id_text(None) is None


def test_offsets_of_what_is_not_there(bench: Any) -> None:
    with pytest.raises(BrokerError, match=bench.topic) as caught:
        bench.admin.end_offsets([(bench.topic, 0)])
    assert client.is_unknown_topic(caught.value)
    bench.create()
    with pytest.raises(BrokerError, match=bench.topic) as caught:
        bench.admin.end_offsets([(bench.topic, 0), (bench.topic, 7)])
    assert caught.value.name == "_UNKNOWN_PARTITION"


@pytest.fixture
def closed_port() -> Iterator[str]:
    """An address where no server listens, and none can meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_not_a_broker(bench: Any, collected: Any, closed_port: str, capfd: pytest.CaptureFixture[str]) -> None:
    settings = ClientSettings({"bootstrap.servers": closed_port})
    with Admin(settings, client_id=bench.unique, timeout_s=0.5) as admin:
        log = KafkaBasedLog(bench.spec(), sink=collected(), admin=admin, consumer_settings=settings, create_timeout_s=1)
        for call in (log.start, admin.cluster_id, admin.broker_count, admin.connect_groups, admin.topic_names):
            with pytest.raises((BrokerTimeoutError, BrokerUnavailableError)) as caught:
                call()
            assert closed_port in str(caught.value)
        log.stop()
    records = read_ranges(
        settings,
        [OffsetRange("t", 0, 0, 1)],
        isolation=Isolation.READ_UNCOMMITTED,
        client_id=bench.unique,
        idle_timeout_s=0.5,
    )
    with pytest.raises((BrokerError, ReadToEndTimeoutError)):
        list(records)
    assert capfd.readouterr().err == ""
