"""Offsets of a sink connector's consumer group, as Connect's REST gives and takes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from connect_share.errors import UsageError, ValueFormatError
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.runtime import alter_sink_offsets, reset_sink_offsets, sink_group_id, sink_offsets
from connect_share.runtime.sinks import ConsumerGroupsAdmin
from tests.support.kafka import TestBroker
from tests.support.topics import create_known
from tests.support.waiting import await_that


@pytest.fixture
def admin(broker: TestBroker) -> Iterator[ConsumerGroupsAdmin]:
    with ConsumerGroupsAdmin(broker.client_settings, client_id="tests") as admin:
        yield admin


def pair(topic: str, partition: object, offset: object) -> tuple[dict[str, object], dict[str, object]]:
    return {"kafka_topic": topic, "kafka_partition": partition}, {"kafka_offset": offset}


def test_offsets_are_read_changed_and_removed_unless_the_sink_runs(
    broker: TestBroker, admin: ConsumerGroupsAdmin, unique: str
) -> None:
    group = sink_group_id("sink", {"consumer.override.group.id": unique})
    assert group == unique
    assert sink_offsets(admin, group) == []
    reset_sink_offsets(admin, group)  # there is none
    with broker.admin() as topics:
        create_known(topics, NewTopicRequest(unique, 3, 1))
    alter_sink_offsets(admin, group, [pair(unique, "0" * 11 + "2", 7), pair(unique, "0", "5")])
    found = sink_offsets(admin, group)
    assert found == [
        {"partition": {"kafka_topic": unique, "kafka_partition": number}, "offset": {"kafka_offset": offset}}
        for number, offset in ((0, 5), (2, 7))
    ]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        consumer.subscribe([unique])
        await_that(lambda: consumer.poll(0.1) or consumer.assignment(), what="assigned")
        with pytest.raises(UsageError, match="has members"):
            alter_sink_offsets(admin, group, [pair(unique, 0, 1)])
        with pytest.raises(UsageError, match="has members"):
            reset_sink_offsets(admin, group)
        assert {each.offset for each in consumer.committed([TopicPartition(unique, 0)])} == {5}
    finally:
        consumer.close()
    assert sink_offsets(admin, group) == found
    reset_sink_offsets(admin, group)
    assert sink_offsets(admin, group) == []


WRONG: list[object] = [
    ({"kafka_topic": "t"}, {"kafka_offset": 1}),
    ({"kafka_topic": "", "kafka_partition": 0}, {"kafka_offset": 1}),
    ({"kafka_topic": "t", "kafka_partition": 0, "more": 1}, {"kafka_offset": 1}),
    (None, {"kafka_offset": 1}),
    pair("t", -1, 1),
    pair("t", 2**31, 1),
    pair("t", True, 1),
    pair("t", 0, -1),
    pair("t", 0, 2**63),
    pair("t", 0, "1" * 5_000),
    pair("t", 0, "0" * 20 + "7"),  # not the number of its first digits
    pair("t", 0, None),
    ({"kafka_topic": "t", "kafka_partition": 0}, None),
    ({"kafka_topic": "t", "kafka_partition": 0}, [1]),
]


def test_what_is_no_offset_of_a_sink_changes_nothing(admin: ConsumerGroupsAdmin, unique: str) -> None:
    for wrong in WRONG:
        with pytest.raises(ValueFormatError):
            alter_sink_offsets(admin, unique, [pair(unique, 0, 1), wrong])  # type: ignore[list-item]
    assert sink_offsets(admin, unique) == []
