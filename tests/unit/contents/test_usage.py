"""What groups cost each other, by figures that can be computed by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.contents.cost_model import CostModel
from connect_share.contents.profile import PartitionCounter, TopicProfile
from connect_share.contents.usage import (
    FRAME_BYTES,
    GroupUsage,
    Recent,
    Usage,
    UsageLimits,
    usage_members,
    usage_of,
)
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType

A, B = ClusterGroupId("a"), ClusterGroupId("b")
MODEL = CostModel(fixed_s=1.0, per_record_s=0.001, per_byte_s=0.0, per_own_record_s=0.0)


def profile(records: dict[str, int]) -> dict[TopicType, TopicProfile]:
    counter = PartitionCounter(TopicType.CONFIG, 0)
    offset = 0
    for group, count in records.items():
        for number in range(count):
            counter.add(offset, 1, f"{group}.connector-{number}".encode(), b"x" * 10)
            offset += 1
    return {TopicType.CONFIG: TopicProfile.of("t", TopicType.CONFIG, [counter.finish()])}


def usage(
    records: dict[str, int], recent: Recent, members: dict[str, int] | None, limits: UsageLimits | None = None
) -> Usage:
    return usage_of(profile(records), {TopicType.CONFIG: recent}, members, MODEL, window_s=100.0, limits=limits)


def test_each_group_has_its_share_of_what_compaction_has_removed() -> None:
    # 400 offsets are gone of 500: what is left tells whose they were.
    found = usage({"a": 30, "b": 10}, Recent(500, {A: 75, B: 25}, {A: 7_500, B: 2_500}), {"a": 2, "b": 3})
    a, b = found.groups
    assert (a.group, a.count.records) == (A, 30)
    assert a.share == pytest.approx(0.75, abs=0.02)
    assert (a.records_per_s, b.records_per_s) == (3.75, 1.25)
    assert a.bytes_per_s == 375.0
    assert a.sent_to_others_per_s == (375.0 + 3.75 * FRAME_BYTES) * 3
    assert b.sent_to_others_per_s == (125.0 + 1.25 * FRAME_BYTES) * 2
    assert a.start_s_of_others == pytest.approx(0.03)
    assert found.workers == 5


def test_brokers_send_with_the_square_of_the_groups_and_starts_grow_with_them() -> None:
    found = usage({"a": 10, "b": 10}, Recent(200, {A: 100, B: 100}, {A: 1_000, B: 1_000}), {"a": 1, "b": 1})
    assert [each.groups for each in found.projections] == [2, 4, 10, 20]
    one = (2 * FRAME_BYTES + 20.0) * 2  # two records of ten bytes, to two workers
    assert [each.egress_bytes_per_s for each in found.projections] == [one, 4 * one, 25 * one, 100 * one]
    assert [each.received_per_s for each in found.projections] == [2, 4, 10, 20]
    assert [round(each.start_s, 3) for each in found.projections] == [1.02, 1.04, 1.1, 1.2]


@pytest.mark.parametrize(
    ("limits", "most", "limited_by"),
    [
        (UsageLimits(1.1, 1e12), 10, "start"),
        (UsageLimits(1e9, 50 * (2 * FRAME_BYTES + 20.0)), 10, "egress"),
        (UsageLimits(1.005, 1.0), 0, "start"),
    ],
)
def test_how_many_fit(limits: UsageLimits, most: int, limited_by: str) -> None:
    recent = Recent(200, {A: 100, B: 100}, {A: 1_000, B: 1_000})
    found = usage({"a": 10, "b": 10}, recent, {"a": 1, "b": 1}, limits)
    assert (found.most_groups, found.limited_by) == (most, limited_by)


def test_nothing_is_invented_where_nothing_is_known() -> None:
    found = usage({"a": 1}, Recent(0, {}, {}), None)
    assert (found.groups[0].sent_to_others_per_s, found.groups[0].members, found.workers) == (None, None, None)
    assert found.projections[0].egress_bytes_per_s is None
    empty = usage_of({}, {}, {}, MODEL, window_s=1.0)
    assert (empty.groups, empty.projections, empty.most_groups) == ([], [], None)


@given(st.integers(0, 10**12), st.dictionaries(st.sampled_from([A, B, None]), st.integers(0, 10**9)))
def test_a_share_is_never_less_than_what_was_seen_nor_more_than_what_was_written(
    offsets: int, seen: dict[ClusterGroupId | None, int]
) -> None:
    recent = Recent(offsets, seen, seen)
    shares = {group: recent.share(group)[0] for group in seen}
    assert all(shares[group] >= seen[group] * 0.999999 for group in seen)
    assert sum(shares.values()) <= max(offsets, sum(seen.values())) * 1.000001


def test_the_columns_of_csv_are_the_members_of_json() -> None:
    (row,) = usage_members(usage({"a": 1}, Recent(1, {A: 1}, {A: 1}), {}))["groups"]
    assert tuple(row) == GroupUsage.NAMES
