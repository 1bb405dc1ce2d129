"""Keys in several partitions of one topic: every reader follows the one rule, whatever the order of the partitions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_share.contents.group_room import GroupRoom
from connect_share.contents.groups import TopicFold
from connect_share.model.keys import ClusterGroupId
from connect_share.model.murmur2 import partition_for
from connect_share.model.offsets import OffsetFold
from connect_share.model.places import KeyPlaces
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.model.status import StatusFold, StatusSnapshot
from connect_share.replay import replay_offsets, replay_status
from connect_share.sealing import KeyRing
from connect_share.sealing.cipher import Cipher
from tests.support.long_forms import LONG
from tests.support.records import value_of

GROUP = ClusterGroupId("g")
LAYOUTS = 4_000 if LONG else 100
KEYS = KeyRing([(1, bytes(32))])

Entry = tuple[int, int, int | None]
"""Partition, time and number; ``None`` is a removal."""
Layout = tuple[int, int, list[Entry], random.Random]
"""Partitions, which of some keys, the records of each partition in order, and what mixes the partitions."""


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    partitions = draw(st.integers(1, 6))
    place, number = st.integers(0, partitions - 1), st.none() | st.integers(1, 5)
    entries = draw(st.lists(st.tuples(place, st.integers(1, 6), number), min_size=1, max_size=8))
    return partitions, draw(st.integers(0, 9)), entries, draw(st.randoms(use_true_random=False))


def mixed(entries: Sequence[Entry], chance: random.Random) -> list[Entry]:
    """Return the entries in another order of the partitions, each partition in its own order."""
    queues: dict[int, list[Entry]] = {}
    for entry in entries:
        queues.setdefault(entry[0], []).append(entry)
    order = []
    while queues:
        place = chance.choice(sorted(queues))
        order.append(queues[place].pop(0))
        if not queues[place]:
            del queues[place]
    return order


def counting(key: bytes, partitions: int, entries: Iterable[Entry], *, sealed: bool = False) -> Entry:
    """Return what counts, said as slowly as the rule is written; a sealed value is no older than what it replaces."""
    newest: dict[int, Entry] = {}
    for entry in entries:
        if not sealed or entry[1] >= newest.get(entry[0], entry)[1]:
            newest[entry[0]] = entry
    latest = max(entry[1] for entry in newest.values())
    equal = {entry[0]: entry for entry in newest.values() if entry[1] == latest}
    placed = partition_for(key, partitions)
    return equal[placed] if placed in equal else equal[min(equal)]


def offset_key(number: int) -> bytes:
    return b'g.["c",{"p":%d}]' % number


def offset_records(key: bytes, order: Sequence[Entry]) -> list[Record]:
    return [
        Record("t", part, at, time_ms, key, None if number is None else b'{"n":%d}' % number)
        for at, (part, time_ms, number) in enumerate(order)
    ]


def status_records(key: bytes, order: Sequence[Entry]) -> list[Record]:
    def value(number: int | None) -> bytes | None:
        state = ("UNASSIGNED", "RUNNING", "DESTROYED")[(number or 0) % 3]  # a task's RUNNING 4 outdoes UNASSIGNED 3
        status = {"state": state, "trace": None, "worker_id": "w:8083", "generation": number}
        return None if number is None else value_of(status)

    return [Record("t", part, at, ms, key, value(number)) for at, (part, ms, number) in enumerate(order)]


def sealed_records(key: bytes, order: Sequence[Entry]) -> list[Record]:
    cipher = Cipher(KEYS, TopicType.OFFSET)
    return [
        # The record's own time is a stranger's.
        replace(each, timestamp_ms=9 - each.timestamp_ms, value=cipher.seal(key, each.value, each.timestamp_ms))
        for each in offset_records(key, order)
    ]


def number_in(found: bytes | None) -> int | None:
    return None if found is None else int(json.loads(found)["n"])


def through_checkpoints(kind: type[OffsetFold | StatusFold], partitions: int, records: Iterable[Record]) -> Any:
    fold = kind(GROUP)
    for record in records:
        saved = json.loads(json.dumps(fold.saved()))
        fold = kind(GROUP)
        fold.restore(saved)
        fold.places.partitions = lambda: partitions
        fold.apply(record)
    return fold


def by_replay(key: bytes, partitions: int, order: Sequence[Entry]) -> int | None:
    return number_in(replay_offsets(offset_records(key, order), GROUP, partitions=partitions).raw.get(key[2:]))


def by_sealed_replay(key: bytes, partitions: int, order: Sequence[Entry]) -> int | None:
    replayed = replay_offsets(sealed_records(key, order), GROUP, keys=KEYS, partitions=partitions)
    return number_in(replayed.raw.get(key[2:]))


def by_checkpoint(key: bytes, partitions: int, order: Sequence[Entry]) -> int | None:
    return number_in(through_checkpoints(OffsetFold, partitions, offset_records(key, order)).values.get(key[2:]))


def by_console(key: bytes, partitions: int, order: Sequence[Entry]) -> int | None:
    fold = TopicFold("t", TopicType.OFFSET, partitions=lambda: partitions, room=GroupRoom())
    fold.apply(offset_records(key, order))
    return number_in(fold.contents().groups[GROUP].raw.get(key[2:]))


def generation_in(found: StatusSnapshot, key: bytes) -> int | None:
    task = found.task_status(ConnectorTaskId("c", int(key[-1:])))
    return getattr(task or found.connector_status(f"c{key[-1:].decode()}"), "generation", None)


def by_statuses(key: bytes, partitions: int, order: Sequence[Entry]) -> int | None:
    return generation_in(replay_status(status_records(key, order), GROUP, partitions=partitions), key)


def by_status_checkpoint(key: bytes, partitions: int, order: Sequence[Entry]) -> int | None:
    return generation_in(through_checkpoints(StatusFold, partitions, status_records(key, order)).snapshot(), key)


READERS: dict[str, tuple[Callable[[bytes, int, Sequence[Entry]], int | None], Callable[[int], bytes]]] = {
    "offsets": (by_replay, offset_key),
    "sealed offsets": (by_sealed_replay, offset_key),
    "offsets of a checkpoint": (by_checkpoint, offset_key),
    "console": (by_console, offset_key),
    "statuses": (by_statuses, lambda number: b"g.status-connector-c%d" % number),
    "statuses of a checkpoint": (by_status_checkpoint, lambda number: b"g.status-connector-c%d" % number),
    "tasks": (by_statuses, lambda number: b"g.status-task-c-%d" % number),
    "tasks of a checkpoint": (by_status_checkpoint, lambda number: b"g.status-task-c-%d" % number),
}


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=LAYOUTS)
@given(layout=layouts())
def test_every_reader_follows_the_rule_whatever_the_order_of_partitions(reader: str, layout: Layout) -> None:
    (partitions, number, entries, chance), (read, key_of) = layout, READERS[reader]
    key = key_of(number)
    counts = counting(key, partitions, entries, sealed=read is by_sealed_replay)
    alone = read(key, partitions, [entry for entry in entries if entry[0] == counts[0]])  # what a move copies
    assert read(key, partitions, mixed(entries, chance)) == alone
    assert alone == counts[2] or b"status-task" in key


@settings(max_examples=LAYOUTS)
@given(layout=layouts(), now_ms=st.integers(0, 7))
def test_a_writer_finds_every_place_where_a_record_would_count(layout: Layout, now_ms: int) -> None:
    partitions, number, entries, chance = layout
    key, places = offset_key(number), KeyPlaces(lambda: partitions)
    counts: dict[bytes, bytes | None] = {}
    records = offset_records(key, mixed(entries, chance))
    for record in records:
        counts[key] = places.take(key, record, counts.get).value
    newest, placed = {entry[0]: entry for entry in entries}, partition_for(key, partitions)
    living = {part for part, _, number in newest.values() if number is not None}
    later = {part for part, time_ms, number in newest.values() if number is None and time_ms > now_ms}
    assert (places.living(key), places.placed(key, key)) == (living, placed)
    assert places.others(key, placed) == living - {placed}
    assert places.others(key, placed, now_ms) == (living | later) - {placed}
    elsewhere = [time_ms for part, time_ms, _ in newest.values() if part != placed]
    assert places.newest_ms_of_others(key, placed) == max(elsewhere, default=-1)
    assert places.in_several() == ([key] if len(living) > 1 else [])
    replaced = newest.keys() - {counting(key, partitions, entries)[0]}
    assert places.replaced() == {part: {key} for part in replaced}
    assert {record.partition for record in records if places.is_replaced(key, record)} == replaced
