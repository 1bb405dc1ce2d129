"""What every offset store does, whatever it keeps its records in, with the reader and writer of a connector."""

from __future__ import annotations

import pytest

from connect_share import (
    KeyFormatError,
    OffsetBackingStore,
    OffsetStorageReader,
    OffsetStorageWriter,
    StoreClosedError,
    alter_offsets,
    reset_offsets,
)
from connect_share.stores.offsets import wire_key
from tests.contract.conftest import KINDS, Stores
from tests.support.flushes import flush_offsets

# Of the asynchronous storage, readers and writers have tests of their own.
pytestmark = pytest.mark.parametrize("stores", KINDS, indirect=True)

FILE, OTHER = {"file": "in.txt", "shard": 1}, {"file": "other.txt"}


def writer_of(store: OffsetBackingStore) -> OffsetStorageWriter:
    return OffsetStorageWriter(store, "c.1")


def reader_of(store: OffsetBackingStore) -> OffsetStorageReader:
    return OffsetStorageReader(store, "c.1")


def test_what_a_task_flushes_is_what_the_next_one_reads(stores: Stores) -> None:
    store = stores.offsets()
    store.start()
    writer, reader = writer_of(store), reader_of(store)
    assert reader.offset(FILE) is None
    assert not writer.begin_flush()
    flush_offsets(writer, (FILE, {"position": 1}), (FILE, {"position": 2}), (OTHER, None))
    assert reader.offset(FILE) == {"position": 2}
    assert reader.offset(OTHER) is None

    again = stores.offsets()
    again.start()
    assert reader_of(again).offset(FILE) == {"position": 2}
    assert again.connector_partitions("c.1") == [FILE]
    assert reader_of(again).offsets([OTHER, FILE]) == [(OTHER, None), (FILE, {"position": 2})]
    # As in Java, the key is the text: with its members in another order it is another one.
    assert reader_of(again).offset(dict(reversed(FILE.items()))) is None


def test_null_and_empty_maps_and_partitions_that_differ_in_java(stores: Stores) -> None:
    store = stores.offsets()
    store.start()
    partitions = [None, {}, *({"n": value} for value in (1, 1.0, True, "1", 0.0, -0.0, None))]
    flush_offsets(writer_of(store), *((partition, {"position": at}) for at, partition in enumerate(partitions)))
    assert [reader_of(store).offset(partition) for partition in partitions] == [
        {"position": at} for at, _ in enumerate(partitions)
    ]
    flush_offsets(writer_of(store), (None, None), ({}, {}))
    assert (reader_of(store).offset(None), reader_of(store).offset({})) == (None, {})
    assert None not in store.connector_partitions("c.1")


def test_what_is_not_there_and_nothing_at_all(stores: Stores) -> None:
    store = stores.offsets()
    store.start()
    keys = [wire_key(key, store.cluster_group_id) for key in (b'["c.1",{}]', b'["c.2",{}]')]
    assert store.get(keys).result(120) == dict.fromkeys(keys)
    outcomes: list[object] = []
    store.set({}, outcomes.append).result(120)
    assert outcomes == [None]


def test_offsets_are_altered_and_reset(stores: Stores) -> None:
    store = stores.offsets()
    store.start()
    other_order = dict(reversed(FILE.items()))
    flush_offsets(writer_of(store), (FILE, {"position": 1}), (None, {"position": 3}))
    flush_offsets(writer_of(store), (other_order, {"position": 2}))
    flush_offsets(OffsetStorageWriter(store, "c.2"), (FILE, {"position": 4}))
    assert alter_offsets(store, "c.1", [(FILE, {"position": 5}), (OTHER, {"position": 6})]) == 3
    found = [reader_of(store).offset(partition) for partition in (FILE, other_order, OTHER)]
    assert found == [{"position": 5}, {"position": 5}, {"position": 6}]
    assert reset_offsets(store, "c.1") == 4
    assert [reader_of(store).offset(partition) for partition in (FILE, other_order, OTHER, None)] == [None] * 4
    assert store.connector_partitions("c.1") == []
    assert OffsetStorageReader(store, "c.2").offset(FILE) == {"position": 4}
    assert reset_offsets(store, "c.1") == 0


def test_a_key_of_another_group_is_refused(stores: Stores) -> None:
    store = stores.offsets()
    store.start()
    sharing = store.cluster_group_id is not None
    for key in (b'["c.1",{}]', b'another.["c.1",{}]', b"x", b"") if sharing else (b"x",):
        with pytest.raises(KeyFormatError):
            store.set({key: b"{}"}).result(120)
    assert store.connector_partitions("c.1") == []


def test_it_serves_until_its_stop(stores: Stores) -> None:
    store = stores.offsets()
    store.start()
    reader = reader_of(store)
    closed = reader_of(store)
    closed.close()
    closed.close()
    with pytest.raises(StoreClosedError):
        closed.offset(FILE)
    store.stop()
    store.stop()
    with pytest.raises(StoreClosedError):
        store.get([]).result(120)
    with pytest.raises(StoreClosedError):
        reader.offset(FILE)
