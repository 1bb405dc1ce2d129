"""The door to the client library, and what is asked of a cluster."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from connect_share.errors import BrokerError, BrokerTimeoutError, BrokerUnavailableError, ReadToEndTimeoutError
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.kafka.read import read_ranges
from connect_share.log.kafka_based_log import KafkaBasedLog
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import OffsetRange
from connect_share.worker_config import ClientSettings, Isolation
from tests.support.connect_member import ConnectMember
from tests.support.waiting import await_that


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


def test_descriptions(bench: Any) -> None:
    bench.create(3)
    found = bench.admin.describe_topics([bench.topic, bench.topic, f"{bench.unique}-none"])
    assert list(found) == [bench.topic]
    described = found[bench.topic]
    assert described.name == bench.topic
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    assert described.topic_id is not None
    assert len(described.topic_id) == 22
    assert not set(described.topic_id) & set("+/=")
    assert bench.admin.describe_topics([]) == {}
    assert bench.topic in bench.admin.topic_names()
    assert bench.admin.broker_count() >= 1
    assert bench.admin.cluster_id()


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


def test_offsets(bench: Any) -> None:
    bench.create(2)
    bench.write([(b"k", b"v")] * 5, partition=1)
    at = [(bench.topic, 0), (bench.topic, 1)]
    assert bench.admin.start_offsets(at) == {at[0]: 0, at[1]: 0}
    assert bench.admin.end_offsets(at) == {at[0]: 0, at[1]: 5}
    with bench.transaction([(b"k", b"v")], partition=1):
        assert bench.admin.end_offsets(at) == {at[0]: 0, at[1]: 6}
        assert bench.admin.end_offsets(at, Isolation.READ_COMMITTED) == {at[0]: 0, at[1]: 5}
    assert bench.admin.end_offsets(at, Isolation.READ_COMMITTED) == {at[0]: 0, at[1]: 7}
    assert bench.admin.end_offsets([]) == {}


def test_offsets_of_what_is_not_there(bench: Any) -> None:
    with pytest.raises(BrokerError, match=bench.topic) as caught:
        bench.admin.end_offsets([(bench.topic, 0)])
    assert client.is_unknown_topic(caught.value)
    bench.create()
    with pytest.raises(BrokerError, match=bench.topic) as caught:
        bench.admin.end_offsets([(bench.topic, 0), (bench.topic, 7)])
    assert caught.value.name == "_UNKNOWN_PARTITION"


def test_creating_twice_and_deleting_twice(bench: Any) -> None:
    bench.create()
    with pytest.raises(BrokerError) as caught:
        bench.admin.create_topic(NewTopicRequest(bench.topic, 1, 1))
    assert caught.value.name == "TOPIC_ALREADY_EXISTS"
    bench.admin.delete_topics([bench.topic, bench.topic])
    await_that(lambda: not bench.admin.describe_topics([bench.topic]), what="gone")
    bench.admin.delete_topics([bench.topic])
    bench.admin.delete_topics([])


def test_connect_groups_and_their_members(bench: Any) -> None:
    group = f"{bench.unique}-group"
    assert group not in bench.admin.connect_groups()
    with ConnectMember(bench.settings.bootstrap_servers, group):
        assert bench.admin.connect_groups()[group] == 1
    await_that(lambda: bench.admin.connect_groups().get(group, 0), lambda members: members == 0, what="left")


@pytest.fixture
def silence() -> Iterator[str]:
    """An address of a server that is no broker: whatever comes is answered with nonsense."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                visitor, _ = server.accept()
            except OSError:
                return
            with visitor, suppress(OSError):  # who asked may be gone by now
                visitor.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.getsockname()[1]}"
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(10)


@pytest.fixture
def closed_port() -> Iterator[str]:
    """An address where no server listens, and none can meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_not_a_broker(
    bench: Any, collected: Any, silence: str, closed_port: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for address in (silence, closed_port):
        settings = ClientSettings({"bootstrap.servers": address})
        began = time.monotonic()
        with Admin(settings, client_id=bench.unique, timeout_s=0.5) as admin:
            log = KafkaBasedLog(
                bench.spec(), sink=collected(), admin=admin, consumer_settings=settings, create_timeout_s=1
            )
            for call in (log.start, admin.cluster_id, admin.broker_count, admin.connect_groups, admin.topic_names):
                with pytest.raises((BrokerTimeoutError, BrokerUnavailableError)) as caught:
                    call()
                assert address in str(caught.value)
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
        assert time.monotonic() - began < 90  # it does not hang
    assert capfd.readouterr().err == ""
