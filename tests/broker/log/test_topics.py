"""Creating topics: never with fewer replicas, never twice, compact in any case; what is asked of a cluster."""

from __future__ import annotations

import logging
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from connect_share.errors import (
    BrokerError,
    BrokerTimeoutError,
    BrokerUnavailableError,
    PartitionCountError,
    ReadToEndTimeoutError,
    ReplicationFactorError,
    StoreClosedError,
    TopicNotCompactedError,
)
from connect_share.kafka import client
from connect_share.kafka.admin import Admin, topic_id_text
from connect_share.kafka.client import Deadline
from connect_share.kafka.create import TopicSpec, await_in_sync, check_cleanup_policy, ensure_topic
from connect_share.kafka.read import Reader
from connect_share.log.kafka_based_log import KafkaBasedLog
from connect_share.log.protocol import RecordFeed
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import OffsetRange, TopicType
from connect_share.worker_config import ClientSettings, Isolation
from tests.support.waiting import await_that


def test_created_as_asked(bench: Any) -> None:
    spec = replace(
        bench.spec(partitions=4), configs={"segment.ms": "7777000", "cleanup.policy": "delete", "retention.ms": "1000"}
    )
    assert ensure_topic(bench.admin, spec) is True
    described = bench.admin.describe_topics([bench.topic])[bench.topic]
    assert [partition.id for partition in described.partitions] == [0, 1, 2, 3]
    assert all(len(partition.replicas) == len(partition.isr) == 1 for partition in described.partitions)
    configs = bench.admin.topic_configs(bench.topic)
    assert configs["cleanup.policy"] == "compact"
    assert configs["segment.ms"] == "7777000"
    assert configs["retention.ms"] == "1000"
    assert ensure_topic(bench.admin, spec) is False


def test_broker_defaults(bench: Any) -> None:
    assert ensure_topic(bench.admin, bench.spec(partitions=-1, replicas=-1)) is True
    described = bench.admin.describe_topics([bench.topic])[bench.topic]
    assert len(described.partitions) >= 1
    assert bench.admin.topic_configs(bench.topic)["cleanup.policy"] == "compact"


def test_more_replicas_than_brokers(bench: Any, caplog: pytest.LogCaptureFixture) -> None:  # case 60
    brokers = bench.admin.broker_count()
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, "connect_share.kafka"), pytest.raises(ReplicationFactorError) as caught:
        ensure_topic(bench.admin, bench.spec(replicas=brokers + 2), timeout_s=1.0)
    assert time.monotonic() - began >= 0.3  # it was tried again
    for word in (bench.topic, f"{brokers + 2} replicas", f"{brokers} broker", "status.storage.replication.factor"):
        assert word in str(caught.value)
    assert caught.value.topic == bench.topic
    assert bench.admin.describe_topics([bench.topic]) == {}
    (said,) = [record.getMessage() for record in caplog.records if record.name.startswith("connect_share.kafka")]
    assert f"needs {brokers + 2} brokers, {brokers} {'is' if brokers == 1 else 'are'} up" in said


def test_a_cluster_that_chose_fewer_replicas(bench: Any) -> None:
    """As managed ones may: here the topic was made with fewer."""
    bench.create(2)
    look = partial(await_in_sync, bench.admin, bench.topic, deadline=Deadline.after(60))
    with pytest.raises(
        ReplicationFactorError, match=r"1 of the 3 replicas .* set the replication factor to 1 "
    ) as caught:
        look(replicas=3)
    assert caught.value.topic == bench.topic
    look(replicas=1)
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(StoreClosedError, match=f"^stopped before topic {bench.topic} had all its replicas$"):
        look(replicas=1, partitions=3, stopping=stopping)


def test_stopped_while_brokers_are_missing(bench: Any, collected: Any, caplog: pytest.LogCaptureFixture) -> None:
    log = bench.log(collected(), spec=bench.spec(replicas=bench.admin.broker_count() + 2))
    with ThreadPoolExecutor(1) as threads:
        starting = threads.submit(log.start)
        await_that(lambda: f"Topic {bench.topic} needs" in caplog.text, what="trying again")
        log.stop()
        error = starting.exception(120)
    assert isinstance(error, StoreClosedError)
    assert str(error) == f"stopped before topic {bench.topic} could be created"
    assert bench.admin.describe_topics([bench.topic]) == {}


