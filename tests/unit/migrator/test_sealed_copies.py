"""Copies between plain and sealed groups: what readers of both sides believe, and what a comparison says of it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_share.errors import ConfigError
from connect_share.model.keys import ClusterGroupId, own_key
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KEYS_PROPERTY, KeyRing, SealingMode, TopicSeals
from connect_share.sealing.cipher import is_sealed
from connect_share.transform.rules import KeyTransform, SkipReason
from connect_share.transform.sealed import NO_SEALING, Opener, Resealer, Sealing, SealTimes
from migrator.copy.copy_job import Tally, rewritten
from migrator.copy.existing_records import ExistingRecords
from migrator.verify.equality import compare_states
from migrator.verify.verification import VerifyJob
from tests.support.histories import Draw, History, by_partition, histories
from tests.support.sealed import key_text, sealed
from tests.support.sides import held, silence, slice_of

__all__ = ["silence"]

GROUP, OTHER = "g.h", "new.home"
KEYS, NEW_KEYS = KeyRing.parse(key_text(7)), KeyRing.parse(key_text(8))
SEALED, RESEALED = Sealing(KEYS, SealingMode.REQUIRED), Sealing(NEW_KEYS, SealingMode.REQUIRED)
PARTITIONS = {TopicType.CONFIG: 1, TopicType.STATUS: 2, TopicType.OFFSET: 3}
MINUTES_MS = 120_000
Side = tuple[str | None, Sealing]
SOURCES: tuple[Side, ...] = ((None, NO_SEALING), (GROUP, NO_SEALING), (GROUP, SEALED))
DESTINATIONS: tuple[Side, ...] = (*SOURCES, (GROUP, RESEALED), (OTHER, SEALED), (OTHER, NO_SEALING))
every_topic = pytest.mark.parametrize("topic_type", TopicType)


def transform_of(topic_type: TopicType, source: Side, destination: Side) -> KeyTransform:
    group = None if destination[0] is None else ClusterGroupId(destination[0])
    return KeyTransform.between(topic_type, source[0], group)


def laid(records: Sequence[Record]) -> list[Record]:
    """The records with the offsets of their places."""
    ends = [0] * 8
    found = []
    for record in records:
        found.append(replace(record, offset=ends[record.partition]))
        ends[record.partition] += 1
    return found


def attacked(draw: Draw, topic_type: TopicType, records: Sequence[Record], side: Side) -> list[Record]:
    """The same records as the group has sealed them, with what others have written between them."""
    group, sealing = side
    if sealing.keys is None or group is None:
        return list(records)
    found: list[Record] = []
    older: dict[bytes, Record] = {}
    for number, record in enumerate(records):
        if record.key is None or own_key(topic_type, record.key, ClusterGroupId(group)) is None:
            found.append(record)
            continue
        good = sealed(record, topic_type, written_ms=record.timestamp_ms + number * MINUTES_MS, keys=sealing.keys)
        found.append(good)
        attacks = [replace(good, value=value) for value in (b'{"evil":1}', None, b"\1garbage", b"\1" + b"x" * 60)][:3]
        if record.key in older:
            attacks.append(older[record.key])
        found += draw(st.lists(st.sampled_from(attacks), max_size=2))
        older.setdefault(record.key, good)
    return laid(found)


def copied(
    transform: KeyTransform, source: Side, destination: Side, records: Sequence[Record], *, fold: bool
) -> list[Record]:
    """What a copy writes, where a producer puts it."""
    written = []
    for log in by_partition(records):
        resealer = Resealer(transform, source[1], destination[1], SealTimes())
        part = slice_of(transform, log[0].partition, PARTITIONS, fold=fold)
        for record in rewritten(part, log, Tally(), resealer=resealer):
            sent = resealer.sealed(record)
            number = partition_for(sent.key or b"", PARTITIONS[transform.topic_type])
            written.append(replace(sent, topic="copy", partition=number))
        resealer.add_times_to(SealTimes())
    return laid(written)


@settings(max_examples=150, deadline=None)
@given(
    history=histories(),
    topic_type=st.sampled_from(TopicType),
    source=st.sampled_from(SOURCES),
    destination=st.sampled_from(DESTINATIONS),
    fold=st.booleans(),
    data=st.data(),
)
def test_both_sides_believe_the_same(
    history: History, topic_type: TopicType, source: Side, destination: Side, fold: bool, data: st.DataObject
) -> None:
    originals = history.records(topic_type, source[0], PARTITIONS[topic_type])
    there = attacked(data.draw, topic_type, originals, source)
    transform = transform_of(topic_type, source, destination)
    here = copied(transform, source, destination, there, fold=fold)
    assert VerifyJob(transform, held(there, source[1]), held(here, destination[1]), fold=fold).run() == []
    opened = here
    if destination[1].keys is not None:
        group = ClusterGroupId(destination[0] or "")
        reader = TopicSeals(topic_type, group, destination[1].keys)
        opened = [*reader.open_all(here)]
        assert not reader.refused
        assert all(is_sealed(record.value) for record in here)
        refused = [
            record for record in here if reader.open(record) is None
        ]  # once more from the beginning: what is old
        newest = {record.key: record for record in here}
        assert not [record for record in refused if newest[record.key] is record]
    if not (fold and topic_type is TopicType.CONFIG):  # which heals
        sides = {"cluster_group_id": destination[0], "source_cluster_group_id": source[0]}
        assert compare_states(topic_type, originals, opened, **sides) == []


@every_topic
def test_an_old_value_of_the_copy_is_refused_like_that_of_the_source(topic_type: TopicType) -> None:
    key = {TopicType.CONFIG: b"connector-c", TopicType.STATUS: b"status-connector-c", TopicType.OFFSET: b'["c",{}]'}
    plain = [
        Record("source", 0, at, 1_700_000_000_000 + at * MINUTES_MS, b"g.h." + key[topic_type], b'{"n":%d}' % at)
        for at in range(3)
    ]
    for source in SOURCES[1:]:
        there = plain
        if source[1].keys is not None:
            there = [sealed(each, topic_type, written_ms=each.timestamp_ms, keys=KEYS) for each in plain]
        for destination in ((GROUP, RESEALED), (OTHER, SEALED)):
            here = copied(transform_of(topic_type, source, destination), source, destination, there, fold=False)
            reader = TopicSeals(topic_type, ClusterGroupId(destination[0]), destination[1].keys)
            assert [record.value for record in reader.open_all(here)] == [each.value for each in plain]
            again = reader.open(here[0])
            assert again is None or again.key != here[0].key


@every_topic
def test_what_cannot_be_opened_is_never_equal(topic_type: TopicType) -> None:
    """Both sides hold the same bytes, and whoever has no keys sees two empty groups."""
    key = {TopicType.CONFIG: b"connector-c", TopicType.STATUS: b"status-connector-c", TopicType.OFFSET: b'["c",{}]'}
    record = Record("t", 0, 0, 1, b"g.h." + key[topic_type], b'{"properties":{}}')
    there = [sealed(record, topic_type, keys=KEYS)]
    transform = transform_of(topic_type, (GROUP, NO_SEALING), (GROUP, NO_SEALING))
    for fold in (False, True):
        for narrowed in (False, True):
            for sealing in (NO_SEALING, RESEALED):
                side = held(there, sealing)
                with pytest.raises(ConfigError, match=r"t: 1 value\(s\) of g\.h are sealed with key 7") as caught:
                    VerifyJob(transform, side, side, narrowed=narrowed, fold=fold).run()
                assert caught.value.property_name == KEYS_PROPERTY
    as_is = held(there, Sealing(as_is=True))
    assert VerifyJob(transform, as_is, as_is).run() == []
    other = held([sealed(record, topic_type, keys=KEYS)], Sealing(as_is=True))  # the same, sealed once more
    assert [each.kind for each in VerifyJob(transform, as_is, other).run()] == ["sealed_value"]
    replaced = held(
        [*there, replace(record, offset=1)], NO_SEALING
    )  # a plain group, and a value that was never its own
    assert VerifyJob(transform, replaced, held([record], NO_SEALING)).run() == []


@every_topic
def test_an_interrupted_copy_is_recognised_by_what_it_says(topic_type: TopicType) -> None:
    originals = [
        Record("source", 0, at, 1_700_000_000_000 - at, key, value)
        for at, (key, value) in enumerate(
            {
                TopicType.CONFIG: [(b"connector-c", b"{}"), (b"connector-c", None), (b"connector-c", b'{"a":1}')],
                TopicType.STATUS: [(b"status-connector-c", b"{}"), (b"status-connector-c", None)],
                TopicType.OFFSET: [(b'["c",{}]', b"{}"), (b'["c",{}]', None), (b'["c",{}]', b"")],
            }[topic_type]
        )
    ]
    source, destination = (None, NO_SEALING), (GROUP, SEALED)
    transform = transform_of(topic_type, source, destination)
    whole = copied(transform, source, destination, originals, fold=False)
    for many in range(len(whole) + 1):
        opener = Opener(SEALED, transform.at_destination())
        garbage = Record("copy", whole[0].partition, many, 1, whole[0].key, b"{}")
        existing = ExistingRecords.read([*whole[:many], garbage], transform, opener)
        assert existing.count == many
        resealer = Resealer(transform, NO_SEALING, SEALED, SealTimes().behind(existing.newest))
        sent = [
            *rewritten(
                slice_of(transform, 0, PARTITIONS, fold=False),
                originals,
                Tally(),
                resealer=resealer,
            )
        ]
        point = existing.resume_point(sent, PARTITIONS[topic_type])
        rest = [resealer.sealed(record) for record in sent if not point.passes(record)]
        assert len(rest) == len(whole) - many
        reader = TopicSeals(topic_type, ClusterGroupId(GROUP), KEYS)
        assert len([*reader.open_all([*whole[:many], *rest])]) == len(whole)


def test_what_a_job_holds_travels_and_is_not_shown() -> None:
    assert pickle.loads(pickle.dumps(SEALED)) == SEALED
    text = key_text(7).partition(":")[2]
    assert text not in repr(SEALED)
    assert SEALED.salt
    assert SEALED.salt != RESEALED.salt
    times = SealTimes({b"hunter2": 1}, {b"hunter2": 2})
    assert pickle.loads(pickle.dumps(times)) == times
    assert "hunter2" not in repr(times)


def test_refused_records_are_counted() -> None:
    transform = transform_of(TopicType.CONFIG, (GROUP, SEALED), (OTHER, SEALED))
    records = [
        Record("s", 0, at, 1, key, value)
        for at, (key, value) in enumerate(
            [
                (b"g.h.connector-c", b"{}"),
                (b"g.h.connector-c", None),
                (b"g.h.session-key", b"{}"),
                (b"x.connector-c", b"{}"),
            ]
        )
    ]
    tally = Tally()
    resealer = Resealer(transform, SEALED, SEALED, SealTimes())
    assert [*rewritten(slice_of(transform, 0, PARTITIONS, fold=False), records, tally, resealer=resealer)] == []
    assert tally.skipped == {SkipReason.REFUSED: 2, SkipReason.SESSION_KEY: 1, SkipReason.FOREIGN_GROUP: 1}
