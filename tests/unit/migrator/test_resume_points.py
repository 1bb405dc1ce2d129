"""Where an interrupted copy goes on, by what is at the destination."""

from __future__ import annotations

from dataclasses import replace

from connect_share.kafka.facts import ranges_since
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.transform.rules import KeyTransform
from connect_share.transform.sealed import NO_SEALING, Opener
from migrator.copy.existing_records import ExistingRecords, ResumePoint

TRANSFORM = KeyTransform.between(TopicType.OFFSET, None, ClusterGroupId("g"))


def sent(number: int, value: bytes | None = b"{}") -> Record:
    return Record("shared", 0, 0, 1, b'g.["c",{"n":%d}]' % number, value)


def length(records: list[Record], present: list[tuple[int, Record]]) -> int:
    """How many of the records count as there, of a slice that sends these to one partition."""
    found = [replace(record, offset=offset) for offset, record in present]
    existing = ExistingRecords.read(found, TRANSFORM, Opener(NO_SEALING, TRANSFORM.at_destination()))
    return existing.resume_point(records, 1).lengths.get(0, 0)


def test_what_lies_before_the_first_that_is_missing_stays() -> None:
    a, b, c = (sent(number) for number in range(3))
    assert length([a, b, c], [(5, a), (6, b)]) == 2
    assert length([a, b, c], [(5, a), (7, c)]) == 1


def test_an_identical_record_that_the_cleaner_has_left_stands_for_both() -> None:
    a, b = sent(0), sent(1)
    assert length([a, a, b], [(5, a), (6, b)]) == 3


def test_the_span_of_a_slice_begins_with_what_was_there() -> None:
    point = ResumePoint({0: 1, 1: 1}, 2, {0: (3, 5), 1: (2, 9)})
    assert point.spans({0: (9, 12)}) == {0: (3, 12), 1: (2, 9)}


def test_ranges_begin_where_it_was_noted_or_at_the_beginning() -> None:
    assert ranges_since("t", {1: 4, 2: 7}, {0: 1, 1: 5, 2: 7}) == [OffsetRange("t", 0, 0, 1), OffsetRange("t", 1, 4, 5)]