def test_several_workers_create_the_same_topic(bench: Any) -> None:
    gate = threading.Barrier(6)

    def create(number: int) -> list[bool]:
        created = []
        with Admin(bench.settings, client_id=f"{bench.unique}-{number}") as admin:
            for turn in range(8):
                gate.wait(300)
                created.append(ensure_topic(admin, bench.spec(topic=f"{bench.topic}-{turn}", partitions=3)))
                assert f"{bench.topic}-{turn}" in admin.describe_topics([f"{bench.topic}-{turn}"])
        return created

    with ThreadPoolExecutor(6) as threads:
        outcomes = list(threads.map(create, range(6)))
    assert [sum(turn) for turn in zip(*outcomes, strict=True)] == [1] * 8


def test_policy_has_to_be_exactly_compact(bench: Any) -> None:  # case 59
    for policy in ("delete", "compact,delete"):
        topic = f"{bench.topic}-{policy.replace(',', '-')}"
        bench.create(topic=topic, configs={"cleanup.policy": policy})
        for topic_type in TopicType:
            with pytest.raises(TopicNotCompactedError) as caught:
                ensure_topic(bench.admin, TopicSpec(topic, topic_type))
            for word in (topic, f"{topic_type.value}.storage.topic", "=compact", f"cleanup.policy={policy}"):
                assert word in str(caught.value)
    bench.create()
    assert ensure_topic(bench.admin, bench.spec()) is False


def test_policy_of_a_topic_that_is_not_there(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "connect_share.kafka"):
        check_cleanup_policy(bench.admin, bench.spec())
    assert "could not be verified" in caplog.text


def test_only_the_config_topic_needs_a_single_partition(bench: Any) -> None:
    bench.create(3)
    assert ensure_topic(bench.admin, bench.spec(kind=TopicType.OFFSET)) is False
    with pytest.raises(PartitionCountError) as caught:
        ensure_topic(bench.admin, bench.spec(kind=TopicType.CONFIG))
    for word in (bench.topic, "config.storage.topic", "3 partitions"):
        assert word in str(caught.value)


def test_settings_of_several_topics_at_once(bench: Any) -> None:
    other = f"{bench.topic}-b"
    bench.create(configs={"segment.ms": "7777000"})
    bench.create(topic=other, configs={"cleanup.policy": "delete"})
    settings = bench.admin.settings_of_topics([other, bench.topic, f"{bench.topic}-none", other])
    assert settings[bench.topic] == bench.admin.topic_configs(bench.topic)
    assert settings[other]["cleanup.policy"] == "delete"
    missing = settings.pop(f"{bench.topic}-none")
    assert isinstance(missing, BrokerError)
    assert client.is_unknown_topic(missing)
    assert settings.keys() == {bench.topic, other}
    assert bench.admin.settings_of_topics([]) == {}


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


def test_topic_id_is_written_as_kafka_writes_it() -> None:
    """Its own files on disk would say the same; here two ways of asking have to agree, for ids with any sign."""

    def raw(high: int, low: int) -> Any:
        return SimpleNamespace(get_most_significant_bits=lambda: high, get_least_significant_bits=lambda: low)

    assert topic_id_text(raw(-1, -1)) == "_____________________w"
    assert topic_id_text(raw(-1, -2)) == "_____________________g"
    assert topic_id_text(raw(0, 1)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert topic_id_text(raw(0, 0)) is None
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
        feed, reader = RecordFeed(), Reader(settings, bench.unique, Isolation.READ_UNCOMMITTED)
        log = KafkaBasedLog(bench.spec(), feed=feed, admin=admin, reader=reader, create_timeout_s=1)
        for call in (log.start, admin.cluster_id, admin.broker_count, admin.connect_groups, admin.topic_names):
            with pytest.raises((BrokerTimeoutError, BrokerUnavailableError)) as caught:
                call()
            assert closed_port in str(caught.value)
        log.stop()
    records = Reader(settings, bench.unique, Isolation.READ_UNCOMMITTED).records([OffsetRange("t", 0, 0, 1)], 0.5)
    with pytest.raises((BrokerError, ReadToEndTimeoutError)):
        list(records)
    assert capfd.readouterr().err == ""
