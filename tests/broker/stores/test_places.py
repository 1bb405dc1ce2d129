"""Stores on topics to which partitions were added: no acknowledged write is lost, and a key has one state everywhere."""

from __future__ import annotations

import pytest

from connect_share.model.murmur2 import partition_for
from connect_share.model.status import ConnectorStatus, State
from connect_share.stores.alter_offsets import alter_offsets, reset_offsets, stored_offsets
from connect_share.stores.offsets import KafkaOffsetBackingStore
from connect_share.stores.transactional_writer import TransactionalWriter
from tests.broker.stores.conftest import Shared
from tests.support.topics import add_partitions, newest_by_partition, read_topic
from tests.support.waiting import await_that

KEYS = [b'group-a.["c",{"file":"%d"}]' % number for number in range(12)]
MORE = 9


def more_partitions(shared: Shared, kind: str) -> None:
    add_partitions(shared.admin, shared.worker().client_settings(), shared.topics[kind], MORE)


def living(shared: Shared, kind: str) -> dict[bytes, dict[int, bytes]]:
    return newest_by_partition(read_topic(shared.admin, shared.worker().consumer_settings(), shared.topics[kind]))


def set_all(store: KafkaOffsetBackingStore, value: bytes | None) -> None:
    store.set(dict.fromkeys(KEYS, value)).result(120)


def values(store: KafkaOffsetBackingStore) -> set[bytes | None]:
    return set(store.get(KEYS).result(120).values())


def moved() -> list[bytes]:
    return [key for key in KEYS if partition_for(key, 3) != partition_for(key, MORE)]


def test_a_running_store_follows_partitions_that_are_added(shared: Shared) -> None:
    running = shared.offset_store("group-a")
    set_all(running, b'{"n":1}')
    more_partitions(shared, "offset")
    other = shared.offset_store("group-a")  # its producer knows of the new partitions
    set_all(other, b'{"n":2}')
    await_that(lambda: values(running), {b'{"n":2}'}.__eq__, what="what was written into new partitions")
    await_that(lambda: (values(running), len(running.positions()))[1], MORE.__eq__, what="all partitions")
    assert moved()
    # Each copy has the new value: a worker that knows no rule reads the same, whichever it reads last.
    for key, places in living(shared, "offset").items():
        assert set(places.values()) == {b'{"n":2}'}
        assert {partition_for(key, 3), partition_for(key, MORE)} == places.keys()
    assert values(shared.offset_store("group-a")) == {b'{"n":2}'}


@pytest.mark.parametrize("exactly_once", [False, True])
def test_what_is_altered_and_removed_is_so_in_every_partition(shared: Shared, exactly_once: bool) -> None:
    set_all(shared.offset_store("group-a"), b'{"n":1}')
    more_partitions(shared, "offset")
    store, settings = shared.offset_store("group-a"), shared.worker().producer_settings()
    transactional = TransactionalWriter(
        settings, client_id="tests", transactional_id=shared.unique, topic=shared.topics["offset"]
    )
    writer = transactional if exactly_once else None
    pairs = [({"file": str(number)}, {"n": 7}) for number in range(12)]
    alter_offsets(store, "c", pairs, transactional_writer=writer)
    assert {value for places in living(shared, "offset").values() for value in places.values()} == {b'{"n":7}'}
    reset_offsets(store, "c", transactional_writer=writer)
    assert stored_offsets(store, "c") == []
    assert living(shared, "offset") == {}
    assert values(shared.offset_store("group-a")) == {None}


def test_a_status_is_replaced_and_removed_in_every_partition(shared: Shared) -> None:
    names = [f"c{number}" for number in range(12)]
    first = shared.status_store("group-a")
    for name in names:
        first.put(ConnectorStatus(name, State.RUNNING, "w:8083", 1))
    first.flush()
    more_partitions(shared, "status")
    second = shared.status_store("group-a")
    for name in names:
        second.put(ConnectorStatus(name, State.FAILED, "w:8083", 2))
    second.flush()
    third = shared.status_store("group-a")
    assert {third.snapshot().connector_status(name).state for name in names} == {State.FAILED}  # type: ignore[union-attr]
    for name in names:
        third.put(ConnectorStatus(name, State.DESTROYED, "w:8083", 2))
    third.flush()
    assert living(shared, "status") == {}
